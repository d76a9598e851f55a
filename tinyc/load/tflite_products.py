# SPDX-License-Identifier: Apache-2.0
"""TFLite operators of attention and normalization (products of computed matrices, squares, roots, extrema), and others
that need a kernel or a spelling of their own."""

from __future__ import annotations

from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import Act
from tinyc.load.tflite_graph import TfliteStep
from tinyc.load.tflite_ops import imports
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.concat import Concat
from tinyc.ops.function import Function
from tinyc.ops.mul import Mul
from tinyc.ops.power import Power
from tinyc.ops.prelu import Prelu
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole
from tinyc.ops.squared_difference import SquaredDifference

_REFLECT = 0  # schema enum MirrorPadMode


@imports("BATCH_MATMUL", ignores=("asymmetric_quantize_inputs",))
def batch_matmul(s: TfliteStep) -> None:
    """Of two computed tensors, or of one and a constant."""
    o = s.options("BatchMatMulOptions")
    s.emit((s.value(0), s.value(1)), BatchMatmul(bool(o["AdjX"]), bool(o["AdjY"])))


@imports("SQUARED_DIFFERENCE")
def squared_difference(s: TfliteStep) -> None:
    s.emit((s.value(0), s.value(1)), SquaredDifference(Act()))


@imports("RSQRT")
def inverse_root(s: TfliteStep) -> None:
    s.emit((s.value(0),), Power(-0.5))


@imports("SQRT")
def root(s: TfliteStep) -> None:
    """Only of floats, as in TensorFlow Lite."""
    _need_float(s)
    s.emit((s.value(0),), Power(0.5))


@imports("SQUARE")
def square(s: TfliteStep) -> None:
    """Only of floats, as in TensorFlow Lite."""
    _need_float(s)
    s.emit((s.value(0), s.value(0)), Mul())


@imports("POW")
def power(s: TfliteStep) -> None:
    """Only of floats, as in TensorFlow Lite, and with one constant exponent."""
    _need_float(s)
    exponent = s.reals(1, "the exponent")
    if exponent.size != 1:
        raise TinycError(f"POW with {exponent.size} exponents; one constant number is supported", s.where)
    s.emit((s.value(0),), Power(float(exponent.reshape(()))))


def _need_float(s: TfliteStep) -> None:
    if s.value(0).dtype != "f32":
        raise TinycError(f"{s.operator.code} of {s.type_of(0)}: TensorFlow Lite has it for floats only", s.where)


@imports("REDUCE_MAX", "REDUCE_MIN")
def reduce_extremum(s: TfliteStep) -> None:
    keep = bool(s.options("ReducerOptions")["KeepDims"])
    largest = s.operator.code == "REDUCE_MAX"
    s.emit((s.value(0),), ReduceExtremum(s.numbers(1), keep, largest))


@imports("PRELU")
def prelu(s: TfliteStep) -> None:
    s.emit((s.value(0), s.value(1)), Prelu())


@imports("MIRROR_PAD")
def mirror_pad(s: TfliteStep) -> None:
    """Mirrored at the border element (REFLECT), or behind it (SYMMETRIC): slices that run backward, and concats."""
    x, y, pads = s.value(0), s.declared(), s.numbers(1)
    if len(pads) != 2 * len(x.shape):
        raise TinycError(f"{len(pads)} paddings for a tensor of rank {len(x.shape)} do not fit together", s.where)
    skip = 1 if s.options("MirrorPadOptions")["Mode"] == _REFLECT else 0
    for axis, (low, high) in enumerate(zip(pads[::2], pads[1::2], strict=True)):
        size = x.shape[axis]
        if min(low, high) < 0 or max(low, high) > size - skip:
            raise TinycError(f"MIRROR_PAD by {low} and {high} of {size} elements is not possible", s.where)
        left = [_mirrored(s, x, axis, low - 1 + skip, low)] if low else []
        right = [_mirrored(s, x, axis, size - 1 - skip, high)] if high else []
        if left or right:
            wide = s.between(f"axis{axis}", (*x.shape[:axis], size + low + high, *x.shape[axis + 1 :]), x)
            s.insert([*left, x, *right], Concat(axis), wide)
            x = wide
    s.emit((x,), Reshape(y.shape), y)


def _mirrored(s: TfliteStep, x: Value, axis: int, first: int, count: int) -> Value:
    """`count` elements of the axis, backward from `first` on."""
    attrs = replace(whole(x.shape, axis, first, count), step=_steps(len(x.shape), axis, -1 if count > 1 else 1))
    part = s.between(f"mirror{axis}", attrs.size, x)
    s.insert((x,), attrs, part)
    return part


def _steps(rank: int, axis: int, step: int) -> tuple[int, ...]:
    return tuple(step if k == axis else 1 for k in range(rank))


@imports("COS", "ELU", "EXP", "LOG", "SIN")
def function(s: TfliteStep) -> None:
    s.emit((s.value(0),), Function(s.operator.code.lower()))


@imports("GELU")
def gelu(s: TfliteStep) -> None:
    """With the error function, or with tanh."""
    s.emit((s.value(0),), Function("gelu_tanh" if s.options("GeluOptions")["Approximate"] else "gelu"))
