"""The planner's stages in order: order of steps, lifetimes, offsets, check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyc.ir.graph import Graph
from tinyc.plan.arena import height, place
from tinyc.plan.lifetimes import Layout, layout, lifetimes
from tinyc.plan.live import lower_bound
from tinyc.plan.problem import Alias, Buffer, Choice, Plan, Problem, Step, problem_of
from tinyc.plan.schedule import best_order, graph_order
from tinyc.plan.slide import slide_of
from tinyc.plan.validate import validate


def plan_graph(
    graph: Graph,
    choices: Mapping[str, Choice],
    *,
    slide: bool = False,
    align: int = 4,
    scratch_align: int = 16,
) -> Plan:
    """Order of the steps, lifetimes and arena offsets of a graph; `choices` by node name (views have none).

    Layer by layer: each step finishes its output before the next begins. With `slide`, the output of a row
    kernel may overlap the input that it uses up; Step.bottom_up then says which way its rows must run.
    The plan has been validated. Raises TinycError if an output of the model is a constant.
    """
    return solve(problem_of(graph, choices, slide=slide, align=align, scratch_align=scratch_align))


def solve(problem: Problem) -> Plan:
    """The smallest plan found: in the graph's own order unless another one gives a smaller arena."""
    best, given = best_order(problem), graph_order(problem)
    plan = _plan(problem, best.tasks, best.optimal)
    if given.tasks != best.tasks and lower_bound(problem, given.tasks) < plan.arena_bytes:
        other = _plan(problem, given.tasks, False)
        plan = min(other, plan, key=lambda p: p.arena_bytes)
    validate(problem, plan)
    return plan


def _plan(problem: Problem, order: Sequence[int], optimal: bool) -> Plan:
    bound = lower_bound(problem, order)
    plan = _placed(problem, order, layout(problem, order), bound)
    if plan.arena_bytes > bound:
        free = _placed(problem, order, layout(problem, order, merge=False), bound)
        plan = min(plan, free, key=lambda p: p.arena_bytes)
    return replace(plan, order_optimal=optimal)


def _placed(problem: Problem, order: Sequence[int], found: Layout, bound: int) -> Plan:
    starts = place(found, bound)
    offsets: dict[str, int] = {}
    scratch: dict[str, int] = {}
    for block, start in zip(found.blocks, starts, strict=True):
        where = scratch if block.scratch else offsets
        where.update({member.name: start + member.at for member in block.members})
    offsets |= {view: offsets[tensor] for view, tensor in problem.views.items()}
    return Plan(
        steps=_steps(problem, order, offsets),
        buffers=_buffers(problem, order, found),
        offsets=offsets,
        scratch_offsets=scratch,
        arena_bytes=height(found, starts),
        lower_bound_bytes=bound,
        arena_align=max(problem.align, problem.scratch_align),
        order_optimal=False,
    )


def _steps(problem: Problem, order: Sequence[int], offsets: Mapping[str, int]) -> tuple[Step, ...]:
    """Rows run top-down, except where the output lies so far into its input from above that they must not."""
    steps = []
    for index in order:
        task = problem.tasks[index]
        bottom_up = False
        if task.rows is not None:
            distance = offsets[task.writes[0]] - offsets[task.row_input]
            inplace = distance == 0 and task.row_input in task.inplace
            inside = slide_of(task.rows).low < distance < problem.sizes[task.row_input]
            bottom_up = inside and not inplace
        steps.append(Step(task.node, bottom_up))
    return tuple(steps)


def _buffers(problem: Problem, order: Sequence[int], found: Layout) -> tuple[Buffer, ...]:
    """Tensors by birth, each followed by its views, then scratch by step."""
    alive = lifetimes(problem, order)
    views: dict[str, list[str]] = {}
    for view, tensor in problem.views.items():
        views.setdefault(tensor, []).append(view)
    buffers = []
    for block in found.blocks:
        root = block.members[0].name
        for member in block.members:
            alias = None if member.name == root else Alias(root, member.at)
            size, align = member.size, block.align
            buffers.append(Buffer(member.name, size, align, member.born, member.dies, alias, block.scratch))
            if not block.scratch:
                for view in views.get(member.name, ()):
                    buffers.append(Buffer(view, size, align, *alive[member.name], Alias(member.name)))
    return tuple(sorted(buffers, key=lambda b: (b.scratch, b.born)))
