# SPDX-License-Identifier: Apache-2.0
"""The validator finds every kind of fault that is put into a good plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.unit.plan_problems import changed, layer, problem_of
from tinyc.kernel.kernel import Rows
from tinyc.plan import InvalidPlanError, Plan, Problem, SlidingInput, solve, validate
from tinyc.plan.answer import SLOW, Allocation

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
    solved = solve(PROBLEM)
    return moved(solved, x=8, a=0, b=0, c=32, y=40, pool=48, arena=68)


def moved(plan: Plan, **places: int) -> Plan:
    """The plan with other offsets (of tensors, or of the scratch of `pool`), or another `arena` size. What it reports
    of them says the same."""
    arena = places.pop("arena", plan.arena_bytes)
    scratch = places.pop("pool", plan.scratch_offsets["pool"][0])
    offsets = {**plan.row_offsets, **{name: (at,) for name, at in places.items()}}
    there = {name: at for name, (at,) in offsets.items()} | {"pool": scratch}
    return replace(
        plan,
        row_offsets=offsets,
        scratch_offsets={"pool": (scratch,)},
        allocations=tuple(replace(one, offset=there[one.what]) for one in plan.allocations),
        arena_bytes=arena,
        lower_bound_bytes=min(arena, plan.lower_bound_bytes),
    )


def in_order(plan: Plan, *groups: int) -> Plan:
    """The plan with these of its groups, in this order."""
    return replace(plan, groups=tuple(plan.groups[index] for index in groups))


def of(problem: Problem, plan: Plan) -> Plan:
    """The plan as one of this problem."""
    return replace(plan, problem=problem, forms=tuple(layer.whole for layer in problem.layers))


def slow(plan: Plan, size: int, **places: int) -> Plan:
    """The plan with places in a slow part of so many bytes."""
    return replace(moved(plan, **{name: SLOW + at for name, at in places.items()}), slow_bytes=size)


def test_a_slow_part_without_faults(plan: Plan) -> None:
    validate(slow(plan, 32, x=0))
    validate(slow(plan, 32, x=0, y=0))  # one dies before the other is made
    validate(slow(plan, 24, c=0, y=8))


def test_the_plan_without_faults(plan: Plan) -> None:
    validate(plan)


def reporting(plan: Plan, said: Callable[[Allocation], tuple[Allocation, ...]]) -> Plan:
    """The plan with something else in place of each allocation."""
    return replace(plan, allocations=tuple(other for one in plan.allocations for other in said(one)))


FAULTS: list[tuple[str, Callable[[Plan], Plan]]] = [
    ("each once", lambda p: in_order(p, 0, 1, 2)),
    ("each once", lambda p: in_order(p, 0, 1, 2, 3, 3)),
    ("before it is made", lambda p: in_order(p, 0, 2, 1, 3)),
    ("no place", lambda p: replace(p, row_offsets={k: v for k, v in p.row_offsets.items() if k != "c"})),
    ("no place", lambda p: replace(p, scratch_offsets={})),
    ("not aligned", lambda p: moved(p, c=34)),
    ("not aligned", lambda p: moved(p, pool=52, arena=72)),
    ("not aligned to 16", lambda p: replace(p, arena_align=8)),
    ("leaves the arena", lambda p: moved(p, arena=67)),
    ("leaves the arena", lambda p: moved(p, x=-4)),
    ("leaves the arena", lambda p: moved(p, y=56)),
    ("leaves the arena", lambda p: slow(p, 32, x=4)),
    ("leaves the arena", lambda p: slow(p, 0, x=0)),
    ("leaves the arena", lambda p: slow(moved(p, pool=80), 32, x=0)),  # scratch has no slow part
    ("not aligned", lambda p: slow(p, 36, x=2)),
    ("something is alive", lambda p: slow(p, 20, c=0, y=4)),
    ("lower bound", lambda p: replace(p, lower_bound_bytes=69)),
    ("input row", lambda p: moved(p, x=4)),  # one row closer than the window allows
    ("still needed", lambda p: moved(p, x=0)),
    ("still needed", lambda p: replace(p, bottom_up=frozenset({0}))),
    ("something is alive", lambda p: moved(p, b=4)),  # partly in place
    ("something is alive", lambda p: moved(p, c=28)),  # over an input that is read later
    ("something is alive", lambda p: moved(p, y=36)),
    ("something is alive", lambda p: moved(p, pool=16)),  # scratch over the input of its step
    ("something is alive", lambda p: moved(p, pool=32)),  # scratch over the output of its step
    ("reports no bytes", lambda p: reporting(p, lambda one: () if one.what == "a" else (one,))),
    ("do not cover", lambda p: reporting(p, lambda one: (replace(one, dies=1),))),
    ("do not cover", lambda p: reporting(p, lambda one: (replace(one, size=4),))),
    ("do not cover", lambda p: reporting(p, lambda one: (replace(one, offset=one.offset + 4),))),
    ("scratch of 'pool'", lambda p: reporting(p, lambda one: () if one.kind == "scratch" else (one,))),
    ("scratch of 'pool'", lambda p: reporting(p, lambda one: (replace(one, dies=4),))),
]


@pytest.mark.parametrize(("message", "fault"), FAULTS)
def test_faults_are_found(plan: Plan, message: str, fault: Callable[[Plan], Plan]) -> None:
    with pytest.raises(InvalidPlanError, match=message):
        validate(fault(plan))


def test_in_place_needs_the_kernels_leave(plan: Plan) -> None:
    tasks = tuple(changed(task, inplace=()) for task in PROBLEM.layers)
    with pytest.raises(InvalidPlanError, match="something is alive"):
        validate(of(replace(PROBLEM, layers=tasks), plan))


def test_in_place_needs_an_input_that_dies(plan: Plan) -> None:
    tasks = (*PROBLEM.layers[:3], layer("join", ("a", "b", "c"), ("y",)))
    with pytest.raises(InvalidPlanError, match=r"something is alive|do not cover"):
        validate(of(replace(PROBLEM, layers=tasks), plan))


def test_sliding_needs_rows_and_an_input_that_dies(plan: Plan) -> None:
    whole = (layer("conv", ("x",), ("a",)), *PROBLEM.layers[1:])
    with pytest.raises(InvalidPlanError, match="something is alive"):
        validate(of(replace(PROBLEM, layers=whole), plan))
    with pytest.raises(InvalidPlanError, match="something is alive"):
        # x is also an output of the model: it must survive
        validate(of(replace(PROBLEM, outputs=("x", "y")), replace_life(plan, "x", 4)))


def replace_life(plan: Plan, name: str, dies: int) -> Plan:
    return reporting(plan, lambda one: (replace(one, dies=dies) if one.what == name else one,))


def test_a_kernel_that_walks_by_itself_is_not_run_backwards(plan: Plan) -> None:
    tasks = (changed(PROBLEM.layers[0], sliding=SlidingInput("x", ROWS, forward=True)), *PROBLEM.layers[1:])
    validate(of(replace(PROBLEM, layers=tasks), plan))
    apart = moved(plan, x=0, a=32, b=32, c=0, y=64, pool=80, arena=100)
    backwards = replace(apart, bottom_up=frozenset({0}))
    validate(backwards)
    with pytest.raises(InvalidPlanError, match="cannot run bottom-up"):
        validate(of(replace(PROBLEM, layers=tasks), backwards))


def test_two_inputs_may_not_share_bytes() -> None:
    problem = problem_of((layer("t", ("p", "q"), ("y",)),), {"p": 8, "q": 8, "y": 8}, ("p", "q"), ("y",))
    good = solve(problem)
    place = good.offset("p") + 4
    closer = reporting(good, lambda one: (replace(one, offset=place) if one.what == "q" else one,))
    with pytest.raises(InvalidPlanError, match="the caller"):
        validate(replace(closer, row_offsets={**good.row_offsets, "q": (place,)}))
