# SPDX-License-Identifier: Apache-2.0
"""The order of a straight piece of code for a core that waits for results, or begins two instructions in a cycle.

A list scheduler: cycle by cycle the instruction begins that has the longest way to the end of the piece before it, of
those whose operands are there; with a second one beside it where the core pairs them. What depends on each other keeps
its order: registers, flags, and accesses to memory that are not known to be apart.
"""

from __future__ import annotations

import itertools
from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from operator import attrgetter
from typing import Protocol

from tinyc.base.dataclass import dataclass
from tinyc.machine.lines import Line
from tinyc.machine.op import Decoded
from tinyc.machine.schedule import bytes_of
from tinyc.machine.single_loads import single_loads

TRIED = 6  # instructions that are tried beside the first one of a cycle


class Pipeline(Protocol):
    """What a scheduler asks a core. width: instructions that may begin in a cycle."""

    @property
    def width(self) -> int: ...

    def __hash__(self) -> int: ...

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> Sequence[float]:
        """Cycles of each of a straight piece of code."""

    def alone(self, op: Decoded) -> int:
        """Cycles of an instruction without others."""

    def least(self, ops: Sequence[Decoded]) -> int:
        """Cycles that these take in any order."""

    def lag(self, first: Decoded, second: Decoded) -> int:
        """Cycles from the beginning of an instruction to that of a later one that reads or writes what it wrote."""

    def pairing(self, op: Decoded) -> int:
        """A number that says with which others it begins: instructions of one number do so with the same."""

    def pairs(self, older: int, younger: int) -> bool:
        """Whether instructions of these `pairing` may begin in one cycle, as far as they share no registers."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """What is known of addresses in a function. own_stack: nothing but the stack pointer is an address on its stack.
    constants: registers through which only is read what the function does not write."""

    own_stack: bool = False
    constants: frozenset[str] = frozenset()

    def is_constant(self, op: Decoded) -> bool:
        """Whether an access only reads what the function does not write."""
        return op.row.loads and bool(op.address) and op.address <= self.constants


@lru_cache(maxsize=4096)  # layers of one kernel share many pieces
def better(lines: tuple[Line, ...], core: Pipeline, memory: Addresses) -> tuple[Line, ...]:
    """A straight piece of code in a better order, with single loads where that saves cycles; of equals the shortest."""
    pieces = [lines]
    with_single_loads = tuple(single_loads(lines))
    if with_single_loads != lines:
        pieces.append(with_single_loads)
    bounds = [core.least([line.op for line in piece]) for piece in pieces]
    best: tuple[float, int, int] | None = None  # cycles, lines, the first of equals
    better = lines
    for bound, number, piece in sorted(zip(bounds, itertools.count(), pieces, strict=False)):
        if best is None or (bound, len(piece), number) < best:
            order = scheduled([line.op for line in piece], core, memory)
            if best is None or (order.cycles, len(piece), number) < best:
                best = order.cycles, len(piece), number
                better = tuple([piece[place] for place in order.numbers])
    return better


Behind = list[dict[int, int]]  # of each instruction: those that come behind it, and so many cycles later at least


def dependences(ops: Sequence[Decoded], core: Pipeline, memory: Addresses) -> Behind:
    """What has to come behind each instruction of a piece, and how many cycles later at least; what follows from others
    may be left out."""
    waits: Behind = [{} for _ in ops]
    writer: dict[str, tuple[dict[int, int], Decoded]] = {}  # of each register: what waits for it, and the instruction
    readers: defaultdict[str, list[dict[int, int]]] = defaultdict(list)  # ...: what waits for each of them
    accesses = _Accesses(memory)
    through, lag, written_by = accesses.through, core.lag, writer.get
    for number, op in enumerate(ops):
        own = waits[number]
        for register in op.touched:
            first = written_by(register)
            if first is not None and number not in first[0]:
                first[0][number] = lag(first[1], op)
        reads, writes = op.reads, op.writes
        if op.takes_flags:
            reads, writes = _with_flags(op)
            if FLAGS in writer:
                later = writer[FLAGS][0]
                later[number] = max(later.get(number, 0), 1)
        for register in writes:
            for later in readers.pop(register, ()):
                later.setdefault(number, 0)
            writer[register] = own, op
            if register in through:
                accesses.written(register)
        for register in reads:
            readers[register].append(own)
        if op.is_memory and not memory.is_constant(op):
            for access, cycles in accesses.add(number, op):
                if waits[access].get(number, -1) < cycles:
                    waits[access][number] = cycles
    return waits


@dataclass(slots=True, eq=False)
class _Access:
    """An access to memory. base, start, end: its bytes, as far as they are known. moved: an address register of it was
    written since, by itself, too. bit: its own of all accesses; behind: those of what has to stay before it, and its
    own."""

    number: int
    base: str
    start: int
    end: int
    on_stack: bool
    loads: bool
    moved: bool
    bit: int
    behind: int


class _Accesses:
    """The accesses of a piece so far, but those of constants."""

    def __init__(self, memory: Addresses) -> None:
        self._own_stack = memory.own_stack
        self._count = 0
        self._loads: list[_Access] = []
        self._stores: list[_Access] = []
        self.through: defaultdict[str, list[_Access]] = defaultdict(list)  # by address register

    def add(self, number: int, op: Decoded) -> list[tuple[int, int]]:
        """The next access; gives those behind which it has to stay, by their numbers, and cycles, but for what has to
        stay before another one of them."""
        moves = not op.writes.isdisjoint(op.address)
        loads, bit = op.row.loads, 1 << self._count
        self._count += 1
        access = _Access(number, *bytes_of(op), "sp" in op.address, loads, moves, bit, bit)
        before = self._conflicts(self._stores, access)
        if not loads:
            stores_before, loads_before = before, self._conflicts(self._loads, access)
            before = sorted([*stores_before, *loads_before], key=_number_of)
            if moves:  # all accesses that follow stay behind this one, and so behind those
                self._stores = [store for store in self._stores if store not in stores_before]
                self._loads = [load for load in self._loads if load not in loads_before]
        (self._loads if loads else self._stores).append(access)
        for register in op.address:
            self.through[register].append(access)
        return [(one.number, int(not one.loads)) for one in _last_of(before, access)]

    def _conflicts(self, earlier: Sequence[_Access], access: _Access) -> list[_Access]:
        """Those of the accesses that may touch bytes of this one: all but those known to be apart (`apart`)."""
        base, start, end, on_stack = access.base, access.start, access.end, access.on_stack
        own_stack = self._own_stack
        return [
            one
            for one in earlier
            if one.moved
            or not (
                (own_stack and one.on_stack is not on_stack)
                or (base and one.base == base and (one.end <= start or end <= one.start))
            )
        ]

    def written(self, register: str) -> None:
        for access in self.through.pop(register, ()):
            access.moved = True


_number_of = attrgetter("number")


def _last_of(earlier: Sequence[_Access], access: _Access) -> list[_Access]:
    """Of accesses before another one those that no other one of them is behind."""
    last, behind = list[_Access](), access.bit
    for one in reversed(earlier):
        if not one.bit & behind:
            last.append(one)
            behind |= one.behind
    access.behind = behind
    return last


FLAGS = "flags"


def _with_flags(op: Decoded) -> tuple[frozenset[str], frozenset[str]]:
    """What an instruction reads, and what it writes; the flags among them."""
    reads = op.reads | {FLAGS} if op.row.carries or op.leaves else op.reads
    return reads, op.writes | {FLAGS} if op.row.flags else op.writes


def heights(alone: Sequence[int], behind: Behind) -> list[int]:
    """Cycles from the beginning of each instruction to the end of the piece, as far as they follow from each other.
    alone: of each by itself."""
    heights = list(alone)
    for number in range(len(heights) - 1, -1, -1):
        height = heights[number]
        for later, cycles in behind[number].items():
            if cycles + heights[later] > height:  # noqa: PLR1730  a call of `max` takes longer
                height = cycles + heights[later]
        heights[number] = height
    return heights


@dataclass(frozen=True, slots=True)
class TimedOrder:
    """Instructions of a piece by their numbers. cycles: of all of them."""

    numbers: list[int]
    cycles: float


def scheduled(ops: Sequence[Decoded], core: Pipeline, memory: Addresses) -> TimedOrder:
    """A better order of a piece; the order that it has where none is found. A jump stays at the end."""
    last = len(ops) - ops[-1].leaves
    jump = range(last, len(ops))

    def timed(order: Iterable[int]) -> TimedOrder:
        whole = [*order, *jump]
        return TimedOrder(whole, sum(core.costs([ops[n] for n in whole])))

    alone = [core.alone(op) for op in ops]
    least = core.least(ops)
    best = timed(range(last))
    if best.cycles > least:
        behind = dependences(ops[:last], core, memory)
        high = heights(alone[:last], behind)
        scheduler = _List(ops[:last], alone, core, behind)
        for rank in ([-height for height in high], [n - height for n, height in enumerate(high)]):
            best = min(best, timed(scheduler.order(rank)), key=lambda order: order.cycles)
            if best.cycles <= least:
                break
    return best


_NUMBER = (1 << 20) - 1  # of an instruction, in what is sorted: its rank and, of equals, its number


class _List:
    """The scheduler at work."""

    def __init__(self, ops: Sequence[Decoded], alone: Sequence[int], core: Pipeline, behind: Behind) -> None:
        self._alone, self._pairs, self._width = alone, core.pairs, core.width
        self._pairing = [core.pairing(op) for op in ops]
        self._behind = [list(later.items()) for later in behind]
        self._counts = [0] * len(ops)  # how many each has to come behind
        for later in behind:
            for number in later:
                self._counts[number] += 1

    def order(self, rank: Sequence[int]) -> list[int]:
        """All instructions. rank: of each; the lowest that may begin is taken."""
        self._ranked = [ranked << 20 | number for number, ranked in enumerate(rank)]
        self._waits_for = self._counts.copy()  # how many of those were not taken yet
        self._earliest = [0] * len(rank)
        self._ready = sorted(self._ranked[number] for number, count in enumerate(self._counts) if not count)
        self._waiting: list[tuple[int, int]] = []  # the cycle from which on it is ready, and what is
        self._order: list[int] = []
        cycle, ready, waiting = 0, self._ready, self._waiting
        while ready or waiting:
            if not ready:
                cycle = max(cycle, waiting[0][0])
            while waiting and waiting[0][0] <= cycle:
                insort(ready, heappop(waiting)[1])
            first = ready[0] & _NUMBER
            if self._width == 1 or self._alone[first] > 1:
                self._take(first, cycle)
                cycle += self._alone[first]
            else:
                self._begin(first, cycle)
                cycle += 1
        return self._order

    def _begin(self, first: int, cycle: int) -> None:
        """The first that may begin, with one beside it if there is one."""
        pairs, pairing = self._pairs, self._pairing
        own = pairing[first]
        others = [ranked & _NUMBER for ranked in self._ready[1:TRIED]]
        for number in others:
            if pairs(own, pairing[number]):
                break
        else:
            for number in others:
                if pairs(pairing[number], own):
                    self._take(number, cycle)
                    self._take(first, cycle)
                    return
        self._take(first, cycle)
        for ranked in self._ready[:TRIED]:  # among them what waited for the first one
            if pairs(own, pairing[ranked & _NUMBER]):
                self._take(ranked & _NUMBER, cycle)
                return

    def _take(self, number: int, cycle: int) -> None:
        earliest, waits_for, ranked, ready = self._earliest, self._waits_for, self._ranked, self._ready
        self._order.append(number)
        ready.remove(ranked[number])
        for later, cycles in self._behind[number]:
            there = cycle + cycles
            if there > earliest[later]:  # noqa: PLR1730  a call of `max` takes longer
                earliest[later] = there
            waits_for[later] -= 1
            if not waits_for[later]:
                if earliest[later] <= cycle:
                    insort(ready, ranked[later])
                else:
                    heappush(self._waiting, (earliest[later], ranked[later]))
