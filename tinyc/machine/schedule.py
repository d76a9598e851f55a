# SPDX-License-Identifier: Apache-2.0
"""The order of instructions in a basic block: one is moved where that saves cycles and changes nothing.

Kernels are written in an order that can be read. Where a store stands behind a store, a load alone, or a branch behind
its flags, another place some instructions away may be free (`three_stage.py`). Each is tried by itself, in order; what
depends on each other keeps its order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address
from tinyc.machine.table import Kind

FAR = 8  # instructions that one is moved over
PASSES = 2
_FIXED = frozenset({Kind.IT, Kind.SYSTEM, Kind.UNKNOWN, Kind.VECTOR, Kind.PREDICATE})

Cycles = Callable[[Decoded, Decoded | None], int]


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Code that is run from its first to its last instruction. before, behind: what runs next to it, as far as that is
    known. back: cycles that a jump at its end takes more, from the two instructions before it. own_stack: nothing but
    the stack pointer is an address on the function's stack."""

    ops: Sequence[Decoded]
    cycles: Cycles
    back: Callable[[Sequence[Decoded]], int]
    before: Decoded | None = None
    behind: Decoded | None = None
    own_stack: bool = False


def ordered(block: BasicBlock) -> list[int]:
    """A better order, as numbers of the instructions."""
    order = list(range(len(block.ops)))
    last = len(order) - block.ops[-1].leaves  # a jump stays at the end
    for number in [*range(last)] * PASSES:
        op = block.ops[number]
        if op.kind in (Kind.STORE, Kind.LOAD) or op.row.flags:
            _move(block, order, order.index(number), last)
    return order


def stays(op: Decoded) -> bool:
    """What nothing is moved over."""
    return op.kind in _FIXED or "sp" in op.writes or "pc" in op.writes or (bool(op.instruction.condition))


def takes_stack(op: Decoded) -> bool:
    """Whether it makes an address on the stack that is not the stack pointer."""
    return "sp" in op.reads and "sp" not in op.writes and not op.is_memory


def _move(block: BasicBlock, order: list[int], at: int, last: int) -> None:
    """Put the instruction at the best of the places that it may go to."""
    places = _places(block, order, at, last)
    if not places:
        return
    best, gain = at, 0
    saving = MoveGain(block, order, at)
    for to in places:
        saved = saving.at(to)
        if saved > gain or (saved == gain > 0 and abs(to - at) < abs(best - at)):
            best, gain = to, saved
    if best != at:
        order.insert(best, order.pop(at))


def _places(block: BasicBlock, order: Sequence[int], at: int, last: int) -> list[int]:
    """Places that it reaches without passing one that it depends on: loads only go up, away from their use."""
    op, places = block.ops[order[at]], []
    for to in range(at - 1, max(at - FAR, 0) - 1, -1):
        if not free(block.ops[order[to]], op, block.own_stack):
            break
        places.append(to)
    if op.kind is Kind.STORE:
        for to in range(at + 1, min(at + FAR, last - 1) + 1):
            if not free(op, block.ops[order[to]], block.own_stack):
                break
            places.append(to)
    return places


class MoveGain:
    """Cycles that it saves to put the instruction at one place to another: those of all whose neighbour before them is
    another then."""

    def __init__(self, block: BasicBlock, order: Sequence[int], place: int) -> None:
        self._block, self._order, self._place = block, order, place
        ops = block.ops
        self._line = [block.before, *[ops[number] for number in order], block.behind]  # places are one further
        before, self._moved, behind = self._line[place : place + 3]
        self._taken = self._cycles(self._moved, before)
        self._taken += self._cycles(behind, self._moved) - self._cycles(behind, before)

    def _cycles(self, second: Decoded | None, first: Decoded | None) -> int:
        return 0 if second is None else self._block.cycles(second, first)

    def at(self, to: int) -> int:
        """At another place."""
        place, line, moved, cycles = self._place, self._line, self._moved, self._cycles
        before, behind = (line[to], line[to + 1]) if to < place else (line[to + 1], line[to + 2])
        saved = self._taken + cycles(behind, before) - cycles(moved, before) - cycles(behind, moved)
        ops, order, back = self._block.ops, self._order, self._block.back
        if max(place, to) >= len(order) - 3 and ops[-1].leaves:
            after = [*order[:place], *order[place + 1 :]]
            after.insert(to, order[place])
            saved += back([ops[number] for number in order[-3:-1]]) - back([ops[number] for number in after[-3:-1]])
        return saved


@functools.lru_cache(maxsize=1 << 16)
def free(first: Decoded, second: Decoded, own_stack: bool = False) -> bool:
    """Whether two neighbours may change places."""
    if stays(first) or stays(second) or second.leaves:
        return False
    if first.writes & (second.reads | second.writes) or first.reads & second.writes:
        return False
    if _flags(first) and _flags(second) and (first.row.flags or second.row.flags):
        return False
    if not (first.is_memory and second.is_memory) or (first.row.loads and second.row.loads):
        return True
    return apart(first, second, own_stack)


def _flags(op: Decoded) -> bool:
    """Whether it sets or reads the flags."""
    return bool(op.row.flags) or op.row.carries


def apart(first: Decoded, second: Decoded, own_stack: bool) -> bool:
    """Whether two accesses are known to touch different bytes: from one base, or one of them on the stack alone."""
    (a, start_a, end_a), (b, start_b, end_b) = bytes_of(first), bytes_of(second)
    if own_stack and ("sp" in first.address) is not ("sp" in second.address):
        return True
    return bool(a) and a == b and (end_a <= start_b or end_b <= start_a)


@functools.lru_cache(maxsize=1 << 14)
def bytes_of(op: Decoded) -> tuple[str, int, int]:
    """The base register and the first and last byte from it; no name where that is not known."""
    place = next((operand for operand in op.operands if isinstance(operand, Address)), None)
    if place is None or op.writeback or place.index:
        return "", 0, 0
    size = op.row.size if op.kind in (Kind.LOAD, Kind.STORE) else 4 * op.words
    return place.base, place.offset, place.offset + size
