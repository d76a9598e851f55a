# SPDX-License-Identifier: Apache-2.0
"""The planner's stages in order: order of steps, lifetimes, offsets, check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph
from tinyc.plan.answer import Alias, Buffer, Plan, PlanStep
from tinyc.plan.arena import WORK, height, place
from tinyc.plan.exact import prove
from tinyc.plan.lifetimes import Layout, layout, lifetimes
from tinyc.plan.live import lower_bound
from tinyc.plan.problem import Problem
from tinyc.plan.schedule import MAX_RUNS, best_order, graph_order
from tinyc.plan.slide import slide_of
from tinyc.plan.validate import validate
from tinyc.plan.whole import whole_problem


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
    kernel may overlap the input that it uses up; Step.bottom_up then says which way its rows must run.
    work: how long to look for offsets, see `arena.place`. With `fuse`, concats and slices that addresses can do are not
    run; None: where that takes no more bytes. The plan has been validated. Raises TinycError if an output of the model
    is a constant.
    """
    plan = draft_plan(graph, choices, slide=slide, work=work, fuse=fuse)
    validate(whole_problem(graph, choices, slide=slide, fuse=plan.fused), plan)
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
        return whole_problem(graph, choices, slide=slide, fuse=moves)

    problem = problem_with(fuse is not False)
    fused = bool(problem.joins or problem.cuts)
    plan = replace(_drafted(problem, work=work, runs=runs), fused=fused)
    if fuse is not None or not fused:
        return plan
    copied = _drafted(problem_with(False), work=work, runs=runs)
    return copied if copied.arena_bytes < plan.arena_bytes else plan


def solve(problem: Problem, exact: bool = False) -> Plan:
    """The smallest plan found, validated: in the graph's own order unless another one gives a smaller arena.

    exact: a plan above its lower bound goes to an exact solver, which improves it or raises the bound; TinycError where
    OR-tools is not installed.
    """
    plan = _drafted(problem, exact)
    validate(problem, plan)
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
    where = plan.scratch_offsets if block.scratch else plan.offsets
    return where[block.members[0].name] - block.members[0].at


def _assemble(problem: Problem, order: Sequence[int], found: Layout, starts: Sequence[int], bound: int) -> Plan:
    offsets: dict[str, int] = {}
    scratch: dict[str, int] = {}
    for block, start in zip(found.blocks, starts, strict=True):
        where = scratch if block.scratch else offsets
        where.update({member.name: start + member.at for member in block.members})
    plan = assembled(problem, order, offsets, scratch)
    return replace(plan, arena_bytes=height(found, starts), lower_bound_bytes=bound)


def assembled(problem: Problem, order: Sequence[int], tensors: Mapping[str, int], scratch: Mapping[str, int]) -> Plan:
    """The plan of an order with these places of tensors and, by node, of scratch. Without its bytes."""
    offsets = dict(tensors)
    offsets |= {view: offsets[tensor] for view, tensor in problem.views.items()}
    offsets |= {name: offsets[cut.of] + cut.offset for name, cut in problem.cuts.items()}
    return Plan(
        steps=_steps(problem, order, offsets),
        buffers=_buffers(problem, order, offsets),
        offsets=offsets,
        scratch_offsets=scratch,
        arena_bytes=0,
        lower_bound_bytes=0,
        arena_align=max(problem.unit, problem.scratch_unit),
        optimal=False,
    )


def _steps(problem: Problem, order: Sequence[int], offsets: Mapping[str, int]) -> tuple[PlanStep, ...]:
    """Rows run top-down, except where the output reaches into its input from above: then bottom-up."""
    steps = []
    for index in order:
        task = problem.layers[index]
        bottom_up = False
        sliding = task.whole.sliding
        if sliding is not None and not sliding.forward and sliding.tensor not in task.whole.inplace:
            distance = offsets[task.writes[0]] - offsets[sliding.tensor]
            bottom_up = slide_of(sliding.rows).low < distance < problem.tensors[sliding.tensor].size
        steps.append(PlanStep(task.node, bottom_up, bool(task.writes) and task.writes[0] in problem.joins))
    return tuple(steps)


def _buffers(problem: Problem, order: Sequence[int], offsets: Mapping[str, int]) -> tuple[Buffer, ...]:
    """Tensors by birth, each followed by its views; then scratch by step."""
    alive = lifetimes(problem, order)
    tasks = [problem.layers[index] for index in order]
    hosts: dict[str, Alias] = {}
    for step, task in enumerate(tasks):
        for name in task.whole.inplace:
            if alive[name][1] == step + 1 and offsets[name] == offsets[task.writes[0]]:
                hosts[task.writes[0]] = Alias(name)
    hosts |= {part.name: Alias(name, part.offset) for name, parts in problem.joins.items() for part in parts}
    views: dict[str, list[str]] = {}
    for view, tensor in problem.views.items():
        views.setdefault(tensor, []).append(view)
    buffers = []
    for name in sorted(problem.tensors, key=lambda n: alive[n][0]):
        size, life = problem.tensors[name].size, alive[name]
        buffers.append(Buffer(name, size, problem.unit, *life, hosts.get(name)))
        buffers += [Buffer(view, size, problem.unit, *life, Alias(name)) for view in views.get(name, ())]
    buffers += [
        Buffer(name, cut.size, problem.unit, *alive[cut.of], Alias(cut.of, cut.offset))
        for name, cut in problem.cuts.items()
    ]
    for step, task in enumerate(tasks):
        if task.whole.scratch_bytes:
            buffers.append(
                Buffer(task.node, task.whole.scratch_bytes, problem.scratch_unit, step, step + 1, scratch=True)
            )
    return tuple(buffers)
