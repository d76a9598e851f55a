# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d of any size on cores without DSP instructions, int8 and int4 weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import with_spare
from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
    In,
    Kernel,
    Out,
    Params,
    Scratch,
    Struct,
    offered,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8, is_s8_w4
from tinyc.kernel.windows import ConvParams, Window, of_outputs, row_geometry, window_fields
from tinyc.kernels.scalar.conv import CHANNEL_BYTES, scale_fields, small_sums_of

_POINTER_BYTES = 8  # on the widest host
_FIELDS = ("in_w", "out_w", "k_h", "k_w", "stride_w", "pad_left", "dilation_w")


def takes(site: Site) -> bool:
    """constant weights, one output per input channel, and accumulators within 2^28"""
    return site.is_const(1) and site.x(1).shape[2] == site.x(0).shape[3] and small_sums_of(site, 2)


def _taps(site: Site, p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [C, K], K rounded up to whole words."""
    taps = p.w.reshape(-1, p.w.shape[2]).T.astype(np.int8)
    return with_spare(taps, -taps.shape[1] % (8 if site.x(1).dtype == "s4" else 4))


def _weights(site: Site, p: ConvParams) -> dict[str, Const]:
    taps = _taps(site, p)
    if site.x(1).dtype != "s4":
        return {"w": Const(taps, "[out_c][k_h][k_w]", "w")}
    words = ((taps.astype(np.int64) & 15).reshape(len(taps), -1, 8) << 4 * np.arange(8)).sum(axis=2)
    packed = words.astype(np.uint32).view(np.int32)
    return {"nibbles": Const(packed, "[out_c][k_h][k_w] int4, eight in a word, first in the lowest bits", "w")}


def lower(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_s8[_w4]_taps: one output row from k_h input rows."""
    window, channels = Window.of(p.attrs, *p.w.shape[:2]), p.w.shape[2]
    sizes = window_fields(site, window)
    fields = {
        **_weights(site, p),
        **scale_fields(p, p.w.reshape(-1, channels).T, "tc_scalar_dense"),
        "pad": Const(np.full(channels, p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        **{name: sizes[name] for name in _FIELDS},
        "taps": _taps(site, p).shape[1],
    }
    rows = row_geometry(site, window, p.x_zero)
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_depthwise_taps_t", fields), rows)


def scratch(site: Site, p: ConvParams) -> int:
    """Pointers to the taps of a pixel."""
    return _POINTER_BYTES * int(_taps(site, p).shape[1])


def of_taps(site: Site, p: ConvParams) -> Units:
    """Products, taps of pixels, outputs and pixels."""
    taps, outputs = _taps(site, p).shape[1], site.y().elements
    pixels = outputs // len(p.bias)
    return {"product": outputs * taps, "tap": pixels * taps, **of_outputs(p, outputs), "pixel": pixels}


def weight_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return sum(const.data.nbytes for const in _weights(site, p).values()) + CHANNEL_BYTES * len(p.bias)


HEADER = "tc_depthwise_conv2d_s8_taps.h"  # with functions for all widths of weights


def _kernel(name: str, is_kind: Condition) -> Kernel:
    offer = offered(lower, scratch=scratch, cost=CountedCost(name, of_taps, flash=weight_bytes))
    return Kernel(name, offer, when=(is_kind, takes), header=HEADER, includes=("tc_scalar.h",))


KERNELS = (
    _kernel("tc_depthwise_conv2d_s8_taps", is_s8),
    _kernel("tc_depthwise_conv2d_s8_w4_taps", is_s8_w4),
)
