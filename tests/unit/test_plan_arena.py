# SPDX-License-Identifier: Apache-2.0
"""Offsets: legal, optimal where all can be tried, and better than greedy-by-size."""

from __future__ import annotations

import importlib
import random
from collections.abc import Sequence

import pytest

from tests.unit.plan_problems import (
    layout,
    random_problem,
)
from tinyc.plan.arena import FirstFit, height, place
from tinyc.plan.blocks import Block, Layout, Member, conflicts
from tinyc.plan.instances import crowded, perfect
from tinyc.plan.live import lower_bound
from tinyc.plan.schedule import graph_order

arena = importlib.import_module("tinyc.plan.arena")


def assert_legal(own_layout: Layout, offsets: tuple[int, ...]) -> None:
    assert len(offsets) == len(own_layout.blocks)
    for i, block in enumerate(own_layout.blocks):
        assert offsets[i] >= 0
        assert offsets[i] % block.align == 0
        for j, intervals in own_layout.forbidden[i].items():
            assert not any(low < offsets[i] - offsets[j] < high for low, high in intervals)


def least_height(own_layout: Layout, lower: int, upper: int) -> int:
    """The smallest height of all offsets, by trying them."""

    def fits(offsets: list[int], limit: int) -> bool:
        i = len(offsets)
        if i == len(own_layout.blocks):
            return True
        for at in range(0, limit - own_layout.blocks[i].size + 1, own_layout.blocks[i].align):
            clash = any(
                low < at - offsets[j] < high
                for j, intervals in own_layout.forbidden[i].items()
                if j < i
                for low, high in intervals
            )
            if not clash and fits([*offsets, at], limit):
                return True
        return False

    return next(limit for limit in range(lower, upper + 1) if fits([], limit))


@pytest.mark.parametrize("seed", range(40))
def test_optimal_on_tiny_rectangles(seed: int) -> None:
    instance = crowded(seed, 6, 8, [1])
    own_layout, peak = instance.layout, instance.live_bytes
    offsets = place(own_layout, peak, work=20_000)
    assert_legal(own_layout, offsets)
    assert height(own_layout, offsets) == least_height(own_layout, peak, height(own_layout, offsets))


@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("seed", range(25))
def test_optimal_on_tiny_problems(seed: int, merge: bool) -> None:
    problem = random_problem(seed, 4, width=3, largest=9)
    order = graph_order(problem).tasks
    own_layout, bound = layout(problem, order, merge), lower_bound(problem, order)
    offsets = place(own_layout, bound, work=20_000)
    assert_legal(own_layout, offsets)
    assert bound <= height(own_layout, offsets) == least_height(own_layout, bound, height(own_layout, offsets))


def test_no_blocks() -> None:
    assert place(Layout((), ()), 0) == ()


@pytest.mark.parametrize("seed", [0, 4])
def test_little_work_for_the_last_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that nothing reaches, a thousandth below the rest: what is spent is what leads there."""
    spent: list[FirstFit] = []

    class Counted(FirstFit):
        def __init__(self, layout: Layout, order: Sequence[int]) -> None:
            super().__init__(layout, order)
            spent.append(self)

    instance = perfect(seed, 40, 30, 1000)
    monkeypatch.setattr(arena, "FirstFit", Counted)
    offsets = place(instance.layout, 0, work=1_000_000)
    reached, everything = height(instance.layout, offsets), sum(fit.work for fit in spent)
    spent.clear()
    again = place(instance.layout, reached - 1, work=1_000_000)
    assert height(instance.layout, again) == reached
    assert sum(fit.work for fit in spent) < everything / 10


@pytest.mark.parametrize("seed", range(20))
def test_rows_that_live_equally_long_forbid_what_each_of_them_does(seed: int) -> None:
    """Tensors of many rows, some of which die with their neighbours."""
    rng = random.Random(seed)

    def tall(name: str) -> Block:
        size, dies, members = rng.randrange(0, 4), rng.randrange(3, 6), list[Member]()
        for row in range(rng.randrange(1, 12)):
            dies += rng.choice([0, 0, 1])
            members.append(Member(f"{name} {row}", row * size, size, rng.choice([0, 0, 2]), dies))
        return Block(tuple(members), 1)

    a, b = tall("a"), tall("b")
    (_, of_b) = conflicts((a, b), {})
    apart = of_b.get(0, ())
    for distance in range(-50, 51):
        overlap = any(
            m.born < n.dies and n.born < m.dies and m.at < n.at + distance + n.size and n.at + distance < m.at + m.size
            for m in a.members
            for n in b.members
            if m.size and n.size
        )
        assert any(low < distance < high for low, high in apart) == overlap
