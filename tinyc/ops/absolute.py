# SPDX-License-Identifier: Apache-2.0
"""absolute: y = x where x > 0, -x elsewhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array
from tinyc.kernel.float32 import Float32
from tinyc.kernel.site import Site, elementwise
from tinyc.kernels.float32 import elementwise as elementwise_f32
from tinyc.ops.op import Observed, Op, Trait
from tinyc.ops.tables import TABLE_KERNELS, Table, look_up, make_table, need_bytes, real_table, same_type


@dataclass(frozen=True, slots=True)
class Absolute:
    """No attributes."""


def float_ref(a: Absolute, x: Array) -> tuple[Array, ...]:
    return (np.abs(x),)


def prepare(site: Site) -> Table:
    need_bytes(site)
    if site.numerics is Numerics.ONNX:
        return real_table(site, np.abs)
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.y())
    mult, shift = quantize_multiplier(float(np.float32(x_scale) / np.float32(y_scale)))

    def function(q: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        far = np.abs(q - x_zero)
        return (far if x_scale == y_scale else requantize(far, mult, shift, site.builtin_rounding)) + y_zero

    return make_table(site.x(0), site.y(), function)


OP = Op(
    name="absolute",
    attrs=Absolute,
    infer=same_type,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=look_up,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(*TABLE_KERNELS, elementwise_f32.unary("absolute")),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE}),
    float32=Float32(float_ref),
)
