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
from tinyc.pipeline.device_run import BoardRun, DeviceLine, mean, run_on_board
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
            heard = run_stages(out, lambda progress: hear(model, options, listening, progress), options.effort)
            out.json(heard.to_json())
            show_heard(out, heard)
            raise typer.Exit(0 if heard.passed else 1)
        if options.image is not None:
            seen = run_stages(
                out, lambda progress: look(model, options, Listening(labels, 1, line), progress), options.effort
            )
            out.json(seen.to_json())
            show_seen(out, seen)
            raise typer.Exit(0 if seen.passed else 1)
        if port is None:
            hint = "--port PORT runs it on a flashed board; --wav FILE or --image FILE alone run it in the emulator"
            raise TinycError("nothing says where to run the model", hint=hint)
        board_run = run_stages(out, lambda progress: run_on_board(model, options, port, baud, progress), options.effort)
        out.json(board_run.to_json())
        _show(out, board_run)
        if not board_run.passed:
            raise typer.Exit(1)


def show_heard(out: Output, hearing: Hearing) -> None:
    """What was heard when, and the verdict."""
    for heard in hearing.heard:
        out.result(f"{heard.at_s:8.2f} s  {_said(heard)}")
    verdict = (
        f"{hearing.mismatches:,} differ, first in run {hearing.first_input}" if hearing.mismatches else "all equal"
    )
    runs = plural(hearing.runs, "run")
    out.result(
        f"{hearing.name} on {hearing.machine}: {hearing.seconds:.2f} s of {hearing.recording} in {runs}, "
        f"{hearing.output_bytes:,} output bytes against the integer reference: {verdict}"
    )
    for text in hearing.damaged_guards:
        out.result(f"the library wrote outside its arena: {text}")


def _said(answer: Heard | Seen) -> str:
    score = "" if answer.score is None else f"  {answer.score:.2f}"
    return f"{answer.label or '-'}{score}"


def show_seen(out: Output, looking: Looking) -> None:
    """What was seen on each picture, and the verdict."""
    width = max(len(seen.picture) for seen in looking.seen)
    for seen in looking.seen:
        out.result(f"{seen.picture:{width}}  {_said(seen)}")
    verdict = (
        f"{looking.mismatches:,} differ, first in picture {looking.first_input}" if looking.mismatches else "all equal"
    )
    out.result(
        f"{looking.name} on {looking.machine}: {plural(len(looking.seen), 'picture')}, "
        f"{looking.output_bytes:,} output bytes against the integer reference: {verdict}"
    )
    for text in looking.damaged_guards:
        out.result(f"the library wrote outside its arena: {text}")


def _show(out: Output, board_run: BoardRun) -> None:
    verdict = (
        f"{board_run.mismatches:,} differ, first in input {board_run.first_input}"
        if board_run.mismatches
        else "all equal"
    )
    out.result(
        f"{board_run.name} on {board_run.board} at {board_run.port}: {board_run.output_bytes:,} output bytes of "
        f"{plural(board_run.inferences, 'input')} against the integer reference: {verdict}"
    )
    for text in board_run.damaged_guards:
        out.result(f"the library wrote outside its arena: {text}")
    if board_run.stack_bytes is not None:
        out.result(f"stack    {board_run.stack_bytes:,} bytes, measured")
    cycles, ticks = board_run.mean_cycles, mean(board_run.ticks)
    if ticks is not None:
        out.result(
            f"timer    {ticks:,} ticks of what answers at {board_run.port}, a program: no cycles of {board_run.board}"
        )
    if cycles is not None:
        out.result(f"measured {_cycles(cycles, board_run.clock_hz)}")
    if board_run.modelled_cycles is not None:
        ratio = f"; measured / modelled {cycles / board_run.modelled_cycles:.2f}" if cycles else ""
        out.result(
            f"modelled {_cycles(board_run.modelled_cycles, board_run.clock_hz)} ({board_run.cycle_model}){ratio}"
        )


def _cycles(cycles: int, clock_hz: int) -> str:
    at = f", {1000 * cycles / clock_hz:.3f} ms at {clock_hz / 1e6:g} MHz" if clock_hz else ""
    return f"{cycles:,} cycles an inference{at}"
