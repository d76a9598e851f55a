# SPDX-License-Identifier: Apache-2.0
"""The order of instructions in a basic block: one is moved where that saves cycles and changes nothing.

Kernels are written in an order that can be read. Where a store stands behind a store, a load alone, or a branch behind
its flags, another place some instructions away may be free (`three_stage.py`). Each is tried by itself, in order; what
depends on each other keeps its order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

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
    count = len(block.ops)
    last = count - block.ops[-1].leaves  # a jump stays at the end
    order = BlockOrder(block, range(count))
    tried = [number for number in range(last) if _may_gain(block.ops[number])]
    for _ in range(PASSES):
        before = order.numbers.copy()
        for number in tried:
            order.improve(order.numbers.index(number), last)
        if order.numbers == before:
            break
    return order.numbers


def _may_gain(op: Decoded) -> bool:
    return op.kind in (Kind.STORE, Kind.LOAD) or bool(op.row.flags)


@functools.cache
def cycles_on(core: Core) -> Callable[[Decoded, Decoded | None], int]:
    """Of an instruction behind another one."""
    return functools.lru_cache(maxsize=1 << 16)(
        core.cost if isinstance(core, ThreeStage) else functools.partial(_cost, core)
    )


def _cost(core: Core, op: Decoded, before: Decoded | None) -> int:
    return round(core.costs([op], () if before is None else (before,))[0])


class BlockOrder:
    """The instructions of a block in some order: their numbers."""

    def __init__(self, block: BasicBlock, numbers: Iterable[int]) -> None:
        self.numbers = list(numbers)
        self._block, self._cycles = block, cycles_on(block.core)
        self._line = [block.before, *[block.ops[number] for number in self.numbers], block.behind]  # one place further

    def improve(self, at: int, last: int) -> None:
        """Puts the instruction to the best of the places that it may go to, before the last."""
        places = self._places(at, last)
        if not places:
            return
        best, gain = at, 0
        leaving = self._leaving(at)
        for to in places:
            saved = leaving - self._entering(at, to)
            if saved > gain or (saved == gain > 0 and abs(to - at) < abs(best - at)):
                best, gain = to, saved
        if best != at:
            self.numbers.insert(best, self.numbers.pop(at))
            self._line.insert(best + 1, self._line.pop(at + 1))

    def _places(self, at: int, last: int) -> list[int]:
        """Places that it reaches without passing one that it depends on: loads only go up, away from their use."""
        ops, numbers, own_stack, places = self._block.ops, self.numbers, self._block.own_stack, list[int]()
        op = ops[numbers[at]]
        for to in range(at - 1, max(at - FAR, 0) - 1, -1):
            if not free(ops[numbers[to]], op, own_stack):
                break
            places.append(to)
        if op.kind is Kind.STORE:
            for to in range(at + 1, min(at + FAR, last - 1) + 1):
                if not free(op, ops[numbers[to]], own_stack):
                    break
                places.append(to)
        return places

    def saved(self, at: int, to: int) -> int:
        """Cycles that it saves to put the instruction at one place to another: those of all whose neighbour before them
        is another then."""
        return self._leaving(at) - self._entering(at, to)

    def _leaving(self, at: int) -> int:
        """What there are fewer without it."""
        before, moved, behind = self._line[at], self._block.ops[self.numbers[at]], self._line[at + 2]
        return self._cycles(moved, before) + self._more(before, moved, behind)

    def _entering(self, at: int, to: int) -> int:
        """What there are more with it at another place."""
        moved = self._block.ops[self.numbers[at]]
        first = to if to < at else to + 1
        before, behind = self._line[first : first + 2]
        more = self._cycles(moved, before) + self._more(before, moved, behind)
        return more + self._later_jump(at, to) if max(at, to) >= len(self.numbers) - 3 else more

    def _more(self, before: Decoded | None, between: Decoded, behind: Decoded | None) -> int:
        """Of the instruction behind, with another one before it."""
        return 0 if behind is None else self._cycles(behind, between) - self._cycles(behind, before)

    def _later_jump(self, at: int, to: int) -> int:
        """What the jump at the end takes more, with another instruction before it."""
        if not self._block.taken:
            return 0
        ops, numbers, back = self._block.ops, self.numbers, self._block.back
        after = [*numbers[:at], *numbers[at + 1 :]]
        after.insert(to, numbers[at])
        return back([ops[number] for number in after[-3:-1]]) - back([ops[number] for number in numbers[-3:-1]])


@functools.lru_cache(maxsize=1 << 16)
def free(first: Decoded, second: Decoded, own_stack: bool = False) -> bool:
    """Whether two neighbours may change places."""
    if first.stays or second.stays or second.leaves:
        return False
    if not (first.writes.isdisjoint(second.touched) and first.reads.isdisjoint(second.writes)):
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


def bytes_of(op: Decoded) -> tuple[str, int, int]:
    """The base register and the first and last byte from it; no name where that is not known."""
    place = next((operand for operand in op.operands if isinstance(operand, Address)), None)
    if place is None or op.writeback or place.index:
        return "", 0, 0
    size = op.row.size if op.kind in (Kind.LOAD, Kind.STORE) else 4 * op.words
    return place.base, place.offset, place.offset + size
