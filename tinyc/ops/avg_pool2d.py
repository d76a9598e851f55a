# SPDX-License-Identifier: Apache-2.0
"""avg_pool2d: mean over each window's taps inside x[N,H,W,C] -> y[N,H',W',C], with a fused activation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, counted, counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Cost, Kernel, RowForm, SpecializedKernel, offered
from tinyc.kernel.site import Act, Padding, Pair, Site, Type, s8_to_s8
from tinyc.kernel.windows import PoolParams, Window, infer_pool, lower_pool, of_windows, pool_params, pool_s16
from tinyc.kernels import pool
from tinyc.kernels.float32 import pools
from tinyc.kernels.mve import pool as mve_pool
from tinyc.kernels.mve import windows_pool
from tinyc.kernels.rows import sums as row_sums
from tinyc.kernels.rows.pool import global_pool_rows
from tinyc.kernels.rvv import pool as rvv_pool
from tinyc.ops.batched import Batched, Gradients, active, images, scattered
from tinyc.ops.op import Observed, Op, SameAs, Trait, same_channels


@dataclass(frozen=True, slots=True)
class AvgPool2D:
    """count_pad: padded taps count as real zeros (ONNX count_include_pad); TFLite leaves them out. halves_up: exact
    halves go up instead of away from zero, as uint8 runtimes round; int8 tensors are theirs minus 128."""

    kernel: Pair
    stride: Pair = Pair(1, 1)
    pad: Padding = Padding(0, 0, 0, 0)
    dilation: Pair = Pair(1, 1)
    count_pad: bool = False
    act: Act = Act()
    halves_up: bool = False


def infer(a: AvgPool2D, x: Value) -> Sequence[Type]:
    return infer_pool("avg_pool2d", a, x)


def _counts(a: AvgPool2D, x: Array) -> Array:
    """Taps that each window divides by, [H',W',1]."""
    rows, columns = Window.of(a, *a.kernel).taps_inside(x.shape)
    counts = np.outer(rows, columns)[..., None]
    return np.full_like(counts, a.kernel.h * a.kernel.w) if a.count_pad else counts


def float_ref(a: AvgPool2D, x: Array) -> tuple[Array, ...]:
    total = Window.of(a, *a.kernel).view(x, 0.0).sum(axis=(3, 4), dtype=np.float32)
    return (a.act.clip(total / _counts(a, x).astype(np.float32)),)


def int_ref(p: PoolParams, x: Array) -> tuple[Array, ...]:
    a: AvgPool2D = p.attrs
    fill = p.x_zero if a.count_pad else 0
    total = Window.of(a, *a.kernel).view(x.astype(np.int64), fill).sum(axis=(3, 4))
    n = _counts(a, x)
    away = np.sign(total) * ((np.abs(total) + n // 2) // n)  # to nearest, halves away from zero
    mean = (total + n // 2) // n if a.halves_up else away
    return (np.clip(mean, p.y_min, p.y_max).astype(x.dtype),)


def lower_rows(site: Site, p: PoolParams) -> Call:
    """tc_avg_pool2d_s8: one output row from the input rows of its windows."""
    extra = {"count_pad": int(p.attrs.count_pad), "x_zero": p.x_zero}
    return lower_pool(site, p, "tc_avg_pool2d_s8_t", extra)


def halves_away(site: Site) -> bool:
    """halves rounded away from zero"""
    return not site.attrs.halves_up


def halves_up(site: Site) -> bool:
    """halves rounded up, as of uint8 tensors"""
    return bool(site.attrs.halves_up)


def lower_unsigned_rows(site: Site, p: PoolParams) -> Call:
    """tc_avg_pool2d_u8: one output row from the input rows of its windows."""
    extra = {"count_pad": int(p.attrs.count_pad), "x_zero": p.x_zero}
    return lower_pool(site, p, "tc_avg_pool2d_u8_t", extra)


def whole_image(site: Site) -> bool:
    """one window over the whole image, of at most 255 pixels"""
    a: AvgPool2D = site.attrs
    _, in_h, in_w, _ = site.x().shape
    is_whole = tuple(a.kernel) == (in_h, in_w) and a.dilation == (1, 1) and not any(a.pad)
    return is_whole and site.y().shape[1:3] == (1, 1) and pool.sums_fit(in_h * in_w)


_GLOBAL = "tc_avg_pool2d_s8_asm"
_HELIUM = "tc_avg_pool2d_s8_sums_mve"


def _finish(p: PoolParams) -> str:
    n = p.attrs.kernel.h * p.attrs.kernel.w
    away = f"(sum > 0 ? sum + {n // 2} : sum - {n // 2}) / {n}"
    mean = f"(sum + {128 * n + n // 2}) / {n} - 128" if p.attrs.halves_up else away
    return f"""    sum = {mean};
    sum = tc_clamp(sum, {p.y_min}, {p.y_max});"""


def specialize(site: Site, p: PoolParams) -> SpecializedKernel:
    """The function that averages the whole image."""
    n = p.attrs.kernel.h * p.attrs.kernel.w
    return pool.global_pool(_GLOBAL, n, site.x().shape[3], _finish(p), ("tc_dsp.h",), site.core)


def global_rows(site: Site, p: PoolParams) -> tuple[RowForm, ...]:
    """The average of the whole image, a row per call."""
    _, in_h, in_w, channels = site.x().shape
    return global_pool_rows(_GLOBAL, (in_h, in_w, channels), _finish(p), ("tc_dsp.h",), site)


def lower_global(site: Site, p: PoolParams) -> Call:
    """tc_avg_pool2d_s8_asm: the whole image."""
    return pool.global_pool_call()


def cost_global(site: Site, p: PoolParams) -> Cost:
    sums = pool.sums_of(p.attrs.kernel.h * p.attrs.kernel.w, site.x().shape[3], site.core)
    return sums.cost(counted("tc_avg_pool2d_s8_asm", site, sums.units))


def specialize_helium(site: Site, p: PoolParams) -> SpecializedKernel:
    """The function that averages the whole image, with Helium."""
    n = p.attrs.kernel.h * p.attrs.kernel.w
    return mve_pool.global_pool(_HELIUM, n, site.x().shape[3], _finish(p))


def helium_rows(site: Site, p: PoolParams) -> tuple[RowForm, ...]:
    """The average of the whole image, a row per call, with Helium."""
    _, in_h, in_w, channels = site.x().shape
    return mve_pool.global_pool_rows(_HELIUM, (in_h, in_w, channels), _finish(p), site)


def cost_helium(site: Site, p: PoolParams) -> Cost:
    sums = mve_pool.sums_of(p.attrs.kernel.h * p.attrs.kernel.w, site.x().shape[3])
    return sums.cost(counted("tc_avg_pool2d_s8_sums_mve", site, sums.units))


def forward(a: AvgPool2D, x: Array) -> Array:
    return float_ref(a, images(x))[0][:, None]


def backward(a: AvgPool2D, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    rows, columns = Window.of(a, *a.kernel).taps_inside(images(x).shape)
    counts = np.outer(rows, columns)[..., None].astype(np.float32)
    if a.count_pad:
        counts = np.full_like(counts, a.kernel.h * a.kernel.w)
    d = images(active(a, y, dy)) / counts
    taps = np.broadcast_to(d[:, :, :, None, None], (*d.shape[:3], *a.kernel, d.shape[3]))
    return (scattered(a, a.kernel, x, taps),)


OP = Op(
    name="avg_pool2d",
    attrs=AvgPool2D,
    infer=infer,
    float_ref=float_ref,
    prepare=pool_params,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(
        Kernel(
            _HELIUM,
            offered(lower_global, cost=cost_helium, specialize=specialize_helium, row_forms=helium_rows),
            isa=frozenset({"mve"}),
            when=(s8_to_s8, whole_image),
            written=True,
        ),
        Kernel(
            _GLOBAL,
            offered(lower_global, cost=cost_global, specialize=specialize, row_forms=global_rows),
            isa=frozenset({"dsp"}),
            when=(s8_to_s8, whole_image),
            written=True,
        ),
        replace(rvv_pool.AVERAGE, when=(*rvv_pool.AVERAGE.when, halves_away)),
        replace(windows_pool.AVERAGE, when=(*windows_pool.AVERAGE.when, halves_away)),
        Kernel(
            "tc_avg_pool2d_s8",
            offered(lower_rows, cost=CountedCost("tc_avg_pool2d_s8", of_windows), row_forms=row_sums.avg_pool_rows),
            when=(s8_to_s8, halves_away),
        ),
        counted_kernel("tc_avg_pool2d_u8", lower_unsigned_rows, of_windows, when=(s8_to_s8, halves_up)),
        pool_s16(average=True),
        pools.AVG_POOL,
    ),
    traits=frozenset({Trait.MONOTONE, Trait.FUSES_CLIP, Trait.ONE_SCALE, Trait.INT16}),
    channels=same_channels,
    scales=lambda a: a.act.scales,
    float32=Float32(pools.avg_pool_ref),
    batched=Batched(forward, backward),
)
