# SPDX-License-Identifier: Apache-2.0
"""First fit under a ceiling: offsets for an arena of a given height, around blocks that have their places already."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence

from tinyc.plan.blocks import Block, Layout
from tinyc.plan.lowest import Places

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
        for number, initial in enumerate(self._orders):
            order, rng, places, same = list(initial), random.Random(number), Places(self.layout, fixed), 0
            for _ in range(_TRIES):
                stuck = self._fit(places, order, same, height)
                if stuck is None:
                    self._orders = [order, *self._orders[:number], *self._orders[number + 1 :]]
                    return places.offsets
                if self.work <= 0:
                    return None
                met = self.layout.forbidden[stuck]
                rivals = [at for at, j in enumerate(order[: order.index(stuck)]) if j in met]
                if not rivals:
                    break
                order.remove(stuck)
                same = rng.choice(rivals) if rng.random() < _ANYWHERE else rivals[0]
                for i in order[same:]:
                    places.clear(i)
                order.insert(same, stuck)
        return None

    def _fit(self, places: Places, order: Sequence[int], same: int, height: int) -> int | None:
        """Places the blocks in their order; the first that does not fit. same: so many have their places already."""
        forbidden = self.layout.forbidden
        self.work -= sum(len(forbidden[i]) for i in order[:same])
        for i in order[same:]:
            at = places.lowest(i)
            self.work -= len(forbidden[i])
            if at + self._sizes[i] > height:
                return i
            places.put(i, at)
        return None


_KEYS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda b: (-b.size, b.born),
    lambda b: (b.born - b.dies, b.born),
    lambda b: (b.born, -b.dies),
    lambda b: (-b.dies, b.born),
)
