# SPDX-License-Identifier: Apache-2.0
"""The timing rules of Cortex-M3 and M4, those of Arm's manuals and those that published measurements add.
docs/cycles.md has the source of each, and how far the sums are from boards."""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.table import Kind

# Kinds with one fixed cost; every other kind is one cycle. By Arm's technical reference manuals, mean of a range.
FIXED = {Kind.DIV: 6, Kind.FP_MAC: 3, Kind.FP_DIV: 14, Kind.FP_PAIR: 2, Kind.SYSTEM: 2, Kind.TABLE: 3}
FLOATS = frozenset({Kind.FP, Kind.FP_MAC, Kind.FP_DIV, Kind.FP_PAIR})
LONG_RUN = 3  # long instructions beside word alignment empty the prefetch buffer of three words


@dataclass(frozen=True, slots=True)
class ThreeStage:
    """Cortex-M3 and M4: one instruction at a time, three stages; loads and stores that follow loads overlap.

    The last five are cycles that measurements add: a store or a load right behind a store; a taken branch whose flags
    one of the last two instructions sets; a load with a register as offset that follows no load; a run of long
    instructions that are not word aligned, behind a short one or one of several cycles.
    """

    name: str
    error: str
    mla: int = 1
    mull: int = 1
    mlal: int = 1
    store_behind_store: int = 1
    load_behind_store: int = 1
    fresh_flags: int = 1
    offset_load: int = 1
    late_fetch: int = 1

    def __hash__(self) -> int:  # asked for millions of times
        return hash(self.name)

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        if len(ops) == 1 and len(before) < LONG_RUN - 1:  # as kernels ask while they are written
            return [self.cost(ops[0], before[-1] if before else None)]
        seen = (*before, *ops)
        alone = [self.cost(op, last) for op, last in zip(seen, (None, *seen[:-1]), strict=True)]
        return [alone[at] + self._late(seen, alone, at) for at in range(len(before), len(seen))]

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        """The pipeline is filled again, a cycle later where the flags were not known in time to fetch ahead; a long
        instruction that is not word aligned takes two fetches."""
        refill = 1 if op.kind in (Kind.BRANCH, Kind.CALL) else 2
        late = op.kind is Kind.BRANCH and bool(op.instruction.condition) and any(o.row.flags for o in before[-2:])
        return refill + late * self.fresh_flags + split_fetch(target)

    def _late(self, seen: Sequence[Decoded], alone: Sequence[int], at: int) -> int:
        """While a short instruction runs, or a long one for several cycles, the prefetch buffer fills up; then every
        instruction takes a whole word from it, but the first leaves half of one behind, and the fetch is one late.
        Unless one of them takes time enough to catch up."""
        first = at - LONG_RUN + 1
        if first < 1 or not all(split_fetch(op.instruction) for op in seen[first : at + 1]):
            return 0
        filled = seen[first - 1].instruction.size == 2 or alone[first - 1] > 1
        return (filled and max(alone[first:at]) <= 1) * self.late_fetch

    def cost(self, op: Decoded, last: Decoded | None) -> int:
        """Cycles of an instruction behind another one, but for late fetches."""
        if op.is_memory:
            return self._memory(op, last)
        if op.kind is Kind.IT:
            return 0 if last is not None and last.instruction.size == 2 else 1
        products = {Kind.MLA: self.mla, Kind.MULL: self.mull, Kind.MLAL: self.mlal}
        cost = products.get(op.kind, FIXED.get(op.kind, 1))
        fp_result = last is not None and last.kind in (Kind.FP, Kind.FP_MAC, Kind.FP_DIV) and op.kind in FLOATS
        waits = fp_result and last is not None and bool(last.writes & op.reads)
        return cost + waits

    def _memory(self, op: Decoded, last: Decoded | None) -> int:
        waits = last is not None and last.is_data and bool(last.writes & op.address)
        return waits + self._access(op, last)

    def _access(self, op: Decoded, last: Decoded | None) -> int:
        loaded = last is not None and last.kind is Kind.LOAD
        stored = last is not None and last.kind is Kind.STORE
        overlaps = loaded and last is not None and not last.writes & op.address
        if op.kind is Kind.LOAD:
            if overlaps:
                return 2 if op.writeback else 1
            late = op.offset_register and not loaded
            return 2 + stored * self.load_behind_store + late * self.offset_load
        if op.kind is Kind.STORE:
            return (1 if overlaps or not op.offset_register else 2) + stored * self.store_behind_store
        return 1 + op.words


def split_fetch(target: Instruction | None) -> int:
    """1 for a long instruction that is not word aligned."""
    return int(target is not None and target.size == 4 and target.address % 4 != 0)
