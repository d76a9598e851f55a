# SPDX-License-Identifier: Apache-2.0
"""Results of sweeps in one SQLite file: a row per job, written as soon as it is there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import astuple, fields
from pathlib import Path
from types import TracebackType

from tinyc.base.errors import Loc, TinycError
from tinyc.sweep.job import ResultRow

_COLUMNS = tuple(field.name for field in fields(ResultRow))
_TABLE = f"CREATE TABLE IF NOT EXISTS results ({', '.join(_COLUMNS)}, PRIMARY KEY (key))"
_INSERT = f"INSERT OR REPLACE INTO results ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))})"


class Store:
    """The file, open. A row that was added is there whatever happens to this process afterwards."""

    def __init__(self, path: Path) -> None:
        """TinycError if the file is something else, or cannot be written."""
        self.path = path
        try:
            self._file = sqlite3.connect(path, isolation_level=None)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute(_TABLE)
            self._file.execute(f"SELECT {', '.join(_COLUMNS)} FROM results LIMIT 1")
        except sqlite3.Error as error:
            hint = "give another file with --out"
            raise TinycError(f"no file of results: {error}", Loc(str(path)), hint) from error

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, row: ResultRow) -> None:
        """Takes the place of an earlier row of the same job. TinycError on a full disk."""
        try:
            self._file.execute(_INSERT, astuple(row))
        except sqlite3.Error as error:
            raise TinycError(
                f"cannot write results: {error}", Loc(str(self.path)), "what was written is kept"
            ) from error

    def rows(self, keys: Iterable[str]) -> list[ResultRow]:
        """The rows of these jobs, in this order; jobs without one are left out."""
        by_key = {row[0]: ResultRow(*row) for row in self._file.execute(f"SELECT {', '.join(_COLUMNS)} FROM results")}
        return [by_key[key] for key in keys if key in by_key]


def holds_results(path: Path) -> bool:
    """Whether a file is SQLite's, as files of results are."""
    try:
        if not path.is_file():  # a pipe would wait for its other end
            return False
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def read_results(path: Path) -> list[ResultRow]:
    """The rows of a file in the order in which they were written; of those of the same model's name, board and options
    the last one alone, which the others came before. The file is not changed. TinycError if it holds no results."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as file:
            rows = [
                ResultRow(*row) for row in file.execute(f"SELECT {', '.join(_COLUMNS)} FROM results ORDER BY rowid")
            ]
    except sqlite3.Error as error:
        hint = "give the file that `tinyc sweep` wrote"
        raise TinycError(f"no file of results: {error}", Loc(str(path)), hint) from error
    return list({(row.model, row.board, row.kind, row.options): row for row in rows}.values())
