# SPDX-License-Identifier: Apache-2.0
"""The metrics of common tasks, by name: functions of outputs, labels and inputs, as users may write their own.

Outputs and inputs: [samples, ...] of reals as the model's file has them, without the axis of the batch; of a model with
several, by name. ValueError where labels do not fit the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array

Tensors = Array | Mapping[str, Array]
Function = Callable[..., float]

_HALF = 0.5  # from which on a mask is set, boxes are the same object
_CORNERS, _OBJECT = 4, 5  # numbers of a box, and of a labelled one: its class first
_FEW = 1e-12


def top_1(outputs: Tensors, labels: Array, inputs: Tensors) -> float:
    """Share of right classes. labels: a class for each sample, or for each place of a map."""
    return float((_classes(outputs, labels) == labels).mean())


def area_under_curve(outputs: Tensors, labels: Array, inputs: Tensors) -> float:
    """The chance that a sample of class 1 looks more like it than one of class 0. labels: 0 and 1."""
    if labels.ndim != 1 or set(np.unique(labels)) != {0, 1}:
        raise ValueError("AUC takes labels 0 and 1, one for each sample, and both of them")
    x, y = (_first(tensors).reshape(len(labels), -1) for tensors in (inputs, outputs))
    return auc(anomaly_or_class(x, y), labels)


def anomaly_or_class(x: Array, y: Array) -> npt.NDArray[np.float64]:
    """How much each sample looks like class 1: an autoencoder's error, else the last score. [samples, elements]."""
    if x.shape == y.shape:
        return np.square(y.astype(np.float64) - x).mean(axis=1)
    return y[:, -1].astype(np.float64)


def auc(scores: npt.NDArray[np.float64], labels: Array) -> float:
    """Area under the ROC curve: the chance that a sample of class 1 scores higher than one of class 0 (ties count
    half)."""
    ones, zeros = scores[labels == 1], scores[labels == 0]
    order = np.sort(zeros)
    below, upto = np.searchsorted(order, ones, side="left"), np.searchsorted(order, ones, side="right")
    return float((below + upto).mean() / (2 * len(zeros)))


def rmse(outputs: Tensors, labels: Array, inputs: Tensors) -> float:
    """Root of the mean squared error of each channel over the deviation of its labels, the mean of all channels: none
    is hidden by a larger one. labels: the wanted outputs."""
    y = _channels_last(_first(outputs))
    targets = _channels_last(_like(labels, _first(outputs))).astype(np.float64)
    axes = tuple(range(y.ndim - 1))
    errors, deviations = np.sqrt(np.square(y - targets).mean(axis=axes)), targets.std(axis=axes)
    return float((errors / np.where(deviations > 0, deviations, 1.0)).mean())


def f1(outputs: Tensors, labels: Array, inputs: Tensors) -> float:
    """Harmonic mean of precision and recall, the mean of all classes. labels: classes, or 0 and 1 for each output."""
    y = _first(outputs)
    if _is_mask(labels, y):
        pairs = _masks(y, labels)
    else:
        chosen = _classes(outputs, labels)
        pairs = [(chosen == each, labels == each) for each in np.unique(labels)]
    hits = [(2 * float((ours & truth).sum()), float(ours.sum() + truth.sum())) for ours, truth in pairs]
    return float(np.mean([both / total if total else 1.0 for both, total in hits]))


def intersection_over_union(outputs: Tensors, labels: Array, inputs: Tensors) -> float:
    """Of boxes (labels: corners x1, y1, x2, y2 for each), of masks (0 and 1 for each output), or of the places of each
    class (labels: classes); the mean of all."""
    y = _first(outputs)
    if labels.dtype.kind == "f" and labels.shape[-1] == _CORNERS and labels.size == y.size and not _is_mask(labels, y):
        return float(_overlaps(y.reshape(-1, _CORNERS), labels.reshape(-1, _CORNERS)).mean())
    if _is_mask(labels, y):
        pairs = _masks(y, labels)
    else:
        chosen = _classes(outputs, labels)
        pairs = [(chosen == each, labels == each) for each in np.union1d(chosen, labels)]
    shares = [(float((ours & truth).sum()), float((ours | truth).sum())) for ours, truth in pairs]
    return float(np.mean([both / either if either else 1.0 for both, either in shares]))


def mean_average_precision(outputs: Tensors, labels: Array, inputs: Tensors) -> float:
    """mAP at an overlap of 0.5, the mean of all classes that are there. outputs: [samples, boxes, 4 + classes] or with
    the last axes exchanged: center, width, height, and a score for each class. labels: [samples, objects, 5]: class
    (less than 0: no object), center, width, height, in the same units."""
    y = _first(outputs)
    if y.ndim != 3 or labels.ndim != 3 or labels.shape[2] != _OBJECT:
        raise ValueError(
            f"mAP takes outputs [samples, boxes, 4 + classes] and labels [samples, objects, 5], not "
            f"{list(y.shape)} and {list(labels.shape)}"
        )
    y = y.transpose(0, 2, 1) if y.shape[1] < y.shape[2] else y
    classes = np.unique(labels[..., 0][labels[..., 0] >= 0]).astype(int)
    if classes.size == 0 or classes.max() >= y.shape[2] - _CORNERS:
        raise ValueError(f"mAP: the labels have no object, or a class that the {y.shape[2] - _CORNERS} scores have not")
    return float(np.mean([_average_precision(y, labels, int(each)) for each in classes]))


def _average_precision(y: Array, labels: Array, of: int) -> float:
    """Area under precision over recall of one class, precision being the best at that recall or more."""
    rows: list[tuple[float, bool]] = []
    count = 0
    for boxes, objects in zip(y, labels, strict=True):
        truth = _as_corners(objects[objects[:, 0] == of, 1:])
        count += len(truth)
        scores = boxes[:, _CORNERS + of]
        left = np.ones(len(truth), np.bool_)
        for index in _without_doubles(_as_corners(boxes[:, :_CORNERS]), scores):
            overlaps = _overlaps(_as_corners(boxes[index : index + 1, :_CORNERS]), truth) * left
            best = int(overlaps.argmax()) if len(truth) else -1
            hit = best >= 0 and bool(overlaps[best] >= _HALF)
            if hit:
                left[best] = False
            rows.append((float(scores[index]), hit))
    rows.sort(key=lambda row: -row[0])
    hits = np.cumsum([hit for _, hit in rows])
    precision = np.maximum.accumulate((hits / np.arange(1, len(rows) + 1))[::-1])[::-1]
    recall = np.concatenate([[0.0], hits / count])
    return float((np.diff(recall) * precision).sum())


def _without_doubles(boxes: Array, scores: Array) -> list[int]:
    """Indices of boxes, best score first, that overlap none before by half or more; scores of next to nothing are
    left out."""
    taken: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        if scores[index] > 0.01 and not (taken and (_overlaps(boxes[index : index + 1], boxes[taken]) >= _HALF).any()):
            taken.append(int(index))
    return taken


def _as_corners(boxes: Array) -> Array:
    """From center, width and height."""
    middle, half = boxes[:, :2], boxes[:, 2:] / 2
    return np.concatenate([middle - half, middle + half], axis=1)


def _overlaps(a: Array, b: Array) -> npt.NDArray[np.float64]:
    """Intersection over union of boxes by their corners, [n, 4] each; one may be [1, 4]."""
    low, high = np.maximum(a[:, :2], b[:, :2]), np.minimum(a[:, 2:], b[:, 2:])
    both = np.clip(high - low, 0, None).prod(axis=1, dtype=np.float64)
    areas = [np.clip(box[:, 2:] - box[:, :2], 0, None).prod(axis=1, dtype=np.float64) for box in (a, b)]
    return np.asarray(both / np.maximum(areas[0] + areas[1] - both, _FEW))


def _first(tensors: Tensors) -> Array:
    return next(iter(tensors.values())) if isinstance(tensors, Mapping) else tensors


def _is_mask(labels: Array, y: Array) -> bool:
    """Whether labels say 0 or 1 of each output, of several."""
    return labels.size == y.size and labels.size > len(labels) and bool(np.isin(labels, (0, 1)).all())


def _masks(y: Array, labels: Array) -> list[tuple[Array, Array]]:
    """What is set and what shall be, by channel."""
    ours, truth = _channels_last(y) >= _HALF, _channels_last(_like(labels, y)) >= _HALF
    return [(ours[..., k], truth[..., k]) for k in range(ours.shape[-1])]


def _like(labels: Array, y: Array) -> Array:
    if labels.size != y.size:
        raise ValueError(f"labels {list(labels.shape)} do not fit outputs {list(y.shape)}")
    return labels.reshape(y.shape)


def _channels_last(y: Array) -> Array:
    """[..., channels]: of a picture the shorter of the axes beside its rows and columns."""
    if y.ndim == 1:
        return y[:, None]
    return np.moveaxis(y, 1, -1) if y.ndim == 4 and y.shape[1] < y.shape[3] else y


def _classes(outputs: Tensors, labels: Array) -> Array:
    """The classes that are chosen, in the shape of the labels."""
    if labels.dtype.kind not in "iu":
        raise ValueError(f"labels are {labels.dtype}, and no numbers of classes")
    numbers = outputs.values() if isinstance(outputs, Mapping) else [outputs]
    own = [array for array in numbers if array.dtype.kind in "iu" and array.size == labels.size]
    if own:
        return own[0].reshape(labels.shape)
    y = _first(outputs)
    if labels.ndim == 1 and y.size > len(y):
        return y.reshape(len(y), -1).argmax(axis=1)
    for axis in (y.ndim - 1, 1):
        if y.ndim > 1 and labels.shape == (*y.shape[:axis], *y.shape[axis + 1 :]):
            return y.argmax(axis=axis)
    raise ValueError(f"labels {list(labels.shape)} do not fit outputs {list(y.shape)}")


METRICS: Mapping[str, tuple[Function, bool]] = MappingProxyType(  # by name, and whether more is better
    {
        "top-1": (top_1, True),
        "AUC": (area_under_curve, True),
        "mAP": (mean_average_precision, True),
        "IoU": (intersection_over_union, True),
        "RMSE": (rmse, False),
        "F1": (f1, True),
    }
)
