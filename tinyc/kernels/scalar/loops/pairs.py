# SPDX-License-Identifier: Apache-2.0
"""Two products in one multiplication (tc_scalar_pairs.h says how):

    sum of a segment = start + sum over its words of x0 * (w & 0x00ff00ff) + x1 * (w >> 8 & 0x00ff00ff)
    acc[lane] = sum over segments of (that, as signed) >> 16

x [segment][start, then x0, x1 of each word], w [word][4]. `write` is the loop of all cores; a `PairsCore` says what its
words come to, and how many words' factors have registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

WORD_BYTES = 16  # of the weights of four outputs


class PairsCore(Protocol):
    """A core's words for `write`. segment: words of one. lanes: outputs of a call. held: words whose factors have
    registers at a time."""

    @property
    def segment(self) -> int: ...

    @property
    def lanes(self) -> int: ...

    @property
    def held(self) -> int: ...

    def enter(self) -> None:
        """Saves what is the caller's; the accumulators become 0."""

    def segments(self) -> AbstractContextManager[None]:
        """One after the other, to the end of the weights."""

    def start(self) -> None:
        """Loads a segment's start."""

    def factors(self, words: Sequence[int]) -> None:
        """Loads those of some words."""

    def pair(self, lane: int, word: int) -> None:
        """Loads a word of weights and adds its two products to the lane's sum, which begins with the start."""

    def add(self, lane: int) -> None:
        """The upper half of the sum to the accumulator."""

    def step(self) -> None:
        """To the next segment's weights."""

    def leave(self) -> None:
        """Stores the accumulators and goes back to the caller."""


def write(core: PairsCore) -> None:
    """The function, in the words of a core."""
    core.enter()
    with core.segments():
        core.start()
        for first in range(0, core.segment, core.held):
            words = range(first, min(first + core.held, core.segment))
            core.factors(words)
            for lane in range(core.lanes):
                for word in words:
                    core.pair(lane, word)
                if words[-1] == core.segment - 1:
                    core.add(lane)
        core.step()
    core.leave()
