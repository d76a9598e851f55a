# SPDX-License-Identifier: Apache-2.0
"""Proof that an arena is too small, where first fit found nothing lower than it has: nobody need look on.

Two blocks that may not take each other's places lie one above the other: each pair is a disjunction of two difference
constraints, as in job shop scheduling. Each block has a lowest and a highest offset; constraints that are decided move
these, and where one side of a pair cannot hold, the other one is decided. What is left is tried, both sides.
"""

from __future__ import annotations

from typing import NamedTuple

from tinyc.plan.blocks import Layout

_DEEPEST = 200  # pairs tried within each other


class _Pair(NamedTuple):
    """offset[i] - offset[j] is at most `low`, or at least `high`."""

    i: int
    j: int
    low: int
    high: int


class _TiredError(Exception):
    """So many pairs were looked at."""


def none_within(layout: Layout, height: int, looks: int) -> bool:
    """Whether it is proved that no offsets for the blocks end within `height`. looks: pairs of blocks that are looked
    at, at most about that many; where these are not enough, nothing is proved."""
    if any(block.size > height for block in layout.blocks):
        return True
    if 2 * looks < sum(map(len, layout.rivals)):
        return False
    search = _Search(layout, height, looks)
    try:
        return not search.may_fit([p for p in search.pairs if p.i > p.j], 0)
    except _TiredError:
        return False


class _Search:
    """The offsets that blocks may still take, and what was decided, in order to take it back."""

    def __init__(self, layout: Layout, height: int, looks: int) -> None:
        blocks = layout.blocks
        self.pairs = [_Pair(i, *rival) for i, rivals in enumerate(layout.rivals) for rival in rivals]
        self._aligns = [block.align for block in blocks]
        self._lows = [0] * len(blocks)
        self._highs = [(height - block.size) // block.align * block.align for block in blocks]
        self._above: list[list[tuple[int, int]]] = [
            [] for _ in blocks
        ]  # of each block: (one above it, how far at least)
        self._below: list[list[tuple[int, int]]] = [[] for _ in blocks]
        self._looks = looks
        self._bounds: list[tuple[list[int], int, int]] = []  # (which, of which block, what it was)
        self._decided: list[tuple[int, int]] = []  # (above, below)

    def may_fit(self, pairs: list[_Pair], deep: int) -> bool:
        """Whether some decision of all these pairs leaves offsets for the blocks."""
        left = self._decide_forced(pairs)
        if left is None:
            return False
        lows, highs = self._lows, self._highs
        violated = [p for p in left if p.low < lows[p.i] - lows[p.j] < p.high]
        if not violated:
            return True  # the lowest offsets are an answer
        if deep == _DEEPEST:
            raise _TiredError
        tightest = min(violated, key=lambda p: min(highs[p.i] - lows[p.j] - p.high, highs[p.j] - lows[p.i] + p.low))
        i, j, low, high = tightest
        others = [p for p in left if p is not tightest]
        for above, below, distance in ((i, j, high), (j, i, -low)):
            bounds, decided = len(self._bounds), len(self._decided)
            if self._decide(above, below, distance) and self.may_fit(others, deep + 1):
                return True
            self._take_back(bounds, decided)
        return False

    def _decide_forced(self, pairs: list[_Pair]) -> list[_Pair] | None:
        """The pairs that are left, both ways possible, after all are decided that can be only one way; None where one
        is possible in neither."""
        lows, highs, forced = self._lows, self._highs, True
        while forced:
            forced, left = False, list[_Pair]()
            self._looks -= len(pairs)
            if self._looks < 0:
                raise _TiredError
            for pair in pairs:
                i, j, low, high = pair
                above, below = lows[j] + high <= highs[i], lows[i] - low <= highs[j]
                if above and below:
                    left.append(pair)
                elif not (above or below) or not self._decide(*((i, j, high) if above else (j, i, -low))):
                    return None
                else:
                    forced = True
            pairs = left
        return pairs

    def _decide(self, above: int, below: int, distance: int) -> bool:
        """One block lies that far above another one at least; whether all may still lie somewhere."""
        self._above[below].append((above, distance))
        self._below[above].append((below, distance))
        self._decided.append((above, below))
        lows, highs, aligns = self._lows, self._highs, self._aligns
        raised = [(above, lows[below] + distance)]
        while raised:
            block, low = raised.pop()
            low = -(-low // aligns[block]) * aligns[block]
            if low > highs[block]:
                return False
            if low > lows[block]:
                self._bounds.append((lows, block, lows[block]))
                lows[block] = low
                raised += [(other, low + far) for other, far in self._above[block]]
        lowered = [(below, highs[above] - distance)]
        while lowered:
            block, high = lowered.pop()
            high = high // aligns[block] * aligns[block]
            if high < lows[block]:
                return False
            if high < highs[block]:
                self._bounds.append((highs, block, highs[block]))
                highs[block] = high
                lowered += [(other, high - far) for other, far in self._below[block]]
        return True

    def _take_back(self, bounds: int, decided: int) -> None:
        """Back to so many bounds and decisions."""
        while len(self._bounds) > bounds:
            which, block, was = self._bounds.pop()
            which[block] = was
        while len(self._decided) > decided:
            above, below = self._decided.pop()
            self._above[below].pop()
            self._below[above].pop()
