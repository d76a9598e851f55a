# SPDX-License-Identifier: Apache-2.0
"""How far the output of a row kernel may reach into the input that it uses up.

Call g makes output rows [g*out_rows, (g+1)*out_rows) from the input rows of their windows. Going
top-down, the rows above the window of call g are never read again; going bottom-up, those below
it. With d = start of the output - start of the input, in bytes:

    top-down:   the end of output row g stays at or below the first input row that calls g, g+1 ... need
    bottom-up:  the start of output row g stays at or above the end of the last row that calls g, g-1 ... need

    input    |=====|=====|=====|=====|          input    |=====|=====|=====|=====|
    output |=====|=====|=====|=====|            output     |=====|=====|=====|=====|
           <-> -d: top-down                              <-> d: bottom-up

A buffered call has read its own rows before it writes, so for it only the needs of the other calls count. Of a call
that goes along its rows piece by piece, every write is held against every byte that is read after it: the distances
left are `low` and below, `high` and above, and islands between, where the output trails the reading by few columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Across, Rows
from tinyc.plan.blocks import Interval, joined


@dataclass(frozen=True, slots=True)
class Slide:
    """Output start - input start must be <= low (rows run top-down), >= high (bottom-up), or, top-down, in one of the
    islands: closed intervals between them, ascending."""

    low: int
    high: int
    islands: tuple[Interval, ...] = ()

    @property
    def forbidden(self) -> tuple[Interval, ...]:
        """What is left, as open intervals, ascending."""
        edges = [self.low, *(edge for island in self.islands for edge in island), self.high]
        return tuple(zip(edges[::2], edges[1::2], strict=True))

    def extent(self, x: int, y: int) -> int:
        """Bytes that an input of x bytes and its output of y bytes take together at least."""
        # The union is shortest with one inside the other, and grows with the distance from there.
        nearest = {min(self.low, max(0, x - y)), max(self.high, min(0, x - y))}
        nearest |= {edge for island in self.islands for edge in island}
        return min(max(x, d + y) - min(0, d) for d in nearest)


def slide_of(rows: Rows, forward: bool = False) -> Slide:
    """The closest that output and input may come. With `forward`, the rows cannot run bottom-up."""
    return _slide_of(replace(rows, pad=None), forward)  # which need not be hashable, and is no part of the input


@lru_cache(maxsize=4096)
def _slide_of(rows: Rows, forward: bool) -> Slide:
    if rows.across is not None and forward:
        return _along(rows, rows.across)
    x, y = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    calls = _calls(rows)
    needs = [_needed(rows, call) for call in calls]
    low = x  # no need left: anywhere
    first = rows.in_h  # of the rows that the calls still to come need
    for call, need in zip(reversed(calls), reversed(needs), strict=True):
        begin = min(first, need.start) if need else first
        edge = first if rows.buffered else begin
        if edge < rows.in_h:
            low = min(low, edge * rows.in_row_bytes - call.stop * rows.out_row_bytes)
        first = begin
    high = x if forward else -y
    last = 0  # one past those that the calls still to come need
    for call, need in zip(calls, needs, strict=True):
        end = max(last, need.stop) if need else last
        edge = last if rows.buffered else end
        if edge > 0:
            high = max(high, edge * rows.in_row_bytes - call.start * rows.out_row_bytes)
        last = end
    return Slide(max(low, -y), min(high, x))


def _calls(rows: Rows) -> list[range]:
    """The output rows of each call."""
    return [range(g, min(g + rows.out_rows, rows.out_h)) for g in range(0, rows.out_h, rows.out_rows)]


def _needed(rows: Rows, call: range) -> range:
    """The input rows that the call reads, from the first to one past the last; maybe empty."""
    taps = [r * rows.stride - rows.pad_top + k * rows.dilation for r in call for k in range(rows.k_h)]
    inside = [i for i in taps if 0 <= i < rows.in_h]
    return range(min(inside), max(inside) + 1) if inside else range(0)


def _along(rows: Rows, across: Across) -> Slide:
    x, y = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    forbidden = joined(_clashes(rows, across))
    if not forbidden:
        return Slide(x, x)
    low, high = max(forbidden[0][0], -y), min(forbidden[-1][1], x)
    islands = tuple((a[1], b[0]) for a, b in pairwise(forbidden))
    return Slide(low, high, tuple(island for island in islands if low < island[0] and island[1] < high))


def _clashes(rows: Rows, across: Across) -> Iterator[Interval]:
    """Distances, open intervals, at which some write destroys bytes that are read after it."""
    first = rows.in_h  # of the rows that later calls need
    for call in reversed(_calls(rows)):
        need = _needed(rows, call)
        for begin, end in _pieces(rows, across):
            column = min(across.ahead + begin * across.stride, rows.in_row_bytes // across.in_step)
            unread = [(i * rows.in_row_bytes + column * across.in_step, (i + 1) * rows.in_row_bytes) for i in need]
            unread.append((first * rows.in_row_bytes, rows.in_h * rows.in_row_bytes))
            for r in call:
                start = r * rows.out_row_bytes + begin * across.out_step
                stop = r * rows.out_row_bytes + end * across.out_step
                yield from ((low - stop, high - start) for low, high in unread if low < high)
        first = min(first, need.start) if need else first


def _pieces(rows: Rows, across: Across) -> list[Interval]:
    """The output columns [begin, end) of each piece."""
    width = rows.out_row_bytes // across.out_step
    return [(begin, min(begin + across.columns, width)) for begin in range(0, width, across.columns)]
