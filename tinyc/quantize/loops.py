# SPDX-License-Identifier: Apache-2.0
"""Which values between a state and what follows it have to be int16: measured with the loop closed.

What a state's rounding does is seen only where it goes round: a sum that grows by less than half a step stands still.
So a few ways are tried, from the cheapest, each as the integer model that runs on from sample to sample. Where none is
good enough, the fault lies before the loop, whose state adds up what every step gets wrong: values that alone cost too
much, once around, get 16 bits too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.ops import is_a
from tinyc.ops.op import Trait
from tinyc.quantize.calibration import Calibration, Sequences
from tinyc.quantize.convert import quantized
from tinyc.quantize.correct import correct_biases
from tinyc.quantize.groups import Groups, is_activation
from tinyc.quantize.recipe import FloatDraft, drafts, rounded_to_nearest, widen
from tinyc.quantize.search import with_float_weights
from tinyc.quantize.simulate import Batch, sqnr_db
from tinyc.quantize.widths import memories
from tinyc.reference.interpreter import prepare_int

_MEASURED = 512  # steps
_CHANCE_DB = 1.0  # a difference that is not worth the time that int16 takes
_ENOUGH_DB = 30.0  # closed loop, below which values before the loop are looked at
_ALONE_DB = 36.0  # of a value in 8 bits with everything else in float: a quarter of the noise of _ENOUGH_DB
_LOOKED_AT = 96  # steps, for each value


def wide_loops(graph: Graph, calibration: Calibration, forced: Collection[str]) -> frozenset[str]:
    """`forced`, and the values of the graph's loops that have to be int16 as well: none, the states, or all that lies
    on the way from a state to the next one. Of those the fewest with which going round costs less than _CHANCE_DB,
    beside single steps from the float model's states, or beside the best way."""
    assert calibration.sequences is not None
    sequences = calibration.sequences.first(_MEASURED)
    inputs = sequences.with_states(graph)
    expected = Batch(graph).run(inputs)
    draft = drafts(graph, calibration)[False]
    ways: list[frozenset[str]] = []
    for more in (frozenset[str](), states_of(draft.graph), loop_of(draft.graph)):
        way = frozenset(forced) | _able(draft.graph, more)
        if way not in ways:
            ways.append(way)
    decibels = []
    for way in ways if len(ways) > 1 else ():
        integer = _integers(draft, way)
        step, loop = Batch(integer).run(inputs), closed_loop(integer, sequences)
        decibels.append(_worst(expected, loop))
        if decibels[-1] >= _worst(expected, step) - _CHANCE_DB:
            return _with_those_before(draft, calibration, way, expected)
    least = max(decibels, default=0.0) - _CHANCE_DB
    best = next((way for way, db in zip(ways, decibels, strict=False) if db >= least), ways[0])
    return _with_those_before(draft, calibration, best, expected)


def _with_those_before(
    draft: FloatDraft, calibration: Calibration, way: frozenset[str], expected: Mapping[str, Array]
) -> frozenset[str]:
    """The way; where its loop is below _ENOUGH_DB, with the values that alone are below _ALONE_DB, if that helps."""
    assert calibration.sequences is not None
    sequences = calibration.sequences.first(_MEASURED)
    error = _worst(expected, closed_loop(_corrected(draft, calibration, way), sequences))
    if error >= _ENOUGH_DB:
        return way
    more = way | _able(draft.graph, _costly(draft, way, sequences.first(_LOOKED_AT)))
    if more == way:
        return way
    better = _worst(expected, closed_loop(_corrected(draft, calibration, more), sequences))
    return more if better > error + _CHANCE_DB else way


def _corrected(draft: FloatDraft, calibration: Calibration, wide: Collection[str]) -> Graph:
    """As `_integers`, with corrected biases: what is lost of small values has a mean, and the loop adds it up."""
    widened = widen(draft, wide)
    means = {name: stats.mean for name, stats in widened.stats.items()}
    return correct_biases(widened.graph, rounded_to_nearest(widened, "minmax"), means, calibration)


def _costly(draft: FloatDraft, wide: Collection[str], sequences: Sequences) -> frozenset[str]:
    """Values of 8 bits that alone, everything else in float, leave less than _ALONE_DB at an output."""
    widened = widen(draft, wide)
    integer = rounded_to_nearest(widened, "minmax")
    batch = with_float_weights(widened.graph, integer)
    groups, quants = Groups(widened.graph), batch.quants
    members: dict[str, set[str]] = {}
    for name in quants:
        if integer.values[name].dtype == "s8" and name in draft.graph.values:
            members.setdefault(groups.of(name), set()).add(name)
    begin = {state.name: draft.graph.initial(state) for state in draft.graph.states}
    batch.quants = {}
    expected = _simulated(batch, begin, sequences)
    costly: set[str] = set()
    for names in members.values():
        batch.quants = {name: quants[name] for name in names}
        if _worst(expected, _simulated(batch, begin, sequences)) < _ALONE_DB:
            costly |= names
    return frozenset(costly)


def _simulated(batch: Batch, begin: Mapping[str, Array], sequences: Sequences) -> dict[str, Array]:
    """Outputs [samples, *shape] of runs in reals, each with the state that the last one left. begin: states after a
    reset."""
    graph, rows = batch.graph, []
    states: dict[str, Array] = {}
    for index in range(len(sequences)):
        if index in sequences.starts:
            states = {name: array[None] for name, array in begin.items()}
        inputs = {name: sequences.inputs[name][index : index + 1] for name in graph.inputs}
        run = batch.run({**inputs, **states}, [state.after for state in graph.states])
        states = {state.name: run[state.after] for state in graph.states}
        rows.append(run)
    return {name: np.concatenate([row[name] for row in rows]) for name in graph.outputs}


def _integers(draft: FloatDraft, wide: Collection[str]) -> Graph:
    return rounded_to_nearest(widen(draft, wide), "minmax")


def _worst(expected: Mapping[str, Array], outputs: Mapping[str, Array]) -> float:
    """SQNR in dB of the output that has the least."""
    return min(sqnr_db(expected[name], outputs[name]) for name in expected)


def closed_loop(integer: Graph, sequences: Sequences) -> dict[str, Array]:
    """The outputs of the integer model as reals, [samples, *shape], each run with the state that the last one left."""
    inputs = {}
    for name in integer.inputs:
        value, array = integer.values[name], sequences.inputs[name]
        inputs[name] = array if value.quant is None else quantized(array, value.quant, value.dtype)
    outputs = sequences.run(prepare_int(integer, Numerics.OURS), inputs)
    quants = {name: integer.values[name].quant for name in outputs}
    return {name: array if (q := quants[name]) is None else q.dequantize(array) for name, array in outputs.items()}


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
