# SPDX-License-Identifier: Apache-2.0
"""Combinations of options side by side: what each costs, and the one that fulfils conditions."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.options.build import Prefer

_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_FIGURES: Mapping[str, Callable[[Point], float | None]] = {
    "time": lambda point: point.milliseconds,
    "instructions": lambda point: point.instructions,
    "ram": lambda point: point.ram_bytes,
    "flash": lambda point: point.flash_bytes,
    "sqnr": lambda point: point.sqnr_db,
    "agreement": lambda point: point.agreement,
}
_UNITS = {"": 1.0, "K": 1024.0, "KiB": 1024.0, "M": 1024.0**2, "MiB": 1024.0**2, "ms": 1.0, "s": 1000.0, "%": 0.01}
_CONDITION = re.compile(r"(\w+)\s*(<=|>=|<|>|=)\s*([0-9_.]+)\s*(\w+|%)?")


@dataclass(frozen=True, slots=True)
class Point:
    """A combination and what it costs; of one that failed only `problem`. Figures are estimates, or, where `proved`,
    measured. milliseconds: None where the board's cycles are not known; cycle_error: what is known of them. sqnr_db: of
    a proved float model."""

    board: str
    prefer: Prefer
    weights: str
    ram: int | None
    flash: int | None
    input_rows: bool
    problem: str | None = None
    instructions: int = 0
    milliseconds: float | None = None
    ram_bytes: int = 0
    flash_bytes: int = 0
    sqnr_db: float | None = None
    agreement: float | None = None
    proved: bool = False
    best: bool = False
    cycle_error: str | None = None

    @property
    def key(self) -> tuple[float, ...]:
        """Time, RAM and flash: less is better. Time of points without milliseconds is their instructions."""
        return (self.instructions if self.milliseconds is None else self.milliseconds, self.ram_bytes, self.flash_bytes)

    def beats(self, other: Point) -> bool:
        """Whether a proved point is as good as another proved one in everything, accuracy too, and better in one."""
        own, theirs = ((*point.key, -(point.sqnr_db or 0.0)) for point in (self, other))
        return own != theirs and all(a <= b for a, b in zip(own, theirs, strict=True))

    def options(self) -> str:
        """The words of `tinyc build` for this point."""
        words = [f"--board {self.board}", f"--prefer {self.prefer}"]
        words += [f"--weights {self.weights}"] if self.weights else []
        words += [f"--ram {self.ram}"] if self.ram is not None else []
        words += [f"--flash {self.flash}"] if self.flash is not None else []
        return " ".join([*words, *(["--input-rows"] if self.input_rows else [])])

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"options": self.options()}


def pick(points: Iterable[Point], words: str) -> Point | None:
    """The fastest point (then the one with the least RAM and flash) for which all conditions hold, as
    `ram<=16K, time<=50ms`; None if there is none. A figure that a point does not have fulfils nothing.

    Raises TinycError for words that are no condition.
    """
    tests = [_condition(part.strip()) for part in words.split(",") if part.strip()]
    fitting = [point for point in points if point.problem is None and all(test(point) for test in tests)]
    return min(fitting, key=lambda point: point.key, default=None)


def _condition(words: str) -> Callable[[Point], bool]:
    match = _CONDITION.fullmatch(words)
    if match is None or match[1] not in _FIGURES or (match[4] or "") not in _UNITS:
        names, units = ", ".join(_FIGURES), ", ".join(unit for unit in _UNITS if unit)
        raise TinycError(
            f"'{words}' is no condition", hint=f"like ram<=16K or time<50ms; figures: {names}; units: {units}"
        )
    figure, compare, limit = _FIGURES[match[1]], _COMPARE[match[2]], round(float(match[3]) * _UNITS[match[4] or ""], 9)

    def holds(point: Point) -> bool:
        value = figure(point)
        return value is not None and compare(value, limit)

    return holds
