# SPDX-License-Identifier: Apache-2.0
"""conv2d on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

A kernel is a register tile (`tile/shape.py`) with a packing of the weights (`stream.py`). Weights widened to int16 take
fewer instructions, and twice the flash of int8, two channels over each other. Two pixels by four channels have the
first taps in FPU registers where there are some; a loop that a small cache holds (`rolled`), and four pixels by two
channels (`4x2`), which read weights half as often, are for boards with slow flash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tinyc.kernel.kernel import Condition, Kernel
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, row_geometry, widths
from tinyc.kernels.form.row_walk import POINT, RowWalk, row_pieces, walk
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import Packing, matrix_of
from tinyc.kernels.tile.any_shape import MOST_TAPS
from tinyc.kernels.tile.layer import Run, WeightedLayer
from tinyc.kernels.tile.shape import (
    FOUR_PIXELS,
    ONE_PIXEL,
    ONE_PIXEL_SHORT,
    TWO_PIXELS,
    TWO_PIXELS_FPU,
    TWO_PIXELS_OF_ANY,
    TWO_PIXELS_OF_ANY_LONG,
    TWO_PIXELS_SHORT,
    Tile,
)
from tinyc.kernels.weighted.layer import CHANNEL_LIMIT, TAP_LIMIT, WeightedPlan, tile_kernel

_STACK_TAPS = 252  # whose words lie on the stack
_LOOP_TAPS = 16  # the least for a loop
_FOUR_PIXEL_TAPS = range(8, 129, 4)  # whose words for four pixels lie on the stack
_FOUR_PIXEL_CHANNELS = 1364  # a store's immediate reaches the fourth pixel


def plan(site: Site, p: ConvParams, packing: Packing, tile: Tile, by_rows: bool = False) -> WeightedPlan | None:
    """The function that runs the layer, with by_rows one output row of the image per call; None where no requantization
    is proved."""
    matrix = matrix_of(p)
    finish = packing.finish_of(matrix)
    if finish is None or (tile.of_any and finish.requant.common):
        return None
    out_c, k_h, k_w, in_c = p.w.shape
    image = Window.of(p.attrs, k_h, k_w)
    window, in_w, pixels, rows = walk(image, *widths(site), row_geometry(site, image, p.x_zero), by_rows)
    pieces = row_pieces(window, in_w, in_c, pixels, p.x_zero, site.core)
    along = RowWalk(pieces, window.kernel.h, window.stride.w * in_c, window.pad.left * in_c)
    even = _is_even(site) if along.is_direct else all(piece.pixels % 2 == 0 for piece in pieces)
    layer = WeightedLayer(
        k_h=window.kernel.h,
        runs=_runs(window, in_c),
        pixel_bytes=window.stride.w * in_c,
        out_c=out_c,
        aligned=in_c % 4 == 0,
        tile=of_row(tile, pixels),
        packing=packing,
        requant=finish.requant,
        core=site.core,
        even=even and tile.pixels == 2 and not tile.of_any,
        room=_widest(site) if tile.of_any else 0,
    )
    return WeightedPlan(layer, along, pixels, rows, finish, matrix)


def of_row(tile: Tile, pixels: int) -> Tile:
    """The tile of rows of so many pixels: a single one has no second beside it."""
    single = ONE_PIXEL_SHORT if tile.short else ONE_PIXEL
    return single if pixels == 1 and not tile.takes_one else tile


def _is_even(site: Site) -> bool:
    """Whether rows, or columns of one pixel a row, of all layers of the graph with weights of this shape have even
    numbers of pixels: layers with the same code have all of it."""
    values, layers = site.graph.values, [node for node in site.graph.nodes if node.op == site.node.op]
    alike = [node for node in layers if values[node.inputs[1]].shape == site.x(1).shape]
    shapes = [values[node.outputs[0]].shape for node in alike]
    return all((out_h if out_w == 1 else out_w) % 2 == 0 for _, out_h, out_w, _ in shapes)


def _widest(site: Site) -> int:
    """The taps of the widest 1x1 layer of the graph: with room on the stack for these, a library has one function of
    any shape, not one for narrow layers beside it."""
    layers = (replace(site, node=node) for node in site.graph.nodes if node.op == site.node.op)
    return max(layer.x(1).shape[3] for layer in layers if is_pointwise(layer))


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


def on_stack(site: Site) -> bool:
    """at most 252 taps of more than one pixel"""
    return site.x(1).elements // site.x(1).shape[0] <= _STACK_TAPS and site.y().elements > site.y().shape[3]


def on_stack_or_alone(site: Site) -> bool:
    """at most 252 taps, or one pixel"""
    return on_stack(site) or site.y().elements == site.y().shape[3]


def has_pairs(site: Site) -> bool:
    """rows of at least two pixels, or an image that is such a row"""
    window = Window.of(site.attrs, *site.x(1).shape[1:3])
    return walk(window, *widths(site), row_geometry(site, window, None), by_rows=False)[2] > 1


def is_long(site: Site) -> bool:
    """at least 16 taps"""
    return site.x(1).elements // site.x(1).shape[0] >= _LOOP_TAPS


def is_in_fours(site: Site) -> bool:
    """1x1 weights of stride 1 without padding, at least four pixels, 8 to 128 input channels and at most 1364 output
    channels by fours"""
    out_c, k_h, k_w, in_c = site.x(1).shape
    pixels = site.y().elements // site.y().shape[3]
    fits = in_c in _FOUR_PIXEL_TAPS and out_c % 4 == 0 and out_c <= _FOUR_PIXEL_CHANNELS
    return Window.of(site.attrs, k_h, k_w) == POINT and fits and pixels >= FOUR_PIXELS.pixels


def is_pointwise(site: Site) -> bool:
    """1x1 weights of stride 1 without padding, 8 to 256 input channels, at least 4 output channels"""
    out_c, k_h, k_w, in_c = site.x(1).shape
    return Window.of(site.attrs, k_h, k_w) == POINT and 8 <= in_c <= MOST_TAPS and out_c >= GROUP


def fills_long_turns(site: Site) -> bool:
    """input channels that fill turns of 16 steps as well as turns of 8"""
    return -(-site.x(1).shape[3] // (2 * TWO_PIXELS_OF_ANY.turn)) % 2 == 0


_TAKES: Mapping[Tile, tuple[Condition, ...]] = {  # what tiles ask for
    TWO_PIXELS: (),
    TWO_PIXELS_FPU: (on_stack,),
    TWO_PIXELS_SHORT: (on_stack_or_alone, is_long),
    TWO_PIXELS_OF_ANY: (is_pointwise, has_pairs),
    TWO_PIXELS_OF_ANY_LONG: (is_pointwise, fills_long_turns),
    FOUR_PIXELS: (is_in_fours,),
}


def kernel(name: str, packing: Packing, tile: Tile, *when: Condition) -> Kernel:
    """The kernel of this tile. when: conditions beside those of tile and packing."""
    return tile_kernel(name, plan, packing, tile, (*when, *_TAKES[tile], takes))
