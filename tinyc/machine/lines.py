# SPDX-License-Identifier: Apache-2.0
"""What a function in assembly is written of (`thumb.py`): instructions as they are printed, labels and comments."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from tinyc.base.dataclass import dataclass
from tinyc.machine.encoding import SHORT_ONLY, can_be_wide, is_short, moves_stack_pointer
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded, parse
from tinyc.machine.table import Kind
from tinyc.machine.widths import LONG, SHORT

MNEMONIC = 7  # column of the operands
_CONDITIONS = "eq|ne|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
_SHORT_BRANCH = re.compile(rf"b({_CONDITIONS})?")
_REACH = 250  # bytes that a short branch with a condition goes; one without, eight times as far
_CONDITION = re.compile(rf"(b|mov|add|sub|ldr)({_CONDITIONS})")


class Line(NamedTuple):
    """An instruction as it is printed. label: where it goes, or whose address it takes; then `text` ends before it.
    taken: a branch that is counted as taken. moves: the stack pointer or what is to be saved (`Decoded.is_high_copy`),
    or goes elsewhere. least: bytes, where no label and no IT instruction decides."""

    op: Decoded
    text: str
    label: str = ""
    behind: str = ""
    taken: bool = False
    moves: bool = False
    least: int = LONG


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target. aligned: on a word."""

    name: str
    aligned: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A comment, which no assembler sees: the phase of the function that begins here."""

    text: str


@functools.lru_cache(maxsize=1 << 16)
def line_of(mnemonic: str, operands: tuple[str, ...]) -> Line:
    """The instruction, made once."""
    written = ", ".join(operands)
    op = emitted(mnemonic, written)
    if op.kind is Kind.UNKNOWN:
        raise ValueError(f"`{mnemonic} {written}` is not in the table of instructions")
    moves = op.leaves or "sp" in op.writes or op.is_high_copy
    least = SHORT if not mnemonic.endswith(".w") and is_short(op) else LONG
    if least == LONG and moves_stack_pointer(op):
        raise ValueError(f"`{mnemonic} {written}` is undefined in Renode; write `add.w rd, sp, #0`")
    return Line(op, f"{mnemonic + ' ':<{MNEMONIC}}{written}".rstrip(), taken=op.leaves, moves=moves, least=least)


@functools.lru_cache(maxsize=1 << 12)
def emitted(mnemonic: str, operands: str) -> Decoded:
    """An instruction as it is written, with width and condition in its mnemonic."""
    name, condition = mnemonic.removesuffix(".w"), ""
    if match := _CONDITION.fullmatch(name):
        name, condition = match[1], match[2]
    return parse(Instruction(0, bytes(4), name, operands, condition))


@functools.lru_cache(maxsize=1 << 16)
def widths_of(line: Line, in_it: bool) -> tuple[int, ...]:
    """What an instruction may take, as it is written."""
    if line.text.split()[0].endswith(".w") or not is_short(line.op, in_it):
        return (LONG,)
    return (SHORT, LONG) if can_be_wide(line.op) else (SHORT,)


def wide(line: Line) -> Line:
    """The same, in 32 bits."""
    if moves_stack_pointer(line.op):
        return line._replace(text=f"{'add.w':<{MNEMONIC}}{line.op.instruction.operands}, #0")
    mnemonic, _, operands = line.text.partition(" ")
    return line._replace(text=f"{mnemonic + '.w ':<{MNEMONIC}}{operands.lstrip()}")


def branch_widths(line: Line, items: int) -> tuple[int, ...]:
    """What a branch over so many items may take: short only where all between is near enough at its widest."""
    if not _SHORT_BRANCH.fullmatch(line.text.split()[0]):
        return (SHORT,) if line.op.instruction.mnemonic in SHORT_ONLY else (LONG,)
    reach = _REACH if line.op.conditional else 8 * _REACH
    return (SHORT, LONG) if LONG * (items + 2) < reach else (LONG,)
