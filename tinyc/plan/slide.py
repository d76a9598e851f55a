"""How far the output of a row kernel may reach into the input that it uses up.

Call g makes output rows [g*out_rows, (g+1)*out_rows) from the input rows of their windows. Going
top-down, the rows above the window of call g are never read again; going bottom-up, those below
it. With d = start of the output - start of the input, in bytes:

    top-down:   the end of output row g stays at or below the first input row that calls g, g+1 ... need
    bottom-up:  the start of output row g stays at or above the end of the last row that calls g, g-1 ... need

    input    |=====|=====|=====|=====|          input    |=====|=====|=====|=====|
    output |=====|=====|=====|=====|            output     |=====|=====|=====|=====|
           <-> -d: top-down                              <-> d: bottom-up
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


def slide_of(rows: Rows) -> Slide:
    """The closest that output and input may come; a call's own input rows stay intact until it ends."""
    starts = range(0, rows.out_h, rows.out_rows)
    needs = [_needed(rows, start) for start in starts]
    low = high = None
    first, last = rows.in_h, 0  # over the calls still to come: first row needed, one past the last
    for start, need in zip(reversed(starts), reversed(needs), strict=True):
        first = min(first, need.start) if need else first
        if first < rows.in_h:
            end = min(start + rows.out_rows, rows.out_h) * rows.out_row_bytes
            limit = first * rows.in_row_bytes - end
            low = limit if low is None else min(low, limit)
    for start, need in zip(starts, needs, strict=True):
        last = max(last, need.stop) if need else last
        if last > 0:
            limit = last * rows.in_row_bytes - start * rows.out_row_bytes
            high = limit if high is None else max(high, limit)
    in_bytes, out_bytes = rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes
    return Slide(
        low=-out_bytes if low is None else max(low, -out_bytes),
        high=in_bytes if high is None else min(high, in_bytes),
    )


def _needed(rows: Rows, start: int) -> range:
    """Input rows [first, last] that the call for output rows start ... reads, as a range; maybe empty."""
    end = min(start + rows.out_rows, rows.out_h)
    taps = [
        r * rows.stride - rows.pad_top + k * rows.dilation for r in range(start, end) for k in range(rows.k_h)
    ]
    inside = [i for i in taps if 0 <= i < rows.in_h]
    return range(min(inside), max(inside) + 1) if inside else range(0)
