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

from tinyc.kernel.kernel import Condition, Kernel, planned
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8, is_s8_or_w16
from tinyc.kernels.form.row_walk import POINT, RowWalk, row_pieces, walk
from tinyc.kernels.stream import PROVED, Fit, matrix_of, packed, raised, wide
from tinyc.kernels.weighted.layer import CHANNEL_LIMIT, TAP_LIMIT, WeightedPlan, call, cost, special
from tinyc.kernels.weighted.taps import FourPixelLayer, Run, WeightedLayer

_HELD_TAPS = 252  # whose words lie on the stack
_ROLLED_TAPS = 16  # the least for a loop
FOUR_PIXELS = 4  # the least that four pixels together are for
_FOUR_PIXEL_TAPS = range(8, 129, 4)  # whose words for four pixels lie on the stack
_FOUR_PIXEL_CHANNELS = 1364  # a store's immediate reaches the fourth pixel


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
    along = RowWalk(pieces, window.kernel.h, layer.pixel_bytes, window.pad.left * in_c)
    return WeightedPlan(layer, along, pixels, rows, finish, matrix)


def four_pixels_plan(site: Site, p: ConvParams, by_rows: bool = False) -> WeightedPlan | None:
    """As `plan`, of packed weights, four pixels by two channels."""
    work = plan(site, p, packed, by_rows)
    if work is None:
        return None
    layer = FourPixelLayer(**{field.name: getattr(work.layer, field.name) for field in fields(WeightedLayer)})
    return replace(work, layer=layer)


def _runs(window: Window, in_c: int) -> tuple[Run, ...]:
    """The taps of a kernel row: one run, or one per column when columns are skipped."""
    if window.dilation.w == 1:
        return (Run(0, window.kernel.w * in_c),)
    return tuple(Run(k * window.dilation.w * in_c, in_c) for k in range(window.kernel.w))


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
