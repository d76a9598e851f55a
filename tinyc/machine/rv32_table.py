# SPDX-License-Identifier: Apache-2.0
"""The table of RV32IMC's instructions, with some of Zba and Zbb: what each is to the clock, what it does to its
operands, and what it means ("The RISC-V Instruction Set Manual", volume I, 20240411; "Bit-Manipulation
ISA-extensions", 1.0.0).

As of `table.py`, a meaning takes the values of the operands that are read, in their order, as unsigned 32-bit numbers;
that of a branch with a condition says whether it is taken. Compressed instructions are read as what they stand for.
Instructions without a row, such as those of vectors, write their first register and read the others.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping

from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate, Operand, Other, Register
from tinyc.machine.table import Kind, Meaning, Row, s8, s16, s32

ZERO = "zero"
_WORD = 0xFFFFFFFF
_REGISTER = r"(?:zero|ra|sp|gp|tp|fp|[ast]\d+)"
_ANY_REGISTER = re.compile(rf"\b{_REGISTER}\b")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)")
_ADDRESS = re.compile(rf"({_NUMBER.pattern})?\(({_REGISTER})\)")


def _divide(a: int, b: int) -> int:
    """Towards zero; by 0 it is -1."""
    x, y = s32(a), s32(b)
    return (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) if y else -1


def _rest(a: int, b: int) -> int:
    return s32(a) - s32(b) * _divide(a, b) if b else a


def _both(name: str, immediate: str, meaning: Meaning) -> dict[str, Row]:
    """An instruction of two registers, and of a register and a number."""
    return {name: Row(Kind.ALU, meaning=meaning), immediate: Row(Kind.ALU, meaning=meaning)}


_ARITHMETIC: Mapping[str, Row] = {
    **_both("add", "addi", lambda a, b: a + b),
    **_both("and", "andi", lambda a, b: a & b),
    **_both("or", "ori", lambda a, b: a | b),
    **_both("xor", "xori", lambda a, b: a ^ b),
    **_both("sll", "slli", lambda a, b: a << (b & 31)),
    **_both("srl", "srli", lambda a, b: a >> (b & 31)),
    **_both("sra", "srai", lambda a, b: s32(a) >> (b & 31)),
    **_both("slt", "slti", lambda a, b: int(s32(a) < s32(b))),
    **_both("sltu", "sltiu", lambda a, b: int(a < b)),
    "sub": Row(Kind.ALU, meaning=lambda a, b: a - b),
    "lui": Row(Kind.ALU, meaning=lambda a: a << 12),
    "li": Row(Kind.ALU, meaning=lambda a: a),
    "mv": Row(Kind.ALU, meaning=lambda a: a),
    "not": Row(Kind.ALU, meaning=lambda a: ~a),
    "neg": Row(Kind.ALU, meaning=lambda a: -a),
    "seqz": Row(Kind.ALU, meaning=lambda a: int(a == 0)),
    "snez": Row(Kind.ALU, meaning=lambda a: int(a != 0)),
    "sltz": Row(Kind.ALU, meaning=lambda a: int(s32(a) < 0)),
    "sgtz": Row(Kind.ALU, meaning=lambda a: int(s32(a) > 0)),
    "nop": Row(Kind.ALU, 0, meaning=lambda: 0),
}
_BITS: Mapping[str, Row] = {
    "max": Row(Kind.ALU, meaning=lambda a, b: max(s32(a), s32(b))),
    "min": Row(Kind.ALU, meaning=lambda a, b: min(s32(a), s32(b))),
    "maxu": Row(Kind.ALU, meaning=max),
    "minu": Row(Kind.ALU, meaning=min),
    "sh1add": Row(Kind.ALU, meaning=lambda a, b: (a << 1) + b),
    "sh2add": Row(Kind.ALU, meaning=lambda a, b: (a << 2) + b),
    "sh3add": Row(Kind.ALU, meaning=lambda a, b: (a << 3) + b),
    "andn": Row(Kind.ALU, meaning=lambda a, b: a & ~b),
    "sext.b": Row(Kind.ALU, meaning=s8),
    "sext.h": Row(Kind.ALU, meaning=s16),
    "zext.b": Row(Kind.ALU, meaning=lambda a: a & 0xFF),
    "zext.h": Row(Kind.ALU, meaning=lambda a: a & 0xFFFF),
}
_PRODUCTS: Mapping[str, Row] = {
    "mul": Row(Kind.MUL, meaning=lambda a, b: a * b),
    "mulh": Row(Kind.MUL, meaning=lambda a, b: s32(a) * s32(b) >> 32),
    "mulhu": Row(Kind.MUL, meaning=lambda a, b: a * b >> 32),
    "mulhsu": Row(Kind.MUL, meaning=lambda a, b: s32(a) * b >> 32),
    "div": Row(Kind.DIV, meaning=_divide),
    "divu": Row(Kind.DIV, meaning=lambda a, b: a // b if b else _WORD),
    "rem": Row(Kind.DIV, meaning=_rest),
    "remu": Row(Kind.DIV, meaning=lambda a, b: a % b if b else a),
}
_ACCESSES: Mapping[str, Row] = {
    "lb": Row(Kind.LOAD, size=1, signed=True),
    "lh": Row(Kind.LOAD, size=2, signed=True),
    "lbu": Row(Kind.LOAD, size=1),
    "lhu": Row(Kind.LOAD, size=2),
    "lw": Row(Kind.LOAD),
    "lr.w": Row(Kind.LOAD),
    "sb": Row(Kind.STORE, 0, size=1),
    "sh": Row(Kind.STORE, 0, size=2),
    "sw": Row(Kind.STORE, 0),
    "sc.w": Row(Kind.STORE, 0),
}


def _branch(meaning: Callable[..., bool]) -> Row:
    return Row(Kind.BRANCH, 0, meaning=meaning, conditional=True)


_BRANCHES: Mapping[str, Row] = {
    "beq": _branch(lambda a, b: a == b),
    "bne": _branch(lambda a, b: a != b),
    "blt": _branch(lambda a, b: s32(a) < s32(b)),
    "bge": _branch(lambda a, b: s32(a) >= s32(b)),
    "bgt": _branch(lambda a, b: s32(a) > s32(b)),
    "ble": _branch(lambda a, b: s32(a) <= s32(b)),
    "bltu": _branch(lambda a, b: a < b),
    "bgeu": _branch(lambda a, b: a >= b),
    "bgtu": _branch(lambda a, b: a > b),
    "bleu": _branch(lambda a, b: a <= b),
    "beqz": _branch(lambda a: a == 0),
    "bnez": _branch(lambda a: a != 0),
    "bltz": _branch(lambda a: s32(a) < 0),
    "bgez": _branch(lambda a: s32(a) >= 0),
    "bgtz": _branch(lambda a: s32(a) > 0),
    "blez": _branch(lambda a: s32(a) <= 0),
    "j": Row(Kind.BRANCH, 0),
    **{name: Row(Kind.CALL) for name in ("jal", "call")},
    **{name: Row(Kind.INDIRECT, 0) for name in ("jalr", "jr", "ret", "mret", "tail")},
}
_SYSTEM = re.compile(r"csr\w*|fence\w*|ecall|ebreak|wfi")

TABLE: Mapping[str, Row] = {**_ARITHMETIC, **_BITS, **_PRODUCTS, **_ACCESSES, **_BRANCHES}
_OTHER, _OF_SYSTEM = Row(Kind.ALU), Row(Kind.SYSTEM)

# What a compressed instruction stands for, where that is not its name without the prefix.
_FULL = {"lwsp": "lw", "swsp": "sw", "addi16sp": "addi", "addi4spn": "addi"}
# With two operands, the first is read too.
_IN_PLACE = ("add", "sub", "and", "or", "xor", "addi", "andi", "slli", "srli", "srai")


@functools.lru_cache(maxsize=1 << 16)
def parse_riscv(instruction: Instruction) -> Decoded:
    """Kind, operands and registers of an instruction of RV32IMC, ours or a disassembler's."""
    name, operands = expanded(instruction)
    row = TABLE.get(name) or (_OF_SYSTEM if _SYSTEM.fullmatch(name) else _OTHER)
    registers = [word for operand in operands for word in operand.words]
    writes = frozenset(registers[: row.results]) - {ZERO}
    address = frozenset(registers[1:]) if row.kind in (Kind.LOAD, Kind.STORE) else frozenset()
    reads = frozenset(registers[row.results :]) - {ZERO}
    return Decoded(instruction, row, row.kind, operands, reads, writes, address - {ZERO}, int(bool(address)))


def expanded(instruction: Instruction) -> tuple[str, tuple[Operand, ...]]:
    """Name and operands of an instruction, or of what a compressed one stands for."""
    name = instruction.mnemonic.removeprefix("c.")
    operands = tuple(_operand(part.strip()) for part in instruction.operands.split(",") if part.strip())
    if name != instruction.mnemonic and name in (*_IN_PLACE, "addi16sp") and len(operands) == 2:
        operands = (operands[0], *operands)
    return _FULL.get(name, name) if name != instruction.mnemonic else name, operands


@functools.lru_cache(maxsize=1 << 12)
def _operand(text: str) -> Operand:
    if re.fullmatch(_REGISTER, text):
        return Register("s0" if text == "fp" else text)
    if _NUMBER.fullmatch(text):
        return Immediate(int(text, 0))
    if match := _ADDRESS.fullmatch(text):
        return Address(match[2], int(match[1] or "0", 0))
    return _Named(text)


class _Named(Other):
    """A label, a system register, registers of vectors, with the registers of the core among them."""

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(_ANY_REGISTER.findall(self.text))
