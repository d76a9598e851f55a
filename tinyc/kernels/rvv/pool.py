# SPDX-License-Identifier: Apache-2.0
"""max_pool2d and avg_pool2d with RISC-V's vectors: lanes are channels (tc_rvv_pool.h)."""

from __future__ import annotations

from tinyc.kernel.conditions import s8_to_s8
from tinyc.kernel.kernel import Call, Cost, Kernel, offered
from tinyc.kernel.site import Site
from tinyc.kernel.windows import PoolParams, lower_pool
from tinyc.kernels.rows import sums as row_sums
from tinyc.kernels.rvv import ISA
from tinyc.kernels.rvv.costs import bytes_cost

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


def _cost(site: Site, lanes: int, last: int) -> Cost:
    """An estimate: for each window so many lanes at a time, its taps, and `last`."""
    _, out_h, out_w, channels = site.y().shape
    k_h, k_w = site.attrs.kernel
    each = k_h * (6 + 5 * k_w) + last
    return bytes_cost(out_h * out_w * (-(-channels // lanes) * each + 45), 0)


MAX = Kernel(
    "tc_max_pool2d_s8_rvv",
    offered(lower_max, cost=lambda site, p: _cost(site, 128, 12)),
    isa=ISA,
    when=(s8_to_s8,),
    includes=("tc_rvv_pool.h",),
)
AVERAGE = Kernel(
    "tc_avg_pool2d_s8_rvv",
    offered(lower_average, cost=lambda site, p: _cost(site, 64, 26), row_forms=row_sums.avg_pool_rows),
    isa=ISA,
    when=(s8_to_s8, few_taps),
    includes=("tc_rvv_pool.h",),
)
