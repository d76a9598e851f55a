# SPDX-License-Identifier: Apache-2.0
"""Long layouts, placed stretch by stretch: legal, no higher than first fit, and equal stretches only once."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from tests.unit.test_plan_arena import assert_legal, least_height
from tinyc.plan import stretches
from tinyc.plan.arena import greedy_by_size, height, place
from tinyc.plan.blocks import Block, Layout, Member, conflicts
from tinyc.plan.instances import perfect
from tinyc.plan.stretches import place_by_stretches


def chain(seeds: Sequence[int], inside: int = 10) -> Layout:
    """Rectangles cut from one of 1,000 bytes in nine steps, and a block of 96 bytes that is alive in the last step
    of each and the first of the next."""
    blocks: list[Block] = []
    for number, seed in enumerate(seeds):
        begin = 9 * number
        blocks += [block(b.size, begin + b.born, begin + b.dies) for b in perfect(seed, inside, 9, 1000).layout.blocks]
        blocks.append(block(96, begin + 8, begin + 10))
    return Layout(tuple(blocks), conflicts(blocks, {}))


def block(size: int, born: int, dies: int) -> Block:
    return Block((Member(f"{size} from {born}", 0, size, born, dies),), align=1)


def live_bytes(layout: Layout) -> int:
    last = max(b.dies for b in layout.blocks)
    return max(sum(b.size for b in layout.blocks if b.born <= step < b.dies) for step in range(last))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("seed", range(12))
def test_as_low_as_what_is_alive(seed: int) -> None:
    """Where first fit is not, in any of its orders."""
    own_layout = chain(range(100 * seed, 100 * seed + 20))
    offsets = place(own_layout, live_bytes(own_layout))
    assert_legal(own_layout, offsets)
    assert live_bytes(own_layout) == height(own_layout, offsets) < height(own_layout, greedy_by_size(own_layout))


@pytest.mark.parametrize("seed", range(20))
def test_short_chains_beside_all_placements(seed: int) -> None:
    rng = random.Random(seed)
    blocks = [block(rng.randrange(1, 7), 2 * i, 2 * i + 3) for i in range(4)]
    blocks += [block(rng.randrange(1, 7), born := rng.randrange(8), born + rng.randrange(1, 3)) for _ in range(4)]
    own_layout = Layout(tuple(blocks), conflicts(blocks, {}))
    first = greedy_by_size(own_layout)
    offsets = place_by_stretches(own_layout, live_bytes(own_layout), first, height(own_layout, first)) or first
    assert_legal(own_layout, offsets)
    assert least_height(own_layout, live_bytes(own_layout), height(own_layout, first)) == height(own_layout, offsets)


def test_equal_stretches_are_placed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searches = 0

    class Counted(stretches.CeilingFit):
        def __init__(self, *given: object) -> None:
            nonlocal searches
            searches += 1
            super().__init__(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(stretches, "CeilingFit", Counted)
    place(chain([3] * 20), 0)
    of_twenty, searches = searches, 0
    place(chain([3] * 200), 0)
    assert 0 < searches <= 2 * of_twenty


def test_a_layout_that_is_narrow_nowhere_is_left_to_others() -> None:
    blocks = [block(64, i, i + 6) for i in range(100)]
    own_layout = Layout(tuple(blocks), conflicts(blocks, {}))
    assert place_by_stretches(own_layout, 0, greedy_by_size(own_layout), 1000) is None
