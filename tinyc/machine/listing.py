# SPDX-License-Identifier: Apache-2.0
"""Code for `interpret.py`: from functions that were printed in C text, and from what was disassembled."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from tinyc.machine.instruction import Instruction
from tinyc.machine.interpret import Code, Program
from tinyc.machine.lines import emitted
from tinyc.machine.op import Decoded, parse
from tinyc.machine.operands import Immediate, operands_of
from tinyc.machine.rv32_table import parse_riscv

_FUNCTION = re.compile(r"TC_NAKED void (\w+)\(.*?__asm__ volatile\((.*?)\);\n\}", re.DOTALL)
_LINE = re.compile(r'"(.*?)\s*\\n"')
_TARGET = re.compile(r"(?:^|[ ,])(\d+)[bf](?:\+1)?$")
_SIZE = 4


def functions_in(text: str) -> Mapping[str, Sequence[str]]:
    """The assembly lines of each naked function in C text, by its name."""
    return {name: _LINE.findall(body) for name, body in _FUNCTION.findall(text)}


def assembled(lines: Sequence[str], start: int) -> Program:
    """Lines as `Asm.text` gives them, as code from `start` on."""
    places, at = dict[str, int](), start
    written: list[tuple[int, str]] = []
    for line in lines:
        if line.endswith(":"):
            places[line[:-1]] = at
        elif not line.startswith((".", "@")):
            written.append((at, line))
            at += _SIZE
    return {at: _code(at, line, places) for at, line in written}


def _code(at: int, line: str, places: Mapping[str, int]) -> Code:
    mnemonic, _, operands = line.partition(" ")
    jump = _TARGET.search(operands)
    target = places[jump[1]] if jump else -1
    rest = operands[: jump.start(1)] if jump else operands
    return Code(emitted(mnemonic, rest.strip(" ,")), at + _SIZE, target)


def disassembled(listing: Mapping[int, Instruction]) -> Program:
    """Instructions by their addresses, as a disassembler gives them."""
    return {at: Code(parse(instruction), instruction.end, _goes_to(instruction)) for at, instruction in listing.items()}


def _goes_to(instruction: Instruction) -> int:
    last = operands_of(instruction.operands)[-1:]
    return last[0].value if last and isinstance(last[0], Immediate) else -1


def for_macro(text: str, macro: str, holds: bool) -> str:
    """C text as the preprocessor leaves it where the macro is 1 or 0: `#if macro`, with or without `#else`."""
    block = rf"^#if {macro}\n(.*?)(?:^#else\n(.*?))?^#endif\n"
    return re.sub(block, lambda match: (match[1] if holds else match[2]) or "", text, flags=re.DOTALL | re.MULTILINE)


def assembled_plain(lines: Sequence[str], start: int, parse: Callable[[Instruction], Decoded]) -> Program:
    """Lines as `PlainAsm.body` prints them, as code from `start` on. parse: of the instruction set."""
    places, at = dict[str, list[int]](), start
    written: list[tuple[int, str]] = []
    for line in lines:
        if line.endswith(":"):
            places.setdefault(line[:-1], []).append(at)
        elif not line.startswith("."):
            written.append((at, line))
            at += _SIZE
    return {at: _plain_code(at, line, places, parse) for at, line in written}


def _plain_code(
    at: int, line: str, places: Mapping[str, Sequence[int]], parse: Callable[[Instruction], Decoded]
) -> Code:
    mnemonic, _, operands = line.partition(" ")
    jump = _TARGET.search(operands)
    target = -1
    if jump:
        back = operands[jump.end(1)] == "b"
        near = [place for place in places[jump[1]] if (place <= at) == back]
        target = max(near) if back else min(near)
        operands = f"{operands[: jump.start(1)]}{target - at}"
    return Code(parse(Instruction(at, bytes(_SIZE), mnemonic, operands.strip())), at + _SIZE, target)


def disassembled_riscv(listing: Mapping[int, Instruction]) -> Program:
    """As `disassembled`, of RV32: branches go so far from where they are."""
    return {at: _disassembled_riscv(at, instruction) for at, instruction in listing.items()}


def _disassembled_riscv(at: int, instruction: Instruction) -> Code:
    op = parse_riscv(instruction)
    last = op.operands[-1:]
    target = at + last[0].value if last and op.leaves and isinstance(last[0], Immediate) else -1
    return Code(op, instruction.end, target)
