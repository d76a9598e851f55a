# SPDX-License-Identifier: Apache-2.0
"""max_pool2d: largest tap of each window inside x[N,H,W,C] -> y[N,H',W',C], with a fused activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call
from tinyc.kernel.site import Act, Padding, Pair, Site, Type, s8_to_s8
from tinyc.kernel.windows import PoolParams, Window, infer_pool, lower_pool, of_windows, pool_params, pool_s16
from tinyc.kernels.float32 import pools
from tinyc.kernels.mve import windows_pool
from tinyc.kernels.rvv import pool as rvv_pool
from tinyc.ops.batched import Batched, Gradients, active, images, scattered
from tinyc.ops.op import Observed, Op, SameAs, Trait, same_channels


@dataclass(frozen=True, slots=True)
class MaxPool2D:
    kernel: Pair
    stride: Pair = Pair(1, 1)
    pad: Padding = Padding(0, 0, 0, 0)
    dilation: Pair = Pair(1, 1)
    act: Act = Act()


def infer(a: MaxPool2D, x: Value) -> Sequence[Type]:
    return infer_pool("max_pool2d", a, x)


def float_ref(a: MaxPool2D, x: Array) -> tuple[Array, ...]:
    return (a.act.clip(Window.of(a, *a.kernel).view(x, -np.inf).max(axis=(3, 4))),)


def int_ref(p: PoolParams, x: Array) -> tuple[Array, ...]:
    a: MaxPool2D = p.attrs
    y = Window.of(a, *a.kernel).view(x, np.iinfo(x.dtype).min).max(axis=(3, 4))
    return (np.clip(y, p.y_min, p.y_max).astype(x.dtype),)


def lower_rows(site: Site, p: PoolParams) -> Call:
    """tc_max_pool2d_s8: one output row from the input rows of its windows."""
    return lower_pool(site, p, "tc_max_pool2d_s8_t", {})


def forward(a: MaxPool2D, x: Array) -> Array:
    return float_ref(a, images(x))[0][:, None]


def backward(a: MaxPool2D, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    view = Window.of(a, *a.kernel).view(images(x), -np.inf)
    largest = view == view.max(axis=(3, 4), keepdims=True)
    share = images(active(a, y, dy)) / np.maximum(largest.sum(axis=(3, 4)), 1)
    return (scattered(a, a.kernel, x, (largest * share[:, :, :, None, None]).astype(np.float32)),)


OP = Op(
    name="max_pool2d",
    attrs=MaxPool2D,
    infer=infer,
    float_ref=float_ref,
    prepare=pool_params,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(
        rvv_pool.MAX,
        windows_pool.MAX,
        counted_kernel("tc_max_pool2d_s8", lower_rows, of_windows, when=(s8_to_s8,)),
        pool_s16(average=False),
        pools.MAX_POOL,
    ),
    traits=frozenset({Trait.SELECTS, Trait.MONOTONE, Trait.FUSES_CLIP, Trait.ONE_SCALE, Trait.INT16}),
    channels=same_channels,
    scales=lambda a: a.act.scales,
    float32=Float32(pools.max_pool_ref),
    batched=Batched(forward, backward),
)
