# SPDX-License-Identifier: Apache-2.0
"""Two products in one multiplication (tc_scalar_pairs.h says how):

    sum of a segment = start + sum over its words of x0 * (w & 0x00ff00ff) + x1 * (w >> 8 & 0x00ff00ff)
    acc[lane] = sum over segments of (that, as signed) >> 16

x [segment][start, then x0, x1 of each word], w [word][4]. `PairsCore.write` is the loop of all cores; their classes say
what its words come to.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Generic

from tinyc.kernels.scalar.loops.products import A

WORD_BYTES = 16  # of the weights of four outputs


class PairsCore(Generic[A]):
    """A core's words for the loop. segment: words of one. lanes: outputs of a call. held: words whose factors have
    registers at a time."""

    segment: int
    lanes: int
    held: int
    asm: A

    def enter(self) -> None:
        """Saves what is the caller's; the accumulators become 0."""
        raise NotImplementedError

    def segments(self) -> AbstractContextManager[None]:
        """One after the other, to the end of the weights."""
        raise NotImplementedError

    def start(self) -> None:
        """Loads a segment's start, if that does not come with its first factors."""

    def factors(self, words: Sequence[int]) -> None:
        """Loads those of some words."""

    def pair(self, lane: int, word: int) -> None:
        """Loads a word of weights and adds its two products to the lane's sum, which begins with the start."""
        raise NotImplementedError

    def add(self, lane: int) -> None:
        """The upper half of the sum to the accumulator."""
        raise NotImplementedError

    def step(self) -> None:
        """To the next segment's weights."""
        raise NotImplementedError

    def leave(self) -> None:
        """Stores the accumulators and goes back to the caller."""
        raise NotImplementedError

    def write(self) -> A:
        """The function, in the words of the core."""
        self.enter()
        with self.segments():
            self.start()
            for first in range(0, self.segment, self.held):
                words = range(first, min(first + self.held, self.segment))
                self.factors(words)
                for lane in range(self.lanes):
                    for word in words:
                        self.pair(lane, word)
                    if words[-1] == self.segment - 1:
                        self.add(lane)
            self.step()
        self.leave()
        return self.asm
