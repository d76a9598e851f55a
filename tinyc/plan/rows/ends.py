# SPDX-License-Identifier: Apache-2.0
"""Placement from both ends: scratch ends at the top of the arena, rows are stacked from the bottom.

Scratch has any size, rows mostly have one. Where first fit stacks rows on scratch they come to lie at many distances,
and what a dead row leaves fits none of the next; with scratch at the other end, rows take each other's places.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence

from tinyc.plan.lifetimes import Block, Layout

_STEP = 128  # parts of the lower bound: heights closer than that are not told apart
_TRIES = 100  # orders of a kind
_ANYWHERE = 0.3  # how often a block moves before any of those that it met, not the first


def place_from_ends(
    layout: Layout, top: Collection[int], lower_bound: int, below: int, work: int
) -> tuple[int, ...] | None:
    """An offset for every block, with a height less than `below`; None if none is found. Deterministic.

    top: blocks that end at the height, no two of which are alive together. Heights are tried by bisection, then from
    `lower_bound` up. work: pairs of blocks looked at, at most about that many.
    """
    search = _Search(layout, top, work)
    best = search.within(below - 1) if search.rest and top else None
    if best is None:
        return None
    step = max(lower_bound // _STEP, 1)
    low, high = lower_bound, below - 1
    while high - low > step and search.work > 0:
        middle = (low + high) // 2
        found = search.within(middle)
        low, high, best = (middle + 1, high, best) if found is None else (low, middle, found)
    for limit in range(lower_bound, high, step):  # orders may serve a height and not a larger one
        found = search.within(limit) if search.work > 0 else None
        if found is not None:
            return tuple(found)
    return tuple(best)


class _Search:
    """First fit under a ceiling. What does not fit is placed before a block that it met the next time."""

    def __init__(self, layout: Layout, top: Collection[int], work: int) -> None:
        self.layout, self.top, self.work = layout, top, work
        self.sizes = [block.size for block in layout.blocks]
        chosen = set(top)
        self.rest = [i for i in range(len(layout.blocks)) if i not in chosen]
        self.orders = [sorted(self.rest, key=lambda i: key(layout.blocks[i])) for key in _KEYS]

    def within(self, height: int) -> list[int] | None:
        """Offsets for an arena of that height; None if none are found."""
        for number, known in enumerate(self.orders):
            order, rng = list(known), random.Random(number)
            for _ in range(_TRIES):
                offsets, stuck = self._fit(order, height)
                if stuck is None:
                    self.orders = [order, *self.orders[:number], *self.orders[number + 1 :]]
                    return offsets
                if self.work <= 0:
                    return None
                rivals = [at for at, j in enumerate(order[: order.index(stuck)]) if j in self.layout.forbidden[stuck]]
                if not rivals:
                    break
                order.remove(stuck)
                order.insert(rng.choice(rivals) if rng.random() < _ANYWHERE else rivals[0], stuck)
        return None

    def _fit(self, order: Sequence[int], height: int) -> tuple[list[int], int | None]:
        """Offsets, and the first block that does not fit."""
        offsets = [-1] * len(self.sizes)
        for i in self.top:
            align = self.layout.blocks[i].align
            offsets[i] = (height - self.sizes[i]) // align * align
        for i in order:
            align, at = self.layout.blocks[i].align, 0
            taken = [(offsets[j] + low, offsets[j] + high) for j, low, high in self.layout.rivals[i] if offsets[j] >= 0]
            self.work -= len(self.layout.forbidden[i])
            for low, high in sorted(taken):
                if at <= low:
                    break
                at = max(at, -(-high // align) * align)
            if at + self.sizes[i] > height:
                return offsets, i
            offsets[i] = at
        return offsets, None


_KEYS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.born),
    lambda b: (b.born - b.dies, b.born),
    lambda b: (b.born, -b.dies),
    lambda b: (-b.dies, b.born),
)
