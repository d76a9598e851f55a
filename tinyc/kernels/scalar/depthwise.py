# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d 3x3 on cores without DSP instructions."""

from __future__ import annotations

import numpy as np

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import (
    Call,
    Const,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    Scratch,
    Struct,
    offered,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, Window, of_outputs, row_geometry
from tinyc.kernels.scalar.conv import CHANNEL_BYTES, scale_fields, small_sums_of


def takes(site: Site) -> bool:
    """constant 3x3 weights, one output per input channel, horizontal stride 1 or 2, no dilation, sums within 2^28"""
    if not site.is_const(1) or site.x(1).shape[:2] != (3, 3) or site.x(1).shape[2] != site.x(0).shape[3]:
        return False
    a = site.attrs
    return a.stride.w in (1, 2) and tuple(a.dilation) == (1, 1) and small_sums_of(site, 2)


def columns(site: Site) -> int:
    """Columns that all pixels of a row read; stride 1 goes by three pixels."""
    out_w = site.y().shape[2]
    if site.attrs.stride.w == 1:
        return -(-out_w // 3) * 3 + 2
    return 2 * out_w + 1


def lower(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_3x3_s8_scalar: one output row from three input rows."""
    out_c = p.w.shape[2]
    window = Window.of(p.attrs, 3, 3)
    fields = {
        "w": Const(np.ascontiguousarray(p.w.transpose(2, 0, 1)), "[out_c][k_h][k_w]", "w"),
        **scale_fields(p, p.w.reshape(9, out_c).T, "tc_scalar_row"),
        "in_w": site.x(0).shape[2],
        "out_w": site.y().shape[2],
        "stride_w": window.stride.w,
        "pad_left": window.pad.left,
        "x_zero": p.x_zero,
        "columns": columns(site),
    }
    struct = Struct("tc_depthwise_conv2d_3x3_s8_scalar_t", fields)
    return Call((Params(), In(0), Out(), Scratch()), struct, row_geometry(site, window, p.x_zero))


def scratch(site: Site, p: ConvParams) -> int:
    """A word for each column."""
    return 4 * columns(site)


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return p.w.nbytes + CHANNEL_BYTES * p.w.shape[2]


def of_columns(site: Site, p: ConvParams) -> Units:
    """Columns of three taps, threes of outputs of stride 1, outputs, and rows of a channel."""
    _, out_h, out_w, out_c = site.y().shape
    rows = out_h * out_c
    return {
        "column": rows * columns(site),
        "three": rows * -(-out_w // 3) * (p.attrs.stride.w == 1),
        **of_outputs(p, rows * out_w),
        "row": rows,
    }


COST = CountedCost("tc_depthwise_conv2d_3x3_s8_scalar", of_columns, flash=flash_bytes)


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """A row in place of an input row of as many bytes: the pixels of a channel are read before the first is written."""
    call, whole = lower(site, p), COST(site, p)
    if call.rows is None or call.rows.in_row_bytes != call.rows.out_row_bytes:
        return ()
    return (RowForm(call, scratch(site, p), whole, inplace=(0,)),)


KERNELS = (
    Kernel(
        "tc_depthwise_conv2d_3x3_s8_scalar",
        offered(lower, scratch=scratch, cost=COST, row_forms=row_forms),
        when=(is_s8, takes),
        includes=("tc_scalar.h",),
    ),
)
