# SPDX-License-Identifier: Apache-2.0
"""An instruction with what the table says of it: kind, operands, and the registers that it reads and writes."""

from __future__ import annotations

from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.machine.instruction import Instruction
from tinyc.machine.operands import Address, Operand, Register, RegisterList, operands_of
from tinyc.machine.table import BRANCHES, MEMORY, PRODUCTS, Kind, Row, row_of

_HIGH = frozenset(f"r{i}" for i in range(8, 12))  # that Armv6-M pushes by way of others
_FIXED = frozenset({Kind.IT, Kind.SYSTEM, Kind.UNKNOWN, Kind.VECTOR, Kind.PREDICATE})


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """An instruction as its row in the table reads it."""

    instruction: Instruction
    row: Row
    kind: Kind
    operands: tuple[Operand, ...]
    reads: frozenset[str]  # registers (`r4`, `sp`, `s16`; d and q registers as their s registers)
    writes: frozenset[str]  # registers, as in `reads`
    address: frozenset[str] = frozenset()  # those of `reads` that make the address of an access
    words: int = 0  # registers moved to or from memory
    offset_register: bool = False  # the address is the sum of two registers
    writeback: bool = False  # the access changes its base register
    leaves: bool = field(init=False)  # it may go elsewhere than to the next instruction
    stays: bool = field(init=False)  # nothing is moved over it
    is_memory: bool = field(init=False)
    touched: frozenset[str] = field(init=False)  # what is read or written
    takes_flags: bool = field(init=False)  # it sets or reads the flags, or may go elsewhere by them

    def __post_init__(self) -> None:  # asked for millions of times
        leaves = self.kind in BRANCHES or "pc" in self.writes
        object.__setattr__(self, "leaves", leaves)
        stays = self.kind in _FIXED or "sp" in self.writes or "pc" in self.writes or bool(self.instruction.condition)
        object.__setattr__(self, "stays", stays)
        object.__setattr__(self, "is_memory", self.kind in MEMORY)
        object.__setattr__(self, "touched", self.reads | self.writes)
        object.__setattr__(self, "takes_flags", bool(self.row.flags) or self.row.carries or leaves)

    @property
    def conditional(self) -> bool:
        return bool(self.instruction.condition) or self.row.counts or self.row.conditional

    @property
    def takes_stack(self) -> bool:
        """Whether it makes an address on the stack that is not the stack pointer."""
        return "sp" in self.reads and "sp" not in self.writes and not self.is_memory

    @property
    def is_high_copy(self) -> bool:
        """Whether it copies a register to or from r8-r11, which Armv6-M saves in no other way."""
        if self.instruction.mnemonic != "mov" or len(self.operands) != 2:
            return False
        words = [operand.name for operand in self.operands if isinstance(operand, Register)]
        return len(words) == 2 and bool(_HIGH.intersection(words))

    @property
    def is_product(self) -> bool:
        return self.kind in PRODUCTS

    @property
    def is_data(self) -> bool:
        """Whether it is a data processing instruction of the core."""
        return self.kind in (Kind.ALU, Kind.DIV) or self.is_product


def parse(instruction: Instruction) -> Decoded:
    """An instruction's kind, operands and registers."""
    row = row_of(instruction.mnemonic)
    operands = operands_of(instruction.operands)
    if row.kind in MEMORY:
        return _memory(instruction, row, operands)
    if row.kind in BRANCHES or row.kind in (Kind.IT, Kind.UNKNOWN):
        return Decoded(instruction, row, row.kind, operands, _words(operands), frozenset())
    return _data(instruction, row, operands)


def _words(operands: tuple[Operand, ...]) -> frozenset[str]:
    return frozenset(word for operand in operands for word in operand.words)


def _data(instruction: Instruction, row: Row, operands: tuple[Operand, ...]) -> Decoded:
    kind, results = row.kind, row.results
    if row.moves_pairs and len(operands) > 2:
        kind = row.pair_kind
        core = isinstance(operands[0], Register) and operands[0].name.startswith("r")
        results = 2 if core else len(operands) - 2
    writes, reads = _words(operands[:results]), _words(operands[results:])
    in_place = len(operands) == 2 and not row.unary  # adds r0, #1
    if row.updates or in_place:
        reads |= writes
    for memory in operands:
        if isinstance(memory, Address) and kind is Kind.VECTOR:  # a vector's access, which may move its base
            writes |= {memory.base}
    if "pc" in writes:
        kind = Kind.INDIRECT
    return Decoded(instruction, row, kind, operands, reads | row.takes, writes | row.sets)


def _memory(instruction: Instruction, row: Row, operands: tuple[Operand, ...]) -> Decoded:
    if any(isinstance(operand, RegisterList) for operand in operands):
        moved = tuple(word for operand in operands if isinstance(operand, RegisterList) for word in operand.words)
        bases = [operand for operand in operands if isinstance(operand, Register)]
        address = tuple(word for base in bases for word in base.words) if bases else ("sp",)
        writeback = any(base.writeback for base in bases) or not bases
    else:
        at = next((i for i, operand in enumerate(operands) if isinstance(operand, Address)), len(operands))
        moved = tuple(word for operand in operands[:at] for word in operand.words)
        address = tuple(word for operand in operands[at:] for word in operand.words)
        place = operands[at] if at < len(operands) else None
        writeback = at + 1 < len(operands) or (isinstance(place, Address) and place.writeback)
    if row.status:  # strex: its result is no part of what is stored
        moved = moved[1:]
    writes = set(moved if row.loads else ()) | set(address[:1] if writeback else ())
    reads = set(address) | set(() if row.loads else moved)
    sets = frozenset(reads), frozenset(writes), frozenset(address)
    return Decoded(instruction, row, row.kind, operands, *sets, len(moved), len(address) > 1, writeback)
