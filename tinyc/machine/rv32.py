# SPDX-License-Identifier: Apache-2.0
"""The timing rules of Hazard3, the RISC-V core of the RP2350. docs/cycles.md has the source of the rules."""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.table import Kind
from tinyc.machine.three_stage import split_fetch

_DIVISION = 18  # and 19 where a sign is corrected


@dataclass(frozen=True, slots=True)
class Hazard3:
    """Three stages: a loaded value comes a cycle late, but for what is stored. The last backward branch that was taken
    is remembered: a loop's branch costs one cycle a turn, and two more when the loop ends and begins again."""

    name: str
    error: str

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        last = before[-1] if before else None
        return [self._cost(op, previous) for op, previous in zip(ops, (last, *ops[:-1]), strict=True)]

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        if _is_loop(op):
            return 0
        return 1 + split_fetch(target)

    @staticmethod
    def _cost(op: Decoded, last: Decoded | None) -> int:
        needed = op.address if op.kind is Kind.STORE else op.reads
        waits = last is not None and last.kind is Kind.LOAD and bool(last.writes & needed)
        loop_ends = 2 if _is_loop(op) else 0
        return waits + loop_ends + (_DIVISION if op.kind is Kind.DIV else 1)


def _is_loop(op: Decoded) -> bool:
    """A branch backwards, with a condition."""
    return op.conditional and "-" in op.instruction.operands.rpartition(",")[2]
