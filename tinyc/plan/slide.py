"""How far the output of a row kernel may reach into the input that it uses up.

Call g makes output rows [g*out_rows, (g+1)*out_rows) from the input rows of their windows. Going
top-down, the rows above the window of call g are never read again; going bottom-up, those below
it. With d = start of the output - start of the input, in bytes:

    top-down:   the end of output row g stays at or below the first input row that calls g, g+1 ... need
    bottom-up:  the start of output row g stays at or above the end of the last row that calls g, g-1 ... need

    input    |=====|=====|=====|=====|          input    |=====|=====|=====|=====|
    output |=====|=====|=====|=====|            output     |=====|=====|=====|=====|
           <-> -d: top-down                              <-> d: bottom-up

A buffered call has read its own rows before it writes, so for it only the needs of the other calls count.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyc.kernels import Rows


@dataclass(frozen=True, slots=True)
class Slide:
    """Output start - input start must be <= low (rows run top-down) or >= high (bottom-up)."""

    low: int
    high: int

    def extent(self, x: int, y: int) -> int:
        """Bytes that an input of x bytes and its output of y bytes take together at least."""
        # The union is shortest with one inside the other, and grows with the distance from there.
        nearest = (min(self.low, max(0, x - y)), max(self.high, min(0, x - y)))
        return min(max(x, d + y) - min(0, d) for d in nearest)


def slide_of(rows: Rows, forward: bool = False) -> Slide:
    """The closest that output and input may come. With `forward`, the rows cannot run bottom-up."""
    x, y = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    calls = [range(g, min(g + rows.out_rows, rows.out_h)) for g in range(0, rows.out_h, rows.out_rows)]
    needs = [_needed(rows, call) for call in calls]
    low = x  # no need left: anywhere
    first = rows.in_h  # of the rows that the calls still to come need
    for call, need in zip(reversed(calls), reversed(needs), strict=True):
        begin = min(first, need.start) if need else first
        kept = first if rows.buffered else begin
        if kept < rows.in_h:
            low = min(low, kept * rows.in_row_bytes - call.stop * rows.out_row_bytes)
        first = begin
    high = x if forward else -y
    last = 0  # one past those that the calls still to come need
    for call, need in zip(calls, needs, strict=True):
        end = max(last, need.stop) if need else last
        kept = last if rows.buffered else end
        if kept > 0:
            high = max(high, kept * rows.in_row_bytes - call.start * rows.out_row_bytes)
        last = end
    return Slide(max(low, -y), min(high, x))


def _needed(rows: Rows, call: range) -> range:
    """The input rows that the call reads, from the first to one past the last; maybe empty."""
    taps = [r * rows.stride - rows.pad_top + k * rows.dilation for r in call for k in range(rows.k_h)]
    inside = [i for i in taps if 0 <= i < rows.in_h]
    return range(min(inside), max(inside) + 1) if inside else range(0)
