# SPDX-License-Identifier: Apache-2.0
"""`tinyc report`: a build's report as a page for a browser."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import Loc, TinycError
from tinyc.base.output_folder import REPORT_FILE
from tinyc.bench.page import bench_page, read_bench
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.cli.page_file import page_of, write_page
from tinyc.explain.documents import node_data
from tinyc.explain.report_page import report_page
from tinyc.sweep.page import sweep_page
from tinyc.sweep.store import holds_results, read_results
from tinyc.verify.report_file import read_report


class DataFormat(StrEnum):
    """Formats in which what layers cost can be printed."""

    MODEL_EXPLORER = "model-explorer"


Folder = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER",
        help="The output folder of `tinyc build`, what `tinyc bench --json` printed, or a sweep's file of results.",
        show_default=False,
    ),
]


def command(
    folder: Folder,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page.", show_default="FOLDER.html")] = None,
    form: Annotated[
        DataFormat | None,
        typer.Option("--format", help="Print what layers cost as this, and write no page.", show_default=False),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Write the report of a build, a benchmark or a sweep as one page of HTML that needs nothing else."""
    with guarded(color, json, verbose, form is not None) as out_to:
        if folder.is_file():
            _other(out_to, folder, out, form)
            return
        report = read_report(folder / REPORT_FILE)
        if form is not None:
            out_to.document(node_data(report))
            return
        place = write_page(report_page(report), out or page_of(folder))
        out_to.json({"page": str(place)})
        out_to.result(f"page: {place}")


def _other(out_to: Output, file: Path, out: Path | None, form: DataFormat | None) -> None:
    """The page of a benchmark, or of a sweep."""
    if form is not None:
        raise TinycError("--format is of a build", Loc(str(file)), "give the output folder of `tinyc build`")
    sweep = holds_results(file)
    page = sweep_page(read_results(file), file.name) if sweep else bench_page(read_bench(file))
    place = write_page(page, out or file.with_suffix(".html"))
    out_to.json({"page": str(place)})
    out_to.result(f"page: {place}")
