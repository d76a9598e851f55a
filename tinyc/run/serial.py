"""SerialTarget: firmware on a board, over a serial line."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass

from tinyc.build.compile import Firmware
from tinyc.errors import Loc, TinycError
from tinyc.line import Line
from tinyc.run import protocol
from tinyc.run.base import (
    INSTRUCTION_LIMIT,
    Conversation,
    Inputs,
    Progress,
    RunError,
    RunResult,
    check_inputs,
    fault_error,
)

GREETING_SECONDS = 5.0
STALL_SECONDS = 60.0
TRIES = 3
_QUIET_SECONDS = 0.5
_WRONG_CRC = 1


@dataclass(frozen=True, slots=True)
class SerialTarget:
    """A board that runs the firmware of `tinyc build` (device/), flashed before. Counts cycles where its core does, and
    no instructions; stall_seconds, for each inference, stands for the limit.

    version: what the library on the board must say that it is; empty: anything with the same inputs and outputs.
    """

    port: str
    baud: int
    version: str = ""
    stall_seconds: float = STALL_SECONDS

    @property
    def machine(self) -> str:
        return f"board at {self.port}"

    def run(
        self,
        firmware: Firmware,
        inputs: Inputs,
        *,
        instruction_limit: int = INSTRUCTION_LIMIT,
        on_progress: Progress | None = None,
    ) -> RunResult:
        check_inputs(firmware.info, inputs)
        talk = Conversation(firmware, len(inputs), on_progress)
        with Line(self.port, self.baud) as line:
            frames = _Frames(line)
            self._check_model(firmware, _greet(frames, self.port))
            for number, tensors in enumerate(inputs):
                if protocol.begins_sequence(number, firmware.resets):
                    self._reset(frames)
                self._infer(frames, talk, number, b"".join(tensors), firmware.info.has_state)
                if talk.fault is not None:
                    reason = protocol.fault_reason(talk.fault)
                    raise fault_error(firmware, reason, None, None, number)
        return talk.finish(self.machine)

    def _check_model(self, firmware: Firmware, info: protocol.Info) -> None:
        expected = firmware.info
        same = (info.arena_bytes, info.input_bytes, info.output_bytes) == (
            expected.arena_bytes,
            expected.input_bytes,
            expected.output_bytes,
        )
        if not same or (self.version and info.version != self.version):
            raise TinycError(
                f"the board has another model: {info.version!r}" + (f", not {self.version!r}" if self.version else ""),
                Loc(self.port),
                "flash it: `tinyc build MODEL --board B`, `tinyc flash build/MODEL --port PORT`, with the same options",
            )

    def _reset(self, frames: _Frames) -> None:
        """Makes the model forget; asked again when the request or its answer was damaged."""
        for _ in range(TRIES):
            frames.line.write(protocol.encode(protocol.Request.RESET))
            if (answer := frames.next(self.stall_seconds)) is not None and answer.type == protocol.Reply.RESET:
                return
        raise RunError(f"the board did not reset the model in {TRIES} tries")

    def _infer(self, frames: _Frames, talk: Conversation, number: int, payload: bytes, stateful: bool) -> None:
        """One inference; the request is sent again when its bytes were damaged, or the board has restarted."""
        restarts = 0
        for _ in range(TRIES):
            frames.line.write(protocol.encode(protocol.Request.RUN, payload))
            answer = self._answer(frames, number)
            if answer.type == protocol.Reply.INFO and stateful:
                raise RunError(f"the board started again in inference {number}, and the model's state is lost")
            if answer.type == protocol.Reply.INFO:
                restarts += 1
            elif not (answer.type == protocol.Reply.ERROR and _error_code(answer) == _WRONG_CRC):
                # The board numbers inferences from its start, the conversation from this run's.
                talk.take(_numbered(answer, number))
                return
        raise RunError(
            f"inference {number} failed {TRIES} times: "
            + (f"the board started again {restarts} times" if restarts else "its bytes arrive damaged"),
            hint="is the board's supply weak, or does the line lose bytes? A lower baud rate may help",
        )

    def _answer(self, frames: _Frames, number: int) -> protocol.Frame:
        """The answer to RUN, an ERROR, or the INFO of a board that has started again; late answers to earlier questions
        are left out."""
        while True:
            answer = frames.next(self.stall_seconds)
            if answer is None:
                raise RunError(f"the board gave no answer to inference {number} for {self.stall_seconds:.0f} s")
            if answer.type != protocol.Reply.INFO or protocol.parse_info(answer.payload).started:
                return answer


def _numbered(frame: protocol.Frame, number: int) -> protocol.Frame:
    if frame.type not in (protocol.Reply.RESULT, protocol.Reply.FAULT):
        return frame
    return protocol.Frame(frame.type, struct.pack("<I", number) + frame.payload[4:])


def _error_code(frame: protocol.Frame) -> int:
    return int.from_bytes(frame.payload[:4], "little")


class _Frames:
    """Frames from a line with noise between them."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self._reader = protocol.FrameReader(skip_noise=True)
        self._ready: list[protocol.Frame] = []

    def next(self, seconds: float) -> protocol.Frame | None:
        """The next frame, None when none is complete within `seconds`."""
        deadline = time.monotonic() + seconds
        while not self._ready:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            self._ready += self._reader.feed(self.line.read(4096, left))
        return self._ready.pop(0)


def _greet(frames: _Frames, port: str) -> protocol.Info:
    """What the board says of its model. It may be in the middle of a request that nobody ended, so it is asked again
    until it answers; answers to earlier questions are left behind."""
    deadline = time.monotonic() + GREETING_SECONDS
    while time.monotonic() < deadline:
        frames.line.write(protocol.encode(protocol.Request.INFO))
        frame = frames.next(_QUIET_SECONDS)
        while frame is not None and frame.type != protocol.Reply.INFO:
            frame = frames.next(_QUIET_SECONDS)
        if frame is not None:
            return protocol.parse_info(frame.payload)
    raise TinycError(
        "the board does not answer",
        Loc(port),
        "is the firmware of `tinyc build` flashed (`tinyc flash`), the right port given, and the baud rate that of "
        "the board's [uart]? `tinyc monitor` shows what it sends",
    )
