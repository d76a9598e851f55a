"""How near the integer model's outputs are to the float model's on the same inputs."""

from __future__ import annotations

import numpy as np

from tinyc.ir.graph import Array, Graph, Quant
from tinyc.reference import prepare_float
from tinyc.report import Accuracy
from tinyc.samples import Samples
from tinyc.verify import Outputs


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
    )


def dequantize(array: Array, quant: Quant | None) -> Array:
    """scale * (q - zero) in float64; arrays without a quantization as they are."""
    if quant is None:
        return array
    scale, zero = quant.per_tensor
    return (array.astype(np.float64) - zero) * scale


def _named(graph: Graph, output: object) -> list[tuple[str, Array]]:
    return list(zip(graph.outputs, output, strict=True))  # type: ignore[call-overload]
