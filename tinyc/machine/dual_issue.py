# SPDX-License-Identifier: Apache-2.0
"""The timing rules of Cortex-M33 and M7, by measurements that others published: docs/cycles.md has the sources, and how
far the sums are from boards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Register, Shift
from tinyc.machine.table import Kind
from tinyc.machine.three_stage import FIXED, split_fetch

_PARALLEL = r"(?:[suq]|[su]h|uq)(?:add16|add8|sub16|sub8|asx|sax)|qd?(?:add|sub)|sel"
_SUMS = re.compile(r"[su]xta[bh](16)?")  # extend and add
_PACKED = re.compile(rf"pkh(bt|tb)|[su]xt[bh]16|{_PARALLEL}")
_FIELDS = re.compile(rf"[su]xta?[bh](16)?|[su]bfx|bf[ic]|pkh(bt|tb)|clz|rev\w*|rbit|[su]sat(16)?|{_PARALLEL}")


@dataclass(frozen=True, slots=True)
class CortexM33:
    """Two stages of execution: what needs both gives its result a cycle later. Short branches pair with the short
    instruction before them."""

    name: str
    error: str

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        return [self._cost(op, last) for op, last in zip(ops, (_last(before), *ops[:-1]), strict=True)]

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        """A branch that pairs is free but for the cycle that its target takes, or two where its flags are fresh."""
        last = _last(before)
        pairs = _pairs_with_branch(op, last)
        fresh = pairs and last is not None and bool(last.row.flags)
        refill = 1 if op.kind in (Kind.BRANCH, Kind.CALL) else 2
        return refill + fresh + split_fetch(target)

    def _cost(self, op: Decoded, last: Decoded | None) -> int:
        if _pairs_with_branch(op, last):
            return 0
        waits = last is not None and bool(_late(last) & _needed(op, last))
        if op.kind in (Kind.LOADS, Kind.STORES):
            return waits + max(1, op.words)
        if op.is_memory and op.words > 1:
            return waits + op.words
        flags = op.instruction.mnemonic == "muls"
        return waits + flags + (1 if op.kind is Kind.IT else FIXED.get(op.kind, 1))


def _pairs_with_branch(op: Decoded, last: Decoded | None) -> bool:
    """Two short instructions, the second a branch or IT."""
    short = op.instruction.size == 2 and last is not None and last.instruction.size == 2
    return short and op.kind in (Kind.BRANCH, Kind.IT) and last is not None and not last.leaves


def _late(op: Decoded) -> frozenset[str]:
    """What it writes that is there a cycle later than of other instructions."""
    two_stages = op.is_product or _shifted(op) or _SUMS.fullmatch(op.instruction.mnemonic)
    if op.kind in (Kind.LOAD, Kind.LOADS):
        return op.writes - op.address
    if op.kind in (Kind.FP, Kind.FP_MAC, Kind.FP_DIV, Kind.FP_LOAD):
        return op.writes
    return op.writes if two_stages or _PACKED.fullmatch(op.instruction.mnemonic) else frozenset()


def _needed(op: Decoded, last: Decoded) -> frozenset[str]:
    """What it reads in the first stage: not what it stores, nor what a product adds to, unless a sum was shifted."""
    if op.kind in (Kind.STORE, Kind.STORES):
        return op.address
    if op.is_product or _SUMS.fullmatch(op.instruction.mnemonic):
        loaded_sum = last.kind is Kind.LOAD and not op.is_product
        return op.reads if loaded_sum else op.reads - _added(op)
    return op.reads


def _added(op: Decoded) -> frozenset[str]:
    """The accumulator, where it is no factor as well."""
    if op.row.updates:
        return op.writes - _names(op.operands[2:])
    if op.kind is Kind.MLA or (op.kind is Kind.MUL and len(op.operands) == 4):
        return _names(op.operands[3:4]) - _names(op.operands[1:3])
    if _SUMS.fullmatch(op.instruction.mnemonic):
        return _names(op.operands[1:2]) - _names(op.operands[2:3])
    return frozenset()


def _names(operands: Sequence[object]) -> frozenset[str]:
    return frozenset(operand.name for operand in operands if isinstance(operand, Register))


def _shifted(op: Decoded) -> bool:
    """Data processing with a shifted or rotated register; a shift alone (`lsl r0, r1, #2`) has none."""
    return op.kind is Kind.ALU and any(isinstance(operand, Shift) for operand in op.operands)


@dataclass(frozen=True, slots=True)
class CortexM7:
    """Six stages, two instructions a cycle where they do not hinder each other; branches predicted rightly.

    Constants in tightly coupled memory or cache. Two loads pair when they read words of different banks, which is known
    where they have one base: even and odd words.
    """

    name: str
    error: str

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        """Greedy: the second instruction of a pair costs nothing."""
        costs: list[int] = []
        older: Decoded | None = None  # the instruction that still has a free place beside it
        last = _last(before)
        for op in ops:
            waits = last is not None and bool(_next_cycle(last) & _early(op, last))
            if older is not None and not waits and self._pairs(older, op):
                costs.append(0)
                older = None
            else:
                cost = self._alone(op)
                costs.append(waits + cost)
                older = op if cost == 1 else None
            last = op
        return costs

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        return 0 if op.kind in (Kind.BRANCH, Kind.CALL) else 1

    @staticmethod
    def _alone(op: Decoded) -> int:
        if op.kind in (Kind.LOADS, Kind.STORES) or (op.is_memory and op.words > 1):
            return max(1, (op.words + 1) // 2)  # a 64-bit path to memory
        return FIXED.get(op.kind, 1)

    @staticmethod
    def _pairs(older: Decoded, younger: Decoded) -> bool:
        """Whether both may start in one cycle."""
        if older.leaves or _alone(older) or _alone(younger):
            return False
        joined = {older.instruction.mnemonic, younger.instruction.mnemonic} == {"movw", "movt"}
        result = older.writes & (younger.reads | younger.writes)
        if result and not joined and not _stores(younger, result):
            return False
        return not _clash(older, younger)


_NEVER = frozenset({Kind.DIV, Kind.SYSTEM, Kind.TABLE, Kind.FP_DIV, Kind.FP_MAC, Kind.FP_PAIR, Kind.LOADS, Kind.STORES})


def _alone(op: Decoded) -> bool:
    return op.kind in _NEVER or (op.is_memory and op.words > 1)


def _stores(op: Decoded, result: frozenset[str]) -> bool:
    """A store may take what the older instruction makes, but not as its address."""
    return op.kind is Kind.STORE and not result & op.address and not op.writeback


def _clash(older: Decoded, younger: Decoded) -> bool:
    """Both want what the core has once: the multiplier (which stores wait for, too), the bit field unit (of the older
    one only), the shifter, a bank of memory."""
    if older.is_product and (younger.is_product or younger.kind is Kind.STORE):
        return True
    if younger.is_product and older.kind is Kind.STORE:
        return True
    if _is_field(younger) or (_shifted(younger) and (_shifted(older) or _is_field(older))):
        return True
    return older.is_memory and younger.is_memory and _same_bank(older, younger)


def _is_field(op: Decoded) -> bool:
    return _FIELDS.fullmatch(op.instruction.mnemonic) is not None


def _same_bank(older: Decoded, younger: Decoded) -> bool:
    """Of two accesses: two stores always; loads unless they are known to read words of different parity."""
    if older.kind is Kind.STORE and younger.kind is Kind.STORE:
        return True
    if Kind.STORE in (older.kind, younger.kind):
        return False
    places = [operand for op in (older, younger) for operand in op.operands if isinstance(operand, Address)]
    if len(places) != 2 or places[0].base != places[1].base or places[0].index or places[1].index:
        return True
    return (places[0].offset ^ places[1].offset) & 4 == 0


def _next_cycle(op: Decoded) -> frozenset[str]:
    """What it writes that some instructions cannot take in the next cycle."""
    if op.kind is Kind.LOAD or op.is_product or _is_field(op):
        return op.writes - (op.address if op.kind is Kind.LOAD else frozenset())
    return frozenset()


def _early(op: Decoded, last: Decoded) -> frozenset[str]:
    """What it reads a cycle before others do, as far as the instruction before is late with it."""
    if last.kind is Kind.LOAD:
        if op.is_product:
            return op.reads - _added(op)
        if op.is_memory:
            return op.address
        late = last.row.size < 4 or _shifted(op) or _is_field(op)
        return op.reads if late else frozenset()
    if last.is_product:
        if op.is_product:
            return op.reads - _added(op)
        return op.address if op.kind is Kind.STORE else op.reads
    return op.address if op.is_memory else frozenset()


def _last(before: Sequence[Decoded]) -> Decoded | None:
    return before[-1] if before else None
