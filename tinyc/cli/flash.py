# SPDX-License-Identifier: Apache-2.0
"""`tinyc flash`: firmware of a build onto its board."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tinyc.base.errors import TinycError
from tinyc.cli.options import ColorOption, Json, Verbose
from tinyc.cli.output import Color, Output, guarded
from tinyc.cli.serial_text import DEFAULT_BAUD, Watch, show_ports, watch_port
from tinyc.flash import FlashJob, FlashResult, flash, plan_flash

What = Annotated[
    Path | None,
    typer.Argument(
        metavar="[WHAT]", help="A folder that `tinyc build` wrote, or a .bin or .uf2 file.", show_default=False
    ),
]
Port = Annotated[str | None, typer.Option("--port", "-p", help="Serial port of the board.", show_default="none")]
BoardOption = Annotated[
    str | None, typer.Option("--board", "-b", help="The board.", show_default="the one it was built for")
]
Baud = Annotated[int | None, typer.Option(min=300, help="Baud rate of the port.", show_default="115200 for STM32")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on after an interruption: skip what is on the board already.")
]
Start = Annotated[bool, typer.Option("--start/--no-start", help="Start the firmware afterwards (STM32).")]

Ports = Annotated[bool, typer.Option("--ports", help="List the serial ports of this computer, and flash nothing.")]
MonitorOption = Annotated[
    bool,
    typer.Option("--monitor", help="Then print what the board sends, and send what is typed; alone: only that."),
]
Frames = Annotated[bool, typer.Option("--frames", help="With --monitor: the frames of tinyc's protocol only.")]
Seconds = Annotated[float, typer.Option(min=0, help="With --monitor: stop after so many.", show_default="0: at Ctrl-C")]


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
    FlashMethod | None,
    typer.Option(
        metavar="METHOD",
        help=f"How to flash: {', '.join(FlashMethod)}.",
        show_default="the board's first that is possible here",
    ),
]


def command(
    what: What = None,
    port: Port = None,
    board: BoardOption = None,
    method: MethodOption = None,
    baud: Baud = None,
    resume: Resume = False,
    start: Start = True,
    ports: Ports = False,
    monitor: MonitorOption = False,
    frames: Frames = False,
    seconds: Seconds = 0,
    json: Json = False,
    verbose: Verbose = False,
    color: ColorOption = Color.AUTO,
) -> None:
    """Write firmware to a board, by its serial bootloader or the program that it wants, check it, and print what the
    board sends."""
    with guarded(color, json, verbose) as out:
        if ports:
            if what is not None or monitor:
                raise TinycError("--ports flashes nothing, and listens to none", hint="leave it out, or all others")
            show_ports(out)
            return
        _check(what, port, json=json, monitor=monitor)
        if not monitor and (frames or seconds):
            raise TinycError("--frames and --seconds are of what a board sends", hint="give --monitor and --port too")
        if what is not None:
            job = plan_flash(what, board, port, method.value if method is not None else None, baud)
            out.note(f"{job.board.name}: {len(job.image.data):,} bytes to 0x{job.image.origin:08x} by {job.method}")
            result = _flash(out, job, resume, start)
            out.json(asdict(result))
            out.result(_said(result))
        if monitor and port is not None:
            watch_port(out, port, Watch(baud or DEFAULT_BAUD, frames, seconds))


def _check(what: Path | None, port: str | None, *, json: bool, monitor: bool) -> None:
    """Raises TinycError for options that do not go together."""
    if what is None and not monitor:
        hint = "give the folder of a build; --monitor alone prints what a board sends, --ports lists the ports"
        raise TinycError("nothing says what to flash", hint=hint)
    if monitor and port is None:
        raise TinycError("nothing says where the board is", hint="give --port; --ports lists those of this computer")
    if monitor and json:
        raise TinycError("what a board sends is no JSON", hint="leave out --monitor, or --json")


def _said(result: FlashResult) -> str:
    if result.method in ("stm32", "samba"):
        done = f"flashed and checked in {result.seconds:.1f} s ({result.method}: {result.how})"
    else:
        done = f"handed over, {result.how}"
    return f"{result.board}: {result.flashed_bytes:,} bytes {done}"


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
