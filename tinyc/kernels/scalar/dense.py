# SPDX-License-Identifier: Apache-2.0
"""fully_connected on cores without DSP instructions: four outputs at a time."""

from __future__ import annotations

import numpy as np

from tinyc.kernel.dsp import pad_taps
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, Params, Scratch, Struct, buffered_flow, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.scalar.conv import CHANNEL_BYTES, by_lanes, scale_fields, small_sums_of
from tinyc.kernels.scalar.loops.costs import compiled_share, executed

_LANES = 4
_WIDEN, _STORE = 5, 22  # instructions of C code, counted on ARMv7-M: for an input, for an output


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


def cost(site: Site, p: ConvParams) -> Cost:
    """The sums of products by their loop; the C code around them by what it took on ARMv7-M."""
    taps = pad_taps(p.w)
    batch = site.y().elements // len(p.bias)
    sums = -(-len(p.bias) // _LANES) * executed("tc_scalar_dense4", site.isa, turn=taps.shape[1] // _LANES)
    instructions = batch * (sums + _STORE * compiled_share(site.isa) * len(p.bias) + _WIDEN * taps.shape[1])
    flash = int(np.prod(by_lanes(taps, _LANES).shape)) + CHANNEL_BYTES * len(p.bias)
    return Cost(int(instructions), flash, scratch(site, p))


KERNELS = (
    Kernel(
        "tc_fully_connected_s8_scalar",
        offered(lower, scratch=scratch, cost=cost),
        when=(is_s8, takes),
        includes=("tc_scalar.h",),
    ),
)
