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
    rectangles,
)
from tinyc.plan.arena import FirstFit, greedy_by_size, height, place
from tinyc.plan.blocks import Block, Layout, Member, conflicts
from tinyc.plan.disjunctions import none_within
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


@pytest.mark.parametrize("merge", [True, False])
def test_too_small_an_arena_is_proved_to_be_so(merge: bool) -> None:
    """Of problems with rows that take the places of others, exactly below the least height of all offsets."""
    for seed in range(60):
        problem = random_problem(seed, 4, width=3, largest=9)
        order = graph_order(problem).tasks
        own_layout, bound = layout(problem, order, merge), lower_bound(problem, order)
        least = least_height(own_layout, bound, height(own_layout, greedy_by_size(own_layout)))
        assert none_within(own_layout, least - 1, looks=100_000)
        assert not none_within(own_layout, least, looks=100_000)


def test_a_proof_that_takes_too_long_is_none() -> None:
    own_layout = crowded(0, 40, 8, [1]).layout
    assert not none_within(own_layout, 1, looks=10) or max(block.size for block in own_layout.blocks) > 1
    assert none_within(own_layout, max(block.size for block in own_layout.blocks), looks=100_000)
    assert not none_within(own_layout, max(block.size for block in own_layout.blocks), looks=10)


def test_nobody_looks_on_where_nothing_is_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    own_layout = rectangles([(0, 2, 4), (1, 3, 6), (0, 3, 2)], align=4)
    monkeypatch.setattr(arena, "_anneal", None)
    assert height(own_layout, place(own_layout, 10, work=1000)) == 14


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [60, 150])
def test_near_the_live_bytes_where_greedy_by_size_is_not(seed: int, count: int) -> None:
    instance = crowded(seed, count, 50, [64, 128, 256, 512])
    own_layout, peak = instance.layout, instance.live_bytes
    offsets = place(own_layout, peak, work=300_000)
    assert_legal(own_layout, offsets)
    assert peak <= height(own_layout, offsets) <= height(own_layout, greedy_by_size(own_layout))
    assert height(own_layout, offsets) <= 1.03 * peak


def test_cut_rectangles_are_put_together_better_than_greedily() -> None:
    wasted, greedy_wasted = 0.0, 0.0
    for seed in range(6):
        instance = perfect(seed, 40, 30, 1000)
        own_layout, peak = instance.layout, instance.live_bytes
        offsets = place(own_layout, peak, work=600_000)
        assert_legal(own_layout, offsets)
        assert peak == 1000
        wasted += height(own_layout, offsets) / peak - 1
        greedy_wasted += height(own_layout, greedy_by_size(own_layout)) / peak - 1
    assert wasted < greedy_wasted / 2


@pytest.mark.parametrize("seed", range(30))
def test_a_change_taken_back_leaves_no_trace(seed: int) -> None:
    problem = random_problem(seed, 12, width=6)
    own_layout = layout(problem, graph_order(problem).tasks)
    rng = random.Random(seed)
    fit = FirstFit(own_layout, rng.sample(range(len(own_layout.blocks)), len(own_layout.blocks)))
    for _ in range(20):
        block = rng.randrange(len(own_layout.blocks))
        rank, to = fit.rank[block], rng.randrange(fit.rank[block] + 1)
        before = list(fit.order), list(fit.rank), list(fit.offsets)
        changed = fit.advance(block, to)
        assert fit.offsets == FirstFit(own_layout, fit.order).offsets  # as if placed anew in this order
        if rng.random() < 0.5:
            fit.take_back(block, rank, changed)
            assert (fit.order, fit.rank, fit.offsets) == before


def test_same_offsets_every_time() -> None:
    instance = perfect(3, 50, 30, 1000)
    own_layout, peak = instance.layout, instance.live_bytes
    assert place(own_layout, peak, work=100_000) == place(own_layout, peak, work=100_000)


def test_alignment() -> None:
    own_layout = rectangles([(0, 2, 5), (0, 2, 7), (0, 2, 1)], align=16)
    offsets = place(own_layout, 13)
    assert_legal(own_layout, offsets)
    assert height(own_layout, offsets) == 33


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
    monkeypatch.setattr(arena, "none_within", lambda *_: False)  # else a proof ends it
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
