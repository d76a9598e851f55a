# SPDX-License-Identifier: Apache-2.0
"""Pad with copies of what is inside, and PRelu: spelled out in operators that there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import RELU, Act
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole


def pad_with_copies(s: OnnxStep, x: Value, before: Sequence[int], after: Sequence[int], mode: str) -> None:
    """mode reflect: mirrored at the border element; edge: the border element again; wrap: from the other end. Axis by
    axis, as concats."""
    for axis, (low, high) in enumerate(zip(before, after, strict=True)):
        size = x.shape[axis]
        if min(low, high) < 0 or max(low, high) > {"reflect": size - 1, "wrap": size}.get(mode, high + low):
            raise TinycError(
                f"padding {low} and {high} of an axis of {size} elements, mode {mode} is not possible", s.where
            )
        left = [_copies(s, x, axis, mode, low, after=False)] if low else []
        right = [_copies(s, x, axis, mode, high, after=True)] if high else []
        parts = [*left, x, *right]
        if len(parts) > 1:
            x = s.insert(parts, Concat(axis), f"padded{axis}")
    s.emit([x], Reshape(x.shape))


def _copies(s: OnnxStep, x: Value, axis: int, mode: str, count: int, *, after: bool) -> Value:
    """`count` elements to stand before x, or after it."""
    size = x.shape[axis]
    match mode:
        case "reflect":  # backward from the element beside the border
            step = -1 if count > 1 else 1
            return s.insert([x], whole(x.shape, axis, size - 2 if after else count, count, step), f"mirror{axis}")
        case "wrap":
            return s.insert([x], whole(x.shape, axis, 0 if after else size - count, count), f"turn{axis}")
    return _repeated(s, x, axis, size - 1 if after else 0, count)


def _repeated(s: OnnxStep, x: Value, axis: int, at: int, count: int) -> Value:
    """The element `at` of the axis, `count` times."""
    edge = s.insert([x], whole(x.shape, axis, at, 1), f"edge{axis}")
    return edge if count == 1 else s.insert([edge] * count, Concat(axis), f"edges{axis}")


@imports("PRelu")
def prelu(s: OnnxStep) -> None:
    """max(x, 0) + slope * min(x, 0), slope constant; one for all is a leaky relu."""
    x, slope = s.value(0), s.weights(1)
    if slope.size == 1:
        s.emit([x], LeakyRelu(float(slope.reshape(()))))
        return
    above = s.insert([x], Clip(RELU), "above")
    below = s.insert([x], Clip(Act(-np.inf, 0.0)), "below")
    scaled = s.insert([below, s.const(slope, 1)], Mul(), "scaled")
    s.emit([above, scaled], Add())
