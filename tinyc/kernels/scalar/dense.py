# SPDX-License-Identifier: Apache-2.0
"""fully_connected on cores without DSP instructions: four outputs at a time."""

from __future__ import annotations

import numpy as np

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import pad_taps
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, buffered_flow, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, of_outputs
from tinyc.kernels.scalar.conv import CHANNEL_BYTES, by_lanes, scale_fields, small_sums_of

_LANES = 4


def takes(site: Site) -> bool:
    """constant weights, and accumulators within 2^28"""
    return site.is_const(1) and small_sums_of(site, 0)


def lower(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_scalar: the whole tensor."""
    out_c, in_c = p.w.shape
    taps = pad_taps(p.w)
    batch = site.y().elements // out_c
    fields = {
        "w": Const(by_lanes(taps, _LANES), "[out_c / 4][in_c][4]", "w"),
        **scale_fields(p, p.w, "tc_scalar_dense"),
        "batch": batch,
        "in_c": in_c,
        "taps": taps.shape[1],
    }
    struct = Struct("tc_fully_connected_s8_scalar_t", fields)
    return Call((Params(), In(0), Out(), Scratch()), struct, flow=buffered_flow(batch, 1, in_c, out_c))


def scratch(site: Site, p: ConvParams) -> int:
    """The inputs as words."""
    return 4 * int(pad_taps(p.w).shape[1])


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return int(np.prod(by_lanes(pad_taps(p.w), _LANES).shape)) + CHANNEL_BYTES * len(p.bias)


def of_fours(site: Site, p: ConvParams) -> Units:
    """Products of four inputs with four outputs, these, inputs, outputs, and rows."""
    out_c, taps = len(p.bias), pad_taps(p.w).shape[1]
    batch = site.y().elements // out_c
    fours = batch * -(-out_c // _LANES)
    words = fours * taps // _LANES
    return {
        "word": words,
        "four": fours,
        "input": batch * taps,
        **of_outputs(p, batch * out_c),
        "row": batch,
    }


KERNELS = (
    Kernel(
        "tc_fully_connected_s8_scalar",
        offered(lower, scratch=scratch, cost=CountedCost("tc_fully_connected_s8_scalar", of_fours, flash=flash_bytes)),
        when=(is_s8, takes),
        includes=("tc_scalar.h",),
    ),
)
