# SPDX-License-Identifier: Apache-2.0
"""Placement from both ends: what is alive together never shares bytes, scratch lies on top, rows fit like bricks."""

from __future__ import annotations

import random

import pytest

from tinyc.plan.blocks import Block, Layout, Member, conflicts
from tinyc.plan.ends import place_from_ends


def layout_of(blocks: list[tuple[int, int, int, int]]) -> Layout:
    """Blocks of (size, born, dies, align)."""
    members = tuple(
        Block((Member(str(i), 0, size, born, dies),), align) for i, (size, born, dies, align) in enumerate(blocks)
    )
    return Layout(members, conflicts(members, {}))


def bound_of(layout: Layout) -> int:
    end = max(block.dies for block in layout.blocks)
    return max(sum(b.size for b in layout.blocks if b.born <= turn < b.dies) for turn in range(end))


def streamed(seed: int) -> tuple[Layout, list[int]]:
    """Rows that live a few turns each, and scratch in some turns; the numbers of the scratch blocks."""
    rng = random.Random(seed)
    rows = [(64, turn, turn + rng.randint(2, 5), 4) for turn in range(30)]
    scratch = [(rng.choice([36, 100, 212]), turn, turn + 1, 8) for turn in range(0, 30, 3)]
    return layout_of(rows + scratch), list(range(len(rows), len(rows) + len(scratch)))


@pytest.mark.parametrize("seed", range(5))
def test_nothing_overlaps_and_scratch_ends_at_the_top(seed: int) -> None:
    layout, top = streamed(seed)
    bound = bound_of(layout)
    starts = place_from_ends(layout, top, bound, 2 * bound, 100_000)
    assert starts is not None
    blocks = layout.blocks
    height = max(at + block.size for at, block in zip(starts, blocks, strict=True))
    assert bound <= height < 2 * bound
    for i, a in enumerate(blocks):
        assert starts[i] >= 0
        assert starts[i] % a.align == 0
        for j, b in enumerate(blocks[:i]):
            if a.born < b.dies and b.born < a.dies:
                assert starts[i] + a.size <= starts[j] or starts[j] + b.size <= starts[i]
    assert all(height - (starts[i] + blocks[i].size) < blocks[i].align for i in top)
    assert starts == place_from_ends(layout, top, bound, 2 * bound, 100_000)


def test_rows_under_scratch_of_odd_sizes_reach_the_bound() -> None:
    # First fit from 0 would stack rows on 36 and on 100 bytes; from the other end they are bricks.
    layout = layout_of([(64, 0, 3, 4), (64, 1, 4, 4), (64, 2, 5, 4), (36, 1, 2, 4), (100, 3, 4, 4)])
    starts = place_from_ends(layout, [3, 4], bound_of(layout), 1000, 10_000)
    assert starts is not None
    assert sorted(starts[:3]) == [0, 64, 128]
    assert starts[3:] == (192, 128)


def test_says_so_when_it_finds_nothing() -> None:
    layout, top = streamed(0)
    assert place_from_ends(layout, top, bound_of(layout), bound_of(layout), 100_000) is None
    assert place_from_ends(layout, [], 1, 10_000, 100_000) is None
