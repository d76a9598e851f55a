# SPDX-License-Identifier: Apache-2.0
"""Runs instructions by their meanings in the table, on memory of bytes, and finds what a processor forgives.

It takes what `thumb.py` printed (`listing.py`), and what a compiler made (`toolchain/disassembly.py`). Faults: access
beyond the bytes of one object, a write to what is constant, LDM, LDRD and vector accesses that are not aligned, a
register or flag that is read before the code has set it, a register or stack that the caller does not get back as it
was.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from tinyc.base.dataclass import dataclass
from tinyc.machine.memory import Area, Bytes, Fault
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate, Lane, Operand, Register, RegisterList, Shift
from tinyc.machine.table import Kind, s32
from tinyc.machine.vectors import VectorUnit

EXIT = 0xFFFFFFF0  # where the outermost function returns to
_WORD = 0xFFFFFFFF
_CALLEE_SAVED = (*(f"r{number}" for number in range(4, 12)), *(f"s{number}" for number in range(16, 32)))
_ARGUMENTS = ("r0", "r1", "r2", "r3")
_FOREIGN = 0xC0DE0000  # in registers that belong to the caller


@dataclass(frozen=True, slots=True)
class Code:
    """An instruction. next: the address behind it. target: where it goes, of one that says so."""

    op: Decoded
    next: int
    target: int = -1


Program = Mapping[int, Code]

Flags = dict[str, bool]
_CONDITIONS: dict[str, Callable[[Flags], bool]] = {
    "eq": lambda f: f["z"],
    "ne": lambda f: not f["z"],
    "hs": lambda f: f["c"],
    "lo": lambda f: not f["c"],
    "mi": lambda f: f["n"],
    "pl": lambda f: not f["n"],
    "vs": lambda f: f["v"],
    "vc": lambda f: not f["v"],
    "hi": lambda f: f["c"] and not f["z"],
    "ls": lambda f: not f["c"] or f["z"],
    "ge": lambda f: f["n"] == f["v"],
    "lt": lambda f: f["n"] != f["v"],
    "gt": lambda f: not f["z"] and f["n"] == f["v"],
    "le": lambda f: f["z"] or f["n"] != f["v"],
}
_SHIFTS: dict[str, Callable[[int, int], int]] = {
    "lsl": operator.lshift,
    "lsr": operator.rshift,
    "asr": lambda value, by: s32(value) >> by,
    "ror": lambda value, by: value >> by | value << (32 - by),
}


class Processor:
    """A core without a pipeline. executed: how often the instruction at an address ran."""

    def __init__(self, program: Program, memory: Bytes, limit: int = 20_000_000) -> None:
        self._program, self._memory, self._limit = program, memory, limit
        self.registers: dict[str, int] = {}
        self.executed: Counter[int] = Counter()
        self._at = 0

    def _step(self, code: Code) -> int:
        """Executes an instruction; where it goes on."""
        raise NotImplementedError

    def _write(self, name: str, value: int) -> None:
        self.registers[name] = value & _WORD

    def _run_from(self, entry: int) -> None:
        """Until the outermost function returns. A Fault says at which instruction it came."""
        try:
            self._run(entry)
        except Fault as fault:
            instruction = self._program.get(self._at)
            where = f"{instruction.op.instruction}" if instruction else "no instruction"
            raise Fault(f"{self._at:#x}: {where}: {fault}") from None

    def _run(self, entry: int) -> None:
        self._at = entry
        for _ in range(self._limit):
            code = self._program.get(self._at)
            if code is None:
                raise Fault("here is no code")
            self.executed[self._at] += 1
            to = self._step(code)
            if to == EXIT:
                return
            self._at = to
        raise Fault(f"did not come back after {self._limit} instructions")

    def _stack_top(self, beyond: Sequence[int], stack: Area, align: int) -> int:
        """The stack pointer with the arguments that no register takes."""
        top = stack.end - 4 * len(beyond) & -align
        for number, argument in enumerate(beyond):
            self._memory.store(top + 4 * number, 4, argument)
        return top

    def _check_callee_saved(self, top: int, values: Mapping[str, int]) -> None:
        """Whether the caller has its stack, and these registers, as they were."""
        for name, value in values.items():
            if self.registers.get(name, value) != value:
                raise Fault(f"{name} is not as it was before the call")
        if self.registers["sp"] != top:
            raise Fault("the stack pointer is not as it was before the call")


class Machine(Processor):
    """A core with Thumb instructions."""

    def __init__(self, program: Program, memory: Bytes, limit: int = 20_000_000) -> None:
        super().__init__(program, memory, limit)
        self._flags: Flags = {}
        self._vectors = VectorUnit(self._read, self._write, memory.load, memory.store, self._saved)

    def call(self, entry: int, arguments: Sequence[int], stack: Area) -> int:
        """r0 after a call of the function at `entry` with these words, by the calling convention of AAPCS."""
        top = self._stack_top(arguments[len(_ARGUMENTS) :], stack, 8)
        self.registers = {name: value & _WORD for name, value in zip(_ARGUMENTS, arguments, strict=False)}
        self.registers |= {"sp": top, "lr": EXIT | 1}
        self._flags = {}
        self._run_from(entry & ~1)
        self._check_callee_saved(top, {name: self._foreign(name) for name in _CALLEE_SAVED})
        return self.registers.get("r0", 0)

    # ---- registers ----

    def _read(self, name: str) -> int:
        value = self.registers.get(name)
        if value is None:
            if name == "pc":
                return self._at + 4
            raise Fault(f"reads {name}, which it has not set")
        return value

    @staticmethod
    def _foreign(name: str) -> int:
        return _FOREIGN + _CALLEE_SAVED.index(name) if name in _CALLEE_SAVED else 0

    def _saved(self, name: str) -> int:
        """What the caller has in a register, if the code has set nothing."""
        return self.registers[name] if name in self.registers else self._foreign(name)

    # ---- instructions ----

    def _step(self, code: Code) -> int:
        """Executes it; where it goes on."""
        op = code.op
        condition = op.instruction.condition
        if (condition and not self._holds(condition)) or op.kind is Kind.IT:
            return code.next
        if op.kind in (Kind.BRANCH, Kind.CALL) or op.row.kind is Kind.INDIRECT:
            return self._branch(code)
        if self._vectors.takes(op):
            self._vectors.execute(op)
        elif op.is_memory:
            self._access(op)
        elif op.row.moves_pairs:
            self._move(op)
        elif op.instruction.mnemonic == "adr":
            self._write(op.operands[0].words[0], self._near(code))
        else:
            self._compute(op)
        if "pc" in op.writes:
            return self.registers.pop("pc") & ~1
        return code.next

    def _holds(self, condition: str) -> bool:
        try:
            return _CONDITIONS[condition](self._flags)
        except KeyError as unset:
            raise Fault(f"asks for flag {unset}, which it has not set") from None

    def _branch(self, code: Code) -> int:
        op, name = code.op, code.op.instruction.mnemonic
        if op.row.counts:
            left = self._read("lr") - 1
            self._write("lr", left)
            return code.target if left else code.next
        if name in ("cbz", "cbnz"):
            zero = self._read(op.operands[0].words[0]) == 0
            return code.target if zero == (name == "cbz") else code.next
        to = self._read(op.operands[0].words[0]) & ~1 if op.kind is Kind.INDIRECT else code.target
        if name in ("bl", "blx"):
            self._write("lr", code.next | 1)
        return to

    def _near(self, code: Code) -> int:
        """The address of ADR: of a label as jumps take it, or of a constant, from a disassembler."""
        last = code.op.operands[-1]
        return (self._at + 4 & ~3) + last.value if isinstance(last, Immediate) else code.target + 1

    def _values(self, operands: Sequence[Operand]) -> list[int]:
        values: list[int] = []
        for operand in operands:
            if isinstance(operand, Shift):
                by = self._read(operand.register) & 0xFF if operand.register else operand.by
                values[-1] = _SHIFTS[operand.kind](values[-1], by) & _WORD
            elif isinstance(operand, Immediate):
                values.append(operand.value & _WORD)
            else:
                values.append(self._read(operand.words[0]))
        return values

    def _compute(self, op: Decoded) -> None:
        row = op.row
        if row.meaning is None:
            if row.results:
                raise Fault("the table does not say what it means")
            return
        read = op.operands[row.results :]
        values = [self._saved(read[0].words[0])] if op.is_high_copy else self._values(read)
        results = [operand.words[0] for operand in op.operands[: row.results]]
        if row.updates or (len(op.operands) == 2 and results and not row.unary):
            values = [self._read(name) for name in results] + values
        if row.carries:
            values.append(int(self._holds("hs")))
        values += [self._read(name) for name in row.takes]
        results += row.sets
        result = row.meaning(*values)
        if isinstance(result, tuple):
            for name, value in zip(results, result, strict=True):
                self._write(name, value)
            return
        if row.flags:
            self._set_flags(row.flags, values, result)
        if results:
            self._write(results[0], result)

    def _set_flags(self, flags: str, values: Sequence[int], result: int) -> None:
        self._flags["n"] = bool(result & 0x80000000)
        self._flags["z"] = result & _WORD == 0
        if flags == "nz":
            self._flags.pop("c", None)  # of shifts, it depends on more than the table says
            return
        a, b = (values[1], values[0]) if flags == "rsb" else (values[0], values[1])
        borrow = 1 - values[2] if len(values) > 2 else 0
        if flags == "add":
            exact, carry = s32(a) + s32(b) + sum(values[2:]), sum(values) > _WORD
        else:
            exact, carry = s32(a) - s32(b) - borrow, a >= b + borrow
        self._flags |= {"c": carry, "v": exact != s32(exact)}

    def _move(self, op: Decoded) -> None:
        """Between registers of the core and of the FPU. From a vector, the first gets the second lane that is named."""
        words = [word for operand in op.operands for word in operand.words]
        half = len(words) // 2
        if isinstance(op.operands[-1], Lane):
            words[half:] = reversed(words[half:])
        for name, value in zip(words[:half], [self._read(name) for name in words[half:]], strict=True):
            self._write(name, value)

    # ---- memory ----

    def _access(self, op: Decoded) -> None:
        lists = [operand for operand in op.operands if isinstance(operand, RegisterList)]
        if lists:
            self._multiple(op, lists[0].words)
            return
        at = next(i for i, operand in enumerate(op.operands) if isinstance(operand, Address))
        place = op.operands[at]
        assert isinstance(place, Address)
        base = self._read(place.base) & (~3 if place.base == "pc" else _WORD)
        moved = base + place.offset + (self._read(place.index) << place.shift if place.index else 0)
        after = self._values(op.operands[at + 1 :])
        names = [word for operand in op.operands[:at] for word in operand.words]
        address = base if after else moved & _WORD
        if not op.row.loads:
            self._transfer(op, names, address)
        if place.writeback or after:
            self._write(place.base, base + after[0] if after else moved)
        if op.row.loads:
            self._transfer(op, names, address)

    def _multiple(self, op: Decoded, names: Sequence[str]) -> None:
        bases = [operand for operand in op.operands if isinstance(operand, Register)]
        base, size, name = bases[0].name if bases else "sp", 4 * len(names), op.instruction.mnemonic
        start, down = self._read(base), name in ("push", "vpush") or name.endswith("db")
        address = (start - size if down else start) & _WORD
        if not bases or bases[0].writeback:
            self._write(base, address if down else start + size)
        self._transfer(op, names, address)

    def _transfer(self, op: Decoded, names: Sequence[str], address: int) -> None:
        """Words or less of registers to or from consecutive bytes."""
        row = op.row
        if (len(names) > 1 or row.kind in (Kind.FP_LOAD, Kind.FP_STORE)) and address % 4:
            raise Fault(f"{address:#x} is no multiple of 4")
        saves = op.instruction.mnemonic in ("push", "vpush")
        for number, name in enumerate(names):
            at = address + 4 * number
            if row.loads:
                value, sign = self._memory.load(at, row.size), row.signed << (8 * row.size - 1)
                self._write(name, (value ^ sign) - sign)
            else:
                self._memory.store(at, row.size, self._saved(name) if saves else self._read(name))
