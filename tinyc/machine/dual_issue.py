# SPDX-License-Identifier: Apache-2.0
"""The timing rules of Cortex-M33 and M7, by measurements that others published: docs/cycles.md has the sources, and how
far the sums are from boards."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tinyc.base.dataclass import dataclass
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.operands import Address, Register, Shift
from tinyc.machine.table import Kind
from tinyc.machine.three_stage import FIXED, split_fetch

_PARALLEL = r"(?:[suq]|[su]h|uq)(?:add16|add8|sub16|sub8|asx|sax)|qd?(?:add|sub)|sel"
_SUMS = re.compile(r"[su]xta[bh](16)?")  # extend and add
_PACKED = re.compile(rf"pkh(bt|tb)|[su]xt[bh]16|{_PARALLEL}")
_FIELDS = re.compile(rf"[su]xta?[bh](16)?|[su]bfx|bf[ic]|pkh(bt|tb)|clz|rev\w*|rbit|[su]sat(16)?|{_PARALLEL}")
# Of the Cortex-M7: what moves bits of all that it reads, or of the last register, before anything else is done; and
# what the first stage can do alone.
_MOVED_FIRST = re.compile(r"[su]bfx|rbit|rev\w*|pkhtb")
_MOVED_SECOND = re.compile(r"bfi|pkhbt|[su]xta[bh](16)?")
_FIRST_STAGE = re.compile(r"adds?|addw|subs?|subw|movs?|movw|movt|lsls?|lsrs?|asrs?|rors?|rbit|rev\w*|adr")


@dataclass(frozen=True, slots=True)
class CortexM33:
    """Two stages of execution: what needs both gives its result a cycle later. Short branches pair with the short
    instruction before them."""

    name: str
    error: str
    width: int = 1  # instructions that may begin in a cycle

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        return [_m33_cost(op, last) for op, last in zip(ops, (_last(before), *ops[:-1]), strict=True)]

    def alone(self, op: Decoded) -> int:
        """Cycles of an instruction without others."""
        return _m33_cost(op, None)

    def least(self, ops: Sequence[Decoded]) -> int:
        """Cycles that these take in any order: nothing waits."""
        return sum([_m33_cost(op, None) for op in ops])

    def lag(self, first: Decoded, second: Decoded) -> int:
        """Cycles from the beginning of an instruction to that of a later one, as far as they share registers."""
        own = _registers(first)
        if not own.late:
            return own.cycles
        other = _registers(second)
        return own.cycles + (not own.late.isdisjoint(other.behind_load if first.kind is Kind.LOAD else other.needed))

    def pairing(self, op: Decoded) -> int:
        """Of all the same."""
        return 0

    def pairs(self, older: int, younger: int) -> bool:
        """Only short branches do, which stay at the end of a piece."""
        return False

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        """A branch that pairs is free but for the cycle that its target takes, or two where its flags are fresh."""
        last = _last(before)
        pairs = _pairs_with_branch(op, last)
        fresh = pairs and last is not None and bool(last.row.flags)
        refill = 1 if op.kind in (Kind.BRANCH, Kind.CALL) else 2
        return refill + fresh + split_fetch(target)


@functools.lru_cache(maxsize=1 << 16)
def _m33_cost(op: Decoded, last: Decoded | None) -> int:
    own = _registers(op)
    if last is None:
        return own.cycles
    if _pairs_with_branch(op, last):
        return 0
    return own.cycles + (
        not _registers(last).late.isdisjoint(own.behind_load if last.kind is Kind.LOAD else own.needed)
    )


def _m33_alone(op: Decoded) -> int:
    """Cycles of an instruction for which nothing is missing."""
    if op.kind in (Kind.LOADS, Kind.STORES):
        return max(1, op.words)
    if op.is_memory and op.words > 1:
        return op.words
    flags = op.instruction.mnemonic == "muls"
    return flags + (1 if op.kind is Kind.IT else FIXED.get(op.kind, 1))


def _pairs_with_branch(op: Decoded, last: Decoded | None) -> bool:
    """Two short instructions, the second a branch or IT."""
    short = op.instruction.size == 2 and last is not None and last.instruction.size == 2
    return short and op.kind in (Kind.BRANCH, Kind.IT) and last is not None and not last.leaves


class _Registers(NamedTuple):
    """Of an instruction of the Cortex-M33. late: what it writes that is there a cycle later than of other instructions.
    needed: what it reads in the first stage; behind_load: the same right behind a load. cycles: where nothing is
    missing."""

    late: frozenset[str]
    needed: frozenset[str]
    behind_load: frozenset[str]
    cycles: int


@functools.lru_cache(maxsize=1 << 14)
def _registers(op: Decoded) -> _Registers:
    needed = _needed(op)
    is_sum = _SUMS.fullmatch(op.instruction.mnemonic) and not op.is_product
    return _Registers(_late(op), needed, op.reads if is_sum else needed, _m33_alone(op))


def _late(op: Decoded) -> frozenset[str]:
    two_stages = op.is_product or _shifted(op) or _SUMS.fullmatch(op.instruction.mnemonic)
    if op.kind in (Kind.LOAD, Kind.LOADS):
        return op.writes - op.address
    if op.kind in (Kind.FP, Kind.FP_MAC, Kind.FP_DIV, Kind.FP_LOAD):
        return op.writes
    return op.writes if two_stages or _PACKED.fullmatch(op.instruction.mnemonic) else frozenset()


def _needed(op: Decoded) -> frozenset[str]:
    """What it reads in the first stage: not what it stores, nor what a product adds to. Right behind a load a sum needs
    all of it."""
    if op.kind in (Kind.STORE, Kind.STORES):
        return op.address
    if op.is_product or _SUMS.fullmatch(op.instruction.mnemonic):
        return op.reads - _added(op)
    return op.reads


def _added(op: Decoded) -> frozenset[str]:
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
    width: int = 2  # instructions that may begin in a cycle

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        """In order, each as early as it may begin; the second instruction of a pair costs nothing."""
        line = [*before, *ops]
        facts = [_facts(op) for op in line]
        begun: list[int] = []  # the cycle in which each began
        longest = 0  # of the last instructions, from the first one on whose results may not be there yet
        older = -1  # the pairing of the instruction that still has a free place beside it
        began = end = 0  # of the last one: the cycle in which it began, and in which it is done
        costs: list[int] = []
        for number, (touched, _, cycles, pairing, _, _) in enumerate(facts):
            ready = began
            while longest < number and (begun[longest] + facts[longest][4] <= began or longest <= number - SEEN):
                longest += 1
            for earlier in range(longest, number):
                if facts[earlier][1] & touched:
                    there = begun[earlier] + _lag(line[earlier], line[number])
                    if there > ready:  # noqa: PLR1730  a call of `max` takes longer
                        ready = there
            if older >= 0 and ready <= began and _pairs(older, pairing):
                older = -1
                costs.append(0)
            else:
                began = ready if ready > end else end
                older = pairing if cycles == 1 else -1
                costs.append(began + cycles - end)
                end = began + cycles
            begun.append(began)
        return costs[len(before) :]

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        return 0 if op.kind in (Kind.BRANCH, Kind.CALL) else 1

    def alone(self, op: Decoded) -> int:
        """Cycles of an instruction without others."""
        return _facts(op)[2]

    def least(self, ops: Sequence[Decoded]) -> int:
        """Cycles that these take in any order: nothing waits, and of what never pairs each has cycles of its own."""
        every = [_facts(op) for op in ops]
        return max(-(-sum([facts[2] for facts in every]) // 2), sum([facts[5] for facts in every]))

    @property
    def lag(self) -> Callable[[Decoded, Decoded], int]:
        """Cycles from the beginning of an instruction to that of a later one, as far as they share registers."""
        return _lag

    def pairing(self, op: Decoded) -> int:
        """A number that says with which others it begins: instructions of one number do so with the same."""
        return _facts(op)[3]

    @property
    def pairs(self) -> Callable[[int, int], bool]:
        """Whether instructions of these `pairing` may begin in one cycle, as far as they share no registers."""
        return _pairs


SEEN = 8  # instructions whose results may not be there yet: two in each of the cycles that a result takes


def _cycles_of(op: Decoded) -> int:
    if op.kind in (Kind.LOADS, Kind.STORES) or (op.is_memory and op.words > 1):
        return max(1, (op.words + 1) // 2)  # a 64-bit path to memory
    return FIXED.get(op.kind, 1)


# Of an instruction: registers that it touches, and that it writes, each a bit; its cycles; its pairing; cycles after
# which its results are there for all; and cycles in which no other one of those that have such begins.
_Facts = tuple[int, int, int, int, int, int]
_bits: dict[str, int] = {}  # of each register
_first_of: dict[tuple[object, ...], int] = {}  # the pairing of what looks so to others
_examples: list[Decoded] = []  # by pairing


@functools.lru_cache(maxsize=1 << 14)
def _facts(op: Decoded) -> _Facts:
    cycles = _cycles_of(op)
    apart = op.is_product or op.kind is Kind.STORE or _alone(op)
    longest = max(cycles, op.words, 2) + 2
    return _mask(op.touched), _mask(op.writes), cycles, _pairing(op), longest, cycles * apart


def _mask(registers: Iterable[str]) -> int:
    return sum(_bits.setdefault(register, 1 << len(_bits)) for register in registers)


def _pairing(op: Decoded) -> int:
    """What `_clash` asks, as a number."""
    places = [(place.base, place.offset & 4, place.index) for place in op.operands if isinstance(place, Address)]
    asked = (op.leaves, _alone(op), op.kind is Kind.STORE, op.is_product, _is_field(op), _shifted(op))
    key = (*asked, *(places if op.is_memory else ()), op.is_memory)
    if key not in _first_of:
        _first_of[key] = len(_examples)
        _examples.append(op)
    return _first_of[key]


@functools.cache
def _pairs(older: int, younger: int) -> bool:
    return _may_pair(_examples[older], _examples[younger])


def _may_pair(older: Decoded, younger: Decoded) -> bool:
    if older.leaves or _alone(older) or _alone(younger):
        return False
    return not _clash(older, younger)


@functools.lru_cache(maxsize=1 << 16)
def _lag(first: Decoded, second: Decoded) -> int:
    result = first.writes & second.reads
    if {first.instruction.mnemonic, second.instruction.mnemonic} == {"movw", "movt"}:
        return 0
    behind = int(bool(first.writes & second.writes))  # one register is written once in a cycle
    if not result:
        return behind
    moved = first.address & result if first.writeback else frozenset[str]()
    lags = [_result_lag(first, second, register) for register in result - moved]
    return max(behind, *lags, int(bool(moved)))


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


def _result_lag(first: Decoded, second: Decoded, register: str) -> int:
    """Cycles from an instruction to one that reads its result."""
    if second.kind is Kind.STORE and register not in second.address and not first.is_product:
        return 0  # whatever is made in the same cycle
    if second.is_product and register in _added(second):
        return 1 + _place(first, register)  # a sum is read last
    early = _is_early(second, register)
    if first.kind in (Kind.LOAD, Kind.LOADS):
        narrow = first.row.size < 4
        return 1 + narrow + (early or second.is_product) + _place(first, register)
    if first.kind is Kind.FP and register[0] in "rl":
        return 2 + (early or second.is_product)
    if first.is_product:
        return 1 if second.kind is Kind.STORE and not early else 2 + early
    return _cycles_of(first) + (early and _is_late(first))


def _place(first: Decoded, register: str) -> int:
    """Cycles that several registers are loaded for before it is this one's turn."""
    if first.kind is not Kind.LOADS:
        return 0
    loaded = [name for operand in first.operands if not isinstance(operand, Address) for name in operand.words]
    return loaded.index(register) // 2 if register in loaded else 0


def _is_early(op: Decoded, register: str) -> bool:
    """Whether it reads the register in the first of the two stages of data processing: as an address, or to move its
    bits."""
    if op.is_memory:
        return register in op.address
    if _MOVED_FIRST.fullmatch(op.instruction.mnemonic):
        return True
    moved = _shifted(op) or _MOVED_SECOND.fullmatch(op.instruction.mnemonic)
    return bool(moved) and register in _names(op.operands[-1 - _shifted(op) :])


def _is_late(op: Decoded) -> bool:
    """Whether its result comes from the second stage of data processing."""
    simple = _FIRST_STAGE.fullmatch(op.instruction.mnemonic) and not _shifted(op)
    return op.kind is Kind.ALU and not simple


def _last(before: Sequence[Decoded]) -> Decoded | None:
    return before[-1] if before else None
