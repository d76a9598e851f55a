# SPDX-License-Identifier: Apache-2.0
"""prelu: y = x where x >= 0, x * slope elsewhere, with numpy broadcasting of the slope; on int8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Struct
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.ops.binary import arguments, broadcast_shape, few_loops, float_kernel, is_s8, loop_fields, of_pairs
from tinyc.ops.op import Observed, Op


@dataclass(frozen=True, slots=True)
class Prelu:
    """No attributes: the slope is the second input."""


def infer(a: Prelu, x: Value, slope: Value) -> Sequence[Type]:
    if broadcast_shape(x.shape, slope.shape) != x.shape:
        raise TinycError(f"slopes {list(slope.shape)} do not fit input {list(x.shape)}")
    return [Type(x.shape, x.dtype)]


def float_ref(a: Prelu, x: Array, slope: Array) -> tuple[Array, ...]:
    return (np.where(x >= 0, x, x * slope).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class Slopes:
    """With v = x - x_zero: y = clamp(requantize(v, mult, shift) + y_zero) where v >= 0, else
    clamp(requantize(v * (slope - slope_zero), low_mult, low_shift) + y_zero)."""

    x_zero: int
    slope_zero: int
    mult: int
    shift: int
    low_mult: int
    low_shift: int
    rounding: Rounding
    y_zero: int

    def run(self, x: Array, slope: Array) -> Array:
        v = x.astype(np.int64) - self.x_zero
        high = requantize(v, self.mult, self.shift, self.rounding)
        low = requantize(v * (slope.astype(np.int64) - self.slope_zero), self.low_mult, self.low_shift, self.rounding)
        return np.asarray(np.clip(np.where(v >= 0, high, low) + self.y_zero, -128, 127).astype(np.int8))


def prepare(site: Site) -> Slopes:
    """TinycError unless all are int8, or where a value, scaled up, could leave int32."""
    if not is_s8(site):
        raise TinycError(f"prelu of {site.x(0).dtype}: the integer operator takes int8", site.node.where)
    (x_scale, x_zero), (slope_scale, slope_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    factors = x_scale / y_scale, x_scale * slope_scale / y_scale
    if factors[0] >= 2.0**22 or factors[1] >= 2.0**14:
        raise TinycError(f"prelu scales by {factors[0]:g} and {factors[1]:g}, beyond int32", site.node.where)
    high, low = (quantize_multiplier(factor) for factor in factors)
    return Slopes(x_zero, slope_zero, *high, *low, site.builtin_rounding, y_zero)


def int_ref(p: Slopes, x: Array, slope: Array) -> tuple[Array, ...]:
    return (p.run(x, slope),)


def lower(site: Site, p: Slopes) -> Call:
    """tc_prelu_s8: element by element."""
    names = ("x_zero", "slope_zero", "mult", "shift", "low_mult", "low_shift", "y_zero")
    fields = {**loop_fields(site), **{name: getattr(p, name) for name in names}, "rounds": p.rounding.code}
    return Call(arguments(site), Struct("tc_prelu_s8_t", fields))


OP = Op(
    name="prelu",
    attrs=Prelu,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        counted_kernel("tc_prelu_s8", lower, of_pairs, when=(is_s8, few_loops), inplace=(0,)),
        float_kernel("prelu"),
    ),
    rowwise=elementwise,
    float32=Float32(float_ref),
)
