# SPDX-License-Identifier: Apache-2.0
"""What calls of the loops execute: read off their instructions, for the core that a layer is for.

Costs of kernels for cores without DSP are on one scale, instructions of ARMv7-M, so that they can be compared with
those of portable C whatever the core.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from tinyc.kernels.scalar.loops.headers import NAMES, RV32, THUMB1, THUMB2, CoreFunction, loops_of
from tinyc.machine.work import CALL

ARMV7M_SHARE = 0.65  # instructions of ARMv7-M for one of RV32, in kernels that both have
_SHARES: Mapping[str, float] = {THUMB2: 1.0, THUMB1: 0.5, RV32: ARMV7M_SHARE}
# The same of C code that makes bytes of sums, where ARMv7-M's takes 1: ARMv6-M has no products of 64 bits, and RISC-V
# more registers.
_COMPILED: Mapping[str, float] = {THUMB2: 1.0, THUMB1: 1.25, RV32: 0.72}


def executed(name: str, isa: frozenset[str], **turns: int) -> float:
    """Instructions on ARMv7-M's scale of one call of the function that C calls `name` on all cores.

    isa: of the core. turns: by unit (`turn`, `product`, `segment`), how often its loops turn in the call. Where a core
    has no assembly for it, compiled C is taken for as good as ARMv7-M's.
    """
    cost = _executed(name, _core_of(isa)) or _executed(name, THUMB2)
    if cost.keys() != {CALL, *turns}:
        raise ValueError(f"{name} turns by {', '.join(sorted(cost.keys() - {CALL}))}")
    return cost[CALL] + sum(cost[unit] * count for unit, count in turns.items())


def compiled_share(isa: frozenset[str]) -> float:
    """What C code that makes bytes of sums takes on that scale, where ARMv7-M's takes 1."""
    return _COMPILED[_core_of(isa)]


def _core_of(isa: frozenset[str]) -> str:
    return RV32 if "rv32m" in isa else THUMB2 if "thumb2" in isa else THUMB1


@functools.cache
def _executed(name: str, core: str) -> Mapping[str, float]:
    """By unit, of a call of the function; nothing where the core has none."""
    executed: dict[str, float] = {}
    for function in _functions():
        for unit in function.asm.units() if (function.core, function.called) == (core, name) else ():
            executed_once = function.times * function.asm.work(unit).instructions
            executed[unit] = executed.get(unit, 0) + _SHARES[core] * executed_once
    return executed


@functools.cache
def _functions() -> tuple[CoreFunction, ...]:
    return tuple(function for header in NAMES for function in loops_of(header).functions)
