# SPDX-License-Identifier: Apache-2.0
"""div: y = x0 / x1 with numpy broadcasting and a fused activation.

Where x1 is 0 the integers take it as the smallest step there is, so that the result has the sign of x0.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base import fixedpoint, float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_multiplier, rounding_divide_by_pot, saturating_rounding_doubling_high_mul
from tinyc.ir.graph import Array
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Struct
from tinyc.kernel.site import Site, elementwise
from tinyc.ops.binary import (
    NUMBER_KERNELS,
    Binary,
    arguments,
    float_kernel,
    infer,
    is_s8,
    loop_fields,
    pair_kernel,
)
from tinyc.ops.op import Observed, Op, Trait

_MOST_DOWN = 31  # a further shift to the right leaves nothing


@dataclass(frozen=True, slots=True)
class Div(Binary):
    """The fused activation `act`."""


def float_ref(a: Div, x0: Array, x1: Array) -> tuple[Array, ...]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return (a.act.clip(x0 / x1),)


def exact_float(a: Div, x0: Array, x1: Array) -> tuple[Array, ...]:
    """As tc_div_f32 computes it."""
    with np.errstate(all="ignore"):
        return (float32.clip(np.asarray(x0 / x1, np.float32), a.act.lo, a.act.hi),)


@dataclass(frozen=True, slots=True)
class Quotients:
    """y = clamp(round(q * mult * 2^(shift - 31 - down)) + y_zero), q * 2^-down ~ (x0 - x0_zero) / (x1 - x1_zero).

    As TensorFlow Lite Micro computes it: q is a doubling high product of the numerator, shifted up as far as it goes,
    and of the divisor's inverse by three Newton steps.
    """

    x0_zero: int
    x1_zero: int
    mult: int
    shift: int
    y_zero: int
    y_min: int
    y_max: int

    def run(self, x0: Array, x1: Array) -> Array:
        above, below = np.broadcast_arrays(x0.astype(np.int64) - self.x0_zero, x1.astype(np.int64) - self.x1_zero)
        above, below = np.where(below < 0, -above, above), np.maximum(np.abs(below), 1)
        inverse, over = fixedpoint.reciprocal(below, 31)
        headroom = _headroom(above)
        quotient = saturating_rounding_doubling_high_mul(above << headroom, inverse)
        down = over + headroom - self.shift
        scaled = saturating_rounding_doubling_high_mul(quotient, self.mult)
        y = np.where(down > _MOST_DOWN, 0, rounding_divide_by_pot(scaled, np.clip(down, 0, _MOST_DOWN)))
        return np.clip(y + self.y_zero, self.y_min, self.y_max).astype(np.int8)


def _headroom(v: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """How far a number of 32 bits can be shifted up: its leading bits that equal the sign's, less one."""
    size = np.where(v < 0, -v - 1, v)
    return 31 - np.frexp(size.astype(np.float64))[1].astype(np.int64)


def prepare(site: Site) -> Quotients:
    """TinycError unless all are int8, or where quotients are scaled up so far that they could leave int32."""
    if not is_s8(site):
        raise TinycError(f"div of {site.x(0).dtype} and {site.x(1).dtype}: the integer operator takes int8")
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    factor = scale0 / (scale1 * y_scale)
    if site.numerics is Numerics.LITERT:  # which rounds it to float32
        factor = float(np.float32(scale0) / (np.float32(scale1) * np.float32(y_scale)))
    mult, shift = quantize_multiplier(factor)
    if shift > 22:
        raise TinycError(
            f"div: output scale {y_scale:g} is too small beside the input scales {scale0:g} and {scale1:g}",
            site.node.where,
        )
    lo, hi = site.attrs.act.range_of(site.y())
    return Quotients(zero0, zero1, mult, shift, y_zero, lo, hi)


def int_ref(p: Quotients, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (p.run(x0, x1),)


def lower(site: Site, p: Quotients) -> Call:
    """tc_div_s8: element by element."""
    names = ("x0_zero", "x1_zero", "mult", "shift", "y_zero", "y_min", "y_max")
    fields = {**loop_fields(site), **{name: getattr(p, name) for name in names}}
    return Call(arguments(site), Struct("tc_div_s8_t", fields))


OP = Op(
    name="div",
    attrs=Div,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        *NUMBER_KERNELS,
        pair_kernel("tc_div_s8", lower, is_s8),
        float_kernel("div"),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.BROADCASTS, Trait.FUSES_CLIP}),
    float32=Float32(exact_float),
)
