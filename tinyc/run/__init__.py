"""Running firmware: one Target interface, several machines."""

from __future__ import annotations

from tinyc.board import Board
from tinyc.errors import TinycError
from tinyc.run.base import (
    INSTRUCTION_LIMIT,
    OVERHEAD,
    BlockCount,
    InferenceCount,
    Inputs,
    JumpCount,
    Progress,
    RunError,
    RunResult,
    Target,
)
from tinyc.run.host import HostTarget
from tinyc.run.qemu import find_qemu
from tinyc.run.unicorn import find_unicorn

__all__ = (
    "INSTRUCTION_LIMIT",
    "OVERHEAD",
    "BlockCount",
    "InferenceCount",
    "Inputs",
    "JumpCount",
    "Progress",
    "RunError",
    "RunResult",
    "Target",
    "find_target",
)


def find_target(board: Board, prefer: str | None = None) -> Target:
    """The machine that runs the board's firmware: `qemu` or `unicorn` when preferred, else the first found.

    QEMU first; but unicorn when this QEMU cannot count instructions. Raises TinycError, with the commands
    that install one, when there is none.
    """
    if board.is_host:
        if prefer not in (None, "host"):
            raise TinycError(f"the board 'host' runs as a process, not in {prefer}")
        return HostTarget()
    finders = {"qemu": find_qemu, "unicorn": find_unicorn}
    if prefer is not None and prefer not in finders:
        raise TinycError(f"there is no emulator '{prefer}'", hint=f"there are: {', '.join(finders)}")
    qemu = find_qemu(board) if prefer in (None, "qemu") else None
    if qemu is not None and (qemu.plugin is not None or prefer == "qemu"):
        return qemu
    unicorn = find_unicorn(board) if prefer in (None, "unicorn") else None
    if unicorn is not None:
        return unicorn
    if qemu is not None:
        return qemu
    raise TinycError(f"no emulator for {board.name} is installed", hint=_install_hint(board, prefer))


def _install_hint(board: Board, prefer: str | None) -> str:
    ways = []
    if board.qemu is not None and prefer in (None, "qemu"):
        package = "qemu-system-arm" if board.qemu.program == "qemu-system-arm" else "qemu-system-misc"
        ways.append(f"`apt install {package}`")
    if board.unicorn is not None and prefer in (None, "unicorn"):
        ways.append("`pip install unicorn`")
    return "install one with " + " or ".join(ways) if ways else f"its description names none ({board.name})"
