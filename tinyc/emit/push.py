# SPDX-License-Identifier: Apache-2.0
"""Libraries with a front end take samples as they come: where these lie, and how many are there, lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinyc.emit.program import Place, Program, Push

_ALIGN = 8
_COUNTERS = 8  # bytes: samples that have come, runs that the window still lacks


def with_push(program: Program, samples: str, held: str, runs: int, primed: int) -> Program:
    """The program with `_push`.

    Its input `samples` fills between two runs, while the outputs are read: where they lie over it, they or it, what is
    smaller, get other bytes behind the arena. During a run its bytes are others' as soon as they are used up. Behind
    all lie two counters. held: the state of the samples before; runs, primed: as `frontend.Joined`.
    """
    (given,) = (place for place in program.inputs if place.value.name == samples)
    over = [place for place in program.outputs if _share(place, given)]
    if sum(_up(place.value.size_bytes) for place in over) >= given.value.size_bytes or not _may_move(program, over):
        over = [given] if over else []
    moved, end = {}, program.arena_bytes
    for place in over:
        moved[place.value.name] = replace(place, offset=_up(end))
        end = moved[place.value.name].end
    counters = _up(end)

    def there(place: Place) -> Place:
        return moved.get(place.value.name, place)

    held_place = next((state.place for state in program.states if state.place.value.name == held), None)
    return replace(
        program,
        inputs=tuple(map(there, program.inputs)),
        outputs=tuple(map(there, program.outputs)),
        steps=tuple(
            replace(step, inputs=_each(there, step.inputs), outputs=tuple(map(there, step.outputs)))
            for step in program.steps
        ),
        arena_bytes=counters + _COUNTERS,
        push=Push(there(given), held_place, counters, runs - 1, primed),
    )


def _share(one: Place, other: Place) -> bool:
    """Whether both have a byte of the arena."""
    if one.offset is None or other.offset is None:
        return False
    return one.offset < other.end and other.offset < one.end


def _may_move(program: Program, outputs: list[Place]) -> bool:
    """Whether each of them is what a step writes, and no later step knows its bytes by another name, nor a state."""
    return all(_is_own(program, place) for place in outputs)


def _is_own(program: Program, output: Place) -> bool:
    name = output.value.name
    writes = [at for at, step in enumerate(program.steps) if any(name == place.value.name for place in step.outputs)]
    if len(writes) != 1 or output.rows or any(_share(state.place, output) for state in program.states):
        return False
    later = (place for step in program.steps[writes[0] + 1 :] for place in (*step.inputs, *step.outputs) if place)
    return all(place.value.name == name or not _share(place, output) for place in later)


def _each(there: Callable[[Place], Place], places: tuple[Place | None, ...]) -> tuple[Place | None, ...]:
    return tuple(None if place is None else there(place) for place in places)


def _up(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
