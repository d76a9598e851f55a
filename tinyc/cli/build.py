"""`tinyc build`: from a trained model to a proved C library."""

from __future__ import annotations

from pathlib import Path
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
from tinyc.cli.show import show_report
from tinyc.pipeline import build


def command(
    model: Model,
    board: BoardName = "cortex-m4",
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Output folder.", show_default="build/<name>")] = None,
    calibration: CalibrationFile = None,
    inputs: InputsFile = None,
    samples: SampleCount = 20,
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
    """Compile MODEL for a board, prove it bit for bit on the emulated board, and report what it costs."""
    with guarded(color, json, verbose) as out_to:
        options = make_options(
            board,
            name,
            numerics,
            optimize,
            calibration,
            toolchain,
            emulator,
            inputs,
            None,
            flash_budget,
            ram_budget,
            memory,
            samples,
        )
        report, folder = run_stages(out_to, lambda progress: build(model, out, options, progress))
        out_to.json(report.to_json() | {"folder": str(folder)})
        show_report(out_to, report, folder)
        if not report.passed:
            raise typer.Exit(1)
