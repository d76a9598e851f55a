# SPDX-License-Identifier: Apache-2.0
"""adafruit-nrfutil, as tinyc calls it, against a boot loader written from Nordic's page. Skipped where it is not
installed."""

from __future__ import annotations

import os
import random
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from dfu_simulator import DfuBoard

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.flash import flash, plan_flash

BOARD = "seeed-xiao-nrf52840"
DATA = random.Random(5).randbytes(5000)
# The program itself. A pseudo-terminal has no control lines, and a simulated flash is erased at once.
PROGRAM = """#!{python}
import sys, time
import serial.serialposix as posix
sleep = time.sleep
time.sleep = lambda seconds: sleep(min(seconds, 0.01))
posix.Serial._update_dtr_state = posix.Serial._update_rts_state = lambda self: None
from nordicsemi.__main__ import cli
sys.exit(cli())
"""


@pytest.fixture(autouse=True)
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone on PATH, under its name."""
    real = shutil.which("adafruit-nrfutil")
    if real is None:
        pytest.skip("adafruit-nrfutil is not installed: pip install adafruit-nrfutil")
    program = tmp_path / "bin" / "adafruit-nrfutil"
    program.parent.mkdir()
    program.write_text(PROGRAM.format(python=Path(real).read_text().splitlines()[0].removeprefix("#!")))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def flashed(tmp_path: Path, board: DfuBoard) -> bool:
    """Whether tinyc calls it good."""
    binary = tmp_path / "app.bin"
    binary.write_bytes(DATA)
    with board.at_port() as port:
        job = plan_flash(binary, BOARD, port, "nrfutil")
        try:
            flash(replace(job, flashing=replace(job.flashing, enter=())))
        except TinycError:
            return False
    return True


def board_with(lost: frozenset[int] = frozenset(), device: int | None = None) -> DfuBoard:
    flashing = load_board(BOARD).flashing
    assert flashing is not None
    assert flashing.nrfutil is not None
    return DfuBoard(flashing.nrfutil.softdevice, device or flashing.nrfutil.device, lost)


def test_a_program_is_written_and_started(tmp_path: Path) -> None:
    board = board_with()
    assert flashed(tmp_path, board)
    assert board.started
    assert board.program == DATA


def test_a_board_with_another_chip_refuses(tmp_path: Path) -> None:
    board = board_with(device=0x0053)
    assert not flashed(tmp_path, board)
    assert not board.started


@pytest.mark.parametrize("part", [pytest.param(n, marks=() if n == 0 else pytest.mark.slow) for n in range(6)])
def test_lost_bytes(tmp_path: Path, part: int) -> None:
    """At a place anywhere: the board starts the right program, or tinyc does not call it flashed."""
    whole = board_with()
    assert flashed(tmp_path, whole)
    board = board_with(frozenset({random.Random(part).randrange(whole.arrived)}))
    assert not flashed(tmp_path, board) or (board.started and board.program == DATA)
