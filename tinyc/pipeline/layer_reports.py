# SPDX-License-Identifier: Apache-2.0
"""What a report says of each layer: its cost, its integers, why it has its kernel, how near the float model it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.choose.select import Choice
from tinyc.emit.program import Step
from tinyc.explain.cycles import ModelledCycles
from tinyc.ir.graph import Array, Graph, Value
from tinyc.pipeline.compiling import Compiled
from tinyc.reference.interpreter import prepare_float, prepare_int
from tinyc.reference.samples import SYNTHETIC, Samples
from tinyc.run import InferenceCount
from tinyc.verify import accuracy
from tinyc.verify.report import Alternative, Integers, LayerReport

_LOOKED_AT = 4  # samples that layers are compared with the float model on


def layer_reports(
    compiled: Compiled,
    counted: InferenceCount | None = None,
    modelled: ModelledCycles | None = None,
    sqnr: Mapping[str, float | None] | None = None,
) -> tuple[LayerReport, ...]:
    """One of each step. counted, modelled: what a run told. sqnr: of values by name, see `layer_sqnr`."""
    reads = _reads(compiled)
    return tuple(
        replace(_layer(compiled, step, counted, modelled, sqnr or {}), reads=reads[step.index])
        for step in compiled.program.steps
    )


def _reads(compiled: Compiled) -> dict[int, tuple[int, ...]]:
    """Step -> the steps that it reads, see LayerReport; nodes that are no step (views, joins in place) hand on."""
    steps = {step.node.name: step.index for step in compiled.program.steps}
    makers: dict[str, tuple[int, ...]] = dict.fromkeys(compiled.graph.sources, (-1,))
    readers: dict[int, tuple[int, ...]] = {}
    for node in compiled.graph.nodes:
        read = tuple(dict.fromkeys(step for name in node.inputs for step in makers.get(name, ())))
        index = steps.get(node.name)
        makers |= dict.fromkeys(node.outputs, read if index is None else (index,))
        if index is not None:
            readers[index] = read
    return readers


def layer_sqnr(compiled: Compiled, originals: Samples, samples: Samples) -> dict[str, float | None]:
    """Value -> SQNR in dB of the integer model's, of what both models compute; nothing without a float model, or of
    inputs that tinyc made up.

    originals: reals as the float model takes them; samples: the same as the library's integers.
    """
    floats, integers = compiled.quantized_from, compiled.graph
    if compiled.float_graph is None or floats is None or originals.source == SYNTHETIC:
        return {}
    names = [name for name in _computed_values(integers) if name in floats.values and _alike(floats, integers, name)]
    real, exact = prepare_float(floats), prepare_int(integers, compiled.program.numerics)
    expected: dict[str, list[Array]] = {name: [] for name in names}
    by_layer: dict[str, list[Array]] = {name: [] for name in names}
    few = range(min(_LOOKED_AT, len(samples)))
    both = (
        real.sequence((originals.sample(index, floats) for index in few), names, samples.sequence),
        exact.sequence((samples.sample(index, integers) for index in few), names, samples.sequence),
    )
    for reals, ints in zip(*both, strict=True):
        for name in names:
            expected[name].append(reals[name].ravel())
            by_layer[name].append(accuracy.dequantize(ints[name], integers.values[name].quant).ravel())
    return {name: accuracy.sqnr_db(np.stack(expected[name]), np.stack(by_layer[name])) for name in names}


def _computed_values(graph: Graph) -> list[str]:
    return [name for node in graph.nodes for name in node.outputs]


def _alike(floats: Graph, integers: Graph, name: str) -> bool:
    """Whether a value is the same tensor in both: channels may have been dropped, and ports may be floats. Time may be
    its rows in one, and its columns in the other."""
    shapes = [[size for size in graph.values[name].shape if size > 1] for graph in (floats, integers)]
    return shapes[0] == shapes[1] and integers.values[name].quant is not None


def _layer(
    compiled: Compiled,
    step: Step,
    counted: InferenceCount | None,
    modelled: ModelledCycles | None,
    sqnr: Mapping[str, float | None],
) -> LayerReport:
    output = step.outputs[0]
    choices = compiled.choices.get(step.node.name, (step.choice,))
    return LayerReport(
        step=step.index,
        name=step.node.layer,
        op=step.title,
        kernel=step.choice.kernel.name,
        input_shapes=tuple(place.value.shape for place in step.inputs if place and place.offset is not None),
        output_shape=output.value.shape,
        macs=step.macs,
        const_bytes=step.const_bytes,
        arena=(output.first, output.first + output.end - (output.offset or 0)),
        scratch_bytes=step.scratch_bytes,
        instructions=counted.steps.get(step.index, 0) if counted else None,
        cycles=modelled.of_step(step.index) if modelled and modelled.core else None,
        made_of=tuple(dict.fromkeys(map(str, step.node.origin))),
        tensor="" if output.value.loc is None else output.value.loc.tensor or output.value.loc.name,
        output=_integers(output.value),
        weights=_weights(step),
        sqnr_db=sqnr.get(output.value.name),
        tile=step.special.tile if step.special else "",
        why=_why(step.choice, choices),
        alternatives=_alternatives(step.choice, choices),
        in_slow=output.is_slow,
    )


def _weights(step: Step) -> Integers | None:
    """Of the second input, where that is a constant."""
    place = step.inputs[1] if len(step.inputs) > 1 else None
    return _integers(place.value) if place is not None and place.offset is None else None


def _integers(value: Value) -> Integers | None:
    if value.quant is None:
        return None
    quant = value.quant
    single = len(quant.scale) == 1
    return Integers(
        value.dtype, len(quant.scale), quant.scale[0] if single else None, quant.zero[0] if single else None
    )


def _why(chosen: Choice, choices: Sequence[Choice]) -> str:
    """Why the layer has its kernel, in a sentence."""
    if len(choices) == 1:
        return "no other kernel takes this layer on this core"
    fastest = min(choices, key=lambda choice: (choice.cost.cycles, choice.cost.flash_bytes))
    if fastest.kernel.name == chosen.kernel.name:
        return f"the fastest of {len(choices)}"
    spent = chosen.cost.cycles - fastest.cost.cycles
    saved = [
        f"{bytes_:,} bytes of {what}"
        for what, bytes_ in (
            ("flash", fastest.cost.flash_bytes - chosen.cost.flash_bytes),
            ("scratch", fastest.scratch_bytes - chosen.scratch_bytes),
        )
        if bytes_ > 0
    ]
    if not saved:
        return f"{fastest.kernel.name} is faster by {max(spent, 0):,} cycles; with this one the arena is smaller"
    return f"for {max(spent, 0):,} cycles it saves {' and '.join(saved)} against {fastest.kernel.name}, the fastest"


def _alternatives(chosen: Choice, choices: Sequence[Choice]) -> tuple[Alternative, ...]:
    """The operator's kernels for this core: those that take the layer with what they were estimated at, the others with
    what they ask for."""
    costs = ((choice.kernel.name, choice.cost) for choice in choices)
    usable = (Alternative(name, c.instructions, c.cycles, c.flash_bytes, c.scratch_bytes) for name, c in costs)
    refused = (Alternative(name, asks=asks) for name, asks in chosen.refused)
    return (*usable, *refused)
