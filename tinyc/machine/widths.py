# SPDX-License-Identifier: Apache-2.0
"""How wide each instruction of a function is made, so that a core with a prefetch buffer never runs out of them.

Short instructions save flash. But one of them shifts all long ones behind it off word alignment, and a run of these
costs a cycle (`three_stage.py`). Widening one instruction at the right place keeps the others short. Found by dynamic
programming over the code in order: of all choices with the least cycles one with the fewest bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.machine.three_stage import LONG_RUN

LONG, SHORT = 4, 2
_CYCLE = 1 << 24  # more than all bytes of a function


@dataclass(frozen=True, slots=True)
class Slot:
    """An instruction, or a place that jumps go to.

    widths: what it may take, none for a place. weight: how often it runs. slow: an instruction of several cycles.
    aligned: a place on a word; the assembler fills up with a short instruction. falls: the code before goes on here.
    returns: a call, behind which the code is jumped to.
    """

    widths: tuple[int, ...]
    weight: int = 1
    slow: bool = False
    aligned: bool = False
    falls: bool = True
    returns: bool = False


# A state between two instructions, in bits. ODD: beside word alignment. TARGET: just jumped to. Above these, of the
# last LONG_RUN instructions, the last one lowest, which began a run of long ones beside alignment that has not ended
# since.
_ODD, _TARGET, _RECENT = 1, 2, 4
_LATE = _RECENT << LONG_RUN - 1
_ALL_RECENT = (_RECENT << LONG_RUN) - _RECENT

_Steps = dict[int, tuple[int, int, int]]  # by state: the cost so far, the state before, and the width that led here


def choose(slots: Sequence[Slot]) -> list[int]:
    """The width of each slot, 0 for places. The function begins on a word."""
    states: _Steps = {_TARGET: (0, 0, 0)}
    trail = []
    for slot in slots:
        states = _behind(states, slot) if slot.widths else _arrived(states, slot)
        trail.append(states)
    state = min(states, key=lambda step: states[step][0])
    widths = []
    for step in reversed(trail):
        _, before, width = step[state]
        widths.append(width)
        state = before
    return widths[::-1]


def _behind(states: _Steps, slot: Slot) -> _Steps:
    """The cheapest way to every state behind an instruction."""
    steps: _Steps = {}
    wait = slot.weight * _CYCLE
    for state, (cost, _, _) in states.items():
        for width in slot.widths:
            after, waits = _run(state, width, slot.slow, slot.returns)
            total = cost + width + (waits * wait if waits else 0)
            if after not in steps or total < steps[after][0]:
                steps[after] = total, state, width
    return steps


def _arrived(states: _Steps, slot: Slot) -> _Steps:
    """At a place: what fills up costs two bytes, and a cycle where it runs."""
    steps: _Steps = {}
    for state, (cost, _, _) in states.items():
        filled = slot.aligned and state & _ODD
        after = _TARGET | (0 if filled else state & _ODD)
        total = cost + (SHORT + slot.falls * slot.weight * _CYCLE if filled else 0)
        if after not in steps or total < steps[after][0]:
            steps[after] = total, state, 0
    return steps


@functools.cache
def _run(state: int, width: int, slow: bool, returns: bool) -> tuple[int, int]:
    """The state behind an instruction, and the cycles that it waits for its bytes."""
    split = width == LONG and bool(state & _ODD)
    waits = split * (bool(state & _LATE) + bool(state & _TARGET))
    odd = state & _ODD ^ (width == SHORT)
    if returns:
        return odd | _TARGET, waits
    runs = (state & _ALL_RECENT) << 1 & _ALL_RECENT if split and not slow else 0
    return odd | runs | (_RECENT if width == SHORT or slow else 0), waits
