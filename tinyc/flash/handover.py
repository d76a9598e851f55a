# SPDX-License-Identifier: Apache-2.0
"""Boards that another program flashes: pyOCD, esptool, picotool, bossac; or a USB drive that a file is copied to."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.board.parts import Flashing
from tinyc.flash.base import FlashError

TOOL_SECONDS = 900
INSTALL = {
    "pyocd": "`pip install pyocd`",
    "esptool": "`pip install esptool`",
    "picotool": "`apt install picotool`, or github.com/raspberrypi/picotool",
    "bossac": "Arduino's own is in the board's core of the Arduino IDE; bossa-cli does not know the board. Or "
    "`--method samba`, which needs no program",
}


@dataclass(frozen=True, slots=True)
class Files:
    """The firmware in the forms that programs take; origin: where the bytes of `binary` belong."""

    elf: Path
    binary: Path
    hex: Path
    uf2: Path
    origin: int


def tool_command(method: str) -> list[str] | None:
    """How the program of a method is started here: from PATH, or a Python package; None when it is not installed."""
    names = {"esptool": ("esptool", "esptool.py")}.get(method, (method,))
    for name in names:
        if (program := shutil.which(name)) is not None:
            return [program]
    if method in ("pyocd", "esptool") and importlib.util.find_spec(method) is not None:
        return [sys.executable, "-m", method]
    return None


def run_tool(method: str, flashing: Flashing, files: Files, port: str | None) -> str:
    """Flashes with the board's program; its name. Raises TinycError when it is not installed, or fails."""
    program = tool_command(method)
    if program is None:
        raise TinycError(f"{method} is not installed", hint=f"{INSTALL[method]}; tinyc hands the firmware to it")
    command = [*program, *_arguments(method, flashing, files, port)]
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, errors="replace", timeout=TOOL_SECONDS
        )
    except subprocess.TimeoutExpired as error:
        raise FlashError(f"{method} did not end in {TOOL_SECONDS} s") from error
    except OSError as error:
        raise TinycError(f"{method} cannot be started: {error.strerror}", hint="run `tinyc doctor`") from error
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        shown = "\n".join(f"  {line}" for line in lines[-6:])
        pack = f"; `pyocd pack install {flashing.pyocd}` if it does not know the target" if method == "pyocd" else ""
        raise FlashError(f"{method} failed:\n{shown}", hint=f"the command was: {' '.join(command)}{pack}")
    return method


def _arguments(method: str, flashing: Flashing, files: Files, port: str | None) -> list[str]:
    if method == "pyocd":
        where = ["--base-address", hex(files.origin)] if files.hex.suffix == ".bin" else []
        return ["load", "--no-wait", "--target", flashing.pyocd, *where, str(files.hex)]
    if method == "picotool":
        return ["load", "--verify", "--execute", str(files.uf2)]
    if port is None:
        raise TinycError(f"{method} needs to know the port", hint="give --port")
    if method == "esptool":
        return ["--port", port, write_command(), hex(files.origin), str(files.binary)]
    return ["--port", port.removeprefix("/dev/"), "--erase", "--write", "--verify", str(files.binary), "--reset"]


def write_command() -> str:
    """What the esptool that is installed calls writing: version 5 deprecates the name of 4, which does not know its."""
    try:
        command = [*(tool_command("esptool") or []), "version"]
        said = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    version = re.search(r"v?(\d+)\.\d+", said)
    return "write-flash" if version is not None and int(version[1]) >= 5 else "write_flash"


def copy_to_drive(flashing: Flashing, files: Files, method: str) -> Path:
    """Copies the UF2 file (or, method `drive`, the binary) to the board's USB drive; where to.

    Raises FlashError when no drive with the board's label, or no UF2 drive, is mounted, or several are.
    """
    source = files.uf2 if method == "uf2" else files.binary
    places = drives(flashing, method)
    label = flashing.drive or "of a UF2 bootloader"
    if not places:
        raise FlashError(
            f"no drive {label} is mounted",
            hint="start the board's bootloader (BOOTSEL, or a double press of reset), and mount its drive",
            exit_code=2,
        )
    if len(places) > 1:
        raise FlashError(
            f"several drives {label} are mounted: {', '.join(map(str, places))}", hint="unplug all but one"
        )
    target = places[0] / source.name
    try:
        shutil.copyfile(source, target)
        os.sync()
    except OSError as error:
        raise FlashError(f"cannot copy the firmware: {error.strerror}", Loc(str(target))) from error
    return target


def drives(flashing: Flashing, method: str) -> list[Path]:
    """The mounted USB drives that a board's file for `uf2` or `drive` may be copied to."""
    return [folder for folder in _mounted() if _is_drive(folder, flashing, method)]


def _is_drive(folder: Path, flashing: Flashing, method: str) -> bool:
    labelled = bool(flashing.drive) and folder.name.upper() == flashing.drive.upper()
    return labelled or (method == "uf2" and not flashing.drive and (folder / "INFO_UF2.TXT").is_file())


def _mounted() -> Iterable[Path]:
    """Folders where drives are mounted on Linux and macOS, and the roots of Windows."""
    user = os.environ.get("USER", "")
    parents = [Path("/media") / user, Path("/run/media") / user, Path("/media"), Path("/Volumes"), *_extra()]
    seen = dict.fromkeys(child for parent in parents if parent.is_dir() for child in sorted(parent.iterdir()))
    return [child for child in seen if child.is_dir()]


def _extra() -> list[Path]:
    """TINYC_DRIVES: one more folder in which drives are mounted."""
    text = os.environ.get("TINYC_DRIVES")
    return [Path(text)] if text else []
