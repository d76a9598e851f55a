"""Smaller arena: kernels with less scratch, or whose output may overlap its input, where the arena peaks.

The choice of kernels decides what the planner can do, and the planner decides which kernels matter. So
this is a loop around both: change one kernel at a step where the arena is fullest, plan again, keep the
change if the arena shrinks (or fewer steps are as full) and the inference does not grow too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from tinyc.ir.graph import Graph
from tinyc.plan import MAX_RUNS, THOROUGH, WORK, Plan, plan_graph
from tinyc.select import Choice

Memory = Literal["speed", "balanced", "min"]
# How much longer an inference may take, in estimated time (`Cost.time`), for a smaller arena.
MEMORY_PRICE: Mapping[str, float] = {"speed": 0.0, "balanced": 0.05, "min": 0.2}


LARGE = 64  # nodes; of larger graphs fewer plans are tried, and each with less effort
PLANS = 400
QUICK_WORK, QUICK_RUNS = 100_000, 1_000


def shrink(
    graph: Graph,
    found: Mapping[str, Sequence[Choice]],
    choices: Mapping[str, Choice],
    price: float,
    ram_bytes: int | None,
    flash_bytes: int | None = None,
) -> tuple[dict[str, Choice], Plan]:
    """Choices and their plan, with an arena as small as `price` (a share of all time) buys.

    Above `ram_bytes` any price in time is paid. Constants and code stay within `flash_bytes`, None: within
    what `choices` take. found: all candidates of each node.
    """
    now, plan = dict(choices), plan_graph(graph, choices, slide=True)
    best = now, plan  # the first with its arena: fewer full steps alone are worth nothing in the end
    ceiling = _time(now) * (1 + price)
    room = max(_flash(now), flash_bytes or 0)
    large = len(now) > LARGE
    left = PLANS // 8 if large else PLANS
    work, runs = (QUICK_WORK, QUICK_RUNS) if large else (WORK, MAX_RUNS)
    while True:
        over = ram_bytes is not None and plan.arena_bytes > ram_bytes
        tried: list[tuple[tuple[int, int], int, int, dict[str, Choice], Plan]] = []
        for node in _fullest(plan):
            for other in found.get(node, ()):
                changed = now | {node: other}
                allowed = left > 0 and (over or _time(changed) <= ceiling) and _flash(changed) <= room
                if other is now[node] or not allowed:
                    continue
                left -= 1
                replanned = plan_graph(graph, changed, slide=True, work=work, runs=runs)
                tried.append((_fullness(replanned), _time(changed), len(tried), changed, replanned))
        if not tried or min(tried)[0] >= _fullness(plan):
            return _polished(graph, *best)
        _, _, _, now, plan = min(tried)
        if plan.arena_bytes < best[1].arena_bytes:
            best = now, plan


def _polished(graph: Graph, choices: dict[str, Choice], plan: Plan) -> tuple[dict[str, Choice], Plan]:
    """The same choices, planned more thoroughly if their plan is above its bound."""
    if not plan.gap_bytes:
        return choices, plan
    again = plan_graph(graph, choices, slide=True, work=THOROUGH)
    return choices, again if again.arena_bytes < plan.arena_bytes else plan


def _time(choices: Mapping[str, Choice]) -> int:
    return sum(choice.cost.time for choice in choices.values())


def _flash(choices: Mapping[str, Choice]) -> int:
    return sum(choice.cost.flash_bytes for choice in choices.values())


def _fullness(plan: Plan) -> tuple[int, int]:
    """(arena bytes, steps that need them all): less is better."""
    return plan.arena_bytes, len(_fullest(plan))


def _fullest(plan: Plan) -> list[str]:
    """Nodes of the steps in which the arena is used to its end."""
    ends: dict[int, int] = {}
    for buffer in plan.buffers:
        at = plan.scratch_offsets[buffer.name] if buffer.scratch else plan.offsets[buffer.name]
        for step in range(max(buffer.born, 0), buffer.dies):
            ends[step] = max(ends.get(step, 0), at + buffer.size)
    return [plan.steps[step].node for step in sorted(ends) if ends[step] == plan.arena_bytes and step < len(plan.steps)]
