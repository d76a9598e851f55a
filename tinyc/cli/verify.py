# SPDX-License-Identifier: Apache-2.0
"""`tinyc verify`: the generated library, or your build of it, against the integer reference or outputs of your own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.cases import CasesOption, print_verdict
from tinyc.cli.options import ColorOption, Image, Json, Model, Verbose, Wav, with_model_options
from tinyc.cli.output import Color, guarded
from tinyc.cli.running import run_stages
from tinyc.cli.show import show_verdict
from tinyc.pipeline import BuildProof, Options, Progress, verify_model, verify_object, verify_program
from tinyc.verify.report import Report

_NAME = "tinyc verify"


@with_model_options(samples=0)
def command(
    model: Model,
    options: Options,
    expect: Annotated[
        str | None,
        typer.Option(help="Expected outputs, FILE.npz or FILE.npz:KEY; default: the integer reference."),
    ] = None,
    wav: Wav = None,
    image: Image = None,
    elf: Annotated[
        Path | None,
        typer.Option(help="Prove the library in a program that you linked for a Cortex-M.", show_default=False),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option("--object", help="Prove the library that you compiled: .o or .a.", show_default=False),
    ] = None,
    form: CasesOption = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Run MODEL on a board's machine and compare every output byte; names the first layer that differs."""
    with guarded(color, json, verbose, form is not None) as out:
        chosen = replace(options, expect=expect, wav=wav, image=image)
        try:
            report = run_stages(out, lambda progress: _verify(model, chosen, progress, elf, library))
        except TinycError as error:
            print_verdict(out, form, _NAME, model.name, options.board, error)
            raise
        out.json(report.to_json())
        print_verdict(out, form, _NAME, model.name, report.board, report.verify)
        show_verdict(out, report)
        if not report.passed:
            raise typer.Exit(1)


def _verify(
    model: Path, options: Options, progress: Progress, elf: Path | None, library: Path | None
) -> Report | BuildProof:
    if elf is not None and library is not None:
        raise TinycError("--elf and --object are two ways to give one build", hint="leave one out")
    if elf is not None:
        return verify_program(model, elf, options, progress)
    if library is not None:
        return verify_object(model, library, options, progress)
    return verify_model(model, options, progress)
