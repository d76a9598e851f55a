# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that cut, join and resize tensors, and those that compare; imported like those of tflite_ops.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.limits import check_shape
from tinyc.ir.graph import NUMPY_DTYPE, Shape, Value
from tinyc.kernel.site import Pair
from tinyc.load.resizing import bilinear_float_tflite, nearest_tflite
from tinyc.load.tflite_arrays import elements
from tinyc.load.tflite_counts import on_counts
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import fused, geometry_of_same, imports
from tinyc.ops.absolute import Absolute
from tinyc.ops.argmax import ArgMax
from tinyc.ops.concat import Concat
from tinyc.ops.extremum import Extremum
from tinyc.ops.mul import Mul
from tinyc.ops.reshape import Reshape
from tinyc.ops.resize_bilinear import FINE, ONE, ResizeBilinear, bilinear_tflite
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.slice import Slice, whole
from tinyc.ops.transpose import Transpose
from tinyc.ops.transpose_conv2d import TransposeConv2D

_SAME = 0  # schema enum Padding


def _axis(s: TfliteStep, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise TinycError(f"axis {axis} does not fit a tensor of rank {rank}", s.where)
    return axis % rank


@imports("STRIDED_SLICE")
def strided_slice(s: TfliteStep) -> None:
    """Any begin, end, stride and mask."""
    constant = s.constant(0)
    ranges, left = _spelled(s, s.value(0).shape if constant is None else constant.shape)
    if min((len(r) for r in ranges), default=1) < 1:
        raise TinycError("STRIDED_SLICE of nothing is not possible", s.where)
    if constant is not None:
        s.fold(constant[np.ix_(*ranges)].reshape(left))
        return
    if s.out_tensor().shape != tuple(left):
        raise TinycError(f"STRIDED_SLICE makes {left}, not {list(s.out_tensor().shape)}", s.where)
    _cut(s, ranges)


def _spelled(s: TfliteStep, shape: Shape) -> tuple[list[range], list[int]]:
    """(what is taken of each axis, the output's shape): `x[1:, ..., 3, newaxis]` axis by axis."""
    o = s.options("StridedSliceOptions")
    begin_mask, end_mask = o["BeginMask"], o["EndMask"]
    begin, end, step = (s.numbers(k) for k in (1, 2, 3))
    marks = range(len(begin))
    dots = [k for k in marks if o["EllipsisMask"] >> k & 1]
    new = [k for k in marks if o["NewAxisMask"] >> k & 1 and k not in dots]
    rest = len(shape) - (len(begin) - len(new) - len(dots))  # axes that no number is for
    if not len(begin) == len(end) == len(step) or rest < 0 or len(dots) > 1 or 0 in step:
        raise TinycError(
            f"STRIDED_SLICE by strides {list(step)} of a tensor of rank {len(shape)} cannot be compiled", s.where
        )
    ranges: list[range] = []
    left: list[int] = []
    for k in (*marks, None):
        axis = len(ranges)
        if k in dots or (k is None and not dots):
            ranges += [range(size) for size in shape[axis : axis + rest]]
            left += shape[axis : axis + rest]
        elif k in new:
            left.append(1)
        elif k is not None and o["ShrinkAxisMask"] >> k & 1:  # one element, the first where begin is masked
            at = 0 if begin_mask >> k & 1 else _axis(s, begin[k], shape[axis])
            ranges.append(range(at, at + 1))
        elif k is not None:
            first = None if begin_mask >> k & 1 else begin[k]
            last = None if end_mask >> k & 1 else end[k]
            ranges.append(range(*slice(first, last, step[k]).indices(shape[axis])))
            left.append(len(ranges[-1]))
    return ranges, left


def _cut(s: TfliteStep, ranges: Sequence[range]) -> None:
    """The slice, and the reshape that drops axes where the output has fewer."""
    x, y = s.value(0), s.declared()
    attrs = Slice(
        tuple(r.start for r in ranges),
        tuple(len(r) for r in ranges),
        tuple(r.step if len(r) > 1 else 1 for r in ranges),
    )
    if -1 in s.out_tensor().signature and len(y.shape) == len(attrs.size):
        y = replace(y, shape=attrs.size)
    if y.shape == attrs.size:
        s.emit((x,), attrs, y)
        return
    part = s.between("slice", attrs.size, y)
    s.insert((x,), attrs, part)
    s.emit((part,), Reshape(y.shape), y)


@imports("SLICE")
def slice_(s: TfliteStep) -> None:
    shape = s.value(0).shape
    begin, size = s.numbers(1), s.numbers(2)
    if not len(begin) == len(size) == len(shape):
        raise TinycError(f"SLICE of {len(size)} axes of a tensor of rank {len(shape)} cannot be compiled", s.where)
    ranges = [range(b, n if m == -1 else b + m) for b, m, n in zip(begin, size, shape, strict=True)]
    if all(0 <= r.start <= r.stop <= n for r, n in zip(ranges, shape, strict=True)) and not all(ranges):
        s.fold(np.zeros([len(r) for r in ranges], NUMPY_DTYPE[s.value(0).dtype]))  # of a list before its first step
        return
    if any(r.start < 0 or r.stop > n or len(r) < 1 for r, n in zip(ranges, shape, strict=True)):
        raise TinycError(f"SLICE {list(begin)}, {list(size)} leaves {list(shape)}", s.where)
    _cut(s, ranges)


def _parts(s: TfliteStep, index: int, axis: int, sizes: Sequence[int]) -> None:
    """One slice per output, one after the other along the axis."""
    x = s.value(index)
    axis = _axis(s, axis, len(x.shape))
    if len(sizes) != s.output_count or min(sizes, default=0) < 1 or sum(sizes) != x.shape[axis]:
        raise TinycError(f"parts {list(sizes)} do not make up axis {axis} of {list(x.shape)}", s.where)
    at = 0
    for k, size in enumerate(sizes):
        y = s.declared(k)
        attrs = whole(x.shape, axis, at, size)
        if y.shape == attrs.size:
            s.insert((x,), attrs, y)
        else:
            part = s.between(f"part{k}", attrs.size, y)
            s.insert((x,), attrs, part)
            s.insert((part,), Reshape(y.shape), y)
        s.define(k, y)
        at += size


@imports("SPLIT", ignores=("num_splits",))  # the outputs are counted
def split(s: TfliteStep) -> None:
    count = s.output_count
    size = s.value(1).shape[_axis(s, s.numbers(0)[0], len(s.value(1).shape))] if s.numbers(0) else 0
    if count < 1 or size % count:
        raise TinycError(f"{size} elements do not split into {count} equal parts", s.where)
    _parts(s, 1, s.numbers(0)[0], (size // count,) * count)


@imports("SPLIT_V", ignores=("num_splits",))
def split_v(s: TfliteStep) -> None:
    axis, sizes = s.numbers(2), list(s.numbers(1))
    if len(axis) != 1:
        raise TinycError("SPLIT_V needs one axis", s.where)
    rest = s.value(0).shape[_axis(s, axis[0], len(s.value(0).shape))] - sum(n for n in sizes if n >= 0)
    _parts(s, 0, axis[0], [rest if n < 0 else n for n in sizes])


@imports("UNPACK", ignores=("num",))
def unpack(s: TfliteStep) -> None:
    """One slice per index of the axis, which is dropped."""
    _parts(s, 0, s.options("UnpackOptions")["Axis"], (1,) * s.output_count)


@imports("PACK", ignores=("values_count",))
def pack(s: TfliteStep) -> None:
    """Tensors stacked along a new axis. Of constants: the usual way to compute the shape of a RESHAPE."""
    parts = [s.constant(i) for i in range(s.input_count)]
    constants = [part for part in parts if part is not None]
    axis = s.options("PackOptions")["Axis"]
    if constants and len(constants) == len(parts) and len({part.shape for part in constants}) == 1:
        s.builder.folded.take(s.out_tensor().name, (len(constants), *constants[0].shape), s.where)
        s.fold(np.stack(constants, _axis(s, axis, constants[0].ndim + 1)))
        return
    y = s.declared()
    axis = _axis(s, axis, len(y.shape))
    wide = []
    for k in range(s.input_count):
        x = s.value(k)
        if x.shape != (*y.shape[:axis], *y.shape[axis + 1 :]):
            raise TinycError(f"PACK of {list(x.shape)} to {list(y.shape)} is not possible", s.where)
        part = s.between(f"part{k}", (*x.shape[:axis], 1, *x.shape[axis:]), x)
        s.insert((x,), Reshape(part.shape), part)
        wide.append(part)
    s.emit(wide, Concat(axis), y)


def _new_size(s: TfliteStep) -> tuple[Value, Pair]:
    x, size = s.image(0), s.numbers(1)
    if len(size) != 2 or min(size) < 1 or max(size) > 32767:
        raise TinycError(f"an image of {list(x.shape)} cannot be resized to {list(size)}", s.where)
    check_shape("its output", (1, *size, x.shape[3]), s.where)
    return x, Pair(*size)


@imports("RESIZE_NEAREST_NEIGHBOR")
def resize_nearest(s: TfliteStep) -> None:
    o, (x, size) = s.options("ResizeNearestNeighborOptions"), _new_size(s)
    rule = {"align_corners": bool(o["AlignCorners"]), "half_pixel": bool(o["HalfPixelCenters"])}
    rows, columns = (nearest_tflite(x.shape[1 + k], size[k], **rule) for k in (0, 1))
    s.emit((x,), ResizeNearest(rows, columns))


@imports("RESIZE_BILINEAR")
def resize_bilinear(s: TfliteStep) -> None:
    o, (x, size) = s.options("ResizeBilinearOptions"), _new_size(s)
    rule = {"align_corners": bool(o["AlignCorners"]), "half_pixel": bool(o["HalfPixelCenters"])}
    places = bilinear_float_tflite if x.dtype == "f32" else bilinear_tflite
    rows, columns = (places(x.shape[1 + k], size[k], **rule) for k in (0, 1))
    s.emit((x,), ResizeBilinear(rows, columns, FINE if x.dtype == "f32" else ONE))


@imports("TRANSPOSE_CONV", ignores=("quantized_bias_type",))
def transpose_conv(s: TfliteStep) -> None:
    o, x, y = s.options("TransposeConvOptions"), s.image(2), s.declared()
    w = s.weights(1, x, axis=0)
    if len(w.shape) != 4 or len(y.shape) != 4:
        raise TinycError(f"weights {list(w.shape)} and output {list(y.shape)} must have rank 4", s.where)
    stride, size = Pair(o["StrideH"], o["StrideW"]), Pair(*y.shape[1:3])
    if min(stride) < 1:
        raise TinycError(f"stride {tuple(stride)} must be positive", s.where)
    asked = s.constant(0)
    if asked is not None and tuple(asked.reshape(-1).tolist())[1:] != y.shape[1:]:
        raise TinycError(f"output_shape {asked.tolist()} is not the declared {list(y.shape)}", s.where)
    pad = Pair(0, 0)
    if o["Padding"] == _SAME:
        # The padding of the convolution that this one transposes: from the output, as large, to the input.
        before = [geometry_of_same(size[k], w.shape[1 + k], stride[k])[0] for k in (0, 1)]
        pad = Pair(before[0], before[1])
    attrs = TransposeConv2D(stride, pad, size, fused(o))
    s.emit((x, w, s.bias(3, x, w)), attrs, y)


@imports("MAXIMUM")
def maximum(s: TfliteStep) -> None:
    if not on_counts(s, "max"):
        s.emit((s.value(0), s.value(1)), Extremum(largest=True))


@imports("MINIMUM")
def minimum(s: TfliteStep) -> None:
    if not on_counts(s, "min"):
        s.emit((s.value(0), s.value(1)), Extremum(largest=False))


@imports("ABS")
def absolute(s: TfliteStep) -> None:
    s.emit((s.value(0),), Absolute())


@imports("NEG")
def negate(s: TfliteStep) -> None:
    """Only of floats, as in TensorFlow Lite."""
    x = s.value(0)
    if x.dtype != "f32":
        raise TinycError(f"NEG of {s.type_of(0)} cannot be compiled", s.where)
    s.emit((x, s.number(-1.0, "minus")), Mul())


@imports("ARG_MAX", "ARG_MIN", ignores=("output_type",))
def arg_max(s: TfliteStep) -> None:
    """The index is int32 here, also where the model has int64."""
    axis = s.numbers(1)
    if len(axis) != 1:
        raise TinycError("one axis is needed", s.where)
    y = s.declared()
    s.emit((s.value(0),), ArgMax(axis[0], s.operator.code == "ARG_MAX"), replace(y, dtype="s32", quant=None))


def _blocks(s: TfliteStep, options: str) -> tuple[Value, int]:
    x, size = s.image(0), s.options(options)["BlockSize"]
    if size < 1:
        raise TinycError(f"block size {size} cannot be compiled", s.where)
    return x, size


@imports("DEPTH_TO_SPACE")
def depth_to_space(s: TfliteStep) -> None:
    """As a reshape, a transpose and a reshape."""
    x, b = _blocks(s, "DepthToSpaceOptions")
    _, in_h, in_w, in_c = x.shape
    if in_c % (b * b):
        raise TinycError(f"{in_c} channels do not make blocks of {b}x{b}", s.where)
    _move_blocks(s, x, (in_h, in_w, b, b, in_c // (b * b)), (0, 2, 1, 3, 4))


@imports("SPACE_TO_DEPTH")
def space_to_depth(s: TfliteStep) -> None:
    """As a reshape, a transpose and a reshape."""
    x, b = _blocks(s, "SpaceToDepthOptions")
    _, in_h, in_w, in_c = x.shape
    if in_h % b or in_w % b:
        raise TinycError(f"an image of {in_h}x{in_w} has no whole blocks of {b}x{b}", s.where)
    _move_blocks(s, x, (in_h // b, b, in_w // b, b, in_c), (0, 2, 1, 3, 4))


def _move_blocks(s: TfliteStep, x: Value, shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    wide = s.between("blocks", shape, x)
    s.insert((x,), Reshape(shape), wide)
    moved = s.between("moved", tuple(shape[k] for k in perm), x)
    s.insert((wide,), Transpose(perm), moved)
    if moved.elements != elements(s.out_tensor(), s.where):
        raise TinycError(f"blocks {list(shape)} do not make up the output", s.where)
    s.emit((moved,), Reshape(s.out_tensor().shape))
