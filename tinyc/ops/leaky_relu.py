"""leaky_relu: y = x where x > 0, alpha * x elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.numerics import Numerics, Rounding, quantize_multiplier, requantize
from tinyc.ops.base import Observed, Op, Site
from tinyc.ops.tables import (
    TABLE_KERNEL,
    XNN_MAX_RATIO,
    XNN_MIN_RATIO,
    Table,
    look_up,
    make_table,
    need_bytes,
    same_type,
    xnn_scale,
)

_Ints = npt.NDArray[np.int64]
_Scale = Callable[[_Ints, np.float32], _Ints]


@dataclass(frozen=True, slots=True)
class LeakyRelu:
    alpha: float


def float_ref(a: LeakyRelu, x: Array) -> tuple[Array, ...]:
    return (np.where(x > 0, x, x * np.float32(a.alpha)).astype(np.float32),)


def prepare(site: Site) -> Table:
    need_bytes(site)
    x_scale, x_zero = site.scale_zero(site.x(0))
    y_scale, y_zero = site.scale_zero(site.y())
    above = np.float32(x_scale) / np.float32(y_scale)
    alpha = np.float32(site.attrs.alpha)
    if site.numerics is Numerics.LITERT and _xnn_takes(above, above * alpha):
        scale: _Scale = xnn_scale
        below = above * alpha
    else:
        scale = partial(_scale, rounding=site.builtin_rounding)
        below = np.float32(x_scale) * alpha / np.float32(y_scale)

    def function(q: _Ints) -> _Ints:
        centred = q - x_zero
        return np.where(centred >= 0, scale(centred, above), scale(centred, below)) + y_zero

    return make_table(site.x(0), site.y(), function)


def _scale(centred: _Ints, factor: np.float32, rounding: Rounding) -> _Ints:
    """centred * factor through a fixed-point multiplier of the factor's sign."""
    mult, shift = quantize_multiplier(abs(float(factor)))
    return requantize(centred, -mult if factor < 0 else mult, shift, rounding)


def _xnn_takes(above: np.float32, below: np.float32) -> bool:
    """Whether XNNPACK's qs8 vlrelu has a multiplier for both factors."""
    return bool(
        XNN_MIN_RATIO <= above <= XNN_MAX_RATIO
        and XNN_MIN_RATIO - XNN_MAX_RATIO <= below <= XNN_MAX_RATIO
        and abs(below) >= XNN_MIN_RATIO
    )


OP = Op(
    name="leaky_relu",
    attrs=LeakyRelu,
    infer=same_type,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=look_up,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(TABLE_KERNEL,),
)
