# SPDX-License-Identifier: Apache-2.0
"""Weights that come to RAM while the step before runs: two buffers at the end of the arena take turns.

A step begins by waiting for its own weights, and starts the copy of those of the next step into the other buffer, which
nobody reads any more. How bytes are copied is a macro of the library: at once, or by a DMA that the user starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.emit.program import Fetch, Program, Step
from tinyc.kernel.kernel import Const, Copied

ALIGN = 8
_LEAST = 64  # bytes that are worth a copy of their own


def with_fetches(program: Program, budget: int) -> Program:
    """The program with buffers of at most `budget` bytes together for the constants of layers that run whole: of each
    the largest that is an argument, if it fits half of them. As it is where none does."""
    if program.row_input is not None or program.incremental is not None:
        raise TinycError(
            "--stream-weights is for libraries that take their whole input",
            hint="leave out --input-rows, --incremental",
        )
    room = budget // 2 // ALIGN * ALIGN
    fetched = [(step, const) for step, const in _candidates(program) if const.data.nbytes <= room]
    if not fetched:
        return program
    sizes = [_rounded(max((c.data.nbytes for _, c in fetched[turn::2]), default=0)) for turn in (0, 1)]
    first = _rounded(program.arena_bytes)
    places = (first, first + sizes[0])
    fetches = {
        step.index: Fetch(program.symbol_of(const), const, places[turn % 2])
        for turn, (step, const) in enumerate(fetched)
    }
    return replace(program, arena_bytes=first + sum(sizes), fetches=fetches)


def _candidates(program: Program) -> Iterator[tuple[Step, Const]]:
    for step in program.steps:
        args = [arg.const if isinstance(arg, Copied) else arg for arg in step.call.args]
        consts = [
            arg for arg in args if isinstance(arg, Const) and arg.data.nbytes >= _LEAST and arg.data.nbytes % 4 == 0
        ]
        if step.row_step is None and consts:
            yield step, max(consts, key=lambda const: const.data.nbytes)


def _rounded(size: int) -> int:
    return -(-size // ALIGN) * ALIGN
