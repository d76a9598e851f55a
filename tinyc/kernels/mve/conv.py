# SPDX-License-Identifier: Apache-2.0
"""conv2d and fully_connected with Helium (MVE): 16 products to an instruction, a function in assembly for each layer.

Kernel rows of 16 bytes and more are read where they lie; short ones are gathered first (columns.py). At the left
and right border a piece of the row is copied, with the padding filled in (block.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from tinyc.kernel.kernel import (
    Arg,
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Once,
    Out,
    RowForm,
    Rows,
    Scratch,
    SpecializedKernel,
    planned,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8
from tinyc.kernels.block import RowBlock, block_function, block_twin
from tinyc.kernels.form.function import MVE, LayerFunction, apart, twin
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.mve.columns import Columns, columns_function, columns_twin
from tinyc.kernels.mve.dot import LANES, Dot
from tinyc.kernels.mve.finish import PROVED, LaneFinish, lanes
from tinyc.kernels.mve.pixels import PARAMETERS, alone_function, can_read, pixels_function
from tinyc.kernels.stream import matrix_of
from tinyc.kernels.weighted.conv import POINT, row_pieces, walk
from tinyc.kernels.weighted.layer import RowPiece
from tinyc.machine.thumb import Work

CONV = "tc_conv2d_s8_mve"
FULLY_CONNECTED = "tc_fully_connected_s8_mve"

_CHANNEL_LIMIT = 4088
_TAP_LIMIT = 2**15  # bytes of a window's row, and taps of all
_ROW_LIMIT = 32  # kernel rows
_CALL = 16  # instructions around a call
_KERNEL_ROW = 10  # instructions that find one input row
_NARROW = 15  # pixels of a row, of which several are made together
_TOGETHER = (2, 4)  # rows: pixels come in twos
_MVE = frozenset({"mve"})


@dataclass(frozen=True)
class MvePlan:
    """How a layer is made: one call per output row, each of `pixels` pixels in `pieces`.

    columns: windows are gathered; None: they are read where they lie. pixel_bytes: from window to window in the image.
    pad_bytes: the left padding, as bytes of a row. together: output rows whose windows are gathered before their
    pixels are made, by one call for the whole image; 1: each row has its call.
    """

    dot: Dot
    columns: Columns | None
    k_h: int
    pieces: tuple[RowPiece, ...]
    pixels: int
    pixel_bytes: int
    pad_bytes: int
    rows: Rows
    finish: LaneFinish
    matrix: Matrix
    together: int = 1

    @property
    def blocks(self) -> tuple[tuple[int, RowBlock], ...]:
        """First pixel and block of the pieces that are copied."""
        return tuple((piece.start, piece.block) for piece in self.pieces if piece.block)

    @property
    def is_direct(self) -> bool:
        """Whether all pixels are read where they lie."""
        return self.columns is None and not self.blocks

    @property
    def columns_bytes(self) -> int:
        """Scratch for gathered windows; the largest block comes behind."""
        most = self.together * self.pixels if self.together > 1 else _most_pixels(self.pieces)
        return self.columns.buffer_bytes(most) if self.columns else 0

    @property
    def scratch_bytes(self) -> int:
        block = max((self.k_h * block.row_bytes for _, block in self.blocks), default=0)
        return self.columns_bytes + block


def _most_pixels(pieces: tuple[RowPiece, ...]) -> int:
    return max(piece.stop - piece.start for piece in pieces)


@dataclass(frozen=True, slots=True)
class Together:
    """So many rows of `pixels` at a time, of an image with this geometry."""

    rows: int
    pixels: int
    geometry: Rows


@dataclass(frozen=True, slots=True)
class Cuts:
    """How an output row is cut in pieces: what of a Plan their functions depend on."""

    pieces: tuple[RowPiece, ...]
    pixel_bytes: int
    pad_bytes: int
    k_h: int

    @property
    def has_blocks(self) -> bool:
        return any(piece.block for piece in self.pieces)

    def source(self, piece: RowPiece) -> tuple[str, int]:
        """The rows that a piece is read from, and the byte at which its first window begins."""
        return ("rows", 0) if piece.block else ("x", piece.start * self.pixel_bytes - self.pad_bytes)


@dataclass(frozen=True, slots=True)
class Written:
    """The function of a layer, and what a call executes."""

    function: LayerFunction
    work: Work

    @property
    def code_bytes(self) -> int:
        return 4 * self.function.text.count("\\n")


def plan(site: Site, p: ConvParams, by_rows: bool = False) -> tuple[MvePlan, Written] | None:
    """The function that runs the layer in the least time, with by_rows one output row per call; None where no
    requantization is proved."""
    plans = [(one, _written(one)) for one in _plans(site, p, by_rows)]
    return min(plans, key=lambda one: _whole(*one).time(site.core) // 2 + one[1].code_bytes, default=None)


def _whole(work: MvePlan, written: Written) -> Work:
    """What the whole image executes; the last rows may be fewer."""
    all_calls = work.rows.out_h * written.work
    return Work(all_calls.instructions // work.together, all_calls.cycles // work.together)


def _plans(site: Site, p: ConvParams, by_rows: bool) -> Iterator[MvePlan]:
    """Read where they lie or gathered; channels in eights or in fours."""
    matrix = matrix_of(p)
    finish = matrix.once(lanes)
    if finish is None:
        return
    out_c, in_c = p.w.shape[0], p.w.shape[-1]
    window, in_w, pixels, rows = _geometry(site, p, by_rows)
    pieces = row_pieces(window, in_w, in_c, pixels, p.x_zero, site.core)
    run, step = window.kernel.w * in_c, window.stride.w * in_c
    work = MvePlan(
        Dot(window.kernel.h, run, step, out_c, in_c % 4 == 0, pixels == 1, pixels == 1, finish.requant),
        *(None, window.kernel.h, pieces, pixels, step, window.pad.left * in_c, rows, finish, matrix),
    )
    columns = Columns(window.kernel.h, run, step)
    pairs = all(piece.stop - piece.start > 1 for piece in pieces)
    direct = work.k_h == 1 or (not work.dot.alone and can_read(work.dot) and pairs)
    gathered = replace(work.dot, k_h=1, row_taps=columns.slot, pixel_bytes=columns.slot, aligned=True)
    for paired in {work.dot.alone, work.dot.alone or out_c % (2 * LANES) == 0}:
        if direct:
            yield replace(work, dot=replace(work.dot, paired=paired))
        if work.k_h > 1:
            one = replace(work, dot=replace(gathered, paired=paired), columns=columns)
            yield one
            if pixels % 2 and 1 < pixels <= _NARROW and not by_rows:
                yield from (replace(one, together=count) for count in _TOGETHER if count <= rows.out_h)


def _geometry(site: Site, p: ConvParams, by_rows: bool) -> tuple[Window, int, int, Rows]:
    """(window, input columns, output columns, rows) of the calls."""
    if site.has_window:
        window = Window.of(p.attrs, *p.w.shape[1:3])
        geometry = walk(window, site, p.x_zero, by_rows)
        # One column taken as one row has its dilation along the row, which no function here knows.
        return geometry if geometry[0].dilation.w == 1 else walk(window, site, p.x_zero, by_rows=True)
    batch = site.y().elements // p.w.shape[0]
    return POINT, batch, batch, Rows(1, 1, 1, 1, 0, 1, site.x(0).size_bytes, site.y().size_bytes, None)


def _written(work: MvePlan) -> Written:
    """The functions of the layer: windows, blocks, sums, and the row function that calls them."""
    together = Together(work.together, work.pixels, replace(work.rows, pad=None)) if work.together > 1 else None
    return _text(work.dot, work.columns, Cuts(work.pieces, work.pixel_bytes, work.pad_bytes, work.k_h), together)


@lru_cache(maxsize=512)
def _text(dot: Dot, columns: Columns | None, cuts: Cuts, together: Together | None) -> Written:
    pieces = cuts.pieces
    sums, count = (alone_function if dot.alone else pixels_function)("@_pixels", dot)
    fast, portable = (
        [sums],
        [dot.twin("@"), twin("@_pixels", PARAMETERS, "tc_mve_pixels(&@_dot, stream, x, y, n, first);")],
    )
    made = [together.rows * together.pixels] if together else [piece.stop - piece.start for piece in pieces]
    work = sum((count.of(pixels) for pixels in made), _CALL * Work(1, 1) * len(pieces))
    rows = together.rows if together else 1
    work += _KERNEL_ROW * Work(1, 1) * cuts.k_h * rows
    if columns:
        text, once, each = columns_function("@_columns", columns)
        fast.append(text)
        portable.append(columns_twin("@_columns", columns))
        work += rows * sum(((piece.stop - piece.start) * each + once for piece in pieces), Work())  # one more at most
    for piece in pieces:
        if piece.block:
            text, copied = block_function(f"@_block_{piece.start}", piece.block)
            fast.append(text)
            portable.append(block_twin(f"@_block_{piece.start}", piece.block))
            work += rows * copied
    if together and columns:
        body = _together_function(dot, columns, cuts, together)
    else:
        body = _row_function(dot, columns, cuts)
    contract = _contract(dot, columns, cuts.k_h)
    return Written(LayerFunction(contract, apart(fast), apart(portable), body, MVE), work)


def _contract(dot: Dot, columns: Columns | None, k_h: int) -> str:
    taps = columns.run if columns else dot.row_taps
    rows = f"{k_h} row pointer{'s' if k_h > 1 else ''}{', at words' if dot.aligned and not columns else ''}"
    return f"""/* {k_h} x {taps} taps -> {dot.out_c} channels: pixels of a row.
 * x: {rows}. y: [pixels][{dot.out_c}]. stream: tc_mve.h.
 */"""


def _row_function(dot: Dot, columns: Columns | None, cuts: Cuts) -> str:
    """The function that a step calls."""
    if columns is None and not cuts.has_blocks:
        return """static inline void @(const int32_t *stream, const int8_t *const *x, int8_t *y, int32_t n)
{
    @_pixels(stream, x, y, n, 0);
}"""
    skip = f" + {columns.buffer_bytes(_most_pixels(cuts.pieces))}" if columns else ""
    lines = [f"    const int8_t *rows[{cuts.k_h}];"] if cuts.has_blocks else []
    lines += ["    const int8_t *const windows = (const int8_t *)scratch;"] if columns else []
    lines.append("")
    for piece in cuts.pieces:
        source, first = cuts.source(piece)
        count = piece.stop - piece.start
        at = f"y + {piece.start * dot.out_c}" if piece.start else "y"
        if piece.block:
            lines.append(f"    @_block_{piece.start}(x, rows, (int8_t *)scratch{skip});")
        if columns:
            lines.append(f"    @_columns({source}, {first}, {count}, (int8_t *)scratch);")
            source, first = "&windows", 0
        lines.append(f"    @_pixels(stream, {source}, {at}, {count}, {first});")
    body = "\n".join(lines)
    return f"""static void @(const int32_t *stream, const int8_t *const *x, int8_t *y, void *scratch)
{{
{body}
}}"""


def _together_function(dot: Dot, columns: Columns, cuts: Cuts, together: Together) -> str:
    """The function that a step calls: the whole image, several rows of windows before their pixels."""
    rows = together.geometry
    size = columns.buffer_bytes(together.rows * together.pixels)
    lines = []
    for piece in cuts.pieces:
        source, first = cuts.source(piece)
        if piece.block:
            lines.append(f"@_block_{piece.start}(x, rows, (int8_t *)scratch + {size});")
        to = f"to + {piece.start * columns.slot}" if piece.start else "to"
        lines.append(f"@_columns({source}, {first}, {piece.stop - piece.start}, {to});")
    inner = "\n".join(f"            {line}" for line in lines)
    pointers = f"            const int8_t *rows[{rows.k_h}];\n" if cuts.has_blocks else ""
    step = f"{rows.stride} * r - {rows.pad_top}, {rows.dilation}, {rows.k_h}, {rows.in_h}, {rows.in_row_bytes}"
    return f"""static void @(const int32_t *stream, const int8_t *image, int8_t *y, const int8_t *pad, void *scratch)
{{
    const int8_t *const windows = (const int8_t *)scratch;
    int32_t r = 0;

    while (r < {rows.out_h}) {{
        const int32_t end = tc_mve_least(r + {together.rows}, {rows.out_h});
        const int32_t n = (end - r) * {together.pixels};
        int8_t *to = (int8_t *)scratch;
        for (; r < end; r++) {{
            const int8_t *x[{rows.k_h}];
{pointers}            tc_rows(x, image, {step}, pad);
{inner}
            to += {together.pixels * columns.slot};
        }}
        @_pixels(stream, &windows, y, n, 0);
        y += n * {dot.out_c};
    }}
}}"""


# ---- the kernel ----


def special(work: MvePlan, written: Written, family: str) -> SpecializedKernel:
    """The functions of the layer."""
    taps = work.columns.run if work.columns else work.dot.row_taps
    stem = f"{family}_k{work.k_h}x{taps}_o{work.dot.out_c}"
    return written.function.named(stem, "tc_mve.h", "tc_stream.h", "tc_rows.h")


def call(work: MvePlan, p: ConvParams) -> Call:
    """A row call with the stream, or with all pixels in one row."""
    words = Const(work.dot.stream(work.matrix, work.finish), "stream of tc_mve.h", "stream")
    args: tuple[Arg, ...] = (words, In(0), Out())
    if work.together > 1:
        row = np.full(work.rows.in_row_bytes, p.x_zero, np.int8)
        pad = Const(row, "[in_w][in_c] of x_zero", "pad")
        return Call((*args, pad, Scratch()), flow=replace(work.rows, pad=None, out_rows=work.together))
    args = (*args, work.pixels) if work.is_direct else (*args, Scratch())
    flow = None
    if work.rows.in_h == work.rows.out_h == work.k_h == 1 and work.is_direct:
        n, again = work.pixels, 0 if work.dot.has_single else work.pixels % 2  # once more, beside an odd last one
        flow = Rows(n, n, 1 + again, 1, again, 1, work.pixel_bytes, work.dot.out_c, None, 2, work.dot.held)
    return Call(args, None, work.rows, flow)


def cost(work: MvePlan, written: Written) -> Cost:
    """Exact but for the loop over rows; cycles are an upper bound for a Cortex-M55."""
    total = _whole(work, written)
    flash = work.dot.group_bytes * work.dot.groups + written.code_bytes
    return Cost(total.instructions, flash, work.scratch_bytes, total.cycles)


def row_forms(site: Site, p: ConvParams, family: str) -> tuple[RowForm, ...]:
    """One output row per call."""
    planned_rows = plan(site, p, by_rows=True)
    if planned_rows is None:
        return ()
    work, written = planned_rows
    return (
        RowForm(
            call=replace(call(work, p), flow=None),
            scratch_bytes=work.scratch_bytes,
            cost=cost(work, written),
            special=Once(lambda: special(work, written, family)),
        ),
    )


def takes(site: Site) -> bool:
    """constant weights, one group, no dilation along rows, at most 4088 output channels and 32 kernel rows"""
    if not site.is_const(1) or int(getattr(site.attrs, "groups", 1)) != 1:
        return False
    shape = site.x(1).shape
    if site.has_window:
        _, k_h, k_w, in_c = shape
        dilated = site.attrs.dilation.w != 1 and k_w > 1
        if dilated or k_h > _ROW_LIMIT or k_w * in_c >= _TAP_LIMIT:
            return False
    taps = site.x(1).elements // shape[0]
    return shape[0] <= _CHANNEL_LIMIT and taps < _TAP_LIMIT


def _kernel(name: str) -> Kernel:
    plain = Kernel(
        name,
        planned(
            plan,
            PROVED,
            call=lambda planned_layer, site, p: call(planned_layer[0], p),
            cost=lambda planned_layer, site, p: cost(*planned_layer),
            special=lambda planned_layer, site, p: special(*planned_layer, name),
        ),
        isa=_MVE,
        when=(is_s8, takes),
        asks=PROVED,
        written=True,
    )
    return plain.with_row_forms(partial(row_forms, family=name))


CONV_KERNELS = (_kernel(CONV),)
FULLY_CONNECTED_KERNELS = (_kernel(FULLY_CONNECTED),)
