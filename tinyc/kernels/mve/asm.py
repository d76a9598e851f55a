# SPDX-License-Identifier: Apache-2.0
"""Assembly with vector instructions of MVE, and what it is thought to cost on a Cortex-M55."""

from __future__ import annotations

from dataclasses import dataclass

from tinyc.machine.operands import Kind, Op
from tinyc.machine.thumb import Asm, Work

_TAKEN = 2  # cycles more of a branch that is taken
_BEATS = 2  # cycles of a vector instruction: four beats of 32 bits, two at a time


@dataclass(slots=True)
class VectorAsm(Asm):
    """Counts vector instructions as two cycles each, others as one (LDM and the like as one for each word): an upper
    bound, since the core overlaps loads with products."""

    def _count(self, op: Op, taken: bool) -> None:
        name = op.instruction.mnemonic
        cycles = 1
        if op.kind in (Kind.LOADS, Kind.STORES):
            cycles = max(1, op.words)
        elif name.startswith("v") and not name.startswith(("vmsr", "vctp", "vpst")):
            cycles = _BEATS
        self.size += Work(1, cycles + (_TAKEN if taken and op.leaves else 0))
