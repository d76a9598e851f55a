# SPDX-License-Identifier: Apache-2.0
"""What comes after what in the products of `tiles.py`: products, sums of them, outputs.

A walk works on accumulators, an output channel of a tile each, and on slots that hold as many sums. Output rows: one,
where the three kernel rows are summed in the products; or two, where the rows go through a fast form as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from tinyc.kernels.fast.bilinear import F4, BilinearForm

Kind = Literal["product", "keep", "copy", "take", "turn", "add", "fold", "even", "odd", "output"]


class WalkStep(NamedTuple):
    """product: adds products (i, column) for i in rows to the accumulators, which begin at 0 where they are free. keep:
    to slot a, the accumulators are free. copy: to slot a. take: from slot a. turn: 2 * slot a - slot a + 1. add: slot
    a to the accumulators. fold: accumulators and slot a become their sum, which stays, and the difference slot a -
    accumulators, in slot b (a or the next).
    even, odd: steps of F4 on slots a, a + 1, a + 2. output: row a, column b of the tile is complete; the accumulators
    are free.
    """

    kind: Kind
    a: int = 0
    b: int = 0
    column: int = 0
    rows: tuple[int, ...] = ()


SLOTS = 8  # at most
SPLIT = 6  # the slot of what two rows have in common, and (F2) the next


def walk_of(form: BilinearForm) -> tuple[WalkStep, ...]:
    """The walk of nested forms."""
    if form.m == 1:
        return _ONE_ROW[form.across.name]
    return tuple(_two_rows_s2() if form.stride == 2 else _two_rows(form.across))


def _product(column: int, *rows: int) -> WalkStep:
    return WalkStep("product", column=column, rows=rows)


def _whole(column: int) -> WalkStep:
    """All kernel rows."""
    return _product(column, 0, 1, 2)


_ONE_ROW: dict[str, tuple[WalkStep, ...]] = {
    "f2": (
        *(_whole(1), WalkStep("keep", 0), _whole(2), WalkStep("fold", 0, 0)),
        *(_whole(0), WalkStep("output", 0, 0), WalkStep("take", 0), _whole(3), WalkStep("output", 0, 1)),
    ),
    "s2": (
        *(_whole(2), WalkStep("copy", 0), _whole(0), _whole(1), WalkStep("output", 0, 0)),
        *(WalkStep("take", 0), _whole(3), _whole(4), WalkStep("output", 0, 1)),
    ),
    "f4": (
        *(_whole(1), WalkStep("keep", 0), _whole(2), WalkStep("fold", 0, 1), WalkStep("keep", 0)),
        *(_whole(3), WalkStep("keep", 2), _whole(4), WalkStep("fold", 2, 2)),
        *(WalkStep("even", 0), WalkStep("output", 0, 2), WalkStep("odd", 0), WalkStep("output", 0, 1)),
        *(WalkStep("take", 0), _whole(0), WalkStep("output", 0, 0)),
        *(WalkStep("take", 1), _whole(5), WalkStep("output", 0, 3)),
    ),
}


def _two_rows(form: BilinearForm) -> Iterator[WalkStep]:
    """Columns of products become columns of both rows, those then outputs."""
    for column in (1, 2, 3, 4, 0, 5) if form is F4 else (1, 2, 0, 3):
        # Products m1, m1 + m2, and all of row 0; row 1 begins with m1 - m2 = 2 m1 - (m1 + m2).
        yield from (_product(column, 1), WalkStep("copy", SPLIT), _product(column, 2), WalkStep("copy", SPLIT + 1))
        yield _product(column, 0)
        yield from _column(form, 0, column)
        yield from (WalkStep("turn", SPLIT), _product(column, 3))
        yield from _column(form, 1, column)


def _column(form: BilinearForm, row: int, column: int) -> Iterator[WalkStep]:
    """What is made of a column of an output row."""
    base = 3 * row
    if column in (0, form.products - 1):
        last = column > 0
        yield from (WalkStep("add", base + last), WalkStep("output", row, form.m - 1 if last else 0))
    elif column == 2:
        yield from (WalkStep("fold", base, base + 1), WalkStep("keep", base))
    elif column == 4:
        yield from (WalkStep("fold", base + 2, base + 2), WalkStep("even", base), WalkStep("output", row, 2))
        yield from (WalkStep("odd", base), WalkStep("output", row, 1))
    else:
        yield WalkStep("keep", base + (2 if column == 3 else 0))


def _two_rows_s2() -> Iterator[WalkStep]:
    """Both rows and both columns share products 2."""
    yield from (_product(2, 2), WalkStep("copy", SPLIT), _product(2, 0, 1), WalkStep("keep", 0))
    yield from (WalkStep("take", SPLIT), _product(2, 3, 4), WalkStep("keep", 1))
    for output, (first, second) in enumerate(((0, 1), (3, 4))):
        yield from (_product(first, 2), _product(second, 2), WalkStep("copy", SPLIT))
        for row, rows in enumerate(((0, 1), (3, 4))):
            if row:
                yield WalkStep("take", SPLIT)
            yield from (
                _product(first, *rows),
                _product(second, *rows),
                WalkStep("add", row),
                WalkStep("output", row, output),
            )
