# SPDX-License-Identifier: Apache-2.0
"""From a model to outputs over the console of a board: `tinyc build`, its firmware on a bare core with the model of the
board's UART at a socket, and `tinyc run` there, which compares every output with the reference."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bare_board import BareBoard

from tinyc.board import Board, load_board
from tinyc.cli.main import main
from tinyc.toolchain.compilers import find_toolchain
from tinyc.toolchain.elf import read_elf

KWS = Path(__file__).resolve().parents[2] / "examples" / "kws"
QUICK = ("esp32-c3", "seeed-xiao-samd21", "teensy-4.1")
OTHERS = (
    "adafruit-feather-m4", "arduino-nano-33-ble", "arduino-portenta-h7", "arduino-uno-r4-minima", "arduino-uno-r4-wifi",
    "esp32-c6", "mimxrt1060-evk", "nrf54l15-dk", "nucleo-l4r5zi", "raspberry-pi-pico2", "raspberry-pi-pico2-riscv",
    "seeed-xiao-esp32c3", "stm32h747i-disco",
)  # fmt: skip

pytestmark = pytest.mark.usefixtures("quantized_once")


@contextmanager
def at_socket(board: Board, elf: Path) -> Iterator[str]:
    """The port's name; the board runs until the line is closed."""
    bare, closed, problems = BareBoard(board, read_elf(elf)), threading.Event(), list[BaseException]()
    server = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        line, _ = server.accept()

        def listen() -> None:
            while data := line.recv(4096):
                bare.unit.inbox.extend(data)
            closed.set()

        def take(sent: bytearray) -> None:
            if closed.is_set():
                bare.engine.emu_stop()
            elif sent:
                line.sendall(sent)
                sent.clear()

        threading.Thread(target=listen, daemon=True).start()
        try:
            bare.run(take, 0)
        except BaseException as error:
            problems.append(error)
            line.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    with server:
        yield f"socket://127.0.0.1:{server.getsockname()[1]}"
        thread.join(60)
    assert not problems, problems


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_a_keyword_spotter_over_the_console(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed: pip install unicorn")
    pytest.importorskip("serial", reason="pyserial is not installed: pip install pyserial")
    board = load_board(name)
    find_toolchain(board)
    options = ["--board", name, "--inputs", str(KWS / "kws.test.npz"), "--samples", "3"]

    def tinyc(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["tinyc", *words, *options])
        with pytest.raises(SystemExit) as leave:
            main()
        out, err = capsys.readouterr()
        assert not leave.value.code, err
        return out

    tinyc("build", str(KWS / "kws.onnx"), "-o", str(tmp_path / "kws"))
    with at_socket(board, tmp_path / "kws" / "device" / "kws.elf") as port:
        result = json.loads(tinyc("run", str(KWS / "kws.onnx"), "--port", port, "--json"))
    assert (result["passed"], result["inferences"], result["mismatches"]) == (True, 3, 0)
    assert result["stack_bytes"] > 0
    assert result["damaged_guards"] == []
    assert (result["emulated"], result["cycles"], result["mean_cycles"]) == (True, [], None), "no cycles of a board"
    assert len(result["ticks"]) == 3
