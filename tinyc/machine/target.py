# SPDX-License-Identifier: Apache-2.0
"""By the rules of which core functions in assembly are timed and their instructions ordered, and what is compared of
two ways to run a layer on it."""

from __future__ import annotations

from typing import Protocol

from tinyc.machine.cores import CORES, CORTEX_M4, Core

OF_THEIR_OWN = frozenset({"cortex-m7", "cortex-m33"})  # cores that get an order of their own; others that of the M4
ORDERED_FOR = OF_THEIR_OWN | {"cortex-m4"}  # whose rules the costs of kernels follow, then


class Executed(Protocol):
    """What code executes."""

    @property
    def instructions(self) -> int: ...

    @property
    def cycles(self) -> int: ...


def written_for(core: str) -> Core:
    """Whose rules functions follow on the core of a board's file."""
    return CORES[core] if core in OF_THEIR_OWN else CORTEX_M4


def cycles_alone(core: Core) -> bool:
    """Whether a core's instructions say little of its time: those that begin beside another one take none."""
    return core.name != CORTEX_M4.name


def weighed(executed: Executed, by_cycles: bool) -> int:
    """What is compared of two ways to run a layer. Where cycles are known less well, instructions count as much: a
    kernel that saves one must not lose as much of the other. by_cycles: cycles alone count (`cycles_alone`)."""
    return 2 * executed.cycles if by_cycles else executed.instructions + executed.cycles
