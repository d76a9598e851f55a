# SPDX-License-Identifier: Apache-2.0
"""fully_connected on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

`tc_fully_connected_s8_asm` keeps int8 weights, `tc_fully_connected_s8_w16_asm` widens them to int16;
`tc_fully_connected_s8_rolled_asm` is the first with less code. One row of inputs is a
pixel, so more than one of them is a 1x1 convolution.
"""

from __future__ import annotations

from tinyc.kernel.kernel import Condition, Kernel, Rows
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.form.row_walk import RowPiece, RowWalk
from tinyc.kernels.stream import DIGITS, PACKED, WIDE, Packing, matrix_of
from tinyc.kernels.tile.layer import Run, WeightedLayer
from tinyc.kernels.tile.shape import ONE_PIXEL, ONE_PIXEL_SHORT, TWO_PIXELS, Tile
from tinyc.kernels.weighted.layer import CHANNEL_LIMIT, TAP_LIMIT, WeightedPlan, tile_kernel


def plan(site: Site, p: ConvParams, packing: Packing, tile: Tile) -> WeightedPlan | None:
    """The function that runs the layer. tile: of one row of inputs. None where no requantization is proved."""
    matrix = matrix_of(p)
    finish = packing.finish_of(matrix)
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
        tile=tile if batch == 1 else TWO_PIXELS,
        packing=packing,
        requant=finish.requant,
        core=site.core,
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


def kernel(name: str, packing: Packing, tile: Tile, *when: Condition) -> Kernel:
    """The kernel of this tile. when: conditions beside `takes` and those of the packing."""
    return tile_kernel(name, plan, packing, tile, (*when, takes))


KERNELS = (
    kernel("tc_fully_connected_s8_asm", PACKED, ONE_PIXEL),
    kernel("tc_fully_connected_s8_w16_asm", WIDE, ONE_PIXEL),
    kernel("tc_fully_connected_s8_rolled_asm", PACKED, ONE_PIXEL_SHORT, is_one_row),
)
INT4_KERNELS = (kernel("tc_fully_connected_s8_w4_asm", DIGITS, ONE_PIXEL),)
