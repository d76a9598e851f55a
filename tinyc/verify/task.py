# SPDX-License-Identifier: Apache-2.0
"""The figures of a task: what labels or wanted outputs say of the float model and of the integer model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.quantize.metrics import anomaly_or_class, auc
from tinyc.quantize.score import class_output
from tinyc.reference.samples import as_classes
from tinyc.verify.report import Quality


def qualities(
    graph: Graph,
    inputs: Mapping[str, Array],
    outputs: tuple[Array, Array],
    chosen: tuple[Array | None, Array | None],
    labels: Array | None,
) -> list[Quality]:
    """The figures that the labels allow: top-1, AUC, MSE. outputs, chosen: reals [samples, *shape] and classes
    [samples] of the float and of the integer model."""
    float_output, rows = outputs[0], [rows_of(output) for output in outputs]
    if labels is None or labels.ndim == 0 or len(labels) != len(float_output):
        return []
    if wants_reals(labels, float_output):
        with np.errstate(over="ignore"):
            flat = labels.astype(np.float32).reshape(len(labels), -1).astype(np.float64)
        if not np.isfinite(flat).all():
            message = "the labels 'y' have values that are no finite 32-bit floats"
            raise TinycError(message, hint="leave 'y' out, or mend it")
        return [Quality("MSE", *(float(np.square(output - flat).mean()) for output in rows))]
    labels = as_classes(graph, labels)
    if labels is None or labels.ndim != 1 or len(np.unique(labels)) < 2:
        return []
    figures = []
    theirs, ours = chosen
    if theirs is not None and ours is not None and (class_output(graph) or labels.max() < rows[0].shape[1]):
        figures.append(Quality("top-1", float((theirs == labels).mean()), float((ours == labels).mean())))
    if set(np.unique(labels)) == {0, 1}:
        x = inputs[graph.inputs[0]].reshape(len(float_output), -1)
        figures.append(Quality("AUC", *(auc(anomaly_or_class(x, output), labels) for output in rows)))
    return figures


def wants_reals(labels: Array | None, output: Array) -> bool:
    """Whether labels are what the output shall be, and no classes: a regression's, or a mask's."""
    return labels is not None and labels.dtype.kind == "f" and labels.ndim > 0 and labels.size == output.size


def rows_of(array: Array) -> Array:
    """[samples, elements]."""
    return array.reshape(len(array), -1)
