# SPDX-License-Identifier: Apache-2.0
"""A benchmark's report as one page of HTML that needs nothing else: board by board, desktop runs beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tinyc.base.errors import Loc, TinycError
from tinyc.base.escape import Html, visible
from tinyc.base.files import read_text
from tinyc.base.templates import render
from tinyc.bench.report import SCHEMA, BenchReport, BoardResult, ModelResult, ReferenceResult
from tinyc.explain.report_charts import bars, cut
from tinyc.explain.report_page import FILTERS
from tinyc.verify.report_file import from_json

_HINT = "give the output folder of `tinyc build`, or what `tinyc bench --json` printed"


def read_bench(file: Path) -> BenchReport:
    """What `tinyc bench --json` printed. Raises TinycError for another file."""
    try:
        value = json.loads(read_text(file))
    except OSError as error:
        raise TinycError(f"the report cannot be read: {error.strerror}", Loc(str(file)), _HINT) from error
    except (ValueError, RecursionError) as error:
        raise TinycError("the report is no JSON", Loc(str(file)), _HINT) from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA or "models" not in value:
        raise TinycError(f"no benchmark report of schema {SCHEMA}", Loc(str(file)), _HINT)
    try:
        return from_json(BenchReport, value, "report")
    except ValueError as error:
        raise TinycError(f"the report is damaged: {error}", Loc(str(file)), _HINT) from error


def bench_page(report: BenchReport) -> str:
    """The page. Same report, same bytes. Raises TinycError if Matplotlib is missing."""
    models = [
        {"result": model, "number": number, "charts": _charts(model, number)}
        for number, model in enumerate(report.models, 1)
    ]
    values = {"r": report, "models": models, "figures": _figures, "measures": _measures}
    return render("report/bench.html.j2", values, FILTERS)


def _charts(model: ModelResult, number: int) -> list[Html | None]:
    """Time and memory of the boards, and latency of the desktop runs; a chart of one bar says nothing."""
    counted = [board for board in model.boards if board.instructions]
    modelled = all(board.cycles for board in counted)
    unit = "cycles, modelled" if modelled else "instructions"
    timed = [(cut(visible(b.board)), (b.cycles if modelled else b.instructions) or 0) for b in counted]
    memory = [(cut(visible(board.board)), board.arena_bytes + (board.stack_bytes or 0)) for board in model.boards]
    ran = [(cut(visible(run.name)), round(run.latency.median_us)) for run in model.references]
    charts = (
        (timed, unit, f"{unit}, of each board, model {number}"),
        (memory, "bytes of arena and stack", f"bytes of arena and stack of each board, model {number}"),
        (ran, "microseconds on a desktop computer", f"microseconds of each desktop run, model {number}"),
    )
    return [
        bars(rows, unit, title) if len(rows) > 1 and any(size for _, size in rows) else None
        for rows, unit, title in charts
    ]


def _figures(board: BoardResult) -> list[int | None]:
    microseconds = None if board.milliseconds is None else round(1000 * board.milliseconds)
    memory = (board.arena_bytes, board.stack_bytes, board.code_bytes, board.const_bytes)
    return [board.instructions, board.cycles, microseconds, *memory, board.mismatches]


def _measures(run: ReferenceResult) -> list[tuple[Any, int]]:
    """Numbers and their digits after the point."""
    same = None if run.parity.agreement is None else 100 * run.parity.agreement
    speed = ((run.latency.median_us, 1), (run.times_c, 2), (run.throughput_per_s, 0))
    return [*speed, (same, 1), (run.parity.sqnr_db, 1)]
