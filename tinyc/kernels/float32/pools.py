# SPDX-License-Identifier: Apache-2.0
"""Pooling, reductions and softmax in float32: sums from the first element to the last, one after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tinyc.base import float32
from tinyc.base.float32 import Floats, clip
from tinyc.ir.graph import Array
from tinyc.kernel.counted import counted_kernel, of_last_axis
from tinyc.kernel.float32 import act_fields
from tinyc.kernel.kernel import Call, In, Kernel, Out, Params, Struct
from tinyc.kernel.site import Site
from tinyc.kernel.types import in_float32
from tinyc.kernel.windows import Window, of_windows, row_geometry, window_fields


def running_sum(x: Array, axis: int) -> Floats:
    """0 + the first element + the second ..., along the axis, which stays with size 1."""
    parts = np.moveaxis(np.asarray(x, np.float32), axis, 0)
    total = np.zeros(parts.shape[1:], np.float32)
    for part in parts:
        total = total + part
    return np.expand_dims(total, axis)


def running_max(x: Array, axis: int, sign: int = 1) -> Floats:
    """The first element along the axis that no other exceeds (sign -1: falls below); the axis stays with size 1."""
    parts = np.moveaxis(np.asarray(x, np.float32), axis, 0)
    best = parts[0]
    for part in parts[1:]:
        best = np.where(part > best if sign > 0 else part < best, part, best)
    return np.expand_dims(best, axis)


def avg_pool_ref(a: Any, x: Array) -> tuple[Array, ...]:
    """avg_pool2d: sums over ky, then kx."""
    window = Window.of(a, *a.kernel)
    taps = window.view(x, 0.0)
    total = running_sum(taps.reshape(*taps.shape[:3], -1, taps.shape[-1]), 3)[:, :, :, 0]
    inside = np.outer(*window.taps_inside(x.shape))[..., None]
    count = np.full_like(inside, a.kernel.h * a.kernel.w) if a.count_pad else inside
    divided = np.asarray(total / count.astype(np.float32), np.float32)
    return (clip(divided, a.act.lo, a.act.hi),)


def max_pool_ref(a: Any, x: Array) -> tuple[Array, ...]:
    """max_pool2d: over ky, then kx."""
    taps = Window.of(a, *a.kernel).view(x, -np.inf)
    best = running_max(taps.reshape(*taps.shape[:3], -1, taps.shape[-1]), 3)[:, :, :, 0]
    return (clip(best, a.act.lo, a.act.hi),)


def lower_pool(site: Site, p: Any, kernel: str) -> Call:
    """tc_avg_pool2d_f32 or tc_max_pool2d_f32: one output row from the input rows of its windows."""
    window = Window.of(site.attrs, *site.attrs.kernel)
    fields = {
        **window_fields(site, window),
        **act_fields(site.attrs.act),
        "count_pad": int(getattr(site.attrs, "count_pad", False)),
    }
    return Call((Params(), In(0), Out()), Struct(f"{kernel}_t", fields), row_geometry(site, window, None))


def _pool(name: str) -> Kernel:
    return counted_kernel(name, partial(lower_pool, kernel=name), of_windows, when=(in_float32,))


AVG_POOL, MAX_POOL = _pool("tc_avg_pool2d_f32"), _pool("tc_max_pool2d_f32")


def softmax_ref(a: Any, x: Array) -> tuple[Array, ...]:
    """softmax over the last axis."""
    e = float32.exp(np.float32(a.beta) * (x - running_max(x, -1)))
    return (e / running_sum(e, -1),)


def log_softmax_ref(a: Any, x: Array) -> tuple[Array, ...]:
    """log_softmax over the last axis."""
    below = x - running_max(x, -1)
    return (below - float32.log(running_sum(float32.exp(below), -1)),)


def lower_softmax(site: Site, p: Any) -> Call:
    """tc_softmax_f32."""
    return _over_rows(site, "tc_softmax_f32_t", {"beta": float(site.attrs.beta)})


def lower_log_softmax(site: Site, p: Any) -> Call:
    """tc_log_softmax_f32."""
    return _over_rows(site, "tc_log_softmax_f32_t", {})


def _over_rows(site: Site, struct: str, more: dict[str, float]) -> Call:
    depth = site.x(0).shape[-1]
    return Call(
        (Params(), In(0), Out()), Struct(struct, {"outer": site.x(0).elements // depth, "depth": depth, **more})
    )


SOFTMAX = counted_kernel("tc_softmax_f32", lower_softmax, of_last_axis, when=(in_float32,), inplace=(0,))
LOG_SOFTMAX = counted_kernel("tc_log_softmax_f32", lower_log_softmax, of_last_axis, when=(in_float32,), inplace=(0,))
