# SPDX-License-Identifier: Apache-2.0
"""A board at a serial port: QEMU with the firmware, its UART at a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tinyc.board import Board
from tinyc.run.qemu import machine_arguments


@contextmanager
def board_at_port(board: Board, elf: Path) -> Iterator[str]:
    """The port's name; QEMU ends with the block. Skips without QEMU."""
    with started(board, elf, "pty") as process:
        assert process.stdout is not None
        said = ""
        while (match := re.search(r"redirected to (\S+)", said)) is None:
            line = process.stdout.readline()
            assert line, f"QEMU ended: {said}"
            said += line
        yield match[1]


@contextmanager
def started(board: Board, elf: Path, serial: str) -> Iterator[subprocess.Popen[str]]:
    """QEMU with the firmware, its UART at this character device, until the end of the block. Skips without QEMU."""
    assert board.qemu is not None
    assert board.uart is not None
    program = shutil.which(board.qemu.program)
    if program is None:
        pytest.skip(f"{board.qemu.program} is not installed")
    command = [
        *(program, "-M", board.qemu.machine, *machine_arguments(board.qemu, board)),
        *(*["-serial", "null"] * board.uart.qemu_serial, "-serial", serial),
        *("-display", "none", "-monitor", "none", "-kernel", str(elf)),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


class Cable:
    """Between a port of the host and one of a board, both there before anything is plugged in. Use as a context."""

    def __init__(self) -> None:
        self._ends = [pty.openpty(), pty.openpty()]
        for pair in self._ends:
            for end in pair:
                tty.setraw(end)
        self.host, self.board = (os.ttyname(slave) for _, slave in self._ends)
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._carry)

    def __enter__(self) -> Cable:
        return self

    def plug_in(self, lost: bool) -> None:
        """From here on it carries; lost: without what was said before."""
        source = self._ends[0][0]
        while lost and select.select([source], [], [], 0)[0]:
            os.read(source, 4096)
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        os.close(self._stopped)
        if self._thread.is_alive():
            self._thread.join()
        for end in (self._stop, *self._ends[0], *self._ends[1]):
            os.close(end)

    def _carry(self) -> None:
        (host, _), (board, _) = self._ends
        while self._stop not in (ready := select.select([self._stop, host, board], [], [])[0]):
            for source, sink in ((host, board), (board, host)):
                if source in ready:
                    os.write(sink, os.read(source, 4096))
