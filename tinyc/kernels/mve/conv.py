# SPDX-License-Identifier: Apache-2.0
"""conv2d and fully_connected with Helium (MVE): 16 products to an instruction, a function in assembly for each layer.

Kernel rows of 16 bytes and more are read where they lie; short ones are gathered first (columns.py). At the left
and right border a piece of the row is copied, with the padding filled in (form/row_walk.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tinyc.base.dataclass import dataclass
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
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, Window, row_geometry, widths
from tinyc.kernels.form.function import MVE, LayerFunction, apart, described_twin
from tinyc.kernels.form.row_walk import POINT, RowPiece, RowWalk, row_pieces, walk
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.mve.columns import Columns, columns_function, columns_twin
from tinyc.kernels.mve.dot import LANES, Dot
from tinyc.kernels.mve.finish import PROVED, LaneFinish, lanes
from tinyc.kernels.mve.pixels import PARAMETERS, alone_function, can_read, pixels_function
from tinyc.kernels.stream import matrix_of
from tinyc.kernels.tile.shape import tile_text
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
    """How a layer is made: one call per output row, each of `pixels` pixels.

    columns: windows are gathered; None: they are read where they lie. together: output rows whose windows are gathered
    before their pixels are made, by one call for the whole image; 1: each row has its call.
    """

    dot: Dot
    columns: Columns | None
    walk: RowWalk
    pixels: int
    rows: Rows
    finish: LaneFinish
    matrix: Matrix
    together: int = 1

    @property
    def is_direct(self) -> bool:
        """Whether all pixels are read where they lie."""
        return self.columns is None and self.walk.is_direct

    @property
    def columns_bytes(self) -> int:
        """Scratch for gathered windows; the largest block comes behind."""
        most = self.together * self.pixels if self.together > 1 else _most_pixels(self.walk)
        return self.columns.buffer_bytes(most) if self.columns else 0

    @property
    def scratch_bytes(self) -> int:
        return self.columns_bytes + self.walk.block_bytes


def _most_pixels(along: RowWalk) -> int:
    return max(piece.pixels for piece in along.pieces)


@dataclass(frozen=True, slots=True)
class Together:
    """So many rows of `pixels` at a time, of an image with this geometry."""

    rows: int
    pixels: int
    geometry: Rows


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
    return min(plans, key=lambda one: _whole(*one).cycles + one[1].code_bytes, default=None)


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
        *(None, RowWalk(pieces, window.kernel.h, step, window.pad.left * in_c), pixels, rows, finish, matrix),
    )
    columns = Columns(window.kernel.h, run, step)
    pairs = all(piece.pixels > 1 for piece in pieces)
    direct = window.kernel.h == 1 or (not work.dot.alone and can_read(work.dot) and pairs)
    gathered = replace(work.dot, k_h=1, row_taps=columns.slot, pixel_bytes=columns.slot, aligned=True)
    for paired in {work.dot.alone, work.dot.alone or out_c % (2 * LANES) == 0}:
        if direct:
            yield replace(work, dot=replace(work.dot, paired=paired))
        if window.kernel.h > 1:
            one = replace(work, dot=replace(gathered, paired=paired), columns=columns)
            yield one
            if pixels % 2 and 1 < pixels <= _NARROW and not by_rows:
                yield from (replace(one, together=count) for count in _TOGETHER if count <= rows.out_h)


def _geometry(site: Site, p: ConvParams, by_rows: bool) -> tuple[Window, int, int, Rows]:
    """(window, input columns, output columns, rows) of the calls."""
    if site.has_window:
        window = Window.of(p.attrs, *p.w.shape[1:3])
        rows = row_geometry(site, window, p.x_zero)
        geometry = walk(window, *widths(site), rows, by_rows)
        # One column taken as one row has its dilation along the row, which no function here knows.
        return geometry if geometry[0].dilation.w == 1 else (window, *widths(site), rows)
    batch = site.y().elements // p.w.shape[0]
    return POINT, batch, batch, Rows(1, 1, 1, 1, 0, 1, site.x(0).size_bytes, site.y().size_bytes, None)


def _written(work: MvePlan) -> Written:
    """The functions of the layer: windows, blocks, sums, and the row function that calls them."""
    together = Together(work.together, work.pixels, replace(work.rows, pad=None)) if work.together > 1 else None
    return writing(_text, work.dot, work.columns, work.walk, together)


def _text(dot: Dot, columns: Columns | None, along: RowWalk, together: Together | None) -> Written:
    pieces = along.pieces
    sums, count = (alone_function if dot.alone else pixels_function)("@_pixels", dot)
    pixels_twin = "tc_mve_pixels(&layer, stream, x, y, n, first);"
    portable = [described_twin("@_pixels", PARAMETERS, "tc_mve_dot_t", dot.fields, pixels_twin)]
    fast = [sums]
    pixel_counts = [together.rows * together.pixels] if together else [piece.pixels for piece in pieces]
    work = sum((count.of(pixels) for pixels in pixel_counts), _CALL * Work(1, 1) * len(pieces))
    rows = together.rows if together else 1
    work += _KERNEL_ROW * Work(1, 1) * along.k_h * rows
    if columns:
        text, once, each = columns_function("@_columns", columns)
        fast.append(text)
        portable.append(columns_twin("@_columns", columns))
        work += rows * sum((piece.pixels * each + once for piece in pieces), Work())  # one more at most
    for block in along.blocks:
        fast.append(block.function.text)
        portable.append(block.twin)
        work += rows * block.work
    if together and columns:
        body = _together_function(dot, columns, along, together)
    else:
        body = _row_function(dot, columns, along)
    contract = _contract(dot, columns, along.k_h)
    inputs = "taps in vectors" if dot.held else "windows gathered in scratch" if columns else "taps from the rows"
    tile = tile_text(1 if dot.alone else 2, dot.group, inputs, "int8 weights, 16 taps of each channel")
    return Written(LayerFunction(contract, apart(fast), apart(portable), body, MVE, tile=tile), work)


def _contract(dot: Dot, columns: Columns | None, k_h: int) -> str:
    taps = columns.run if columns else dot.row_taps
    rows = f"{k_h} row pointer{'s' if k_h > 1 else ''}{', at words' if dot.aligned and not columns else ''}"
    return f"""/* {k_h} x {taps} taps -> {dot.out_c} channels: pixels of a row.
 * x: {rows}. y: [pixels][{dot.out_c}]. stream: tc_mve.h.
 */"""


def _row_function(dot: Dot, columns: Columns | None, along: RowWalk) -> str:
    """The function that a step calls."""
    if columns is None and along.is_direct:
        return """static inline void @(const int32_t *stream, const int8_t *const *x, int8_t *y, int32_t n)
{
    @_pixels(stream, x, y, n, 0);
}"""
    skip = f" + {columns.buffer_bytes(_most_pixels(along))}" if columns else ""
    lines = [f"    const int8_t *rows[{along.k_h}];"] if along.block_bytes else []
    lines += ["    const int8_t *const windows = (const int8_t *)scratch;"] if columns else []

    def make(piece: RowPiece, source: str, first: int) -> list[str]:
        y = piece.place("y", dot.out_c)
        if columns is None:
            return [f"@_pixels(stream, {source}, {y}, {piece.pixels}, {first});"]
        gathered = f"@_columns({source}, {first}, {piece.pixels}, (int8_t *)scratch);"
        return [gathered, f"@_pixels(stream, &windows, {y}, {piece.pixels}, 0);"]

    lines += ["", *(f"    {line}" for line in along.statements(f"(int8_t *)scratch{skip}", make))]
    body = "\n".join(lines)
    return f"""static void @(const int32_t *stream, const int8_t *const *x, int8_t *y, void *scratch)
{{
{body}
}}"""


def _together_function(dot: Dot, columns: Columns, along: RowWalk, together: Together) -> str:
    """The function that a step calls: the whole image, several rows of windows before their pixels."""
    rows = together.geometry
    size = columns.buffer_bytes(together.rows * together.pixels)

    def make(piece: RowPiece, source: str, first: int) -> list[str]:
        return [f"@_columns({source}, {first}, {piece.pixels}, {piece.place('to', columns.slot)});"]

    lines = along.statements(f"(int8_t *)scratch + {size}", make)
    inner = "\n".join(f"            {line}" for line in lines)
    pointers = f"            const int8_t *rows[{rows.k_h}];\n" if along.block_bytes else ""
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
    stem = f"{family}_k{work.walk.k_h}x{taps}_o{work.dot.out_c}"
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
    if work.rows.in_h == work.rows.out_h == work.walk.k_h == 1 and work.is_direct:
        n, again = work.pixels, 0 if work.dot.has_single else work.pixels % 2  # once more, beside an odd last one
        flow = Rows(n, n, 1 + again, 1, again, 1, work.walk.pixel_bytes, work.dot.out_c, None, 2, work.dot.held)
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
