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
    found, bound = layout(problem, order, merge=False), lower_bound(problem, order)
    proof = prove(found, bound, greedy_by_size(found))
    assert_legal(found, proof.offsets)
    least = least_height(found, bound, height(found, proof.offsets))
    assert proof.lower_bound == height(found, proof.offsets) == least


def test_a_puzzle_is_solved() -> None:
    pytest.importorskip("ortools", reason="needs the extra `exact`")
    instance = perfect(2, 25, 20, 200)
    found, peak = instance.layout, instance.live_bytes
    greedy = greedy_by_size(found)
    proof = prove(found, peak, greedy)
    assert_legal(found, proof.offsets)
    assert height(found, greedy) > height(found, proof.offsets) == peak


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
    found, peak = instance.layout, instance.live_bytes
    with pytest.raises(TinycError, match="needs the package ortools") as caught:
        prove(found, peak, greedy_by_size(found))
    assert "pip install 'tinyc[exact]'" in caught.value.hint
