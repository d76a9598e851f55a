# SPDX-License-Identifier: Apache-2.0
"""RV32IMC: what a disassembled instruction reads and writes, and the timing rules of Hazard3, the RISC-V core of the
RP2350. docs/cycles.md has the source of the rules."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.table import Kind, Row
from tinyc.machine.three_stage import split_fetch

_REGISTER = re.compile(r"\b(?:zero|ra|sp|gp|tp|fp|[ast]\d+)\b")
_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"l[bhw]u?|lwsp|lr\.w", Kind.LOAD),
    (r"s[bhw]|swsp|sc\.w", Kind.STORE),
    (r"beqz?|bnez?|blt[zu]?|bge[zu]?|bgtz?|blez?|bgtu|bleu", Kind.BRANCH),
    (r"j", Kind.BRANCH),
    (r"jal|call", Kind.CALL),
    (r"jalr|jr|ret|mret|tail", Kind.INDIRECT),
    (r"mul\w*", Kind.MUL),
    (r"div\w*|rem\w*", Kind.DIV),
    (r"csr\w*|fence\w*|ecall|ebreak|wfi", Kind.SYSTEM),
)
_DIVISION = 18  # and 19 where a sign is corrected


@functools.lru_cache(maxsize=1 << 16)
def parse_riscv(instruction: Instruction) -> Decoded:
    """Kind and registers of an instruction of RV32IMC; of one that is not known, those of data processing."""
    name = instruction.mnemonic.removeprefix("c.")
    kind = next((kind for pattern, kind in _KINDS if re.fullmatch(pattern, name)), Kind.ALU)
    registers = _REGISTER.findall(instruction.operands)
    branches = kind in (Kind.BRANCH, Kind.INDIRECT)
    results = 0 if kind is Kind.STORE or branches else 1
    writes, reads = frozenset(registers[:results]) - {"zero"}, frozenset(registers[results:])
    if name != instruction.mnemonic and len(registers) < 3 and kind is Kind.ALU and name not in ("li", "lui", "mv"):
        reads |= writes  # c.addi a0, 1
    address = frozenset(registers[1:]) if kind in (Kind.LOAD, Kind.STORE) else frozenset()
    row = Row(kind, conditional=kind is Kind.BRANCH and name != "j")
    return Decoded(instruction, row, kind, (), reads, writes, address, int(bool(address)))


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
