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

    Its input `samples` needs bytes of its own, for between two pushes nobody else may use them; where the planned ones
    are not, it gets others behind the arena. Behind all lie two counters. held: the state of the samples before; runs,
    primed: as `frontend.Joined`.
    """
    (given,) = (place for place in program.inputs if place.value.name == samples)
    moved = given if _is_alone(program, given) else replace(given, offset=_up(program.arena_bytes))
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


def _is_alone(program: Program, given: Place) -> bool:
    """Whether no other tensor and no scratch ever lies where this one does."""
    others = [place for step in program.steps for place in (*step.inputs, *step.outputs) if place is not None]
    spans = [(place.offset, place.end) for place in others if place.offset is not None and place.value != given.value]
    spans += [(s.scratch_offset, s.scratch_offset + s.scratch_bytes) for s in program.steps if s.scratch_bytes]
    first = given.offset or 0
    return all(end <= first or given.end <= begin for begin, end in spans)


def _each(there: Callable[[Place], Place], places: tuple[Place | None, ...]) -> tuple[Place | None, ...]:
    return tuple(None if place is None else there(place) for place in places)


def _up(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
