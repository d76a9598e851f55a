# SPDX-License-Identifier: Apache-2.0
"""Kernels chosen by cost under budgets: against brute force, and on a real layer."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.golden.test_emit import small_graph
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.select import FLASH_GRAIN, PRICE, Choice, Goal, candidates, choose, select
from tinyc.kernel.kernel import Call, Cost, Kernel, Offer, Once, Refused
from tinyc.plan.shrink import Budget, shrink

COSTS = st.tuples(st.integers(0, 1000), st.integers(0, 40))
CLASSES = st.lists(st.lists(COSTS, min_size=1, max_size=4), min_size=1, max_size=4)


KERNEL = Kernel("k", lambda site, params: Refused("nothing"))


def _choice(instructions: int, grains: int) -> Choice:
    site = SimpleNamespace(node=SimpleNamespace(where=None))
    cost = Cost(instructions, grains * FLASH_GRAIN, 0)
    return Choice(site, None, KERNEL, Offer(0, cost, Once(lambda: Call(()))), cost)


@settings(max_examples=200, deadline=None)
@given(CLASSES, st.integers(0, 120), st.sampled_from(sorted(PRICE)))
def test_the_choice_is_the_best_within_the_budget(classes, grains: int, optimize) -> None:
    found = {str(i): [_choice(*cost) for cost in options] for i, options in enumerate(classes)}
    goal = Goal(optimize, grains * FLASH_GRAIN)
    price = PRICE[optimize]

    def weight(cost: tuple[int, int]) -> int:
        flash = cost[1] * FLASH_GRAIN
        return Cost(cost[0], 0, 0).time + price * flash

    fitting = [c for c in itertools.product(*classes) if sum(cost[1] for cost in c) <= grains]
    if not fitting:
        with pytest.raises(TinycError, match="too few"):
            choose(found, goal)
        return
    chosen = [choice.cost for choice in choose(found, goal).values()]
    assert sum(cost.flash_bytes for cost in chosen) <= grains * FLASH_GRAIN
    got = sum(weight((cost.instructions, cost.flash_bytes // FLASH_GRAIN)) for cost in chosen)
    assert got == min(sum(map(weight, c)) for c in fitting)


def test_a_core_without_dsp_gets_portable_kernels() -> None:
    for choice in select(small_graph(), frozenset(), Numerics.TFLM).values():
        assert "dsp" not in choice.kernel.isa


def test_size_takes_no_more_flash_than_speed() -> None:
    found = candidates(small_graph(), frozenset({"dsp"}), Numerics.TFLM)
    flash = {
        goal: sum(choice.cost.flash_bytes for choice in choose(found, Goal(goal)).values())
        for goal in ("speed", "balanced", "size")
    }
    assert flash["size"] <= flash["balanced"] <= flash["speed"]


def test_an_operator_without_a_kernel_says_what_each_asks_for() -> None:
    graph = small_graph()
    y = graph.values["conv"]
    wide = replace(graph, values=graph.values | {"conv": replace(y, dtype="s16")})
    with pytest.raises(TinycError, match="tc_conv2d_s8 takes int8") as caught:
        select(wide, frozenset(), Numerics.TFLM)
    assert "layer/0" in str(caught.value.where)


def test_what_kernels_for_other_cores_ask_for_is_told_where_none_is_left_and_only_there() -> None:
    graph = small_graph()
    node = next(node for node in graph.nodes if node.op == "conv2d")
    with pytest.raises(TinycError, match="tc_conv2d_s8_mve takes a core with mve\n"):
        candidates(graph, frozenset({"dsp"}), Numerics.TFLM, {node.name: "tc_conv2d_s8_mve"})
    (refused,) = {choice.refused for choice in candidates(graph, frozenset({"dsp"}), Numerics.TFLM)[node.name]}
    assert "tc_conv2d_s16_dsp" in dict(refused)
    assert not any("a core with" in asks for _, asks in refused)


def test_shrinking_never_grows_the_arena_or_breaks_the_price() -> None:
    graph = small_graph()
    found = candidates(graph, frozenset({"dsp"}), Numerics.TFLM)
    chosen = choose(found, Goal())
    before = sum(choice.cost.time for choice in chosen.values())
    _, free = shrink(graph, found, chosen, Budget(0.0))
    for price in (0.05, 0.2, 1.0):
        choices, plan = shrink(graph, found, chosen, Budget(price))
        assert plan.arena_bytes <= free.arena_bytes
        assert sum(choice.cost.time for choice in choices.values()) <= before * (1 + price)
    _, least = shrink(graph, found, chosen, Budget(0.0, 1))
    assert least.arena_bytes <= free.arena_bytes


def test_shrinking_takes_no_more_flash_than_it_may() -> None:
    graph = small_graph()
    found = candidates(graph, frozenset({"dsp"}), Numerics.TFLM)
    chosen = choose(found, Goal("size"))
    flash = sum(choice.cost.flash_bytes for choice in chosen.values())
    choices, _ = shrink(graph, found, chosen, Budget(1.0, 1))
    assert sum(choice.cost.flash_bytes for choice in choices.values()) <= flash
