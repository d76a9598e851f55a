"""How a model's arena is laid out: layer by layer, or streamed row by row, by what memory and time are worth.

Layer by layer needs no tables of rows and has the faster kernels, so a streamed plan has to be smaller by more than a
little, unless the smallest arena is wanted or nothing else fits the RAM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyc.errors import TinycError
from tinyc.ir.graph import Graph
from tinyc.plan import Plan
from tinyc.plan.persistent import place_states, state_bytes
from tinyc.select import FLASH_PER_RAM, Choice, Optimize
from tinyc.shrink import MEMORY_PRICE, Memory, shrink
from tinyc.stream import Limits, StreamPlan, plan_incremental, plan_streamed

# A streamed arena has to be smaller than this share of the one layer by layer.
WORTHWHILE: Mapping[str, float] = {"speed": 0.0, "balanced": 0.9, "min": 1.0}
# How much more of its time than of its instructions an inference may take longer: most of what rows cost is loads.
_OF_TIME = 2.4
# Layers. More take minutes to plan row by row: only if the smallest arena is wanted, or nothing else fits.
STREAMED_UP_TO = 400

Planned = tuple[dict[str, Choice], Plan | StreamPlan]


def plan_memory(
    graph: Graph,
    found: Mapping[str, Sequence[Choice]],
    choices: Mapping[str, Choice],
    optimize: Optimize,
    memory: Memory,
    ram_bytes: int | None,
    flash_bytes: int | None,
    by_rows: bool = False,
) -> Planned:
    """The kernel of each node and the plan. A StreamPlan has its own forms of the kernels.

    found: all candidates of each node. choices: the fastest of them that the flash allows. Above ram_bytes any
    time is paid. flash_bytes: of constants and code, None: what `choices` take. by_rows: the input comes row by row;
    TinycError if it cannot.
    """
    if graph.states:
        return _with_states(graph, found, choices, optimize, memory, ram_bytes, flash_bytes, by_rows)
    if by_rows:
        return _by_rows(graph, found, choices, optimize, memory, ram_bytes, flash_bytes)
    changed, plan = shrink(
        graph, found, choices, MEMORY_PRICE[memory], ram_bytes, flash_bytes, _flash_per_ram(optimize, memory)
    )
    fits = ram_bytes is None or plan.arena_bytes <= ram_bytes
    limits = _limits(choices, memory, ram_bytes, flash_bytes)
    if fits:
        limits = _worth(limits, choices, optimize, memory, plan.arena_bytes)
    if fits and (memory == "speed" or (memory == "balanced" and len(choices) > STREAMED_UP_TO)):
        return changed, plan
    streamed = plan_streamed(graph, found, optimize, limits)
    per_ram = None if optimize == "speed" else _flash_per_ram(optimize, memory)
    if streamed is None or not _is_better(streamed, changed, plan, memory, limits, per_ram):
        return changed, plan
    return _choices(streamed), streamed


def _with_states(
    graph: Graph,
    found: Mapping[str, Sequence[Choice]],
    choices: Mapping[str, Choice],
    optimize: Optimize,
    memory: Memory,
    ram_bytes: int | None,
    flash_bytes: int | None,
    by_rows: bool,
) -> Planned:
    """Layer by layer: what lasts from run to run has a place that no row of another tensor takes."""
    if by_rows:
        raise TinycError("a model with state takes its input whole", hint="leave out --input-rows")
    left = None if ram_bytes is None else max(ram_bytes - state_bytes(graph), 0)
    changed, plan = shrink(
        graph, found, choices, MEMORY_PRICE[memory], left, flash_bytes, _flash_per_ram(optimize, memory)
    )
    return changed, place_states(graph, plan)


def _by_rows(
    graph: Graph,
    found: Mapping[str, Sequence[Choice]],
    choices: Mapping[str, Choice],
    optimize: Optimize,
    memory: Memory,
    ram_bytes: int | None,
    flash_bytes: int | None,
) -> Planned:
    first = graph.values[graph.inputs[0]]
    hint = "leave out --input-rows"
    if len(graph.inputs) != 1:
        raise TinycError(
            f"only a model with one input can take it row by row; this one has {len(graph.inputs)}", hint=hint
        )
    limits = _limits(choices, memory, ram_bytes, flash_bytes)
    streamed = plan_streamed(graph, found, optimize, limits, by_rows=True)
    if streamed is None:  # at no more time than that
        streamed = plan_streamed(
            graph, found, optimize, replace(limits, instructions=float("inf"), time=float("inf")), by_rows=True
        )
    if streamed is None or streamed.problem.tensors[first.name].rows == 1:
        message = f"input '{first.name}' {list(first.shape)} has no rows that layers could take one after another"
        raise TinycError(message, first.loc, hint)
    return _choices(streamed), streamed


def plan_window(
    graph: Graph,
    found: Mapping[str, Sequence[Choice]],
    choices: Mapping[str, Choice],
    optimize: Optimize,
    memory: Memory,
    ram_bytes: int | None,
    flash_bytes: int | None,
    hop: int,
) -> StreamPlan:
    """The plan of one call of an incremental library. TinycError where the model, or the flash, does not allow it."""
    if graph.states:
        raise TinycError("a model with state keeps its own past", hint="leave out --incremental")
    flash = max(sum(choice.cost.flash_bytes for choice in choices.values()), flash_bytes or 0)
    plan = plan_incremental(graph, found, optimize, MEMORY_PRICE[memory], flash, ram_bytes, hop)
    if plan is None:
        raise TinycError(
            "no kernels for an incremental library fit the flash", hint="--optimize size, or a larger board"
        )
    return plan


def _choices(plan: StreamPlan) -> dict[str, Choice]:
    return {layer.node: form.choice for layer, form in zip(plan.problem.layers, plan.forms, strict=True)}


def _limits(choices: Mapping[str, Choice], memory: Memory, ram_bytes: int | None, flash_bytes: int | None) -> Limits:
    """What streaming may cost: a share of the instructions, and somewhat more of the cycles."""
    price = MEMORY_PRICE[memory]
    flash = max(sum(choice.cost.flash_bytes for choice in choices.values()), flash_bytes or 0)
    instructions = sum(choice.cost.instructions for choice in choices.values())
    return Limits(instructions * (1 + price), _time(choices) * (1 + _OF_TIME * price), flash, ram_bytes)


def _worth(limits: Limits, choices: Mapping[str, Choice], optimize: Optimize, memory: Memory, arena: int) -> Limits:
    """The limits, with no more flash than a plan is worth that could save at most `arena` bytes."""
    worth = sum(choice.cost.flash_bytes for choice in choices.values()) + _flash_per_ram(optimize, memory) * arena
    return replace(limits, flash_bytes=min(worth, limits.flash_bytes or worth))


def _flash_per_ram(optimize: Optimize, memory: Memory) -> int:
    """Bytes of flash for a byte of arena: of equal worth where both are asked to be small."""
    return FLASH_PER_RAM[optimize] or int(memory == "min")


def _time(choices: Mapping[str, Choice]) -> int:
    return sum(choice.cost.time for choice in choices.values())


def _is_better(
    streamed: StreamPlan,
    chosen: Mapping[str, Choice],
    plan: Plan,
    memory: Memory,
    limits: Limits,
    flash_per_ram: int | None,
) -> bool:
    """Whether to stream rather than take `plan` with the kernels `chosen`. flash_per_ram: bytes of flash that may be
    spent for each byte of arena saved; None: any."""
    new, old, ram = streamed.arena_bytes, plan.arena_bytes, limits.ram_bytes
    if ram is not None and (new > ram) != (old > ram):
        return new <= ram
    if ram is not None and old > ram:
        return new < old
    spent = streamed.flash_bytes - sum(choice.cost.flash_bytes for choice in chosen.values())
    if flash_per_ram is not None and spent > flash_per_ram * (old - new):
        return False
    time = _time(chosen)
    if time > limits.time:
        return streamed.time < time
    return streamed.time <= limits.time and new < WORTHWHILE[memory] * old
