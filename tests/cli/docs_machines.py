# SPDX-License-Identifier: Apache-2.0
"""Machines that commands of the docs ask for: a board at a port, Renode, a cluster. Simulated: the chip's bootloader
that tests/flash has, QEMU with the chip's firmware at a pseudo-terminal, the stand-in of renode-test, and a real Dask
scheduler with a worker."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.sweep.machines import Machines
from tinyc.board import load_board

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "flash"), str(TESTS / "target")]

import fake_renode  # noqa: E402  of tests/target
from serial_board import board_at_port  # noqa: E402
from stm32_simulator import Stm32  # noqa: E402  of tests/flash

BOARD = "stm32f4-discovery"
PORT = "/dev/ttyUSB0"
_OF_RUN = ("--port", "--baud", "--wav", "--image", "--labels", "--smooth")  # what `tinyc build` has not
Run = Callable[[list[str]], int]


def at_port(arguments: list[str], run: Run) -> int:
    """A command with --port: `flash` finds the chip's bootloader there, the others the chip, running what `tinyc build`
    makes with the same options."""
    at = arguments.index("--port") + 1
    if arguments[0] == "flash" and "--monitor" not in arguments:
        chip = Stm32(contents=b"\x00" * 40_000)
        with chip.at_port() as port:
            code = run([*arguments[:at], port, *arguments[at + 1 :]])
        assert "--no-start" in arguments or chip.started == 0x0800_0000
        return code
    with board_at_port(load_board(BOARD), _firmware(arguments, run)) as port:
        return run([*arguments[:at], port, *arguments[at + 1 :]])


def _firmware(arguments: list[str], run: Run) -> Path:
    """For the board itself; `flash --monitor` listens to any."""
    words = ["run", "kws.tflite", "--board", BOARD] if arguments[0] == "flash" else list(arguments)
    for option in _OF_RUN:
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    options = [word for word in words[1:] if word != "--json"]
    assert run(["build", *options, "--out", "build/at_port"]) == 0
    (elf,) = Path("build/at_port/device").glob("*.elf")
    return elf


def in_renode(arguments: list[str], run: Run) -> int:
    """With a stand-in of renode-test on PATH."""
    with pytest.MonkeyPatch.context() as patch:
        folder = Path("renode-here").resolve()
        folder.mkdir(exist_ok=True)
        runs = folder / "runs.txt" if (folder / "bin").exists() else fake_renode.install(folder, patch)
        patch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
        before = len(runs.read_text())
        code = run(arguments)
        assert len(runs.read_text()) > before
        return code


def on_a_cluster(arguments: list[str], run: Run) -> int:
    pytest.importorskip("distributed", reason="pip install 'tinyc[sweep]'")
    folder = Path("cluster").resolve()
    folder.mkdir()
    machines = Machines(folder)
    try:
        machines.worker()
        return run([machines.address if word.startswith("tcp://") else word for word in arguments])
    finally:
        machines.end()


BY_WORD: Mapping[str, Callable[[list[str], Run], int]] = MappingProxyType(
    {"--port": at_port, "renode": in_renode, "--scheduler": on_a_cluster}
)
"""Word of a command -> runs it with the machine that it asks for."""
