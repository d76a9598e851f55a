# SPDX-License-Identifier: Apache-2.0
"""Runs instructions of RV32IM by their meanings in `rv32_table.py`, and finds what a processor forgives, as
`interpret.py` does. An access to words or half-words that is not aligned is a fault too: cores may trap there."""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.machine.interpret import EXIT, Code, Processor
from tinyc.machine.memory import Area, Fault
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate, Operand
from tinyc.machine.rv32_table import ZERO, expanded
from tinyc.machine.table import Kind

_ARGUMENTS = tuple(f"a{number}" for number in range(8))
_CALLEE_SAVED = (*(f"s{number}" for number in range(12)), "gp", "tp")
_FOREIGN = 0xC0DE0000  # in registers that belong to the caller


class Rv32Machine(Processor):
    """A core of RV32IM without a pipeline."""

    def call(self, entry: int, arguments: Sequence[int], stack: Area) -> int:
        """a0 after a call of the function at `entry` with these words, by the standard calling convention."""
        top = self._stack_top(arguments[len(_ARGUMENTS) :], stack, 16)
        self.registers = dict(zip(_ARGUMENTS, (value & 0xFFFFFFFF for value in arguments), strict=False))
        self.registers |= {"sp": top, "ra": EXIT}
        self._run_from(entry)
        self._check_callee_saved(top, {name: self._foreign(name) for name in _CALLEE_SAVED})
        return self.registers.get("a0", 0)

    @staticmethod
    def _foreign(name: str) -> int:
        return _FOREIGN + _CALLEE_SAVED.index(name)

    def _read(self, name: str) -> int:
        if name == ZERO:
            return 0
        if name not in self.registers:
            raise Fault(f"reads {name}, which it has not set")
        return self.registers[name]

    def _put(self, name: str, value: int) -> None:
        if name != ZERO:
            self._write(name, value)

    def _step(self, code: Code) -> int:
        op = code.op
        if op.leaves:
            return self._branch(code)
        if op.is_memory:
            self._access(op)
            return code.next
        if op.row.meaning is None:
            raise Fault("the table does not say what it means")
        result = op.row.meaning(*self._values(op.operands[op.row.results :] if op.row.results else ()))
        if op.row.results:
            assert isinstance(result, int)
            self._put(op.operands[0].words[0], result)
        return code.next

    def _values(self, operands: Sequence[Operand]) -> list[int]:
        return [
            operand.value & 0xFFFFFFFF if isinstance(operand, Immediate) else self._read(operand.words[0])
            for operand in operands
        ]

    def _branch(self, code: Code) -> int:
        op = code.op
        if op.row.meaning is not None:
            registers = [operand for operand in op.operands if operand.words]
            return code.target if op.row.meaning(*self._values(registers)) else code.next
        name = expanded(op.instruction)[0]
        if name == "ret":
            return self._read("ra") & ~1
        to = code.target
        if op.kind is Kind.INDIRECT:
            place = op.operands[-1]
            offset = place.offset if isinstance(place, Address) else 0
            to = (self._read(place.words[0]) + offset) & 0xFFFFFFFE
        if name in ("jal", "jalr", "call"):
            linked = len(op.operands) > 1
            self._put(op.operands[0].words[0] if linked else "ra", code.next)
        return to

    def _access(self, op: Decoded) -> None:
        moved, place = op.operands
        if not isinstance(place, Address):
            raise Fault("no address")
        name, size = moved.words[0], op.row.size
        address = (self._read(place.base) + place.offset) & 0xFFFFFFFF
        if address % size:
            raise Fault(f"{address:#x} is no multiple of {size}")
        if op.row.loads:
            value, sign = self._memory.load(address, size), op.row.signed << (8 * size - 1)
            self._put(name, (value ^ sign) - sign)
            return
        saves = name in _CALLEE_SAVED and place.base == "sp" and name not in self.registers
        self._memory.store(address, size, self._foreign(name) if saves else self._read(name))
