# SPDX-License-Identifier: Apache-2.0
"""`tinyc build`: from a trained model to a proved C library."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.cases import CasesOption, print_verdict
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, guarded
from tinyc.cli.package import show_packages
from tinyc.cli.page_file import page_of, write_page
from tinyc.cli.running import run_stages
from tinyc.cli.settings import FILE, saved_settings
from tinyc.cli.show import show_report
from tinyc.explain.drawing import check_drawing
from tinyc.explain.report_page import report_page
from tinyc.options.build import LIMITS, Options
from tinyc.options.option import Question
from tinyc.package.kinds import kinds_of
from tinyc.package.make import DEFAULT_VERSION, write_packages
from tinyc.pipeline.board_files import RENODE
from tinyc.pipeline.building import build
from tinyc.run.renode import run_renode
from tinyc.verify.report import Report

_WRITE: Question = "What to write"

PackageOption = Annotated[
    str | None,
    typer.Option(
        "--package",
        metavar="KIND,...",
        help="Also packages for build systems: `tinyc package`.",
        show_default="none",
        rich_help_panel=_WRITE,
    ),
]
PageOption = Annotated[
    bool, typer.Option("--report", help="Also the report as a page for a browser.", rich_help_panel=_WRITE)
]
SaveOption = Annotated[
    bool, typer.Option("--save", help=f"Also these options, into {FILE} beside the model.", rich_help_panel=_WRITE)
]
OutOption = Annotated[
    Path | None,
    typer.Option("-o", "--out", help="Output folder.", show_default="build/<name>", rich_help_panel=_WRITE),
]


_NAME = "tinyc build"


@with_model_options(also=("no_proof", "harness", "task", "baud", *LIMITS))
def command(
    model: Model,
    options: Options,
    out: OutOption = None,
    package: PackageOption = None,
    page: PageOption = False,
    save: SaveOption = False,
    form: CasesOption = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Compile MODEL for a board, prove it bit for bit on the emulated board, and report what it costs."""
    with guarded(color, json, verbose, form is not None) as out_to:
        kinds = kinds_of(package) if package is not None else ()
        if kinds and not options.proof:
            raise TinycError("a package holds a proved library", hint="leave out --no-proof, or --package")
        if page:
            check_drawing()  # now, and not after minutes
        try:
            report, folder = run_stages(
                out_to, lambda progress: build(model, out, options, progress, with_front=page), options.effort
            )
        except TinycError as error:
            print_verdict(out_to, form, _NAME, model.name, options.board, error)
            raise
        proof = report.verify if isinstance(report, Report) else None
        print_verdict(out_to, form, _NAME, model.name, report.board, proof)
        problem = _renode_problem(folder) if options.emulator == RENODE and report.passed else None
        renode = {"renode": problem.message if problem else "passed"} if options.emulator == RENODE else {}
        packages = write_packages(folder, kinds, DEFAULT_VERSION) if kinds and report.passed else []
        artifacts: dict[str, Any] = {"packages": [str(place) for place in packages]} if kinds else {}
        if page:
            artifacts["page"] = str(write_page(report_page(report), page_of(folder)))
        if save:
            saved = saved_settings(options, {"out": out, "package": package, "report": page}, model)
        out_to.json(report.to_json() | {"folder": str(folder)} | renode | artifacts)
        show_report(out_to, report, folder)
        show_packages(out_to, packages)
        if page:
            out_to.result(f"page: {artifacts['page']}")
        if save:
            out_to.result(f"options: {saved}, for all commands that are given this model")
        if problem is not None:
            out_to.warn(f"{problem.message}\nhint: {problem.hint}")
            raise typer.Exit(problem.exit_code)
        if isinstance(report, Report) and not report.passed:
            raise typer.Exit(1)


def _renode_problem(folder: Path) -> TinycError | None:
    """Runs renode-test; what is wrong, None if it passed."""
    try:
        run_renode(folder / RENODE)
    except TinycError as error:
        return error
    return None
