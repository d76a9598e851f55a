# SPDX-License-Identifier: Apache-2.0
"""Options and boards beside each other: every point is estimated, those that no other beats are proved if asked."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.board import load_board
from tinyc.explain.estimate import estimate
from tinyc.options.build import Options, Prefer
from tinyc.options.recipe import Recipe
from tinyc.pipeline.compiling import compile_integers
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import lower_integers
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import prove


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


@one_thread
def explore_model(path: Path, variants: Sequence[Options], progress: Progress, proof: bool = False) -> list[Point]:
    """A Point for each of the options, in their order; `best` says that no other of its board is as good in
    time, RAM and flash and better in one. proof: these are proved, and have measured figures; then accuracy counts as
    well, and no other of the board whatever its weights is better.

    variants: options that differ in board, preference, limits, rows of the input and, of a float model, in its weights.
    What cannot be built is a point with its reason. Raises TinycError where the model itself cannot be read.
    """
    models: dict[Recipe | None, IntegerModel] = {}
    explored: list[Point] = []
    weighted = any((asked.recipe or Recipe()).weights != Recipe().weights for asked in variants)
    for number, asked in enumerate(variants):
        if asked.recipe not in models:
            models[asked.recipe] = make_integers(path, load_board(asked.board), asked, progress)
        progress.on_share("estimate", number / len(variants))
        estimated = _estimated(models[asked.recipe], _point(asked, weighted=weighted), asked, progress)
        explored.append(_within(estimated))
    marked = [replace(point, best=True) if _is_best(point, explored) else point for point in explored]
    final = [*marked]
    for number, (point, asked) in enumerate(zip(marked, variants, strict=True)):
        progress.on_share("prove", number / len(marked))
        if proof and point.best:
            final[number] = _within(_proved(models[asked.recipe], point, asked, progress))
    rivals = [point for point in final if point.proved and point.problem is None]
    return [_beaten(point, rivals) if point in rivals else point for point in final]


def _beaten(point: Point, rivals: Sequence[Point]) -> Point:
    """A proved point, which is not best where another one of its board beats it."""
    return replace(point, best=not any(other.board == point.board and other.beats(point) for other in rivals))


def _within(point: Point) -> Point:
    """The point, with a problem where it needs more than its limits allow."""
    needs = (("RAM", point.ram_bytes, point.ram), ("flash", point.flash_bytes, point.flash))
    over = [f"{need:,} bytes of {what}, {most:,} allowed" for what, need, most in needs if most and need > most]
    return replace(point, problem="; ".join(over), best=False) if over and point.problem is None else point


def _point(asked: Options, *, weighted: bool) -> Point:
    """With nothing known of it. weighted: its weights are said."""
    weights = (asked.recipe or Recipe()).weights if weighted else ""
    return Point(asked.board, asked.prefer, weights, asked.ram, asked.flash, asked.input_rows)


def _estimated(model: IntegerModel, point: Point, asked: Options, progress: Progress) -> Point:
    board = load_board(asked.board)
    try:
        estimated = estimate(
            model.path.name, lower_integers(model, board, asked, progress).program, board, optimize=asked.optimize
        )
    except TinycError as error:
        return replace(point, problem=error.message)
    return replace(
        point,
        problem=estimated.problem,
        instructions=estimated.instructions,
        milliseconds=estimated.milliseconds,
        cycle_error=estimated.cycle_error if estimated.milliseconds is not None else None,
        ram_bytes=estimated.arena_bytes,
        flash_bytes=estimated.flash_bytes,
    )


def _is_best(point: Point, points: Sequence[Point]) -> bool:
    """Whether it works and no other point of its board and weights beats it; of equal ones the first counts."""
    if point.problem is not None:
        return False
    rivals = [o for o in points if o.problem is None and (o.board, o.weights) == (point.board, point.weights)]
    beaten = any(
        other.key != point.key and all(theirs <= own for theirs, own in zip(other.key, point.key, strict=True))
        for other in rivals
    )
    return not beaten and next(other for other in rivals if other.key == point.key) is point


def _proved(model: IntegerModel, point: Point, asked: Options, progress: Progress) -> Point:
    """The point with the figures of a proof; one whose bytes differ, or that does not fit after all, with a problem."""
    board = load_board(point.board)
    try:
        report = prove(compile_integers(model, board, asked, progress), board, asked, progress)
    except TinycError as error:
        return replace(point, problem=error.message, best=False)
    timed = report.cycles is not None and board.clock_hz and board.flash_timing is None
    return replace(
        point,
        problem=None if report.passed else f"bytes differ: {report.verify.first_difference}",
        instructions=report.instructions or point.instructions,
        milliseconds=round(1000 * (report.cycles or 0) / board.clock_hz, 3) if timed else point.milliseconds,
        cycle_error=report.cycle_model if timed else point.cycle_error,
        ram_bytes=report.arena_bytes,
        flash_bytes=report.flash.code_bytes + report.flash.const_bytes,
        sqnr_db=report.accuracy.sqnr_db if report.accuracy else None,
        agreement=report.accuracy.agreement if report.accuracy else None,
        proved=report.passed,
    )


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
