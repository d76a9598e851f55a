# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep as one page of HTML that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress

from tinyc.base.dataclass import dataclass
from tinyc.base.escape import Html, visible
from tinyc.base.templates import render
from tinyc.explain.report_charts import PlotDot, cut, dots
from tinyc.explain.report_page import FILTERS
from tinyc.sweep.job import ResultRow

_COLUMNS = ("instructions", "cycles", "ms", "arena", "flash", "SQNR, dB", "same answer, %")
_DIGITS = (0, 0, 2, 0, 0, 1, 1)
MOST = 5000  # rows of a page; a browser gets slow with more


@dataclass(frozen=True, slots=True)
class _Line:
    """A row of a table. front: no other of its board is better in one figure and as good in all others."""

    row: ResultRow
    front: bool

    @property
    def options(self) -> list[str]:
        """Each with its value."""
        return [f"--{part}" for part in self.row.options.removeprefix("--").split(" --")] if self.row.options else []

    @property
    def figures(self) -> tuple[tuple[float | int | None, int], ...]:
        """Numbers, and their digits after the point; the share as percent."""
        row = self.row
        same = None if row.agreement is None else 100 * row.agreement
        values = (row.instructions, row.cycles, row.milliseconds, row.arena_bytes, row.flash_bytes, row.sqnr_db, same)
        return tuple(zip(values, _DIGITS, strict=True))


def sweep_page(rows: Sequence[ResultRow], name: str) -> str:
    """The page. name: of the file of results. Same rows, same bytes. Raises TinycError if Matplotlib is missing."""
    shown = rows[:MOST]
    models = []
    for number, model in enumerate(dict.fromkeys(row.model for row in shown), 1):
        own = sorted((row for row in shown if row.model == model and not row.failed), key=_place)
        lines = [_Line(row, on_front(row, [other for other in own if other.board == row.board])) for row in own]
        measured = [any(line.figures[at][0] is not None for line in lines) for at in range(len(_COLUMNS))]
        facts = {"columns": list(compress(_COLUMNS, measured)), "measured": measured, "charts": _charts(own, number)}
        models.append({"name": model, "number": number, "lines": lines, **facts})
    values = {
        "name": name,
        "tinyc": ", ".join(dict.fromkeys(row.tinyc for row in shown)),
        "counts": sorted(Counter(row.status for row in rows).items()),
        "total": len(rows),
        "left_out": len(rows) - len(shown),
        "bad": any(row.status in ("differs", "crashed") for row in rows),
        "failed": [row for row in shown if row.failed],
        "models": models,
    }
    return render("report/sweep.html.j2", values, FILTERS)


def _place(row: ResultRow) -> tuple[str, str]:
    return row.board, row.options


def on_front(row: ResultRow, rows: Sequence[ResultRow]) -> bool:
    """Whether no other of the rows is as good in time, RAM, flash and accuracy and better in one of them. Only rows are
    compared of which the same figures are known."""
    own = _costs(row)
    others = [other for other in map(_costs, rows) if other.keys() == own.keys() and other != own]
    return not any(all(other[figure] <= own[figure] for figure in own) for other in others)


def _costs(row: ResultRow) -> dict[str, float]:
    """What is known of time (milliseconds, else instructions), RAM, flash and accuracy; smaller is better."""
    costs = {"ms": row.milliseconds, "arena": row.arena_bytes, "flash": row.flash_bytes}
    costs["instructions"] = row.instructions if row.milliseconds is None else None
    costs["error"] = None if row.sqnr_db is None else -row.sqnr_db
    return {figure: value for figure, value in costs.items() if value is not None}


def _charts(rows: Sequence[ResultRow], number: int) -> list[Html | None]:
    """RAM and accuracy over time; a chart of one point says nothing, nor does one of the same accuracy everywhere."""
    timed = all(row.milliseconds is not None for row in rows)
    unit = "ms" if timed else "instructions"
    charts: list[Html | None] = []
    for figure, words in (("arena_bytes", "bytes of the arena"), ("sqnr_db", "SQNR, dB")):
        points = [
            PlotDot(cut(visible(row.board)), time, getattr(row, figure), row.flash_bytes or 0)
            for row in rows
            if (time := row.milliseconds if timed else row.instructions) and getattr(row, figure) is not None
        ]
        title = f"{words} over {unit}, model {number}"
        joined = figure == "arena_bytes"
        told = len(points) > 1 and (joined or len({dot.y for dot in points}) > 1)
        charts.append(dots(points, (unit, words), title, joined) if told else None)
    return charts
