# SPDX-License-Identifier: Apache-2.0
"""Functions in assembly for RV32IM: built instruction by instruction by the table (`rv32_table.py`), printed at the end
as one naked C function. What a call executes follows from the instructions and from how often loops turn.

The standard calling convention: a0-a7 arguments, s0-s11 belong to the caller, gp and tp to the system.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tinyc.machine.assembly import call_frame
from tinyc.machine.cores import CORES
from tinyc.machine.frame import Frame
from tinyc.machine.lines import Line
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Immediate, Operand
from tinyc.machine.plain import PlainAsm, goes_back
from tinyc.machine.rv32_table import parse_riscv
from tinyc.machine.table import Kind
from tinyc.machine.unwind import directives
from tinyc.machine.unwind_rv32 import LINK, after, may_save

BITS = "TC_RV32_BITS"  # of tc_compiler.h: whether there are Zba and Zbb
SAVED = tuple(f"s{number}" for number in range(12))
SHORT_REGISTERS = frozenset({"s0", "s1", *(f"a{number}" for number in range(6))})  # of most compressed instructions
_SHORT_IN_PLACE = frozenset({"and", "or", "xor", "sub", "srli", "srai", "andi"})
_SHORT_ANYWHERE = frozenset({"add", "addi", "slli"})
_REACH = 2048  # what an addition goes, in both directions
_STACK = 16  # bytes that the stack pointer is a multiple of
_HAZARD3 = CORES["hazard3"]


class RiscvFrame(Frame):
    """The stack of a function of RV32IM, what it saved among the words by name."""

    def __init__(self, names: Iterable[str], below: int = 0, above: int = 0) -> None:
        super().__init__(names, below, above, saved=0)
        self.size += -self.size % _STACK

    def at(self, name: str) -> str:
        return f"{self.place(name)}(sp)"


class RiscvAsm(PlainAsm):
    """The instructions of one function of RV32IM."""

    def __init__(self, within: str = "") -> None:
        super().__init__(parse_riscv, may_save, within)
        self._switches: dict[int, list[str]] = {}  # lines for the preprocessor, by the item that they stand before
        self._saved: tuple[int, Sequence[str], int] = 0, (), 0

    def save(self, frame: int, registers: Sequence[str], arguments: Sequence[str] = (), at: int = 0) -> None:
        """Takes `frame` bytes of the stack, and stores the caller's registers and then arguments there, from byte `at`
        on. What `restore` undoes."""
        self._saved = frame, registers, at
        self.add("sp", "sp", -frame)
        self.words("sw", (*registers, *arguments), "sp", at)

    def restore(self) -> None:
        """Gives back registers and stack, and returns."""
        frame, registers, at = self._saved
        self.words("lw", registers, "sp", at)
        self.add("sp", "sp", frame)
        self.op("ret")

    def add(self, target: str, source: str, value: int) -> None:
        """target = source + value, -2048 to 2047."""
        if value or target != source:
            self.op("addi", target, source, str(value))

    def immediate(self, register: str, value: int) -> None:
        """register = value, of 32 bits."""
        if -_REACH <= value < _REACH:
            self.op("li", register, str(value))
            return
        self.op("lui", register, str((value + 0x800 >> 12) & 0xFFFFF))
        self.add(register, register, (value + 0x800 & 0xFFF) - 0x800)

    def more(self, register: str, value: int, temp: str) -> None:
        """register += value, of 32 bits; temp is lost where an addition does not reach that far."""
        if -_REACH <= value < _REACH:
            self.add(register, register, value)
        else:
            self.immediate(temp, value)
            self.op("add", register, register, temp)

    def words(self, name: str, registers: Sequence[str], base: str, at: int = 0) -> None:
        """Loads (`lw`) or stores (`sw`) consecutive words."""
        for number, register in enumerate(registers):
            self.op(name, register, f"{at + 4 * number}({base})")

    @contextmanager
    def where(self, macro: str) -> Iterator[None]:
        """What is written in the context is compiled where the macro is not 0, and counts for nothing; `otherwise`
        says what is compiled elsewhere, and counted."""
        self._switch(f"#if {macro}")
        with self._flow.per(()):
            yield

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        """The other side of `where`, right behind it."""
        self._switch("#else")
        yield
        self._switch("#endif")

    def _switch(self, text: str) -> None:
        self._switches.setdefault(len(self._items), []).append(text)

    def clamp(self, register: str, least: str, greatest: str) -> None:
        """register = what is nearest to it from least to greatest. Counted as if it were there already."""
        with self.where(BITS):
            self.op("max", register, register, least)
            self.op("min", register, register, greatest)
        with self.otherwise():
            self._limit(register, least, lower=True)
            self._limit(register, greatest, lower=False)

    def clamp_to(self, register: str, least: int, greatest: int, temp: str) -> None:
        """The same with numbers of at most 12 bits."""
        for number, name in ((least, "max"), (greatest, "min")):
            self.op("li", temp, str(number))
            with self.where(BITS):
                self.op(name, register, register, temp)
            with self.otherwise():
                self._limit(register, temp, lower=name == "max")

    def less_below_zero(self, register: str, by: int) -> None:
        """register -= by where it is below 0. Counted as if it were not."""
        label = f"positive{len(self._items)}"
        self.branch("bgez", label, register)
        with self._flow.per(()):
            self.add(register, register, -by)
        self.enter(label)

    def _limit(self, register: str, limit: str, lower: bool) -> None:
        """register = limit where it is beyond."""
        label = f"within{len(self._items)}"
        self.branch("bge", label, *((register, limit) if lower else (limit, register)))
        with self._flow.per(()):
            self.op("mv", register, limit)
        self.enter(label)

    # ---- what it comes to: cycles by the rules of Hazard3; that a loop ends costs two more ----

    def _cycles(self, op: Decoded, last: Decoded | None) -> int:
        if op.kind is Kind.BRANCH and goes_back(op):
            return 1
        cycles = round(_HAZARD3.costs([op], () if last is None else (last,))[0])
        return cycles + (_HAZARD3.taken(op, None) if op.leaves and not op.conditional else 0)

    @property
    def code_bytes(self) -> int:
        """Bytes of the function on a core with compressed instructions, without bit manipulation."""
        return sum(2 if is_short(item.op) else 4 for item in self._items if isinstance(item, Line))

    # ---- text ----

    def unwinding(self) -> Mapping[int, Sequence[str]]:
        return directives(self.marks(), after, LINK)

    def _printed(self, number: int, told: Sequence[str]) -> Iterator[str]:
        """With a switch before the item."""
        yield from map(call_frame, told)
        yield from self._switches.get(number, ())
        yield from super()._printed(number, ())


def is_short(op: Decoded) -> bool:
    """Whether an instruction fits 16 bits (RVC; branches are taken for long ones)."""
    name, operands = op.instruction.mnemonic, op.operands
    if op.is_memory:
        return name in ("lw", "sw") and _is_near(operands[0].words[0], operands[1])
    last = operands[-1] if operands else None
    small = not isinstance(last, Immediate) or name in ("slli", "srli", "srai") or -32 <= last.value < 32
    in_place = len(operands) == 3 and operands[0] == operands[1]
    if in_place and name in _SHORT_IN_PLACE:
        return small and {word for operand in operands for word in operand.words} <= SHORT_REGISTERS
    swapped = name == "add" and operands[0] == last
    return name in ("ret", "mv") or (small and (name == "li" or swapped or (in_place and name in _SHORT_ANYWHERE)))


def _is_near(register: str, place: Operand) -> bool:
    """Whether a short instruction may move a word between the two."""
    if not isinstance(place, Address) or place.offset < 0:
        return False
    return (place.base == "sp" and place.offset < 256) or (
        place.offset < 128 and {register, place.base} <= SHORT_REGISTERS
    )
