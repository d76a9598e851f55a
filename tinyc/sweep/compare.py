# SPDX-License-Identifier: Apache-2.0
"""Two files of results against each other: what got slower, larger or less accurate, and what no longer passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tinyc.bench.compare import FAILED, BenchChange, Facts, compare_facts
from tinyc.sweep.job import ResultRow
from tinyc.sweep.store import read_results

_FIGURES = ("instructions", "cycles", "arena_bytes", "flash_bytes", "sqnr_db", "agreement")


def compare_sweeps(old: Path, new: Path, threshold: float = 0.01) -> list[BenchChange]:
    """As `compare_files` does with benchmarks. A job is its model's name with its options, and its board; one that had
    figures and now fails is one change, of `failed`. Raises TinycError for a file that holds no results."""
    return compare_facts(_facts(read_results(old)), _facts(read_results(new)), threshold)


def _facts(rows: list[ResultRow]) -> Facts:
    return {key: value for row in rows for key, value in _of(row)}


def _of(row: ResultRow) -> Iterator[tuple[tuple[str, str, str], float]]:
    what, where = f"{row.model} {row.options}".strip(), row.board if row.kind == "prove" else f"{row.board}, estimated"
    yield (what, where, FAILED), float(row.failed)
    for figure in _FIGURES:
        value = getattr(row, figure)
        if value is not None and not row.failed:
            yield (what, where, figure), float(value)
