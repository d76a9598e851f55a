# SPDX-License-Identifier: Apache-2.0
"""By the rules of which core functions in assembly are timed and their instructions ordered."""

from __future__ import annotations

from tinyc.board.core import core_named
from tinyc.machine.cores import ABOUT_M4, CORES, CORTEX_M4, Core


def written_for(core: str, slow_flash: bool = False) -> Core:
    """Whose rules functions follow on the core of a board's file: its own, or those of the M4. slow_flash: cycles
    wait, which is known to 40 % only; the fewer instructions are fetched, the less is left to that."""
    own = CORES[core] if core_named(core).ordered else ABOUT_M4
    return ABOUT_M4 if slow_flash and own == CORTEX_M4 else own
