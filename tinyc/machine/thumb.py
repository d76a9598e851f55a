# SPDX-License-Identifier: Apache-2.0
"""Functions in assembly for Armv7E-M and Armv8-M with DSP, or with vectors (Helium): built instruction by instruction,
printed at the end as one naked C function.

A whole function in assembly depends on no compiler: neither its register allocation nor its -O level. Unified
syntax that arm-none-eabi-gcc and clang both assemble, no literal pools, no symbols, numeric local labels.

An instruction is an `Op` of the table; what a call executes follows from the instructions, the jumps between them and
how often loops turn (`Asm.loop`), and nobody counts by hand.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from tinyc.machine.cores import CORES, CORTEX_M55, Core
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Op, parse
from tinyc.machine.table import Kind
from tinyc.machine.work import CALL, Flow, Often, Work

__all__ = ["Asm", "Work", "inner_loop_bytes", "naked_function"]

_MNEMONIC = 7  # column of the operands
_WIDE_IMMEDIATE = 4095  # of ADDW and SUBW
_CONDITION = re.compile(r"(b|mov|add|sub)(eq|ne|hs|lo|mi|pl|ge|lt|gt|le)")
_LONG_STRING = """#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
"""  # C99 asks compilers for 4095 characters; clang warns beyond, with -Wpedantic


class Line(NamedTuple):
    """An instruction as it is printed. label: where it goes, or whose address it takes; then `text` ends before it.
    taken: a branch that is counted as taken."""

    op: Op
    text: str
    label: str = ""
    behind: str = ""
    taken: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target. aligned: on a word."""

    name: str
    aligned: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A comment on a line of its own."""

    text: str


@functools.lru_cache(maxsize=1 << 16)
def _line(mnemonic: str, operands: tuple[str, ...]) -> Line:
    """The instruction, made once."""
    written = ", ".join(operands)
    op = emitted(mnemonic, written)
    return Line(op, f"{mnemonic + ' ':<{_MNEMONIC}}{written}".rstrip(), taken=op.leaves)


@functools.lru_cache(maxsize=1 << 12)
def emitted(mnemonic: str, operands: str) -> Op:
    """An instruction as it is written, with width and condition in its mnemonic."""
    name, condition = mnemonic.removesuffix(".w"), ""
    if found := _CONDITION.fullmatch(name):
        name, condition = found[1], found[2]
    return parse(Instruction(0, bytes(4), name, operands, condition))


@functools.lru_cache(maxsize=1 << 16)
def _cycles(core: str, op: Op, before: Op | None) -> int:
    return _CORES[core].costs([op], before)[0]


_CORES: dict[str, Core] = {core.name: core for core in (*CORES.values(), CORTEX_M55)}


class Asm:
    """The instructions of one function.

    Loops are written within `loop`, which says how often they turn; a branch forward with a condition says how often
    it is taken, if that is worth counting. core: by whose rules cycles are counted.
    """

    def __init__(self, core: Core = CORES["cortex-m4"]) -> None:
        self._core = core
        self._items: list[Line | Label | Note] = []
        self._flow = Flow()
        self._often: list[Often] = []  # of each item
        self._labels: dict[str, int] = {}
        self._seen: set[str] = set()

    @property
    def items(self) -> Sequence[Line | Label | Note]:
        """All of the function, in order."""
        return self._items

    def _add(self, item: Line | Label | Note) -> None:
        self._items.append(item)
        self._often.append(self._flow.now)

    def op(self, mnemonic: str, *operands: str) -> None:
        """One instruction: `op("smlad", "r1", "r2", "r3", "r1")`."""
        line = _line(mnemonic, operands)
        self._add(line)
        if line.taken:
            self._flow.ends()

    @property
    def lines(self) -> int:
        """Lines so far: instructions, nearly all of 4 bytes, and a few labels."""
        return len(self._items) + sum(isinstance(item, Label) and item.aligned for item in self._items)

    def note(self, text: str) -> None:
        """A comment on a line of its own."""
        self._add(Note(text))

    # ---- where it goes on ----

    def label(self, name: str, aligned: bool = False) -> None:
        """A branch target. aligned: on a word, for loops (unaligned 32-bit instructions fetch slower)."""
        self._place(name, aligned)
        self._flow.label(name)

    def _place(self, name: str, aligned: bool) -> None:
        self._add(Label(name, aligned))
        self._number(name)
        self._seen.add(name)

    @contextmanager
    def loop(self, name: str, turns: int | str, aligned: bool = True, of_call: bool = False) -> Iterator[None]:
        """A loop that begins here; the branch back to `name` is written within the context.

        turns: each time that it is entered, or with of_call in all of a call; a unit (`pair`) where the caller says
        how often that is: it turns once for each.
        """
        self._place(name, aligned)
        with self._flow.loop(name, turns, of_call):
            yield

    @contextmanager
    def per(self, *units: str) -> Iterator[None]:
        """What is written in the context is run once for each of the units where what is around it is run once."""
        with self._flow.per(units):
            yield

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

    def _jump(self, mnemonic: str, name: str, operands: Sequence[str]) -> None:
        before = "".join(f"{operand}, "[:-1] for operand in operands)  # `le lr,1b`
        op = emitted(mnemonic, ", ".join((*operands, "")))
        self._number(name)
        taken = op.leaves and (name in self._seen or not op.conditional)
        self._add(Line(op, f"{mnemonic:<{_MNEMONIC}}{before}", name, taken=taken))

    @property
    def _last_op(self) -> Op:
        last = self._items[-1]
        assert isinstance(last, Line)
        return last.op

    def address(self, target: str, name: str) -> None:
        """target = the address of a label as jumps take it (bit 0: Thumb). The code goes there and on from here."""
        self._number(name)
        self._add(Line(emitted("adr.w", target), f"{'adr.w':<{_MNEMONIC}}{target}, ", name, "+1"))
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
        known: dict[str, Often] = {}
        counts: dict[int, int] = {}
        found = Work()
        for often, cost in zip(self._often, self._costs(), strict=True):
            times = counts.get(id(often))
            if times is None:
                times = counts[id(often)] = self._flow.of(often, known).get(unit, 0)
            if times:
                found += times * cost
        return found

    def executions(self, unit: str = CALL) -> list[int]:
        """How often each item runs in a call."""
        known: dict[str, Often] = {}
        return [self._flow.of(often, known).get(unit, 0) for often in self._often]

    def _costs(self) -> Iterator[Work]:
        """Of each item, run once."""
        name, last = self._core.name, None
        for item in self._items:
            if isinstance(item, Line):
                cycles = _cycles(name, item.op, last)
                yield Work(1, cycles + (self._core.taken(item.op, None) if item.taken else 0))
                last = None if item.taken else item.op
            else:
                yield Work()
                if isinstance(item, Label):
                    last = None

    # ---- text ----

    def text(self) -> list[str]:
        """Lines for a C string literal each, without quotes; branches say whether they go back or forward."""
        seen: set[str] = set()
        lines: list[str] = []
        for item in self._items:
            if isinstance(item, Label):
                lines += [".p2align 2"] if item.aligned else []
                lines.append(f"{self._number(item.name)}:")
                seen.add(item.name)
            elif isinstance(item, Note):
                lines.append(f"@ {item.text}")
            elif item.label:
                direction = "b" if item.label in seen else "f"
                lines.append(f"{item.text}{self._number(item.label)}{direction}{item.behind}")
            else:
                lines.append(item.text)
        return lines

    def _number(self, name: str) -> int:
        return self._labels.setdefault(name, len(self._labels) + 1)


def inner_loop_bytes(text: str) -> int:
    """Code bytes of the largest loop that holds no other, in the C text of naked functions; of all where none loops."""
    lines = re.findall(r'^\s*"(\S.*?)\s*\\n"', text, re.MULTILINE)
    starts: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    for number, line in enumerate(lines):
        if line.endswith(":"):
            starts[line[:-1]] = number
        elif (found := re.fullmatch(r"b\w*(?:\.w)?\s+(\d+)b", line)) and not re.match(r"bl\s", line):
            loops.append((starts[found[1]], number))

    def holds(outer: tuple[int, int]) -> bool:
        return any(loop != outer and outer[0] <= loop[0] and loop[1] <= outer[1] for loop in loops)

    return 4 * max((loop[1] - loop[0] for loop in loops if not holds(loop)), default=len(lines))


def naked_function(name: str, parameters: Sequence[str], asm: Asm) -> str:
    """The C text of a static function whose body is the assembly; AAPCS, parameters as the C declarations."""
    declared = ",\n    ".join(f"{parameter} TC_UNUSED" for parameter in parameters)
    body = "\n".join(f'        "{line:<34}\\n"' for line in [".syntax unified", *asm.text()])
    function = f"static TC_NAKED void {name}(\n    {declared})\n{{\n    __asm__ volatile(\n{body});\n}}\n"
    return _LONG_STRING + function + "#pragma GCC diagnostic pop\n"
