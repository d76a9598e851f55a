"""Placement in slots: where most rows have one size, they lie on a grid and never leave a gap that is no row.

The resident input lies at the end of the arena, its first rows die first; scratch lies right below what is left of it.
Rows take slots from below, each the highest that it may have all its life: the lower ones are for rows that live while
more scratch is taken. What is smaller than a row lies below the slots.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from tinyc.plan.lifetimes import Interval, Layout

_TRIES = 30  # orders of a kind
_ANYWHERE = 0.3  # how often a block moves before any of those that it met, not the first
_STEP = 64  # bytes from height to height
_MEMBERS = 4  # more of them: a tensor whose rows die one by one


def place_in_slots(layout: Layout, scratch: Collection[int], low: int, high: int) -> tuple[int, ...] | None:
    """An offset for every block, with a height of `high` or, by trials from `low` on, less; None if none is found.
    Deterministic. scratch: blocks no two of which are alive together."""
    search = _Search(layout, scratch)
    best = search.within(high)
    if best is None:
        return None
    for height in range(low, high, _STEP):
        found = search.within(height)
        if found is not None:
            return tuple(found)
    return tuple(best)


class _Search:
    def __init__(self, layout: Layout, scratch: Collection[int]) -> None:
        self.layout, self.blocks = layout, layout.blocks
        chosen = set(scratch)
        rest = [i for i in range(len(self.blocks)) if i not in chosen]
        tall = [i for i in rest if len(self.blocks[i].members) > _MEMBERS]
        self.top = [*tall, *scratch]
        self.rest = [i for i in rest if i not in set(tall)]
        sizes = Counter(self.blocks[i].size for i in self.rest)
        self.unit = sizes.most_common(1)[0][0] if sizes else 1
        self.base = self._small_bytes()

    def _small_bytes(self) -> int:
        """The most bytes of what is smaller than a row."""
        live: Counter[int] = Counter()
        for i in self.rest:
            block = self.blocks[i]
            if block.size < self.unit:
                live.update(dict.fromkeys(range(block.born, block.dies), -(-block.size // block.align) * block.align))
        return max(live.values(), default=0)

    def within(self, height: int) -> list[int] | None:
        """Offsets for an arena of that height; None if none are found."""
        for order in self._orders():
            rng = random.Random(0)
            for _ in range(_TRIES):
                offsets, stuck = self._fit(order, height)
                if stuck is None:
                    return offsets
                if stuck in self.top:
                    return None
                forbidden = self.layout.forbidden[stuck]
                rivals = [at for at, j in enumerate(order[: order.index(stuck)]) if j in forbidden]
                if not rivals:
                    break
                order.remove(stuck)
                order.insert(rng.choice(rivals) if rng.random() < _ANYWHERE else rivals[0], stuck)
        return None

    def _orders(self) -> Iterator[list[int]]:
        blocks = self.blocks
        yield sorted(self.rest, key=lambda i: (blocks[i].size >= self.unit, blocks[i].born, -blocks[i].dies))
        yield sorted(self.rest, key=lambda i: (blocks[i].size >= self.unit, blocks[i].born - blocks[i].dies))

    def _fit(self, order: Sequence[int], height: int) -> tuple[list[int], int | None]:
        """Offsets, and the first block that does not fit."""
        offsets = [-1] * len(self.blocks)
        for i in self.top:
            at = _highest(self._taken(i, offsets), height - self.blocks[i].size, self.blocks[i].align, 0)
            if at < 0:
                return offsets, i
            offsets[i] = at
        for i in order:
            block, taken = self.blocks[i], self._taken(i, offsets)
            if block.size == self.unit:
                at = _highest(taken, height - block.size, self.unit, self.base)
            else:
                at = _lowest(taken, self.unit if block.size > self.unit else block.align)
            if not 0 <= at <= height - block.size:
                return offsets, i
            offsets[i] = at
        return offsets, None

    def _taken(self, i: int, offsets: Sequence[int]) -> list[Interval]:
        """The offsets that the blocks placed so far forbid, as open intervals that do not overlap, ascending."""
        found = sorted(
            (offsets[j] + low, offsets[j] + high)
            for j, ways in self.layout.forbidden[i].items()
            if offsets[j] >= 0
            for low, high in ways
        )
        joined: list[Interval] = []
        for low, high in found:
            if joined and low < joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], high))
            else:
                joined.append((low, high))
        return joined


def _highest(taken: Sequence[Interval], most: int, step: int, base: int) -> int:
    """The largest multiple of step, counted from base, up to `most` that is not taken; negative: there is none."""
    at = (most - base) // step * step + base
    for low, high in reversed(taken):
        if low < at < high:
            at = (low - base) // step * step + base
    return at if at >= base else -1


def _lowest(taken: Sequence[Interval], step: int) -> int:
    at = 0
    for low, high in taken:
        if low < at < high:
            at = -(-high // step) * step
    return at
