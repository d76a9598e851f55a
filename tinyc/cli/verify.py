"""`tinyc verify`: the generated library against the integer reference, or against outputs of your own."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, guarded
from tinyc.cli.running import run_stages
from tinyc.cli.show import show_verdict
from tinyc.pipeline import Options, verify_model


@with_model_options(samples=0)
def command(
    model: Model,
    options: Options,
    expect: Annotated[
        str | None,
        typer.Option(help="Expected outputs, FILE.npz or FILE.npz:KEY; default: the integer reference."),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Run MODEL on a board's machine and compare every output byte; names the first layer that differs."""
    with guarded(color, json, verbose) as out:
        report = run_stages(out, lambda progress: verify_model(model, replace(options, expect=expect), progress))
        out.json(report.to_json())
        show_verdict(out, report)
        if not report.passed:
            raise typer.Exit(1)
