# SPDX-License-Identifier: Apache-2.0
"""`tinyc run`: a model on a flashed board, bit for bit, with measured cycles; or a recording or pictures through
its front end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tinyc.base.errors import TinycError
from tinyc.cli.options import ColorOption, Json, Model, Verbose, with_model_options
from tinyc.cli.output import Color, Output, guarded, plural
from tinyc.cli.running import run_stages
from tinyc.options.build import Options
from tinyc.pipeline.device_run import BoardRun, DeviceLine, run_on_board
from tinyc.pipeline.hearing import Heard, Hearing, Listening, hear
from tinyc.pipeline.looking import Looking, Seen, look

Port = Annotated[str | None, typer.Option("--port", "-p", help="Serial port of the firmware.", show_default=False)]
Baud = Annotated[int | None, typer.Option(min=300, help="Baud rate.", show_default="of the board's [uart]")]


Labels = Annotated[
    Path | None,
    typer.Option(help="Names of the outputs: a line each, or `labels` of an .npz.", show_default="numbers"),
]

Smooth = Annotated[int, typer.Option(min=1, help="With --wav: average so many outputs.")]


@with_model_options(also=("wav", "image"))
def command(
    model: Model,
    options: Options,
    port: Port = None,
    baud: Baud = None,
    labels: Labels = None,
    smooth: Smooth = 1,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Run MODEL on a board that was flashed with it: compare every output byte, print the cycles measured.

    With --wav, stream a recording through its front end and print what the model hears when; with --image, give
    pictures to its camera and print what it sees. Without --port on the board's machine.
    """
    line = None if port is None else DeviceLine(port, baud)
    with guarded(color, json, verbose) as out:
        if options.wav is not None:
            listening = Listening(labels, smooth, line)
            heard = run_stages(out, lambda progress: hear(model, options, listening, progress))
            out.json(heard.to_json())
            show_heard(out, heard)
            raise typer.Exit(0 if heard.passed else 1)
        if options.image is not None:
            seen = run_stages(out, lambda progress: look(model, options, Listening(labels, 1, line), progress))
            out.json(seen.to_json())
            show_seen(out, seen)
            raise typer.Exit(0 if seen.passed else 1)
        if port is None:
            hint = "--port PORT runs it on a flashed board; --wav FILE or --image FILE alone run it in the emulator"
            raise TinycError("nothing says where to run the model", hint=hint)
        found = run_stages(out, lambda progress: run_on_board(model, options, port, baud, progress))
        out.json(found.to_json())
        _show(out, found)
        if not found.passed:
            raise typer.Exit(1)


def show_heard(out: Output, found: Hearing) -> None:
    """What was heard when, and the verdict."""
    for heard in found.heard:
        out.result(f"{heard.at_s:8.2f} s  {_said(heard)}")
    verdict = f"{found.mismatches:,} differ, first in run {found.first_input}" if found.mismatches else "all equal"
    out.result(
        f"{found.name} on {found.machine}: {found.seconds:.2f} s of {found.recording} in {plural(found.runs, 'run')}, "
        f"{found.output_bytes:,} output bytes against the integer reference: {verdict}"
    )
    for text in found.damaged_guards:
        out.result(f"the library wrote outside its arena: {text}")


def _said(answer: Heard | Seen) -> str:
    score = "" if answer.score is None else f"  {answer.score:.2f}"
    return f"{answer.label or '-'}{score}"


def show_seen(out: Output, found: Looking) -> None:
    """What was seen on each picture, and the verdict."""
    width = max(len(seen.picture) for seen in found.seen)
    for seen in found.seen:
        out.result(f"{seen.picture:{width}}  {_said(seen)}")
    verdict = f"{found.mismatches:,} differ, first in picture {found.first_input}" if found.mismatches else "all equal"
    out.result(
        f"{found.name} on {found.machine}: {plural(len(found.seen), 'picture')}, "
        f"{found.output_bytes:,} output bytes against the integer reference: {verdict}"
    )
    for text in found.damaged_guards:
        out.result(f"the library wrote outside its arena: {text}")


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
    mean = found.mean_cycles
    if mean is not None and found.emulated:
        out.result(f"timer    {mean:,} ticks of what answers at {found.port}, a program: no cycles of {found.board}")
    elif mean is not None:
        out.result(f"measured {_cycles(mean, found.clock_hz)}")
    if found.modelled_cycles is not None:
        ratio = f"; measured / modelled {mean / found.modelled_cycles:.2f}" if mean and not found.emulated else ""
        out.result(f"modelled {_cycles(found.modelled_cycles, found.clock_hz)} ({found.cycle_model}){ratio}")


def _cycles(cycles: int, clock_hz: int) -> str:
    at = f", {1000 * cycles / clock_hz:.3f} ms at {clock_hz / 1e6:g} MHz" if clock_hz else ""
    return f"{cycles:,} cycles an inference{at}"
