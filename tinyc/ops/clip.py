# SPDX-License-Identifier: Apache-2.0
"""clip: y = min(max(x, lo), hi); also relu (0, inf) and relu6 (0, 6).

Where the quantizations of input and output differ the integers are rescaled first, as TensorFlow Lite's RELU does.
But TensorFlow Lite Micro's RELU6 takes them as equal: it clips the input's integers, by the input's scale.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.float32 import Float32
from tinyc.kernel.site import RELU6, Act, Site, elementwise, s16_to_s16
from tinyc.kernels.float32 import elementwise as elementwise_f32
from tinyc.ops.batched import Batched, active
from tinyc.ops.op import Observed, Op, SameAs, Trait, same_channels
from tinyc.ops.requantize import Wide, lower_wide, wide
from tinyc.ops.requantize import int_ref as requantized
from tinyc.ops.tables import TABLE_KERNELS, Table, make_table, need_bytes, real_table, rescale, same_type


@dataclass(frozen=True, slots=True)
class Clip:
    act: Act


def float_ref(a: Clip, x: Array) -> tuple[Array, ...]:
    return (np.clip(x, np.float32(a.act.lo), np.float32(a.act.hi)).astype(np.float32),)


def prepare(site: Site) -> Table | Wide:
    x, y = site.x(0), site.y()
    if site.numerics is Numerics.TFLM and site.attrs.act == RELU6:
        y = replace(y, quant=x.quant)
    lo, hi = site.attrs.act.range_of(y)
    if s16_to_s16(site):
        return wide(site, lo, hi, site.scale_zero(y), np.float32 if site.numerics is Numerics.LITERT else np.float64)
    need_bytes(site)
    if site.numerics is Numerics.ONNX and x.quant != y.quant:
        return real_table(site, lambda real: float_ref(site.attrs, real)[0])

    def function(q: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if x.quant != y.quant:
            q = rescale(q, site.scale_zero(x), site.scale_zero(y), site.builtin_rounding)
        return np.clip(q, lo, hi)

    return make_table(x, y, function)


OP = Op(
    name="clip",
    attrs=Clip,
    infer=same_type,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=requantized,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(
        *TABLE_KERNELS,
        counted_kernel(
            "tc_requantize_wide",
            lower_wide,
            of_elements,
            when=(s16_to_s16,),
        ),
        elementwise_f32.unary("clip"),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.MONOTONE, Trait.FUSES_CLIP, Trait.ANY_SCALES, Trait.INT16}),
    channels=same_channels,
    float32=Float32(lambda a, x: (float32.clip(x, a.act.lo, a.act.hi),)),
    batched=Batched(backward=lambda a, inputs, y, dy: (active(a, y, dy),)),
)
