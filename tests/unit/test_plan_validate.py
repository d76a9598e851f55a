# SPDX-License-Identifier: Apache-2.0
"""The validator finds every kind of fault that is put into a good plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.plan_problems import changed, layer, problem_of
from tinyc.kernel.kernel import Rows
from tinyc.plan import InvalidPlanError, Plan, PlanStep, SlidingInput, solve, validate
from tinyc.plan.answer import SLOW

ROWS = Rows(8, 8, 3, 1, 1, 1, 4, 4, None)
PROBLEM = problem_of(
    layers=(
        layer("conv", ("x",), ("a",), sliding=SlidingInput("x", ROWS)),
        layer("relu", ("a",), ("b",), inplace=("a",)),
        layer("pool", ("b",), ("c",), scratch_bytes=20),
        layer("join", ("b", "c"), ("y",)),
    ),
    sizes={"x": 32, "a": 32, "b": 32, "c": 8, "y": 16},
    inputs=("x",),
    outputs=("y",),
    views={"flat": "b"},
)


@pytest.fixture
def plan() -> Plan:
    """Output of conv two rows below its input, relu in place."""
    found = solve(PROBLEM)
    return moved(found, x=8, a=0, b=0, flat=0, c=32, y=40, pool=48, arena=68)


def moved(plan: Plan, **places: int) -> Plan:
    """The plan with other offsets (of values, or of the scratch of `pool`), or another `arena` size."""
    arena = places.pop("arena", plan.arena_bytes)
    scratch = {"pool": places.pop("pool", plan.scratch_offsets["pool"])}
    offsets = {**plan.offsets, **places}
    bound = min(arena, plan.lower_bound_bytes)
    return replace(plan, offsets=offsets, scratch_offsets=scratch, arena_bytes=arena, lower_bound_bytes=bound)


def slow(plan: Plan, size: int, **places: int) -> Plan:
    """The plan with places in a slow part of so many bytes."""
    return replace(moved(plan, **{name: SLOW + at for name, at in places.items()}), slow_bytes=size)


def test_a_slow_part_without_faults(plan: Plan) -> None:
    validate(PROBLEM, slow(plan, 32, x=0))
    validate(PROBLEM, slow(plan, 32, x=0, y=0))  # one dies before the other is made
    validate(PROBLEM, slow(plan, 24, c=0, y=8))


def test_the_plan_without_faults(plan: Plan) -> None:
    validate(PROBLEM, plan)


FAULTS: list[tuple[str, Callable[[Plan], Plan]]] = [
    ("each once", lambda p: replace(p, steps=p.steps[:-1])),
    ("each once", lambda p: replace(p, steps=(*p.steps, p.steps[-1]))),
    ("before it is made", lambda p: replace(p, steps=(*p.steps[:1], p.steps[2], p.steps[1], p.steps[3]))),
    ("no place", lambda p: replace(p, offsets={k: v for k, v in p.offsets.items() if k != "c"})),
    ("no place", lambda p: replace(p, scratch_offsets={})),
    ("not aligned", lambda p: moved(p, c=34)),
    ("not aligned", lambda p: moved(p, pool=52, arena=72)),
    ("not aligned to 16", lambda p: replace(p, arena_align=8)),
    ("leaves the arena", lambda p: moved(p, arena=67)),
    ("leaves the arena", lambda p: moved(p, x=-4)),
    ("leaves the arena", lambda p: moved(p, y=56)),
    ("not where", lambda p: moved(p, flat=4)),
    ("leaves the arena", lambda p: slow(p, 32, x=4)),
    ("leaves the arena", lambda p: slow(p, 0, x=0)),
    ("leaves the arena", lambda p: slow(moved(p, pool=80), 32, x=0)),  # scratch has no slow part
    ("not aligned", lambda p: slow(p, 36, x=2)),
    ("something is alive", lambda p: slow(p, 20, c=0, y=4)),
    ("lower bound", lambda p: replace(p, lower_bound_bytes=69)),
    ("input row", lambda p: moved(p, x=4)),  # one row closer than the window allows
    ("still needed", lambda p: moved(p, x=0)),
    ("still needed", lambda p: replace(p, steps=(PlanStep("conv", bottom_up=True), *p.steps[1:]))),
    ("something is alive", lambda p: moved(p, b=4, flat=4)),  # partly in place
    ("something is alive", lambda p: moved(p, c=28)),  # over an input that is read later
    ("something is alive", lambda p: moved(p, y=36)),
    ("something is alive", lambda p: moved(p, pool=16)),  # scratch over the input of its step
    ("something is alive", lambda p: moved(p, pool=32)),  # scratch over the output of its step
    ("no buffer", lambda p: replace(p, buffers=tuple(b for b in p.buffers if b.name != "a"))),
    ("does not cover", lambda p: replace(p, buffers=tuple(replace(b, dies=1) for b in p.buffers))),
    ("does not cover", lambda p: replace(p, buffers=tuple(replace(b, size=4) for b in p.buffers))),
]


@pytest.mark.parametrize(("message", "fault"), FAULTS)
def test_faults_are_found(plan: Plan, message: str, fault: Callable[[Plan], Plan]) -> None:
    with pytest.raises(InvalidPlanError, match=message):
        validate(PROBLEM, fault(plan))


def test_in_place_needs_the_kernels_leave(plan: Plan) -> None:
    tasks = tuple(changed(task, inplace=()) for task in PROBLEM.layers)
    with pytest.raises(InvalidPlanError, match="something is alive"):
        validate(replace(PROBLEM, layers=tasks), plan)


def test_in_place_needs_an_input_that_dies(plan: Plan) -> None:
    tasks = (*PROBLEM.layers[:3], layer("join", ("a", "b", "c"), ("y",)))
    with pytest.raises(InvalidPlanError, match=r"something is alive|does not cover"):
        validate(replace(PROBLEM, layers=tasks), plan)


def test_sliding_needs_rows_and_an_input_that_dies(plan: Plan) -> None:
    whole = (layer("conv", ("x",), ("a",)), *PROBLEM.layers[1:])
    with pytest.raises(InvalidPlanError, match="something is alive"):
        validate(replace(PROBLEM, layers=whole), plan)
    with pytest.raises(InvalidPlanError, match="something is alive"):
        # x is also an output of the model: it must survive
        validate(replace(PROBLEM, outputs=("x", "y")), replace_life(plan, "x", 4))


def replace_life(plan: Plan, name: str, dies: int) -> Plan:
    return replace(plan, buffers=tuple(replace(b, dies=dies) if b.name == name else b for b in plan.buffers))


def test_a_kernel_that_walks_by_itself_is_not_run_backwards(plan: Plan) -> None:
    tasks = (changed(PROBLEM.layers[0], sliding=SlidingInput("x", ROWS, forward=True)), *PROBLEM.layers[1:])
    validate(replace(PROBLEM, layers=tasks), plan)
    apart = moved(plan, x=0, a=32, b=32, flat=32, c=0, y=64, pool=80, arena=100)
    backwards = replace(apart, steps=(PlanStep("conv", bottom_up=True), *plan.steps[1:]))
    validate(PROBLEM, backwards)
    with pytest.raises(InvalidPlanError, match="cannot run bottom-up"):
        validate(replace(PROBLEM, layers=tasks), backwards)


def test_two_inputs_may_not_share_bytes() -> None:
    problem = problem_of((layer("t", ("p", "q"), ("y",)),), {"p": 8, "q": 8, "y": 8}, ("p", "q"), ("y",))
    good = solve(problem)
    with pytest.raises(InvalidPlanError, match="the caller"):
        validate(problem, replace(good, offsets={**good.offsets, "q": good.offsets["p"] + 4}))
