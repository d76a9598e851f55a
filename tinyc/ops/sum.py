# SPDX-License-Identifier: Apache-2.0
"""sum: the sum of x over `axes`, which are dropped from the shape or kept with size 1."""

from __future__ import annotations

import math

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_multiplier
from tinyc.ir.graph import Array
from tinyc.kernel.float32 import Float32
from tinyc.kernel.site import Site
from tinyc.ops import mean
from tinyc.ops.mean import MeanParams
from tinyc.ops.op import Observed, Op, Trait
from tinyc.ops.reductions import Reduction, infer, reduced_axes


@dataclass(frozen=True, slots=True)
class Sum(Reduction):
    """The axes; keep_dims: they stay, with size 1."""


def float_ref(a: Sum, x: Array) -> tuple[Array, ...]:
    return (x.sum(axis=reduced_axes(a, x.ndim), keepdims=a.keep_dims, dtype=np.float32),)


def prepare(site: Site) -> MeanParams:
    """The integers of a mean whose multiplier is not divided by n. TinycError if a sum could leave int32."""
    x, y = site.x(), site.y()
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(x), site.scale_zero(y)
    n = math.prod(x.shape[axis] for axis in reduced_axes(site.attrs, len(x.shape)))
    factor = float(np.float32(x_scale) / np.float32(y_scale))
    if n * max(factor, 1.0) * 2.0 ** (16 if x.dtype == "s16" else 8) >= 2**31:
        raise TinycError(f"sum of {n} elements, scaled by {factor:g}, can overflow int32", site.node.where)
    if site.numerics is Numerics.LITERT and x.dtype == "s16":
        raise TinycError(
            "sum of int16 is known for numerics tflm, single and onnx only", site.node.where, "use --numerics tflm"
        )
    if site.numerics.scales_in_float:
        return mean.in_float(site, n, np.float32(1))
    mult, shift = quantize_multiplier(x_scale / y_scale)
    return MeanParams(site.attrs, n, mult, shift, x_zero, y_zero, site.rounding)


OP = Op(
    name="sum",
    attrs=Sum,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=mean.int_ref,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(*mean.INTEGER_KERNELS, mean.float_kernel("sum")),
    traits=frozenset({Trait.INT16, Trait.REDUCES, Trait.ANY_SCALES}),
    float32=Float32(lambda a, x: (mean.float_sum(a, x),)),
)
