# SPDX-License-Identifier: Apache-2.0
"""`tinyc flash`: firmware of a build onto its board."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.flash import FlashJob, FlashResult, flash, plan_flash

What = Annotated[
    Path,
    typer.Argument(
        metavar="WHAT", help="A folder that `tinyc build` wrote, or a .bin or .uf2 file.", show_default=False
    ),
]
Port = Annotated[
    str | None, typer.Option("--port", "-p", help="Serial port of the board's bootloader.", show_default="none")
]
BoardOption = Annotated[
    str | None, typer.Option("--board", "-b", help="The board.", show_default="the one it was built for")
]
Baud = Annotated[
    int | None, typer.Option(min=1200, help="Baud rate of the bootloader.", show_default="115200 for STM32")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on after an interruption: skip what is on the board already.")
]
Start = Annotated[bool, typer.Option("--start/--no-start", help="Start the firmware afterwards (STM32).")]


class FlashMethod(StrEnum):
    """How it is flashed."""

    STM32 = "stm32"
    SAMBA = "samba"
    PYOCD = "pyocd"
    OPENOCD = "openocd"
    ESPTOOL = "esptool"
    PICOTOOL = "picotool"
    BOSSAC = "bossac"
    DFU = "dfu"
    NRFUTIL = "nrfutil"
    TEENSY = "teensy"
    UF2 = "uf2"
    DRIVE = "drive"


MethodOption = Annotated[
    FlashMethod | None, typer.Option(help="How to flash.", show_default="the board's first that is possible here")
]


def command(
    what: What,
    port: Port = None,
    board: BoardOption = None,
    method: MethodOption = None,
    baud: Baud = None,
    resume: Resume = False,
    start: Start = True,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Write firmware to a board, by its serial bootloader or the program that it wants, and check it."""
    with guarded(color, json, verbose) as out:
        job = plan_flash(what, board, port, method.value if method is not None else None, baud)
        out.note(f"{job.board.name}: {len(job.image.data):,} bytes to 0x{job.image.origin:08x} by {job.method}")
        result = _flash(out, job, resume, start)
        out.json(asdict(result))
        out.result(
            f"{result.board}: {result.flashed_bytes:,} bytes flashed and checked in {result.seconds:.1f} s "
            f"({result.method}: {result.how})"
            if result.method in ("stm32", "samba")
            else f"{result.board}: {result.flashed_bytes:,} bytes handed over, {result.how}"
        )


def _flash(out: Output, job: FlashJob, resume: bool, start: bool) -> FlashResult:
    columns = (TextColumn("{task.description:<8}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    shown = out.stderr.is_terminal and not out.json_mode
    with Progress(*columns, console=out.stderr, transient=True, disable=not shown) as bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        return flash(job, resume=resume, start=start, report=report)
