# SPDX-License-Identifier: Apache-2.0
"""hard_swish: y = x * min(max(x + 3, 0), 6) / 6."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_multiplier, rounding_divide_by_pot
from tinyc.ir.graph import Array
from tinyc.kernel.float32 import Float32
from tinyc.kernel.site import Site, elementwise
from tinyc.kernels.float32 import elementwise as elementwise_f32
from tinyc.ops.batched import Batched, Gradients
from tinyc.ops.op import Observed, Op, Trait, same_channels
from tinyc.ops.tables import TABLE_KERNELS, Table, make_table, need_bytes, real_table, same_type
from tinyc.ops.tables16 import TABLE16_KERNEL, Interpolated, interpolated, is_s16, look_up_wide

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class HardSwish:
    """No attributes."""


def float_ref(a: HardSwish, x: Array) -> tuple[Array, ...]:
    return ((x * np.clip(x + np.float32(3), 0, 6) / np.float32(6)).astype(np.float32),)


def exact_float(a: HardSwish, x: Array) -> tuple[Array, ...]:
    """As tc_hard_swish_f32 computes it."""
    return (x * float32.clip(x + np.float32(3), 0, 6) / np.float32(6),)


def prepare(site: Site) -> Table | Interpolated:
    if is_s16(site):
        return interpolated(site, lambda x: float_ref(site.attrs, x.astype(np.float32))[0])
    need_bytes(site)
    if site.numerics is Numerics.ONNX:
        return real_table(site, lambda x: float_ref(site.attrs, x)[0])
    x_scale, x_zero = site.scale_zero(site.x(0))
    y_scale, y_zero = site.scale_zero(site.y())
    fine = np.float32(x_scale) * np.float32(1 / 128)  # seven more bits
    y_mult, y_shift = _multiplier_16(float(fine / np.float32(y_scale)))
    relu_mult, relu_shift = _multiplier_16(float(fine / (np.float32(3) / np.float32(32768))))
    if y_shift > 0:
        raise TinycError(
            f"hard_swish: output scale {y_scale:g} is too small beside input scale {x_scale:g}",
            site.node.where,
        )

    def function(q: _Ints) -> _Ints:
        hires = (q - x_zero) << 7
        relu = _relu_part(hires, relu_mult, relu_shift)
        product = _mul_16(hires, y_mult) * ((relu + 32768) >> 1)
        # This product alone is rounded towards zero, as in TensorFlow Lite.
        high = np.sign(product) * (np.abs(product) >> 15)
        return rounding_divide_by_pot(high, -y_shift) + y_zero

    return make_table(site.x(0), site.y(), function)


def _multiplier_16(real: float) -> tuple[int, int]:
    """`quantize_multiplier` with a multiplier of 16 bits: real ~ mult * 2^(shift - 15)."""
    mult, shift = quantize_multiplier(real)
    return min((mult + (1 << 15)) >> 16, 32767), shift


def _mul_16(a: _Ints, b: int) -> _Ints:
    """16-bit rounding doubling high multiply: a * b / 2^15, to nearest, halves up."""
    return (a * b + (1 << 14)) >> 15


def _relu_part(hires: _Ints, mult: int, shift: int) -> _Ints:
    """x / 3 in Q0.15, saturated to [-1, 1)."""
    if shift <= 0:
        return rounding_divide_by_pot(_mul_16(hires, mult), -shift)
    nearly = np.clip(hires << (shift - 1), -32768, 32767)  # one bit short: only the last shift decides
    relu: _Ints = np.clip(_mul_16(nearly, mult) << 1, -32768, 32767)
    return relu


def backward(a: HardSwish, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    slope = np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * x + 3) / 6))
    return ((dy * slope).astype(np.float32),)


OP = Op(
    name="hard_swish",
    attrs=HardSwish,
    infer=same_type,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=look_up_wide,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(*TABLE_KERNELS, TABLE16_KERNEL, elementwise_f32.unary("hard_swish")),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.INT16}),
    channels=same_channels,
    float32=Float32(exact_float),
    batched=Batched(backward=backward),
)
