# SPDX-License-Identifier: Apache-2.0
"""fully_connected on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

`tc_fully_connected_s8_asm` keeps int8 weights, `tc_fully_connected_s8_w16_asm` widens them to int16;
`tc_fully_connected_s8_rolled_asm` is the first with less code, for boards with slow flash. One row of inputs is a
pixel, so more than one of them is a 1x1 convolution.
"""

from __future__ import annotations

from functools import partial

from tinyc.kernel.kernel import Condition, Kernel, Rows, planned
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, is_s8, is_s8_or_w16
from tinyc.kernels.form.row_walk import RowPiece, RowWalk
from tinyc.kernels.stream import PROVED, Fit, matrix_of, packed, wide
from tinyc.kernels.weighted.layer import CHANNEL_LIMIT, TAP_LIMIT, WeightedPlan, call, cost, special
from tinyc.kernels.weighted.taps import Run, WeightedLayer


def plan(site: Site, p: ConvParams, fit: Fit, rolled: bool = False) -> WeightedPlan | None:
    """The function that runs the layer; None where no requantization is proved."""
    matrix = matrix_of(p)
    finish = matrix.once(fit)
    if finish is None:
        return None
    out_c, in_c = p.w.shape
    batch = site.y().elements // out_c
    layer = WeightedLayer(
        k_h=1,
        runs=(Run(0, in_c),),
        pixel_bytes=in_c,
        out_c=out_c,
        aligned=in_c % 4 == 0 or batch == 1,
        alone=batch == 1,
        requant=finish.requant,
        core=site.core,
        rolled=rolled,
    )
    rows = Rows(1, 1, 1, 1, 0, 1, site.x(0).size_bytes, site.y().size_bytes, None)
    return WeightedPlan(layer, RowWalk((RowPiece(0, batch, None),), 1, in_c), batch, rows, finish, matrix)


def takes(site: Site) -> bool:
    """constant weights, at most 4092 outputs"""
    if not site.is_const(1):
        return False
    out_c, in_c = site.x(1).shape
    return out_c <= CHANNEL_LIMIT and in_c < TAP_LIMIT


def is_one_row(site: Site) -> bool:
    """one row of inputs"""
    return site.y().elements == site.x(1).shape[0]


def kernel(name: str, fit: Fit, when: tuple[Condition, ...], rolled: bool = False) -> Kernel:
    """The kernel of these weights. when: conditions beside `takes`."""
    return Kernel(
        name,
        planned(
            partial(plan, fit=fit, rolled=rolled),
            PROVED[fit],
            call=lambda work, site, p: call(work),
            cost=lambda work, site, p: cost(work),
            special=lambda work, site, p: special(work, name),
        ),
        isa=frozenset({"dsp"}),
        when=(*when, takes),
        asks=PROVED[fit],
        slow_flash=rolled,
        written=True,
    )


KERNELS = (
    kernel("tc_fully_connected_s8_asm", packed, (is_s8,)),
    kernel("tc_fully_connected_s8_w16_asm", wide, (is_s8_or_w16,)),
    kernel("tc_fully_connected_s8_rolled_asm", packed, (is_s8, is_one_row), rolled=True),
)
