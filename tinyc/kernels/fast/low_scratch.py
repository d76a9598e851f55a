# SPDX-License-Identifier: Apache-2.0
"""Exact fast convolutions (`winograd.py`) with less scratch, for arenas that peak at such a layer.

The sums over rows of four channels at a time, not of all, wait for those over columns, and a pair of tiles leaves to
the next what its outputs may write over, not sums (tc_low_scratch.h): scratch is little more than the factors. The
products are the same functions. For 2x2 outputs only: with 4x4 the factors are most of the scratch.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial

from tinyc.kernel.kernel import Call, Cost, Kernel, Once, SpecializedKernel, planned
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, is_s8
from tinyc.kernels.fast import winograd
from tinyc.kernels.fast.bilinear import F2, BilinearForm
from tinyc.kernels.fast.text import geometry_of, layer_function, parts_of
from tinyc.kernels.fast.tiles import Tiles
from tinyc.kernels.fast.transforms import horizontal_function, vertical_function
from tinyc.kernels.matrix import GROUP
from tinyc.machine.thumb import Naked, Work

_STEPS = 2  # of four channels
_MOST = 256  # products times fours of channels: places in a table of bytes
_MOST_PADDING = 2  # left; as many columns of the input are kept
_CALL_COST = Work(50, 80)  # instructions of the loop over columns, around its calls


def _inline(form: BilinearForm, in_c: int) -> bool:
    return in_c <= winograd.INLINE_CHANNELS[form.name]


def plan(site: Site, p: ConvParams, form: BilinearForm) -> winograd.TilePlan | None:
    """As `winograd.plan`, with the functions of the inputs of four channels."""
    work = winograd.plan(site, p, form, _inline(form, p.w.shape[3]))
    if work is None:
        return None
    tiles, order = work.tiles, work.order
    functions, vertical, horizontal = _inputs(tiles, tuple(order))
    fast = winograd.products_code(tiles)
    parts = Once(lambda: parts_of(tiles, *functions, order, _STEPS))
    geometry = geometry_of(site, p, tiles)
    function = Once(lambda: layer_function(geometry, tiles, fast.text, order, parts(), "tc_low_scratch_run"))
    return replace(work, parts=parts, vertical=vertical, horizontal=horizontal, function=function)


@lru_cache(maxsize=64)
def _inputs(tiles: Tiles, order: tuple[tuple[int, int], ...]) -> tuple[tuple[Naked, Naked], tuple[Work, Work], Work]:
    """Functions for four channels of tiles.in_c; what a call of the first and each column of it, and a call of the
    second execute."""
    vertical, around, column = vertical_function(replace(tiles, in_c=GROUP), tiles.in_c)
    horizontal, horizontal_count = horizontal_function(tiles, list(order), _STEPS)
    return (vertical, horizontal), (around, column), horizontal_count


def special(work: winograd.TilePlan, site: Site, p: ConvParams) -> SpecializedKernel:
    """The functions of the layer."""
    return replace(winograd.special(work, NAMES[work.tiles.form.name]), includes=("tc_low_scratch.h",))


def call(work: winograd.TilePlan, site: Site, p: ConvParams) -> Call:
    """One call for the whole image. Right of its outputs, what a pair of tiles has read is read again by the next."""
    whole = winograd.call(work, site, p)
    assert whole.flow is not None
    assert whole.flow.across is not None
    across = whole.flow.across
    return replace(whole, flow=replace(whole.flow, across=replace(across, ahead=across.columns)))


def scratch(tiles: Tiles, site: Site, p: ConvParams) -> int:
    """Bytes of factors, columns that are kept, and a pair of tiles where tiles leave the image."""
    kept: int = tiles.form.n * p.attrs.pad.left * tiles.in_c
    return winograd.scratch(tiles, site) - 4 * tiles.strip_words + kept


def cost(work: winograd.TilePlan, site: Site, p: ConvParams) -> Cost:
    """Instructions exact but for the loop over the tiles, estimated."""
    tiles, plain = work.tiles, winograd.plan(site, p, work.tiles.form, work.tiles.inline)
    assert plain is not None
    whole = winograd.cost(plain, site, p)
    _, out_h, out_w, _ = site.y().shape
    pairs = -(-out_h // tiles.form.m) * -(-out_w // (2 * tiles.form.across.m))
    around, column = work.vertical
    quads = tiles.quads * (around + tiles.columns * column + work.horizontal + _CALL_COST)
    total = pairs * (quads + work.products + winograd.PAIR_COST)
    scratch_bytes = scratch(tiles, site, p)
    return replace(whole, instructions=total.instructions, cycles=total.cycles, scratch_bytes=scratch_bytes)


def takes_f2(site: Site) -> bool:
    """input channels in fours up to 64, at most 2 columns of padding on the left, 3x3 weights, stride 1, no dilation,
    one group, output channels in fours up to 1364"""
    in_c = site.x(1).shape[3]
    if in_c % GROUP or F2.products * F2.across.products * in_c // GROUP > _MOST or site.attrs.pad.left > _MOST_PADDING:
        return False
    return winograd.takes_f2(site)


NAMES = {"f2": "tc_conv2d_3x3_s8_tiles2_low_scratch_asm"}
KERNELS = (
    Kernel(
        NAMES["f2"],
        planned(partial(plan, form=F2), winograd.ASKS[False], call=call, cost=cost, special=special),
        isa=frozenset({"dsp"}),
        when=(is_s8, takes_f2),
        asks=winograd.ASKS[False],
        written=True,
    ),
)
