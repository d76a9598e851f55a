# SPDX-License-Identifier: Apache-2.0
"""Placement in slots: where most rows have one size, they lie on a grid and never leave a gap that is no row.

The resident input lies at the end of the arena, its first rows die first; what is smaller than a row lies below the
slots. A row may have any slot; scratch starts at one too, or ends right below what is left of the input. To choose is
to colour a graph with few colours to spare: a tabu search moves what overlaps something, one block at a time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.plan.blocks import Layout
from tinyc.plan.intervals import Interval, joined

_MOVES = 600  # what is found at all is mostly found in fewer
_TENURE = (5, 10)  # moves for which a block does not go back: at least, and at random above it
_MEMBERS = 4  # more of them: a tensor whose rows die one by one
_NEVER = 10**6  # overlaps
_NOWHERE = 2**40  # offset of a place that a block has not
Ints = npt.NDArray[np.int64]


def place_in_slots(layout: Layout, scratch: Collection[int], height: int) -> tuple[int, ...] | None:
    """An offset for every block of an arena of so many bytes; None if none are found. Deterministic.

    scratch: blocks no two of which are alive together.
    """
    grid = _Grid(layout, frozenset(scratch), height)
    if not all(grid.places.values()):
        return None
    return _Tabu(grid).search() if grid.places else tuple(grid.offsets)


class _Grid:
    """What has one place, in `offsets`, and the places that every other block may have."""

    def __init__(self, layout: Layout, scratch: frozenset[int], height: int) -> None:
        self.layout, self.scratch, self.height = layout, scratch, height
        blocks = layout.blocks
        rest = [i for i in range(len(blocks)) if i not in scratch]
        tall = [i for i in rest if len(blocks[i].members) > _MEMBERS]
        rows = [i for i in rest if len(blocks[i].members) <= _MEMBERS]
        sizes = Counter(blocks[i].size for i in rows)
        self.unit = sizes.most_common(1)[0][0] if sizes else 1
        small = sorted((i for i in rows if blocks[i].size < self.unit), key=lambda i: (blocks[i].born, -blocks[i].dies))
        self.offsets = [-1] * len(blocks)
        self.places: dict[int, list[int]] = {}
        for i in tall:
            self.offsets[i] = highest(taken(layout, self.offsets, i), height - blocks[i].size, blocks[i].align)
            if self.offsets[i] < 0:
                self.places[i] = []
        for i in small:
            self.offsets[i] = lowest(taken(layout, self.offsets, i), blocks[i].align)
            if self.offsets[i] + blocks[i].size > height:
                self.places[i] = []
        align = max((blocks[i].align for i in rows), default=1)
        above = max((self.offsets[i] + blocks[i].size for i in small), default=0)
        self.base = -(-above // align) * align
        for i in range(len(blocks)):
            if self.offsets[i] < 0 and i not in self.places:
                self.places[i] = self._places(i)

    def _places(self, i: int) -> list[int]:
        """Where a block may be beside what has one place, highest first."""
        block, held = self.layout.blocks[i], taken(self.layout, self.offsets, i)
        most = self.height - block.size
        places = {-(-at // block.align) * block.align for at in range(self.base, most + 1, self.unit)}
        if i in self.scratch:
            places.add(highest(held, most, block.align))
        free = (at for at in places if 0 <= at <= most and not any(low < at < high for low, high in held))
        return sorted(free, reverse=True)


class _Tabu:
    """A place for every block that has several, and how many others it would overlap at each of them."""

    def __init__(self, grid: _Grid) -> None:
        self.grid = grid
        self.names = sorted(grid.places)
        number = {i: k for k, i in enumerate(self.names)}
        most = max(map(len, grid.places.values()))
        self.places = np.full((len(self.names), most), _NOWHERE, np.int64)
        for k, i in enumerate(self.names):
            self.places[k, : len(grid.places[i])] = grid.places[i]
        self.overlaps = np.where(self.places == _NOWHERE, _NEVER, 0).astype(np.int64)
        self.rivals: list[tuple[Ints, Ints, Ints]] = []  # of each block: others, their distances from it: low, high
        for i in self.names:
            by_block = [
                (number[j], low, high)
                for j in grid.layout.forbidden[i]
                if j in number
                for low, high in grid.layout.forbidden[j][i]
            ]
            others, low, high = np.array(by_block, np.int64).reshape(-1, 3).T
            self.rivals.append((others, low[:, None], high[:, None]))
        self.chosen = np.zeros(len(self.names), np.int64)

    def search(self) -> tuple[int, ...] | None:
        """Offsets of all blocks; None if some still overlap after all moves."""
        self._begin()
        rng, every = random.Random(0), np.arange(len(self.names))
        until = np.zeros(self.places.shape, np.int64)
        least = _NEVER
        for move in range(_MOVES):
            own = self.overlaps[every, self.chosen]
            bad = np.flatnonzero(own)
            if not bad.size:
                return self._offsets()
            total = int(own.sum()) // 2
            least = min(least, total)
            change = self.overlaps[bad] - own[bad][:, None]
            change[(until[bad] > move) & (total + change >= least)] += _NEVER
            change[np.arange(len(bad)), self.chosen[bad]] = 3 * _NEVER
            ways = np.argwhere(change == change.min())
            which, place = ways[rng.randrange(len(ways))]
            block = int(bad[which])
            until[block, self.chosen[block]] = move + _TENURE[0] + rng.randrange(_TENURE[1]) + len(bad) // 2
            self._count(block, -1)
            self.chosen[block] = place
            self._count(block, 1)
        return None

    def _begin(self) -> None:
        """Scratch first, then rows as they are born, each where it overlaps the fewest, as high as it can."""
        blocks, scratch = self.grid.layout.blocks, self.grid.scratch
        keys = [(i not in scratch, blocks[i].born, -blocks[i].dies) for i in self.names]
        for block in sorted(range(len(self.names)), key=lambda k: keys[k]):
            self.chosen[block] = self.overlaps[block].argmin()
            self._count(block, 1)

    def _count(self, block: int, by: int) -> None:
        """Adds to the overlaps of all others those with a block where it is."""
        others, low, high = self.rivals[block]
        away = self.places[others] - self.places[block, self.chosen[block]]
        np.add.at(self.overlaps, others, by * ((away > low) & (away < high)))

    def _offsets(self) -> tuple[int, ...]:
        offsets = list(self.grid.offsets)
        for k, i in enumerate(self.names):
            offsets[i] = int(self.places[k, self.chosen[k]])
        return tuple(offsets)


def taken(layout: Layout, offsets: Sequence[int], i: int) -> list[Interval]:
    """The offsets that the blocks placed so far forbid a block, as open intervals that do not overlap, ascending.
    offsets: negative where a block has none."""
    return joined((offsets[j] + low, offsets[j] + high) for j, low, high in layout.rivals[i] if offsets[j] >= 0)


def highest(held: Sequence[Interval], most: int, step: int) -> int:
    """The largest multiple of step up to `most` that is in none of the intervals; negative: there is none."""
    at = most // step * step
    for low, high in reversed(held):
        if low < at < high:
            at = low // step * step
    return at


def lowest(held: Sequence[Interval], step: int) -> int:
    """The least multiple of step that is in none of the intervals."""
    at = 0
    for low, high in held:
        if low < at < high:
            at = -(-high // step) * step
    return at
