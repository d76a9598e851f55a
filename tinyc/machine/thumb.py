# SPDX-License-Identifier: Apache-2.0
"""Functions in assembly for Armv7E-M and Armv8-M with DSP, or with vectors (Helium): built instruction by instruction,
printed at the end as one naked C function.

A whole function in assembly depends on no compiler: neither its register allocation nor its -O level. Unified
syntax that arm-none-eabi-gcc and clang both assemble, no literal pools, no symbols, numeric local labels.

An instruction is `Decoded` by the table; what a call executes follows from the instructions, the jumps between them
and how often loops turn (`Asm.loop`), and nobody counts by hand.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

from tinyc.machine.assembly import Assembly, call_frame, naked_text, string
from tinyc.machine.cores import Core
from tinyc.machine.dual_issue import CortexM7, CortexM33
from tinyc.machine.lines import MNEMONIC, Label, Line, Note, branch_widths, emitted, line_of, wide, widths_of
from tinyc.machine.list_schedule import Addresses, better
from tinyc.machine.op import Decoded
from tinyc.machine.schedule import BasicBlock, cycles_on, ordered
from tinyc.machine.table import Kind
from tinyc.machine.three_stage import ThreeStage
from tinyc.machine.unwind import directives
from tinyc.machine.widths import LONG, SHORT, Slot, choose
from tinyc.machine.work import CALL, Often, Work

__all__ = ["Asm", "Naked", "Work", "fpu_registers", "naked_function"]

P = ParamSpec("P")
T = TypeVar("T")

_WIDE_IMMEDIATE = 4095  # of ADDW and SUBW
_SHORT_FRAME = 508  # of the 16-bit instructions that move sp
ListCore = CortexM7 | CortexM33  # cores that wait for results, or begin two instructions: `list_schedule.py`
_PLAIN_BRANCH = re.compile(r"b(?!l$|l\.)\w*(\.w)?")  # no call, and nothing but a label behind it


class Asm(Assembly):
    """The instructions of one function. core: by whose rules cycles are counted and instructions ordered."""

    def __init__(self, core: Core) -> None:
        super().__init__()
        self._core = core
        self._lines = 0
        self._cached_cycles: Sequence[int] = ()
        self._cached_sums: Sequence[tuple[Often, int, int]] = ()
        self._cached_bytes = 0, 0  # of how many items
        self._is_ordered = False
        self._constants: frozenset[str] = frozenset()
        self._saved: list[str] = []
        self._frame = 0

    def reads_constants(self, *registers: str) -> None:
        """Through these registers only is read what the function does not write, wherever it does."""
        self._constants |= frozenset(registers)

    def _add(self, item: Line | Label | Note) -> None:
        super()._add(item)
        self._lines += 1 + item.aligned if isinstance(item, Label) else not isinstance(item, Note)

    def op(self, mnemonic: str, *operands: str) -> None:
        """One instruction: `op("smlad", "r1", "r2", "r3", "r1")`."""
        line = line_of(mnemonic, operands)
        self._items.append(line)  # `_add` without its questions: every instruction comes here
        self._often.append(self._flow.now)
        self._lines += 1
        if line.taken:
            self._flow.ends()

    def piece(self, write: Callable[Concatenate[Asm, P], T], *arguments: P.args, **named: P.kwargs) -> T:
        """Straight code, without labels and jumps: what `write(asm, *arguments)` writes, which follows from its
        arguments alone. It is written once, for all functions that have it. Gives what `write` gives."""
        if named:
            raise TypeError("a piece is told of by arguments in order")
        items, lines, result = _piece(self._core, write, arguments)
        self._items += items
        self._often += [self._flow.now] * len(items)
        self._lines += lines
        return result

    @property
    def core(self) -> Core:
        """By whose rules."""
        return self._core

    @property
    def lines(self) -> int:
        """Lines so far: instructions, nearly all of 4 bytes, and a few labels."""
        return self._lines

    # ---- prologue and epilogue ----

    def save(self, *registers: str, frame: int = 0) -> None:
        """Pushes the caller's registers, lists as `{r4-r11, lr}` or `{d8-d15}`, empty ones aside, then takes `frame`
        bytes of the stack. What `restore` undoes."""
        for listed in filter(None, registers):
            self.op("vpush" if listed[1] in "ds" else "push", listed)
            self._saved.append(listed)
        if frame:
            self.op("sub" if frame <= _SHORT_FRAME else "subw", "sp", "sp", f"#{frame}")
            self._frame = frame

    def restore(self, core: str = "", beside: int = 0, keep: int = 0) -> None:
        """Gives back stack and registers, and returns; with `keep` that many of the first lists stay. core: what is
        popped of the list with lr, where that held arguments too: `beside` bytes of them go with the frame, others
        were popped before."""
        if size := self._frame + beside:
            self.op("add" if size <= _SHORT_FRAME else "addw", "sp", "sp", f"#{size}")
        self._frame, link = 0, ""
        while len(self._saved) > keep:
            listed = self._saved.pop()
            link = "" if self._saved else "pc" if "lr" in listed else "lr"
            listed = core if core and "lr" in listed else listed
            self.op("vpop" if listed[1] in "ds" else "pop", listed.replace("lr", link or "lr"))
        if link == "lr":
            self.op("bx", "lr")

    # ---- where it goes on ----

    def branch(self, mnemonic: str, name: str, *operands: str, taken: int = 0) -> None:
        """A branch to a label, defined before or after. taken: how often in a call, of one with a condition that is
        not the end of a loop."""
        self._jump(mnemonic, name, operands)
        op = self._last_op
        if op.kind is Kind.CALL:
            self._flow.call(name)
        elif not op.conditional:
            self._flow.jump(name, self._flow.now)
        else:
            self._flow.jump(name, {CALL: taken} if taken else {})

    def leave(self, mnemonic: str, name: str) -> None:
        """A branch out of the innermost loop, which is always left here."""
        self._jump(mnemonic, name, ())
        self._flow.leave(name)

    def always(self, mnemonic: str, name: str) -> None:
        """A branch with a condition that holds whenever it is reached."""
        self._jump(mnemonic, name, ())
        self._flow.jump(name, self._flow.now)

    def _jump(self, mnemonic: str, name: str, operands: Sequence[str]) -> None:
        before = "".join(f"{operand}, "[:-1] for operand in operands)  # `le lr,1b`
        op = emitted(mnemonic, ", ".join((*operands, "")))
        self._number(name)
        taken = op.leaves and (name in self._seen or not op.conditional)
        self._add(Line(op, f"{mnemonic:<{MNEMONIC}}{before}", name, taken=taken, moves=True))

    @property
    def _last_op(self) -> Decoded:
        last = self._items[-1]
        assert isinstance(last, Line)
        return last.op

    def address(self, target: str, name: str) -> None:
        """target = the address of a label as jumps take it (bit 0: Thumb); the code goes there and on from here."""
        self._number(name)
        self._add(Line(emitted("adr.w", target), f"{'adr.w':<{MNEMONIC}}{target}, ", name, "+1"))
        self._flow.call(name)

    # ---- instructions that depend on their values ----

    def add(self, target: str, source: str, value: int, temp: str = "") -> None:
        """target = source + value; a large value goes through `temp` (target itself when that is not source)."""
        temp = temp or target
        if value == 0:
            if target != source:
                self.op("mov", target, source)
        elif abs(value) <= _WIDE_IMMEDIATE:
            self.op("add" if value > 0 else "sub", target, source, f"#{abs(value)}")
        else:
            if temp == source:
                raise ValueError(f"adding {value} to {source} needs another register")
            self.constant(temp, value)
            self.op("add", target, source, temp)

    def count_down(self, temp: str, place: str, name: str, branch: str = "bne.w") -> None:
        """Back to the label until the counter in memory (with no place: in the register) is 0."""
        if place:
            self.op("ldr", temp, place)
        self.op("subs", temp, temp, "#1")
        if place:
            self.op("str", temp, place)
        self.branch(branch, name)

    def until_equal(self, register: str, end: str, name: str, branch: str = "bne.w") -> None:
        """Back to the label until two registers are equal."""
        self.op("cmp", register, end)
        self.branch(branch, name)

    def constant(self, target: str, value: int) -> None:
        """target = a 32-bit constant."""
        bits = value & 0xFFFFFFFF
        self.op("movw", target, f"#{bits & 0xFFFF}")
        if bits >> 16:
            self.op("movt", target, f"#{bits >> 16}")

    def load_multiple(self, base: str, registers: Sequence[str], advance: bool = True) -> None:
        """Consecutive words into registers, which must be in ascending order; with `advance`, base moves on."""
        update = "!" if advance else ""
        if len(registers) == 1:
            self.op("ldr", registers[0], f"[{base}]" + (", #4" if advance else ""))
        elif len(registers) == 2:
            self.op("ldrd", *registers, f"[{base}]" + (", #8" if advance else ""))
        else:
            self.op("ldm", f"{base}{update}", "{" + ", ".join(registers) + "}")

    # ---- what it comes to ----

    def work(self, unit: str = CALL) -> Work:
        """What a call executes; with a unit, what it executes beside for each of these.

        Branches back are taken, forward ones with a condition are not.
        """
        if isinstance(self._core, ListCore):
            self.reorder()
        by_label: dict[str, Often] = {}
        instructions = cycles = 0
        for often, count, cost in self._sums:
            times = self._flow.of(often, by_label).get(unit, 0)
            instructions += times * count
            cycles += times * cost
        return Work(instructions, cycles)

    @property
    def _cycles(self) -> Sequence[int]:
        """Of each item, run once. Kept for the items that there are: asked for each unit, and by the widths."""
        if len(self._cached_cycles) != len(self._items):
            self._cached_cycles, self._cached_sums = self._counted(), ()
        return self._cached_cycles

    @property
    def _sums(self) -> Sequence[tuple[Often, int, int]]:
        """(how often, instructions, cycles) of the lines that run equally often, each run once. Kept like `_cycles`."""
        cycles_of = self._cycles
        if not self._cached_sums:
            sums: dict[int, tuple[Often, int, int]] = {}
            start, often = 0, self._often
            for stop in range(1, len(often) + 1):  # stretches of lines that run equally often
                if stop < len(often) and often[stop] is often[start]:
                    continue
                lines = sum([type(item) is Line for item in self._items[start:stop]])
                _, count, cycles = sums.get(id(often[start]), (often[start], 0, 0))
                sums[id(often[start])] = often[start], count + lines, cycles + sum(cycles_of[start:stop])
                start = stop
            self._cached_sums = tuple(sums.values())
        return self._cached_sums

    def _counted(self) -> list[int]:
        if isinstance(self._core, ListCore):
            return self._counted_together(self._core)
        core, cycles, widths = self._core, cycles_on(self._core), list[int]()
        first: Decoded | None = None  # the two instructions before
        last: Decoded | None = None
        for item in self._items:
            if type(item) is Line:
                op = item.op
                own = cycles(op, last)
                if item.taken:
                    own += core.taken(op, None, [one for one in (first, last) if one is not None])
                    first = last = None
                else:
                    first, last = last, op
                widths.append(own)
            else:
                widths.append(0)
                if type(item) is Label:
                    first = last = None
        return widths

    def _counted_together(self, core: ListCore) -> list[int]:
        """Of a core where cycles depend on more than the instruction before."""
        costs = [0] * len(self._items)
        run: list[tuple[int, Line]] = []

        def count() -> None:
            if not run:
                return
            ops = [line.op for _, line in run]
            for number, ((at, line), cost) in enumerate(zip(run, core.costs(ops), strict=True)):
                before = ops[max(0, number - 2) : number]
                costs[at] = cost + (core.taken(line.op, None, before) if line.taken else 0)
            run.clear()

        for at, item in enumerate(self._items):
            if isinstance(item, Line):
                run.append((at, item))
            if isinstance(item, Label) or (isinstance(item, Line) and item.taken):
                count()
        count()
        return costs

    def reorder(self) -> None:
        """Moves instructions within basic blocks that run in loops to where the core waits less for them, once. To be
        asked for when the function is complete; comments and labels stay."""
        if isinstance(self._core, ListCore) and not self._is_ordered:
            self._cached_cycles, self._cached_sums, self._cached_bytes, self._is_ordered = (), (), (0, 0), True
            self._schedule(self._core)
        if not isinstance(self._core, ThreeStage) or self._is_ordered:
            return
        self._cached_cycles, self._cached_sums, self._cached_bytes, self._is_ordered = (), (), (0, 0), True
        weights = self._weights()
        own_stack = self._owns_stack()
        for start, stop in self._pieces():
            if stop - start > 2 and weights[start] > 1:
                self._reorder(self._core, start, stop, own_stack)

    def _owns_stack(self) -> bool:
        """Whether nothing but the stack pointer is an address on the stack."""
        return not any(type(item) is Line and item.op.takes_stack for item in self._items)

    def _schedule(self, core: ListCore) -> None:
        """By list scheduling, comments first: instructions go over them."""
        memory, weights = Addresses(self._owns_stack(), self._constants), self._weights()
        items: list[Line | Label | Note] = []
        often: list[Often] = []
        for start, stop in self._stretches():
            part = self._items[start:stop]
            lines = [item for item in part if isinstance(item, Line)]
            if len(lines) > 2 and weights[start] > 1:
                part = [item for item in part if isinstance(item, Note)]
                part += better(tuple(lines), core, memory)
            items += part
            often += [self._often[start]] * len(part)
        self._items, self._often = items, often

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """All items, cut where something stays where it is; comments do not."""
        start = 0
        for at, item in enumerate(self._items):
            leaves = isinstance(item, Line) and item.op.leaves
            fixed = isinstance(item, Label) or (isinstance(item, Line) and not leaves and item.op.stays)
            if start < at and (fixed or self._often[at] is not self._often[start]):
                yield start, at
                start = at
            if fixed or leaves:
                yield start, at + 1
                start = at + 1
        if start < len(self._items):
            yield start, len(self._items)

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Items that are run one after the other, equally often, with nothing among them that stays where it is."""
        start = 0
        for at, (item, often) in enumerate(zip(self._items, self._often, strict=True)):
            if type(item) is not Line:
                yield start, at
                start = at + 1
                continue
            op = item.op
            joins = (op.leaves or not op.stays) and often is self._often[start]
            if not joins or op.leaves:
                yield start, at + (joins and op.leaves)
                start = at + 1
        yield start, len(self._items)

    def _reorder(self, core: ThreeStage, start: int, stop: int, own_stack: bool) -> None:
        lines = [item for item in self._items[start:stop] if isinstance(item, Line)]
        end = lines[-1]
        behind = self._line_at(stop) if not end.op.leaves or end.op.conditional else None
        ops = tuple([line.op for line in lines])
        block = BasicBlock(core, ops, self._line_at(start - 1), behind, end.taken, own_stack)
        self._items[start:stop] = [lines[number] for number in ordered(block)]

    def _line_at(self, at: int) -> Decoded | None:
        """The instruction there, if it is one that goes on to the next."""
        item = self._items[at] if 0 <= at < len(self._items) else None
        return item.op if isinstance(item, Line) and not item.taken else None

    # ---- text ----

    def text(self) -> list[str]:
        """Lines for a C string literal each, without quotes; branches say whether they go back or forward."""
        return [line for lines in self.printed() for line in lines]

    def printed(self) -> Iterator[Sequence[str]]:
        """The lines of each item."""
        seen: set[str] = set()
        for item in self._widened():
            if isinstance(item, Label):
                seen.add(item.name)
                line = f"{self._number(item.name)}:"
                yield (".p2align 2", line) if item.aligned else (line,)
            elif isinstance(item, Note):
                yield ()
            elif item.label:
                direction = "b" if item.label in seen else "f"
                yield (f"{item.text}{self._number(item.label)}{direction}{item.behind}",)
            else:
                yield (item.text,)

    @property
    def inner_loop_bytes(self) -> int:
        """Of the largest loop that holds no other, every line counted as 4 bytes; of all where none loops."""
        starts: dict[str, int] = {}
        loops: list[tuple[int, int]] = []
        line = 1  # behind the directive of the syntax
        for item in self._items:
            if isinstance(item, Line):
                if item.label and item.label in starts and _PLAIN_BRANCH.fullmatch(item.text.rstrip()):
                    loops.append((starts[item.label], line))
                line += 1
            elif isinstance(item, Label):
                line += item.aligned
                starts[item.name] = line
                line += 1

        def holds(outer: tuple[int, int]) -> bool:
            return any(loop != outer and outer[0] <= loop[0] and loop[1] <= outer[1] for loop in loops)

        return 4 * max((loop[1] - loop[0] for loop in loops if not holds(loop)), default=line)

    @property
    def code_bytes(self) -> int:
        """Bytes of the function, every instruction as short as it can be. On cores with an order of their own that is
        what an assembler makes of it; where instructions are widened, a few per cent less."""
        if isinstance(self._core, ListCore):
            self.reorder()  # loads of several registers may have become single ones
        if self._cached_bytes[0] != len(self._items):
            self._cached_bytes = len(self._items), self._counted_bytes()
        return self._cached_bytes[1]

    def function(self, name: str, parameters: Sequence[str]) -> str:
        return naked_function(name, parameters, self)

    def _counted_bytes(self) -> int:
        places = {item.name: at for at, item in enumerate(self._items) if type(item) is Label}
        size = pending = 0
        for at, item in enumerate(self._items):
            if type(item) is Line:
                size += self._widths(item, at, places, pending)[0] if item.label or pending else item.least
                if pending or item.op.kind is Kind.IT:
                    pending = _conditional_behind(item, pending)
            elif type(item) is Label and item.aligned:
                size += size % LONG
        return size

    def unwinding(self) -> Mapping[int, Sequence[str]]:
        """What a debugger has to know from an item on, by its number."""
        return directives(self.marks())

    def _widened(self) -> Sequence[Line | Label | Note]:
        """The items; `.w` at short instructions whose width would cost cycles on a core with a prefetch buffer."""
        if not isinstance(self._core, ThreeStage):
            return self._items
        items = list(self._items)
        slots = self._slots()
        for at, width in zip(slots, choose(list(slots.values())), strict=True):
            item = items[at]
            if isinstance(item, Line) and width == LONG and SHORT in slots[at].widths:
                items[at] = wide(item)
        return items

    def _slots(self) -> dict[int, Slot]:
        """What there is to choose for each line, and the labels between; by the item's number."""
        weights = self._weights()
        places = {item.name: at for at, item in enumerate(self._items) if isinstance(item, Label)}
        slots: dict[int, Slot] = {}
        pending, falls = 0, True
        for at, (item, own) in enumerate(zip(self._items, self._cycles, strict=True)):
            if isinstance(item, Line):
                op = item.op
                slow = own > 1 and not op.leaves
                widths = self._widths(item, at, places, pending)
                slots[at] = Slot(widths, weights[at], slow, returns=op.kind is Kind.CALL)
                pending = _conditional_behind(item, pending)
                falls = op.kind is Kind.CALL or not op.leaves or op.conditional
            elif isinstance(item, Label):
                slots[at] = Slot((), weights[min(at + 1, len(weights) - 1)], aligned=item.aligned, falls=falls)
                falls = True
        return slots

    @staticmethod
    def _widths(line: Line, at: int, places: Mapping[str, int], conditional: int) -> tuple[int, ...]:
        """What a line may take. at: its number; conditional: lines from it on that an IT instruction is about."""
        return branch_widths(line, abs(places[line.label] - at)) if line.label else widths_of(line, conditional > 0)

    def _weights(self) -> list[int]:
        """How often each item runs; where the caller says for how many units, eight."""
        by_label: dict[str, Often] = {}
        weights: dict[int, int] = {}
        for often in self._often:
            if id(often) not in weights:
                runs = self._flow.of(often, by_label)
                times = sum(count if unit == CALL else 8 * count for unit, count in runs.items())
                weights[id(often)] = max(1, times)
        return [weights[id(often)] for often in self._often]


@functools.lru_cache(maxsize=1 << 14)
def _piece(
    core: Core, write: Callable[..., Any], arguments: tuple[Hashable, ...]
) -> tuple[Sequence[Line | Label | Note], int, Any]:
    """What is written, how many of it are lines, and what `write` gives."""
    asm = Asm(core)
    result = write(asm, *arguments)
    if any(isinstance(item, Label) or (isinstance(item, Line) and item.op.leaves) for item in asm.items):
        raise ValueError(f"{write.__qualname__} writes labels or jumps: that is no piece")
    return asm.items, asm.lines, result


def _conditional_behind(line: Line, conditional: int) -> int:
    """Lines behind one that an IT instruction is about. conditional: from that one on."""
    return len(line.op.instruction.mnemonic) - 1 if line.op.kind is Kind.IT else max(0, conditional - 1)


class Naked:
    """A static C function whose body is the assembly; AAPCS, parameters as the C declarations.

    Its text is printed when it is asked for: of most functions that a compile tries nobody does.
    """

    def __init__(self, name: str, parameters: Sequence[str], asm: Asm) -> None:
        self._name, self._parameters, self._asm = name, parameters, asm

    @property
    def code_bytes(self) -> int:
        return self._asm.code_bytes

    @property
    def lines(self) -> int:
        """Of assembly in the text."""
        self._asm.reorder()
        labels = [item for item in self._asm.items if isinstance(item, Label)]
        notes = sum(isinstance(item, Note) for item in self._asm.items)
        return 1 + len(self._asm.items) - notes + sum(label.aligned for label in labels)  # the first is the directive

    @functools.cached_property
    def inner_loop_bytes(self) -> int:
        """Of the largest loop that holds no other."""
        return self._asm.inner_loop_bytes

    @functools.cached_property
    def text(self) -> str:
        """The C text, with instructions moved."""
        self._asm.reorder()
        return naked_text(self._name, self._parameters, list(_body(self._asm)))


def fpu_registers(first: int, count: int) -> str:
    """A list of registers of the FPU: `{s16-s31}`."""
    return f"{{s{first}-s{first + count - 1}}}" if count > 1 else f"{{s{first}}}"


def naked_function(name: str, parameters: Sequence[str], asm: Asm) -> str:
    """The C text of a function that is printed anyway."""
    return Naked(name, parameters, asm).text


def _body(asm: Asm) -> Iterator[str]:
    unwinding = asm.unwinding()
    yield string(".syntax unified")
    for number, (item, lines) in enumerate(zip(asm.items, asm.printed(), strict=True)):
        yield from map(call_frame, unwinding.get(number, ()))
        if isinstance(item, Note):
            yield f"        /* {item.text} */"
        yield from map(string, lines)
