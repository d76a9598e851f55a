"""`tinyc verify`: the generated library against the integer reference, or against outputs of your own."""

from __future__ import annotations

from typing import Annotated

import typer

from tinyc.cli.options import (
    BoardName,
    CalibrationFile,
    ColorOption,
    Emulator,
    FlashBudget,
    InputsFile,
    Json,
    MemoryFor,
    MemoryOption,
    Model,
    ModelName,
    NumericsName,
    OptimizeFor,
    RamBudget,
    SampleCount,
    ToolchainName,
    Verbose,
    make_options,
)
from tinyc.cli.output import Color, guarded
from tinyc.cli.running import run_stages
from tinyc.cli.show import show_verdict
from tinyc.pipeline import verify_model


def command(
    model: Model,
    board: BoardName = "cortex-m4",
    inputs: InputsFile = None,
    expect: Annotated[
        str | None,
        typer.Option(help="Expected outputs, FILE.npz or FILE.npz:KEY; default: the integer reference."),
    ] = None,
    samples: SampleCount = 0,
    calibration: CalibrationFile = None,
    name: ModelName = None,
    numerics: NumericsName = None,
    optimize: OptimizeFor = OptimizeFor.SPEED,
    flash_budget: FlashBudget = None,
    ram_budget: RamBudget = None,
    memory: MemoryOption = MemoryFor.BALANCED,
    toolchain: ToolchainName = None,
    emulator: Emulator = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Run MODEL on a board's machine and compare every output byte; names the first layer that differs."""
    with guarded(color, json, verbose) as out:
        options = make_options(
            board,
            name,
            numerics,
            optimize,
            calibration,
            toolchain,
            emulator,
            inputs,
            expect,
            flash_budget,
            ram_budget,
            memory,
            samples,
        )
        report = run_stages(out, lambda progress: verify_model(model, options, progress))
        out.json(report.to_json())
        show_verdict(out, report)
        if not report.passed:
            raise typer.Exit(1)
