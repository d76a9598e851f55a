# SPDX-License-Identifier: Apache-2.0
"""tanh: y = tanh(x). Output scale 1/128, zero point 0."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tinyc.base import exact, fixedpoint, float32
from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import rounding_divide_by_pot
from tinyc.ir.graph import Array
from tinyc.kernel.float32 import Float32
from tinyc.kernel.site import Site, elementwise
from tinyc.kernels.float32 import elementwise as elementwise_f32
from tinyc.ops.batched import Batched
from tinyc.ops.op import Fixed, Observed, Op, Trait, same_channels
from tinyc.ops.tables import (
    TABLE_KERNELS,
    Table,
    float_table,
    is_ours,
    make_table,
    need_bytes,
    need_scale,
    real_table,
    same_type,
    saturating_q4,
)
from tinyc.ops.tables16 import Logistic, is_s16, logistic, logistic_kernel, look_up_wide

_AT_OUTPUT = (1 / 127, 0)  # a whole 1


@dataclass(frozen=True, slots=True)
class Tanh:
    """No attributes."""


def float_ref(a: Tanh, x: Array) -> tuple[Array, ...]:
    return (exact.tanh(x).astype(np.float32),)


def prepare(site: Site) -> Table | Logistic:
    if is_s16(site):
        return logistic(site, is_tanh=True)
    need_bytes(site)
    if site.numerics is Numerics.ONNX or is_ours(site.numerics, site.y(), _AT_OUTPUT):
        return real_table(site, lambda x: float_ref(site.attrs, x)[0])
    if site.numerics is Numerics.LITERT:
        return float_table(site, math.tanh)
    need_scale(site, 1 / 128, 0)

    def function(q: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        inside, low, high = saturating_q4(q, *site.scale_zero(site.x(0)))
        y = rounding_divide_by_pot(fixedpoint.tanh(inside, 4), 31 - 7)
        return np.where(low, -128, np.where(high, 127, y))

    return make_table(site.x(0), site.y(), function)


OP = Op(
    name="tanh",
    attrs=Tanh,
    infer=same_type,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=look_up_wide,
    quant_in=(Observed(),),
    quant_out=(Fixed(1 / 128, 0, at_output=_AT_OUTPUT),),
    kernels=(*TABLE_KERNELS, logistic_kernel("tanh"), elementwise_f32.unary("tanh")),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.MONOTONE, Trait.INT16}),
    channels=same_channels,
    float32=Float32(lambda a, x: (float32.tanh(x),)),
    batched=Batched(backward=lambda a, inputs, y, dy: (dy * (1 - np.square(y)),)),
)
