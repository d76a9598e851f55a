# SPDX-License-Identifier: Apache-2.0
"""Operands of instructions, read from assembler text as we write it and as the disassembler prints it."""

from __future__ import annotations

import functools
import re

from tinyc.base.dataclass import dataclass

_ALIASES = {"sb": "r9", "sl": "r10", "fp": "r11", "ip": "r12", "r13": "sp", "r14": "lr", "r15": "pc"}
_NAME = r"(?:r\d+|sb|sl|fp|ip|sp|lr|pc|[sdq]\d+)"
_ANY_REGISTER = re.compile(rf"\b{_NAME}\b")
_REGISTER = re.compile(rf"({_NAME})(!?)")
_LANE = re.compile(r"(q\d+)\[(\d)\]")
_PART = re.compile(r"(?:[^,\[{]|\[[^]]*\]?|\{[^}]*\}?)+")
_NUMBER = re.compile(r"#?(-?(?:0x[0-9a-f]+|\d+))")
_SHIFT = re.compile(rf"(lsl|lsr|asr|ror|uxtw) (?:#(\w+)|({_NAME}))")
_RANGE = re.compile(r"([rsdq])(\d+)-[rsdq](\d+)")


@dataclass(frozen=True, slots=True)
class Register:
    """A register. name: as written, but for aliases; writeback: `r0!`."""

    name: str
    writeback: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """It, or the s registers that a d or q register is made of."""
        return _words(self.name)


@dataclass(frozen=True, slots=True)
class Lane:
    """A word of a vector: `q0[2]`."""

    vector: str
    number: int

    @property
    def words(self) -> tuple[str, ...]:
        return (_words(self.vector)[self.number],)


@dataclass(frozen=True, slots=True)
class Immediate:
    value: int

    @property
    def words(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Shift:
    """What is done to the operand before it. by: 0 where a register says how far."""

    kind: str
    by: int
    register: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        return (self.register,) if self.register else ()


@dataclass(frozen=True, slots=True)
class Address:
    """`[base, #offset]` or `[base, index, lsl #shift]`; writeback: with `!`."""

    base: str
    offset: int = 0
    index: str = ""
    shift: int = 0
    writeback: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        return (*_words(self.base), *(_words(self.index) if self.index else ()))


@dataclass(frozen=True, slots=True)
class RegisterList:
    """`{r4-r11, lr}`: every register by its name."""

    names: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for name in self.names for word in _words(name))


@dataclass(frozen=True, slots=True)
class Other:
    """Anything else: a condition, a label, a system register."""

    text: str

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for name in _ANY_REGISTER.findall(self.text) for word in _words(_plain(name)))


Operand = Register | Lane | Immediate | Shift | Address | RegisterList | Other


def operands_of(text: str) -> tuple[Operand, ...]:
    """The operands in `r0, [r1, #4]!`, one after the other."""
    return tuple(_operand(part) for part in _split(text) if part)


def _split(text: str) -> list[str]:
    """At commas, but not in brackets or braces."""
    return [part.strip() for part in _PART.findall(text)] or [""]


@functools.lru_cache(maxsize=1 << 12)
def _operand(text: str) -> Operand:
    if text.startswith("["):
        return _memory(text)
    if text.startswith("{"):
        parts = [part.strip() for part in text.strip("{}").split(",")]
        return RegisterList(tuple(name for part in parts for name in _names(part)))
    return _simple(text)


def _simple(text: str) -> Operand:
    if match := _REGISTER.fullmatch(text):
        return Register(_plain(match[1]), bool(match[2]))
    if match := _NUMBER.fullmatch(text):
        return Immediate(int(match[1], 0))
    if match := _SHIFT.fullmatch(text):
        return Shift(match[1], int(match[2], 0) if match[2] else 0, _plain(match[3]) if match[3] else "")
    if match := _LANE.fullmatch(text):
        return Lane(match[1], int(match[2]))
    return Other(text)


def _memory(text: str) -> Operand:
    inside, _, after = text[1:].partition("]")
    base, *rest = [_operand(part) for part in _split(inside)]
    offset, index, shift = 0, "", 0
    for part in rest:
        match part:
            case Immediate():
                offset = part.value
            case Register():
                index = part.name
            case Shift():
                shift = part.by
            case _:
                return Other(text)
    if not isinstance(base, Register):
        return Other(text)
    return Address(base.name, offset, index, shift, "!" in after)


def _names(part: str) -> list[str]:
    if match := _RANGE.fullmatch(part):
        return [f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1)]
    return [_plain(part)]


def _plain(name: str) -> str:
    return _ALIASES.get(name, name)


def _words(name: str) -> tuple[str, ...]:
    if name[:1] in ("d", "q") and name[1:].isdigit():
        count = 2 if name[0] == "d" else 4
        first = int(name[1:]) * count
        return tuple(f"s{first + i}" for i in range(count))
    return (name,)
