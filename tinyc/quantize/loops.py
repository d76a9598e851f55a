# SPDX-License-Identifier: Apache-2.0
"""Which values between a state and what follows it have to be int16: measured with the loop closed.

What a state's rounding does is seen only where it goes round: a sum that grows by less than half a step stands still.
So a few ways are tried, from the cheapest, each as the integer model that runs on from sample to sample.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.ops import is_a
from tinyc.ops.op import Trait
from tinyc.quantize.assign import Groups, is_activation
from tinyc.quantize.calibration import Calibration, Sequences
from tinyc.quantize.convert import quantized
from tinyc.quantize.recipe import FloatDraft, drafts, rounded_to_nearest, widen
from tinyc.quantize.simulate import Batch, sqnr_db
from tinyc.quantize.widths import memories
from tinyc.reference.interpreter import prepare_int

_MEASURED = 512  # steps
_CHANCE_DB = 1.0  # a difference that is not worth the time that int16 takes


def wide_loops(graph: Graph, calibration: Calibration, forced: Collection[str]) -> frozenset[str]:
    """`forced`, and the values of the graph's loops that have to be int16 as well: none, the states, or all that lies
    on the way from a state to the next one. Of those the fewest with which going round costs less than _CHANCE_DB,
    beside single steps from the float model's states, or beside the best way."""
    assert calibration.sequences is not None
    sequences = calibration.sequences.first(_MEASURED)
    inputs = sequences.with_states(graph)
    wanted = Batch(graph).run(inputs)
    draft = drafts(graph, calibration)[False]
    ways: list[frozenset[str]] = []
    for more in (frozenset[str](), states_of(draft.graph), loop_of(draft.graph)):
        way = frozenset(forced) | _able(draft.graph, more)
        if way not in ways:
            ways.append(way)
    if len(ways) == 1:
        return ways[0]
    decibels = []
    for way in ways:
        integer = _integers(draft, way)
        step, loop = Batch(integer).run(inputs), closed_loop(integer, sequences)
        decibels.append(_worst(wanted, loop))
        if decibels[-1] >= _worst(wanted, step) - _CHANCE_DB:
            return way
    return next(way for way, db in zip(ways, decibels, strict=True) if db >= max(decibels) - _CHANCE_DB)


def _integers(draft: FloatDraft, wide: Collection[str]) -> Graph:
    return rounded_to_nearest(widen(draft, wide), "minmax")


def _worst(wanted: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """SQNR in dB of the output that has the least."""
    return min(sqnr_db(wanted[name], found[name]) for name in wanted)


def closed_loop(integer: Graph, sequences: Sequences) -> dict[str, Array]:
    """The outputs of the integer model as reals, [samples, *shape], each run with the state that the last one left."""
    inputs = {}
    for name in integer.inputs:
        value, array = integer.values[name], sequences.inputs[name]
        inputs[name] = array if value.quant is None else quantized(array, value.quant, value.dtype)
    found = sequences.run(prepare_int(integer, Numerics.OURS), inputs)
    quants = {name: integer.values[name].quant for name in found}
    return {name: array if (q := quants[name]) is None else q.dequantize(array) for name, array in found.items()}


def states_of(graph: Graph) -> frozenset[str]:
    """The states, before and after a run."""
    return frozenset(name for state in graph.states for name in (state.name, state.after))


def loop_of(graph: Graph) -> frozenset[str]:
    """All values that depend on a state and that a state depends on, and the states."""
    onwards, back = {state.name for state in graph.states}, {state.after for state in graph.states}
    for node in graph.nodes:
        if onwards.intersection(node.inputs):
            onwards.update(node.outputs)
    for node in reversed(graph.nodes):
        if back.intersection(node.outputs):
            back.update(node.inputs)
    return frozenset(onwards & back) | states_of(graph)


def _able(graph: Graph, names: Collection[str]) -> frozenset[str]:
    """Those of the values that can be int16: no operator without such a form makes one of their quantization."""
    groups = Groups(graph)
    narrow = {
        groups.of(name)
        for node in graph.nodes
        if not is_a(node, Trait.INT16)
        for name in node.outputs
        if name not in memories(node)
    }
    return frozenset(name for name in names if is_activation(graph, name) and groups.of(name) not in narrow)
