# SPDX-License-Identifier: Apache-2.0
"""Boards that appear as a USB drive: a file is copied there, and the board starts it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from tinyc.base.errors import Loc
from tinyc.board.parts import Flashing
from tinyc.flash.base import FlashError, Report
from tinyc.toolchain.image import Image
from tinyc.toolchain.uf2 import BLOCK, read_uf2

INFO, CURRENT = "INFO_UF2.TXT", "CURRENT.UF2"  # what bootloaders show, by the format's page
ACCEPT_SECONDS = 15.0
APPEAR_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_AGAIN = "start the bootloader again, and flash again"


def copy_to_drive(flashing: Flashing, name: str, data: bytes, method: str, report: Report) -> Path:
    """Copies the file (of method `uf2`, or `drive`) to the board's USB drive, as `name`; where to.

    Raises FlashError when no drive with the board's label, or no UF2 drive, is mounted, or several are.
    """
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
    target = places[0] / name
    try:
        _write(target, data, report)
    except OSError as error:
        if not shows_itself(places[0]):  # the board had all blocks before the copy was closed, and started
            return target
        raise FlashError(f"cannot copy the firmware: {error.strerror}", Loc(str(target))) from error
    return target


def _write(target: Path, data: bytes, report: Report) -> None:
    """Block by block, each on its way before the next: progress is that of the board, not of a cache."""
    with target.open("wb") as file:
        for at in range(0, len(data), 64 * BLOCK):
            report("write", at, len(data))
            file.write(data[at : at + 64 * BLOCK])
            file.flush()
            os.fsync(file.fileno())
    report("write", len(data), len(data))


def was_taken(folder: Path, image: Image, family: int, report: Report) -> str:
    """Waits until a UF2 bootloader has started the firmware, and its drive has gone; what is known then.

    A board that stays in its bootloader has not got all blocks. If it shows its flash, that is compared. Raises
    FlashError.
    """
    report("verify", 0, 1)
    deadline = time.monotonic() + ACCEPT_SECONDS
    while shows_itself(folder):
        if time.monotonic() > deadline:
            return _read_back(folder, image, family)
        time.sleep(_LOOK_SECONDS)
    report("verify", 1, 1)
    return "the board has taken every block, and started"


def shows_itself(folder: Path) -> bool:
    """Whether the drive is that of a UF2 bootloader, which goes away when it has taken the file."""
    try:
        return any(entry.name.upper() == INFO for entry in folder.iterdir())
    except OSError:
        return False


def _read_back(folder: Path, image: Image, family: int) -> str:
    """What a board that has not started says of its flash."""
    try:
        shown = read_uf2((folder / CURRENT).read_bytes(), family, Loc(str(folder / CURRENT)))
    except OSError as error:
        raise FlashError(
            f"the board has not started within {ACCEPT_SECONDS:g} s: its bootloader has not got every block",
            Loc(str(folder)),
            _AGAIN,
        ) from error
    at = image.origin - shown.origin
    if at < 0 or shown.data[at : at + len(image.data)] != image.data:
        raise FlashError("what was copied is not in the board's flash", Loc(str(folder / CURRENT)), _AGAIN)
    return "its flash is right, but the board has not started: press reset"


def await_drive(flashing: Flashing, method: str) -> None:
    """Waits a while for the drive of a board that was told to start its bootloader."""
    deadline = time.monotonic() + APPEAR_SECONDS
    while not drives(flashing, method) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def drives(flashing: Flashing, method: str) -> list[Path]:
    """The mounted USB drives that a board's file for `uf2` or `drive` may be copied to."""
    return [folder for folder in _mounted() if _is_drive(folder, flashing, method)]


def _is_drive(folder: Path, flashing: Flashing, method: str) -> bool:
    labelled = bool(flashing.drive) and folder.name.upper() == flashing.drive.upper()
    return labelled or (method == "uf2" and not flashing.drive and (folder / INFO).is_file())


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
