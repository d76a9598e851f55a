# SPDX-License-Identifier: Apache-2.0
"""SerialTarget against a made-up board at a pseudo-terminal that answers late, wrongly, or not at all."""

from __future__ import annotations

import os
import struct
import threading
import time
import tty
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tinyc.base import serial_line
from tinyc.base.errors import TinycError
from tinyc.base.serial_line import SerialPort
from tinyc.board import load_board
from tinyc.run import base, serial
from tinyc.run.base import Conversation
from tinyc.run.protocol import FrameReader, Reply, Request, encode
from tinyc.run.serial import SerialTarget
from tinyc.toolchain.compile import Firmware, FirmwareInfo
from tinyc.toolchain.compilers import Toolchain

INFO = FirmwareInfo(64, 16, (3, 2), (4,), 1)
STARTED = 2


def firmware() -> Firmware:
    return Firmware(Path("none"), "toy", load_board("cortex-m4"), Toolchain("gcc", "gcc", "1", ("gcc",)), Path(), INFO)


def info_frame(flags: int = 0, version: str = "toy 1", output_bytes: int = 4) -> bytes:
    words = struct.pack("<9I", flags, 64, 16, 2, 1, 1, 3, 2, output_bytes)
    return encode(Reply.INFO, words + version.encode())


def result_frame(number: int, outputs: bytes, cycles: int = 1000) -> bytes:
    return encode(Reply.RESULT, struct.pack("<IiIIQ", number, 0, 0, 96, cycles) + outputs)


@dataclass
class FakeBoard:
    """answers: what is sent for each RUN, in order (the last one for ever); None: nothing. deaf: RUN and INFO requests
    that are lost at the start."""

    answers: list[bytes | None] = field(default_factory=list)
    info: bytes = field(default_factory=info_frame)
    deaf: int = 0
    hello: bytes = b""
    runs: list[bytes] = field(default_factory=list)
    resets: list[int] = field(default_factory=list)  # how many RUNs came before each

    @contextmanager
    def at_port(self) -> Iterator[str]:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield os.ttyname(slave)
        finally:
            os.close(slave)
            os.close(self._master)
            thread.join(5)

    def _serve(self) -> None:
        reader = FrameReader(skip_noise=True)
        try:
            os.write(self._master, self.hello)
            while True:
                for frame in reader.feed(os.read(self._master, 4096)):
                    if self.deaf > 0:
                        self.deaf -= 1
                        continue
                    os.write(self._master, self._answer(frame.type, frame.payload))
        except OSError:
            pass

    def _answer(self, kind: int, payload: bytes) -> bytes:
        if kind == Request.INFO:
            return self.info
        if kind == Request.RESET:
            self.resets.append(len(self.runs))
            return encode(Reply.RESET)
        self.runs.append(payload)
        return self.answers[min(len(self.runs), len(self.answers)) - 1] or b""


def run(board: FakeBoard, inferences: int = 1, version: str = "", stall_seconds: float = 5) -> Any:
    inputs = [[bytes([i, 1, 2]), b"ab"] for i in range(inferences)]
    with board.at_port() as port:
        return SerialTarget(port, 115_200, version, stall_seconds).run(firmware(), inputs)


RIGHT = result_frame(0, b"\x01\x02\x03\x04")
WRONG_CRC = encode(Reply.ERROR, struct.pack("<II", 1, 0))


def test_outputs_stack_and_cycles() -> None:
    board = FakeBoard([result_frame(7, b"abcd", 111), result_frame(8, b"efgh", 222)])
    answer = run(board, 2, "toy 1")
    assert answer.outputs == ((b"abcd",), (b"efgh",))
    assert answer.cycles == (111, 222)
    assert answer.stack_bytes == 96
    assert not answer.damaged_guards
    assert board.runs == [b"\x00\x01\x02ab", b"\x01\x01\x02ab"]


def run_with_state(board: FakeBoard, inferences: int, sequence: int) -> Any:
    stateful = replace(firmware(), info=replace(INFO, has_state=True), sequence=sequence)
    with board.at_port() as port:
        return SerialTarget(port, 115_200, "", 5).run(stateful, [[bytes(3), b"ab"]] * inferences)


@pytest.mark.parametrize(("sequence", "resets"), [(0, [0]), (2, [0, 2, 4]), (1, [0, 1, 2, 3, 4])])
def test_a_model_with_state_is_reset_where_sequences_begin(sequence: int, resets: list[int]) -> None:
    board = FakeBoard([RIGHT])
    assert len(run_with_state(board, 5, sequence).outputs) == 5
    assert board.resets == resets
    board = FakeBoard([RIGHT])
    run(board, 2)
    assert board.resets == []


def test_a_late_info_before_the_reset_does_no_harm() -> None:
    """A board that starts slowly answers every INFO that it was asked for meanwhile; it is reset once all the same."""
    board = FakeBoard([RIGHT], info=info_frame() * 3)
    assert len(run_with_state(board, 2, 0).outputs) == 2
    assert board.resets == [0]


def test_a_restart_loses_the_state() -> None:
    with pytest.raises(TinycError, match="in inference 1, and the model's state is lost"):
        run_with_state(FakeBoard([RIGHT, info_frame(STARTED)]), 3, 0)


@pytest.mark.parametrize(
    "board",
    [
        FakeBoard([RIGHT], hello=b"\x00noise TC and more TTC\x01"),
        FakeBoard([RIGHT], hello=info_frame(STARTED)),
        FakeBoard([RIGHT], deaf=1),
        FakeBoard([info_frame() + RIGHT]),  # a late answer to an earlier question
        FakeBoard([WRONG_CRC, RIGHT]),
        FakeBoard([WRONG_CRC, WRONG_CRC, RIGHT]),
        FakeBoard([info_frame(STARTED), RIGHT]),  # the board has restarted: the request is sent again
        FakeBoard([RIGHT[:-1] + bytes([RIGHT[-1] ^ 1]) + RIGHT]),  # a damaged frame, and a good one
        FakeBoard([RIGHT[:6] + b"\x20" + RIGHT[7:] + RIGHT]),  # a frame whose length was damaged: 2 MiB
    ],
)
def test_noise_and_accidents_do_no_harm(board: FakeBoard) -> None:
    assert run(board).outputs == ((b"\x01\x02\x03\x04",),)


@pytest.mark.parametrize(
    ("board", "version", "message"),
    [
        (FakeBoard([WRONG_CRC]), "", "inference 0 failed 3 times: its bytes arrive damaged"),
        (FakeBoard([info_frame(STARTED)]), "", "the board started again 3 times"),
        (FakeBoard([None]), "", "gave no answer to inference 0"),
        (FakeBoard([encode(Reply.ERROR, struct.pack("<II", 3, 5))]), "", "refused a request: error 3, detail 5"),
        (FakeBoard([RIGHT]), "toy 2", "the board has another model: 'toy 1', not 'toy 2'"),
        (FakeBoard([RIGHT], info=info_frame(output_bytes=5)), "", "the board has another model"),
        (FakeBoard([encode(Reply.FAULT, struct.pack("<10I", 0, 3, 1, 0, 8, 0, 1 << 25, 0, 0, 0))]), "", "division"),
    ],
)
def test_problems_are_named(board: FakeBoard, version: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "place_name", lambda *arguments: "in toy")
    with pytest.raises(TinycError, match=message):
        run(board, version=version, stall_seconds=0.5)


def step_frame(inference: int, step: int) -> bytes:
    return encode(Reply.STEP, struct.pack("<2I", inference, step) + b"x")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            encode(Reply.RESULT, bytes(23)),
            "a RESULT frame of the firmware has 23 bytes; it must have 24 and",
        ),
        (encode(Reply.RESULT), "a RESULT frame of the firmware has 0 bytes"),
        (result_frame(0, b""), "has 0 bytes of outputs; the model has 4"),
        (result_frame(0, b"12345"), "has 5 bytes of outputs; the model has 4"),
        (encode(Reply.FAULT, bytes(39)), "a FAULT frame of the firmware has 39 bytes; it must have 40"),
        (encode(Reply.FAULT, bytes(44)), "a FAULT frame of the firmware has 44 bytes; it must have 40"),
        (encode(Reply.ERROR, bytes(4)), "an ERROR frame of the firmware has 4 bytes; it must have 8"),
        (encode(Reply.STEP, b"1234567"), "a STEP frame of the firmware has 7 bytes; it must have 8 and"),
        (step_frame(0, 0), "the output of a step, which it was not built to do"),
        (step_frame(9, 9), "the output of a step, which it was not built to do"),
        (encode(Reply.END), "the board answered END to inference 0"),
        (encode(Reply.RESET), "the board answered RESET to inference 0"),
        (encode(Reply.INFO, bytes(20)), "an INFO frame of the firmware has 20 bytes"),
        (b"TC" + encode(Reply.END)[2:3] + b"\x99" + encode(Reply.END)[4:], "gave no answer"),  # a wrong checksum
        (encode(0x99), "a frame of type 0x99, which is no reply"),  # type: ignore[arg-type]
    ],
)
def test_wrong_frames_are_named(answer: bytes, message: str) -> None:
    with pytest.raises(TinycError, match=message) as caught:
        run(FakeBoard([answer]), stall_seconds=0.5)
    if "no answer" not in message:
        assert caught.value.exit_code == 2
        assert str(caught.value.where).startswith("/dev/")


def test_late_answers_without_end() -> None:
    with pytest.raises(TinycError, match="gave no answer to inference 0"):
        run(Chatterer(), stall_seconds=0.5)


class Chatterer(FakeBoard):
    """It answers RUN by one INFO after the other, for longer than the host waits."""

    def _answer(self, kind: int, payload: bytes) -> bytes:
        if kind != Request.RUN:
            return self.info
        for _ in range(100):
            os.write(self._master, self.info)
            time.sleep(0.01)
        return b""


def test_steps_must_belong_to_the_inference() -> None:
    talk = Conversation(replace(firmware(), dump_steps=True), 2)
    talk.feed(step_frame(0, 0))
    for inference, step in ((0, 1), (1, 0), (2, 0), (0, 2**32 - 1)):
        with pytest.raises(TinycError, match=f"sent step {step} of inference {inference} in inference 0"):
            talk.feed(step_frame(inference, step))
    talk.feed(RIGHT)
    for number in (0, 2):
        with pytest.raises(TinycError, match=f"the result of inference {number} in inference 1 of 2"):
            talk.feed(result_frame(number, b"abcd"))
    talk.feed(result_frame(1, b"abcd"))
    with pytest.raises(TinycError, match="the result of inference 2 in inference 2 of 2"):
        talk.feed(result_frame(2, b"abcd"))


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial, "GREETING_SECONDS", 0.6)
    with pytest.raises(TinycError, match="the board does not answer"):
        run(FakeBoard(deaf=1000))


def test_a_port_that_is_not_there() -> None:
    with pytest.raises(TinycError, match="there is no such port") as caught:
        SerialPort("/dev/ttyNOBODY", 115_200)
    assert "ports here: " in caught.value.hint


def test_frames_between_noise() -> None:
    reader = FrameReader(skip_noise=True)
    stream = b"TTCT" + encode(Reply.END) + b"T" + info_frame() + b"TC\x01\x82\xff\xff\xff\xff" + encode(Reply.END)
    frames = [frame.type for byte in stream for frame in reader.feed(bytes([byte]))]
    assert frames == [Reply.END, Reply.INFO, Reply.END]


class Endless:
    """A line on which a frame is there whenever somebody looks."""

    port = "endless"

    def __init__(self, frame: bytes) -> None:
        self._frame = frame

    def write(self, data: bytes) -> None:
        pass

    def read(self, most: int, seconds: float) -> bytes:
        return self._frame


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (b"TC\x01\x99\0\0\0\0" + struct.pack("<I", zlib.crc32(b"\x01\x99\0\0\0\0")), "frames of type 0x99"),
        (encode(Reply.END), "frames of type 0x86"),
        (b"hello\n", "does not answer"),
    ],
)
def test_valid_frames_without_end_are_no_answer(frame: bytes, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial, "GREETING_SECONDS", 0.02)
    with pytest.raises(TinycError, match=said):
        serial._greet(serial._Frames(Endless(frame), 1024), "endless")  # type: ignore[arg-type]


def test_late_infos_without_end_are_no_answer() -> None:
    frames = serial._Frames(Endless(info_frame() * 50), 1024)  # type: ignore[arg-type]
    assert SerialTarget("endless", 9600, stall_seconds=0.02)._past_late_info(frames) is None


def test_a_line_that_is_never_quiet_is_drained_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_line, "_BABBLE_SECONDS", 0.1)
    master, slave = os.openpty()
    tty.setraw(slave)
    stop = threading.Event()

    def babble() -> None:
        while not stop.wait(0.005):
            os.write(master, b"x")

    thread = threading.Thread(target=babble, daemon=True)
    thread.start()
    try:
        with SerialPort(os.ttyname(slave), 9600) as line:
            line.drain()
    finally:
        stop.set()
        thread.join()
        os.close(slave)
        os.close(master)


@pytest.mark.parametrize(
    ("port", "program"),
    [
        ("/dev/ttyUSB0", False),
        ("COM3", False),
        ("/dev/cu.usbmodem1", False),
        ("/dev/pts/7", True),
        ("/dev/ttys004", True),
        ("socket://localhost:4000", True),
    ],
)
def test_ports_of_programs(port: str, program: bool, tmp_path: Path) -> None:
    assert serial_line.is_of_a_program(port) == program
    (tmp_path / "uart").symlink_to(port)  # as Renode and socat make them
    assert serial_line.is_of_a_program(str(tmp_path / "uart")) == (program and "socket" not in port)
