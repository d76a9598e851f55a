# SPDX-License-Identifier: Apache-2.0
"""`tinyc estimate`: what a model will cost on boards, without compiling or running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer
from rich.text import Text

from tinyc.cli.options import ColorOption, Json, Model, Verbose, board_names, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural, short, table
from tinyc.cli.running import run_stages
from tinyc.explain.estimate import Estimate
from tinyc.options.build import Options
from tinyc.pipeline.estimating import estimate_model
from tinyc.pipeline.progress import Progress

Layers = Annotated[bool, typer.Option("--layers", help="A line for each layer too.")]


@with_model_options(without=("inputs", "samples", "sequence", "toolchain", "emulator"))
def command(
    model: Model,
    options: Options,
    layers: Layers = False,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Say in a moment what MODEL will cost on a board; compiles and runs nothing.

    --board takes several names with commas between them, or `all`.
    """
    with guarded(color, json, verbose) as out:
        names = board_names(options.board)

        def work(progress: Progress) -> list[Estimate]:
            return [estimate_model(model, replace(options, board=name), progress) for name in names]

        estimates = run_stages(out, work)
        out.json({"estimates": [each.to_json() for each in estimates]})
        _show(out, estimates, layers)
        if not any(each.fits for each in estimates):
            raise typer.Exit(1)


def _show(out: Output, estimates: Sequence[Estimate], layers: bool) -> None:
    rows = table(
        "",
        *("board", "instructions", "error", "cycles", "ms", "uJ", "arena", "stack", "constants", "code", "fits"),
        right=("instructions", "cycles", "ms", "uJ", "arena", "stack", "constants", "code"),
    )
    for each in estimates:
        rows.add_row(
            Text(each.board),
            f"{each.instructions:,}",
            each.error,
            "-" if each.cycles is None else f"{each.cycles:,}",
            "-" if each.milliseconds is None else f"{each.milliseconds:,.2f}",
            "-" if each.microjoules is None else f"{each.microjoules:,.0f}",
            f"{each.arena_bytes:,}",
            "-" if each.stack_bytes is None else f"<= {each.stack_bytes:,}",
            f"{each.const_bytes:,}",
            f"{each.code_bytes:,}",
            "yes" if each.problem is None else Text(each.problem),
        )
    first = estimates[0]
    out.result(f"{first.model}: {plural(first.macs, 'MAC')}; arena and constants are exact, the rest is estimated\n")
    out.result(rows)
    for words in dict.fromkeys(f"cycles: {each.cycle_error}" for each in estimates if each.cycle_error):
        out.result(Text(words))
    for words in dict.fromkeys(f"uJ: these cycles at {each.energy}" for each in estimates if each.energy):
        out.result(Text(words))
    for each in estimates if layers else ():
        out.result("", _layers(each))


def _layers(estimate: Estimate) -> object:
    rows = table(
        f"on {estimate.board}",
        *("step", "layer", "operator", "kernel", "MACs", "constants", "instructions", "cycles"),
        right=("step", "MACs", "constants", "instructions", "cycles"),
    )
    for layer in estimate.layers:
        rows.add_row(
            str(layer.step),
            Text(short(layer.name)),
            layer.op,
            layer.kernel,
            f"{layer.macs:,}" if layer.macs else "-",
            f"{layer.const_bytes:,}" if layer.const_bytes else "-",
            f"{layer.instructions:,}",
            "-" if layer.cycles is None else f"{layer.cycles:,}",
        )
    return rows
