# SPDX-License-Identifier: Apache-2.0
"""How near the integer model's outputs are to the float model's on the same inputs."""

from __future__ import annotations

import numpy as np

from tinyc.ir.graph import Array, Graph, Quant
from tinyc.passes.weights import has_weights
from tinyc.quantize.score import decides
from tinyc.reference.interpreter import prepare_float
from tinyc.reference.samples import SYNTHETIC, Samples
from tinyc.verify.compare import Outputs
from tinyc.verify.report import Accuracy

_NO_NOISE = 1e-20  # of the signal's power: rounding of the sums
_WORDS = {"s4": "int4", "s8": "int8", "u8": "uint8", "s16": "int16"}


def measure(
    float_graph: Graph, integer_graph: Graph, samples: Samples, outputs: Outputs, sequence: int = 0
) -> Accuracy | None:
    """SQNR over all outputs, agreement and top-1 (where labels differ) of the first output; None of inputs that tinyc
    made up: they say nothing of the model's task.

    samples: reals, as the float model takes them; so the loss from rounding the inputs is part of the
    result. outputs: the integer model's, [sample][output]. sequence: a model with state was reset after each so many.
    """
    if samples.source == SYNTHETIC:
        return None
    run = prepare_float(float_graph)
    floats, integers = [], []
    rows = (samples.sample(index, float_graph) for index in range(len(outputs)))
    for output, result in zip(outputs, run.sequence(rows, every=sequence), strict=True):
        floats.append([result[name].ravel() for name in float_graph.outputs])
        integers.append(
            [
                dequantize(array, integer_graph.values[name].quant).ravel()
                for name, array in _named(integer_graph, output)
            ]
        )
    wanted, made = (np.stack([np.concatenate(row) for row in rows]) for rows in (floats, integers))
    first = floats[0][0].size
    top_float, top_int = wanted[:, :first].argmax(axis=1), made[:, :first].argmax(axis=1)
    labels = samples.labels if samples.labels is not None and len(np.unique(samples.labels)) > 1 else None
    return Accuracy(
        inputs=len(outputs),
        sqnr_db=sqnr_db(wanted, made),
        agreement=agreement(float_graph, wanted[:, :first], made[:, :first]),
        top1_float=None if labels is None else float((top_float == labels).mean()),
        top1_int=None if labels is None else float((top_int == labels).mean()),
        integers=integers_of(integer_graph),
    )


def varies(rows: Array) -> bool:
    """Whether outputs [samples, elements] depend on the input: figures of a model that always answers the same would
    praise any other that does."""
    return len(rows) < 2 or bool((rows != rows[0]).any())


def sqnr_db(wanted: Array, made: Array) -> float | None:
    """10 log10 of the power of `wanted` [samples, elements] over that of the error, to 0.01 dB. None where that is no
    number or says nothing: no error, no signal, or a signal that is the same in every sample."""
    signal = float(np.square(wanted, dtype=np.float64).sum())
    noise = float(np.square(made.astype(np.float64) - wanted).sum())
    if noise <= signal * _NO_NOISE or signal == 0 or not varies(wanted):
        return None
    return round(10 * float(np.log10(signal / noise)), 2)


def agreement(graph: Graph, wanted: Array, made: Array) -> float | None:
    """Share of samples in which the first output, as rows, has its maximum at the same place. None where that says
    nothing: the output is no choice between classes (`decides`), or the same for every sample."""
    if not decides(graph) or not varies(wanted):
        return None
    return float((wanted.argmax(axis=1) == made.argmax(axis=1)).mean())


def integers_of(graph: Graph) -> str:
    """The widths of an integer graph in words: `int8`, `int4 and int8 weights, int8 activations`."""
    weights = {graph.values[node.inputs[1]].dtype for node in graph.nodes if has_weights(node)}
    computed = {value.dtype for name, value in graph.values.items() if name not in graph.consts and value.quant}
    if weights | computed <= {"s8"}:
        return "int8"
    names = [" and ".join(word for kind, word in _WORDS.items() if kind in kinds) for kinds in (weights, computed)]
    return ", ".join(f"{name} {what}" for name, what in zip(names, ("weights", "activations"), strict=True) if name)


def arithmetic_of(graph: Graph) -> str:
    """What a library computes in, in words: `int8`, `float32`, `int8 and float32`."""
    made = [graph.values[name] for node in graph.nodes for name in node.outputs]
    kinds = {value.dtype for value in made if value.quant or value.dtype == "f32"}
    words = [word for kind, word in {**_WORDS, "f32": "float32"}.items() if kind in kinds]
    return " and ".join(words) or "integers"


def dequantize(array: Array, quant: Quant | None) -> Array:
    """scale * (q - zero) in float64; arrays without a quantization as they are."""
    if quant is None:
        return array
    scale, zero = quant.per_tensor
    return (array.astype(np.float64) - zero) * scale


def _named(graph: Graph, output: object) -> list[tuple[str, Array]]:
    return list(zip(graph.outputs, output, strict=True))  # type: ignore[call-overload]
