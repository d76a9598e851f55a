# SPDX-License-Identifier: Apache-2.0
"""How many cycles instructions take on a core with memory without wait states. docs/cycles.md has the sources,
what each rule is worth, and the errors against published measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Op
from tinyc.machine.table import Kind


class Core(Protocol):
    """The timing rules of a core. name: `Cortex-M4`. error: what is known of its error, in words."""

    @property
    def name(self) -> str: ...

    @property
    def error(self) -> str: ...

    def costs(self, ops: Sequence[Op], before: Op | None) -> list[int]:
        """Cycles of each instruction of a straight piece of code, no branch in it taken. before: the instruction
        that ran just before, None when the piece was jumped to."""

    def taken(self, op: Op, target: Instruction | None) -> int:
        """Cycles more when `op` goes to `target` (None: not known) and not to the next instruction."""


# Kinds with one fixed cost; every other kind is one cycle. By Arm's technical reference manuals, mean of a range.
_M4_FIXED = {Kind.DIV: 6, Kind.FP_MAC: 3, Kind.FP_DIV: 14, Kind.FP_PAIR: 2, Kind.SYSTEM: 2, Kind.TABLE: 3}


@dataclass(frozen=True, slots=True)
class ThreeStage:
    """Cortex-M3 and M4: one instruction at a time, three stages; loads and stores that follow loads overlap."""

    name: str
    error: str
    mla: int = 1
    mull: int = 1
    mlal: int = 1

    def costs(self, ops: Sequence[Op], before: Op | None) -> list[int]:
        return [self._cost(op, last) for op, last in zip(ops, (before, *ops[:-1]), strict=True)]

    def taken(self, op: Op, target: Instruction | None) -> int:
        """The pipeline is filled again; a long instruction that is not word aligned takes two fetches."""
        refill = 1 if op.kind in (Kind.BRANCH, Kind.CALL) else 2
        return refill + _split_fetch(target)

    def _cost(self, op: Op, last: Op | None) -> int:
        if op.is_memory:
            return self._memory(op, last)
        if op.kind is Kind.IT:
            return 0 if last is not None and last.instruction.size == 2 else 1
        products = {Kind.MLA: self.mla, Kind.MULL: self.mull, Kind.MLAL: self.mlal}
        cost = products.get(op.kind, _M4_FIXED.get(op.kind, 1))
        fp_result = last is not None and last.kind in (Kind.FP, Kind.FP_MAC, Kind.FP_DIV)
        waits = fp_result and last is not None and bool(last.writes & op.reads)
        return cost + waits

    def _memory(self, op: Op, last: Op | None) -> int:
        waits = last is not None and last.is_data and bool(last.writes & op.address)
        return waits + self._access(op, last)

    @staticmethod
    def _access(op: Op, last: Op | None) -> int:
        overlaps = last is not None and last.kind is Kind.LOAD and not last.writes & op.address
        if op.kind is Kind.LOAD:
            return 1 if overlaps and not op.writeback else 2
        if op.kind is Kind.STORE:
            return 1 if overlaps or not op.offset_register else 2
        return 1 + op.words


@dataclass(frozen=True, slots=True)
class CortexM0Plus:
    """Two stages; no rule looks at the instruction before. With the multiplier of one cycle."""

    name: str = "Cortex-M0+"
    error: str = "-10..0 % expected, no published measurement to check with"

    def costs(self, ops: Sequence[Op], before: Op | None) -> list[int]:
        return [self._cost(op) for op in ops]

    def taken(self, op: Op, target: Instruction | None) -> int:
        return 2 if op.kind is Kind.CALL or op.is_memory else 1

    @staticmethod
    def _cost(op: Op) -> int:
        if op.kind in (Kind.LOADS, Kind.STORES):
            return 1 + op.words
        return {Kind.LOAD: 2, Kind.STORE: 2, Kind.SYSTEM: 3}.get(op.kind, 1)


@dataclass(frozen=True, slots=True)
class CortexM33:
    """Three stages with loads that take one cycle, and one more when the next instruction needs the result."""

    name: str = "Cortex-M33"
    error: str = "an estimate, +-20 %: Arm publishes no timings"

    def costs(self, ops: Sequence[Op], before: Op | None) -> list[int]:
        return [self._cost(op, last) for op, last in zip(ops, (before, *ops[:-1]), strict=True)]

    def taken(self, op: Op, target: Instruction | None) -> int:
        refill = 1 if op.kind in (Kind.BRANCH, Kind.CALL) else 2
        return refill + _split_fetch(target)

    @staticmethod
    def _cost(op: Op, last: Op | None) -> int:
        loaded = last is not None and last.kind in (Kind.LOAD, Kind.FP_LOAD)
        computed = last is not None and last.kind in (Kind.FP, Kind.FP_MAC, Kind.FP_DIV)
        waits = (loaded or computed) and last is not None and bool(last.writes & op.reads)
        if op.kind in (Kind.LOADS, Kind.STORES) or (op.is_memory and op.words > 1):
            return waits + 1 + op.words
        return waits + (1 if op.kind is Kind.IT else _M4_FIXED.get(op.kind, 1))


@dataclass(frozen=True, slots=True)
class CortexM7:
    """Six stages, two instructions a cycle where they do not hinder each other; branches predicted rightly."""

    name: str = "Cortex-M7"
    error: str = "an estimate, +-25 %: Arm publishes no timings"

    def costs(self, ops: Sequence[Op], before: Op | None) -> list[int]:
        """Greedy: the second instruction of a pair costs nothing."""
        costs: list[int] = []
        first: Op | None = None  # the instruction that still has a free place beside it
        last = before
        for op in ops:
            waits = last is not None and last.kind is Kind.LOAD and bool(last.writes & op.reads)
            if first is not None and not waits and _pairs(first, op):
                costs.append(0)
                first = None
            else:
                cost = self._alone(op)
                costs.append(waits + cost)
                first = op if cost == 1 else None
            last = op
        return costs

    def taken(self, op: Op, target: Instruction | None) -> int:
        return 0 if op.kind in (Kind.BRANCH, Kind.CALL) else 1

    @staticmethod
    def _alone(op: Op) -> int:
        if op.kind in (Kind.LOADS, Kind.STORES) or (op.is_memory and op.words > 1):
            return max(1, (op.words + 1) // 2)  # a 64-bit path to memory
        return _M4_FIXED.get(op.kind, 1)


@dataclass(frozen=True, slots=True)
class VectorCore:
    """What kernels with vectors are thought to cost on a Cortex-M55: an upper bound, since the core overlaps loads with
    products. A vector takes four beats of 32 bits, two at a time; LDM and the like a cycle for each word."""

    name: str = "Cortex-M55"
    error: str = "an upper bound"

    def costs(self, ops: Sequence[Op], before: Op | None) -> list[int]:
        return [self._cost(op) for op in ops]

    def taken(self, op: Op, target: Instruction | None) -> int:
        return 0 if op.row.counts else 2

    @staticmethod
    def _cost(op: Op) -> int:
        if op.kind in (Kind.LOADS, Kind.STORES):
            return max(1, op.words)
        return 2 if op.kind in _BEATS else 1


_BEATS = frozenset({Kind.VECTOR, *(kind for kind in Kind if kind.name.startswith("FP"))})


def _pairs(first: Op, second: Op) -> bool:
    """Whether the M7 may start both in one cycle."""
    if first.writes & (second.reads | second.writes) or first.leaves:
        return False
    one_of_each = (first.is_memory and second.is_memory) or (first.is_product and second.is_product)
    single = {Kind.DIV, Kind.SYSTEM, Kind.TABLE, Kind.FP_DIV, Kind.FP_MAC, Kind.LOADS, Kind.STORES}
    return not one_of_each and second.kind not in single


def _split_fetch(target: Instruction | None) -> int:
    return int(target is not None and target.size == 4 and target.address % 4 != 0)


CORES: dict[str, Core] = {
    "cortex-m0": CortexM0Plus(),
    "cortex-m0plus": CortexM0Plus(),
    "cortex-m3": ThreeStage("Cortex-M3", "-20..0 % expected, as the Cortex-M4", mla=2, mull=5, mlal=7),
    "cortex-m4": ThreeStage("Cortex-M4", "-20..0 % against boards, +-10 % between programs"),
    "cortex-m7": CortexM7(),
    "cortex-m33": CortexM33(),
}


CORTEX_M55 = VectorCore()  # for costs of kernels; `tinyc profile` has no rules for it


def core_of(name: str) -> Core | None:
    """The timing rules for a board's `core`; None where there are none (Cortex-M55, the host)."""
    return CORES.get(name)
