# SPDX-License-Identifier: Apache-2.0
"""What calls of the loops execute: read off their instructions, for the core that a layer is for.

Costs of kernels for cores without DSP are on one scale, instructions of ARMv7-M, so that they can be compared with
those of portable C whatever the core.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping

from tinyc.kernels.scalar.loops.headers import CORES, NAMES, RV32, THUMB2, core_with, loops_of
from tinyc.machine.work import CALL

ARMV7M_SHARE = CORES[RV32].share


def executed(name: str, isa: frozenset[str], **turns: int) -> float:
    """Instructions on ARMv7-M's scale of one call of the function that C calls `name` on all cores.

    isa: of the core. turns: by unit (`turn`, `product`, `segment`), how often its loops turn in the call. Where a core
    has no assembly for it, compiled C is taken for as good as ARMv7-M's.
    """
    costs = _executed()
    cost = costs.get((name, core_with(isa))) or costs[name, THUMB2]
    if cost.keys() != {CALL, *turns}:
        raise ValueError(f"{name} turns by {', '.join(sorted(cost.keys() - {CALL}))}")
    return cost[CALL] + sum(cost[unit] * count for unit, count in turns.items())


def compiled_share(isa: frozenset[str]) -> float:
    """What C code that makes bytes of sums takes on that scale, where ARMv7-M's takes 1."""
    return CORES[core_with(isa)].compiled


@functools.cache
def _executed() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """By function and core, of a call: its instructions by unit."""
    executed: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for function in (function for header in NAMES for function in loops_of(header).functions):
        units = executed[function.called, function.core]
        for unit in function.asm.units():
            instructions = function.times * function.asm.work(unit).instructions
            units[unit] = units.get(unit, 0) + CORES[function.core].share * instructions
    return executed
