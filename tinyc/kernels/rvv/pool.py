# SPDX-License-Identifier: Apache-2.0
"""max_pool2d and avg_pool2d with RISC-V's vectors: lanes are channels (tc_rvv_pool.h)."""

from __future__ import annotations

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Kernel, offered
from tinyc.kernel.site import Site, s8_to_s8
from tinyc.kernel.windows import PoolParams, lower_pool
from tinyc.kernels.rows import sums as row_sums
from tinyc.kernels.rvv import ISA

_MOST = 255  # taps of an average


def few_taps(site: Site) -> bool:
    """windows of at most 255 taps"""
    return int(site.attrs.kernel.h * site.attrs.kernel.w) <= _MOST


def lower_max(site: Site, p: PoolParams) -> Call:
    """tc_max_pool2d_s8_rvv: one output row from the input rows of its windows."""
    return lower_pool(site, p, "tc_rvv_pool_t", {"count_pad": 0, "x_zero": p.x_zero})


def lower_average(site: Site, p: PoolParams) -> Call:
    """tc_avg_pool2d_s8_rvv: one output row from the input rows of its windows."""
    return lower_pool(site, p, "tc_rvv_pool_t", {"count_pad": int(p.attrs.count_pad), "x_zero": p.x_zero})


def of_vectors(site: Site, lanes: int) -> Units:
    """For each window so many lanes at a time come from a vector of each of its taps."""
    _, out_h, out_w, channels = site.y().shape
    vectors, (k_h, k_w) = out_h * out_w * -(-channels // lanes), site.attrs.kernel
    return {"window": out_h * out_w, "vector": vectors, "row": vectors * k_h, "taken": vectors * k_h * k_w}


MAX = Kernel(
    "tc_max_pool2d_s8_rvv",
    offered(lower_max, cost=CountedCost("tc_max_pool2d_s8_rvv", lambda site, p: of_vectors(site, 128))),
    isa=ISA,
    when=(s8_to_s8,),
    includes=("tc_rvv_pool.h",),
)
AVERAGE = Kernel(
    "tc_avg_pool2d_s8_rvv",
    offered(
        lower_average,
        cost=CountedCost("tc_avg_pool2d_s8_rvv", lambda site, p: of_vectors(site, 64)),
        row_forms=row_sums.avg_pool_rows,
    ),
    isa=ISA,
    when=(s8_to_s8, few_taps),
    includes=("tc_rvv_pool.h",),
)
