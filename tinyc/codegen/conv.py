"""conv2d on Cortex-M with DSP: a function in assembly for each layer, weights in the order of use.

Two families, equal but for the weights: `tc_conv2d_s8_w16_asm` widens them to int16 (fewer instructions, twice
the flash), `tc_conv2d_s8_asm` keeps them int8, two channels over each other.

A row of output pixels is made in pieces: pixels whose windows lie inside the image read it directly; those at
the left and right border read a block, a copy of their columns with the padding filled in.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from tinyc.codegen.block import Block, block_function, block_twin
from tinyc.codegen.finish import Finish
from tinyc.codegen.pixels import PARAMETERS, Count, Layer, Run, pixels_function
from tinyc.codegen.stream import Fit, Matrix, packed, stream, twin_text, wide
from tinyc.kernels import Call, Const, Cost, In, Kernel, Out, Rows, Scratch, Special
from tinyc.ops.base import Site
from tinyc.ops.windows import ConvParams, Window, conv_params, is_s8, row_bytes, row_geometry

_OFFSET_LIMIT = 4096  # of a store's immediate, for the second pixel of a pair
_TAP_LIMIT = 2**15  # bytes from a window's first tap to its last, and taps of all
_WHOLE_ROW_BYTES = 512  # a row that is copied whole is not longer
_CALL_COST = 40  # instructions of one more piece


@dataclass(frozen=True, slots=True)
class Piece:
    """Pixels [start, stop) of a row. block: they read a copy of their columns; None: the image."""

    start: int
    stop: int
    block: Block | None


@dataclass(frozen=True)
class Plan:
    """How a conv2d is made by its function: `rows` calls, each of `pixels` pixels in `pieces`.

    pad_bytes: the left padding, as bytes of a row.
    """

    layer: Layer
    pieces: tuple[Piece, ...]
    pixels: int
    pad_bytes: int
    rows: Rows
    finish: Finish
    matrix: Matrix

    @property
    def block_bytes(self) -> int:
        """Scratch for the largest block."""
        sizes = [self.layer.k_h * piece.block.row_bytes for piece in self.pieces if piece.block]
        return max(sizes, default=0)

    @property
    def scratch_bytes(self) -> int:
        """First the buffer of the taps if it is not on the stack, then the block."""
        return self.block_bytes + (self.layer.buffer_bytes if self.layer.in_scratch else 0)


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
    layer = Layer(
        k_h=k_h,
        runs=_runs(window, in_c),
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
    cheaper = copied[0] // 2 <= copied[1] // 2 + _CALL_COST * (len(pieces) - 1)
    return (whole,) if short and cheaper else pieces


def specialize(site: Site, p: ConvParams, fit: Fit) -> Special:
    """The functions of the layer: pixels, blocks, and the row function that calls them."""
    return _special(plan(site, p, fit), fit)


def _special(work: Plan, fit: Fit) -> Special:
    text, _, _ = _text("@", work)
    kind = "w16_" if fit is wide else ""
    k_w = len(work.layer.runs) if len(work.layer.runs) > 1 else 0
    shape = f"k{work.layer.k_h}x{work.layer.row_taps}" + (f"d{k_w}" if k_w else "")
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = f"tc_conv2d_s8_{kind}asm_{shape}_o{work.layer.out_c}_{digest}"
    return Special(name, text.replace("@", name), ("tc_stream.h",))


def _text(name: str, work: Plan) -> tuple[str, Count, int]:
    """(C text, count of the pixels function, instructions of the copies of a row)."""
    layer, finish = work.layer, work.finish
    pixels, count = pixels_function(f"{name}_pixels", layer)
    fast, portable, copies = [pixels], [], 0
    portable.append(twin_text(name, finish, layer.slots, layer.out_c, layer.pixel_bytes, layer.tap_place))
    portable.append(_pixels_twin(name, layer))
    for piece in work.pieces:
        if piece.block:
            text, executed = block_function(f"{name}_block_{piece.start}", piece.block)
            fast.append(text)
            portable.append(block_twin(f"{name}_block_{piece.start}", piece.block))
            copies += executed
    parts = [_contract(work), "#if TC_DSP_ASM\n", "\n".join(fast), "#else\n", "\n".join(portable), "#endif\n"]
    return "\n".join([*parts, _row_function(name, work)]), count, copies


def _contract(work: Plan) -> str:
    layer = work.layer
    weights = "int8 weights, two channels over each other" if layer.way.packed else "int16 weights"
    what = "pixels of a row" if len(work.pieces) == 1 and not work.pieces[0].block else "a row"
    return f"""/* conv2d, {layer.k_h} x {layer.row_taps} taps -> {layer.out_c} channels, {weights}: {what}.
 * x: {layer.k_h} row pointer{"s" if layer.k_h > 1 else ""}. y: [pixels][{layer.out_c}]. stream: tc_stream.h.
 */"""


def _pixels_twin(name: str, layer: Layer) -> str:
    parameters = ", ".join((*PARAMETERS, "int32_t *buffer") if layer.in_scratch else PARAMETERS)
    unused = "    (void)buffer;\n" if layer.in_scratch else ""
    return f"""static void {name}_pixels({parameters})
{{
{unused}    tc_stream_pixels(&{name}_layer, stream, x, first, n, y);
}}
"""


def _row_function(name: str, work: Plan) -> str:
    """The function that a step calls."""
    layer = work.layer
    scratch = ", void *scratch" if work.scratch_bytes else ""
    buffer = ", (int32_t *)scratch" if layer.in_scratch else ""
    skip = f" + {layer.buffer_bytes}" if layer.in_scratch else ""
    if len(work.pieces) == 1 and work.pieces[0].block is None:
        return f"""static inline void {name}(const int32_t *stream, const int8_t *const *x, int8_t *y, int32_t n{scratch})
{{
    {name}_pixels(stream, x, y, n, 0{buffer});
}}"""
    lines = []
    for piece in work.pieces:
        at = f"y + {piece.start * layer.out_c}" if piece.start else "y"
        count = piece.stop - piece.start
        if piece.block:
            lines.append(f"    {name}_block_{piece.start}(x, rows, (int8_t *)scratch{skip});")
            lines.append(f"    {name}_pixels(stream, rows, {at}, {count}, 0{buffer});")
        else:
            first = piece.start * layer.pixel_bytes - work.pad_bytes
            lines.append(f"    {name}_pixels(stream, x, {at}, {count}, {first}{buffer});")
    body = "\n".join(lines)
    return f"""static void {name}(const int32_t *stream, const int8_t *const *x, int8_t *y{scratch})
{{
    const int8_t *rows[{layer.k_h}];

{body}
}}"""


def lower(site: Site, p: ConvParams, fit: Fit) -> Call:
    """A row call with the stream."""
    work = plan(site, p, fit)
    layout = f"stream of tc_stream.h, {work.layer.steps} steps"
    words = Const(stream(work.matrix, work.finish, work.layer.slots), layout, "stream")
    args = (words, In(0), Out())
    if len(work.pieces) == 1 and work.pieces[0].block is None:
        args = (*args, work.pixels)
    return Call((*args, Scratch()) if work.scratch_bytes else args, None, work.rows)


def cost(site: Site, p: ConvParams, fit: Fit) -> Cost:
    """Exact but for the few instructions of the row loop around the calls."""
    work = plan(site, p, fit)
    text, count, copies = _text("@", work)
    pieces = sum(count.of(piece.stop - piece.start) for piece in work.pieces)
    per_row = pieces + copies + 15 * len(work.pieces) + 10 * work.layer.k_h
    flash = 4 * (work.layer.group_words * work.layer.groups + text.count("\\n"))
    return Cost(work.rows.out_h * per_row, flash, work.scratch_bytes)


def _takes(site: Site, fit: Fit) -> bool:
    a = site.attrs
    out_c, k_h, k_w, in_c = site.x(1).shape
    window = Window.of(a, k_h, k_w)
    if a.groups != 1 or out_c + 4 > _OFFSET_LIMIT or k_h > 255:
        return False
    if window.span.w * in_c >= _TAP_LIMIT or k_h * k_w * in_c >= _TAP_LIMIT:
        return False
    return fit(_matrix(conv_params(site, 0))) is not None


def takes_wide(site: Site) -> bool:
    """one group, at most 4092 output channels, and a requantization that is proved for int16 weights"""
    return site.is_const(1) and _takes(site, wide)


def takes_packed(site: Site) -> bool:
    """one group, at most 4092 output channels, and a requantization that is proved for packed int8 weights"""
    return site.is_const(1) and _takes(site, packed)


_ISA = frozenset({"dsp"})

KERNELS = tuple(
    Kernel(
        name,
        lambda site, p, fit=fit: lower(site, p, fit),
        isa=_ISA,
        when=(is_s8, takes),
        scratch=lambda site, p, fit=fit: plan(site, p, fit).scratch_bytes,
        specialize=lambda site, p, fit=fit: specialize(site, p, fit),
        cost=lambda site, p, fit=fit: cost(site, p, fit),
    )
    for name, fit, takes in (
        ("tc_conv2d_s8_w16_asm", wide, takes_wide),
        ("tc_conv2d_s8_asm", packed, takes_packed),
    )
)
