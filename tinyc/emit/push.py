# SPDX-License-Identifier: Apache-2.0
"""Libraries with a front end take samples as they come: where these lie, and how many are there, lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinyc.emit.program import Place, Program, Push

_ALIGN = 8
_COUNTERS = 8  # bytes: samples that have come, runs that the window still lacks


def with_push(program: Program, samples: str, held: str, runs: int) -> Program:
    """The program with `_push`.

    Its input `samples` gets bytes of its own behind the planned ones, for between two pushes nobody else may use them;
    behind those lie two counters. held: the state of the samples before; runs: as `frontend.Joined`.
    """
    (given,) = (place for place in program.inputs if place.value.name == samples)
    at = _up(program.arena_bytes)
    moved = replace(given, offset=at)
    counters = _up(moved.end)

    def there(place: Place) -> Place:
        return moved if place.value.name == samples else place

    kept = next((kept.place for kept in program.kept if kept.place.value.name == held), None)
    return replace(
        program,
        inputs=tuple(map(there, program.inputs)),
        steps=tuple(replace(step, inputs=_each(there, step.inputs)) for step in program.steps),
        arena_bytes=counters + _COUNTERS,
        push=Push(moved, kept, counters, runs - 1),
    )


def _each(there: Callable[[Place], Place], places: tuple[Place | None, ...]) -> tuple[Place | None, ...]:
    return tuple(None if place is None else there(place) for place in places)


def _up(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN
