# SPDX-License-Identifier: Apache-2.0
"""Whether a debugger would find the caller of a function in assembly, at each of its instructions, while it runs.

The call frame information is read from the ELF file, where the assembler put what `tinyc/machine/unwind.py` told it.
"""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile

from tinyc.build.disassembly import instruction_bytes
from tinyc.build.elf import Elf
from tinyc.machine.interpret import Code, Machine, Program
from tinyc.machine.memory import Bytes, Fault

_SP, _LR = 13, 14
_KEPT = (*(f"r{i}" for i in range(4, 12)), "lr", *(f"s{i}" for i in range(16, 32)))  # by AAPCS
_OFTEN = 2  # an instruction is looked at the first times that it runs


@dataclass(frozen=True)
class Rules:
    """Bytes from the stack pointer to the canonical frame address, and from there to the registers that are saved.
    held: registers whose value another register has."""

    depth: int
    saved: Mapping[str, int]
    held: Mapping[str, str]
    known: bool


Table = Sequence[Mapping[Any, Any]]  # from which addresses (`pc`) on which rules hold, as pyelftools gives them
Tables = Mapping[int, Table]  # of every function by its address


@dataclass
class Told:
    """Of functions: where they begin, and the rules at each instruction, by the addresses at which they run here."""

    starts: set[int] = field(default_factory=set)
    rules: dict[int, Rules] = field(default_factory=dict)

    @property
    def known(self) -> float:
        """The share of the instructions from which the caller is found."""
        return sum(rules.known for rules in self.rules.values()) / len(self.rules)


def frames(path: Path) -> Tables:
    """The call frame information of an ELF file."""
    with path.open("rb") as file:
        entries = [entry for entry in ELFFile(file).get_dwarf_info().CFI_entries() if isinstance(entry, FDE)]
        return {entry["initial_location"]: entry.get_decoded().table for entry in entries}


def _rules(row: Mapping[Any, Any]) -> Rules:
    assert row["cfa"].reg == _SP
    saved, held, known = dict[str, int](), dict[str, str](), True
    for number, rule in row.items():
        if number == _LR and rule.type == "UNDEFINED":
            known = False
        elif isinstance(number, int) and rule.type == "REGISTER":
            held[f"r{number}"] = f"r{rule.arg}"
        elif isinstance(number, int):
            assert rule.type == "OFFSET"
            for word, name in enumerate(_words(number)):
                saved[name] = rule.arg + 4 * word
    return Rules(row["cfa"].offset, saved, held, known)


def _words(number: int) -> tuple[str, ...]:
    """The registers of a DWARF number: those of the core, and from 256 on of the FPU, two words each."""
    if number >= 256:
        return f"s{2 * (number - 256)}", f"s{2 * (number - 256) + 1}"
    return ("lr" if number == _LR else f"r{number}",)


def learn(told: Told, elf: Elf, table: Table, place: int, own: Program, lines: Sequence[str]) -> None:
    """What is told of the function at `place`, whose lines run as `own`."""
    at, addresses = place, iter(sorted(own))
    starts, rules = [row["pc"] for row in table], [_rules(row) for row in table]
    told.starts.add(min(own))
    for line in lines:
        if line == ".p2align 2":
            at += -at % 4
        elif not line.startswith(".") and not line.endswith(":"):
            told.rules[next(addresses)] = rules[bisect.bisect_right(starts, at) - 1]
            at += instruction_bytes(elf.read(at, 2), 0, riscv=False)


class Watched(Machine):
    """Compares what is told with what is so."""

    def __init__(self, program: Program, memory: Bytes, told: Told) -> None:
        super().__init__(program, memory)
        self._told = told
        self._entry: dict[str, int] = {}

    def _step(self, code: Code) -> int:
        rules = self._told.rules.get(self._at)
        if rules is not None:
            if self._at in self._told.starts:
                self._entry = {name: self._saved(name) for name in (*_KEPT, "sp")}
            if rules.known and self.executed[self._at] <= _OFTEN:
                self._compare(rules)
        return super()._step(code)

    def _compare(self, rules: Rules) -> None:
        frame = self._saved("sp") + rules.depth
        if frame != self._entry["sp"]:
            raise Fault(f"a debugger takes {frame:#x} for the caller's stack pointer, not {self._entry['sp']:#x}")
        for name in _KEPT:
            at = rules.saved.get(name)
            found = self._saved(rules.held.get(name, name)) if at is None else self._memory.load(frame + at, 4)
            if found != self._entry[name]:
                raise Fault(f"a debugger takes {found:#x} for the caller's {name}, not {self._entry[name]:#x}")
