# SPDX-License-Identifier: Apache-2.0
"""Operators that only move elements: reshape and its kin, transpose, pad, concat."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import RELU, Act
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.ops.add import Add
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice, whole
from tinyc.ops.transpose import Transpose


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


@imports("Reshape")
def reshape(s: OnnxStep) -> None:
    """0 copies a size of the input (unless allowzero), one -1 takes what is left."""
    x, shape = s.value(0), list(s.numbers(1))
    keep_zero = s.node.flag("allowzero", False)
    for axis, size in enumerate(shape):
        if size == 0 and not keep_zero and axis < len(x.shape):
            shape[axis] = x.shape[axis]
    count = math.prod(size for size in shape if size != -1)
    if shape.count(-1) == 1 and count > 0 and x.elements % count == 0:
        shape[shape.index(-1)] = x.elements // count
    if min(shape, default=1) < 1 or math.prod(shape) != x.elements:
        raise TinycError(
            f"cannot reshape {list(x.shape)} to {list(s.numbers(1))}",
            s.where,
            "if the batch size is written into the model, export it with batch size 1",
        )
    s.emit([x], Reshape(tuple(shape)))


@imports("Flatten")
def flatten(s: OnnxStep) -> None:
    x = s.value(0)
    axis = s.node.int_("axis", 1)
    if not -len(x.shape) <= axis <= len(x.shape):
        raise TinycError(f"axis {axis} does not fit a tensor of rank {len(x.shape)}", s.where)
    axis += len(x.shape) if axis < 0 else 0
    s.emit([x], Reshape((math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))))


def _axes(s: OnnxStep, rank: int) -> set[int] | None:
    """Axes from the attribute or (since opset 13) the input; None if neither is there."""
    given = s.numbers(1) if s.has(1) else s.node.ints("axes")
    return None if given is None else {s.axis(axis, rank) for axis in given}


@imports("Squeeze")
def squeeze(s: OnnxStep) -> None:
    x = s.value(0)
    axes = _axes(s, len(x.shape))
    dropped = {k for k, size in enumerate(x.shape) if size == 1} if axes is None else axes
    if any(x.shape[k] != 1 for k in dropped):
        raise TinycError(f"cannot squeeze axes {sorted(dropped)} of {list(x.shape)}: their size is not 1", s.where)
    s.emit([x], Reshape(tuple(size for k, size in enumerate(x.shape) if k not in dropped)))


@imports("Unsqueeze")
def unsqueeze(s: OnnxStep) -> None:
    x = s.value(0)
    given = s.numbers(1) if s.has(1) else s.node.ints("axes") or ()
    rank = len(x.shape) + len(given)
    new = {s.axis(axis, rank) for axis in given}
    if len(new) < len(given):
        raise TinycError(f"axes {list(given)} name one twice", s.where)
    sizes = iter(x.shape)
    s.emit([x], Reshape(tuple(1 if k in new else next(sizes, 1) for k in range(rank))))


@imports("Transpose")
def transpose(s: OnnxStep) -> None:
    x = s.value(0)
    perm = s.node.ints("perm")
    s.emit([x], Transpose(tuple(reversed(range(len(x.shape)))) if perm is None else perm))


@imports("Concat")
def concat(s: OnnxStep) -> None:
    xs = [s.value(index) for index in range(s.input_count)]
    s.emit(xs, Concat(s.axis(s.node.int_("axis", 0), len(xs[0].shape) if xs else 0)))


@imports("Pad")
def pad(s: OnnxStep) -> None:
    """Pads and value are attributes before opset 11, inputs since; axes came with 18. Negative pads crop."""
    x = s.value(0)
    rank = len(x.shape)
    mode = s.node.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise TinycError(
            f"padding mode '{mode}' cannot be compiled", s.where, "there are constant, reflect, edge and wrap"
        )
    if s.opset < 11:
        pads, value = s.node.ints("pads") or (), s.node.float_("value", 0.0)
    else:
        pads, value = s.numbers(1), s.scalar(2, 0.0)
    axes = [s.axis(axis, rank) for axis in s.numbers(3)] if s.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes) or not math.isfinite(value):
        raise TinycError(
            f"pads {list(pads)} with value {value} of {list(x.shape)}: sizes must fit the input, the value be finite",
            s.where,
        )
    before, after = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = pads[k], pads[len(axes) + k]
    x = _cropped(s, x, before, after)
    if mode == "constant":
        s.emit([x], Pad(tuple(before), tuple(after), value))
    else:
        pad_with_copies(s, x, before, after, mode)


def _cropped(s: OnnxStep, x: Value, before: list[int], after: list[int]) -> Value:
    """x without what negative pads take off; they become 0."""
    if min((*before, *after), default=0) >= 0:
        return x
    begin = tuple(max(-n, 0) for n in before)
    size = tuple(n - b + min(e, 0) for n, b, e in zip(x.shape, begin, after, strict=True))
    if min(size) < 1:
        raise TinycError(f"pads {before} and {after} leave nothing of {list(x.shape)}", s.where)
    before[:], after[:] = [max(n, 0) for n in before], [max(n, 0) for n in after]
    return s.insert([x], Slice(begin, size, (1,) * len(size)), "cropped")


@imports("Expand")
def expand(s: OnnxStep) -> None:
    """Repeated along axes of size 1; where none is, nothing to do."""
    x, target = s.value(0), s.numbers(1)
    rank = max(len(x.shape), len(target))
    own = (1,) * (rank - len(x.shape)) + x.shape
    asked = (1,) * (rank - len(target)) + target
    if any(1 not in (size, have) and size != have for size, have in zip(asked, own, strict=True)):
        raise TinycError(f"{list(x.shape)} cannot be expanded to {list(target)}", s.where)
    shape = tuple(size if have == 1 else have for size, have in zip(asked, own, strict=True))
    if shape == own:
        s.emit([x], Reshape(own))
    else:
        s.emit([x], Broadcast(shape))
