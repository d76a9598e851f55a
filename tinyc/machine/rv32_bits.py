# SPDX-License-Identifier: Apache-2.0
"""The encodings of RISC-V's bit manipulation (Zba, Zbb, Zbs: "Bit-Manipulation ISA-extensions", 1.0.0, chapter 2), that
the disassembler does not know, and what a core of RV32I needs for an instruction of another extension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tinyc.machine.instruction import UNKNOWN, Instruction

_OP, _OP_IMM = 0x33, 0x13
# (opcode, funct3, funct7) of instructions with two source registers, or with one and a shift amount
_THREE = {
    (_OP, 2, 0x10): "sh1add",
    (_OP, 4, 0x10): "sh2add",
    (_OP, 6, 0x10): "sh3add",
    (_OP, 7, 0x20): "andn",
    (_OP, 6, 0x20): "orn",
    (_OP, 4, 0x20): "xnor",
    (_OP, 4, 0x05): "min",
    (_OP, 5, 0x05): "minu",
    (_OP, 6, 0x05): "max",
    (_OP, 7, 0x05): "maxu",
    (_OP, 1, 0x30): "rol",
    (_OP, 5, 0x30): "ror",
    (_OP, 1, 0x24): "bclr",
    (_OP, 5, 0x24): "bext",
    (_OP, 1, 0x34): "binv",
    (_OP, 1, 0x14): "bset",
    (_OP_IMM, 5, 0x30): "rori",
    (_OP_IMM, 1, 0x24): "bclri",
    (_OP_IMM, 5, 0x24): "bexti",
    (_OP_IMM, 1, 0x34): "binvi",
    (_OP_IMM, 1, 0x14): "bseti",
}
# (opcode, funct3, upper twelve bits) of those with one source register
_TWO = {
    (_OP_IMM, 1, 0x600): "clz",
    (_OP_IMM, 1, 0x601): "ctz",
    (_OP_IMM, 1, 0x602): "cpop",
    (_OP_IMM, 1, 0x604): "sext.b",
    (_OP_IMM, 1, 0x605): "sext.h",
    (_OP_IMM, 5, 0x287): "orc.b",
    (_OP_IMM, 5, 0x698): "rev8",
    (_OP, 4, 0x080): "zext.h",
}
_NAMES = (
    *("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1"),
    *(f"a{i}" for i in range(8)),
    *(f"s{i}" for i in range(2, 12)),
    *(f"t{i}" for i in range(3, 7)),
)
_COMPRESSED_FLOAT = {(quadrant, funct3) for quadrant in (0, 2) for funct3 in (1, 3, 5, 7)}
_FLOAT = {0x43, 0x47, 0x4B, 0x4F, 0x53}
_WIDTHS = {2, 3}  # of loads and stores of floating-point registers; others of the same opcodes are vectors'
_VECTOR, _FLOAT_FORMS, _CONFIGURES = 0x57, {1, 5}, 7  # "RISC-V V Vector Extension", 1.0, chapters 6 and 10
_LONG_WIDTH, _LONG = 7, 3  # of loads and stores, and in vtype: elements of 64 bits


def decode_bits(code: bytes) -> tuple[str, str] | None:
    """Mnemonic and operands of an instruction of Zba, Zbb or Zbs; None of another."""
    if len(code) != 4:
        return None
    word = int.from_bytes(code, "little")
    opcode, funct3, upper = word & 0x7F, word >> 12 & 7, word >> 20
    to, first, second = (word >> at & 31 for at in (7, 15, 20))
    if (name := _TWO.get((opcode, funct3, upper))) is not None:
        return name, f"{_NAMES[to]}, {_NAMES[first]}"
    if (name := _THREE.get((opcode, funct3, word >> 25))) is None:
        return None
    return name, f"{_NAMES[to]}, {_NAMES[first]}, {_NAMES[second] if opcode == _OP else hex(second)}"


def with_bits(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """Instructions as a disassembler gives them, with the names that it does not know."""
    for each in instructions:
        decoded = decode_bits(each.code) if each.mnemonic == UNKNOWN else None
        yield replace(each, mnemonic=decoded[0], operands=decoded[1]) if decoded else each


def needed_extension(instruction: Instruction, there: frozenset[str]) -> str | None:
    """The extension of RISC-V that an instruction needs and a core with the words `there` has not; None when it has."""
    needed = extension(instruction.code)
    return None if needed in there else needed


def extension(code: bytes) -> str | None:
    """What an instruction needs beyond RV32I with compressed ones: rv32m, rv32a, rv32b, rv32f, rv32v (Zve32x), rv32vf
    and rv32v64 (vectors of floats, and of 64 bits); None: nothing."""
    word = int.from_bytes(code, "little")
    if len(code) == 2:
        return "rv32f" if (word & 3, word >> 13) in _COMPRESSED_FLOAT else None
    opcode, funct3 = word & 0x7F, word >> 12 & 7
    if opcode in (0x07, 0x27):
        return "rv32f" if funct3 in _WIDTHS else "rv32v64" if funct3 == _LONG_WIDTH else "rv32v"
    if opcode == _VECTOR:
        return _of_vectors(word)
    if opcode in _FLOAT or opcode == 0x2F:
        return "rv32a" if opcode == 0x2F else "rv32f"
    if opcode == _OP and word >> 25 == 1:
        return "rv32m"
    return "rv32b" if decode_bits(code) is not None else None


def _of_vectors(word: int) -> str:
    """What arithmetic of vectors, or a setting of their length and type, needs."""
    form = word >> 12 & 7
    if form in _FLOAT_FORMS:
        return "rv32vf"
    names_type = form == _CONFIGURES and word >> 30 != 2  # VSETVL has it in a register
    return "rv32v64" if names_type and word >> 23 & 7 == _LONG else "rv32v"
