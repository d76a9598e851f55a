# SPDX-License-Identifier: Apache-2.0
"""squared_difference: y = (x0 - x1)^2 with numpy broadcasting, of two int8 tensors."""

from __future__ import annotations

import numpy as np

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
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

_LEFT = 7  # bits that the centred inputs are shifted up before they are scaled


@dataclass(frozen=True, slots=True)
class SquaredDifference(Binary):
    """The fused activation `act`."""


def float_ref(a: SquaredDifference, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (a.act.clip(np.square(x0 - x1)),)


def exact_float(a: SquaredDifference, x0: Array, x1: Array) -> tuple[Array, ...]:
    """As tc_squared_difference_f32 computes it."""
    return (float32.clip((x0 - x1) * (x0 - x1), a.act.lo, a.act.hi),)


@dataclass(frozen=True, slots=True)
class Squares:
    """y = clamp(requantize((u0 - u1)^2, mult, shift) + y_zero), u<k> = requantize((x<k> - x<k>_zero) << 7, ...).

    As TensorFlow Lite Micro computes it: both inputs in steps of twice the larger scale / 2^7.
    """

    x0_zero: int
    x1_zero: int
    mult0: int
    shift0: int
    mult1: int
    shift1: int
    mult: int
    shift: int
    rounding: Rounding
    y_zero: int
    y_min: int
    y_max: int

    def run(self, x0: Array, x1: Array) -> Array:
        left = requantize((x0.astype(np.int64) - self.x0_zero) << _LEFT, self.mult0, self.shift0, self.rounding)
        right = requantize((x1.astype(np.int64) - self.x1_zero) << _LEFT, self.mult1, self.shift1, self.rounding)
        y = requantize(np.square(left - right), self.mult, self.shift, self.rounding) + self.y_zero
        return np.asarray(np.clip(y, self.y_min, self.y_max).astype(np.int8))


def prepare(site: Site) -> Squares:
    """TinycError unless all are int8, or where the square, scaled up, could leave int32."""
    if not is_s8(site):
        raise TinycError(f"squared_difference of {site.x(0).dtype}: the integer operator takes int8", site.node.where)
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    twice = 2 * max(scale0, scale1)
    factor = twice * twice / (2.0 ** (2 * _LEFT) * y_scale)
    if factor >= 1:
        raise TinycError(
            f"squared_difference scales its squares by {factor:g}; only less than 1 fits int32", site.node.where
        )
    mults = [quantize_multiplier(real) for real in (scale0 / twice, scale1 / twice, factor)]
    lo, hi = site.attrs.act.range_of(site.y())
    return Squares(zero0, zero1, *mults[0], *mults[1], *mults[2], site.builtin_rounding, y_zero, lo, hi)


def int_ref(p: Squares, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (p.run(x0, x1),)


def lower(site: Site, p: Squares) -> Call:
    """tc_squared_difference_s8: element by element."""
    names = ("x0_zero", "x1_zero", "mult0", "shift0", "mult1", "shift1", "mult", "shift", "y_zero", "y_min", "y_max")
    fields = {**loop_fields(site), **{name: getattr(p, name) for name in names}, "rounds": p.rounding.code}
    return Call(arguments(site), Struct("tc_squared_difference_s8_t", fields))


OP = Op(
    name="squared_difference",
    attrs=SquaredDifference,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        *NUMBER_KERNELS,
        pair_kernel("tc_squared_difference_s8", lower, is_s8),
        float_kernel("squared_difference"),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.BROADCASTS, Trait.FUSES_CLIP}),
    float32=Float32(exact_float),
)
