# SPDX-License-Identifier: Apache-2.0
"""requantize: the same reals in another integer quantization or width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.ops.batched import Batched
from tinyc.ops.dequantize import DequantizeParams
from tinyc.ops.dequantize import int_ref as dequantized
from tinyc.ops.op import Op, Trait, Unquantized, same_channels
from tinyc.ops.quantize import int_ref as quantized
from tinyc.ops.quantize import prepare as quantize_params
from tinyc.ops.tables import (
    TABLE_KERNELS,
    XNN_MAX_RATIO,
    XNN_MIN_RATIO,
    Table,
    is_byte_to_byte,
    look_up,
    make_table,
    real_table,
    rescale,
    xnn_scale,
)


@dataclass(frozen=True, slots=True)
class Requantize:
    """dtype: of the output. by_float: what a file's DEQUANTIZE and QUANTIZE give, which round once; bytes as these two
    do, wider integers with halves up."""

    dtype: DType = "s8"
    by_float: bool = False


def infer(a: Requantize, x: Value) -> Sequence[Type]:
    return [Type(x.shape, a.dtype)]


def float_ref(a: Requantize, x: Array) -> tuple[Array, ...]:
    return (x,)


@dataclass(frozen=True, slots=True)
class Wide:
    """y = clamp(requantize(x - x_zero, mult, shift) + y_zero, lo, hi): for widths that no byte table covers."""

    mult: int
    shift: int
    rounding: Rounding
    x_zero: int
    y_zero: int
    dtype: DType
    lo: int
    hi: int


def prepare(site: Site) -> Table | Wide:
    x, y = site.scale_zero(site.x(0)), site.scale_zero(site.y())
    if is_byte_to_byte(site):
        if site.attrs.by_float:
            reals, integers = DequantizeParams(np.float32(x[0]), x[1]), quantize_params(site)
            return make_table(site.x(0), site.y(), lambda q: quantized(integers, *dequantized(reals, q))[0])
        if site.numerics is Numerics.LITERT and XNN_MIN_RATIO <= x[0] / y[0] <= XNN_MAX_RATIO:
            return make_table(site.x(0), site.y(), lambda q: _xnn_convert(q, x, y))
        if site.numerics is Numerics.ONNX:
            return real_table(site, lambda real: real)
        return make_table(site.x(0), site.y(), lambda q: rescale(q, x, y, site.builtin_rounding))
    params = wide(site, *INT_RANGE[site.y().dtype], y)
    return replace(params, rounding=Rounding.SINGLE) if site.attrs.by_float else params


def wide(site: Site, lo: int, hi: int, y: tuple[float, int], real: type = np.float64) -> Wide:
    """The integers for widths beyond a byte, of scale and zero point y, clamped to [lo, hi]; real: what the scales are
    divided in. TinycError if the factor is too large."""
    x = site.scale_zero(site.x(0))
    factor = float(real(x[0]) / real(y[0]))
    if factor >= 2.0**14:
        raise TinycError(f"requantize by a factor of {factor:g}; at most 16384 fits int32", site.node.where)
    mult, shift = quantize_multiplier(factor)
    return Wide(mult, shift, site.builtin_rounding, x[1], y[1], site.y().dtype, lo, hi)


def _xnn_convert(q: npt.NDArray[np.int64], x: tuple[float, int], y: tuple[float, int]) -> npt.NDArray[np.int64]:
    """XNNPACK's qs8 vcvt, which desktop LiteRT uses: the ratio of the scales in steps of 1/256."""
    return xnn_scale(q - x[1], np.float32(x[0]) / np.float32(y[0])) + y[1]


def int_ref(p: Table | Wide, x: Array) -> tuple[Array, ...]:
    if isinstance(p, Table):
        return look_up(p, x)
    y = requantize(x.astype(np.int64) - p.x_zero, p.mult, p.shift, p.rounding) + p.y_zero
    return (np.clip(y, p.lo, p.hi).astype(NUMPY_DTYPE[p.dtype]),)


def is_flip(site: Site) -> bool:
    """int8 to uint8 or back, of one scale, zero points 128 apart"""
    x, y = site.x(0), site.y()
    if {x.dtype, y.dtype} != {"s8", "u8"}:
        return False
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(x), site.scale_zero(y)
    return x_scale == y_scale and y_zero - x_zero == (128 if y.dtype == "u8" else -128)


def lower_flip(site: Site, p: Table | Wide) -> Call:
    """tc_flip_s8: one bit of every element."""
    return Call((In(0), Out(), site.x(0).elements))


def is_wide(site: Site) -> bool:
    """int8, int16 or int32, one of them wider than a byte; from int32 only to int8 and int16 of a larger scale"""
    x, y = site.x(0), site.y()
    if x.dtype == "s32":
        (x_scale, x_zero), (y_scale, _) = site.scale_zero(x), site.scale_zero(y)
        return y.dtype in ("s8", "s16") and x_zero == 0 and x_scale < y_scale
    return (x.dtype, y.dtype) != ("s8", "s8") and x.dtype in ("s8", "s16") and y.dtype in ("s8", "s16", "s32")


def lower_wide(site: Site, p: Wide) -> Call:
    """tc_requantize_wide: element by element, in any width."""
    fields: dict[str, int | float | str] = {
        "n": site.x(0).elements,
        "x_bytes": site.x(0).size_bytes // site.x(0).elements,
        "y_bytes": site.y().size_bytes // site.y().elements,
        "x_zero": p.x_zero,
        "y_zero": p.y_zero,
        "mult": p.mult,
        "shift": p.shift,
        "rounds": 2 if p.rounding is Rounding.DOUBLE else 1,
        "y_min": p.lo,
        "y_max": p.hi,
    }
    return Call((Params(), In(0), Out()), Struct("tc_requantize_wide_t", fields))


OP = Op(
    name="requantize",
    attrs=Requantize,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(own=True),),
    kernels=(
        counted_kernel("tc_flip_s8", lower_flip, of_elements, when=(is_flip,), inplace=(0,)),
        *TABLE_KERNELS,
        counted_kernel("tc_requantize_wide", lower_wide, of_elements, when=(is_wide,)),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.MONOTONE, Trait.INT16, Trait.ANY_TYPE, Trait.RESCALES}),
    channels=same_channels,
    batched=Batched(backward=lambda a, inputs, y, dy: (dy,)),
)
