# SPDX-License-Identifier: Apache-2.0
"""The exact solver agrees with brute force and proves what the heuristic only finds."""

from __future__ import annotations

import sys

import pytest

from tests.unit.plan_problems import layout, random_problem
from tests.unit.test_plan_arena import assert_legal, least_height
from tinyc.base.errors import TinycError
from tinyc.plan import solve
from tinyc.plan.arena import greedy_by_size, height
from tinyc.plan.exact import prove
from tinyc.plan.instances import perfect
from tinyc.plan.live import lower_bound
from tinyc.plan.schedule import graph_order


@pytest.mark.parametrize("seed", range(15))
def test_the_least_height_of_tiny_problems(seed: int) -> None:
    pytest.importorskip("ortools", reason="needs the extra `exact`")
    problem = random_problem(seed, 4, width=3, largest=9)
    order = graph_order(problem).tasks
    own_layout, bound = layout(problem, order, merge=False), lower_bound(problem, order)
    proof = prove(own_layout, bound, greedy_by_size(own_layout))
    assert_legal(own_layout, proof.offsets)
    least = least_height(own_layout, bound, height(own_layout, proof.offsets))
    assert proof.lower_bound == height(own_layout, proof.offsets) == least


def test_a_puzzle_is_solved() -> None:
    pytest.importorskip("ortools", reason="needs the extra `exact`")
    instance = perfect(2, 25, 20, 200)
    own_layout, peak = instance.layout, instance.live_bytes
    greedy = greedy_by_size(own_layout)
    proof = prove(own_layout, peak, greedy)
    assert_legal(own_layout, proof.offsets)
    assert height(own_layout, greedy) > height(own_layout, proof.offsets) == peak


@pytest.mark.parametrize("seed", range(10))
def test_exact_plans_are_never_larger(seed: int) -> None:
    pytest.importorskip("ortools", reason="needs the extra `exact`")
    problem = random_problem(seed, 10, width=6, largest=100)
    exact, plain = solve(problem, exact=True), solve(problem)
    assert exact.gap_bytes == 0
    assert exact.arena_bytes <= plain.arena_bytes


def test_without_the_solver_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ortools.sat.python.cp_model", None)
    instance = perfect(2, 25, 20, 200)
    own_layout, peak = instance.layout, instance.live_bytes
    with pytest.raises(TinycError, match="needs the package ortools") as caught:
        prove(own_layout, peak, greedy_by_size(own_layout))
    assert "pip install 'tinyc[exact]'" in caught.value.hint
