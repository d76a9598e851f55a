# SPDX-License-Identifier: Apache-2.0
"""What kernels with RISC-V's vectors cost, on the scale of the kernels for RV32IM beside them."""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Cost
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE

LANES = 32  # of 32 bits in eight registers of 128 bits, the shortest that application profiles allow


@dataclass(frozen=True, slots=True)
class Vectors:
    """Instructions of a layer: so many for the lanes that vectors hold at a time, and others."""

    channels: int
    each: float
    others: float


def vectors_cost(work: Vectors, flash_bytes: int, scratch_bytes: int) -> Cost:
    """The Cost of a layer on a core with registers of 128 bits."""
    executed = (-(-work.channels // LANES) * work.each + work.others) * ARMV7M_SHARE
    return Cost(int(executed), flash_bytes, scratch_bytes)


def bytes_cost(executed: float, flash_bytes: int) -> Cost:
    """The Cost of a layer that executes so many instructions, and needs no scratch."""
    return Cost(int(executed * ARMV7M_SHARE), flash_bytes, 0)
