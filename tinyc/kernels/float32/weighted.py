# SPDX-License-Identifier: Apache-2.0
"""Weighted layers in float32: every output is one chain of fused multiply-adds that begins with the bias.

The order of the chain is that of the weights, [k_h][k_w][in_c]; taps outside the image are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tinyc.base.float32 import Floats, clip, fma
from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.float32 import act_fields
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Act, Site
from tinyc.kernel.types import in_float32
from tinyc.kernel.windows import Window, row_geometry, window_fields

_BLOCK = 4  # output channels that a portable kernel computes at a time


def _bias(bias: Array | None, out_c: int) -> Floats:
    return np.zeros(out_c, np.float32) if bias is None else np.asarray(bias, np.float32)


def _taps(window: Window, x: Array, y: Array) -> Iterator[tuple[int, int, tuple[slice, ...], tuple[slice, ...]]]:
    """(ky, kx, the pixels of x that the tap reads, the pixels of y that it is for), in the order of the chain."""
    for ky in range(window.kernel.h):
        rows = _inside(ky * window.dilation.h - window.pad.top, window.stride.h, x.shape[1], y.shape[1])
        for kx in range(window.kernel.w):
            columns = _inside(kx * window.dilation.w - window.pad.left, window.stride.w, x.shape[2], y.shape[2])
            if rows is not None and columns is not None:
                yield ky, kx, (slice(None), rows[0], columns[0]), (slice(None), rows[1], columns[1])


def _inside(first: int, stride: int, size: int, count: int) -> tuple[slice, slice] | None:
    """Of `count` places first + k * stride those in [0, size): as a slice of what they name, and of k."""
    begin, end = max(0, -(first // stride)), min(count, -((first - size) // stride))
    if begin >= end:
        return None
    return slice(first + begin * stride, first + (end - 1) * stride + 1, stride), slice(begin, end)


def conv_ref(a: Any, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    """conv2d: x [N,H,W,I], w [O,KH,KW,I/groups]."""
    window, (out_c, _, _, group_in) = Window.of(a, *w.shape[1:3]), w.shape
    size, group_out = window.output(x.shape), out_c // a.groups
    y = np.broadcast_to(_bias(b, out_c), (len(x), *size, out_c)).copy()
    for g in range(a.groups):
        inputs, outputs = slice(g * group_in, (g + 1) * group_in), slice(g * group_out, (g + 1) * group_out)
        for ky, kx, read, written in _taps(window, x, y):
            part = np.moveaxis(x[read][..., inputs], -1, 0)
            taps = w[outputs, ky, kx].T
            acc = y[written][..., outputs]
            for i in range(group_in):
                acc = fma(part[i][..., None], taps[i], acc)
            y[written][..., outputs] = acc
    return (clip(y, a.act.lo, a.act.hi),)


def depthwise_ref(a: Any, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    """depthwise_conv2d: x [N,H,W,C], w [KH,KW,C*M]."""
    k_h, k_w, out_c = w.shape
    window = Window.of(a, k_h, k_w)
    repeated = np.repeat(x, out_c // x.shape[3], axis=3)
    y = np.broadcast_to(_bias(b, out_c), (len(x), *window.output(x.shape), out_c)).copy()
    for ky, kx, read, written in _taps(window, x, y):
        y[written] = fma(repeated[read], w[ky, kx], y[written])
    return (clip(y, a.act.lo, a.act.hi),)


def dense_ref(a: Any, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    """fully_connected: x flattened to [B,I], w [O,I]."""
    out_c, in_c = w.shape
    batch = x.shape[:-1] if a.keep_dims else (x.size // in_c,)
    rows, taps = np.ascontiguousarray(x.reshape(-1, in_c).T), np.ascontiguousarray(w.T)
    y = np.broadcast_to(_bias(b, out_c), (rows.shape[1], out_c))
    for i in range(in_c):
        y = fma(rows[i][:, None], taps[i], y)
    return (clip(y, a.act.lo, a.act.hi).reshape(*batch, out_c),)


def matmul_ref(a: Any, x: Array, w: Array) -> tuple[Array, ...]:
    """batch_matmul: x [...,M,K], w [...,K,N]; adj_x, adj_y: their last two axes lie the other way round."""
    left = x if a.adj_x else np.swapaxes(x, -1, -2)  # [..., K, M]
    right = np.swapaxes(w, -1, -2) if a.adj_y else w
    y = np.zeros((*np.broadcast_shapes(left.shape[:-2], right.shape[:-2]), left.shape[-1], right.shape[-1]), np.float32)
    for k in range(left.shape[-2]):
        y = fma(left[..., k, :, None], right[..., k, None, :], y)
    return (y,)


def transposed_ref(a: Any, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    """transpose_conv2d: x [1,H,W,I], w [O,KH,KW,I]."""
    out_c, k_h, k_w, in_c = w.shape
    y = np.broadcast_to(_bias(b, out_c), (len(x), *a.size, out_c)).copy()
    for ky in range(k_h):
        rows = _inside(ky - a.pad.h, a.stride.h, a.size.h, x.shape[1])
        for kx in range(k_w):
            columns = _inside(kx - a.pad.w, a.stride.w, a.size.w, x.shape[2])
            if rows is None or columns is None:
                continue
            acc, part = y[:, rows[0], columns[0]], x[:, rows[1], columns[1]]
            for i in range(in_c):
                acc = fma(part[..., i, None], w[:, ky, kx, i], acc)
            y[:, rows[0], columns[0]] = acc
    return (clip(y, a.act.lo, a.act.hi),)


def _kernel(name: str, lower: Callable[[Site, Any], Call], products: Callable[[Site], int]) -> Kernel:
    """products: of the layer. A weight is fetched for each."""

    def of_products(site: Site, p: Any) -> Units:
        outputs = site.y().elements
        return {"product": products(site), "element": outputs, "pixel": outputs // site.y().shape[-1]}

    cost = CountedCost(name, of_products, flash=const_bytes, fetched="product")
    return Kernel(name, offered(lower, cost=cost), when=(in_float32, has_weights))


def const_bytes(site: Site, p: Any) -> int:
    """Of weights and bias."""
    return sum(site.const(i).nbytes for i in range(len(site.node.inputs)) if site.is_const(i))


def has_weights(site: Site) -> bool:
    """weights and bias that are constants"""
    return site.is_const(1) and (not site.has(2) or site.is_const(2))


def bias_of(site: Site, out_c: int) -> Floats:
    """The bias of a layer; zeros where it has none."""
    return _bias(site.const(2) if site.has(2) else None, out_c)


def _fields(site: Site, w: Array, layout: str, out_c: int) -> dict[str, int | float | str | Const]:
    act: Act = site.attrs.act
    return {"w": Const(w, layout, "w"), "bias": Const(bias_of(site, out_c), "[out_c]", "bias"), **act_fields(act)}


def _by_blocks(rows: Array, groups: int) -> Array:
    """Rows of taps [O, K], of each group four by four as [K][4], those that are left over one by one."""
    parts = []
    for group in np.split(np.asarray(rows, np.float32), groups):
        whole = len(group) // _BLOCK * _BLOCK
        blocks = group[:whole].reshape(-1, _BLOCK, rows.shape[1]).transpose(0, 2, 1)
        parts += [blocks.ravel(), group[whole:].ravel()]
    return np.concatenate(parts)


def lower_conv(site: Site, p: Any) -> Call:
    """tc_conv2d_f32: one output row from k_h input rows."""
    w = site.const(1)
    out_c, k_h, k_w, _ = w.shape
    window = Window.of(site.attrs, k_h, k_w)
    fields = {
        **_fields(site, _by_blocks(w.reshape(out_c, -1), site.attrs.groups), "[out_c][k_h][k_w][in_c] by fours", out_c),
        **window_fields(site, window),
        "out_c": out_c,
        "groups": site.attrs.groups,
    }
    return Call((Params(), In(0), Out()), Struct("tc_conv2d_f32_t", fields), row_geometry(site, window, None))


def lower_depthwise(site: Site, p: Any) -> Call:
    """tc_depthwise_conv2d_f32: one output row from k_h input rows."""
    w = site.const(1)
    k_h, k_w, out_c = w.shape
    window = Window.of(site.attrs, k_h, k_w)
    fields = {
        **_fields(site, w, "[k_h][k_w][out_c]", out_c),
        **window_fields(site, window),
        "out_c": out_c,
    }
    return Call((Params(), In(0), Out()), Struct("tc_depthwise_conv2d_f32_t", fields), row_geometry(site, window, None))


def lower_dense(site: Site, p: Any) -> Call:
    """tc_fully_connected_f32: the whole tensor."""
    w = site.const(1)
    out_c, in_c = w.shape
    fields = {
        **_fields(site, _by_blocks(w, 1), "[out_c][in_c] by fours", out_c),
        "batch": site.y().elements // out_c,
        "in_c": in_c,
        "out_c": out_c,
    }
    return Call((Params(), In(0), Out()), Struct("tc_fully_connected_f32_t", fields))


def lower_transposed(site: Site, p: Any) -> Call:
    """tc_transpose_conv2d_f32: the whole tensor."""
    w, a = site.const(1), site.attrs
    out_c, k_h, k_w, in_c = w.shape
    fields = {
        **_fields(site, w, "[out_c][k_h][k_w][in_c]", out_c),
        **{"in_h": site.x(0).shape[1], "in_w": site.x(0).shape[2], "in_c": in_c},
        **{"out_h": a.size.h, "out_w": a.size.w, "out_c": out_c, "k_h": k_h, "k_w": k_w},
        **{"stride_h": a.stride.h, "stride_w": a.stride.w, "pad_top": a.pad.h, "pad_left": a.pad.w},
    }
    return Call((Params(), In(0), Out()), Struct("tc_transpose_conv2d_f32_t", fields))


CONV = _kernel("tc_conv2d_f32", lower_conv, lambda site: site.y().elements * site.x(1).elements // site.x(1).shape[0])
DEPTHWISE = _kernel(
    "tc_depthwise_conv2d_f32", lower_depthwise, lambda site: site.y().elements * math.prod(site.x(1).shape[:2])
)
DENSE = _kernel("tc_fully_connected_f32", lower_dense, lambda site: site.y().elements * site.x(1).shape[1])
TRANSPOSED = _kernel(
    "tc_transpose_conv2d_f32",
    lower_transposed,
    lambda site: site.x(0).elements * site.x(1).elements // site.x(0).channels,
)
