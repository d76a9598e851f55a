# SPDX-License-Identifier: Apache-2.0
"""convert: numbers as another type: reals to int32 towards zero and saturated (NaN: the least), integers to float32.

In a quantized graph integers and truth values become what their reals are quantized to, round(x / scale) + zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, In, Kernel, Out, SpecializedKernel, offered
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.kernels import plain
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import COUNT

_TO_INT32 = "p >= 2147483648.0f ? 2147483647 : p > -2147483648.0f ? (int32_t)p : (-2147483647 - 1)"


@dataclass(frozen=True, slots=True)
class Convert:
    """dtype: of the output. One of input and output is f32, or the output is quantized (s8, s16)."""

    dtype: DType


def infer(a: Convert, x: Value) -> Sequence[Type]:
    is_supported = x.dtype in plain.CTYPES and a.dtype in ("f32", "s32", "bool", "s8", "s16")
    reals = "f32" if a.dtype in ("s8", "s16") else a.dtype
    if not is_supported or (x.dtype == "f32") == (reals == "f32"):
        hint = "build the model with --precision float32" if x.dtype in ("s8", "s16") and a.dtype == "s32" else ""
        raise TinycError(f"numbers of {x.dtype} do not become {a.dtype}", hint=hint)
    return [Type(x.shape, a.dtype)]


def float_ref(a: Convert, x: Array) -> tuple[Array, ...]:
    if a.dtype != "s32":
        return (x.astype(NUMPY_DTYPE["bool" if a.dtype == "bool" else "f32"]),)
    lo, hi = INT_RANGE["s32"]
    return (np.clip(np.nan_to_num(np.trunc(x.astype(np.float64)), nan=lo), lo, hi).astype(np.int32),)


@dataclass(frozen=True, slots=True)
class Counted:
    """y = clamp(round(x / scale) + zero), as requantize rounds once; x is first limited to where y saturates."""

    most: int
    mult: int
    shift: int
    zero: int
    dtype: DType

    def run(self, x: Array) -> Array:
        limited = np.clip(x.astype(np.int64), -self.most, self.most)
        steps = requantize(limited, self.mult, self.shift, Rounding.SINGLE) + self.zero
        return np.clip(steps, *INT_RANGE[self.dtype]).astype(NUMPY_DTYPE[self.dtype])

    @property
    def expression(self) -> str:
        """Of the element p, in C."""
        lo, hi = INT_RANGE[self.dtype]
        limited = f"tc_clamp(p, {-self.most}, {self.most})"
        steps = f"tc_requantize_single({limited}, {self.mult}, {self.shift}) + ({self.zero})"
        return f"tc_clamp({steps}, {lo}, {hi})"


def prepare(site: Site) -> Convert | Counted:
    """TinycError for integers that stand for other numbers, or for a scale too small for them."""
    if site.x(0).quant not in (None, COUNT):
        raise TinycError(
            "convert: integers of a scale stand for other numbers", site.node.where, "build it with --precision float32"
        )
    if site.attrs.dtype not in ("s8", "s16"):
        return Convert(site.attrs.dtype)
    scale, zero = site.scale_zero(site.y())
    most = int(min(np.ceil(2.0**17 * scale), 2.0**31 - 1))
    mult, shift = quantize_multiplier(1 / scale)
    if not -31 <= shift <= 17:
        raise TinycError(f"convert: integers as reals of a scale of {scale:g} cannot be compiled", site.node.where)
    return Counted(most, mult, shift, zero, site.attrs.dtype)


def int_ref(p: Convert | Counted, x: Array) -> tuple[Array, ...]:
    return (p.run(x),) if isinstance(p, Counted) else float_ref(p, x)


def specialize(site: Site, p: Convert | Counted) -> SpecializedKernel:
    types = (site.x(0).dtype, p.dtype)
    if isinstance(p, Counted):
        what = f"{types[0]} to {types[1]} of a scale"
        return plain.each(what, types, site.x(0).elements, p.expression)
    expression = {"s32": _TO_INT32, "bool": "p != 0.0f", "f32": "p"}[p.dtype]
    return plain.each(f"{types[0]} to {types[1]}", types, site.x(0).elements, expression)


def of_numbers(site: Site, p: Convert | Counted) -> Units:
    """Elements, apart those that are, or become, float32."""
    is_float = "f32" in (site.x(0).dtype, site.y().dtype)
    return {"float" if is_float else "element": site.x(0).elements}


def lower(site: Site, p: Convert | Counted) -> Call:
    """The function written for the layer."""
    return Call((In(0), Out()))


OP = Op(
    name="convert",
    attrs=Convert,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(own=True),),
    kernels=(
        Kernel(
            "tc_convert",
            offered(lower, cost=CountedCost("tc_convert", of_numbers), specialize=specialize),
            written=True,
        ),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ANY_TYPE, Trait.SAYS_WIDTH}),
)
