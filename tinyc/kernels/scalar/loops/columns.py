# SPDX-License-Identifier: Apache-2.0
"""A row of a channel of a 3x3 depthwise convolution, of columns of three pixels in a word: row 0 in bits 0-7, row 1 in
bits 8-15, row 2 in bits 24-31. Sums take the place of columns that are used up.

`write` is the loop of all cores; a `ColumnsCore` says what its words come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

SUMS = 3  # of pixels that a column belongs to, with stride 1
WORD = 4


class ColumnsCore(Protocol):
    """A core's words for `write`. Sums are numbers 0 to 2, weights (ky, kx)."""

    @property
    def stride(self) -> int: ...

    def enter(self) -> None:
        """Saves what is the caller's; weights to where they stay."""

    def turns(self) -> AbstractContextManager[None]:
        """Of three pixels each, or with stride 2 of one."""

    def pixel(self, column: int, ky: int) -> None:
        """Takes one out of the column so many from the place of the next sum, rows in order."""

    def multiply(self, total: int, ky: int, kx: int) -> None:
        """Adds the pixel's product with a weight to a sum, which begins with the first weight's."""

    def store(self, total: int) -> None:
        """A sum that is complete, and on to the next column; with stride 2 over one more."""

    def leave(self) -> None:
        """Back to the caller."""


def write(core: ColumnsCore) -> None:
    """The function, in the words of a core."""
    core.enter()
    if core.stride == 1:
        _column(core, 0, ((0, 0),))
        _column(core, 1, ((1, 0), (0, 1)))
    with core.turns():
        if core.stride == 1:
            for last in range(SUMS):
                _column(core, 2, (((last + 2) % SUMS, 0), ((last + 1) % SUMS, 1), (last, 2)))
                core.store(last)
        else:
            for kx in range(3):
                _column(core, kx, ((0, kx),))
            core.store(0)
    core.leave()


def _column(core: ColumnsCore, column: int, sums: Sequence[tuple[int, int]]) -> None:
    """sums: each with the column of the weights that this one is to it."""
    for ky in range(3):
        core.pixel(column, ky)
        for total, kx in sums:
            core.multiply(total, ky, kx)
