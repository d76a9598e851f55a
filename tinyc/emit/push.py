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

    Its input `samples` fills between two runs, while the outputs are read: where they lie over it, it gets other bytes
    behind the arena. During a run its bytes are others' as soon as they are used up. Behind all lie two counters. held:
    the state of the samples before; runs, primed: as `frontend.Joined`.
    """
    (given,) = (place for place in program.inputs if place.value.name == samples)
    moved = given if _is_apart(program, given) else replace(given, offset=_up(program.arena_bytes))
    counters = _up(max(moved.end, program.arena_bytes))

    def there(place: Place) -> Place:
        return moved if place.value.name == samples else place

    kept = next((kept.place for kept in program.kept if kept.place.value.name == held), None)
    return replace(
        program,
        inputs=tuple(map(there, program.inputs)),
        steps=tuple(replace(step, inputs=_each(there, step.inputs)) for step in program.steps),
        arena_bytes=counters + _COUNTERS,
        push=Push(moved, kept, counters, runs - 1, primed),
    )


def _is_apart(program: Program, given: Place) -> bool:
    """Whether no output lies where this input does."""
    first = given.offset or 0
    spans = [(place.offset, place.end) for place in program.outputs if place.offset is not None]
    return all(end <= first or given.end <= begin for begin, end in spans)


def _each(there: Callable[[Place], Place], places: tuple[Place | None, ...]) -> tuple[Place | None, ...]:
    return tuple(None if place is None else there(place) for place in places)


def _up(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
