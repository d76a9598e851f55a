# SPDX-License-Identifier: Apache-2.0
"""Boards: what a target is, read from a TOML file."""

from __future__ import annotations

from tinyc.board.board import Board, Qemu, list_boards, load_board
from tinyc.board.memories import CodeRam, Memory, SlowRam

__all__ = ["Board", "CodeRam", "Memory", "Qemu", "SlowRam", "list_boards", "load_board"]
