# SPDX-License-Identifier: Apache-2.0
"""Running firmware: one Target interface, several machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.board import Board
from tinyc.board.instruction_set import INSTRUCTION_SETS
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
from tinyc.run.renode_target import IO as RENODE_IO
from tinyc.run.renode_target import find_renode
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
    "firmware_board",
)


def find_target(board: Board, prefer: str | None = None) -> Target:
    """The machine that runs the board's firmware: `qemu`, `unicorn` or `renode` when preferred, else the first found.

    QEMU first; but unicorn when this QEMU cannot count instructions; Renode only when preferred. Its firmware is
    built for `firmware_board`. Raises TinycError, with the commands that install one, when there is none.
    """
    if board.is_host:
        if prefer not in (None, "host"):
            raise TinycError(f"the board 'host' runs as a process, not in {prefer}", hint="leave out --emulator")
        return HostTarget()
    finders: dict[str, Callable[[Board], Target | None]] = {
        "qemu": find_qemu,
        "unicorn": find_unicorn,
        "renode": find_renode,
    }
    if prefer == "host":
        message = f"'host' runs firmware for the board 'host', not for {board.name}"
        raise TinycError(message, hint="leave out --emulator, or give --board host")
    if prefer is not None and prefer not in finders:
        raise TinycError(f"there is no emulator '{prefer}'", hint=f"there are: {', '.join(finders)}")
    if prefer == "renode" and (renode := find_renode(board)) is not None:
        return renode
    qemu = find_qemu(board) if prefer in (None, "qemu") else None
    if qemu is not None and (qemu.plugin is not None or prefer == "qemu"):
        return qemu
    unicorn = find_unicorn(board) if prefer in (None, "unicorn") else None
    if unicorn is not None:
        return unicorn
    if qemu is not None:
        return qemu
    raise _missing(board, prefer)


def firmware_board(board: Board, prefer: str | None) -> Board:
    """The board as firmware for that machine is built: how it talks depends on the machine."""
    return replace(board, io=RENODE_IO) if prefer == "renode" else board


def _missing(board: Board, prefer: str | None) -> TinycError:
    """The error for a machine that is not there, with the commands that install one."""
    ways = {}
    if board.qemu is not None:
        ways["qemu"] = f"`apt install {INSTRUCTION_SETS[board.startup].qemu_package}`"
    if board.unicorn is not None:
        ways["unicorn"] = "`pip install 'tinyc[proof]'`"
    if prefer is None and ways:
        hint = f"install one with {' or '.join(ways.values())}"
        return TinycError(f"no emulator for {board.name} is installed", hint=hint)
    ways["renode"] = "Renode (https://renode.io), so that renode-test is on PATH"
    if prefer in ways:
        return TinycError(f"{prefer} is not installed", hint=f"install it: {ways[prefer]}")
    del ways["renode"]
    hint = f"it has: {', '.join(ways)}" if ways else "[emulator] in the board's file names one: docs/boards.md"
    return TinycError(f"{board.name} has no machine in {prefer or 'any emulator'}", hint=hint)
