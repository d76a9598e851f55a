"""How near the integer model's outputs are to the float model's on the same inputs."""

from __future__ import annotations

import numpy as np

from tinyc.ir.graph import Array, Graph, Quant
from tinyc.passes.weights import WEIGHTED
from tinyc.reference import prepare_float
from tinyc.report import Accuracy
from tinyc.samples import Samples
from tinyc.verify import Outputs

_WORDS = {"s4": "int4", "s8": "int8", "u8": "uint8", "s16": "int16"}


def measure(float_graph: Graph, integer_graph: Graph, samples: Samples, outputs: Outputs) -> Accuracy:
    """SQNR over all outputs, agreement and top-1 (where labels differ) of the first output.

    samples: reals, as the float model takes them; so the loss from rounding the inputs is part of the
    result. outputs: the integer model's, [sample][output].
    """
    run = prepare_float(float_graph)
    floats, integers = [], []
    for index, output in enumerate(outputs):
        result = run(samples.sample(index, float_graph))
        floats.append([result[name].ravel() for name in float_graph.outputs])
        integers.append(
            [
                dequantize(array, integer_graph.values[name].quant).ravel()
                for name, array in _named(integer_graph, output)
            ]
        )
    signal = sum(float(np.square(a).sum()) for row in floats for a in row)
    pairs = [(a, b) for mine, theirs in zip(floats, integers, strict=True) for a, b in zip(mine, theirs, strict=True)]
    noise = sum(float(np.square(a - b).sum()) for a, b in pairs)
    top_float = np.array([row[0].argmax() for row in floats])
    top_int = np.array([row[0].argmax() for row in integers])
    labels = samples.labels if samples.labels is not None and len(np.unique(samples.labels)) > 1 else None
    return Accuracy(
        inputs=len(outputs),
        sqnr_db=round(10 * float(np.log10(signal / noise)), 2) if noise > 0 and signal > 0 else None,
        agreement=float((top_float == top_int).mean()),
        top1_float=None if labels is None else float((top_float == labels).mean()),
        top1_int=None if labels is None else float((top_int == labels).mean()),
        integers=integers_of(integer_graph),
    )


def integers_of(graph: Graph) -> str:
    """The widths of an integer graph in words: `int8`, `int4 and int8 weights, int8 activations`."""
    weights = {graph.values[node.inputs[1]].dtype for node in graph.nodes if node.op in WEIGHTED}
    computed = {value.dtype for name, value in graph.values.items() if name not in graph.consts and value.quant}
    if weights | computed <= {"s8"}:
        return "int8"
    names = [" and ".join(word for kind, word in _WORDS.items() if kind in kinds) for kinds in (weights, computed)]
    return ", ".join(f"{name} {what}" for name, what in zip(names, ("weights", "activations"), strict=True) if name)


def dequantize(array: Array, quant: Quant | None) -> Array:
    """scale * (q - zero) in float64; arrays without a quantization as they are."""
    if quant is None:
        return array
    scale, zero = quant.per_tensor
    return (array.astype(np.float64) - zero) * scale


def _named(graph: Graph, output: object) -> list[tuple[str, Array]]:
    return list(zip(graph.outputs, output, strict=True))  # type: ignore[call-overload]
