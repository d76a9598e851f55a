# SPDX-License-Identifier: Apache-2.0
"""The order of the steps against all orders, on problems small enough to try them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.plan_problems import random_problem
from tinyc.plan.live import lower_bound, round_up
from tinyc.plan.problem import Problem, Task
from tinyc.plan.schedule import best_order, graph_order


def all_orders(problem: Problem) -> Iterator[tuple[int, ...]]:
    def extend(order: tuple[int, ...], made: set[str]) -> Iterator[tuple[int, ...]]:
        if len(order) == len(problem.tasks):
            yield order
        for i, task in enumerate(problem.tasks):
            if i not in order and made.issuperset(task.reads):
                yield from extend((*order, i), made | set(task.writes))

    return extend((), set(problem.inputs))


def peak_of(problem: Problem, order: tuple[int, ...]) -> int:
    """Most live bytes when no step saves any: written down once more, plainly."""
    peak = 0
    for step, index in enumerate(order):
        later = {name for i in order[step:] for name in problem.tasks[i].reads} | set(problem.outputs)
        made = set(problem.inputs) | {name for i in order[:step] for name in problem.tasks[i].writes}
        alive = (made & later) | set(problem.tasks[index].writes)
        scratch = round_up(problem.tasks[index].scratch_bytes, problem.align)
        peak = max(peak, sum(round_up(problem.sizes[name], problem.align) for name in alive) + scratch)
    return peak


def without_overlap(problem: Problem) -> Problem:
    tasks = tuple(Task(t.node, t.reads, t.writes, (), t.scratch_bytes) for t in problem.tasks)
    return Problem(tasks, problem.sizes, problem.inputs, problem.outputs, problem.views)


@pytest.mark.parametrize("seed", range(60))
def test_no_order_has_a_lower_peak(seed: int) -> None:
    problem = without_overlap(random_problem(seed, 6, width=6))
    found = best_order(problem)
    assert found.optimal
    assert found.tasks in set(all_orders(problem))
    assert found.peak == peak_of(problem, found.tasks)
    assert found.peak == min(peak_of(problem, order) for order in all_orders(problem))


@pytest.mark.parametrize("seed", range(60))
def test_no_order_has_a_lower_bound_with_overlap(seed: int) -> None:
    problem = random_problem(seed, 6, width=6, align=1)  # without rounding, the bound is the peak itself
    found = best_order(problem)
    least = min(lower_bound(problem, order) for order in all_orders(problem))
    inputs = sum(problem.sizes[name] for name in problem.inputs)
    assert max(found.peak, inputs) == max(least, inputs) == lower_bound(problem, found.tasks)


@pytest.mark.parametrize("seed", range(20))
def test_when_the_exact_search_gives_up_the_order_is_still_valid(seed: int) -> None:
    problem = random_problem(seed, 12, width=8)
    found, given = best_order(problem, max_runs=0), graph_order(problem)
    made = set(problem.inputs)
    for index in found.tasks:
        assert made.issuperset(problem.tasks[index].reads)
        made.update(problem.tasks[index].writes)
    assert sorted(found.tasks) == list(given.tasks)
    assert found.peak <= given.peak
    assert found.peak >= best_order(problem).peak


def test_the_beam_search_improves_a_bad_order() -> None:
    # Two branches; the graph makes both big tensors before it shrinks either.
    tasks = (
        Task("big a", ("x",), ("a",)),
        Task("big b", ("x",), ("b",)),
        Task("small a", ("a",), ("c",)),
        Task("small b", ("b",), ("d",)),
        Task("join", ("c", "d"), ("y",)),
    )
    problem = Problem(tasks, {"x": 4, "a": 100, "b": 100, "c": 4, "d": 4, "y": 4}, ("x",), ("y",))
    assert graph_order(problem).peak == 204
    for max_runs in (0, 1000):
        found = best_order(problem, max_runs)
        assert (found.peak, found.optimal) == (108, max_runs > 0)


def test_the_graphs_order_stays_when_nothing_is_gained() -> None:
    tasks = (Task("a", ("x",), ("a",)), Task("b", ("x",), ("b",)), Task("y", ("a", "b"), ("y",)))
    problem = Problem(tasks, {"x": 8, "a": 8, "b": 8, "y": 8}, ("x",), ("y",))
    assert best_order(problem).tasks == (0, 1, 2)


def test_no_tasks() -> None:
    problem = Problem((), {"x": 5}, ("x",), ("x",))
    assert best_order(problem).tasks == ()
    assert lower_bound(problem, ()) == 5
