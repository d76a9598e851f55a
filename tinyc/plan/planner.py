# SPDX-License-Identifier: Apache-2.0
"""The planner's stages in order: order of steps, lifetimes, offsets, check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph
from tinyc.plan.answer import Allocation, Group, Plan
from tinyc.plan.arena import WORK, height, place
from tinyc.plan.builder import Freedom, whole_problem
from tinyc.plan.exact import prove
from tinyc.plan.lifetimes import Layout, layout, lifetimes
from tinyc.plan.live import lower_bound
from tinyc.plan.problem import WHOLE, Problem
from tinyc.plan.schedule import MAX_RUNS, best_order, graph_order
from tinyc.plan.slide import slide_of
from tinyc.plan.validate import validate


def plan_graph(
    graph: Graph,
    choices: Mapping[str, Choice],
    *,
    slide: bool = False,
    work: int = WORK,
    fuse: bool | None = None,
) -> Plan:
    """Order of the steps, lifetimes and arena offsets of a graph; `choices` by node name (views have none).

    Layer by layer: each step finishes its output before the next begins. With `slide`, the output of a row
    kernel may overlap the input that it uses up; Plan.bottom_up then says which way its rows must run.
    work: how long to look for offsets, see `arena.place`. With `fuse`, concats and slices that addresses can do are not
    run; None: where that takes no more bytes. The plan has been validated. Raises TinycError if an output of the model
    is a constant.
    """
    plan = draft_plan(graph, choices, slide=slide, work=work, fuse=fuse)
    validate(plan)
    return plan


def draft_plan(
    graph: Graph,
    choices: Mapping[str, Choice],
    *,
    slide: bool = False,
    work: int = WORK,
    runs: int = MAX_RUNS,
    fuse: bool | None = None,
) -> Plan:
    """As `plan_graph`, of many plans one, of which the one that is taken has to be validated. work: THOROUGH for the
    last of them. runs: how long to look for an order, see `best_order`."""

    def problem_with(moves: bool) -> Problem:
        return whole_problem(graph, choices, Freedom(slide=slide, fuse=moves))

    plan = _drafted(problem_with(fuse is not False), work=work, runs=runs)
    if fuse is not None or not plan.is_fused:
        return plan
    copied = _drafted(problem_with(False), work=work, runs=runs)
    return copied if copied.arena_bytes < plan.arena_bytes else plan


def solve(problem: Problem, exact: bool = False) -> Plan:
    """The smallest plan found, validated: in the graph's own order unless another one gives a smaller arena.

    exact: a plan above its lower bound goes to an exact solver, which improves it or raises the bound; TinycError where
    OR-tools is not installed.
    """
    plan = _drafted(problem, exact)
    validate(plan)
    return plan


def _drafted(problem: Problem, exact: bool = False, work: int = WORK, runs: int = MAX_RUNS) -> Plan:
    best, given = best_order(problem, runs), graph_order(problem)
    plan = plan_order(problem, best.tasks, exact, work)
    if given.tasks != best.tasks and lower_bound(problem, given.tasks) < plan.arena_bytes:
        other = plan_order(problem, given.tasks, exact, work)
        plan = other if other.arena_bytes <= plan.arena_bytes else plan
    least = lower_bound(problem, best.tasks)
    return replace(plan, optimal=best.optimal and plan.arena_bytes <= least)


def plan_order(problem: Problem, order: Sequence[int], exact: bool = False, work: int = WORK) -> Plan:
    """The plan of one order, not yet validated: in place wherever that is allowed; where it wastes bytes, where it
    helps."""
    bound = lower_bound(problem, order)
    merged = layout(problem, order)
    plan = _assemble(problem, order, merged, place(merged, bound, work), bound)
    if not plan.gap_bytes:
        return plan
    free = layout(problem, order, merge=False)
    if len(free.blocks) > len(merged.blocks):
        other = _assemble(problem, order, free, place(free, bound, work), bound)
        plan = other if other.arena_bytes < plan.arena_bytes else plan
    if not plan.gap_bytes or not exact:
        return plan
    starts = [_start(plan, free, i) for i in range(len(free.blocks))]
    proof = prove(free, bound, starts)
    return _assemble(problem, order, free, proof.offsets, proof.lower_bound)


def _start(plan: Plan, found: Layout, index: int) -> int:
    block = found.blocks[index]
    where = plan.scratch_offsets if block.scratch else plan.row_offsets
    return where[block.members[0].name][0] - block.members[0].at


def _assemble(problem: Problem, order: Sequence[int], found: Layout, starts: Sequence[int], bound: int) -> Plan:
    offsets: dict[str, int] = {}
    scratch: dict[str, int] = {}
    for block, start in zip(found.blocks, starts, strict=True):
        where = scratch if block.scratch else offsets
        where.update({member.name: start + member.at for member in block.members})
    return Plan(
        problem=problem,
        groups=tuple(Group(index, index + 1, ((index, WHOLE),)) for index in order),
        forms=tuple(layer.whole for layer in problem.layers),
        row_offsets={name: (at,) for name, at in offsets.items()},
        scratch_offsets={node: (at,) for node, at in scratch.items()},
        accumulator_offsets={},
        allocations=tuple(_allocations(problem, order, offsets, scratch)),
        arena_bytes=height(found, starts),
        lower_bound_bytes=bound,
        arena_align=max(problem.unit, problem.scratch_unit),
        bottom_up=frozenset(index for index in order if _runs_bottom_up(problem, index, offsets)),
    )


def _runs_bottom_up(problem: Problem, index: int, offsets: Mapping[str, int]) -> bool:
    """Rows run top-down, except where the output reaches into its input from above: then bottom-up."""
    layer = problem.layers[index]
    sliding = layer.whole.sliding
    if sliding is None or sliding.forward or sliding.tensor in layer.whole.inplace:
        return False
    distance = offsets[layer.writes[0]] - offsets[sliding.tensor]
    return slide_of(sliding.rows).low < distance < problem.tensors[sliding.tensor].size


def _allocations(
    problem: Problem, order: Sequence[int], tensors: Mapping[str, int], scratch: Mapping[str, int]
) -> Iterator[Allocation]:
    """Of tensors by birth, then of scratch by step."""
    alive = lifetimes(problem, order)
    for name in sorted(problem.tensors, key=lambda name: alive[name][0]):
        born, dies = alive[name]
        yield Allocation(name, 0, tensors[name], problem.tensors[name].size, max(born, 0), dies)
    for step, index in enumerate(order):
        layer = problem.layers[index]
        if size := layer.whole.scratch_bytes:
            yield Allocation(layer.node, 0, scratch[layer.node], size, step, step + 1, "scratch")
