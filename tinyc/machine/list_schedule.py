# SPDX-License-Identifier: Apache-2.0
"""The order of a straight piece of code for a core that waits for results, or begins two instructions in a cycle.

A list scheduler: cycle by cycle the instruction begins that has the longest way to the end of the piece before it, of
those whose operands are there; with a second one beside it where the core pairs them. What depends on each other keeps
its order: registers, flags, and accesses to memory that are not known to be apart.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Protocol

from tinyc.machine.lines import Line
from tinyc.machine.op import Decoded
from tinyc.machine.schedule import apart
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

    def lag(self, first: Decoded, second: Decoded) -> int:
        """Cycles from the beginning of an instruction to that of a later one that reads or writes what it wrote."""

    def pairs(self, older: Decoded, younger: Decoded) -> bool:
        """Whether both may begin in one cycle, as far as they share no registers."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """What is known of addresses in a function. own_stack: nothing but the stack pointer is an address on its stack.
    constants: registers through which only is read what the function does not write."""

    own_stack: bool = False
    constants: frozenset[str] = frozenset()

    def is_constant(self, op: Decoded) -> bool:
        """Whether an access only reads what the function does not write."""
        return op.row.loads and bool(op.address) and op.address <= self.constants


def better(lines: Sequence[Line], core: Pipeline, memory: Addresses) -> list[Line]:
    """A straight piece of code in a better order, with single loads where that saves cycles; of equals the shortest."""
    tried = [list(lines)]
    with_single_loads = list(single_loads(lines))
    if with_single_loads != tried[0]:
        tried.append(with_single_loads)
    timed = [(scheduled(tuple(line.op for line in piece), core, memory), piece) for piece in tried]
    order, piece = min(timed, key=lambda timed: (timed[0].cycles, len(timed[1])))
    return [piece[number] for number in order.numbers]


Behind = list[dict[int, int]]  # of each instruction: those that come behind it, and so many cycles later at least


def dependences(ops: Sequence[Decoded], core: Pipeline, memory: Addresses) -> Behind:
    """What has to come behind each instruction of a piece, and how many cycles later at least."""
    waits: Behind = [{} for _ in ops]
    writer: dict[str, int] = {}
    readers: defaultdict[str, list[int]] = defaultdict(list)
    accesses = _Accesses(memory)

    def behind(first: int, second: int, cycles: int) -> None:
        those = waits[first]
        if those.get(second, -1) < cycles:
            those[second] = cycles

    for number, op in enumerate(ops):
        reads, writes, both = _registers(op)
        for first in {writer[register] for register in both if register in writer}:
            behind(first, number, core.lag(ops[first], op))
        if FLAGS in writer and FLAGS in both:
            behind(writer[FLAGS], number, 1)
        for register in writes:
            for reader in readers.pop(register, ()):
                behind(reader, number, 0)
            writer[register] = number
            accesses.written(register)
        for register in reads:
            readers[register].append(number)
        if op.is_memory and not memory.is_constant(op):
            for access, cycles in accesses.before(op):
                behind(access, number, cycles)
            accesses.add(number, op)
    return waits


@dataclass(slots=True)
class _Access:
    """An access to memory. moved: an address register of it was written since, by itself, too."""

    number: int
    op: Decoded
    moved: bool = False


class _Accesses:
    """The accesses of a piece so far, but those of constants."""

    def __init__(self, memory: Addresses) -> None:
        self._memory = memory
        self._loads: list[_Access] = []
        self._stores: list[_Access] = []
        self._through: defaultdict[str, list[_Access]] = defaultdict(list)

    def before(self, op: Decoded) -> Iterator[tuple[int, int]]:
        """Numbers of the accesses behind which this one has to stay, and cycles."""
        for accesses, cycles in ((self._stores, 1),) if op.row.loads else ((self._loads, 0), (self._stores, 1)):
            for access in accesses:
                if access.moved or not apart(access.op, op, self._memory.own_stack):
                    yield access.number, cycles

    def add(self, number: int, op: Decoded) -> None:
        access = _Access(number, op, moved=bool(op.writes & op.address))
        (self._loads if op.row.loads else self._stores).append(access)
        for register in op.address:
            self._through[register].append(access)

    def written(self, register: str) -> None:
        for access in self._through.pop(register, ()):
            access.moved = True


FLAGS = "flags"


@lru_cache(maxsize=1 << 14)
def _registers(op: Decoded) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """What an instruction reads, what it writes, and both; the flags among them."""
    reads = op.reads | {FLAGS} if op.row.carries or op.leaves else op.reads
    writes = op.writes | {FLAGS} if op.row.flags else op.writes
    return reads, writes, reads | writes


def heights(ops: Sequence[Decoded], behind: Behind, core: Pipeline) -> list[int]:
    """Cycles from the beginning of each instruction to the end of the piece, as far as they follow from each other."""
    heights = [0] * len(ops)
    for number in range(len(ops) - 1, -1, -1):
        height = max(core.alone(ops[number]), 0)
        for later, cycles in behind[number].items():
            height = max(height, cycles + heights[later])
        heights[number] = height
    return heights


@dataclass(frozen=True, slots=True)
class TimedOrder:
    """Instructions of a piece by their numbers. cycles: of all of them."""

    numbers: list[int]
    cycles: float


@lru_cache(maxsize=4096)  # layers of one kernel share many pieces
def scheduled(ops: tuple[Decoded, ...], core: Pipeline, memory: Addresses) -> TimedOrder:
    """A better order of a piece; the order that it has where none is found. A jump stays at the end."""
    last = len(ops) - ops[-1].leaves
    behind = dependences(ops[:last], core, memory)
    orders = [list(range(last))]
    high = heights(ops[:last], behind, core)
    orders.append(_List(ops[:last], core, behind, [(-height, n) for n, height in enumerate(high)]).order())
    orders.append(_List(ops[:last], core, behind, [(n - height, n) for n, height in enumerate(high)]).order())
    whole = [[*order, *range(last, len(ops))] for order in orders]
    return min((TimedOrder(order, sum(core.costs([ops[n] for n in order]))) for order in whole), key=lambda o: o.cycles)


class _List:
    """The scheduler at work. rank: of each instruction; the lowest that may begin is taken."""

    def __init__(self, ops: Sequence[Decoded], core: Pipeline, behind: Behind, rank: Sequence[tuple[int, int]]) -> None:
        self._ops, self._core, self._behind, self._rank = ops, core, behind, rank
        self._waits_for = [0] * len(ops)
        for later in behind:
            for number in later:
                self._waits_for[number] += 1
        self._earliest = [0] * len(ops)
        self._free = sorted((n for n in range(len(ops)) if not self._waits_for[n]), key=lambda n: rank[n])
        self._order: list[int] = []

    def order(self) -> list[int]:
        cycle = 0
        while self._free:
            ready = self._ready(cycle)
            if not ready:
                cycle = min(self._earliest[n] for n in self._free)
                continue
            cycle += self._begin(ready, cycle)
        return self._order

    def _ready(self, cycle: int) -> list[int]:
        """Those that are tried in a cycle."""
        return list(islice((n for n in self._free if self._earliest[n] <= cycle), TRIED))

    def _begin(self, ready: Sequence[int], cycle: int) -> int:
        """One or two instructions in a cycle; gives the cycles that they take."""
        first = ready[0]
        if self._core.width == 1 or self._core.alone(self._ops[first]) > 1:
            self._take(first, cycle)
            return self._core.alone(self._ops[first])
        younger = next((n for n in ready[1:] if self._pairs(first, n)), None)
        older = next((n for n in ready[1:] if self._pairs(n, first)), None)
        if younger is None and older is not None:
            self._take(older, cycle)
            self._take(first, cycle)
            return 1
        self._take(first, cycle)
        beside_it = next((n for n in self._ready(cycle) if self._pairs(first, n)), None)
        if beside_it is not None:
            self._take(beside_it, cycle)
        return 1

    def _pairs(self, older: int, younger: int) -> bool:
        return self._core.pairs(self._ops[older], self._ops[younger])

    def _take(self, number: int, cycle: int) -> None:
        self._order.append(number)
        self._free.remove(number)
        earliest, waits_for = self._earliest, self._waits_for
        for later, cycles in self._behind[number].items():
            earliest[later] = max(earliest[later], cycle + cycles)
            waits_for[later] -= 1
            if not waits_for[later]:
                insort(self._free, later, key=self._rank.__getitem__)
