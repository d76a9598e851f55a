# SPDX-License-Identifier: Apache-2.0
"""The lowest place beside others: by lists, by arrays, and by trying all; blocks apart, member by member."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tinyc.plan.blocks import Block, Layout, Member, conflicts, joined
from tinyc.plan.ceiling import CeilingFit
from tinyc.plan.instances import crowded
from tinyc.plan.lowest import Places, lowest_of, lowest_of_many


def tried(taken: list[tuple[int, int]], align: int) -> int:
    """The first multiple of `align` that no interval has in it."""
    return next(at for at in range(0, 10_000, align) if not any(low < at < high for low, high in taken))


@pytest.mark.parametrize("seed", range(200))
def test_lists_and_arrays_find_the_lowest_place(seed: int) -> None:
    rng = random.Random(seed)
    align, taken = rng.choice([1, 4, 16]), []
    for _ in range(rng.randrange(1, 40)):
        low = rng.randrange(-200, 400)
        taken.append((low, low + rng.randrange(1, 60)))
    low, high = np.array(taken, np.int64).T
    assert lowest_of(taken, align) == lowest_of_many(low, high, align) == tried(taken, align)


def test_places_with_many_rivals_are_those_of_few() -> None:
    """Blocks placed in turn, some taken away again: arrays know of both."""
    layout = crowded(3, 300, 40, [1]).layout
    many = [i for i, arrays in enumerate(layout.many) if arrays is not None]
    assert many, "no block has rivals enough"
    rng, places = random.Random(1), Places(layout, {})
    for step in range(600):
        block = rng.randrange(len(layout.blocks))
        if places.offsets[block] >= 0 and step % 3 == 0:
            places.clear(block)
        else:
            places.clear(block)
            places.put(block, places.lowest(block))
        probe = rng.choice(many)
        at = places.offsets
        taken = [(at[j] + low, at[j] + high) for j, low, high in layout.rivals[probe] if at[j] >= 0]
        assert places.lowest(probe) == lowest_of(taken, layout.blocks[probe].align)


@pytest.mark.parametrize("seed", range(100))
def test_blocks_of_several_members_are_apart_as_all_pairs_say(seed: int) -> None:
    rng = random.Random(seed)
    blocks = []
    for number in range(2):
        members = []
        for k in range(rng.randrange(1, 9)):
            born = rng.randrange(12)
            size = rng.randrange(5)
            members.append(Member(f"{number} {k}", rng.randrange(20), size, born, born + rng.randrange(1, 6)))
        blocks.append(Block(tuple(members), 1))
    first, second = sorted(range(2), key=lambda i: (blocks[i].born, i))
    pairs = [
        (m.at - n.at - n.size, m.at - n.at + m.size)
        for m in blocks[first].members
        for n in blocks[second].members
        if m.size and n.size and m.born < n.dies and n.born < m.dies
    ]
    assert conflicts(blocks, {})[second].get(first, ()) == tuple(joined(pairs))


def test_what_is_placed_again_is_what_is_placed_from_the_beginning() -> None:
    """A search that leaves the first blocks where they are counts and finds what one that clears all does."""

    class FromScratch(CeilingFit):
        def _fit(self, places: Places, order: list[int], same: int, height: int) -> int | None:  # type: ignore[override]
            for i in self.rest:
                places.clear(i)
            return super()._fit(places, order, 0, height)

    instance = crowded(5, 60, 12, [1, 4])
    layout: Layout = instance.layout
    heights = [round(instance.live_bytes * factor) for factor in (0.95, 1, 1.02, 1.05, 1.1, 1.3, 2)]
    searches = []
    for search in (CeilingFit(layout, (), 2_000_000), FromScratch(layout, (), 2_000_000)):
        searches.append(([search.within(height, {}) for height in heights], search.work))
    assert searches[0] == searches[1]
    assert any(one is None for one in searches[0][0])
    assert any(one is not None for one in searches[0][0])
