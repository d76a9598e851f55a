# SPDX-License-Identifier: Apache-2.0
"""Where a quantized model loses accuracy: its figures against the float model's, and the layer where the error is
born."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_array
from tinyc.ir.graph import INT_RANGE, Array, Graph, Node
from tinyc.ops import op_of
from tinyc.quantize import Quantized
from tinyc.quantize.batched import compute
from tinyc.quantize.calibration import Sequences
from tinyc.quantize.judge import Judge
from tinyc.quantize.score import Teacher, axis_of_quantities, class_output, classes, quantities_db
from tinyc.quantize.search import with_float_weights
from tinyc.quantize.simulate import Batch, sqnr_db
from tinyc.quantize.widths import pattern_of
from tinyc.reference.interpreter import prepare_int
from tinyc.verify import accuracy
from tinyc.verify.report import Quality
from tinyc.verify.task import qualities, rows_of, wants_reals

_LOOKED_AT, _FEWEST = 32, 2  # samples that layers are measured on
_MOST_ELEMENTS = 2**25  # of all values of these samples
_CLIPPED = 1e-3  # a larger share of values beyond the calibrated range is worth a word
_UNEVEN = 16.0  # largest channel over the median one, from which equalization is worth a try


@dataclass(frozen=True, slots=True)
class LayerError:
    """A layer. bits: of its weights, value_bits: of its output.

    sqnr_db: of its output in the integer model. Of the model's output if only this layer is in integers: own_db, and
    for its weights or its output values alone: weights_db, values_db. clipped: share of the test's values beyond the
    range; lo, hi: that range; least, largest: what the test has. uneven: largest channel over the median one.
    """

    name: str
    op: str
    bits: int | None
    sqnr_db: float
    own_db: float
    weights_db: float | None
    values_db: float
    clipped: float
    lo: float
    hi: float
    least: float
    largest: float
    uneven: float
    value_bits: int = 8


@dataclass(frozen=True, slots=True)
class OutputError:
    """An output that holds reals. sqnr_db: of all of it, None where that says nothing; quantities: of each of the
    several that it holds (`quantize.score.axis_of_quantities`), by its index, where it varies from sample to sample."""

    name: str
    sqnr_db: float | None
    quantities: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The integer model beside the float model on `samples` inputs. sqnr_db: of the first output that holds reals.
    worst: the layer that costs most, "" if no layer rounds anything; advice: what may help. Figures that would say
    nothing are None (`tinyc.verify.accuracy`)."""

    samples: int
    sqnr_db: float | None
    agreement: float | None
    qualities: tuple[Quality, ...]
    layers: tuple[LayerError, ...]
    outputs: tuple[OutputError, ...]
    worst: str
    advice: str

    def to_json(self) -> dict[str, Any]:
        """Plain lists, dicts, numbers and strings."""
        return asdict(self)


def integer_outputs(graph: Graph, inputs: Mapping[str, Array]) -> Array:
    """The first output of the integer reference in its own integers, [samples, *shape]; inputs are reals."""
    return integer_results(graph, inputs)[graph.outputs[0]]


def integer_results(graph: Graph, inputs: Mapping[str, Array], starts: tuple[int, ...] = (0,)) -> dict[str, Array]:
    """`integer_outputs` of every output, by its name. A model with state goes on from sample to sample with its own;
    starts: the samples before which it is reset."""
    rows = integer_inputs(graph, inputs)
    stacked = {name: np.stack([row[name] for row in rows]) for name in graph.inputs}
    return Sequences(stacked, starts).run(prepare_int(graph, Numerics.OURS), stacked)


def integer_inputs(graph: Graph, inputs: Mapping[str, Array]) -> list[dict[str, Array]]:
    """Reals [samples, *shape] as the integers that the graph takes, sample by sample."""
    arrays = {}
    for name in graph.inputs:
        value = graph.values[name]
        if value.quant is None:  # integers that stand for themselves
            arrays[name] = inputs[name]
            continue
        integers = quantize_array(inputs[name], *value.quant.per_tensor, *INT_RANGE[value.dtype])
        arrays[name] = integers.astype(np.int16 if value.dtype == "s16" else np.int8)
    count = min(len(array) for array in arrays.values())
    return [{name: array[k] for name, array in arrays.items()} for k in range(count)]


def diagnose(
    graph: Graph,
    quantized: Quantized,
    test: Sequences,
    labels: Array | None,
    *,
    proven: bool = True,
    judge: Judge | None = None,
) -> Diagnosis:
    """Measure the integer graph of `quantized` against the float `graph` on test inputs: the first output that holds
    reals, and the classes that the model chooses. Models with state go on from sample to sample, and are reset before
    `test.starts`; layers are looked at with the float model's states.

    labels: what the samples are, as in an .npz file's `y`: classes, 0 and 1, or the wanted outputs. proven: the inputs
    are the user's; of others no accuracy is stated. judge: of the metric that is asked for.
    """
    inputs = test.with_states(graph) if graph.states else test.inputs
    expected = Batch(graph).run(inputs)
    quants = {name: quantized.graph.values[name].quant for name in graph.outputs}
    computed = {
        name: array if quant is None else quant.dequantize(array)
        for name, array in integer_results(quantized.graph, inputs, test.starts).items()
        if (quant := quants[name]) is not None or name == class_output(graph)
    }
    chosen = classes(graph, expected), classes(quantized.graph, computed)
    name = next((name for name in graph.outputs if quants[name] is not None), graph.outputs[0])
    count = min(_LOOKED_AT, max(_FEWEST, _MOST_ELEMENTS // sum(value.elements for value in graph.values.values())))
    few = {key: array[:count] for key, array in inputs.items()}
    layers = layer_errors(quantized, few)
    worst = min(layers, key=lambda layer: layer.own_db, default=None)
    figures = qualities(graph, inputs, (expected[name], computed[name]), chosen, labels)
    if judge is not None:
        asked = Quality(judge.name, *(judge.figure(outputs, labels, inputs) for outputs in (expected, computed)))
        figures = [asked, *(other for other in figures if other.name != asked.name)]
    return Diagnosis(
        samples=len(expected[name]),
        sqnr_db=None if quants[name] is None else accuracy.sqnr_db(rows_of(expected[name]), rows_of(computed[name])),
        agreement=accuracy.agreement(*chosen) if proven and not wants_reals(labels, expected[name]) else None,
        qualities=tuple(figures),
        layers=tuple(layers),
        outputs=tuple(
            _output_error(graph, each, expected[each], computed[each])
            for each in graph.outputs
            if quants[each] is not None
        ),
        worst="" if worst is None else worst.name,
        advice="" if worst is None else advice(quantized, worst, few),
    )


def _output_error(graph: Graph, name: str, expected: Array, computed: Array) -> OutputError:
    axis = axis_of_quantities(graph, name)
    centre = expected.mean(axis=0)
    each = {} if axis is None or len(expected) < 2 else quantities_db(expected - centre, computed - centre, axis)
    return OutputError(
        name,
        accuracy.sqnr_db(rows_of(expected), rows_of(computed)),
        {index: round(db, 2) for index, db in each.items()},
    )


def layer_errors(quantized: Quantized, inputs: Mapping[str, Array]) -> list[LayerError]:
    """What every layer does to the output, one at a time, in run order. Layers that round nothing are left out."""
    graph, integer = quantized.float_graph, quantized.graph
    teacher = Teacher.of(graph, inputs)
    plain = Batch(graph)
    floats = plain.resume(plain.start(inputs), 0)
    rounded = Batch(integer)
    integers = rounded.resume(rounded.start(inputs), 0)
    floating = with_float_weights(graph, integer)
    floating.quants = {}
    names = {node.name for node in graph.nodes}
    errors = []
    for index, node in enumerate(integer.nodes):
        value = integer.values[node.outputs[0]]
        source = node.inputs[0]
        same = source in integer.values and integer.values[source].quant == value.quant
        if (
            node.name in names
            and value.quant is not None
            and not op_of(node).view
            and not (same and node.name not in quantized.bits)
        ):
            shares = _SHARES if node.name in quantized.bits else _SHARES[:1]  # else all of it comes of the values
            scores = _alone(index, teacher, floats, (floating, rounded), shares)
            errors.append(_layer(quantized, node, scores, floats, integers))
    return errors


def _layer(
    quantized: Quantized,
    node: Node,
    scores: Sequence[float],
    floats: Mapping[str, Array],
    integers: Mapping[str, Array],
) -> LayerError:
    integer = quantized.graph
    name = node.outputs[0]
    value = integer.values[name]
    assert value.quant is not None
    scale, zero = value.quant.per_tensor
    least, most = INT_RANGE[value.dtype]
    lo, hi = scale * (least - zero), scale * (most - zero)
    real = floats[name]
    rows = np.abs(real.reshape(-1, real.shape[-1])).max(axis=0)
    bits = quantized.bits.get(node.name)
    return LayerError(
        name=node.where.name if node.where is not None else node.name,
        op=node.op,
        bits=bits,
        sqnr_db=round(sqnr_db(real, integers[name]), 2),
        own_db=round(scores[0], 2),
        weights_db=round(scores[1], 2) if bits is not None else None,
        values_db=round(scores[-1], 2),
        clipped=float(((real < lo - scale) | (real > hi + scale)).mean()),
        lo=lo,
        hi=hi,
        least=float(real.min()),
        largest=float(real.max()),
        uneven=round(float(rows.max() / max(float(np.median(rows)), 1e-12)), 2),
        value_bits=16 if value.dtype == "s16" else 8,
    )


_SHARES = ((True, True), (True, False), (False, True))


def _alone(
    index: int,
    teacher: Teacher,
    floats: Mapping[str, Array],
    batches: tuple[Batch, Batch],
    shares: Sequence[tuple[bool, bool]],
) -> list[float]:
    """Scores of the models in which one layer has integer weights, an integer output, or both: (weights, output) of
    each. batches: the graph with float weights and values, and the integer one. All models run at once."""
    floating, rounded = batches
    node, count = floating.graph.nodes[index], len(teacher)
    layer_outputs = []
    for weights, values in shares:
        own = {name: rounded.consts[name] for name in node.inputs[1:] if weights and name in rounded.consts}
        reals = {**floats, **floating.consts, **own}
        results = compute(floating.graph, node, [reals[name] if name else None for name in node.inputs], count)
        layer_outputs.append(
            [rounded.rounded(n, y) if values else y for n, y in zip(node.outputs, results, strict=True)]
        )
    later = {name for other in floating.graph.nodes[index + 1 :] for name in other.inputs}
    beside = {name: floats[name] for name in ({*later, *teacher.expected} - {*node.outputs}) & set(floats)}
    computed = {name: np.concatenate([array] * len(shares)) for name, array in beside.items()}
    computed |= {
        name: np.concatenate(y) for name, y in zip(node.outputs, zip(*layer_outputs, strict=True), strict=True)
    }
    outputs = floating.run_from(computed, index + 1, set(teacher.expected))
    parts = [slice(k * count, (k + 1) * count) for k in range(len(shares))]
    return [teacher.score_of({name: array[part] for name, array in outputs.items()}) for part in parts]


def advice(quantized: Quantized, layer: LayerError, inputs: Mapping[str, Array]) -> str:
    """What may help a layer, in the words of the command line. inputs: of some samples, on which it is tried."""
    if layer.clipped > _CLIPPED:
        return (
            f"{layer.clipped:.1%} of its values leave the calibrated range {layer.lo:.3g}..{layer.hi:.3g}: "
            "calibrate with more, or more varied, inputs"
        )
    if layer.weights_db is not None and layer.weights_db < layer.values_db:
        return _for_weights(quantized, layer)
    if layer.uneven > _UNEVEN and not quantized.plan.equalize and layer.value_bits == 8:
        return f"its largest channel is {layer.uneven:.0f} times the median one: --equalize on"
    if layer.value_bits == 16:
        return "its values have 16 bits already: what is lost is lost in the weights"
    before, after = _in_more_bits(quantized, layer, inputs)
    if round(after, 1) <= round(before, 1):
        return (
            f"its values lose most, but with any number of bits for them alone the output goes {before:.1f} -> "
            f"{after:.1f} dB: --activations auto tries several layers; --calibration-method percentile or mse may help"
        )
    return (
        f"its values need more than 8 bits: --int16-layers '{pattern_of(quantized.float_graph, layer.name)}' "
        f"(the output {before:.1f} -> {after:.1f} dB, if they had any number), or "
        "--activations auto; a narrower range may help too: --calibration-method percentile or mse"
    )


def _for_weights(quantized: Quantized, layer: LayerError) -> str:
    if layer.bits == 4:
        return "keep its weights in 8 bits: --weights auto with a larger --flash or a smaller --max-loss"
    if quantized.plan.learned:
        return "its weights lose more than its values; 8 bits per output channel can do no better here"
    if quantized.tried_learned:
        return "its weights lose more than its values; learned, they did no better on inputs that were left out"
    return "its weights lose more than its values: --rounding learned"


def _in_more_bits(quantized: Quantized, layer: LayerError, inputs: Mapping[str, Array]) -> tuple[float, float]:
    """SQNR in dB of the output as it is, and if the layer's values were not rounded."""
    teacher = Teacher.of(quantized.float_graph, inputs)
    decibels = []
    for is_exact in (False, True):
        batch = Batch(quantized.graph)
        for node in quantized.graph.nodes:
            if is_exact and layer.name in (node.name, node.where.name if node.where is not None else node.name):
                batch.quants = {name: quant for name, quant in batch.quants.items() if name not in node.outputs}
        decibels.append(teacher.sqnr_of(batch.run(inputs, tuple(teacher.expected))))
    return decibels[0], decibels[1]
