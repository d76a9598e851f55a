# SPDX-License-Identifier: Apache-2.0
"""The order of the steps against all orders, on problems small enough to try them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.plan_problems import layer, problem_of, random_problem, sizes_of
from tinyc.plan.live import lower_bound, round_up
from tinyc.plan.problem import Problem
from tinyc.plan.schedule import best_order, graph_order, lightest_order


def all_orders(problem: Problem) -> Iterator[tuple[int, ...]]:
    def extend(order: tuple[int, ...], written: set[str]) -> Iterator[tuple[int, ...]]:
        if len(order) == len(problem.layers):
            yield order
        for i, task in enumerate(problem.layers):
            if i not in order and written.issuperset(task.reads):
                yield from extend((*order, i), written | set(task.writes))

    return extend((), set(problem.inputs))


def peak_of(problem: Problem, order: tuple[int, ...]) -> int:
    """Most live bytes when no step saves any."""
    return max(bytes_of_steps(problem, order), default=0)


def bytes_of_steps(problem: Problem, order: tuple[int, ...]) -> Iterator[int]:
    """Live bytes of each step when none saves any: written down once more, plainly."""
    for step, index in enumerate(order):
        later = {name for i in order[step:] for name in problem.layers[i].reads} | set(problem.outputs)
        written = set(problem.inputs) | {name for i in order[:step] for name in problem.layers[i].writes}
        alive = (written & later) | set(problem.layers[index].writes)
        scratch = round_up(problem.layers[index].whole.scratch_bytes, problem.unit)
        yield sum(round_up(problem.tensors[name].size, problem.unit) for name in alive) + scratch


def without_overlap(problem: Problem) -> Problem:
    tasks = tuple(layer(t.node, t.reads, t.writes, (), t.whole.scratch_bytes) for t in problem.layers)
    return problem_of(tasks, sizes_of(problem), problem.inputs, problem.outputs, views=problem.views)


@pytest.mark.parametrize("seed", range(60))
def test_no_order_has_a_lower_peak(seed: int) -> None:
    problem = without_overlap(random_problem(seed, 6, width=6))
    order_of = best_order(problem)
    assert order_of.optimal
    assert order_of.tasks in set(all_orders(problem))
    assert order_of.peak == peak_of(problem, order_of.tasks)
    assert order_of.peak == min(peak_of(problem, order) for order in all_orders(problem))


@pytest.mark.parametrize("seed", range(60))
def test_no_order_of_the_lowest_peak_is_lighter(seed: int) -> None:
    """Live bytes of all steps together."""
    problem = without_overlap(random_problem(seed, 6, width=6))
    orders = [order for order in all_orders(problem) if peak_of(problem, order) == best_order(problem).peak]
    lightest = lightest_order(problem)
    assert lightest in orders
    assert sum(bytes_of_steps(problem, lightest)) == min(sum(bytes_of_steps(problem, order)) for order in orders)


@pytest.mark.parametrize("seed", range(20))
def test_a_search_for_the_lightest_that_gives_up_takes_the_best(seed: int) -> None:
    problem = random_problem(seed, 12, width=8)
    assert lightest_order(problem, max_runs=0) == best_order(problem, max_runs=0).tasks


@pytest.mark.parametrize("seed", range(60))
def test_no_order_has_a_lower_bound_with_overlap(seed: int) -> None:
    problem = random_problem(seed, 6, width=6, align=1)  # without rounding, the bound is the peak itself
    order_of = best_order(problem)
    least = min(lower_bound(problem, order) for order in all_orders(problem))
    inputs = sum(problem.tensors[name].size for name in problem.inputs)
    assert max(order_of.peak, inputs) == max(least, inputs) == lower_bound(problem, order_of.tasks)


@pytest.mark.parametrize("seed", range(20))
def test_when_the_exact_search_gives_up_the_order_is_still_valid(seed: int) -> None:
    problem = random_problem(seed, 12, width=8)
    order_of, given = best_order(problem, max_runs=0), graph_order(problem)
    written = set(problem.inputs)
    for index in order_of.tasks:
        assert written.issuperset(problem.layers[index].reads)
        written.update(problem.layers[index].writes)
    assert sorted(order_of.tasks) == list(given.tasks)
    assert order_of.peak <= given.peak
    assert order_of.peak >= best_order(problem).peak


def test_the_beam_search_improves_a_bad_order() -> None:
    # Two branches; the graph makes both big tensors before it shrinks either.
    tasks = (
        layer("big a", ("x",), ("a",)),
        layer("big b", ("x",), ("b",)),
        layer("small a", ("a",), ("c",)),
        layer("small b", ("b",), ("d",)),
        layer("join", ("c", "d"), ("y",)),
    )
    problem = problem_of(tasks, {"x": 4, "a": 100, "b": 100, "c": 4, "d": 4, "y": 4}, ("x",), ("y",))
    assert graph_order(problem).peak == 204
    for max_runs in (0, 1000):
        order_of = best_order(problem, max_runs)
        assert (order_of.peak, order_of.optimal) == (108, max_runs > 0)


def test_the_graphs_order_stays_when_nothing_is_gained() -> None:
    tasks = (layer("a", ("x",), ("a",)), layer("b", ("x",), ("b",)), layer("y", ("a", "b"), ("y",)))
    problem = problem_of(tasks, {"x": 8, "a": 8, "b": 8, "y": 8}, ("x",), ("y",))
    assert best_order(problem).tasks == (0, 1, 2)


def test_no_tasks() -> None:
    problem = problem_of((), {"x": 5}, ("x",), ("x",))
    assert best_order(problem).tasks == ()
    assert lower_bound(problem, ()) == 5
