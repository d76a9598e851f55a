# SPDX-License-Identifier: Apache-2.0
"""`tinyc estimate`: what a model will cost on boards, without compiling or running anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from tinyc.cli.listing import SENTENCE, FactList, Listing, figures, text
from tinyc.cli.options import ColorOption, Json, Model, Verbose, board_names, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
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

    -b takes several boards, with commas between them or repeated, or `all`.
    """
    with guarded(color, json, verbose) as out:
        names = board_names(options.board)

        def work(progress: Progress) -> list[Estimate]:
            return [estimate_model(model, replace(options, board=name), progress) for name in names]

        estimates = run_stages(out, work, options.effort)
        out.json({"estimates": [each.to_json() for each in estimates]})
        _show(out, estimates, layers)
        if not any(each.fits for each in estimates):
            raise typer.Exit(1)


def _show(out: Output, estimates: Sequence[Estimate], layers: bool) -> None:
    is_timed = all(each.milliseconds is not None for each in estimates)
    energy = any(each.microjoules is not None for each in estimates)
    names = ("instructions", "cycles", "ms", *["uJ"] * energy, "arena", "stack", "constants", "code")
    rows = Listing(
        *text("board"),
        *figures(*names, spare=["cycles"] * is_timed),
        *text("fits"),
        *SENTENCE,
    )
    for each in estimates:
        rows.add(
            each.board,
            f"{each.instructions:,}",
            "-" if each.cycles is None else f"{each.cycles:,}",
            "-" if each.milliseconds is None else f"{each.milliseconds:,.2f}",
            *["-" if each.microjoules is None else f"{each.microjoules:,.0f}"] * energy,
            f"{each.arena_bytes:,}",
            "-" if each.stack_bytes is None else f"<= {each.stack_bytes:,}",
            f"{each.const_bytes:,}",
            f"{each.code_bytes:,}",
            "no" if each.problem else "yes",
            each.problem or "",
        )
    first = estimates[0]
    out.result(f"{first.model}: {plural(first.macs, 'MAC')}; arena and constants are exact, the rest is estimated", "")
    out.result(rows, "", _errors(estimates))
    for each in estimates if layers else ():
        out.result("", _layers(each))


def _errors(estimates: Sequence[Estimate]) -> FactList:
    """How far the figures are from what is built, and on which of the boards."""
    facts = FactList()
    boards: dict[tuple[str, str], list[str]] = {}
    for each in estimates:
        boards.setdefault(("instructions", f"error: {each.error}"), []).append(each.board)
    for each in estimates:
        boards.setdefault(("cycles", each.cycle_error or ""), []).append(each.board)
    for each in estimates:
        boards.setdefault(("uJ", f"these cycles at {each.energy}" if each.energy else ""), []).append(each.board)
    for (what, words), names in boards.items():
        if words:
            facts.add(what, words if len(estimates) == 1 else f"{', '.join(names)}: {words}")
    return facts


def _layers(estimate: Estimate) -> Listing:
    rows = Listing(
        *figures("step"),
        *text("layer", "operator", "kernel"),
        *figures("MACs", "constants", "instructions", "cycles"),
        title=f"on {estimate.board}",
    )
    for layer in estimate.layers:
        rows.add(
            layer.step,
            layer.name,
            layer.op,
            layer.kernel,
            f"{layer.macs:,}" if layer.macs else "-",
            f"{layer.const_bytes:,}" if layer.const_bytes else "-",
            f"{layer.instructions:,}",
            "-" if layer.cycles is None else f"{layer.cycles:,}",
        )
    return rows
