# SPDX-License-Identifier: Apache-2.0
"""One job of a sweep: a model, a board, options. It runs in any process that has tinyc, and needs no common disk."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, asdict, replace
from pathlib import Path
from typing import Any, Literal, get_origin

from tinyc import __version__
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.files import read_file, write_file
from tinyc.base.numerics import Numerics, numerics_of
from tinyc.base.private import private_folder
from tinyc.base.source import source_digest
from tinyc.board import load_board
from tinyc.options.build import Options
from tinyc.options.option import flag_of, hints_of, options_of, without_none, words_of
from tinyc.options.recipe import Recipe
from tinyc.options.words import settings_of
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.estimating import estimate_model
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import Report

Kind = Literal["prove", "estimate"]
Status = Literal["passed", "differs", "estimated", "refused", "crashed"]
Setting = str | int | float | bool

_NOT_SWEPT = {"board", "name", "weights_blob", "cache"}  # an axis of its own, or without a figure that differs


@dataclass(frozen=True, slots=True)
class SettingKind:
    """Where a setting of a sweep's file goes."""

    owner: type  # Options or Recipe
    field: Field[Any]
    type: type  # of the value in the file
    value: Callable[[Any], Any]  # of the field


def setting_kinds() -> Mapping[str, SettingKind]:
    """The options that a sweep may vary, by the command line's names: those that a TOML value can say. `auto` stands
    for the None of an option of words, as on the command line."""
    kinds = {}
    for owner in (Options, Recipe):
        hints = hints_of(owner)
        for each, told in options_of(owner):
            as_file = _as_in_files(*without_none(hints[each.name]))
            if as_file is not None and told.shared and not told.repeats and each.name not in _NOT_SWEPT:
                kinds[flag_of(each).replace("-", "_")] = SettingKind(owner, each, *as_file)
    return kinds


def _as_in_files(kind: Any, is_optional: bool) -> tuple[type, Callable[[Any], Any]] | None:
    """The type that a file has for an option of that type, and how one becomes the other; None for paths."""
    if kind in (str, int, float, bool):
        return kind, lambda value: value
    if get_origin(kind) is Literal:
        return str, lambda word: None if is_optional and word == "auto" else word
    if kind is Numerics:
        return str, numerics_of
    if kind == tuple[str, ...]:
        return str, words_of
    return None


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that travels with the job: its name and the SHA-256 of its bytes."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be built. board: the name of one that tinyc knows, where `board_file` is None. settings: names of
    `setting_kinds` with their values, sorted. source: digest of tinyc's own source."""

    model: SentFile
    board: str
    kind: Kind
    settings: tuple[tuple[str, Setting], ...] = ()
    board_file: SentFile | None = None
    calibration: SentFile | None = None
    inputs: SentFile | None = None
    source: str = ""

    @property
    def key(self) -> str:
        """A digest of all that the result depends on."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:32]

    @property
    def files(self) -> tuple[SentFile, ...]:
        return tuple(file for file in (self.model, self.board_file, self.calibration, self.inputs) if file is not None)

    def words(self) -> str:
        """The settings as on the command line."""
        return " ".join(word for name, value in self.settings for word in _words(setting_kinds()[name], value))

    def options(self, places: Mapping[str, Path]) -> Options:
        """Options of the pipeline; places: where the files are, by SHA-256. TinycError for an unknown value."""
        values: dict[type, dict[str, Any]] = {Options: {}, Recipe: {}}
        for name, value in self.settings:
            kind = setting_kinds()[name]
            values[kind.owner][kind.field.name] = kind.value(value)
        return Options(
            board=str(places[self.board_file.sha256]) if self.board_file else self.board,
            calibration=places[self.calibration.sha256] if self.calibration else None,
            inputs=places[self.inputs.sha256] if self.inputs else None,
            recipe=Recipe(**values[Recipe]) if values[Recipe] else None,
            cache=True,
            **values[Options],
        )


def _words(kind: SettingKind, value: Setting) -> Iterator[str]:
    """A setting as on the command line, which has no word for a switch that is off, nor for no layers."""
    given = kind.value(value)
    if given != kind.field.default or not (isinstance(given, bool) or given == ()):
        yield from itertools.chain.from_iterable(settings_of(kind.field, given))


@dataclass(frozen=True, slots=True)
class ResultRow:
    """What a job came to. status: `passed`, `differs` (bytes), `estimated`, `refused` (reason: why it cannot be built),
    `crashed` (reason: what ended it; such a job is tried again by the next run). Figures are None where there are none;
    report: the whole report as JSON."""

    key: str
    model: str
    board: str
    kind: str
    options: str
    status: Status
    reason: str | None = None
    seconds: float = 0.0
    instructions: int | None = None
    cycles: int | None = None
    milliseconds: float | None = None
    arena_bytes: int | None = None
    flash_bytes: int | None = None
    sqnr_db: float | None = None
    agreement: float | None = None
    report: str | None = None
    worker: str = ""
    tinyc: str = __version__

    @property
    def failed(self) -> bool:
        """Whether it came to no result that can be used."""
        return self.status in ("differs", "refused", "crashed")


def empty_row(job: Job, status: Status, reason: str | None = None) -> ResultRow:
    """A row without figures."""
    return ResultRow(job.key, job.model.name, job.board, job.kind, job.words(), status, reason)


def run_job(job: Job, contents: Mapping[str, bytes]) -> ResultRow:
    """Build, prove or estimate; raises nothing that the job could be blamed for. contents: bytes of the job's files by
    SHA-256."""
    began = time.perf_counter()
    if job.source != source_digest():
        row = empty_row(job, "crashed", f"the worker has another tinyc ({__version__}, other source): install the same")
    else:
        try:
            row = _result(job, _written(job, contents))
        except TinycError as error:
            row = empty_row(job, "refused", error.message)
        except Exception as error:  # a bug of ours ends one job, not the sweep
            row = empty_row(job, "crashed", f"{type(error).__name__}: {error}")
    seconds = round(time.perf_counter() - began, 3)
    return replace(row, seconds=seconds, worker=f"{platform.node()}:{os.getpid()}")


def _written(job: Job, contents: Mapping[str, bytes]) -> dict[str, Path]:
    """The job's files in a folder that jobs of this machine share, each under the digest of its bytes."""
    places = {}
    for file in job.files:
        place = private_folder("sweep") / file.sha256 / file.name
        if not place.is_file() or hashlib.sha256(read_file(place)).hexdigest() != file.sha256:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_file(place, contents[file.sha256])
        places[file.sha256] = place
    return places


def _result(job: Job, places: Mapping[str, Path]) -> ResultRow:
    options, path = job.options(places), places[job.model.sha256]
    if job.kind == "estimate":
        estimate = estimate_model(path, options, Progress())
        row = empty_row(job, "refused" if estimate.problem else "estimated", estimate.problem)
        return replace(
            row,
            instructions=estimate.instructions,
            milliseconds=estimate.milliseconds,
            arena_bytes=estimate.arena_bytes,
            flash_bytes=estimate.flash_bytes,
            report=_text(estimate.to_json()),
        )
    return _proved(job, verify_model(path, options, Progress()), options)


def _proved(job: Job, report: Report, options: Options) -> ResultRow:
    board = load_board(options.board)
    timed = report.cycles is not None and board.clock_hz and board.flash_timing is None
    row = empty_row(job, "passed" if report.passed else "differs", report.verify.first_difference)
    return replace(
        row,
        instructions=report.instructions,
        cycles=report.cycles,
        milliseconds=round(1000 * (report.cycles or 0) / board.clock_hz, 3) if timed and board.clock_hz else None,
        arena_bytes=report.arena_bytes,
        flash_bytes=report.flash.code_bytes + report.flash.const_bytes,
        sqnr_db=report.accuracy.sqnr_db if report.accuracy else None,
        agreement=report.accuracy.agreement if report.accuracy else None,
        report=_text(report.to_json()),
    )


def _text(report: Mapping[str, Any]) -> str:
    return json.dumps(report, separators=(",", ":"))
