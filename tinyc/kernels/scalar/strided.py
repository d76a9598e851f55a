# SPDX-License-Identifier: Apache-2.0
"""conv2d 3x3 of stride 2 by an exact fast form on cores without DSP instructions: 25 products for 36 taps, three tiles
in two words (tc_scalar_strided.h).

The words hold sums of three tiles in 21 bits each. Input transform, products and output transform are linear, so only
the outputs must fit these: channels go by segments whose dot products stay below 2^20.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_or_w4
from tinyc.kernel.windows import ConvParams, Window, is_3x3_by_two, of_outputs, row_geometry
from tinyc.kernels.fast.bilinear import S2
from tinyc.kernels.scalar.conv import small_sums
from tinyc.kernels.scalar.layer import scale_fields
from tinyc.kernels.scalar.loops.headers import CORES, core_with
from tinyc.kernels.scalar.tiles import constant_bytes, factors, packed

_LANES = 8  # output channels that a call of the products makes at most
_SUM_LIMIT = 2**20  # a dot product of a segment stays below, so that 21 bits hold it
_PRODUCTS = S2.products**2
_TILES = 3


def segment_channels(w: Array) -> int | None:
    """The greatest multiple of 4 of channels, at most as many as it takes for all, for which no dot product of int8
    inputs with a segment of w[O, 3, 3, C] reaches 2^20; None if 4 are too many."""
    in_c = w.shape[3]
    sums = 128 * np.abs(w.astype(np.int64)).sum(axis=(1, 2))
    for segments in range(1, -(-in_c // 4) + 1):
        channels = -(-in_c // (4 * segments)) * 4
        parts = np.add.reduceat(sums, np.arange(0, in_c, channels), axis=1)
        if parts.max(initial=0) < _SUM_LIMIT:
            return channels
    return None


def takes(site: Site) -> bool:
    """accumulators within 2^28"""
    return small_sums(site) and segment_channels(site.const(1)) is not None


def segments_of(p: ConvParams) -> tuple[int, int]:
    """(segments, channels of each)"""
    channels = segment_channels(p.w)
    if channels is None:
        raise ValueError("weights are too large for a segment")
    return -(-p.w.shape[3] // channels), channels


def weights(p: ConvParams) -> Const:
    """The factors of the weights, by segments."""
    segments, _ = segments_of(p)
    return Const(packed(factors(p.w, S2), segments), "[out_c / 4][segment][product][in_c][4]", "w")


def lower(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_3x3s2_s8_tiles2_scalar: one call for the whole image, three tiles at a time."""
    rows = row_geometry(site, Window.of(p.attrs, 3, 3), p.x_zero)
    segments, channels = segments_of(p)
    _, in_h, in_w, in_c = site.x(0).shape
    _, out_h, out_w, _ = site.y().shape
    sizes = {"in_h": in_h, "in_w": in_w, "in_c": in_c, "out_h": out_h, "out_w": out_w}
    pads = {"pad_top": p.attrs.pad.top, "pad_left": p.attrs.pad.left}
    fields = {
        "w": weights(p),
        "pad": Const(np.full(in_c, p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        **scale_fields(p, p.w.reshape(len(p.bias), -1), "tc_scalar_strided"),
        **sizes,
        **pads,
        "segments": segments,
        "channels": channels,
    }
    flow = replace(rows, pad=None, out_rows=S2.m)
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_scalar_strided_t", fields), flow=flow)


def scratch(site: Site, p: ConvParams) -> int:
    """Factors of three tiles and sums of their products."""
    segments, channels = segments_of(p)
    return 8 * _PRODUCTS * segments * (channels + _LANES)


def triples(site: Site) -> int:
    """Of tiles, three of which are made at a time."""
    _, out_h, out_w, _ = site.y().shape
    return -(-(-(-out_h // S2.m) * -(-out_w // S2.m)) // _TILES)


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of factors, biases and multipliers."""
    segments, channels = segments_of(p)
    return constant_bytes(p, _PRODUCTS * segments * channels)


def of_tiles(site: Site, p: ConvParams) -> Units:
    """Products of an input channel with the output channels of a call, sums of them; input channels of three tiles,
    places of these in the image, outputs of a channel of three tiles, segments of these beyond the first, and threes of
    tiles."""
    out_c, (segments, channels), threes = len(p.bias), segments_of(p), triples(site)
    sums = threes * -(-out_c // CORES[core_with(site.isa)].lanes) * _PRODUCTS * segments
    return {
        "product": sums * channels,
        "sum": sums,
        "input": threes * segments * channels,
        "place": threes * _PRODUCTS * segments,
        "lane": threes * out_c,
        **of_outputs(p, site.y().elements),
        "segment": threes * out_c * (segments - 1),
        "three": threes,
    }


COST = CountedCost("tc_conv2d_3x3s2_s8_tiles2_scalar", of_tiles, flash=flash_bytes)


KERNELS = (
    Kernel(
        "tc_conv2d_3x3s2_s8_tiles2_scalar",
        offered(lower, scratch=scratch, cost=COST),
        when=(is_s8_or_w4, is_3x3_by_two, takes),
        header="tc_scalar_strided.h",
        includes=("tc_scalar.h", "tc_scalar_tiles.h"),
    ),
)
