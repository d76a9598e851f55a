# SPDX-License-Identifier: Apache-2.0
"""The instructions of an ELF file, each with its condition; constants between them are left out."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tinyc.base.extras import load_extra
from tinyc.board import Board
from tinyc.board.instruction_set import InstructionSet, set_of_elf
from tinyc.machine.instruction import UNKNOWN, Instruction
from tinyc.machine.sets import READERS
from tinyc.toolchain.elf import Elf

_LEAST = 2  # bytes of an instruction


def check_disassembler(board: Board) -> None:
    """Raises TinycError where firmware for the board cannot be looked at: said before anything takes long."""
    if not board.is_host:
        _capstone()


def _capstone() -> Any:
    return load_extra("capstone", "proof", "reading the instructions of firmware")


def disassemble(elf: Elf) -> Mapping[int, Instruction]:
    """Address -> instruction, in order of addresses, of every executable section.

    The mapping symbols of the ELF formats ($t and $x: code, $d: data) say what is an instruction; a section
    without any is code.
    """
    its_set = set_of_elf(elf.machine)
    return {i.address: i for start, code in code_of(elf) for i in decode(code, start, its_set)}


def decode(code: bytes, address: int, of: InstructionSet) -> Iterator[Instruction]:
    """The instructions of code that begins at an address. A half instruction at the end is left out."""
    return READERS[of.name].named(_decode_raw(code, address, of))


def _decode_raw(code: bytes, address: int, of: InstructionSet) -> Iterator[Instruction]:
    """As capstone gives them; UNKNOWN where it gives nothing."""
    engine, at = _engine(of.disassembler), 0
    while at + _LEAST <= len(code):
        for _, size, mnemonic, operands in engine.disasm_lite(code[at:], address + at):
            yield Instruction(address + at, code[at : at + size], mnemonic, operands)
            at += size
        if at + _LEAST <= len(code):
            size = of.widths.of(code, at)
            if at + size <= len(code):
                yield Instruction(address + at, code[at : at + size], UNKNOWN, "")
            at += size


def _engine(constants: tuple[str, ...]) -> Any:
    """capstone's, for an architecture and its modes."""
    capstone = _capstone()
    architecture, *modes = (getattr(capstone, name) for name in constants)
    return capstone.Cs(architecture, functools.reduce(int.__or__, modes))


def code_of(elf: Elf) -> Iterator[tuple[int, bytes]]:
    """Start and bytes of every run of instructions."""
    marks = sorted({(s.address, s.name[1]) for s in elf.symbols if re.fullmatch(r"\$[tdx].*", s.name)})
    for section in elf.sections:
        if not section.executable or section.size == 0:
            continue
        end = section.address + section.size
        inside = [mark for mark in marks if section.address <= mark[0] < end] or [(section.address, "t")]
        for (start, kind), stop in zip(inside, [*(address for address, _ in inside[1:]), end], strict=True):
            if kind != "d" and stop > start:
                yield start, elf.read(start, stop - start)
