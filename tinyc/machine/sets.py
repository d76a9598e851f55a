# SPDX-License-Identifier: Apache-2.0
"""What reads the instructions of a set, by the `startup` of a board; its other facts: board/instruction_set.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from tinyc.base.dataclass import dataclass
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded, parse
from tinyc.machine.rv32_bits import needed_extension, with_bits
from tinyc.machine.rv32_table import parse_riscv
from tinyc.machine.thumb_features import needed_feature, with_conditions


def as_they_are(instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """For a set whose disassembler leaves nothing to say."""
    return iter(instructions)


@dataclass(frozen=True, slots=True)
class SetReader:
    """Functions of one instruction set."""

    parse: Callable[[Instruction], Decoded]  # kind, operands and registers, by the set's table
    needed: Callable[[Instruction, frozenset[str]], str | None]  # the feature that a core with these words lacks for it
    named: Callable[[Iterable[Instruction]], Iterator[Instruction]] = as_they_are  # what the disassembler left out


READERS: Mapping[str, SetReader] = MappingProxyType(
    {
        "cortex-m": SetReader(parse, needed_feature, with_conditions),
        "riscv": SetReader(parse_riscv, needed_extension, with_bits),
    }
)
