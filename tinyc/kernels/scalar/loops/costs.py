# SPDX-License-Identifier: Apache-2.0
"""What calls of the loops execute: read off their instructions, for the core that a layer is for.

Costs of kernels for cores without DSP are on one scale, instructions of ARMv7-M, so that they can be compared with
those of portable C whatever the core.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tinyc.kernels.scalar.loops.headers import CORES, NAMES, RV32, THUMB2, CoreFunction, core_with, loops_of
from tinyc.machine.work import CALL

ARMV7M_SHARE = CORES[RV32].share


def executed(name: str, isa: frozenset[str], **turns: int) -> float:
    """Instructions on ARMv7-M's scale of one call of the function that C calls `name` on all cores.

    isa: of the core. turns: by unit (`turn`, `product`, `segment`), how often its loops turn in the call. Where a core
    has no assembly for it, compiled C is taken for as good as ARMv7-M's.
    """
    cost = _executed(name, core_with(isa)) or _executed(name, THUMB2)
    if cost.keys() != {CALL, *turns}:
        raise ValueError(f"{name} turns by {', '.join(sorted(cost.keys() - {CALL}))}")
    return cost[CALL] + sum(cost[unit] * count for unit, count in turns.items())


def compiled_share(isa: frozenset[str]) -> float:
    """What C code that makes bytes of sums takes on that scale, where ARMv7-M's takes 1."""
    return CORES[core_with(isa)].compiled


@functools.cache
def _executed(name: str, core: str) -> Mapping[str, float]:
    """By unit, of a call of the function; nothing where the core has none."""
    executed: dict[str, float] = {}
    for function in _functions():
        for unit in function.asm.units() if (function.core, function.called) == (core, name) else ():
            executed_once = function.times * function.asm.work(unit).instructions
            executed[unit] = executed.get(unit, 0) + CORES[core].share * executed_once
    return executed


@functools.cache
def _functions() -> tuple[CoreFunction, ...]:
    return tuple(function for header in NAMES for function in loops_of(header).functions)
