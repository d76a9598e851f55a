# SPDX-License-Identifier: Apache-2.0
"""`tinyc run`: a model on a flashed board, bit for bit, with measured cycles."""

from __future__ import annotations

from typing import Annotated

import typer

from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.running import run_stages
from tinyc.pipeline import Options
from tinyc.pipeline.device_run import BoardRun, run_on_board

Port = Annotated[str, typer.Option("--port", "-p", help="Serial port of the firmware.", show_default=False)]
Baud = Annotated[int | None, typer.Option(min=300, help="Baud rate.", show_default="of the board's [uart]")]


@with_model_options()
def command(
    model: Model,
    port: Port,
    options: Options,
    baud: Baud = None,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Run MODEL on a board that was flashed with it: compare every output byte, print the cycles measured."""
    with guarded(color, json, verbose) as out:
        found = run_stages(out, lambda progress: run_on_board(model, options, port, baud, progress))
        out.json(found.to_json())
        _show(out, found)
        if not found.passed:
            raise typer.Exit(1)


def _show(out: Output, found: BoardRun) -> None:
    verdict = f"{found.mismatches:,} differ, first in input {found.first_input}" if found.mismatches else "all equal"
    out.result(
        f"{found.name} on {found.board} at {found.port}: {found.output_bytes:,} output bytes of "
        f"{plural(found.inferences, 'input')} against the integer reference: {verdict}"
    )
    for text in found.damaged_guards:
        out.result(f"the library wrote outside its arena: {text}")
    if found.stack_bytes is not None:
        out.result(f"stack    {found.stack_bytes:,} bytes, measured")
    if found.mean_cycles is not None:
        out.result(f"measured {_cycles(found.mean_cycles, found.clock_hz)}")
    if found.modelled_cycles is not None:
        ratio = f"; measured / modelled {found.mean_cycles / found.modelled_cycles:.2f}" if found.mean_cycles else ""
        out.result(f"modelled {_cycles(found.modelled_cycles, found.clock_hz)} ({found.cycle_model}){ratio}")


def _cycles(cycles: int, clock_hz: int) -> str:
    at = f", {1000 * cycles / clock_hz:.3f} ms at {clock_hz / 1e6:g} MHz" if clock_hz else ""
    return f"{cycles:,} cycles an inference{at}"
