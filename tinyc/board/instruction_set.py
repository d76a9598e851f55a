# SPDX-License-Identifier: Apache-2.0
"""What tinyc knows of an instruction set, by the `startup` of a board. What its instructions are and mean is in
machine/sets.py; the host, whose firmware is a process, has none of this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError


@dataclass(frozen=True, slots=True)
class Widths:
    """How long an instruction is: 4 bytes where byte `at` of it, of which the bits of `mask` count, is `least` or more,
    else 2. Of a set whose instructions have 4 bytes all, mask and least are 0."""

    at: int = 0
    mask: int = 0
    least: int = 0

    def of(self, code: bytes, at: int = 0) -> int:
        """Bytes of the instruction that begins there, of which the first two are enough."""
        return 4 if code[at + self.at] & self.mask >= self.least else 2


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """Firmware for it begins with startup_<name>.S and machine_<name>.c of templates/firmware/, `-` there `_`."""

    name: str  # the `startup` of a board's file
    elf: str  # the machine that its ELF files name
    widths: Widths
    disassembler: tuple[str, ...]  # capstone's constants: architecture, then modes
    isa: Mapping[str, str] = field(default_factory=dict)  # words of a board's `isa`, and what messages call them
    extras: Mapping[str, str] = field(default_factory=dict)  # the same of what only a core's `extras` name
    gcc: str = ""  # the program, where there is one
    gcc_package: str = ""  # of Debian
    qemu_package: str = ""  # the same, with a QEMU that runs it
    builds_for: str = ""  # of which boards users hear as those of this gcc
    code_in_ram: bool = False  # whether its start-up code copies code to a RAM of its own
    vectors: str = ""  # the symbol of a table that the core starts by, where it does not start at the ELF file's entry
    renode_device: tuple[str, int, int] | None = None  # what Renode's core brings: name, first and last address


THUMB = InstructionSet(
    name="cortex-m",
    elf="EM_ARM",
    widths=Widths(1, 0xFF, 0xE8),  # by the upper byte of the first half-word
    disassembler=("CS_ARCH_ARM", "CS_MODE_THUMB", "CS_MODE_MCLASS", "CS_MODE_V8"),
    isa={
        "thumb2": "Thumb-2 of Armv7-M",
        "dsp": "the DSP extension",
        "mve": "Helium (MVE)",
        "fpu": "a floating-point unit",
        "fpu64": "a double-precision floating-point unit",
    },
    extras={"fpv5": "floating point of Armv8", "v8m": "Armv8-M", "v8.1m": "Armv8.1-M"},
    gcc="arm-none-eabi-gcc",
    gcc_package="gcc-arm-none-eabi",
    qemu_package="qemu-system-arm",
    builds_for="Arm boards",
    code_in_ram=True,
    vectors="tc_vector_table",
    renode_device=("system registers", 0xE000_0000, 0xE00F_FFFF),
)
CLINT = 0x0200_0000  # of RISC-V platforms
RISCV = InstructionSet(
    name="riscv",
    elf="EM_RISCV",
    widths=Widths(0, 3, 3),  # by the two low bits
    disassembler=("CS_ARCH_RISCV", "CS_MODE_RISCV32", "CS_MODE_RISCVC"),
    isa={
        "rv32m": "multiplication (M)",
        "rv32b": "bit manipulation (Zba, Zbb, Zbs)",
        "rv32v": "vectors of integers (Zve32x)",
    },
    extras={
        "rv32a": "atomic instructions (A)",
        "rv32f": "floating point (F, D)",
        "rv32vf": "vectors of floating-point numbers (Zve32f)",
        "rv32v64": "vectors of 64-bit elements (Zve64x)",
    },
    gcc="riscv64-unknown-elf-gcc",
    gcc_package="gcc-riscv64-unknown-elf",
    qemu_package="qemu-system-misc",
    builds_for="RISC-V boards",
    renode_device=("timer", CLINT, CLINT + 0xFFFF),
)

INSTRUCTION_SETS: Mapping[str, InstructionSet] = MappingProxyType(
    {
        each.name: each
        for each in (
            THUMB,
            RISCV,
        )
    }
)
ISA_WORDS: tuple[str, ...] = tuple(word for each in INSTRUCTION_SETS.values() for word in each.isa)


def set_of_elf(machine: str) -> InstructionSet:
    """The instruction set of an ELF file for that machine. Raises TinycError for one that no board of ours has."""
    for each in INSTRUCTION_SETS.values():
        if each.elf == machine:
            return each
    machines = ", ".join(each.elf for each in INSTRUCTION_SETS.values())
    raise TinycError(f"tinyc reads no instructions of {machine}", hint=f"it reads those of {machines}")
