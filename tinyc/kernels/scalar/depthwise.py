# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d on cores without DSP instructions: 3x3 by columns of three pixels in a word, channel by channel; and
of any size by pointers to the taps of a pixel. Weights of int8, of int4, and with a zero point."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import with_spare
from tinyc.kernel.kernel import Call, Condition, Const, Kernel, RowForm, Struct, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import has_wide_weights, is_s8, is_s8_w4
from tinyc.kernel.windows import ConvParams, Window, of_outputs, row_geometry, window_fields
from tinyc.kernels.nibbles import pack_nibbles
from tinyc.kernels.scalar.layer import (
    CHANNEL_BYTES,
    has_offset,
    is_int4,
    offset_of,
    one_offset,
    row_call,
    scale_fields,
    small_sums_of,
    stored,
)

_POINTER_BYTES = 8  # on the widest host
_FIELDS = ("in_w", "out_w", "k_h", "k_w", "stride_w", "pad_left", "dilation_w")


def takes(site: Site) -> bool:
    """constant weights, one output per input channel, and accumulators within 2^28"""
    return site.is_const(1) and site.x(1).shape[2] == site.x(0).shape[3] and small_sums_of(site, 2)


def takes_3x3(site: Site) -> bool:
    """constant 3x3 weights, one output per input channel, horizontal stride 1 or 2, no dilation, sums within 2^28"""
    if not site.is_const(1) or site.x(1).shape[:2] != (3, 3) or site.x(1).shape[2] != site.x(0).shape[3]:
        return False
    a = site.attrs
    return a.stride.w in (1, 2) and tuple(a.dilation) == (1, 1) and small_sums_of(site, 2)


# ---- 3x3 ----


def _columns(site: Site) -> int:
    """Columns that all pixels of a row read; stride 1 goes by three pixels."""
    out_w = site.y().shape[2]
    return -(-out_w // 3) * 3 + 2 if site.attrs.stride.w == 1 else 2 * out_w + 1


def lower_3x3(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_3x3_s8[_w4 or _offset]_scalar: one output row from three input rows."""
    window, weights = Window.of(p.attrs, 3, 3), stored(p).transpose(2, 0, 1)
    if is_int4(site):
        packed = pack_nibbles(np.pad(weights.reshape(-1, 9), ((0, 0), (0, 1)))).view(np.int8)
        w = Const(packed, "[out_c][5], two int4 in a byte, low half first", "w")
    else:
        w = Const(np.ascontiguousarray(weights), "[out_c][k_h][k_w]", "w")
    fields = {
        "w": w,
        **scale_fields(p, p.w.reshape(9, -1).T, "tc_scalar_row"),
        "in_w": site.x(0).shape[2],
        "out_w": site.y().shape[2],
        "stride_w": window.stride.w,
        "pad_left": window.pad.left,
        "x_zero": p.x_zero,
        "columns": _columns(site),
    }
    struct = Struct("tc_depthwise_conv2d_3x3_s8_scalar_t", fields)
    return row_call(struct, p, row_geometry(site, window, p.x_zero))


def scratch_3x3(site: Site, p: ConvParams) -> int:
    """A word for each column, and with an offset one for each running sum."""
    return 8 * _columns(site) + 4 if has_offset(p) else 4 * _columns(site)


def flash_bytes_3x3(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return ((5 if is_int4(site) else 9) + CHANNEL_BYTES) * len(p.bias)


def of_columns(site: Site, p: ConvParams) -> Units:
    """Columns of three taps, threes of outputs of stride 1, outputs, and rows of a channel."""
    _, out_h, out_w, out_c = site.y().shape
    rows = out_h * out_c
    return {
        "column": rows * _columns(site),
        "three": rows * -(-out_w // 3) * (p.attrs.stride.w == 1),
        **of_outputs(p, rows * out_w),
        "row": rows,
    }


_COST = CountedCost("tc_depthwise_conv2d_3x3_s8_scalar", of_columns, flash=flash_bytes_3x3)


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """A row in place of an input row of as many bytes: the pixels of a channel are read before the first is written."""
    call = lower_3x3(site, p)
    if call.rows is None or call.rows.in_row_bytes != call.rows.out_row_bytes:
        return ()
    return (RowForm(call, scratch_3x3(site, p), _COST(site, p), inplace=(0,)),)


# ---- any size ----


def _taps(site: Site, p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [C, K], K rounded up to whole words: of 0, which is less the offset, too."""
    rows = p.w.reshape(-1, p.w.shape[2]).T
    return (with_spare(rows, -rows.shape[1] % (8 if is_int4(site) else 4)) - offset_of(p)).astype(np.int8)


def _weights(site: Site, p: ConvParams) -> dict[str, Const]:
    taps = _taps(site, p)
    if not is_int4(site):
        return {"w": Const(np.ascontiguousarray(taps), "[out_c][k_h][k_w]", "w")}
    words = ((taps.astype(np.int64) & 15).reshape(len(taps), -1, 8) << 4 * np.arange(8)).sum(axis=2)
    packed = words.astype(np.uint32).view(np.int32)
    return {"nibbles": Const(packed, "[out_c][k_h][k_w] int4, eight in a word, first in the lowest bits", "w")}


def lower(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_s8[_w4 or _offset]_taps: one output row from k_h input rows."""
    window, channels = Window.of(p.attrs, *p.w.shape[:2]), p.w.shape[2]
    sizes = window_fields(site, window)
    fields = {
        **_weights(site, p),
        **scale_fields(p, p.w.reshape(-1, channels).T, "tc_scalar_dense"),
        "pad": Const(np.full(channels, p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        **{name: sizes[name] for name in _FIELDS},
        "taps": _taps(site, p).shape[1],
    }
    return row_call(Struct("tc_depthwise_taps_t", fields), p, row_geometry(site, window, p.x_zero))


def scratch(site: Site, p: ConvParams) -> int:
    """Pointers to the taps of a pixel."""
    return _POINTER_BYTES * int(_taps(site, p).shape[1])


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return sum(const.data.nbytes for const in _weights(site, p).values()) + CHANNEL_BYTES * len(p.bias)


def of_taps(site: Site, p: ConvParams) -> Units:
    """Products, taps of pixels, outputs and pixels."""
    taps, outputs = _taps(site, p).shape[1], site.y().elements
    pixels = outputs // len(p.bias)
    return {"product": outputs * taps, "tap": pixels * taps, **of_outputs(p, outputs), "pixel": pixels}


def _kernel_3x3(name: str, *when: Condition) -> Kernel:
    cost, forms = CountedCost(name, of_columns, flash=flash_bytes_3x3), row_forms if when == (is_s8,) else None
    offer = offered(lower_3x3, scratch=scratch_3x3, cost=cost, row_forms=forms)
    header = "tc_depthwise_conv2d_3x3_s8_scalar.h"  # with functions for all kinds of weights
    return Kernel(name, offer, when=(*when, takes_3x3), header=header, includes=("tc_scalar.h",))


def _kernel(name: str, *when: Condition) -> Kernel:
    offer = offered(lower, scratch=scratch, cost=CountedCost(name, of_taps, flash=flash_bytes))
    header = "tc_depthwise_conv2d_s8_taps.h"  # likewise
    return Kernel(name, offer, when=(*when, takes), header=header, includes=("tc_scalar.h",))


KERNELS = (
    _kernel_3x3("tc_depthwise_conv2d_3x3_s8_scalar", is_s8),
    _kernel("tc_depthwise_conv2d_s8_taps", is_s8),
)
OFFSET_KERNELS = (
    _kernel_3x3("tc_depthwise_conv2d_3x3_s8_offset_scalar", has_wide_weights, one_offset),
    _kernel("tc_depthwise_conv2d_s8_offset_taps", has_wide_weights, one_offset),
)
INT4_KERNELS = (
    _kernel_3x3("tc_depthwise_conv2d_3x3_s8_w4_scalar", is_s8_w4),
    _kernel("tc_depthwise_conv2d_s8_w4_taps", is_s8_w4),
)
