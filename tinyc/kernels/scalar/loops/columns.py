# SPDX-License-Identifier: Apache-2.0
"""A row of a channel of a 3x3 depthwise convolution, of columns of three pixels in a word: row 0 in bits 0-7, row 1 in
bits 8-15, row 2 in bits 24-31. Sums take the place of columns that are used up.

`ColumnsCore.write` is the loop of all cores; their classes say what its words come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Generic

from tinyc.kernels.scalar.loops.products import A

SUMS = 3  # of pixels that a column belongs to, with stride 1
WORD = 4


class ColumnsCore(Generic[A]):
    """A core's words for the loop. Sums are numbers 0 to 2, weights (ky, kx)."""

    stride: int
    asm: A

    def enter(self) -> None:
        """Saves what is the caller's; weights to where they stay."""
        raise NotImplementedError

    def turns(self) -> AbstractContextManager[None]:
        """Of three pixels each, or with stride 2 of one."""
        raise NotImplementedError

    def pixel(self, column: int, ky: int) -> None:
        """Takes one out of the column so many from the place of the next sum, rows in order."""
        raise NotImplementedError

    def multiply(self, total: int, ky: int, kx: int) -> None:
        """Adds the pixel's product with a weight to a sum, which begins with the first weight's."""
        raise NotImplementedError

    def store(self, total: int) -> None:
        """A sum that is complete, and on to the next column; with stride 2 over one more."""
        raise NotImplementedError

    def leave(self) -> None:
        """Back to the caller."""

    def write(self) -> A:
        """The function, in the words of the core."""
        self.enter()
        if self.stride == 1:
            self._column(0, ((0, 0),))
            self._column(1, ((1, 0), (0, 1)))
        with self.turns():
            if self.stride == 1:
                for last in range(SUMS):
                    self._column(2, (((last + 2) % SUMS, 0), ((last + 1) % SUMS, 1), (last, 2)))
                    self.store(last)
            else:
                for kx in range(3):
                    self._column(kx, ((0, kx),))
                self.store(0)
        self.leave()
        return self.asm

    def _column(self, column: int, sums: Sequence[tuple[int, int]]) -> None:
        """sums: each with the column of the weights that this one is to it."""
        for ky in range(3):
            self.pixel(column, ky)
            for total, kx in sums:
                self.multiply(total, ky, kx)
