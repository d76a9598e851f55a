# SPDX-License-Identifier: Apache-2.0
"""The order of a straight piece of code for a core that waits for results, or begins two instructions in a cycle.

A list scheduler: cycle by cycle the instruction begins that has the longest way to the end of the piece before it, of
those whose operands are there; with a second one beside it where the core pairs them. What depends on each other keeps
its order: registers, flags, and accesses to memory that are not known to be apart.
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
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


@lru_cache(maxsize=4096)  # layers of one kernel share many pieces
def better(lines: tuple[Line, ...], core: Pipeline, memory: Addresses) -> tuple[Line, ...]:
    """A straight piece of code in a better order, with single loads where that saves cycles; of equals the shortest."""
    tried = [lines]
    with_single_loads = tuple(single_loads(lines))
    if with_single_loads != lines:
        tried.append(with_single_loads)
    timed = [(scheduled([line.op for line in piece], core, memory), piece) for piece in tried]
    order, piece = min(timed, key=lambda timed: (timed[0].cycles, len(timed[1])))
    return tuple(piece[number] for number in order.numbers)


Behind = list[dict[int, int]]  # of each instruction: those that come behind it, and so many cycles later at least


def dependences(ops: Sequence[Decoded], core: Pipeline, memory: Addresses) -> Behind:
    """What has to come behind each instruction of a piece, and how many cycles later at least; what follows from others
    may be left out."""
    waits: Behind = [{} for _ in ops]
    writer: dict[str, int] = {}
    readers: defaultdict[str, list[int]] = defaultdict(list)
    accesses = _Accesses(memory)
    lag = core.lag
    for number, op in enumerate(ops):
        reads, writes, both = _registers(op)
        for register in both:
            if register in writer:
                first = writer[register]
                cycles = 1 if register == FLAGS else lag(ops[first], op)
                if waits[first].get(number, -1) < cycles:
                    waits[first][number] = cycles
        for register in writes:
            for reader in readers.pop(register, ()):
                waits[reader].setdefault(number, 0)
            writer[register] = number
            accesses.written(register)
        for register in reads:
            readers[register].append(number)
        if op.is_memory and not memory.is_constant(op):
            for access, cycles in accesses.add(number, op):
                if waits[access].get(number, -1) < cycles:
                    waits[access][number] = cycles
    return waits


@dataclass(slots=True, eq=False)
class _Access:
    """An access to memory. base, start, end: its bytes, as far as they are known. moved: an address register of it was
    written since, by itself, too."""

    number: int
    base: str
    start: int
    end: int
    on_stack: bool
    moved: bool


class _Accesses:
    """The accesses of a piece so far, but those of constants."""

    def __init__(self, memory: Addresses) -> None:
        self._own_stack = memory.own_stack
        self._loads: list[_Access] = []
        self._stores: list[_Access] = []
        self._through: defaultdict[str, list[_Access]] = defaultdict(list)

    def add(self, number: int, op: Decoded) -> list[tuple[int, int]]:
        """The next access; gives those behind which it has to stay, by their numbers, and cycles."""
        moves = not op.writes.isdisjoint(op.address)
        access = _Access(number, *bytes_of(op), "sp" in op.address, moves)
        loads = op.row.loads
        stores_before = self._conflicts(self._stores, access)
        before = [(store.number, 1) for store in stores_before]
        if not loads:
            loads_before = self._conflicts(self._loads, access)
            before += [(load.number, 0) for load in loads_before]
            if moves:  # all accesses that follow stay behind this one, and so behind those
                self._stores = [store for store in self._stores if store not in stores_before]
                self._loads = [load for load in self._loads if load not in loads_before]
        (self._loads if loads else self._stores).append(access)
        for register in op.address:
            self._through[register].append(access)
        return before

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
    heights = [max(core.alone(op), 0) for op in ops]
    for number in range(len(ops) - 1, -1, -1):
        height = heights[number]
        for later, cycles in behind[number].items():
            height = max(height, cycles + heights[later])
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

    least = sum([core.alone(op) for op in ops]) / core.width
    best = timed(range(last))
    if best.cycles > least:
        behind = dependences(ops[:last], core, memory)
        high = heights(ops[:last], behind, core)
        scheduler = _List(ops[:last], core, behind)
        for rank in ([-height for height in high], [n - height for n, height in enumerate(high)]):
            best = min(best, timed(scheduler.order(rank)), key=lambda order: order.cycles)
            if best.cycles <= least:
                break
    return best


_NUMBER = (1 << 20) - 1  # of an instruction, in what is sorted: its rank and, of equals, its number


class _List:
    """The scheduler at work."""

    def __init__(self, ops: Sequence[Decoded], core: Pipeline, behind: Behind) -> None:
        self._ops, self._core = ops, core
        self._alone = [core.alone(op) for op in ops]
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
        self._free = sorted(self._ranked[number] for number, count in enumerate(self._counts) if not count)
        self._order: list[int] = []
        begin = self._begin_alone if self._core.width == 1 else self._begin
        cycle, earliest = 0, self._earliest
        while self._free:
            for ranked in self._free:
                if earliest[ranked & _NUMBER] <= cycle:
                    cycle += begin(ranked & _NUMBER, cycle)
                    break
            else:
                cycle = min([earliest[ranked & _NUMBER] for ranked in self._free])
        return self._order

    def _begin_alone(self, first: int, cycle: int) -> int:
        """An instruction; gives the cycles that it takes."""
        self._take(first, cycle)
        return self._alone[first]

    def _begin(self, first: int, cycle: int) -> int:
        """The first that may begin, with one beside it if there is one; gives the cycles that they take."""
        if self._alone[first] > 1:
            return self._begin_alone(first, cycle)
        ready = self._ready(cycle)[1:]
        younger = next((n for n in ready if self._pairs(first, n)), None)
        older = next((n for n in ready if self._pairs(n, first)), None) if younger is None else None
        if older is not None:
            self._take(older, cycle)
            self._take(first, cycle)
            return 1
        self._take(first, cycle)
        beside_it = next((n for n in self._ready(cycle) if self._pairs(first, n)), None)
        if beside_it is not None:
            self._take(beside_it, cycle)
        return 1

    def _ready(self, cycle: int) -> list[int]:
        """Those that are tried in a cycle."""
        earliest = self._earliest
        ready: list[int] = []
        for ranked in self._free:
            if earliest[ranked & _NUMBER] <= cycle:
                ready.append(ranked & _NUMBER)
                if len(ready) == TRIED:
                    break
        return ready

    def _pairs(self, older: int, younger: int) -> bool:
        return self._core.pairs(self._ops[older], self._ops[younger])

    def _take(self, number: int, cycle: int) -> None:
        earliest, waits_for = self._earliest, self._waits_for
        self._order.append(number)
        self._free.remove(self._ranked[number])
        for later, cycles in self._behind[number]:
            earliest[later] = max(earliest[later], cycle + cycles)
            waits_for[later] -= 1
            if not waits_for[later]:
                insort(self._free, self._ranked[later])
