# SPDX-License-Identifier: Apache-2.0
"""What calls of the loops execute: read off their instructions, for the core that a layer is for.

Costs of kernels for cores without DSP are on one scale, instructions of ARMv7-M, so that they can be compared with
those of portable C whatever the core.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from functools import partial

from tinyc.kernel.kernel import Once
from tinyc.kernels.scalar.loops.headers import CORES, NAMES, RV32, THUMB2, CoreFunction, core_with, loops_of
from tinyc.machine.work import CALL

ARMV7M_SHARE = CORES[RV32].share


def executed(name: str, isa: frozenset[str], **turns: int) -> float:
    """Instructions on ARMv7-M's scale of one call of the function that C calls `name` on all cores.

    isa: of the core. turns: by unit (`turn`, `product`, `segment`), how often its loops turn in the call. Where a core
    has no assembly for it, compiled C is taken for as good as ARMv7-M's.
    """
    own = _executed()
    cost = own[name, core_with(isa) if (name, core_with(isa)) in own else THUMB2]()
    if cost.keys() != {CALL, *turns}:
        raise ValueError(f"{name} turns by {', '.join(sorted(cost.keys() - {CALL}))}")
    return cost[CALL] + sum(cost[unit] * count for unit, count in turns.items())


@functools.cache
def _executed() -> Mapping[tuple[str, str], Once[Mapping[str, float]]]:
    """By what C calls a function, and by core: what a call executes, by unit. It is counted when it is asked for."""
    functions: dict[tuple[str, str], list[CoreFunction]] = {}
    for function in (function for header in NAMES for function in loops_of(header).functions):
        functions.setdefault((function.called, function.core), []).append(function)
    return {key: Once(partial(_counted, own)) for key, own in functions.items()}


def _counted(functions: Sequence[CoreFunction]) -> Mapping[str, float]:
    executed: dict[str, float] = {}
    for function in functions:
        for unit in function.asm.units():
            executed_once = function.times * function.asm.work(unit).instructions
            executed[unit] = executed.get(unit, 0) + CORES[function.core].share * executed_once
    return executed
