# SPDX-License-Identifier: Apache-2.0
"""A sweep's file: models, boards and options, of which every combination is a job. docs/sweep.md describes it."""

from __future__ import annotations

import hashlib
import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, get_args

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_file, read_text
from tinyc.base.source import source_digest
from tinyc.board import load_board
from tinyc.sweep.job import Job, Kind, SentFile, Setting, setting_kinds

_KEYS = ("models", "boards", "kind", "options", "calibration", "inputs")
MOST = 1_000_000  # jobs of one file


@dataclass(frozen=True, slots=True)
class Sweep:
    """The jobs of a file, each once, and the bytes of the files that they need, by SHA-256."""

    jobs: tuple[Job, ...]
    contents: Mapping[str, bytes]


def load_sweep(path: Path) -> Sweep:
    """The jobs of a sweep's file. Paths in it are relative to it. TinycError, naming key and value, for what is not
    understood, files that are not there, and more than MOST jobs."""
    try:
        spec = tomllib.loads(read_text(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        said = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
        reason = error.strerror if isinstance(error, OSError) else said
        raise TinycError(f"no sweep: {reason}", Loc(str(path)), "docs/sweep.md describes the file") from error
    reader = _Reader(path)
    unknown = sorted(set(spec) - set(_KEYS))
    if unknown:
        raise reader.wrong(f"there is no key '{unknown[0]}'", f"there are: {', '.join(_KEYS)}")
    models = reader.models(spec)
    kind = spec.get("kind", "prove")
    if kind not in get_args(Kind):
        raise reader.wrong(f"kind is '{kind}'", f"there are: {', '.join(get_args(Kind))}")
    axes = reader.axes(spec)
    data = {role: reader.data(spec, role, models) for role in ("calibration", "inputs")}
    boards = [reader.board(name) for name in reader.texts(spec, "boards")]
    if len(models) * len(boards) * _product(axes.values()) > MOST:
        raise reader.wrong(f"more than {MOST:,} jobs", "split the file")
    jobs = [
        Job(
            model, board, kind, settings, file, data["calibration"].get(stem), data["inputs"].get(stem), source_digest()
        )
        for stem, model in models
        for board, file in boards
        for settings in _settings(axes)
    ]
    for job in {job.settings: job for job in jobs}.values():
        reader.check(job)
    return Sweep(tuple(dict.fromkeys(jobs)), reader.contents)


def _product(axes: Any) -> int:
    total = 1
    for values in axes:
        total *= len(values)
    return total


def _settings(axes: Mapping[str, Sequence[Setting]]) -> Iterator[tuple[tuple[str, Setting], ...]]:
    for values in itertools.product(*axes.values()):
        yield tuple(sorted(zip(axes, values, strict=True)))


def _fits(value: object, kind: type) -> bool:
    """Whether a value of the file has the type; a whole number is a float, too, and a bool is no number."""
    return type(value) is kind or (kind is float and type(value) is int)


@dataclass
class _Reader:
    """path: of the sweep's file. contents: of the files that it names, as far as they were read."""

    path: Path
    contents: dict[str, bytes] = field(default_factory=dict)

    def wrong(self, message: str, hint: str = "") -> TinycError:
        return TinycError(message, Loc(str(self.path)), hint)

    def texts(self, spec: Mapping[str, Any], key: str) -> list[str]:
        value = spec.get(key)
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise self.wrong(f"{key}: a list of names is needed", f'{key} = ["NAME"]')
        return value

    def models(self, spec: Mapping[str, Any]) -> list[tuple[str, SentFile]]:
        """(stem, file) of each model; a pattern stands for all files that match."""
        named = []
        for text in self.texts(spec, "models"):
            files = sorted(self.path.parent.glob(text)) if any(c in text for c in "*?[") else [self.path.parent / text]
            if not files:
                raise self.wrong(f"models: no file matches '{text}'")
            named += [(file.stem, self.sent(file)) for file in files]
        return named

    def sent(self, file: Path) -> SentFile:
        try:
            data = read_file(file)
        except OSError as error:
            raise self.wrong(f"cannot read {file}: {error.strerror}") from error
        digest = hashlib.sha256(data).hexdigest()
        self.contents[digest] = data
        return SentFile(file.name, digest)

    def board(self, name: str) -> tuple[str, SentFile | None]:
        """A board that tinyc knows, or a .toml file beside the sweep's."""
        if not name.endswith(".toml"):
            return load_board(name).name, None
        file = self.path.parent / name
        return load_board(str(file)).name, self.sent(file)

    def data(self, spec: Mapping[str, Any], role: str, models: Sequence[tuple[str, SentFile]]) -> dict[str, SentFile]:
        """File by stem of the model; `*` in the table stands for all others."""
        given = spec.get(role, {})
        stems = {stem for stem, _ in models}
        if not isinstance(given, dict) or not all(isinstance(file, str) for file in given.values()):
            raise self.wrong(f"{role}: a table of files is needed", f'[{role}]\n{min(stems)} = "FILE.npz"')
        unknown = sorted(set(given) - stems - {"*"})
        if unknown:
            raise self.wrong(f"{role}: there is no model '{unknown[0]}'", f"there are: {', '.join(sorted(stems))}, *")
        files = {stem: self.sent(self.path.parent / file) for stem, file in given.items()}
        rest = files.pop("*", None)
        return files if rest is None else {stem: files.get(stem, rest) for stem in stems}

    def axes(self, spec: Mapping[str, Any]) -> dict[str, list[Setting]]:
        """Values to try by option, by the command line's names."""
        given = spec.get("options", {})
        if not isinstance(given, dict):
            raise self.wrong("options: a table is needed", '[options]\nmemory = ["balanced", "min"]')
        kinds = setting_kinds()
        axes: dict[str, list[Setting]] = {}
        for key, values in given.items():
            if key not in kinds:
                raise self.wrong(f"options: there is no '{key}'", f"there are: {', '.join(sorted(kinds))}")
            many, kind = values if isinstance(values, list) else [values], kinds[key].type
            if not many or not all(_fits(value, kind) for value in many):
                raise self.wrong(
                    f"options: {key} is {values!r}", f"a value, or a list of values, of type {kind.__name__}"
                )
            axes[key] = list(dict.fromkeys(many))
        return axes

    def check(self, job: Job) -> None:
        """TinycError where a value cannot be."""
        places = {file.sha256: self.path for file in job.files}
        try:
            job.options(places)
        except (TinycError, ValueError, TypeError) as error:
            raise self.wrong(f"options: {error.message if isinstance(error, TinycError) else error}") from error
