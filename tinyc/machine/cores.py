# SPDX-License-Identifier: Apache-2.0
"""How many cycles instructions take on a core with memory without wait states. docs/cycles.md has the sources,
what each rule is worth, and the errors against published measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tinyc.base.dataclass import dataclass
from tinyc.board.core import core_named
from tinyc.machine.dual_issue import CortexM7, CortexM33
from tinyc.machine.instruction import Instruction
from tinyc.machine.op import Decoded
from tinyc.machine.rv32 import Hazard3
from tinyc.machine.table import Kind
from tinyc.machine.three_stage import ThreeStage

LOOKS_BACK = 5  # instructions before a piece of code that its cost may depend on


class Core(Protocol):
    """The timing rules of a core. name: `Cortex-M4`. error: what is known of its error, in words."""

    @property
    def name(self) -> str: ...

    @property
    def error(self) -> str: ...

    def __hash__(self) -> int:
        """Cores of equal rules are equal: what is written for one is kept by it."""

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> Sequence[float]:
        """Cycles of each instruction of a straight piece of code, no branch in it taken. before: the instructions
        that ran just before, the last of them last, as far as they stand before it; LOOKS_BACK are enough."""

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        """Cycles more when `op` goes to `target` (None: not known) and not to the next instruction. before: as for
        `costs`."""


@dataclass(frozen=True, slots=True)
class CortexM0Plus:
    """Two stages; no rule looks at the instruction before. With the multiplier of one cycle."""

    name: str = "Cortex-M0+"
    error: str = "-0.7 % of one program measured on a board"

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        return [self._cost(op) for op in ops]

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        return 2 if op.kind is Kind.CALL or op.is_memory else 1

    @staticmethod
    def _cost(op: Decoded) -> int:
        if op.kind in (Kind.LOADS, Kind.STORES):
            return 1 + op.words
        return {Kind.LOAD: 2, Kind.STORE: 2, Kind.SYSTEM: 3}.get(op.kind, 1)


@dataclass(frozen=True, slots=True)
class PerInstruction:
    """A core whose cycles are known as so many for each instruction alone."""

    name: str
    error: str
    rate: float

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[float]:
        return [self.rate] * len(ops)

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class VectorCore:
    """What kernels with vectors are thought to cost on a Cortex-M55: an upper bound, since the core overlaps loads with
    products. A vector takes four beats of 32 bits, two at a time; LDM and the like a cycle for each word."""

    name: str = "Cortex-M55 by beats"
    error: str = "an upper bound"

    def costs(self, ops: Sequence[Decoded], before: Sequence[Decoded] = ()) -> list[int]:
        return [self._cost(op) for op in ops]

    def taken(self, op: Decoded, target: Instruction | None, before: Sequence[Decoded] = ()) -> int:
        return 0 if op.row.counts else 2

    @staticmethod
    def _cost(op: Decoded) -> int:
        if op.kind in (Kind.LOADS, Kind.STORES):
            return max(1, op.words)
        return 2 if op.kind in _BEATS else 1


_BEATS = frozenset({Kind.VECTOR, *(kind for kind in Kind if kind.name.startswith("FP"))})


# What is known of cycles with the waits of slow flash (docs/cycles.md), beside the error of the core.
SLOW_FLASH_SHARES = (0.92, 1.08)  # of the cycles that boards took
# What is said of cycles of several cores together: docs/cores.md.
CORES_ERROR = "with 200 for each layer that they share, without what they wait for each other's memory accesses"
SLOW_FLASH_ERROR = "with its flash's waits within 5 % of 4 published networks, 8 % of one left out of the fit"
_INSTRUCTIONS_ONLY = "its rules are measured instruction by instruction, whole programs are not"

_M33_ERROR = "7 to 9 % too few of 4 networks on a board, whose flash's waits are not in them"
_DOCUMENTED = "its rules are its documentation's, whole programs are not measured"

CORTEX_M4 = ThreeStage("Cortex-M4", "median 1.2 %, largest 6.2 % of 40 programs measured on a board")
# The same where they are about right only: other cores run what is written by them, or flash waits.
ABOUT_M4 = replace(CORTEX_M4, name="about Cortex-M4", error="unknown")

CORES: dict[str, Core] = {
    "cortex-m0": CortexM0Plus(),
    "cortex-m0plus": CortexM0Plus(),
    "cortex-m3": ThreeStage("Cortex-M3", _INSTRUCTIONS_ONLY, mla=2, mull=5, mlal=7),
    "cortex-m4": CORTEX_M4,
    "cortex-m7": CortexM7("Cortex-M7", _INSTRUCTIONS_ONLY),
    "cortex-m33": CortexM33("Cortex-M33", _M33_ERROR),
    "cortex-m55": PerInstruction("Cortex-M55", "median 7 %, largest 13 % of 9 int8 and int16 kernels on a board", 1.12),
    "riscv32imc": Hazard3("Hazard3", _DOCUMENTED),
    "hazard3": Hazard3("Hazard3", _DOCUMENTED),
}


CORTEX_M55 = VectorCore()  # for costs of kernels: which instruction takes how long


def rules_in_words(core: Core) -> str:
    """What stands beside every number of cycles: by which rules, and how far they are from boards."""
    return f"{core.name}, zero wait states; error: {core.error}"


def core_of(name: str) -> Core | None:
    """The timing rules for a board's `core`; None where there are none (ESP32-C3, the host)."""
    return CORES.get(name)


# ---- whose rules a core's functions follow ----


def written_for(core: str, slow_flash: bool = False) -> Core:
    """Whose rules functions follow on the core of a board's file: its own, or those of the M4. slow_flash: cycles
    wait, which is known to 40 % only; the fewer instructions are fetched, the less is left to that."""
    own = CORES[core] if core_named(core).ordered else ABOUT_M4
    return ABOUT_M4 if slow_flash and own == CORTEX_M4 else own
