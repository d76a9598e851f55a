# SPDX-License-Identifier: Apache-2.0
"""What an instruction does, as far as its time depends on it: its kind, and the registers it reads and writes."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from enum import Enum, auto

from tinyc.machine.instruction import UNKNOWN, Instruction


class Kind(Enum):
    """Kinds of instructions that cores time differently."""

    ALU = auto()
    MUL = auto()  # mul, and every product of the DSP extension
    MLA = auto()  # mla, mls
    MULL = auto()  # smull, umull
    MLAL = auto()  # smlal, umlal
    DIV = auto()
    LOAD = auto()  # one register
    LOADS = auto()  # ldrd, ldm, pop
    STORE = auto()
    STORES = auto()
    BRANCH = auto()  # to an address in the instruction
    CALL = auto()  # bl
    INDIRECT = auto()  # bx, blx, and data instructions with pc as the result
    TABLE = auto()  # tbb, tbh
    IT = auto()
    FP = auto()
    FP_MAC = auto()
    FP_DIV = auto()  # vdiv, vsqrt
    FP_LOAD = auto()
    FP_STORE = auto()
    FP_PAIR = auto()  # vmov of two core registers
    SYSTEM = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Op:
    """An instruction with its kind.

    reads, writes: registers (`r4`, `sp`, `s16`; d and q registers as their s registers). address: those of
    `reads` that make the address of an access. words: registers moved to or from memory. offset_register: the
    address is the sum of two registers. writeback: the access changes its base register. leaves: it may go
    elsewhere than to the next instruction.
    """

    instruction: Instruction
    kind: Kind
    reads: frozenset[str]
    writes: frozenset[str]
    address: frozenset[str]
    words: int
    offset_register: bool
    writeback: bool = False

    @property
    def leaves(self) -> bool:
        return self.kind in _BRANCHES or "pc" in self.writes

    @property
    def conditional(self) -> bool:
        return bool(self.instruction.condition) or self.instruction.mnemonic in ("cbz", "cbnz")

    @property
    def is_memory(self) -> bool:
        return self.kind in _MEMORY

    @property
    def is_product(self) -> bool:
        return self.kind in (Kind.MUL, Kind.MLA, Kind.MULL, Kind.MLAL)

    @property
    def is_data(self) -> bool:
        """Whether it is a data processing instruction of the core."""
        return self.kind in (Kind.ALU, Kind.DIV) or self.is_product


_BRANCHES = frozenset({Kind.BRANCH, Kind.CALL, Kind.INDIRECT, Kind.TABLE})
_MEMORY = frozenset({Kind.LOAD, Kind.LOADS, Kind.STORE, Kind.STORES, Kind.FP_LOAD, Kind.FP_STORE})

_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"ldrd|ldm\w*|pop", Kind.LOADS),
    (r"ldr\w*|lda\w*", Kind.LOAD),
    (r"strd|stm\w*|push", Kind.STORES),
    (r"str\w*|stl\w*", Kind.STORE),
    (r"cbn?z|b", Kind.BRANCH),
    (r"bl", Kind.CALL),
    (r"blx|bx|bxns|blxns", Kind.INDIRECT),
    (r"tb[bh]", Kind.TABLE),
    (r"it[te]*", Kind.IT),
    (r"mla|mls", Kind.MLA),
    (r"[su]mulls?", Kind.MULL),
    (r"[su]mlals?|umaal", Kind.MLAL),
    (r"[su]div", Kind.DIV),
    (r"muls?|smul\w+|smla\w+|smls\w+|smm\w+|smu\w+|usada?8", Kind.MUL),
    (r"vldr|vldm\w*|vpop", Kind.FP_LOAD),
    (r"vstr|vstm\w*|vpush", Kind.FP_STORE),
    (r"vdiv|vsqrt", Kind.FP_DIV),
    (r"vn?ml[as]|vfn?m[as]", Kind.FP_MAC),
    (r"v\w+", Kind.FP),
    (r"msr|mrs|dsb|dmb|isb|cps\w*|svc|bkpt|udf", Kind.SYSTEM),
)
_KIND = re.compile("|".join(f"(?P<k{i}>{pattern})" for i, (pattern, _) in enumerate(_KINDS)))

_REGISTER = re.compile(r"\b(?:r\d+|sb|sl|fp|ip|sp|lr|pc|[sdq]\d+)\b")
_ALIASES = {"sb": "r9", "sl": "r10", "fp": "r11", "ip": "r12"}
_NO_RESULT = re.compile(r"cmp|cmn|tst|teq|nop|msr|vcmpe?|vmsr")
_ONE_SOURCE = re.compile(r"mov\w*|mvns?|[su]xt[bh]\d*|rev\w*|clz|rbit|adr|mrs|v\w+")
_ADDS_TO_RESULT = re.compile(r"movt|bfi|bfc")  # the old value of the first operand is read as well


def parse(instruction: Instruction) -> Op:
    """An instruction's kind and registers, from its text."""
    kind = _kind(instruction.mnemonic.partition(".")[0])
    if kind in _MEMORY:
        return _memory(instruction, kind)
    if kind in _BRANCHES or kind in (Kind.IT, Kind.UNKNOWN):
        reads = frozenset(_registers(instruction.operands))
        return Op(instruction, kind, reads, frozenset(), frozenset(), 0, False)
    return _data(instruction, kind)


@functools.cache
def _kind(name: str) -> Kind:
    if name == UNKNOWN:
        return Kind.UNKNOWN
    found = _KIND.fullmatch(name)
    return _KINDS[int(found.lastgroup[1:])][1] if found and found.lastgroup else Kind.ALU


def _data(instruction: Instruction, kind: Kind) -> Op:
    operands = [_registers(part) for part in instruction.operands.split(",") if part.strip()]
    name = instruction.mnemonic.partition(".")[0]
    results = 0 if _NO_RESULT.fullmatch(name) else 1
    if kind in (Kind.MULL, Kind.MLAL) or name.startswith(("smlald", "smlsld", "smlal")):
        results = 2
    if name == "vmov" and len(operands) > 2:
        kind = Kind.FP_PAIR
        results = 2 if any(r.startswith("r") for r in operands[0]) else len(operands) - 2
    writes = {r for operand in operands[:results] for r in operand}
    reads = {r for operand in operands[results:] for r in operand}
    accumulates = kind in (Kind.MLAL, Kind.FP_MAC) or (results == 2 and kind is Kind.MUL)
    in_place = len(operands) == 2 and not _ONE_SOURCE.fullmatch(name)  # adds r0, #1
    if accumulates or in_place or _ADDS_TO_RESULT.fullmatch(name):
        reads |= writes
    if "pc" in writes:
        kind = Kind.INDIRECT
    return Op(instruction, kind, frozenset(reads), frozenset(writes), frozenset(), 0, False)


def _memory(instruction: Instruction, kind: Kind) -> Op:
    name = instruction.mnemonic.partition(".")[0]
    text = instruction.operands
    if "{" in text:
        base, _, rest = text.partition("{")
        moved = _registers(rest)
        base = base if name not in ("push", "pop", "vpush", "vpop") else "sp!"
        address = _registers(base)
        writeback = "!" in base
    else:
        before, _, rest = text.partition("[")
        inside, _, after = rest.partition("]")
        moved = _registers(before)
        address = _registers(inside) + _registers(after)
        writeback = "!" in after or "," in after
    loads = kind in (Kind.LOAD, Kind.LOADS, Kind.FP_LOAD)
    if name.startswith("strex"):
        moved = moved[1:]
    writes = set(moved if loads else ()) | set(address[:1] if writeback else ())
    reads = set(address) | set(() if loads else moved)
    sets = frozenset(reads), frozenset(writes), frozenset(address)
    return Op(instruction, kind, *sets, len(moved), len(address) > 1, writeback)


@functools.lru_cache(maxsize=4096)
def _registers(text: str) -> tuple[str, ...]:
    """The registers in a text, in order, by their plain names."""
    return tuple(plain for name in _REGISTER.findall(text) for plain in _plain(name))


def _plain(name: str) -> tuple[str, ...]:
    if name[0] in "dq" and name[1:].isdigit():
        words = 2 if name[0] == "d" else 4
        first = int(name[1:]) * words
        return tuple(f"s{first + i}" for i in range(words))
    return (_ALIASES.get(name, name),)
