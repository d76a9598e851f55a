# SPDX-License-Identifier: Apache-2.0
"""Options and boards beside each other: every point is estimated, those that no other beats are proved if asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.board import load_board
from tinyc.explain.estimate import estimate
from tinyc.explain.points import Point
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import lower_integers
from tinyc.pipeline.progress import Progress


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
        estimated = estimate(model.path.name, lower_integers(model, board, asked, progress).program, board)
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
    from tinyc.pipeline.compiling import compile_integers  # noqa: PLC0415  with all that a proof takes
    from tinyc.pipeline.proving import prove  # noqa: PLC0415

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
