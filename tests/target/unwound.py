# SPDX-License-Identifier: Apache-2.0
"""Whether a debugger would find the caller of a function in assembly, at each of its instructions, while it runs.

The call frame information is read from the ELF file, where the assembler put what `tinyc/machine/unwind.py` told it.
"""

from __future__ import annotations

import bisect
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from tinyc.board.instruction_set import set_of_elf
from tinyc.machine.interpret import Code, Machine, Processor, Program
from tinyc.machine.interpret_rv32 import Rv32Machine
from tinyc.machine.memory import Bytes, Fault
from tinyc.toolchain.elf import Elf

_ARM_NAMES = {**{i: (f"r{i}",) for i in range(13)}, 13: ("sp",), 14: ("lr",)} | {
    256 + i: (f"s{2 * i}", f"s{2 * i + 1}") for i in range(16)
}  # by DWARF's numbers: registers of the FPU are two words each
_RV32_NAMES = {1: ("ra",), 2: ("sp",), 8: ("s0",), 9: ("s1",)} | {16 + i: (f"s{i}",) for i in range(2, 12)}
_NAMES = {"cortex-m": _ARM_NAMES, "riscv": _RV32_NAMES}
_CALLEE_SAVED = (*(f"r{i}" for i in range(4, 12)), "lr", *(f"s{i}" for i in range(16, 32)))  # by AAPCS
_RV32_CALLEE_SAVED = ("ra", *(f"s{i}" for i in range(12)))
_OFTEN = 2  # an instruction is looked at the first times that it runs


@dataclass(frozen=True)
class Rules:
    """Bytes from the stack pointer to the canonical frame address, and from there to the registers that are saved.
    held: registers whose value another register has."""

    depth: int
    saved: Mapping[str, int]
    held: Mapping[str, str]
    is_certain: bool


Table = Sequence[Mapping[Any, Any]]  # from which addresses (`pc`) on which rules hold, as pyelftools gives them
Tables = Mapping[int, Table]  # of every function by its address


@dataclass
class Told:
    """Of functions: where they begin, and the rules at each instruction, by the addresses at which they run here."""

    starts: set[int] = field(default_factory=set)
    rules: dict[int, Rules] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The share of the instructions from which the caller is found."""
        return sum(rules.is_certain for rules in self.rules.values()) / len(self.rules)


def frames(path: Path) -> Tables:
    """The call frame information of an ELF file."""
    dwarf = ELFFile(io.BytesIO(path.read_bytes())).get_dwarf_info()
    entries = [entry for entry in dwarf.CFI_entries() if isinstance(entry, FDE)]
    return {entry["initial_location"]: entry.get_decoded().table for entry in entries}


def _rules(row: Mapping[Any, Any], names: Mapping[int, tuple[str, ...]]) -> Rules:
    assert names[row["cfa"].reg] == ("sp",)
    saved, held, is_certain = dict[str, int](), dict[str, str](), True
    for number, rule in row.items():
        if not isinstance(number, int):
            continue
        if rule.type == "UNDEFINED":
            assert names[number][0] in ("lr", "ra")
            is_certain = False
        elif rule.type == "REGISTER":
            held[names[number][0]] = names[rule.arg][0]
        else:
            assert rule.type == "OFFSET"
            for word, name in enumerate(names[number]):
                saved[name] = rule.arg + 4 * word
    return Rules(row["cfa"].offset, saved, held, is_certain)


def learn(told: Told, elf: Elf, table: Table, place: int, own: Program, lines: Sequence[str]) -> None:
    """What is told of the function at `place`, whose lines run as `own`."""
    its_set = set_of_elf(elf.machine)
    at, addresses, names = place, iter(sorted(own)), _NAMES[its_set.name]
    starts, rules = [row["pc"] for row in table], [_rules(row, names) for row in table]
    told.starts.add(min(own))
    for line in lines:
        if line == ".p2align 2":
            at += -at % 4
        elif not line.startswith(".") and not line.endswith(":"):
            told.rules[next(addresses)] = rules[bisect.bisect_right(starts, at) - 1]
            at += its_set.widths.of(elf.read(at, 2))


class _Watching(Processor):
    """Compares what is told with what is so. callee_saved: registers of the caller."""

    callee_saved: Sequence[str]

    def __init__(self, program: Program, memory: Bytes, told: Told) -> None:
        super().__init__(program, memory)
        self._told = told
        self._entry: dict[str, int] = {}

    def _step(self, code: Code) -> int:
        rules = self._told.rules.get(self._at)
        if rules is not None:
            if self._at in self._told.starts:
                self._entry = {name: self._value(name) for name in (*self.callee_saved, "sp")}
            if rules.is_certain and self.executed[self._at] <= _OFTEN:
                self._compare(rules)
        return super()._step(code)

    def _value(self, name: str) -> int:
        """What is in a register, or what the caller has there if the code has set nothing."""
        return self.registers[name] if name in self.registers else self._foreign(name)

    def _foreign(self, name: str) -> int:
        raise NotImplementedError

    def _compare(self, rules: Rules) -> None:
        frame = self._value("sp") + rules.depth
        if frame != self._entry["sp"]:
            raise Fault(f"a debugger takes {frame:#x} for the caller's stack pointer, not {self._entry['sp']:#x}")
        for name in self.callee_saved:
            at = rules.saved.get(name)
            value = self._value(rules.held.get(name, name)) if at is None else self._memory.load(frame + at, 4)
            if value != self._entry[name]:
                raise Fault(f"a debugger takes {value:#x} for the caller's {name}, not {self._entry[name]:#x}")


class Watched(_Watching, Machine):
    """A core with Thumb instructions."""

    callee_saved = _CALLEE_SAVED
    _foreign = staticmethod(Machine._foreign)


class Rv32Watched(_Watching, Rv32Machine):
    """A core of RV32IM."""

    callee_saved = _RV32_CALLEE_SAVED
    _foreign = staticmethod(Rv32Machine._foreign)
