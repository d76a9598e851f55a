# SPDX-License-Identifier: Apache-2.0
"""What a library can be: cycles against flash against arena, and where the one that is built stands."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tinyc.base.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A library, as estimated. cycles: of the board's core, with the waits of its flash; instructions where the core's
    cycles are not known, and milliseconds None. by_rows: whether layers run row by row. built: it is what the options
    lead to, not what was looked for; beaten: another one is as good in cycles, flash and arena and better in one."""

    cycles: int
    milliseconds: float | None
    flash_bytes: int
    arena_bytes: int
    by_rows: bool
    built: bool = False
    beaten: bool = False

    @property
    def key(self) -> tuple[int, int, int]:
        """Less is better."""
        return (self.cycles, self.flash_bytes, self.arena_bytes)

    def beats(self, other: FrontPoint) -> bool:
        """Whether it is as good in everything, and better in one."""
        return self.key != other.key and all(a <= b for a, b in zip(self.key, other.key, strict=True))


@dataclass(frozen=True, slots=True)
class ModelFront:
    """The points that no other one beats, by arena, and the one that is built. cycle_error: how well the cycles are
    known. apart: a point that another one is as good as but for such a share, in each figure, is left out. prefer: what
    the options want most. gap: no library of these kernels is worth more than the built one with such a share of that
    less; None where that is not known: kernels wait for flash, or the arena has two parts."""

    model: str
    board: str
    points: tuple[FrontPoint, ...]
    apart: float
    cycle_error: str | None
    prefer: str
    gap: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)
