# SPDX-License-Identifier: Apache-2.0
"""leaky_relu: y = x where x > 0, alpha * x elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, elementwise, s16_to_s16
from tinyc.kernels.float32 import elementwise as elementwise_f32
from tinyc.ops.batched import Batched, Gradients
from tinyc.ops.op import Observed, Op, Trait, same_channels
from tinyc.ops.tables import (
    TABLE_KERNELS,
    XNN_MAX_RATIO,
    XNN_MIN_RATIO,
    Table,
    look_up,
    make_table,
    need_bytes,
    real_table,
    same_type,
    xnn_scale,
)

_MOST = 2.0**14  # factor for which a scaled int16 difference fits int32
_Ints = npt.NDArray[np.int64]
_Scale = Callable[[_Ints, float], _Ints]


@dataclass(frozen=True, slots=True)
class LeakyRelu:
    alpha: float


def float_ref(a: LeakyRelu, x: Array) -> tuple[Array, ...]:
    return (np.where(x > 0, x, x * np.float32(a.alpha)).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class TwoFactors:
    """int16: y = clamp(requantize(x - x_zero, mult, shift) + y_zero), with another factor below the zero point."""

    x_zero: int
    y_zero: int
    mult: int
    shift: int
    mult_below: int
    shift_below: int
    rounding: Rounding


def prepare(site: Site) -> Table | TwoFactors:
    if s16_to_s16(site):
        return _two_factors(site)
    need_bytes(site)
    if site.numerics is Numerics.ONNX:
        return real_table(site, lambda x: float_ref(site.attrs, x)[0])
    (_, x_zero), (_, y_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.y())
    above, below = _factors(site)
    product = np.float32(above) * np.float32(site.attrs.alpha)
    if site.numerics is Numerics.LITERT and _xnn_takes(np.float32(above), product):
        scale: _Scale = _xnn_scale
        below = float(product)
    else:
        scale = partial(_scale, rounding=site.builtin_rounding)

    def function(q: _Ints) -> _Ints:
        centred = q - x_zero
        return np.where(centred >= 0, scale(centred, above), scale(centred, below)) + y_zero

    return make_table(site.x(0), site.y(), function)


def _factors(site: Site) -> tuple[float, float]:
    """What x - x_zero is scaled by above 0, and below: quotients in float32 in desktop LiteRT, in double elsewhere."""
    real = np.float32 if site.numerics is Numerics.LITERT else np.float64
    x_scale, y_scale = (real(np.float32(site.scale_zero(value)[0])) for value in (site.x(0), site.y()))
    return float(x_scale / y_scale), float(x_scale * real(np.float32(site.attrs.alpha)) / y_scale)


def _two_factors(site: Site) -> TwoFactors:
    (_, x_zero), (_, y_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.y())
    above, below = _factors(site)
    if max(above, abs(below)) >= _MOST:
        raise TinycError(f"leaky_relu scales by {max(above, abs(below)):g}; at most {_MOST:g} fits", site.node.where)
    mult_below, shift_below = quantize_multiplier(abs(below))
    if below < 0:
        mult_below = -mult_below
    mult, shift = quantize_multiplier(above)
    return TwoFactors(x_zero, y_zero, mult, shift, mult_below, shift_below, site.builtin_rounding)


def int_ref(p: Table | TwoFactors, x: Array) -> tuple[Array, ...]:
    if isinstance(p, Table):
        return look_up(p, x)
    centred = x.astype(np.int64) - p.x_zero
    above = requantize(centred, p.mult, p.shift, p.rounding)
    below = requantize(centred, p.mult_below, p.shift_below, p.rounding)
    return (np.clip(np.where(centred >= 0, above, below) + p.y_zero, -32768, 32767).astype(np.int16),)


def lower_two_factors(site: Site, p: TwoFactors) -> Call:
    """tc_leaky_relu_s16."""
    names = ("x_zero", "y_zero", "mult", "shift", "mult_below", "shift_below")
    fields = {"n": site.x(0).elements, **{name: getattr(p, name) for name in names}, "rounds": p.rounding.code}
    return Call((Params(), In(0), Out()), Struct("tc_leaky_relu_s16_t", fields))


def _xnn_scale(centred: _Ints, factor: float) -> _Ints:
    return xnn_scale(centred, np.float32(factor))


def _scale(centred: _Ints, factor: float, rounding: Rounding) -> _Ints:
    """centred * factor through a fixed-point multiplier of the factor's sign."""
    mult, shift = quantize_multiplier(abs(factor))
    return requantize(centred, -mult if factor < 0 else mult, shift, rounding)


def _xnn_takes(above: np.float32, below: np.float32) -> bool:
    """Whether XNNPACK's qs8 vlrelu has a multiplier for both factors."""
    return bool(
        XNN_MIN_RATIO <= above <= XNN_MAX_RATIO
        and XNN_MIN_RATIO - XNN_MAX_RATIO <= below <= XNN_MAX_RATIO
        and abs(below) >= XNN_MIN_RATIO
    )


def backward(a: LeakyRelu, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    return (np.where(inputs[0] > 0, dy, np.float32(a.alpha) * dy),)


OP = Op(
    name="leaky_relu",
    attrs=LeakyRelu,
    infer=same_type,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(
        *TABLE_KERNELS,
        counted_kernel(
            "tc_leaky_relu_s16",
            lower_two_factors,
            of_elements,
            when=(s16_to_s16,),
            inplace=(0,),
        ),
        elementwise_f32.unary("leaky_relu"),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.INT16}),
    channels=same_channels,
    float32=Float32(float_ref),
    batched=Batched(backward=backward),
)
