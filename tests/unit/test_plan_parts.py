# SPDX-License-Identifier: Apache-2.0
"""Arenas in two parts: what fits stays, what does not costs least, and the bytes are the reference's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import HOST_ISA, run_program
from tests.unit.stream_cases import NUMERICS, integer_graph, random_sample, smallest_plan
from tinyc.board import load_board
from tinyc.choose.select import candidates, select
from tinyc.emit.lower import lower
from tinyc.ir.graph import Graph
from tinyc.options.build import Options
from tinyc.pipeline.choosing import Candidates, Offers, lay_out
from tinyc.plan import plan_graph
from tinyc.plan.answer import SLOW, Plan
from tinyc.plan.parts import SlowPart, in_parts
from tinyc.plan.replay import InvalidPlanError
from tinyc.plan.validate import first_valid, validate
from tinyc.reference.interpreter import run_int

SLOW_RAM = SlowPart(1 << 20, 3.0, 1.5)


def whole(seed: int) -> tuple[Graph, Plan]:
    graph = integer_graph(seed)
    return graph, plan_graph(graph, select(graph, HOST_ISA, NUMERICS), slide=True)


def check_bytes(graph: Graph, plan: Plan, seed: int) -> None:
    validate(plan)
    program = lower(graph, plan, NUMERICS, "unit")
    inputs = [random_sample(graph, seed + n) for n in range(2)]
    for sample, got in zip(inputs, run_program(graph, program, inputs), strict=True):
        reference = run_int(graph, sample, NUMERICS)
        for name, array in zip(graph.outputs, got, strict=True):
            np.testing.assert_array_equal(array, reference[name])


@pytest.mark.parametrize("seed", [0, 2, 5, 8])
def test_steps_in_two_parts(seed: int) -> None:
    """Every share of the arena."""
    _, plan = whole(seed)
    scratch = max(form.scratch_bytes for form in plan.forms)
    waits = []
    for share in (0.9, 0.6, 0.3):
        most = max(int(share * plan.arena_bytes), -(-scratch // 16) * 16)
        if most >= plan.arena_bytes:
            continue
        parted = in_parts(plan, most, SLOW_RAM)
        assert parted is not None
        validate(parted)
        assert parted.arena_bytes <= -(-most // 16) * 16
        assert parted.slow_bytes > 0
        assert parted.order == plan.order
        assert all(at < SLOW for (at,) in parted.scratch_offsets.values())
        waits.append(parted.slow_waits)
    assert waits == sorted(waits)
    assert all(waits)


def test_a_slow_part_that_is_too_small_and_scratch_that_does_not_fit() -> None:
    _, plan = whole(0)
    half = plan.arena_bytes // 2
    assert in_parts(plan, half, SlowPart(4, 1.0, 1.0)) is None
    scratch = max(form.scratch_bytes for form in plan.forms)
    assert scratch
    assert in_parts(plan, scratch - 1, SLOW_RAM) is None


def test_waits_grow_with_those_of_the_memory() -> None:
    _, plan = whole(0)
    parted = in_parts(plan, int(0.8 * plan.arena_bytes), SLOW_RAM)
    dearer = in_parts(plan, int(0.8 * plan.arena_bytes), SlowPart(1 << 20, 6.0, 3.0))
    assert parted is not None
    assert dearer is not None
    assert dearer.slow_waits == 2 * parted.slow_waits


@pytest.mark.parametrize("seed", [0, 4])
def test_bytes_of_steps_in_two_parts(seed: int) -> None:
    graph, plan = whole(seed)
    parted = in_parts(plan, int(0.8 * plan.arena_bytes), SLOW_RAM)
    assert parted is not None
    check_bytes(graph, parted, seed)


@pytest.mark.parametrize("seed", [0, 3, 6])
def test_bytes_of_rows_in_two_parts(seed: int) -> None:
    graph = integer_graph(seed)
    plan = smallest_plan(graph, HOST_ISA)
    assert plan is not None
    parted = in_parts(plan, int(0.7 * plan.arena_bytes), SLOW_RAM)
    assert parted is not None
    assert 0 < parted.arena_bytes <= int(0.7 * plan.arena_bytes) + 16
    assert parted.slow_bytes > 0
    assert parted.turns == plan.turns
    check_bytes(graph, parted, seed)


def test_a_plan_in_two_parts_that_is_refused_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another is taken, and what the validator said of the better one comes with it."""
    graph, whole_plan = whole(4)
    board = load_board("cortex-m7-psram")
    forms = [Candidates(graph, candidates(graph, board.isa, NUMERICS))]
    options = Options(board.name, prefer="time", ram=int(0.8 * whole_plan.arena_bytes))

    def planned() -> Plan:
        return lay_out(Offers(forms, board, options), board, options)[0].plan

    good = planned()
    assert good.slow_bytes
    assert good.refused == ()

    def refuses(plan: Plan) -> None:
        if plan.slow_bytes:
            raise InvalidPlanError("two tensors in one place")
        validate(plan)

    monkeypatch.setitem(first_valid.__globals__, "validate", refuses)
    other = planned()
    assert not other.slow_bytes
    assert "two tensors in one place" in other.refused
