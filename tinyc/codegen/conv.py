"""conv2d on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

Two families, equal but for the weights: `tc_conv2d_s8_w16_asm` widens them to int16 (fewer instructions, twice
the flash), `tc_conv2d_s8_asm` keeps them int8, two channels over each other.
"""

from __future__ import annotations

from tinyc.codegen.block import Block
from tinyc.codegen.dense import Dense
from tinyc.codegen.layer import CHANNEL_LIMIT, TAP_LIMIT, Piece, Plan, call, cost, special
from tinyc.codegen.pixels import Layer, Run
from tinyc.codegen.stream import Fit, Matrix, packed, wide
from tinyc.kernels import Condition, Kernel, Rows
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, Window, conv_params, is_s8, row_bytes, row_geometry

_WHOLE_ROW_BYTES = 512  # a row that is copied whole is not longer
_PIECE_COST = 40  # instructions of one more piece


def plan(site: Site, p: ConvParams, fit: Fit) -> Plan:
    """The function that runs the layer. ValueError where `_takes` would have said no."""
    matrix = _matrix(p)
    finish = fit(matrix)
    if finish is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    out_c, k_h, k_w, in_c = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    x, y = site.x(0), site.y()
    if k_h == k_w == 1 and window.stride == (1, 1) and not any(window.pad):
        pixels = x.shape[1] * x.shape[2]
        rows = Rows(1, 1, 1, 1, 0, 1, x.size_bytes, y.size_bytes, None)
        pieces: tuple[Piece, ...] = (Piece(0, pixels, None),)
    else:
        pixels, rows = y.shape[2], row_geometry(site, window, p.x_zero)
        pieces = _pieces(window, x.shape[2], in_c, pixels, p.x_zero)
    runs = _runs(window, in_c)
    alone = pixels == 1 and k_h == 1 and len(runs) == 1
    layer = (Dense if alone else Layer)(
        k_h=k_h,
        runs=runs,
        pixel_bytes=window.stride.w * in_c,
        out_c=out_c,
        aligned=in_c % 4 == 0 and row_bytes(x) % 4 == 0,
        single=pixels == 1,
        way=finish.way,
    )
    return Plan(layer, pieces, pixels, window.pad.left * in_c, rows, finish, matrix)


def _matrix(p: ConvParams) -> Matrix:
    return Matrix.of(p, p.w.reshape(p.w.shape[0], -1))


def _runs(window: Window, in_c: int) -> tuple[Run, ...]:
    """The taps of a kernel row: one run, or one per column when columns are skipped."""
    if window.dilation.w == 1:
        return (Run(0, window.kernel.w * in_c),)
    return tuple(Run(k * window.dilation.w * in_c, in_c) for k in range(window.kernel.w))


def _pieces(window: Window, in_w: int, in_c: int, out_w: int, x_zero: int) -> tuple[Piece, ...]:
    """A row of out_w pixels: blocks at the borders where windows leave the image, the image itself between.

    Every piece has two pixels or more (unless the row has one): an odd pixel reads its left neighbour too.
    """

    def block(start: int, stop: int) -> Piece:
        first = start * window.stride.w - window.pad.left
        last = (stop - 1) * window.stride.w - window.pad.left + window.span.w
        return Piece(start, stop, Block(first, last, in_w, in_c, x_zero, window.kernel.h))

    left = min(-(-window.pad.left // window.stride.w), out_w)
    right = min(max((in_w - window.span.w + window.pad.left) // window.stride.w + 1, 0), out_w)
    if left == 0 and right == out_w:
        return (Piece(0, out_w, None),)
    whole = block(0, out_w)
    first = left + left % 2
    last = out_w if right == out_w else min(right, out_w - 2)
    last -= (last - first) % 2 if last < out_w else 0
    if last - first < 2 or last > right:
        return (whole,)
    split = [Piece(first, last, None)]
    split += [block(0, first)] if first else []
    split += [block(last, out_w)] if last < out_w else []
    pieces = tuple(sorted(split, key=lambda piece: piece.start))
    copied = [sum(b.block.row_bytes for b in some if b.block) * window.kernel.h for some in ((whole,), pieces)]
    short = whole.block is not None and whole.block.row_bytes * window.kernel.h <= _WHOLE_ROW_BYTES
    cheaper = copied[0] // 2 <= copied[1] // 2 + _PIECE_COST * (len(pieces) - 1)
    return (whole,) if short and cheaper else pieces


def _takes(site: Site, fit: Fit) -> bool:
    a = site.attrs
    out_c, k_h, k_w, in_c = site.x(1).shape
    window = Window.of(a, k_h, k_w)
    if a.groups != 1 or out_c > CHANNEL_LIMIT or k_h > 255:
        return False
    if window.span.w * in_c >= TAP_LIMIT or k_h * k_w * in_c >= TAP_LIMIT:
        return False
    return fit(_matrix(conv_params(site, 0))) is not None


def takes_wide(site: Site) -> bool:
    """one group, at most 4092 output channels, and a requantization that is proved for int16 weights"""
    return site.is_const(1) and _takes(site, wide)


def takes_packed(site: Site) -> bool:
    """one group, at most 4092 output channels, and a requantization that is proved for packed int8 weights"""
    return site.is_const(1) and _takes(site, packed)




def _kernel(name: str, fit: Fit, takes: Condition) -> Kernel:
    return Kernel(
        name,
        lambda site, p: call(plan(site, p, fit)),
        isa=frozenset({"dsp"}),
        when=(is_s8, takes),
        scratch=lambda site, p: plan(site, p, fit).scratch_bytes,
        specialize=lambda site, p: special(plan(site, p, fit), name),
        cost=lambda site, p: cost(plan(site, p, fit)),
    )


KERNELS = (
    _kernel("tc_conv2d_s8_w16_asm", wide, takes_wide),
    _kernel("tc_conv2d_s8_asm", packed, takes_packed),
)
