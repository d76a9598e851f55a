# SPDX-License-Identifier: Apache-2.0
"""Operators that cut, pick, resize and rearrange: Slice, Split, Gather, Resize, DepthToSpace; ArgMax."""

from __future__ import annotations

import math

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.limits import MAX_ELEMENTS, check_shape
from tinyc.ir.graph import Value
from tinyc.kernel.site import Pair
from tinyc.load.onnx.importing import OnnxStep, imports
from tinyc.load.picking import picked
from tinyc.load.resizing import bilinear_onnx, nearest_onnx, resized_onnx
from tinyc.ops.absolute import Absolute
from tinyc.ops.argmax import ArgMax
from tinyc.ops.gather import Gather
from tinyc.ops.integer_binary import IntegerBinary
from tinyc.ops.reshape import Reshape
from tinyc.ops.resize_bilinear import FINE, ResizeBilinear
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.slice import Slice, whole
from tinyc.ops.transpose import Transpose


@imports("Slice")
def slice_(s: OnnxStep) -> None:
    """Starts and ends are attributes before opset 10, inputs since; steps may be negative."""
    x = s.value(0)
    rank = len(x.shape)
    if s.opset < 10:
        starts, ends = s.node.ints("starts") or (), s.node.ints("ends") or ()
        axes = s.node.ints("axes") or tuple(range(len(starts)))
        steps: tuple[int, ...] = (1,) * len(starts)
    else:
        starts, ends = s.numbers(1), s.numbers(2)
        axes = s.numbers(3) if s.has(3) else tuple(range(len(starts)))
        steps = s.numbers(4) if s.has(4) else (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise TinycError(f"starts {list(starts)}, ends {list(ends)}, steps {list(steps)} do not fit together", s.where)
    ranges = [range(size) for size in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        k = s.axis(axis, rank)
        ranges[k] = range(*slice(start, end, step).indices(x.shape[k]))
    if min((len(r) for r in ranges), default=1) < 1:
        raise TinycError(f"starts {list(starts)}, ends {list(ends)} leave nothing of {list(x.shape)}", s.where)
    steps = tuple(r.step if len(r) > 1 else 1 for r in ranges)
    s.emit([x], Slice(tuple(r.start for r in ranges), tuple(len(r) for r in ranges), steps))


@imports("Split")
def split(s: OnnxStep) -> None:
    """Into equal parts, or as the attribute or (since opset 13) the input says."""
    x = s.value(0)
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    given = s.numbers(1) if s.has(1) else s.node.ints("split")
    count = s.node.int_("num_outputs", len(s.node.outputs))
    size = x.shape[axis]
    if given is None and 0 < count <= size:
        part = -(-size // count)
        given = tuple(min(part, size - k * part) for k in range(count))
    if given is None or sum(given) != size or min(given) < 1 or len(given) != len(s.node.outputs):
        raise TinycError(f"axis {axis} of {list(x.shape)} is not split into {list(given or ())}", s.where)
    at = 0
    for k, part in enumerate(given):
        if s.node.outputs[k]:
            s.emit([x], whole(x.shape, axis, at, part), output=k)
        at += part


@imports("Gather")
def gather(s: OnnxStep) -> None:
    """Constant indices in step are a slice. Computed ones are int32; one outside is taken as the nearest inside."""
    x = s.value(0)
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    indices = s.constant(1)
    if indices is None:
        s.emit([x, s.value(1)], Gather(axis))
        return
    if indices.dtype.kind not in "iu":
        raise TinycError("its indices must be integers", s.where)
    try:
        attrs = picked(x.shape, axis, [int(k) for k in indices.reshape(-1)])
    except ValueError as e:
        raise TinycError(str(e), s.where) from e
    part = s.insert([x], attrs, "picked")
    s.emit([part], Reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])))


# The region is of tf_crop_and_resize, the others are of mode cubic; nearest_mode is read where it counts.
_OF_OTHER_MODES = ("cubic_coeff_a", "extrapolation_value", "nearest_mode", 1)


@imports("Resize", "Upsample", ignores=_OF_OTHER_MODES)
def resize(s: OnnxStep) -> None:
    """Rows and columns of an image, or moments, to the nearest pixel or bilinear."""
    x, rank = s.image(0), len(s.value(0).shape)
    size, scale = _sizes(s, s.value(0))
    if max(size) > 32767:
        raise TinycError(f"an image of {list(x.shape)} cannot be resized to {list(size)}", s.where)
    check_shape("its output", (1, *size, x.shape[3]), s.where)
    old = s.node.op == "Upsample" or s.opset < 11
    rule = "asymmetric" if old else s.node.text("coordinate_transformation_mode", "half_pixel")
    mode = s.node.text("mode", "nearest")
    try:
        if size == x.shape[1:3] and mode in ("nearest", "linear"):  # a copy in ONNX Runtime, whatever scales and rule
            s.emit([s.value(0)], Reshape(s.value(0).shape))
        elif mode == "nearest":
            rounding = "" if old else s.node.text("nearest_mode", "round_prefer_floor")
            rows, columns = (nearest_onnx(x.shape[1 + k], size[k], scale[k], rule, rounding) for k in (0, 1))
            s.emit_image([x], ResizeNearest(rows, columns), rank=rank)
        elif mode in ("linear", "bilinear"):
            if s.node.flag("antialias", False):
                raise TinycError("resizing with antialias is not supported", s.where, "export the model without it")
            _check_aligned(s, rule, x, size, scale)
            taps = [bilinear_onnx(x.shape[1 + k], size[k], scale[k], rule) for k in (0, 1)]
            s.emit_image([x], ResizeBilinear(taps[0], taps[1], FINE), rank=rank)
        else:
            raise TinycError(f"resizing with mode '{mode}' is not supported, only 'nearest' and 'linear'", s.where)
    except ValueError as e:
        raise TinycError(f"resizing by the rule '{e}' is not supported", s.where) from e


def _check_aligned(s: OnnxStep, rule: str, x: Value, size: Pair, scale: tuple[float, float]) -> None:
    """Refuse corners aligned to a size that is no whole number: ONNX and ONNX Runtime place them differently."""
    exact = all(abs(n * by - made) < 1e-3 for n, by, made in zip(x.shape[1:3], scale, size, strict=True))
    if rule == "align_corners" and not exact:
        raise TinycError(
            f"align_corners with scales that make no whole size of {list(x.shape[1:3])}",
            s.where,
            "give sizes, not scales",
        )


def _sizes(s: OnnxStep, x: Value) -> tuple[Pair, tuple[float, float]]:
    """(new height and width, their scales); of moments the height is 1."""
    axes = _resized_axes(s, len(x.shape))
    own = [x.shape[k] for k in axes]
    recent = s.node.op == "Resize" and s.opset >= 11
    by_sizes = recent and s.has(3) and s.numbers(3) and (not s.has(2) or not s.weights(2).size)
    given = s.numbers(3) if by_sizes else [float(v) for v in s.weights(2 if recent else 1).reshape(-1)]
    if len(given) != len(axes):
        raise TinycError(f"{len(given)} sizes or scales for {len(axes)} axes", s.where)
    if by_sizes:
        wanted = [int(n) for n in given]
        scales = [n / size for n, size in zip(wanted, own, strict=True)]
    else:
        scales = [float(v) for v in given]
        if not all(0 < v * size <= MAX_ELEMENTS for v, size in zip(scales, own, strict=True)):
            raise TinycError(f"{list(x.shape)} cannot be resized by {scales}", s.where)
        wanted = [resized_onnx(size, v) for size, v in zip(own, scales, strict=True)]
    sizes, factors = list(x.shape), [1.0] * len(x.shape)
    for k, size, factor in zip(axes, wanted, scales, strict=True):
        sizes[k], factors[k] = size, factor
    if tuple(sizes[:2]) != x.shape[:2] or min(sizes) < 1:
        raise TinycError(f"{list(x.shape)} cannot be resized to {sizes}: only rows and columns change", s.where)
    sizes, factors = [1, *sizes[2:]], [1.0, *factors[2:]]
    return Pair(sizes[-2], sizes[-1]), (factors[-2], factors[-1])


def _resized_axes(s: OnnxStep, rank: int) -> list[int]:
    """The axes that sizes or scales are for."""
    given = s.node.ints("axes")
    axes = list(range(rank)) if given is None else [s.axis(axis, rank) for axis in given]
    if len(set(axes)) < len(axes):
        raise TinycError(f"axes {axes} name one twice", s.where)
    return axes


@imports("DepthToSpace", "SpaceToDepth")
def move_blocks(s: OnnxStep) -> None:
    """As a reshape, a transpose and a reshape."""
    x, b = s.value(0), s.node.int_("blocksize", 0)
    mode = s.node.text("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise TinycError(f"mode '{mode}'", s.where, "there are DCR and CRD")
    if len(x.shape) != 4 or b < 1:
        raise TinycError(f"blocks of {b}x{b} of {list(x.shape)}", s.where)
    n, c, h, w = x.shape
    if s.node.op == "SpaceToDepth":
        wide, shape = (n, c, h // b, b, w // b, b), (n, c * b * b, h // b, w // b)
        perm = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    elif mode == "DCR":
        wide, perm, shape = (n, b, b, c // b**2, h, w), (0, 3, 4, 1, 5, 2), (n, c // b**2, h * b, w * b)
    else:
        wide, perm, shape = (n, c // b**2, b, b, h, w), (0, 1, 4, 2, 5, 3), (n, c // b**2, h * b, w * b)
    if math.prod(wide) != x.elements:
        raise TinycError(f"{list(x.shape)} has no whole blocks of {b}x{b}", s.where)
    moved = s.insert([s.reshape(x, wide, "blocks")], Transpose(perm), "moved")
    s.emit([moved], Reshape(shape))


@imports("ArgMax", "ArgMin")
def arg_max(s: OnnxStep) -> None:
    """The index is int32 here, int64 in the model. The last of equals is the first from the other end."""
    x = s.value(0)
    axis = s.axis(s.node.int_("axis", 0), len(x.shape))
    attrs = ArgMax(axis, s.node.op == "ArgMax", s.node.flag("keepdims", True))
    if not s.node.flag("select_last_index", False):
        s.emit([x], attrs)
        return
    count = x.shape[axis]
    turned = s.insert([x], whole(x.shape, axis, count - 1, count, -1), "turned")
    last = s.builder.add_integers(f"{s.node.outputs[0]}:last", np.array(count - 1, np.int32), "s32")
    s.emit([last, s.insert([turned], attrs, "from_end")], IntegerBinary("sub", "s32"))


@imports("Abs")
def absolute(s: OnnxStep) -> None:
    s.emit([s.value(0)], Absolute())
