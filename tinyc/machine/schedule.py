# SPDX-License-Identifier: Apache-2.0
"""The order of instructions in a basic block: one is moved where that saves cycles and changes nothing.

Kernels are written in an order that can be read. Where a store stands behind a store, a load alone, or a branch behind
its flags, another place some instructions away may be free (`three_stage.py`). Each is tried by itself, in order; what
depends on each other keeps its order.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.machine.cores import Core
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address
from tinyc.machine.table import Kind
from tinyc.machine.three_stage import ThreeStage

FAR = 8  # instructions that one is moved over
PASSES = 2


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """Code that is run from its first to its last instruction, on a core. before, behind: what runs next to it, as far
    as that is known. taken: the jump at its end is. own_stack: nothing but the stack pointer is an address on the
    function's stack."""

    core: ThreeStage
    ops: tuple[Decoded, ...]
    before: Decoded | None = None
    behind: Decoded | None = None
    taken: bool = False
    own_stack: bool = False

    def back(self, before: Sequence[Decoded]) -> int:
        """Cycles that the jump at the end takes more, from the two instructions before it."""
        return self.core.taken(self.ops[-1], None, before) if self.taken else 0


@functools.lru_cache(maxsize=1 << 13)  # functions of one kernel share many blocks
def ordered(block: BasicBlock) -> Sequence[int]:
    """A better order, as numbers of the instructions."""
    order = list(range(len(block.ops)))
    last = len(order) - block.ops[-1].leaves  # a jump stays at the end
    tried = [number for number in range(last) if _may_gain(block.ops[number])]
    for _ in range(PASSES):
        before = order.copy()
        for number in tried:
            _move(block, order, order.index(number), last)
        if order == before:
            break
    return order


def _may_gain(op: Decoded) -> bool:
    return op.kind in (Kind.STORE, Kind.LOAD) or bool(op.row.flags)


@functools.lru_cache(maxsize=1 << 16)
def cycles_behind(core: Core, op: Decoded, before: Decoded | None) -> int:
    """Of an instruction behind another one."""
    return round(core.costs([op], () if before is None else (before,))[0])


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
        self._moved = block.ops[order[place]]
        before, behind = self._op(place - 1), self._op(place + 1)
        self._taken = self._cycles(self._moved, before)
        self._taken += self._cycles(behind, self._moved) - self._cycles(behind, before)

    def _op(self, place: int) -> Decoded | None:
        """The instruction there, or what runs next to the block."""
        if 0 <= place < len(self._order):
            return self._block.ops[self._order[place]]
        return self._block.before if place < 0 else self._block.behind

    def _cycles(self, second: Decoded | None, first: Decoded | None) -> int:
        return 0 if second is None else cycles_behind(self._block.core, second, first)

    def at(self, to: int) -> int:
        """At another place."""
        place, moved = self._place, self._moved
        first = to - 1 if to < place else to
        before, behind = self._op(first), self._op(first + 1)
        saved = self._taken + self._cycles(behind, before) - self._cycles(moved, before) - self._cycles(behind, moved)
        ops, order, back = self._block.ops, self._order, self._block.back
        if max(place, to) >= len(order) - 3 and ops[-1].leaves:
            after = [*order[:place], *order[place + 1 :]]
            after.insert(to, order[place])
            saved += back([ops[number] for number in order[-3:-1]]) - back([ops[number] for number in after[-3:-1]])
        return saved


@functools.lru_cache(maxsize=1 << 16)
def free(first: Decoded, second: Decoded, own_stack: bool = False) -> bool:
    """Whether two neighbours may change places."""
    if first.stays or second.stays or second.leaves:
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
