# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d with Helium (MVE), one output per input channel: which functions a layer gets, constants, cost.

`planes.py` writes the functions. Three ways to go through an image:

* by rows: lines are rows; output rows follow the input rows that they need;
* by columns, for tall images: lines are columns. Those of the next columns are interleaved before outputs are
  written, so that the output may take the input's place;
* a single column: lines are every fourth value, a gather is 16 values in a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Once,
    Out,
    RowForm,
    Scratch,
    SpecializedKernel,
    WrittenCode,
    planned,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, Window, row_geometry
from tinyc.kernels.form.plan import LayerPlan
from tinyc.kernels.mve.dot import LANES, STEP
from tinyc.kernels.mve.finish import PROVED, LaneFinish, LaneRequantization, lanes
from tinyc.kernels.mve.planes import HEADER, LEAD, LINES, Lines, PlaneTile
from tinyc.kernels.mve.walk import By, LineWalk, write
from tinyc.kernels.stream import as_words, depthwise_matrix_of

NAME = "tc_depthwise_conv2d_s8_mve"
_OFFSET_LIMIT = 1 << 16  # of outputs of a block
_GROUPS = 8  # of columns, whose calls are written one by one
_COLUMN_TAPS = 16
_MOST = 4096  # rows, columns and channels
_COLUMNS = frozenset({By.COLUMNS, By.COLUMN})
_BY_ROWS = frozenset({By.ROWS})


MveDepthwisePlan = LayerPlan[LineWalk, LaneFinish]


def plan(site: Site, p: ConvParams, ways: frozenset[By]) -> MveDepthwisePlan | None:
    """The walk of the least time; None where there is none or no requantization is proved."""
    matrix = depthwise_matrix_of(p)
    finish = matrix.once(lanes)
    if finish is None:
        return None
    walks = [walk for walk in _walks(site, p, finish.requant) if walk.by in ways]
    if not walks:
        return None
    best = min(walks, key=lambda walk: 2 * write(walk).work.cycles + write(walk).code_bytes)
    return MveDepthwisePlan(best, finish, matrix)


def _walks(site: Site, p: ConvParams, requant: LaneRequantization) -> Iterator[LineWalk]:
    upright = _upright(site, p)
    window = upright.window
    if upright.in_w == upright.out_w == upright.k_w == 1 and window.pad == (0, 0, 0, 0):
        walk = _column(upright.in_h, upright.out_h, upright.k_h, window.stride.h, upright.channels, requant)
        if walk:
            yield walk
    for by, shape in ((By.ROWS, upright), (By.COLUMNS, upright.turned())):
        walk = shape.walk(by, requant)
        if walk:
            yield walk


def _upright(site: Site, p: ConvParams) -> _Shape:
    """The layer, rows being lines."""
    k_h, k_w, channels = p.w.shape
    (_, in_h, in_w, _), (_, out_h, out_w, _) = site.x(0).shape, site.y().shape
    return _Shape(in_h, in_w, out_h, out_w, k_h, k_w, Window.of(p.attrs, k_h, k_w), channels, p.x_zero)


def _column(
    in_h: int, out_h: int, taps: int, stride: int, channels: int, requant: LaneRequantization
) -> LineWalk | None:
    """A single column: four windows to a gather, each a value further."""
    places = min(4, _COLUMN_TAPS + 1 - taps, out_h)
    places = {0: 0, 3: 2}.get(max(places, 0), places)
    if stride != 1 or places < 1 or (places < 4 and out_h > places) or 7 * channels >= _OFFSET_LIMIT:
        return None
    count, gathers = -(-in_h // LINES), -(-out_h // places)
    width = min(channels, STEP) if STEP % channels == 0 else STEP
    if width < STEP:
        return None
    right = max(gathers - 1 + LINES - count, 0)
    last = in_h - LINES * (count - 1)
    step, aligned = LINES * channels, channels % 4 == 0
    in_part = channels % STEP != 0
    lines = Lines(count, step, width, frozenset(), 0, right, 0, aligned, in_part, channels, last)
    tile = PlaneTile(1, places, gathers, 1, width, 0, 1, out_h, 0, channels, requant)
    return LineWalk(By.COLUMN, (lines,), (tile,), channels, channels, 1, 0, in_h, 0, 1)


@dataclass(frozen=True, slots=True)
class _Shape:
    """A layer's geometry; after `turned`, rows are columns. row_step, step: bytes from row to row, place to place."""

    in_h: int
    in_w: int
    out_h: int
    out_w: int
    k_h: int
    k_w: int
    window: Window
    channels: int
    x_zero: int
    is_turned: bool = False

    def turned(self) -> _Shape:
        w = self.window
        window = Window(w.kernel, type(w.stride)(w.stride.w, w.stride.h), w.pad, w.dilation)
        return replace(
            self,
            in_h=self.in_w,
            in_w=self.in_h,
            out_h=self.out_w,
            out_w=self.out_h,
            k_h=self.k_w,
            k_w=self.k_h,
            window=window,
            is_turned=True,
        )

    def walk(self, by: By, requant: LaneRequantization, most_lines: int = 2) -> LineWalk | None:
        """The walk that makes as many windows of a gather as fit, of at most so many lines; None where kernel or
        offsets are too large. By row, it is that of one call."""
        stride = self.window.stride
        lines = min(most_lines, 2 if stride.h + self.k_h <= LINES else 1)
        shift = (lines - 1) * stride.h + LINES * stride.w  # of the last window's weights
        places = 2 if stride.w + self.k_w <= LINES and shift <= LEAD else 1
        if max(self.k_h, self.k_w) > LINES:
            return None
        channels, turned = self.channels, self.is_turned
        pad = self.window.pad
        top, left = (pad.left, pad.top) if turned else (pad.top, pad.left)
        width = channels if STEP % channels == 0 and not turned else STEP
        out_line, out_place = (channels, self.out_h * channels) if turned else (self.out_w * channels, channels)
        in_line, in_place = (channels, self.in_h * channels) if turned else (self.in_w * channels, channels)
        gathers, advance = -(-self.out_w // places), places * stride.w
        right = max((gathers - 1) * advance + LINES - left - self.in_w, 0)
        tile = PlaneTile(
            *(lines, places, gathers, advance, width, stride.h, 4 * stride.w),
            *(self.out_w, out_line, out_place, requant),
            apart=by is By.ROW and lines > 1,
            fours=channels % LANES == 0,
        )
        tiles: tuple[PlaneTile, ...] = (tile,)
        if self.out_h < lines:
            tiles = (replace(tile, lines=self.out_h, apart=False),)
        elif self.out_h % lines and by is not By.ROW:
            tiles = (tile, replace(tile, lines=self.out_h % lines, last=True))
        lines = tiles[0].lines
        if max(one.furthest for one in tiles) >= _OFFSET_LIMIT:
            return None
        aligned = (in_place if width == STEP else in_line) % 4 == 0
        plain = Lines(
            *(self.in_w, in_place, width, frozenset(), left, right, self.x_zero, aligned),
            partial=width == STEP and channels % STEP != 0,
            lines_step=in_line if turned else 0,
        )
        if by is By.ROW:
            missing = frozenset(range((lines - 1) * stride.h + self.k_h, LINES))
            return LineWalk(by, (replace(plain, missing=missing),), tiles, channels, in_line, 0, 0, 0, 0, 1)
        groups = -(-self.out_h // lines)
        first = [group * lines * stride.h - top for group in range(groups)]
        kinds: tuple[Lines, ...] = (plain,)
        if turned:
            if groups > _GROUPS or stride != (1, 1) or (self.in_h, self.in_w) != (self.out_h, self.out_w):
                return None
            outside = (frozenset(k for k in range(LINES) if not 0 <= at + k < self.in_h) for at in first)
            kinds = tuple(replace(plain, missing=missing) for missing in outside)
        return LineWalk(by, kinds, tiles, channels, in_line, lines * stride.h, top, self.in_h, out_line * lines, groups)


def takes(site: Site) -> bool:
    """constant weights, one output per input channel, no dilation, at most 4096 rows, columns and channels"""
    if not site.is_const(1) or site.x(1).shape[2] != site.x(0).shape[3] or site.attrs.dilation != (1, 1):
        return False
    return max(site.x(0).shape) <= _MOST


def special(work: MveDepthwisePlan, site: Site, p: ConvParams) -> SpecializedKernel:
    """The functions of the layer."""
    written = write(work.layer)
    _, in_h, in_w, channels = site.x(0).shape
    image = f"{in_w}x{channels}" if work.layer.by is By.ROW else f"{in_h}x{in_w}x{channels}"
    stem = f"{NAME}_{work.layer.by.value}_k{p.w.shape[0]}x{p.w.shape[1]}_{image}"
    return written.function.named(stem, "tc_mve.h", "tc_rows.h")


def call(work: MveDepthwisePlan, site: Site, p: ConvParams) -> Call:
    """One call for the whole image."""
    words = Const(_stream(work, p), "stream of tc_mve.h", "stream")
    if work.layer.by is not By.ROWS:
        return Call((words, In(0), Out(), Scratch()))
    geometry = row_geometry(site, Window.of(p.attrs, *p.w.shape[:2]), p.x_zero)
    flow = replace(geometry, pad=None, out_rows=work.layer.tiles[0].lines)
    return Call((words, In(0), Out(), _pad(site, p), Scratch()), flow=flow)


def _pad(site: Site, p: ConvParams) -> Const:
    """A row outside the image."""
    row = np.full(site.x(0).shape[2] * site.x(0).shape[3], p.x_zero, np.int8)
    return Const(row, "[in_w][in_c] of x_zero", "pad")


def _stream(work: MveDepthwisePlan, p: ConvParams) -> npt.NDArray[np.int32]:
    """The words of the layer: offsets, then a record for each channel."""
    walk, tiles = work.layer, work.layer.tiles
    tile = tiles[0]
    gather = np.arange(4, dtype=np.int64) * 4 * tile.width - (tile.back or tile.gather_bytes)
    last = tiles[-1].offsets
    if tile.together > 1:  # of the constants of a turn, from those of its last channel
        last = np.arange(1 - tile.together, 1, dtype=np.int32) * np.int32(4 * tile.record_words)
    header = np.concatenate([gather.astype(np.int32), tile.offsets, last])
    assert header.nbytes == HEADER
    k_h, k_w, channels = p.w.shape
    taps = np.where(work.finish.live[:channels, None], work.matrix.taps[:channels], 0).reshape(channels, k_h, k_w)
    windows = np.zeros((channels, LINES, LINES), np.int8)  # [channel][place][line]
    if walk.by is By.COLUMN:
        windows.reshape(channels, -1)[:, :k_h] = taps[:, :, 0]
    elif walk.by is By.COLUMNS:
        windows[:, :k_h, :k_w] = taps
    else:
        windows[:, :k_w, :k_h] = taps.transpose(0, 2, 1)
    weights = np.zeros((channels, LEAD + STEP), np.int8)
    weights[:, LEAD:] = windows.reshape(channels, -1)
    constants = work.finish.constants(work.matrix.p.bias.astype(np.int64))[:, :channels].T
    constants[:, 0] >>= 1  # products are doubled
    words = as_words(constants)
    return np.concatenate([header, np.concatenate([weights.view(np.int32), words], axis=1).ravel()])


def cost(work: MveDepthwisePlan, site: Site, p: ConvParams) -> Cost:
    """Exact but for the loops around the functions; cycles are an upper bound for a Cortex-M55."""
    written = write(work.layer)
    flash = HEADER + 4 * work.layer.channels * work.layer.tiles[0].record_words + written.code_bytes
    return Cost(written.work.instructions, flash, work.layer.scratch_bytes, written.work.cycles)


# ---- row by row ----


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Two rows per call, and one."""
    matrix = depthwise_matrix_of(p)
    finish = matrix.once(lanes)
    if finish is None:
        return ()
    walks = [_upright(site, p).walk(By.ROW, finish.requant, lines) for lines in (2, 1)]
    distinct = {walk.tiles[0].lines: walk for walk in walks if walk}
    return tuple(_row_form(MveDepthwisePlan(walk, finish, matrix), site, p) for walk in distinct.values())


def _row_form(work: MveDepthwisePlan, site: Site, p: ConvParams) -> RowForm:
    written, walk = write(work.layer), work.layer
    rows = replace(row_geometry(site, Window.of(p.attrs, *p.w.shape[:2]), p.x_zero), out_rows=walk.tiles[0].lines)
    if rows.out_rows > 1:  # a first call that makes one row reads the one above the image for the other
        rows = replace(rows, pad=_pad(site, p))
    code = WrittenCode((NAME, walk), written.code_bytes)
    whole = rows.calls * written.work
    flash = HEADER + 4 * walk.channels * walk.tiles[0].record_words + code.size
    return RowForm(
        call=Call((Const(_stream(work, p), "stream of tc_mve.h", "stream"), In(0), Out(), Scratch()), rows=rows),
        scratch_bytes=walk.scratch_bytes,
        cost=Cost(whole.instructions, flash, walk.scratch_bytes, whole.cycles, code=code),
        special=Once(lambda: special(work, site, p)),
        inplace=(0,) if rows.in_row_bytes == rows.out_row_bytes else (),
    )


_BY_COLUMNS = (
    "stride 1; at most 16 columns with an output of the same size and kernels of at most 4x4, or a single column "
    f"without padding and kernels of at most 16 rows; and {PROVED}"
)


def _kernel(suffix: str, ways: frozenset[By], asks: str) -> Kernel:
    return Kernel(
        f"{NAME}{suffix}",
        planned(partial(plan, ways=ways), asks, call=call, cost=cost, special=special),
        isa=frozenset({"mve"}),
        when=(is_s8, takes),
        asks=asks,
        inplace=(0,) if ways is not _BY_ROWS else (),
        shrinks=ways is not _BY_ROWS,
        written=True,
    )


KERNELS = (
    _kernel("_columns", _COLUMNS, _BY_COLUMNS),
    _kernel("", _BY_ROWS, f"kernels of at most 4x4, and {PROVED}").with_row_forms(row_forms),
)
