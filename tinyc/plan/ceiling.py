# SPDX-License-Identifier: Apache-2.0
"""First fit under a ceiling: offsets for an arena of a given height, around blocks that have their places already."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence

from tinyc.plan.blocks import Block, Layout

_TRIES = 100  # orders of a kind
_ANYWHERE = 0.3  # how often a block moves before any of those that it met, not the first


class CeilingFit:
    """What does not fit is placed before a block that it met the next time. `work`: pairs of blocks that may still be
    looked at."""

    def __init__(self, layout: Layout, fixed: Collection[int], work: int) -> None:
        """fixed: the blocks that `within` is given places for."""
        self.layout, self.work = layout, work
        self._sizes = [block.size for block in layout.blocks]
        chosen = set(fixed)
        self.rest = [i for i in range(len(layout.blocks)) if i not in chosen]
        self._orders = [sorted(self.rest, key=lambda i: key(layout.blocks[i])) for key in _KEYS]

    def within(self, height: int, fixed: Mapping[int, int]) -> list[int] | None:
        """Offsets for an arena of that height; None if none are found."""
        for number, known in enumerate(self._orders):
            order, rng = list(known), random.Random(number)
            for _ in range(_TRIES):
                offsets, stuck = self._fit(order, height, fixed)
                if stuck is None:
                    self._orders = [order, *self._orders[:number], *self._orders[number + 1 :]]
                    return offsets
                if self.work <= 0:
                    return None
                rivals = [at for at, j in enumerate(order[: order.index(stuck)]) if j in self.layout.forbidden[stuck]]
                if not rivals:
                    break
                order.remove(stuck)
                order.insert(rng.choice(rivals) if rng.random() < _ANYWHERE else rivals[0], stuck)
        return None

    def _fit(self, order: Sequence[int], height: int, fixed: Mapping[int, int]) -> tuple[list[int], int | None]:
        """Offsets, and the first block that does not fit."""
        offsets = [-1] * len(self._sizes)
        for i, at in fixed.items():
            offsets[i] = at
        for i in order:
            align, at = self.layout.blocks[i].align, 0
            taken = [(offsets[j] + low, offsets[j] + high) for j, low, high in self.layout.rivals[i] if offsets[j] >= 0]
            self.work -= len(self.layout.forbidden[i])
            for low, high in sorted(taken):
                if at <= low:
                    break
                at = max(at, -(-high // align) * align)
            if at + self._sizes[i] > height:
                return offsets, i
            offsets[i] = at
        return offsets, None


_KEYS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.born),
    lambda b: (b.born - b.dies, b.born),
    lambda b: (b.born, -b.dies),
    lambda b: (-b.dies, b.born),
)
