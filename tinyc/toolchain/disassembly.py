# SPDX-License-Identifier: Apache-2.0
"""The Thumb instructions of an ELF file, each with its condition; constants between them are left out."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tinyc.base.extras import load_extra
from tinyc.board import Board
from tinyc.machine.instruction import UNKNOWN, Instruction
from tinyc.machine.rv32_bits import decode_bits
from tinyc.toolchain.elf import Elf

CONDITIONS = frozenset(("eq", "ne", "hs", "lo", "cs", "cc", "mi", "pl", "vs", "vc", "hi", "ls", "ge", "lt", "gt", "le"))
RISCV = "EM_RISCV"
_IT = re.compile(r"it[te]{0,3}")


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
    decoder = decode_for(elf)
    return {i.address: i for start, code in code_of(elf) for i in decoder(code, start)}


def decode_for(elf: Elf) -> Callable[[bytes, int], Iterator[Instruction]]:
    """`decode` or `decode_riscv`."""
    return decode_riscv if elf.machine == RISCV else decode


def instruction_bytes(code: bytes, at: int, riscv: bool) -> int:
    """2 or 4. Thumb: a first half-word from 0xE800 on begins a long one; RISC-V: one that ends in binary 11."""
    long_one = code[at] & 3 == 3 if riscv else code[at + 1] >= 0xE8
    return 4 if long_one else 2


def decode_riscv(code: bytes, address: int) -> Iterator[Instruction]:
    """The instructions of RV32 code that begins at an address."""
    for at, size, text, operands in _decode_raw(code, address, riscv=True):
        own = code[at : at + size]
        known = decode_bits(own) if text == UNKNOWN else None
        yield Instruction(address + at, own, *(known or (text, operands)))


def decode(code: bytes, address: int) -> Iterator[Instruction]:
    """The instructions of Thumb code that begins at an address. A half instruction at the end is left out."""
    pending = 0  # instructions left of an IT block
    for at, size, text, operands in _decode_raw(code, address):
        mnemonic, condition = _split(text, pending > 0)
        pending = len(mnemonic) - 1 if _IT.fullmatch(mnemonic) else max(pending - 1, 0)
        yield Instruction(address + at, code[at : at + size], mnemonic, operands, condition)


def _decode_raw(code: bytes, address: int, riscv: bool = False) -> Iterator[tuple[int, int, str, str]]:
    """Offset, bytes, mnemonic and operands as capstone gives them; UNKNOWN where it gives nothing."""
    engine, at = _engine(riscv), 0
    while at + 2 <= len(code):
        for _, size, mnemonic, operands in engine.disasm_lite(code[at:], address + at):
            yield at, size, mnemonic, operands
            at += size
        if at + 2 <= len(code):
            size = instruction_bytes(code, at, riscv)
            if at + size <= len(code):
                yield at, size, UNKNOWN, ""
            at += size


@functools.cache
def _engine(riscv: bool) -> Any:
    capstone = _capstone()
    if riscv:
        return capstone.Cs(capstone.CS_ARCH_RISCV, capstone.CS_MODE_RISCV32 | capstone.CS_MODE_RISCVC)
    return capstone.Cs(capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8)


@functools.cache
def _split(text: str, in_it_block: bool) -> tuple[str, str]:
    """Mnemonic and condition: `ldrsble.w` in an IT block -> `ldrsb`, `le`; `bne` anywhere -> `b`, `ne`."""
    name, *types = text.split(".")
    condition = ""
    if name[-2:] in CONDITIONS and (in_it_block or (len(name) == 3 and name[0] == "b")):
        name, condition = name[:-2], name[-2:]
    return ".".join([name, *(t for t in types if t not in ("w", "n"))]), condition


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
