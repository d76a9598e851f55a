# SPDX-License-Identifier: Apache-2.0
"""`tinyc verify`: the generated library, or your build of it, against the integer reference or outputs of your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.cli.cases import CasesOption, print_verdict
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, guarded
from tinyc.cli.running import run_stages
from tinyc.cli.show import show_verdict
from tinyc.options.build import LIMITS, Options
from tinyc.pipeline.building import prove_built, verify_model
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.user_build import BuildProof, verify_object, verify_program
from tinyc.verify.report import Report

_NAME = "tinyc verify"


@with_model_options(also=("expect", "wav", "image", *LIMITS), samples=0)
def command(
    model: Model,
    options: Options,
    elf: Annotated[
        Path | None,
        typer.Option(help="Prove the library in a program that you linked for a Cortex-M.", show_default=False),
    ] = None,
    library: Annotated[
        Path | None,
        typer.Option("--object", help="Prove the library that you compiled: .o or .a.", show_default=False),
    ] = None,
    built: Annotated[
        Path | None,
        typer.Option(
            help="Prove the library in this folder; one of `build --no-proof` says so then.", show_default=False
        ),
    ] = None,
    form: CasesOption = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Run MODEL on a board's machine and compare every output byte; names the first layer that differs.

    The folder of a build stands for its model and its options.
    """
    with guarded(color, json, verbose, form is not None) as out:
        try:
            report = run_stages(
                out, lambda progress: _verify(model, options, progress, Given(elf, library, built)), options.effort
            )
        except TinycError as error:
            print_verdict(out, form, _NAME, model.name, options.board, error)
            raise
        out.json(report.to_json())
        print_verdict(out, form, _NAME, model.name, report.board, report.verify)
        show_verdict(out, report)
        if built is not None:
            out.result(f"library: {built}, byte for byte what its model and options give")
        if not report.passed:
            raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class Given:
    """What there is of the library already: a program, an object, or a folder of tinyc's."""

    elf: Path | None
    library: Path | None
    built: Path | None


def _verify(model: Path, options: Options, progress: Progress, given: Given) -> Report | BuildProof:
    if sum(each is not None for each in (given.elf, given.library, given.built)) > 1:
        raise TinycError("--elf, --object and --built are ways to give one build", hint="leave all out but one")
    if given.elf is not None:
        return verify_program(model, given.elf, options, progress)
    if given.library is not None:
        return verify_object(model, given.library, options, progress)
    if given.built is not None:
        return prove_built(model, given.built, options, progress)
    return verify_model(model, options, progress)
