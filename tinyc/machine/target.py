# SPDX-License-Identifier: Apache-2.0
"""By the rules of which core functions in assembly are timed and their instructions ordered, and what is compared of
two ways to run a layer on it."""

from __future__ import annotations

from typing import Protocol

from tinyc.board.core import core_named
from tinyc.machine.cores import ABOUT_M4, CORES, CORTEX_M4, Core


class Executed(Protocol):
    """What code executes."""

    @property
    def instructions(self) -> int: ...

    @property
    def cycles(self) -> int: ...


def written_for(core: str, slow_flash: bool = False) -> Core:
    """Whose rules functions follow on the core of a board's file: its own, or those of the M4. slow_flash: cycles
    wait, which is known to 40 % only; the fewer instructions are fetched, the less is left to that."""
    own = CORES[core] if core_named(core).ordered else ABOUT_M4
    return ABOUT_M4 if slow_flash and own == CORTEX_M4 else own


def cycles_alone(core: Core) -> bool:
    """Whether cycles are known so well that instructions say nothing more of time."""
    return core.name != ABOUT_M4.name


def weighed(executed: Executed, by_cycles: bool) -> int:
    """What is compared of two ways to run a layer. Where cycles are known less well, instructions count as much: a
    kernel that saves one must not lose as much of the other. by_cycles: cycles alone count (`cycles_alone`)."""
    return 2 * executed.cycles if by_cycles else executed.instructions + executed.cycles
