# SPDX-License-Identifier: Apache-2.0
"""How many bytes an assembler makes of a function's C text, with instructions in the strings of an `asm` statement.

Counted by the encodings (`encoding.py`, RVC): a `.w` is there where an instruction is widened. What is not certain is
taken as the assembler mostly decides: a branch to a near label is short.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from tinyc.machine.instruction import Instruction
from tinyc.machine.lines import branch_widths, line_of, widths_of
from tinyc.machine.riscv import SHORT_REGISTERS, is_short
from tinyc.machine.rv32_table import parse_riscv
from tinyc.machine.table import Kind
from tinyc.machine.widths import LONG, SHORT

_STRING = re.compile(r'^\s*(?:#(if|else|endif).*|"\s*([^"]*?)\s*\\n")', re.MULTILINE)
_PLACE = re.compile(r"(?:^|[\s,])(\d+[bf])(?:\s*\+.*)?$")
_RISCV_REACH = {"j": 2000, "beqz": 250, "bnez": 250}  # bytes that the short ones go
# Short ones beside those of `is_short`: the stack pointer moves, its value in a register, upper bits of one.
_SHORT = re.compile(
    r"addi sp, sp, -?\d{2,3}|addi \w+, sp, 0|addi (?:s[01]|a[0-5]), sp, \d{1,3}|lui \w+, (?:[1-9]|[12]\d|3[01])"
)
_THUMB = ".syntax unified"
_ALIGNED = ".p2align 2"
_NESTED = 2  # lists of lines of one choice


@lru_cache(maxsize=1 << 10)
def code_bytes(text: str) -> int:
    """Bytes of the functions in assembly in a C text; 0 where there are none."""
    lines = _lines(text)
    return _thumb_bytes(lines) if _THUMB in text else _riscv_bytes(lines)


def _lines(text: str) -> list[str]:
    """Instructions, labels and directives. Of what the preprocessor chooses between, what stands behind `#else`, if
    that is assembly."""
    inside: list[list[str]] = [[]]
    for switch, line in _STRING.findall(text):
        if switch == "if":
            inside += [[], []]
        elif switch == "else" and len(inside) > _NESTED:
            inside[-2], inside[-1] = inside[-1], []
        elif switch == "endif" and len(inside) > _NESTED:
            last, first = inside.pop(), inside.pop()
            inside[-1] += last or first
        elif not switch:
            inside[-1].append(line)
    return [line for own in inside for line in own]


def _thumb_bytes(lines: Sequence[str]) -> int:
    size = conditional = 0
    for at, text in enumerate(lines):
        if _is_label(text):
            continue
        if text.startswith("."):
            size += size % LONG if text == _ALIGNED else 0
            continue
        mnemonic, _, operands = text.partition(" ")
        line = line_of(mnemonic, (operands.strip(),))
        if place := _PLACE.search(operands):
            size += branch_widths(line, _distance(lines, at, place[1]))[0]
        else:
            size += widths_of(line, conditional > 0)[0]
        conditional = len(mnemonic) - 1 if line.op.kind is Kind.IT else max(0, conditional - 1)
    return size


def _distance(lines: Sequence[str], at: int, place: str) -> int:
    """Lines from one to the label that it names."""
    label = f"{place[:-1]}:"
    way = range(at, len(lines)) if place[-1] == "f" else range(at, -1, -1)
    return next((abs(other - at) for other in way if lines[other] == label), len(lines))


def _riscv_bytes(lines: Sequence[str]) -> int:
    size = 0
    for at, text in enumerate(lines):
        if text.startswith(".") or _is_label(text):
            continue
        mnemonic, _, operands = text.partition(" ")
        if place := _PLACE.search(operands):
            near = LONG * _distance(lines, at, place[1]) < _RISCV_REACH.get(mnemonic, 0)
            size += SHORT if near and (mnemonic == "j" or operands.strip().split(",")[0] in SHORT_REGISTERS) else LONG
        else:
            size += _riscv_width(mnemonic, operands.strip())
    return size


def _riscv_width(mnemonic: str, operands: str) -> int:
    if _SHORT.fullmatch(f"{mnemonic} {operands}"):
        return SHORT
    return SHORT if is_short(parse_riscv(Instruction(0, bytes(4), mnemonic, operands))) else LONG


def _is_label(text: str) -> bool:
    return text.endswith(":")
