# SPDX-License-Identifier: Apache-2.0
"""Unaligned accesses to memory: none where the compiler is told so, or the core has none.

A build for a small model with every access looked at is among the quick tests: tests/cli/test_user_build.py."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from kernel_cases import Together, together, write_library

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.build.elf import read_elf
from tinyc.build.toolchain import find_toolchain
from tinyc.run.linked import LinkedRun, run_linked


def run_all(folder: Path, board_name: str, *flags: str) -> tuple[Together, LinkedRun]:
    """Every kernel of the board in one library, built with these flags and called."""
    board = load_board(board_name)
    try:
        gcc = find_toolchain(board, "gcc")
    except TinycError as error:
        pytest.skip(error.message)
    made = together(board.isa, Numerics.TFLM)
    program = write_library(made, folder, board.isa, Numerics.TFLM)
    command = [*gcc.command, *gcc.target_flags, *flags, "-ffreestanding", "-nostdlib", "-Wl,-e,all_run", "all.c"]
    subprocess.run([*command, "-lgcc", "-o", "all.elf"], cwd=folder, check=True)
    return made, run_linked(read_elf(folder / "all.elf"), program, board, made.requests)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("board", "flags"),
    [
        ("cortex-m4", ("-O1", "-mno-unaligned-access")),
        ("cortex-m4", ("-Os", "-mno-unaligned-access")),
        ("cortex-m3", ("-O2", "-mno-unaligned-access")),
        ("cortex-m0plus", ("-O2",)),
    ],
)
def test_none(tmp_path: Path, board: str, flags: tuple[str, ...]) -> None:
    assert run_all(tmp_path, board, *flags)[1].unaligned == 0


@pytest.mark.slow
def test_they_are_seen(tmp_path: Path) -> None:
    assert run_all(tmp_path, "cortex-m4", "-O2")[1].unaligned > 0
