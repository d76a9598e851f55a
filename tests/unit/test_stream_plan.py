# SPDX-License-Identifier: Apache-2.0
"""Streamed plans of random networks: valid, run row by row on one array of bytes, and small."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.ops.one_node import one_node, tensor
from tests.unit.stream_cases import (
    LEAST_ARENA,
    NUMERICS,
    Machine,
    by_cycles,
    graph_of_inputs,
    integer_graph,
    random_sample,
    smallest_plan,
)
from tinyc.base.numerics import Numerics
from tinyc.choose.select import candidates
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.ops.slice import Slice
from tinyc.passes import normalize
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.plan import InvalidPlanError, families, front, validate
from tinyc.plan.answer import Partition, Plan
from tinyc.plan.blocks import Block, Member
from tinyc.plan.builder import problem_of
from tinyc.plan.live import lower_bound_of
from tinyc.plan.placement import in_order, plan_of
from tinyc.plan.problem import Problem
from tinyc.plan.rows.cuts import cheapest, measure

SEEDS = range(10)


def streamed(seed: int, by_rows: bool = False) -> tuple[Graph, Plan]:
    graph = integer_graph(seed)
    plan = smallest_plan(graph, by_rows=by_rows)
    if plan is None:
        pytest.skip("no layer runs by rows")
    return graph, plan


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("by_rows", [False, True])
def test_every_row_is_right_when_the_plan_runs(seed: int, by_rows: bool) -> None:
    graph, plan = streamed(seed, by_rows)
    validate(plan)
    machine = Machine(graph, plan, NUMERICS, random_sample(graph, seed))
    assert machine.run() == []
    check_pieces(plan)


@pytest.mark.quick_cases(12)
@pytest.mark.parametrize("seed", range(60))
def test_every_row_is_right_with_several_inputs(seed: int) -> None:
    """Of the smallest arena, and where all layers run whole but one or more could run by rows."""
    graph = graph_of_inputs(seed)
    problem = problem_of(graph, candidates(graph, frozenset(), NUMERICS))
    plans = [plan_of(problem, in_order(problem, range(len(problem.layers))), work=1)]
    plans += [plan for plan in (smallest_plan(graph), cheapest_plan(problem)) if plan is not None]
    for plan in plans:
        validate(plan)
        assert not plan.refused
        assert Machine(graph, plan, NUMERICS, random_sample(graph, seed)).run() == []


def cheapest_plan(problem: Problem) -> Plan | None:
    """Of the least time, at any arena."""
    cut = cheapest(by_cycles(measure(problem)), 2**40)
    return None if cut is None else plan_of(problem, cut, work=1)


def on_one_heap(plan: Plan) -> Plan:
    """The plan with all tensors at byte 0: smaller, and wrong."""
    offsets = {name: tuple(0 for _ in rows) for name, rows in plan.row_offsets.items()}
    return replace(plan, row_offsets=offsets, arena_bytes=plan.lower_bound_bytes)


def test_a_plan_by_rows_that_is_refused_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """By one of the same turns whose rows do not move, and it says so."""
    graph = integer_graph(0)
    assert not streamed(0)[1].refused

    def wrong(problem: Problem, cut: Partition, work: int = 1, moves: bool = True) -> Plan:
        plan = plan_of(problem, cut, work, moves)
        return on_one_heap(plan) if moves else plan

    monkeypatch.setattr(families, "plan_of", wrong)
    plan = smallest_plan(graph)
    assert plan is not None
    validate(plan)
    assert plan.refused
    assert Machine(graph, plan, NUMERICS, random_sample(graph, 3)).run() == []


def test_a_plan_layer_by_layer_that_is_refused_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = integer_graph(0)
    every = candidates(graph, frozenset(), NUMERICS)

    def best() -> Plan:
        answer = front.Front(families.families_of(graph, every, up_to=0)).best(LEAST_ARENA)
        assert answer is not None
        return answer.plan

    assert not best().refused
    refused: list[Plan] = []

    def refuses_the_first(plan: Plan) -> None:
        if not refused:
            refused.append(plan)
            validate(on_one_heap(plan))
        validate(plan)

    monkeypatch.setattr(front, "validate", refuses_the_first)
    other = best()
    validate(other)
    assert other.refused
    assert Machine(graph, other, NUMERICS, random_sample(graph, 3)).run() == []


def check_pieces(plan: Plan) -> None:
    """The rectangles are where the plan says, inside the arena, and in its turns."""
    taken = {
        (p.what, p.row): p.offset for p in reversed(plan.allocations) if p.kind == "tensor"
    }  # where rows are first
    for name, offsets in plan.row_offsets.items():
        for row, offset in enumerate(offsets):
            assert taken.get((name, row), offset) == offset
    assert max(p.offset + p.size for p in plan.allocations) <= plan.arena_bytes
    assert all(0 <= p.born < p.dies <= len(plan.turns) for p in plan.allocations)


def moved(plan: Plan, name: str, row: int, at: int) -> Plan:
    offsets = plan.row_offsets[name]
    return replace(plan, row_offsets={**plan.row_offsets, name: (*offsets[:row], at, *offsets[row + 1 :])})


def broken(plan: Plan) -> Iterator[Plan]:
    """Plans with one mistake each."""
    rows = [p for p in plan.allocations if p.kind == "tensor" and not plan.is_contiguous(p.what)]
    for piece in rows[:: max(1, len(rows) // 12)]:
        yield moved(plan, piece.what, piece.row, plan.arena_bytes)
        alive = [p for p in plan.allocations if p.born < piece.born < p.dies - 1 and p.offset % plan.problem.unit == 0]
        yield from (moved(plan, piece.what, piece.row, p.offset) for p in alive[:2])
    for index, group in enumerate(plan.groups):
        if not group.is_whole and len(group.turns) > 1:
            for turns in (tuple(reversed(group.turns)), group.turns[:-1], group.turns[1:]):
                other = replace(group, turns=turns)
                yield replace(plan, groups=(*plan.groups[:index], other, *plan.groups[index + 1 :]))
    yield replace(plan, groups=plan.groups[:-1])
    yield replace(plan, lower_bound_bytes=plan.arena_bytes + 1)


@pytest.mark.parametrize("seed", [0, 2, 5])
def test_the_validator_refuses_mistakes(seed: int) -> None:
    _, plan = streamed(seed)
    for mistake in broken(plan):
        with pytest.raises(InvalidPlanError):
            validate(mistake)


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_fewer_bytes_never_cost_less(seed: int) -> None:
    """The cut is the cheapest within its bytes: more room cannot make it dearer."""
    graph = integer_graph(seed)
    problem = problem_of(graph, candidates(graph, frozenset(), NUMERICS))
    options = by_cycles(measure(problem))
    needs = sorted({o.need for c in options for choices in c.options for o in choices})
    cuts = [cheapest(options, limit) for limit in needs]
    weights = [cut.weight for cut in cuts if cut is not None]
    assert weights == sorted(weights, reverse=True)
    assert [cut is None for cut in cuts] == sorted((cut is None for cut in cuts), reverse=True)


# Bytes of the arena on a core with DSP instructions: input resident, and by rows.
PUBLISHED = {
    "kws": (3_900, 3_600),
    "ic": (10_700, 9_500),
    "vww": (28_200, 10_900),
    "ad": (768, 768),
    "sww": (3_100, 2_700),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.parametrize("by_rows", [False, True])
def test_published_models(name: str, by_rows: bool, models_dir: Path) -> None:
    path = models_dir / "mlperf_tiny" / f"{name}_int8.tflite"
    graph = drop_dead_channels(normalize(load_model(path)), Numerics.TFLM)
    plan = smallest_plan(graph, frozenset({"dsp"}), Numerics.TFLM, by_rows=by_rows)
    if plan is None:
        assert name == "ad"
        return
    assert plan.arena_bytes <= PUBLISHED[name][by_rows]
    assert Machine(graph, plan, Numerics.TFLM, random_sample(graph, 5)).run() == []


@pytest.mark.parametrize("first", [0, 3])
def test_the_whole_input_is_there_even_where_nobody_reads_it(first: int) -> None:
    x = tensor("x", (1, 6, 5, 4), 0.1, 3)
    graph = one_node("slice", Slice((0, first, 0, 0), (1, 2, 5, 4), (1, 1, 1, 1)), [x], 0.1, 3)
    plan = smallest_plan(graph)
    assert plan is not None
    validate(plan)
    assert plan.arena_bytes >= 6 * 5 * 4
    assert Machine(graph, plan, NUMERICS, random_sample(graph, first)).run() == []


@pytest.mark.parametrize("first", [0, 3])
def test_rows_that_nobody_reads_take_no_place(first: int) -> None:
    """Of an input that comes by rows."""
    x = tensor("x", (1, 6, 5, 4), 0.1, 3)
    graph = one_node("slice", Slice((0, first, 0, 0), (1, 2, 5, 4), (1, 1, 1, 1)), [x], 0.1, 3)
    plan = smallest_plan(graph, by_rows=True)
    assert plan is not None
    validate(plan)
    assert {p.row for p in plan.allocations if p.what == "x"} == {first, first + 1}
    assert Machine(graph, plan, NUMERICS, random_sample(graph, first)).run() == []


@pytest.mark.parametrize("seed", range(8))
def test_no_placement_is_below_the_lower_bound(seed: int) -> None:
    """Blocks whose live bytes begin between two units, as the later rows of a contiguous tensor do."""
    rng = np.random.default_rng(seed)
    unit, blocks = 4, []
    for _ in range(3):
        size = int(rng.integers(1, 8))
        rows = range(int(rng.integers(0, 3)), 3)
        blocks.append(Block(tuple(Member(f"{row}", row * size, size, 0, 1) for row in rows), unit))
    live = [[m.at + n for m in block.members for n in range(m.size)] for block in blocks]
    starts = range(0, sum(block.size for block in blocks), unit)
    least = min(
        max(at + block.size for at, block in zip(places, blocks, strict=True))
        for places in itertools.product(starts, repeat=3)
        if len(taken := [at + n for at, own in zip(places, live, strict=True) for n in own]) == len(set(taken))
    )
    assert lower_bound_of(blocks, 1, unit) <= least
