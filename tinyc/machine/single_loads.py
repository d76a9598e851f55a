# SPDX-License-Identifier: Apache-2.0
"""Loads of several registers as single ones, for cores that begin a single one beside a product.

A pointer that moves along (`ldm r0!, {r1, r2}`, `ldr r1, [r9], #4`) stays where it is meanwhile: offsets grow instead,
and it moves once, where something else reads it or the piece of code ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tinyc.machine.lines import Line, line_of
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate, Register, RegisterList
from tinyc.machine.table import Kind

REACH = 4095  # bytes of the offset of a single access
_REACH_TWO = 1020  # of LDRD and STRD
_BELOW = 255


class SingleLoads:
    """Rewrites a straight piece of code. The lines of the result do what those of the piece do."""

    def __init__(self) -> None:
        self._moved: dict[str, int] = {}  # how far each pointer would be
        self._lines: list[Line] = []

    def rewritten(self, lines: Sequence[Line]) -> list[Line]:
        """The piece with single loads; its last line may be a jump."""
        for line in lines:
            if line.op.leaves:
                self._settle(list(self._moved))
            new = self._access(line.op) if line.op.is_memory and not line.label else None
            if new is None:
                if not self._moved.keys().isdisjoint(line.op.touched):
                    self._settle([base for base in self._moved if base in line.op.touched])
                self._lines.append(line)
            else:
                self._lines.extend(new)
        self._settle(list(self._moved))
        return self._lines

    def _settle(self, bases: Sequence[str]) -> None:
        """Moves pointers to where they would be."""
        for base in bases:
            if moved := self._moved.pop(base):
                name = "add" if moved > 0 else "sub"
                self._lines.append(line_of(name, (base, base, f"#{abs(moved)}")))

    def _access(self, op: Decoded) -> list[Line] | None:
        """The lines of an access from a pointer that stays; None where it is not of that kind."""
        taken = _taken(op)
        if taken is None:
            return None
        base, offset, moved, registers = taken
        if base in registers and (op.row.loads or base in self._moved):
            return None
        self._settle([name for name in registers if name in self._moved])
        first, far = self._moved.get(base, 0) + offset, self._moved.get(base, 0) + moved
        if self._moved.get(base) and not (_reaches(op, first, len(registers)) and abs(far) <= REACH):
            self._settle([base])
            first = offset
        if not _reaches(op, first, len(registers)):
            return None
        if base not in self._moved and op.kind is Kind.STORE and not moved:
            return [line_of(op.instruction.mnemonic, (*registers, _place(base, first)))]
        if moved:
            self._moved[base] = self._moved.get(base, 0) + moved
        if op.kind is Kind.LOADS:
            return [line_of("ldr", (name, _place(base, first + 4 * n))) for n, name in enumerate(registers)]
        return [line_of(op.instruction.mnemonic, (*registers, _place(base, first)))]


def _place(base: str, offset: int) -> str:
    return f"[{base}, #{offset}]" if offset else f"[{base}]"


def _reaches(op: Decoded, first: int, count: int) -> bool:
    if op.kind is Kind.STORES:
        return abs(first) <= _REACH_TWO and first % 4 == 0
    return first >= -_BELOW and first + 4 * (count - 1) <= REACH


_Taken = tuple[str, int, int, tuple[str, ...]]  # base, offset, how far the base moves, registers


def _taken(op: Decoded) -> _Taken | None:
    """Of an access with a fixed offset."""
    if op.instruction.condition or "pc" in op.writes or "sp" in op.writes or op.row.status:
        return None
    if any(isinstance(operand, RegisterList) for operand in op.operands):
        return _many(op)
    if op.kind in (Kind.LOAD, Kind.STORE) or op.instruction.mnemonic in ("ldrd", "strd"):
        return _few(op)
    return None


def _few(op: Decoded) -> _Taken | None:
    """Of one register or two."""
    at = next((n for n, operand in enumerate(op.operands) if isinstance(operand, Address)), len(op.operands))
    place, behind = op.operands[at : at + 1], op.operands[at + 1 :]
    registers = tuple(operand.name for operand in op.operands[:at] if isinstance(operand, Register))
    if not place or not isinstance(place[0], Address) or place[0].index or len(registers) != at:
        return None
    base, offset = place[0].base, place[0].offset
    if not behind:
        return base, offset, offset if place[0].writeback else 0, registers
    return (base, offset, behind[0].value, registers) if isinstance(behind[0], Immediate) else None


def _many(op: Decoded) -> _Taken | None:
    """Of LDM."""
    base = next((operand for operand in op.operands if isinstance(operand, Register)), None)
    listed = next(operand for operand in op.operands if isinstance(operand, RegisterList))
    if op.instruction.mnemonic not in ("ldm", "ldmia") or base is None or base.name == "sp":
        return None
    return base.name, 0, 4 * len(listed.names) if base.writeback else 0, tuple(sorted(listed.names, key=_number))


def _number(register: str) -> int:
    return {"lr": 14}.get(register, 0) or int(register[1:])


def single_loads(lines: Sequence[Line]) -> Iterator[Line]:
    """A straight piece of code with single loads in the place of LDM and LDRD, and pointers that move once."""
    yield from SingleLoads().rewritten(lines)
