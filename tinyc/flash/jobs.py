# SPDX-License-Identifier: Apache-2.0
"""`tinyc flash`: which image goes to which board, by which method, and the doing of it."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.files import read_file
from tinyc.base.serial_line import SerialPort, port_names, touch
from tinyc.board import Board, load_board
from tinyc.board.parts import Flashing
from tinyc.flash.base import Manner, Report, check_image, silent
from tinyc.flash.drives import await_drive, copy_to_drive, drives, shows_itself, was_taken
from tinyc.flash.esp_image import place_esp_image
from tinyc.flash.handover import CLIENTS, Files, run_tool, tool_command
from tinyc.flash.samba import flash_samba
from tinyc.flash.stm32 import flash_stm32
from tinyc.toolchain.device import MANIFEST, read_device
from tinyc.toolchain.image import Image
from tinyc.toolchain.uf2 import read_uf2, uf2

STM32_BAUD = 115_200
SAMBA_BAUD = 921_600  # USB: any number will do
SERIAL = ("stm32", "samba")
_PORT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class FlashJob:
    """What will be done: this image, with this method."""

    board: Board
    flashing: Flashing
    method: str
    image: Image
    files: Files
    port: str | None
    baud: int


@dataclass(frozen=True, slots=True)
class FlashResult:
    """What was done, in words for the user, and numbers."""

    board: str
    method: str
    flashed_bytes: int
    how: str
    seconds: float


def plan_flash(
    what: Path, board_name: str | None, port: str | None, method: str | None = None, baud: int | None = None
) -> FlashJob:
    """The job for a build folder (`build/kws`), or a .bin file for a board that is named.

    Raises TinycError when there is no firmware, the board is not the one that it was built for or cannot be flashed,
    the file is not what the build wrote, or the image does not lie in the board's flash.
    """
    board, image, files = _from_folder(what, board_name) if what.is_dir() else _from_file(what, board_name)
    if board.flashing is None or board.memory is None:
        raise TinycError(
            f"{board.name} is not flashed by tinyc: its file has no [flashing]",
            hint="tinyc boards -v shows which have; docs/boards.md describes the section",
        )
    chosen = _method(board.flashing, method, port, what.suffix.lower() == ".uf2")
    if chosen in SERIAL and port is None:
        raise TinycError(
            f"the method {chosen} needs the board's port", hint="give --port; `tinyc flash --ports` lists them"
        )
    origin = board.memory.flash_origin
    if chosen == "esptool":
        origin = 0  # esptool's addresses are offsets in the flash
        image = place_esp_image(image, Loc(str(files.binary)))
        files = replace(files, origin=image.origin)
    check_image(image, origin, board.memory.flash_bytes, Loc(str(files.binary)))
    default = STM32_BAUD if chosen == "stm32" else SAMBA_BAUD
    return FlashJob(board, board.flashing, chosen, image, files, port, baud or default)


def _from_folder(folder: Path, board_name: str | None) -> tuple[Board, Image, Files]:
    inner = folder if (folder / MANIFEST).is_file() else folder / "device"
    device = read_device(inner)
    board = load_board(board_name or device.board_file or device.board)
    if board.name != device.board:
        raise TinycError(
            f"the firmware was built for {device.board}, not for {board.name}",
            Loc(str(inner)),
            f"`tinyc build MODEL --board {board.name}`",
        )
    stem = inner / device.model
    elf, binary, hex_file, uf2 = (stem.with_suffix(end) for end in (".elf", ".bin", ".hex", ".uf2"))
    files = Files(elf, binary, hex_file, uf2, device.origin)
    data = _read(files.binary)
    if hashlib.sha256(data).hexdigest() != device.sha256:
        raise TinycError("the file is not what the build wrote", Loc(str(files.binary)), "build again")
    image = Image(device.origin, data)
    if board.flashing is not None and board.flashing.uf2_family and _read(uf2_file := files.uf2) != _uf2(image, board):
        raise TinycError("the file is not what the build wrote", Loc(str(uf2_file)), "build again")
    return board, image, files


def _uf2(image: Image, board: Board) -> bytes:
    assert board.flashing is not None
    return uf2(image, board.flashing.uf2_family)


def _from_file(file: Path, board_name: str | None) -> tuple[Board, Image, Files]:
    if not file.is_file():
        raise TinycError("there is no such folder or file", Loc(str(file)), "`tinyc build` makes the folder")
    if board_name is None:
        raise TinycError("a file does not say which board it is for", Loc(str(file)), "give --board")
    board = load_board(board_name)
    if file.suffix.lower() == ".uf2":
        family = board.flashing.uf2_family if board.flashing is not None else 0
        if not family:
            raise TinycError(f"{board.name} takes no UF2 file", Loc(str(file)), "give a .bin file, or another --board")
        image = read_uf2(_read(file), family, Loc(str(file)))
        return board, image, Files(file, file, file, file, image.origin)
    origin = board.memory.flash_origin if board.memory is not None else 0
    return board, Image(origin, _read(file)), Files(file, file, file, file, origin)


def _read(file: Path) -> bytes:
    try:
        return read_file(file)
    except OSError as error:
        raise TinycError(
            f"cannot read the firmware: {error.strerror}", Loc(str(file)), "check the file's permissions"
        ) from error


def _method(flashing: Flashing, method: str | None, port: str | None, is_uf2: bool) -> str:
    """The one asked for; else the board's first that can be used now: its program installed, its drive mounted, its
    port given. is_uf2: of those that take a UF2 file."""
    methods = [name for name in flashing.methods if name in ("uf2", "picotool") or not is_uf2]
    if method is not None:
        if method not in methods:
            raise TinycError(f"the board cannot be flashed by {method}", hint=f"by: {', '.join(methods)}")
        return method
    return next((name for name in methods if _usable(name, flashing, port)), methods[0])


def _usable(method: str, flashing: Flashing, port: str | None) -> bool:
    if method in SERIAL:
        return port is not None
    if method in ("uf2", "drive"):
        return bool(drives(flashing, method)) or (method == "uf2" and _can_touch(port, flashing))
    return tool_command(method) is not None and (port is not None or not CLIENTS[method].needs_port)


def flash(job: FlashJob, *, resume: bool = False, start: bool = True, report: Report = silent) -> FlashResult:
    """Does the job. Raises TinycError; nothing is erased before board and size have been checked."""
    began = time.monotonic()
    how = _do(job, Manner(resume, start, report))
    return FlashResult(job.board.name, job.method, len(job.image.data), how, time.monotonic() - began)


def _do(job: FlashJob, manner: Manner) -> str:
    flashing = job.flashing
    if job.method not in SERIAL and _can_touch(job.port, flashing):
        _start_bootloader(job.port or "", flashing.enter)
        await_drive(flashing, job.method)
    if job.method in ("uf2", "drive"):
        return _to_drive(job, manner.report)
    if job.method not in SERIAL:
        return f"by {run_tool(job.method, flashing, job.files, job.image, job.port, manner.report)}"
    origin = job.board.memory.flash_origin if job.board.memory is not None else 0
    port = _enter_by_touch(job.port or "", flashing.enter)
    with SerialPort(port, job.baud, even_parity=job.method == "stm32") as line:
        line.sequence(step for step in flashing.enter if not step.startswith("touch"))
        if job.method == "stm32":
            done = flash_stm32(line, flashing, origin, job.image, manner)
            how = f"chip 0x{done.chip_id:03x}, {done.erased} sectors written, {done.unchanged} kept"
            if manner.start and not done.started:
                how += "; it did not say that it starts the firmware: press reset, with BOOT0 low"
        else:
            offset = flashing.samba.offset if flashing.samba is not None else 0
            how = f"bootloader {flash_samba(line, offset, job.image, report=manner.report)}"
        line.sequence(flashing.leave)
    return how


def _to_drive(job: FlashJob, report: Report) -> str:
    """The file on the board's drive, in the form that it takes; where it was copied to, and what the board did."""
    flashing, files = job.flashing, job.files
    takes_uf2 = job.method == "uf2"
    name = files.binary.with_suffix(".uf2").name if takes_uf2 else files.binary.name
    data = uf2(job.image, flashing.uf2_family) if takes_uf2 else job.image.data
    places = drives(flashing, job.method)
    watched = takes_uf2 and len(places) == 1 and shows_itself(places[0])
    target = copy_to_drive(flashing, name, data, job.method, report)
    what = was_taken(target.parent, job.image, flashing.uf2_family, report) if watched else ""
    return f"copied to {target}" + (f": {what}" if what else "")


def _can_touch(port: str | None, flashing: Flashing) -> bool:
    """Whether opening the port starts the board's bootloader, and the port is there."""
    touches = any(step.startswith("touch") for step in flashing.enter)
    return touches and port is not None and (Path(port).exists() or port in port_names())


def _start_bootloader(port: str, steps: tuple[str, ...]) -> None:
    """Before a program, or a copy to the drive that appears, has the board to itself."""
    _enter_by_touch(port, steps)
    for step in steps:
        if step.startswith("wait"):
            time.sleep(float(step.split()[1]))


def _enter_by_touch(port: str, steps: tuple[str, ...]) -> str:
    """Arduino boards start their bootloader when the port is opened at a certain baud rate; then it comes back."""
    for step in steps:
        if step.startswith("touch"):
            touch(port, int(step.split()[1]))
            deadline = time.monotonic() + _PORT_SECONDS
            while not Path(port).exists() and port.startswith("/dev/") and time.monotonic() < deadline:
                time.sleep(0.1)
    return port
