# SPDX-License-Identifier: Apache-2.0
"""max_pool2d and avg_pool2d with Helium (MVE): lanes are channels (tc_mve_pool.h)."""

from __future__ import annotations

import math

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Kernel, offered
from tinyc.kernel.site import Site, s8_to_s8
from tinyc.kernel.windows import PoolParams, lower_pool
from tinyc.kernels.rows import sums as row_sums

_MOST = 64  # taps of a window
_ISA = frozenset({"mve"})


def few_taps(site: Site) -> bool:
    """windows of two to 64 taps"""
    return 2 <= int(site.attrs.kernel.h * site.attrs.kernel.w) <= _MOST


def lower_max(site: Site, p: PoolParams) -> Call:
    """tc_max_pool2d_s8_mve: one output row from the input rows of its windows."""
    return lower_pool(site, p, "tc_mve_pool_t", {"count_pad": 0, "x_zero": p.x_zero})


def lower_average(site: Site, p: PoolParams) -> Call:
    """tc_avg_pool2d_s8_mve: one output row from the input rows of its windows."""
    extra = {"count_pad": int(p.attrs.count_pad), "x_zero": p.x_zero}
    return lower_pool(site, p, "tc_mve_pool_t", extra)


def of_vectors(site: Site, lanes: int) -> Units:
    """For each window its taps are found; then so many lanes at a time come from a vector of each tap."""
    _, out_h, out_w, channels = site.y().shape
    windows, taps, vectors = out_h * out_w, math.prod(site.attrs.kernel), -(-channels // lanes)
    return {"window": windows, "tap": windows * taps, "vector": windows * vectors, "taken": windows * vectors * taps}


MAX = Kernel(
    "tc_max_pool2d_s8_mve",
    offered(lower_max, cost=CountedCost("tc_max_pool2d_s8_mve", lambda site, p: of_vectors(site, 16))),
    isa=_ISA,
    when=(s8_to_s8, few_taps),
)
AVERAGE = Kernel(
    "tc_avg_pool2d_s8_mve",
    offered(
        lower_average,
        cost=CountedCost("tc_avg_pool2d_s8_mve", lambda site, p: of_vectors(site, 8)),
        row_forms=row_sums.avg_pool_rows,
    ),
    isa=_ISA,
    when=(s8_to_s8, few_taps),
)
