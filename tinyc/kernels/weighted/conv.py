# SPDX-License-Identifier: Apache-2.0
"""conv2d on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

Two families, equal but for the weights: `tc_conv2d_s8_w16_asm` widens them to int16 (fewer instructions, twice
the flash), `tc_conv2d_s8_asm` keeps them int8, two channels over each other. `tc_conv2d_s8_rolled_asm` is the latter
with the taps in a loop that a small cache holds, for boards with slow flash, and `tc_conv2d_s8_quads_asm` makes four
pixels by two channels, so that weights are read half as often there.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial

from tinyc.kernel.kernel import Condition, Kernel, Rows, planned
from tinyc.kernel.site import Padding, Pair, Site
from tinyc.kernel.windows import ConvParams, Window, is_s8, is_s8_or_w16, row_geometry
from tinyc.kernels.block import RowBlock
from tinyc.kernels.stream import PROVED, Fit, matrix_of, packed, raised, wide
from tinyc.kernels.weighted.layer import CHANNEL_LIMIT, TAP_LIMIT, RowPiece, WeightedPlan, call, cost, special
from tinyc.kernels.weighted.taps import FourPixelLayer, Run, WeightedLayer
from tinyc.machine.cores import Core

_WHOLE_ROW_BYTES = 512  # a row that is copied whole is not longer
_HELD_TAPS = 252  # whose words lie on the stack
_ROLLED_TAPS = 16  # the least for a loop
FOUR_PIXELS = 4  # the least that four pixels together are for
_FOUR_PIXEL_TAPS = range(8, 129, 4)  # whose words for four pixels lie on the stack
_FOUR_PIXEL_CHANNELS = 1364  # a store's immediate reaches the fourth pixel
_PIECE_COST = 40  # instructions of one more piece
POINT = Window(Pair(1, 1), Pair(1, 1), Padding(0, 0, 0, 0), Pair(1, 1))


def plan(
    site: Site, p: ConvParams, fit: Fit, by_rows: bool = False, fpu: bool = False, rolled: bool = False
) -> WeightedPlan | None:
    """The function that runs the layer, with by_rows one output row of the image per call; None where no requantization
    is proved."""
    matrix = matrix_of(p)
    finish = matrix.once(fit)
    if finish is None:
        return None
    out_c, k_h, k_w, in_c = p.w.shape
    window, in_w, pixels, rows = walk(Window.of(p.attrs, k_h, k_w), site, p.x_zero, by_rows)
    layer = WeightedLayer(
        k_h=window.kernel.h,
        runs=_runs(window, in_c),
        pixel_bytes=window.stride.w * in_c,
        out_c=out_c,
        aligned=in_c % 4 == 0,
        alone=pixels == 1,
        requant=finish.requant,
        core=site.core,
        fpu=fpu,
        rolled=rolled,
        nibbles=fit is raised,
    )
    pieces = row_pieces(window, in_w, in_c, pixels, p.x_zero, site.core)
    return WeightedPlan(layer, pieces, pixels, window.pad.left * in_c, rows, finish, matrix)


def four_pixels_plan(site: Site, p: ConvParams, by_rows: bool = False) -> WeightedPlan | None:
    """As `plan`, of packed weights, four pixels by two channels."""
    work = plan(site, p, packed, by_rows)
    if work is None:
        return None
    layer = FourPixelLayer(**{field.name: getattr(work.layer, field.name) for field in fields(WeightedLayer)})
    return replace(work, layer=layer)


def walk(window: Window, site: Site, x_zero: int, by_rows: bool) -> tuple[Window, int, int, Rows]:
    """(window, input columns, output columns, rows) of the calls.

    Unless by_rows, the whole image is one row where that is the same: for 1x1 weights of stride 1, and where it is one
    column.
    """
    (_, in_h, in_w, _), (_, out_h, out_w, _) = site.x(0).shape, site.y().shape
    if by_rows:
        return window, in_w, out_w, row_geometry(site, window, x_zero)
    one = Rows(1, 1, 1, 1, 0, 1, site.x(0).size_bytes, site.y().size_bytes, None)
    if window == POINT:
        return window, in_h * in_w, out_h * out_w, one
    if in_w == out_w == window.kernel.w == 1 and window.pad.left == 0:
        turned = [Pair(1, size.h) for size in (window.kernel, window.stride, window.dilation)]
        pad = Padding(0, window.pad.top, 0, window.pad.bottom)
        return Window(turned[0], turned[1], pad, turned[2]), in_h, out_h, one
    return window, in_w, out_w, row_geometry(site, window, x_zero)


def _runs(window: Window, in_c: int) -> tuple[Run, ...]:
    """The taps of a kernel row: one run, or one per column when columns are skipped."""
    if window.dilation.w == 1:
        return (Run(0, window.kernel.w * in_c),)
    return tuple(Run(k * window.dilation.w * in_c, in_c) for k in range(window.kernel.w))


def row_pieces(window: Window, in_w: int, in_c: int, out_w: int, x_zero: int, core: Core) -> tuple[RowPiece, ...]:
    """A row of out_w pixels: blocks at the borders where windows leave the image, the image itself between.

    Every piece has two pixels or more (unless the row has one): an odd pixel reads its left neighbour too.
    """

    def block(start: int, stop: int) -> RowPiece:
        first = start * window.stride.w - window.pad.left
        last = (stop - 1) * window.stride.w - window.pad.left + window.span.w
        return RowPiece(start, stop, RowBlock(first, last, in_w, in_c, x_zero, window.kernel.h, core))

    left = min(-(-window.pad.left // window.stride.w), out_w)
    right = min(max((in_w - window.span.w + window.pad.left) // window.stride.w + 1, 0), out_w)
    if left == 0 and right == out_w:
        return (RowPiece(0, out_w, None),)
    whole = block(0, out_w)
    first = left + left % 2
    last = out_w if right == out_w else min(right, out_w - 2)
    last -= (last - first) % 2 if last < out_w else 0
    if last - first < 2 or last > right:
        return (whole,)
    split = [RowPiece(first, last, None)]
    split += [block(0, first)] if first else []
    split += [block(last, out_w)] if last < out_w else []
    pieces = tuple(sorted(split, key=lambda piece: piece.start))
    copied = [sum(b.block.row_bytes for b in some if b.block) * window.kernel.h for some in ((whole,), pieces)]
    short = whole.block is not None and whole.block.row_bytes * window.kernel.h <= _WHOLE_ROW_BYTES
    cheaper = copied[0] // 2 <= copied[1] // 2 + _PIECE_COST * (len(pieces) - 1)
    return (whole,) if short and cheaper else pieces


def takes(site: Site) -> bool:
    """constant weights, one group, at most 4092 output channels"""
    if not site.is_const(1):
        return False
    out_c, k_h, k_w, in_c = site.x(1).shape
    window = Window.of(site.attrs, k_h, k_w)
    if site.attrs.groups != 1 or out_c > CHANNEL_LIMIT or k_h > 255:
        return False
    return window.span.w * in_c < TAP_LIMIT and k_h * k_w * in_c < TAP_LIMIT


def is_held(site: Site) -> bool:
    """at most 252 taps of more than one pixel"""
    return site.x(1).elements // site.x(1).shape[0] <= _HELD_TAPS and site.y().elements > site.y().shape[3]


def is_long(site: Site) -> bool:
    """at least 16 taps"""
    return site.x(1).elements // site.x(1).shape[0] >= _ROLLED_TAPS


def is_in_fours(site: Site) -> bool:
    """1x1 weights of stride 1 without padding, at least four pixels, 8 to 128 input channels and at most 1364 output
    channels by fours"""
    out_c, k_h, k_w, in_c = site.x(1).shape
    pixels = site.y().elements // site.y().shape[3]
    fits = in_c in _FOUR_PIXEL_TAPS and out_c % 4 == 0 and out_c <= _FOUR_PIXEL_CHANNELS
    return Window.of(site.attrs, k_h, k_w) == POINT and fits and pixels >= FOUR_PIXELS


def kernel(name: str, fit: Fit, when: tuple[Condition, ...], fpu: bool = False, rolled: bool = False) -> Kernel:
    """The kernel of these weights. when: conditions beside `takes`."""
    return Kernel(
        name,
        planned(
            partial(plan, fit=fit, fpu=fpu, rolled=rolled),
            PROVED[fit],
            call=lambda work, site, p: call(work),
            cost=lambda work, site, p: cost(work),
            special=lambda work, site, p: special(work, name),
        ),
        isa=frozenset({"dsp", "fpu"} if fpu else {"dsp"}),
        when=(*when, takes),
        asks=PROVED[fit],
        slow_flash=rolled,
        written=True,
    )


KERNELS = (
    kernel("tc_conv2d_s8_w16_asm", wide, (is_s8_or_w16,)),
    kernel("tc_conv2d_s8_asm", packed, (is_s8,)),
)
# The same with the first taps of a pixel pair in FPU registers, where that pays.
FPU_KERNELS = (
    kernel("tc_conv2d_s8_w16_fpu_asm", wide, (is_s8_or_w16, is_held), fpu=True),
    kernel("tc_conv2d_s8_fpu_asm", packed, (is_s8, is_held), fpu=True),
)
ROLLED_KERNELS = (kernel("tc_conv2d_s8_rolled_asm", packed, (is_s8, is_held, is_long), rolled=True),)
FOUR_PIXEL_KERNEL = Kernel(
    "tc_conv2d_s8_quads_asm",
    planned(
        four_pixels_plan,
        PROVED[packed],
        call=lambda work, site, p: call(work),
        cost=lambda work, site, p: cost(work),
        special=lambda work, site, p: special(work, "tc_conv2d_s8_quads_asm"),
    ),
    isa=frozenset({"dsp"}),
    when=(is_s8, takes, is_in_fours),
    asks=PROVED[packed],
    slow_flash=True,
    written=True,
)
