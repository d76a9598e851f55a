# SPDX-License-Identifier: Apache-2.0
"""What is wanted of a library, and what it may take: all that chooses a point of the front."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]
_FEW = 256  # bytes: a library of so few takes half of what it seems, so that a handful of bytes costs no time


@dataclass(frozen=True, slots=True)
class Worth:
    """The least of cycles x flash^flash x arena^arena is wanted. An exponent of 1/3 says that 1 % of the cycles is
    worth 3 % of the bytes; one of 4, that 1 % of the bytes is worth 4 % of the cycles."""

    flash: float
    arena: float

    def of(self, cycles: float, flash_bytes: float, arena_bytes: float) -> float:
        """The logarithm of that: less is better."""
        return math.log(max(cycles, 1)) + self.of_bytes(flash_bytes, arena_bytes)

    def of_bytes(self, flash_bytes: float, arena_bytes: float) -> float:
        """The part of the bytes."""
        return self.flash * math.log(flash_bytes + _FEW) + self.arena * math.log(arena_bytes + _FEW)

    def of_all(self, cycles: Numbers, flash_bytes: Numbers, arena_bytes: int) -> Floats:
        """The value of many, of the same arena."""
        values: Floats = np.log(np.maximum(cycles, 1)) + self.flash * np.log(flash_bytes + _FEW)
        return values + self.arena * math.log(arena_bytes + _FEW)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a library may take at most: bytes of flash, of arena, and cycles of an inference. None: any number."""

    flash_bytes: int | None = None
    arena_bytes: int | None = None
    cycles: int | None = None
