# SPDX-License-Identifier: Apache-2.0
"""How a model's arena is laid out: layer by layer, or streamed row by row, by what memory and time are worth.

Layer by layer needs no tables of rows and has the faster kernels, so a streamed plan has to be smaller by more than a
little, unless the smallest arena is wanted or nothing else fits the RAM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tinyc.base.errors import TinycError
from tinyc.choose.select import FLASH_PER_RAM, Choice
from tinyc.ir.graph import Graph
from tinyc.kernel.kernel import instructions_of
from tinyc.options.build import Memory, Optimize
from tinyc.plan.answer import Plan
from tinyc.plan.parts import SlowPart, in_parts
from tinyc.plan.persistent import place_states, state_bytes
from tinyc.plan.planner import draft_plan
from tinyc.plan.replay import InvalidPlanError
from tinyc.plan.rows import Limits, plan_incremental, plan_streamed
from tinyc.plan.shrink import MEMORY_PRICE, Budget, shrink, time_of
from tinyc.plan.validate import first_valid

# A streamed arena has to be smaller than this share of the one layer by layer.
WORTHWHILE: Mapping[str, float] = {"speed": 0.0, "balanced": 0.9, "min": 1.0}
# How much longer an inference may take by rows, as shares of `Aim.price`: most of what rows cost is loads, and weights
# of half the bytes take more instructions in fewer cycles.
OF_TIME = 2.4
_OF_INSTRUCTIONS = 1.5
# What a share of the arena is worth in shares of time, of plans within that.
EXCHANGE: Mapping[str, float] = {"speed": 0.05, "balanced": 1.0}
# Layers. More take minutes to plan row by row: only if the smallest arena is wanted, or nothing else fits.
STREAMED_UP_TO = 400


@dataclass(frozen=True, slots=True)
class Aim:
    """What an arena is laid out for. ram_bytes: above them any time is paid. flash_bytes: of constants and code, None:
    what the fastest kernels take. slow: a second RAM, for tensors that `ram_bytes` has no room for."""

    optimize: Optimize = "speed"
    memory: Memory = "balanced"
    ram_bytes: int | None = None
    flash_bytes: int | None = None
    slow: SlowPart | None = None

    @property
    def price(self) -> float:
        """The share of time that may be paid for a smaller arena."""
        return MEMORY_PRICE[self.memory]

    @property
    def flash_per_ram(self) -> int:
        """Bytes of flash for a byte of arena: of equal worth where both are asked to be small."""
        return FLASH_PER_RAM[self.optimize] or int(self.memory == "min")


@dataclass(frozen=True, slots=True)
class Kernels:
    """choices: all candidates of each node. chosen: the fastest of them that the flash allows."""

    choices: Mapping[str, Sequence[Choice]]
    chosen: Mapping[str, Choice]


def plan_memory(graph: Graph, kernels: Kernels, aim: Aim, by_rows: bool = False) -> Plan:
    """The plan, with the kernel of each layer. by_rows: the input comes row by row; TinycError if it cannot."""
    if graph.states:
        return _with_states(graph, kernels, aim, by_rows)
    if by_rows:
        return _by_rows(graph, kernels, aim)
    return _in_parts(graph, kernels, aim, _in_one_part(graph, kernels, aim))


def _in_one_part(graph: Graph, kernels: Kernels, aim: Aim) -> Plan:
    """Layer by layer or row by row, all in the fast RAM."""
    changed, plan = _layer_by_layer(graph, kernels, aim)
    fits = aim.ram_bytes is None or plan.arena_bytes <= aim.ram_bytes
    if fits and (aim.memory == "speed" or (aim.memory == "balanced" and len(changed) > STREAMED_UP_TO)):
        return _checked(graph, changed, plan)
    limits = _limits(kernels, aim)
    if fits:
        limits = _worth(limits, kernels, aim, plan.arena_bytes)
    try:
        streamed = plan_streamed(graph, kernels.choices, aim.optimize, limits)
    except InvalidPlanError as error:
        return replace(_checked(graph, changed, plan), refused=(str(error),))
    if streamed is None or not _is_better(streamed, changed, plan, aim, limits):
        return _checked(graph, changed, plan)
    return streamed


def _checked(graph: Graph, chosen: Mapping[str, Choice], plan: Plan) -> Plan:
    """The plan, validated; or one with the same kernels in which nothing shares bytes with what it is made of."""

    def plans() -> Iterator[Plan]:
        yield plan
        yield draft_plan(graph, chosen, fuse=False)

    return first_valid(plans())


def _in_parts(graph: Graph, kernels: Kernels, aim: Aim, plan: Plan) -> Plan:
    """The fastest plan that fits: the one found, where it does without the slow RAM and takes no more time for that
    than a smaller arena is worth; or one with tensors in the slow RAM."""
    limit, slow = aim.ram_bytes, aim.slow
    if slow is None or limit is None:
        return plan
    fits = plan.arena_bytes <= limit
    if fits and _time(plan) <= _limits(kernels, aim).time:
        return plan
    free = plan if graph.states else _in_one_part(graph, kernels, replace(aim, ram_bytes=None))
    _, whole = _layer_by_layer(graph, kernels, replace(aim, ram_bytes=None))
    _, small = _layer_by_layer(graph, kernels, aim)
    parted = [in_parts(one, limit, slow) for one in (plan, free, whole, small) if one.arena_bytes > limit]
    plans = [*([plan] if fits else []), *(one for one in parted if one is not None)]
    return first_valid((*sorted(plans, key=_time), plan))


def _time(plan: Plan) -> int:
    """Estimated, with the waits for the slow RAM."""
    return plan.time + plan.slow_waits


def plan_window(graph: Graph, kernels: Kernels, aim: Aim, hop: int) -> Plan:
    """The plan of one call of an incremental library. TinycError where the model, or the flash, does not allow it."""
    if graph.states:
        raise TinycError("a model with state keeps its own past", hint="leave out --incremental")
    plan = plan_incremental(graph, kernels.choices, aim.optimize, aim.price, _limits(kernels, aim), hop)
    if plan is None:
        raise TinycError(
            "no kernels for an incremental library fit the flash", hint="--optimize size, or a larger board"
        )
    return plan


def _layer_by_layer(graph: Graph, kernels: Kernels, aim: Aim) -> tuple[dict[str, Choice], Plan]:
    budget = Budget(aim.price, aim.ram_bytes, aim.flash_bytes, aim.flash_per_ram)
    return shrink(graph, kernels.choices, kernels.chosen, budget)


def _with_states(graph: Graph, kernels: Kernels, aim: Aim, by_rows: bool) -> Plan:
    """Layer by layer: what lasts from run to run has a place that no row of another tensor takes."""
    if by_rows:
        raise TinycError("a model with state takes its input whole", hint="leave out --input-rows")
    left = None if aim.ram_bytes is None else max(aim.ram_bytes - state_bytes(graph), 0)
    left_aim = replace(aim, ram_bytes=left)
    changed, plan = _layer_by_layer(graph, kernels, left_aim)
    return place_states(graph, _in_parts(graph, kernels, left_aim, _checked(graph, changed, plan)))


def _by_rows(graph: Graph, kernels: Kernels, aim: Aim) -> Plan:
    first = graph.values[graph.inputs[0]]
    hint = "leave out --input-rows"
    if len(graph.inputs) != 1:
        raise TinycError(
            f"only a model with one input can take it row by row; this one has {len(graph.inputs)}", hint=hint
        )
    limits = _limits(kernels, aim)
    streamed = plan_streamed(graph, kernels.choices, aim.optimize, limits, by_rows=True)
    if streamed is None:  # at no more time than that
        limits = replace(limits, instructions=float("inf"), time=float("inf"))
        streamed = plan_streamed(graph, kernels.choices, aim.optimize, limits, by_rows=True)
    if streamed is None or streamed.problem.tensors[first.name].rows == 1:
        message = f"input '{first.name}' {list(first.shape)} has no rows that layers could take one after another"
        raise TinycError(message, first.loc, hint)
    return streamed


def _limits(kernels: Kernels, aim: Aim) -> Limits:
    """What streaming may cost: a share of the instructions, and somewhat more of the cycles."""
    instructions = instructions_of([choice.cost for choice in kernels.chosen.values()])
    time = time_of(kernels.chosen) * (1 + OF_TIME * aim.price)
    instructions *= 1 + _OF_INSTRUCTIONS * aim.price
    return Limits(instructions, time, _flash_room(kernels, aim), aim.ram_bytes, EXCHANGE.get(aim.memory))


def _flash_room(kernels: Kernels, aim: Aim) -> int | None:
    """None: no limit."""
    return None if aim.flash_bytes is None else max(_flash(kernels.chosen), aim.flash_bytes)


def _worth(limits: Limits, kernels: Kernels, aim: Aim, arena: int) -> Limits:
    """The limits, with no more flash than a plan is worth that could save at most `arena` bytes."""
    worth = _flash(kernels.chosen) + aim.flash_per_ram * arena
    return replace(limits, flash_bytes=min(worth, limits.flash_bytes or worth))


def _is_better(streamed: Plan, chosen: Mapping[str, Choice], plan: Plan, aim: Aim, limits: Limits) -> bool:
    """Whether to stream rather than take `plan` with the kernels `chosen`."""
    new, old, ram = streamed.arena_bytes, plan.arena_bytes, limits.ram_bytes
    if ram is not None and (new > ram) != (old > ram):
        return new <= ram
    if ram is not None and old > ram:
        return new < old
    spent = streamed.flash_bytes - _flash(chosen)
    if aim.optimize != "speed" and spent > aim.flash_per_ram * (old - new):
        return False
    time = time_of(chosen)
    if time > limits.time:
        return streamed.time < time
    return streamed.time <= limits.time and new < WORTHWHILE[aim.memory] * old


def _flash(choices: Mapping[str, Choice]) -> int:
    return sum(choice.cost.flash_bytes for choice in choices.values())
