# SPDX-License-Identifier: Apache-2.0
"""Code for `interpret.py`: from functions that were printed in C text, and from what was disassembled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tinyc.machine.instruction import Instruction
from tinyc.machine.interpret import Code, Program
from tinyc.machine.lines import emitted
from tinyc.machine.op import parse
from tinyc.machine.operands import Immediate, operands_of

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
    found = _TARGET.search(operands)
    target = places[found[1]] if found else -1
    rest = operands[: found.start(1)] if found else operands
    return Code(emitted(mnemonic, rest.strip(" ,")), at + _SIZE, target)


def disassembled(listing: Mapping[int, Instruction]) -> Program:
    """Instructions by their addresses, as a disassembler gives them."""
    return {at: Code(parse(instruction), instruction.end, _goes_to(instruction)) for at, instruction in listing.items()}


def _goes_to(instruction: Instruction) -> int:
    last = operands_of(instruction.operands)[-1:]
    return last[0].value if last and isinstance(last[0], Immediate) else -1
