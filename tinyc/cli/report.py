# SPDX-License-Identifier: Apache-2.0
"""`tinyc report`: a build's report as a page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import write_file
from tinyc.base.output_folder import REPORT_FILE
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, guarded
from tinyc.explain.report_page import report_page
from tinyc.verify.report_file import read_report

Folder = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The output folder of `tinyc build`.", show_default=False)
]


def command(
    folder: Folder,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The page.", show_default="FOLDER.html")] = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Write the report of the build in FOLDER as one page of HTML, with charts, that needs nothing else."""
    with guarded(color, json, verbose) as out_to:
        page = report_page(read_report(folder / REPORT_FILE))
        place = out or folder.with_name(f"{folder.resolve().name}.html")
        try:
            write_file(place, page.encode("utf-8"))
        except OSError as error:
            raise TinycError(f"the page cannot be written: {error.strerror}", Loc(str(place)), "choose -o") from error
        out_to.json({"page": str(place)})
        out_to.result(f"page: {place}")
