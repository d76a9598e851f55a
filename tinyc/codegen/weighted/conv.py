"""conv2d on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

Two families, equal but for the weights: `tc_conv2d_s8_w16_asm` widens them to int16 (fewer instructions, twice
the flash), `tc_conv2d_s8_asm` keeps them int8, two channels over each other. `tc_conv2d_s8_rolled_asm` is the latter
with the taps in a loop that a small cache holds, for boards with slow flash.
"""

from __future__ import annotations

from tinyc.codegen.block import Block
from tinyc.codegen.stream import Fit, Matrix, packed, wide
from tinyc.codegen.weighted.layer import CHANNEL_LIMIT, TAP_LIMIT, Piece, Plan, call, cost, special
from tinyc.codegen.weighted.taps import Layer, Run
from tinyc.kernels import Condition, Kernel, Rows
from tinyc.ops.base import Padding, Pair, Site
from tinyc.ops.windows import ConvParams, Window, conv_params, is_s8, row_geometry

_WHOLE_ROW_BYTES = 512  # a row that is copied whole is not longer
_HELD_TAPS = 252  # whose words lie on the stack
_ROLLED_TAPS = 16  # the least for a loop
_PIECE_COST = 40  # instructions of one more piece
POINT = Window(Pair(1, 1), Pair(1, 1), Padding(0, 0, 0, 0), Pair(1, 1))


def plan(site: Site, p: ConvParams, fit: Fit, by_rows: bool = False, fpu: bool = False, rolled: bool = False) -> Plan:
    """The function that runs the layer, with by_rows one output row of the image per call. ValueError where `takes`
    would have said no."""
    matrix = _matrix(p)
    finish = fit(matrix)
    if finish is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    out_c, k_h, k_w, in_c = p.w.shape
    window, in_w, pixels, rows = walk(Window.of(p.attrs, k_h, k_w), site, p.x_zero, by_rows)
    layer = Layer(
        k_h=window.kernel.h,
        runs=_runs(window, in_c),
        pixel_bytes=window.stride.w * in_c,
        out_c=out_c,
        aligned=in_c % 4 == 0,
        alone=pixels == 1,
        way=finish.way,
        fpu=fpu,
        rolled=rolled,
    )
    pieces = row_pieces(window, in_w, in_c, pixels, p.x_zero)
    return Plan(layer, pieces, pixels, window.pad.left * in_c, rows, finish, matrix)


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


def _matrix(p: ConvParams) -> Matrix:
    return Matrix.of(p, p.w.reshape(p.w.shape[0], -1))


def _runs(window: Window, in_c: int) -> tuple[Run, ...]:
    """The taps of a kernel row: one run, or one per column when columns are skipped."""
    if window.dilation.w == 1:
        return (Run(0, window.kernel.w * in_c),)
    return tuple(Run(k * window.dilation.w * in_c, in_c) for k in range(window.kernel.w))


def row_pieces(window: Window, in_w: int, in_c: int, out_w: int, x_zero: int) -> tuple[Piece, ...]:
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


def takes(site: Site, fit: Fit) -> bool:
    """Whether `plan` makes the layer with this fit."""
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
    return site.is_const(1) and takes(site, wide)


def takes_packed(site: Site) -> bool:
    """one group, at most 4092 output channels, and a requantization that is proved for packed int8 weights"""
    return site.is_const(1) and takes(site, packed)


def takes_wide_fpu(site: Site) -> bool:
    """one group, at most 4092 output channels and 252 taps of more than one pixel, and a requantization that is proved
    for int16 weights"""
    return is_held(site) and takes_wide(site)


def takes_packed_fpu(site: Site) -> bool:
    """one group, at most 4092 output channels and 252 taps of more than one pixel, and a requantization that is proved
    for packed int8 weights"""
    return is_held(site) and takes_packed(site)


def takes_rolled(site: Site) -> bool:
    """one group, at most 4092 output channels and 16 to 252 taps of more than one pixel, and a requantization that is
    proved for packed int8 weights"""
    return is_held(site) and site.x(1).elements // site.x(1).shape[0] >= _ROLLED_TAPS and takes_packed(site)


def is_held(site: Site) -> bool:
    """Whether FPU registers pay: there are further pixels, and the taps of a pair are not too many."""
    return site.x(1).elements // site.x(1).shape[0] <= _HELD_TAPS and site.y().elements > site.y().shape[3]


def _kernel(name: str, fit: Fit, takes: Condition, fpu: bool = False, rolled: bool = False) -> Kernel:
    def work(site: Site, p: ConvParams) -> Plan:
        return plan(site, p, fit, fpu=fpu, rolled=rolled)

    return Kernel(
        name,
        lambda site, p: call(work(site, p)),
        isa=frozenset({"dsp", "fpu"} if fpu else {"dsp"}),
        when=(is_s8, takes),
        scratch=lambda site, p: work(site, p).scratch_bytes,
        specialize=lambda site, p: special(work(site, p), name),
        cost=lambda site, p: cost(work(site, p)),
        slow_flash=rolled,
    )


KERNELS = (
    _kernel("tc_conv2d_s8_w16_asm", wide, takes_wide),
    _kernel("tc_conv2d_s8_asm", packed, takes_packed),
)
# The same with the first taps of a pixel pair in FPU registers.
FPU_KERNELS = (
    _kernel("tc_conv2d_s8_w16_fpu_asm", wide, takes_wide_fpu, fpu=True),
    _kernel("tc_conv2d_s8_fpu_asm", packed, takes_packed_fpu, fpu=True),
)
ROLLED_KERNELS = (_kernel("tc_conv2d_s8_rolled_asm", packed, takes_rolled, rolled=True),)
