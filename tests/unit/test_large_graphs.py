# SPDX-License-Identifier: Apache-2.0
"""Graphs of hundreds of layers are planned in bounded effort, counted and not timed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tinyc.base.numerics import Numerics
from tinyc.choose.select import candidates
from tinyc.plan import Plan, draft_plan, families, front
from tinyc.plan.builder import problem_of
from tinyc.plan.rows import cuts
from tinyc.plan.rows.cuts import WORK, measure
from tinyc.plan.turns import ORDERS
from tinyc.plan.uses import uses_of
from tinyc.plan.validate import validate
from tinyc.plan.worth import Worth

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import large_graphs

ISA = frozenset[str]()
COUNT = 100
MOST_PLANS = 4


@pytest.fixture(scope="module")
def network() -> large_graphs.Graph:
    return large_graphs.network(COUNT)


def test_the_generator_makes_chains_and_blocks(network: large_graphs.Graph) -> None:
    assert COUNT <= len(network.nodes) <= COUNT + 5
    assert {node.op for node in network.nodes} == {"conv2d", "depthwise_conv2d", "add"}
    assert len({network.values[node.outputs[0]].shape for node in network.nodes}) == 2


def test_few_plans_of_a_large_graph_are_tried(network: large_graphs.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def counted(*args: object, **options: object) -> Plan:
        plans.append(draft_plan(*args, **options))  # type: ignore[arg-type]
        return plans[-1]

    monkeypatch.setattr(families, "draft_plan", counted)
    offered = families.families_of(network, candidates(network, ISA, Numerics.TFLM), up_to=0)
    for worth in (Worth(0.02, 0.02), Worth(1 / 3, 4)):
        plans.clear()
        best = front.Front(offered).best(worth)
        assert best is not None
        assert len(plans) <= MOST_PLANS
        assert best.plan.gap_bytes == 0


def test_of_the_plans_that_are_tried_the_one_that_is_taken_is_validated(
    network: large_graphs.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def counted(plan: Plan) -> None:
        seen.append(plan)
        validate(plan)

    monkeypatch.setattr(front, "validate", counted)
    offered = families.families_of(network, candidates(network, ISA, Numerics.TFLM), up_to=0)
    best = front.Front(offered).best(Worth(0.02, 0.02))
    assert best is not None
    assert seen == [best.plan]


def test_very_large_graphs_have_no_rows_where_that_is_not_asked_for(network: large_graphs.Graph) -> None:
    every = candidates(network, ISA, Numerics.TFLM)
    (whole,) = families.families_of(network, every, up_to=COUNT - 1)
    assert whole.problem is None
    assert len(families.families_of(network, every, up_to=len(network.nodes))) == 2


@pytest.mark.slow
def test_groups_of_a_large_graph_are_tried_as_far_as_the_work_allows(network: large_graphs.Graph) -> None:
    choices = candidates(network, ISA, Numerics.TFLM)
    problem = problem_of(network, choices)
    measured = measure(problem)
    alone = sum(layer.walk.turns if layer.walk else 1 for layer in problem.layers)
    longer = [one.group for one in measured if one.group.stop - one.group.start > 1]
    assert longer
    assert sum(len(group.turns) for group in longer) <= WORK
    assert sum(len(one.group.turns) for one in measured) <= WORK + 3 * alone


@pytest.mark.parametrize("work", [WORK, 5_000, 300])
def test_groups_lie_between_the_narrowest_places(
    network: large_graphs.Graph, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same groups as by looking at every tensor for every place, and at every group for the work."""
    problem = problem_of(network, candidates(network, ISA, Numerics.TFLM))
    uses, count = uses_of(problem), len(problem.layers)
    monkeypatch.setattr(cuts, "WORK", work)

    def crossing(place: int) -> int:
        computed = [name for name in problem.tensors if uses.maker[name] >= 0]
        return sum(problem.tensors[name].size for name in computed if uses.maker[name] < place <= uses.last[name])

    def groups(places: list[int]) -> set[tuple[int, int]]:
        pairs = {(start, stop) for stop in places for start in places if start < stop}
        alone = {(stop - 1, stop) for stop in places if stop}
        return {pair for pair in pairs | alone if all(layer.walk is not None for layer in problem.layers[slice(*pair)])}

    def turns(start: int, stop: int) -> int:
        return sum(layer.walk.turns for layer in problem.layers[start:stop] if layer.walk is not None)

    places = sorted(range(count + 1), key=lambda place: (crossing(place), place))
    while ORDERS * sum(turns(*pair) for pair in groups(places)) > work:
        places = places[: len(places) * 3 // 4]
    expected = groups(places) | {
        (index, index + 1) for index, layer in enumerate(problem.layers) if layer.walk is not None
    }
    assert {(one.start, one.stop) for one in measure(problem) if not one.is_whole} == expected
