# SPDX-License-Identifier: Apache-2.0
"""A board at a serial port: QEMU with the firmware, its UART at a pseudo-terminal."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tinyc.board import Board
from tinyc.run.qemu import machine_arguments


@contextmanager
def board_at_port(board: Board, elf: Path) -> Iterator[str]:
    """The port's name; QEMU ends with the block. Skips without QEMU."""
    assert board.qemu is not None
    assert board.uart is not None
    program = shutil.which(board.qemu.program)
    if program is None:
        pytest.skip(f"{board.qemu.program} is not installed")
    serial = ["-serial", "null"] * board.uart.qemu_serial + ["-serial", "pty"]
    command = [
        *(program, "-M", board.qemu.machine, *machine_arguments(board.qemu, board), *serial),
        *("-display", "none", "-monitor", "none", "-kernel", str(elf)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while (found := re.search(r"redirected to (\S+)", said)) is None:
            line = process.stdout.readline()
            assert line, f"QEMU ended: {said}"
            said += line
        yield found[1]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
