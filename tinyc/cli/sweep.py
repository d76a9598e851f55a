# SPDX-License-Identifier: Apache-2.0
"""`tinyc sweep`: models x boards x options, on this machine or a cluster, into one file of results."""

from __future__ import annotations

import csv as tables
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.cases import CasesOption, print_cases
from tinyc.cli.listing import SENTENCE, Listing, figures, text
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.running import run_stages
from tinyc.explain.documents import Case
from tinyc.pipeline.progress import Progress
from tinyc.sweep import Cluster, ResultRow, Store, load_sweep, run_sweep

Spec = Annotated[Path, typer.Argument(metavar="SPEC.toml", help="What to try; docs/sweep.md.", show_default=False)]
Out = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="The SQLite file of results.", show_default="SPEC.sqlite beside SPEC.toml"),
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", metavar="ADDRESS", help="A Dask scheduler: tcp://HOST:8786.", show_default="none"),
]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Processes on this machine.", show_default="one per core")
]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, a line per job.")]
_WITHOUT = ("report",)  # of a row, in a table or CSV


def command(
    spec: Spec,
    out: Out = None,
    scheduler: Scheduler = None,
    workers: Workers = None,
    json: Json = False,
    csv: Csv = False,
    form: CasesOption = None,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Build and prove models for boards with options, on this machine or a cluster, into one file of results.

    What is in the file already is not done again. The exit code is 1 where bytes differ or a job crashed.
    """
    with guarded(color, json, verbose, form is not None) as out_to:
        if csv and (json or form is not None):
            raise TinycError("--json, --csv and --format exclude each other", hint="leave out all but one")
        sweep = load_sweep(spec)
        with Store(out or spec.with_suffix(".sqlite")) as store:

            def work(progress: Progress) -> int:
                def heard(row: ResultRow, left: int) -> None:
                    progress.on_share("sweep", 1 - left / len(sweep.jobs))

                return run_sweep(sweep.jobs, sweep.contents, store, Cluster(scheduler, workers), heard)

            ran = run_stages(out_to, work)
            rows = store.rows(job.key for job in sweep.jobs)
            file = store.path
        out_to.json({"schema": 1, "ran": ran, "file": str(file), "rows": [asdict(row) for row in rows]})
        print_cases(out_to, form, "tinyc sweep", spec.name, [_case(row) for row in rows])
        if csv:
            typer.echo(_csv(rows), nl=False)
        else:
            _show(out_to, rows, ran, file)
        if any(row.status in ("differs", "crashed") for row in rows):
            raise typer.Exit(1)


def _case(row: ResultRow) -> Case:
    outcome: Any = {"differs": "failed", "refused": "skipped", "crashed": "error"}.get(row.status, "passed")
    return Case(f"{row.model} {row.options}".strip(), row.board, outcome, row.status, row.reason or row.status)


def _show(out: Output, rows: Sequence[ResultRow], ran: int, file: Path) -> None:
    rows_table = Listing(
        *text("model", "board", "options", "result"),
        *figures("instructions", "ms", "arena", "flash", "SQNR dB"),
        *SENTENCE,
    )
    for row in rows:
        measured = (row.instructions, row.milliseconds, row.arena_bytes, row.flash_bytes, row.sqnr_db)
        rows_table.add(row.model, row.board, row.options, row.status, *map(_figure, measured), row.reason or "")
    counted = Counter(row.status for row in rows)
    words = ", ".join(f"{count:,} {status}" for status, count in sorted(counted.items()))
    out.result(rows_table, "", f"{plural(len(rows), 'job')}: {words}; {ran:,} of them run now; results: {file}")


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _csv(rows: Sequence[ResultRow]) -> str:
    names = [field.name for field in fields(ResultRow) if field.name not in _WITHOUT]
    text = io.StringIO()
    writer = tables.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()
