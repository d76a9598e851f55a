# SPDX-License-Identifier: Apache-2.0
"""SerialTarget: firmware on a board, over a serial line."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError
from tinyc.base.serial_line import SerialPort
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
from tinyc.toolchain.compile import Firmware
from tinyc.toolchain.device import build_device

GREETING_SECONDS = 5.0
STALL_SECONDS = 60.0
TRIES = 3
_QUIET_SECONDS = 0.5
_WRONG_CRC = 1
_OTHER_BYTES = 65_536  # of a payload, beside outputs: INFO of many inputs, and its text
_NUMBERED = (protocol.Result, protocol.StepFrame, protocol.FaultFrame)


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
        with SerialPort(self.port, self.baud) as line:
            try:
                longest = _OTHER_BYTES + sum(firmware.info.output_bytes)
                self._converse(_Frames(line, longest), talk, firmware, inputs)
            except protocol.FrameError as error:
                raise error.located(Loc(self.port)) from error
        return talk.finish(self.machine)

    def _converse(self, frames: _Frames, talk: Conversation, firmware: Firmware, inputs: Inputs) -> None:
        self._check_model(firmware, _greet(frames, self.port))
        for number, tensors in enumerate(inputs):
            if protocol.begins_sequence(number, firmware.resets):
                self._reset(frames)
            self._infer(frames, talk, number, b"".join(tensors), firmware.info.has_state)
            if talk.fault is not None:
                raise _fault_on_board(firmware, talk.fault, number)

    def _check_model(self, firmware: Firmware, info: protocol.InfoFrame) -> None:
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
            if self._past_late_info(frames) == protocol.Done(protocol.Reply.RESET):
                return
        raise RunError(f"the board did not reset the model in {TRIES} tries")

    def _past_late_info(self, frames: _Frames) -> protocol.Message | None:
        """The next message that is no late answer to a question for INFO; None when none comes."""
        deadline = time.monotonic() + self.stall_seconds
        while True:
            answer = frames.next(deadline)
            if not isinstance(answer, protocol.InfoFrame) or answer.started:
                return answer

    def _infer(self, frames: _Frames, talk: Conversation, number: int, payload: bytes, stateful: bool) -> None:
        """One inference; the request is sent again when its bytes were damaged, or the board has restarted."""
        restarts = 0
        for _ in range(TRIES):
            frames.line.write(protocol.encode(protocol.Request.RUN, payload))
            answer = self._answer(frames, number)
            if isinstance(answer, protocol.InfoFrame) and stateful:
                raise RunError(f"the board started again in inference {number}, and the model's state is lost")
            if isinstance(answer, protocol.InfoFrame):
                restarts += 1
            elif not (isinstance(answer, protocol.Refusal) and answer.code == _WRONG_CRC):
                # The board numbers inferences from its start, the conversation from this run's.
                talk.take(replace(answer, inference=number) if isinstance(answer, _NUMBERED) else answer)
                return
        raise RunError(
            f"inference {number} failed {TRIES} times: "
            + (f"the board started again {restarts} times" if restarts else "its bytes arrive damaged"),
            hint="is the board's supply weak, or does the line lose bytes? A lower baud rate may help",
        )

    def _answer(self, frames: _Frames, number: int) -> protocol.Message:
        """The answer to RUN, an ERROR, or the INFO of a board that has started again; late answers to earlier questions
        are left out."""
        answer = self._past_late_info(frames)
        if answer is None:
            raise RunError(f"the board gave no answer to inference {number} for {self.stall_seconds:.0f} s")
        if isinstance(answer, protocol.Done):
            raise protocol.FrameError(f"the board answered {answer.reply.name} to inference {number}")
        return answer


def _fault_on_board(firmware: Firmware, fault: protocol.FaultFrame, number: int) -> RunError:
    """The error for a fault, its address looked up in what `tinyc build` links for the board: the firmware of the
    emulator, around the same library, has its functions elsewhere."""
    reason = protocol.fault_reason(fault)
    if firmware.sources is None or fault.pc is None:
        return fault_error(firmware, reason, None, None, number)
    board, toolchain, library = firmware.board, firmware.toolchain, firmware.library_object
    with tempfile.TemporaryDirectory(prefix="tinyc-") as folder:
        build_device(firmware.sources, board, toolchain, library, Path(folder))
        flashed = replace(firmware, elf=Path(folder) / f"{firmware.model}.elf")
        steps = flashed.read_elf().step_functions(firmware.model)
        inside = (n for n, s in steps.items() if s.address & ~1 <= fault.pc < (s.address & ~1) + s.size)
        return fault_error(flashed, reason, next(inside, None), fault.pc, number)


class _Frames:
    """What frames say that come from a line with noise between them."""

    def __init__(self, line: SerialPort, most: int) -> None:
        self.line = line
        self._reader = protocol.FrameReader(skip_noise=True, most=most)
        self._ready: list[protocol.ProtocolFrame] = []
        self.left_behind: int | None = None  # type of the last frame that was no INFO where one was asked for

    def next(self, deadline: float) -> protocol.Message | None:
        """The next frame's message, None when none is there at the time `deadline`. Raises FrameError."""
        frame = self._next(deadline)
        return None if frame is None else protocol.decode(frame)

    def next_info(self, deadline: float) -> protocol.InfoFrame | None:
        """The next INFO; what is before it is left behind, whatever it says."""
        while (frame := self._next(deadline)) is not None:
            if frame.type == protocol.Reply.INFO:
                return protocol.parse_info(frame.payload)
            self.left_behind = frame.type
        return None

    def _next(self, deadline: float) -> protocol.ProtocolFrame | None:
        """None at the deadline even where frames come without end."""
        while (left := deadline - time.monotonic()) > 0:
            if self._ready:
                return self._ready.pop(0)
            self._ready += self._reader.feed(self.line.read(4096, left))
        return None


def _greet(frames: _Frames, port: str) -> protocol.InfoFrame:
    """What the board says of its model. It may be in the middle of a request that nobody ended, so it is asked again
    until it answers; answers to earlier questions are left behind."""
    deadline = time.monotonic() + GREETING_SECONDS
    while time.monotonic() < deadline:
        frames.line.write(protocol.encode(protocol.Request.INFO))
        if (info := frames.next_info(time.monotonic() + _QUIET_SECONDS)) is not None:
            return info
    sent = frames.left_behind
    raise TinycError(
        "the board does not answer" + (f": it sends frames of type 0x{sent:02x} alone" if sent is not None else ""),
        Loc(port),
        "is the firmware of `tinyc build` flashed (`tinyc flash`), the right port given, and the baud rate that of "
        "the board's [uart]? `tinyc flash --monitor` shows what it sends",
    )
