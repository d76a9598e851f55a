# SPDX-License-Identifier: Apache-2.0
"""Two benchmark reports against each other: what got worse by more than a threshold."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_text
from tinyc.bench.report import SCHEMA

_COSTS = ("instructions", "cycles", "arena_bytes", "stack_bytes", "code_bytes", "const_bytes")
_HINT = "give what `tinyc bench --json` printed"
FAILED = "failed"  # 1 where something came to no result
_COUNTS = ("mismatches", FAILED)  # any more is worse
_SHARES = ("agreement", "top1_board")

Facts = Mapping[tuple[str, str, str], float]  # (model, where, figure) -> value


@dataclass(frozen=True, slots=True)
class BenchChange:
    """A figure of both reports, or (old or new None) of one. worse: it fails the comparison."""

    model: str
    where: str
    figure: str
    old: float | None
    new: float | None
    worse: bool

    @property
    def relative(self) -> float | None:
        """(new - old) / old; None where that means nothing."""
        if self.old is None or self.new is None or self.old == 0:
            return None
        return (self.new - self.old) / self.old


def compare_files(
    old: Path, new: Path, threshold: float = 0.01, latency_threshold: float | None = None
) -> list[BenchChange]:
    """Every figure of either report that differs, or is only in one.

    Worse: a cost of a board that grew by more than `threshold` (a share: 0.01 is 1 %); agreement or top-1 of the
    board's outputs that fell by more than that; an output SQNR that fell by more than that share; any wrong byte
    that was not there; a figure that the new report lacks. Desktop latencies are noisy and only count when
    `latency_threshold` is given. Raises TinycError for a file that is no benchmark report.
    """
    return compare_facts(_facts(old), _facts(new), threshold, latency_threshold)


def compare_facts(
    before: Facts, after: Facts, threshold: float, latency_threshold: float | None = None
) -> list[BenchChange]:
    """See `compare_files`. Of what failed now or then nothing else is compared."""
    changes = []
    failed = {key[:2] for facts in (before, after) for key, value in facts.items() if key[2] == FAILED and value}
    for key in dict.fromkeys([*before, *after]):
        was, now = before.get(key), after.get(key)
        if was != now and (key[2] == FAILED or key[:2] not in failed):
            model, where, figure = key
            worse = _is_worse(figure, was, now, threshold, latency_threshold)
            changes.append(BenchChange(model, where, figure, was, now, worse))
    return changes


def _is_worse(
    figure: str, old: float | None, new: float | None, threshold: float, latency_threshold: float | None
) -> bool:
    if new is None:
        return figure != "median_us"
    if old is None:
        return figure in _COUNTS and new > 0
    if figure == "median_us":
        return latency_threshold is not None and new > old * (1 + latency_threshold)
    if figure in _SHARES:
        return new < old - threshold
    if figure == "sqnr_db":
        return new < old - threshold * abs(old)
    return new > old * (1 + threshold) if figure not in _COUNTS else new > old


def _read(path: Path) -> dict[str, Any]:
    try:
        report = json.loads(read_text(path))
    except OSError as error:
        raise TinycError(f"cannot read the report: {error.strerror}", Loc(str(path)), _HINT) from error
    except (ValueError, RecursionError) as error:
        raise TinycError("this is no JSON file", Loc(str(path)), _HINT) from error
    if not isinstance(report, dict) or report.get("schema") != SCHEMA or not isinstance(report.get("models"), list):
        raise TinycError(
            f"this is no benchmark report of schema {SCHEMA}",
            Loc(str(path)),
            _HINT,
        )
    return report


def _facts(path: Path) -> Facts:
    report = _read(path)
    try:
        facts = {key: float(value) for key, value in _every_fact(report) if value is not None}
        if not all(map(math.isfinite, facts.values())):
            raise ValueError("not a number")
    except (AttributeError, TypeError, ValueError, OverflowError) as error:
        raise TinycError("the benchmark report is damaged", Loc(str(path)), _HINT) from error
    return facts


def _every_fact(report: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str, str], Any]]:
    for model in report["models"]:
        name = str(model.get("model"))
        for board in model.get("boards", ()):
            for figure in (*_COSTS, "mismatches"):
                yield (name, str(board.get("board")), figure), board.get(figure)
        for reference in model.get("references", ()):
            where = str(reference.get("name"))
            for figure in (*_SHARES, "sqnr_db"):
                yield (name, where, figure), reference.get("parity", {}).get(figure)
            yield (name, where, "median_us"), reference.get("latency", {}).get("median_us")
