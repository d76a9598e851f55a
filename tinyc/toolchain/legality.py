# SPDX-License-Identifier: Apache-2.0
"""Whether linked firmware holds only instructions that the board's core has. Emulators let some others through:
QEMU and unicorn carry out SMLAD on a Cortex-M3, CBZ and IT on a Cortex-M0."""

from __future__ import annotations

import functools

from tinyc.base.errors import TinycError
from tinyc.board import Board
from tinyc.board.core import core_named
from tinyc.board.instruction_set import INSTRUCTION_SETS
from tinyc.machine.instruction import Instruction
from tinyc.machine.sets import READERS
from tinyc.toolchain.disassembly import code_of, decode, disassemble
from tinyc.toolchain.elf import Elf


def check_legal(elf: Elf, board: Board) -> None:
    """Raises TinycError with the first instruction that the board's core does not have, and its function.

    Takes milliseconds. Processes of the host are not looked at.
    """
    its_set = INSTRUCTION_SETS.get(board.startup)
    if its_set is None:
        return
    there = board.isa | core_named(board.core).extras
    for start, code in code_of(elf):
        at = 0
        while at + 2 <= len(code):
            own = code[at : at + its_set.widths.of(code, at)]
            needed = _needed(own, its_set.name, there)
            if needed is not None:
                raise _error(elf, board, disassemble(elf)[start + at], {**its_set.isa, **its_set.extras}[needed])
            at += len(own)


@functools.cache
def _needed(code: bytes, set_name: str, there: frozenset[str]) -> str | None:
    """Of one instruction, wherever it stands: a library has the same few again and again."""
    needed = READERS[set_name].needed
    return next((needed(one, there) for one in decode(code, 0, INSTRUCTION_SETS[set_name])), None)


def _error(elf: Elf, board: Board, instruction: Instruction, needed: str) -> TinycError:
    function = elf.function_at(instruction.address)
    offset = instruction.address - function.address if function else 0
    place = f"{function.name}+0x{offset:x}" if function else f"0x{instruction.address:08x}"
    return TinycError(
        f"the firmware has an instruction that {board.name} ({board.core}) has not: "
        f"`{instruction}` in {place} needs {needed}",
        hint="[cflags] of the board must select its core, and `isa` must name what that has: docs/boards.md",
    )
