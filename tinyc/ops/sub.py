# SPDX-License-Identifier: Apache-2.0
"""sub: y = x0 - x1 with numpy broadcasting and a fused activation."""

from __future__ import annotations

import numpy as np

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.float32 import Float32
from tinyc.kernel.site import Site, elementwise
from tinyc.ops.batched import sum_of
from tinyc.ops.binary import Binary, float_kernel, infer
from tinyc.ops.op import Observed, Op, Trait, same_channels
from tinyc.ops.sums import KERNELS, Sum, int_ref, prepare_sum


@dataclass(frozen=True, slots=True)
class Sub(Binary):
    """The fused activation `act`."""


def float_ref(a: Sub, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (np.clip(x0 - x1, np.float32(a.act.lo), np.float32(a.act.hi)).astype(np.float32),)


def prepare(site: Site) -> Sum:
    return prepare_sum(site, -1)


OP = Op(
    name="sub",
    attrs=Sub,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(*KERNELS, float_kernel("sub")),
    rowwise=elementwise,
    traits=frozenset({Trait.BROADCASTS, Trait.FUSES_CLIP, Trait.ANY_SCALES, Trait.INT16}),
    channels=same_channels,
    float32=Float32(lambda a, x0, x1: (float32.clip(x0 - x1, a.act.lo, a.act.hi),)),
    batched=sum_of(-1),
)
