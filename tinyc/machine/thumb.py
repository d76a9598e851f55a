# SPDX-License-Identifier: Apache-2.0
"""Assembler text for Armv7E-M and Armv8-M with DSP, built line by line and printed as one naked C function.

A whole function in assembly depends on no compiler: neither its register allocation nor its -O level. Unified
syntax that arm-none-eabi-gcc and clang both assemble, no literal pools, no symbols, numeric local labels.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tinyc.machine.cores import CORES
from tinyc.machine.instruction import Instruction
from tinyc.machine.operands import Op, parse

_MNEMONIC = 7  # column of the operands
_WIDE_IMMEDIATE = 4095  # of ADDW and SUBW
_LONG_STRING = """#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
"""  # C99 asks compilers for 4095 characters; clang warns beyond, with -Wpedantic


@dataclass(frozen=True, slots=True)
class Work:
    """Executed instructions, and their cycles on a Cortex-M4 without wait states by the rules of `tinyc profile`.

    An int that is added stands for so many instructions of a cycle each.
    """

    instructions: int = 0
    cycles: int = 0

    def __add__(self, other: Work | int) -> Work:
        more = Work(other, other) if isinstance(other, int) else other
        return Work(self.instructions + more.instructions, self.cycles + more.cycles)

    __radd__ = __add__

    def __sub__(self, other: Work) -> Work:
        return Work(self.instructions - other.instructions, self.cycles - other.cycles)

    def __mul__(self, times: int) -> Work:
        return Work(self.instructions * times, self.cycles * times)

    __rmul__ = __mul__

    @property
    def time(self) -> int:
        """As of a Cost: both together."""
        return self.instructions + self.cycles


_CORE = CORES["cortex-m4"]


@functools.lru_cache(maxsize=1 << 15)
def _parsed(mnemonic: str, operands: str) -> Op:
    name, _, _ = mnemonic.partition(".")
    condition = ""
    if re.fullmatch(r"b(eq|ne|hs|lo|mi|pl|ge|lt|gt|le)", name):
        name, condition = name[:1], name[1:]
    elif name.startswith("mov") and name[3:] in ("lt", "gt", "eq", "ne"):
        name, condition = "mov", name[3:]
    operands = re.sub(r"r(\d+)-r(\d+)", lambda m: ", ".join(f"r{i}" for i in range(int(m[1]), int(m[2]) + 1)), operands)
    return parse(Instruction(0, bytes(4), name, operands, condition))


@dataclass(slots=True)
class Asm:
    """Lines of one function. `size`: what they cost when each is executed once, so that a generator can tell what its
    parts cost. Branches are taken, but for conditional ones that go forward."""

    size: Work = field(default_factory=Work)
    _lines: list[str] = field(default_factory=list)
    _labels: dict[str, int] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _last: Op | None = None

    def op(self, mnemonic: str, *operands: str) -> None:
        """One instruction: `op("smlad", "r1", "r2", "r3", "r1")`."""
        self._lines.append(f"{mnemonic + ' ':<{_MNEMONIC}}{', '.join(operands)}".rstrip())
        self._count(_parsed(mnemonic, ", ".join(operands)), taken=True)

    def _count(self, op: Op, taken: bool) -> None:
        cycles = _CORE.costs([op], self._last)[0]
        jumps = taken and op.leaves
        self.size += Work(1, cycles + (_CORE.taken(op, None) if jumps else 0))
        self._last = None if jumps else op

    @property
    def lines(self) -> int:
        """Lines so far: instructions, nearly all of 4 bytes, and a few labels."""
        return len(self._lines)

    def note(self, text: str) -> None:
        """A comment on a line of its own."""
        self._lines.append(f"@ {text}")

    def label(self, name: str, aligned: bool = False) -> None:
        """A branch target. aligned: on a word, for loops (unaligned 32-bit instructions fetch slower)."""
        if aligned:
            self._lines.append(".p2align 2")
        self._lines.append(f"{self._number(name)}:")
        self._seen.add(name)
        self._last = None

    def branch(self, mnemonic: str, name: str) -> None:
        """A branch to a label, defined before or after."""
        op = _parsed(mnemonic, name)
        self._count(op, taken=name in self._seen or not op.conditional)
        self._lines.append(f"{mnemonic:<{_MNEMONIC}}<{self._number(name)}>")

    def address(self, target: str, name: str) -> None:
        """target = the address of a label as jumps take it (bit 0: Thumb)."""
        self.op("adr.w", target, f"<{self._number(name)}>+1")

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

    def text(self) -> list[str]:
        """Lines for a C string literal each, without quotes; branches say whether they go back or forward."""
        seen: set[str] = set()
        lines = []
        for line in self._lines:
            if line.endswith(":"):
                seen.add(line[:-1])
            lines.append(re.sub(r"<(\d+)>", lambda m: m[1] + ("b" if m[1] in seen else "f"), line))
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
