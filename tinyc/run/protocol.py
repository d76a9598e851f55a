# SPDX-License-Identifier: Apache-2.0
"""The byte stream between host and firmware: frames, requests, replies (docs/firmware-protocol.md).

The other end is templates/firmware/main.c.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc, TinycError

VERSION = 1
SYNC = b"TC"
NOT_MEASURED = 0xFFFFFFFF
MAX_PAYLOAD = 1 << 26  # longer: the stream is not ours

_NOISY = "is the baud rate that of the firmware (--baud)? Long or loose wires lose bytes too"
_HEADER = struct.Struct("<2sBBI")
_INFO = struct.Struct("<6I")  # before the sizes of inputs and outputs, and the text
_RESULT = struct.Struct("<IiIIII")  # before the outputs
_PAIR = struct.Struct("<2I")
_FAULT = struct.Struct("<10I")


class Request(IntEnum):
    """Frame types from the host."""

    INFO = 1
    RUN = 2
    END = 3
    RESET = 4


class Reply(IntEnum):
    """Frame types from the firmware."""

    INFO = 0x81
    RESULT = 0x82
    STEP = 0x83
    ERROR = 0x84
    FAULT = 0x85
    END = 0x86
    RESET = 0x87


@dataclass(frozen=True, slots=True)
class ProtocolFrame:
    """One frame whose checksum was right."""

    type: int
    payload: bytes


def encode(type_: Request | Reply, payload: bytes = b"") -> bytes:
    """The bytes of a frame."""
    head = struct.pack("<BBI", VERSION, type_, len(payload))
    return SYNC + head + payload + struct.pack("<I", zlib.crc32(head + payload))


def requests(inputs: Sequence[Sequence[bytes]], sequence: int | None = None) -> bytes:
    """The whole conversation from the host's side: one RUN for each inference, then END.

    sequence: a model with state is RESET before the first inference and again after each `sequence` (0: never again).
    """
    frames = []
    for index, tensors in enumerate(inputs):
        if begins_sequence(index, sequence):
            frames.append(encode(Request.RESET))
        frames.append(encode(Request.RUN, b"".join(tensors)))
    return b"".join(frames) + encode(Request.END)


def begins_sequence(index: int, sequence: int | None) -> bool:
    """Whether a model with state is reset before an inference; `sequence` as for `requests`."""
    return sequence is not None and (index % sequence == 0 if sequence else index == 0)


class FrameReader:
    """Cuts a stream that arrives in pieces into frames. skip_noise: bytes that are no frame, as on a serial line, are
    left out; else they are an error. most: bytes of the longest payload; a longer one is no frame, for a damaged length
    would have the reader wait for bytes that never come."""

    def __init__(self, skip_noise: bool = False, most: int = MAX_PAYLOAD) -> None:
        self._pending = bytearray()
        self._skip_noise = skip_noise
        self._most = most

    def feed(self, data: bytes) -> list[ProtocolFrame]:
        """The frames that are complete now. Raises TinycError when the stream is damaged."""
        self._pending += data
        frames = []
        while (frame := self._next()) is not None:
            frames.append(frame)
        return frames

    def _next(self) -> ProtocolFrame | None:
        if not self._skip_noise:
            return self._parse()
        while True:
            start = self._pending.find(SYNC)
            # The last byte may be the first one of a sync mark.
            del self._pending[: start if start >= 0 else max(len(self._pending) - 1, 0)]
            try:
                return self._parse()
            except TinycError:
                del self._pending[0]

    def _parse(self) -> ProtocolFrame | None:
        if len(self._pending) < _HEADER.size:
            return None
        sync, version, type_, length = _HEADER.unpack_from(self._pending)
        if sync != SYNC or length > self._most:
            raise TinycError("the firmware's answer is damaged: there is no frame where one must begin", hint=_NOISY)
        if version != VERSION:
            message = f"the firmware speaks protocol version {version}, this tinyc speaks {VERSION}"
            raise TinycError(message, hint="build the firmware again and flash it: tinyc flash")
        end = _HEADER.size + length + 4
        if len(self._pending) < end:
            return None
        body = bytes(self._pending[len(SYNC) : end - 4])
        (crc,) = struct.unpack_from("<I", self._pending, end - 4)
        if crc != zlib.crc32(body):
            raise TinycError("the firmware's answer is damaged: the checksum of a frame is wrong", hint=_NOISY)
        del self._pending[:end]
        return ProtocolFrame(type_, body[_HEADER.size - len(SYNC) :])


class FrameError(TinycError):
    """A frame whose checksum is right and whose content is not what docs/firmware-protocol.md says."""

    def __init__(self, message: str, where: Loc | None = None, hint: str = "", exit_code: int = 2) -> None:
        super().__init__(message, where, hint or "is it firmware of `tinyc build`, of this version?", exit_code)


def _wrong_length(name: str, length: int, expected: str) -> FrameError:
    article = "an" if name[0] in "IE" else "a"
    return FrameError(f"{article} {name} frame of the firmware has {length} bytes; it must have {expected}")


@dataclass(frozen=True, slots=True)
class InfoFrame:
    """An INFO frame: what the firmware says of its model. started: sent unasked, when the firmware begins."""

    dumps_steps: bool
    started: bool
    arena_bytes: int
    steps: int
    input_bytes: tuple[int, ...]
    output_bytes: tuple[int, ...]
    version: str


def parse_info(payload: bytes) -> InfoFrame:
    """The fields of an INFO payload. Raises FrameError when it is too short for them."""
    if len(payload) < _INFO.size:
        raise _wrong_length("INFO", len(payload), f"at least {_INFO.size}")
    flags, arena, _align, inputs, outputs, steps = _INFO.unpack_from(payload)
    text_at = _INFO.size + 4 * (inputs + outputs)
    if len(payload) < text_at:
        raise _wrong_length("INFO", len(payload), f"{text_at} for {inputs} inputs and {outputs} outputs")
    sizes = struct.unpack_from(f"<{inputs + outputs}I", payload, _INFO.size)
    text = payload[text_at:].decode("utf-8", "replace")
    return InfoFrame(bool(flags & 1), bool(flags & 2), arena, steps, sizes[:inputs], sizes[inputs:], text)


@dataclass(frozen=True, slots=True)
class Result:
    """A RESULT frame: what one inference gave. Stack and cycles are None when not measured."""

    inference: int
    status: int
    guards: int
    stack_bytes: int | None
    cycles: int | None
    outputs: bytes


def parse_result(payload: bytes) -> Result:
    """The fields of a RESULT payload. Raises FrameError when it is too short for them; how many bytes of outputs are
    right only the model knows: `check_outputs`."""
    if len(payload) < _RESULT.size:
        raise _wrong_length("RESULT", len(payload), f"{_RESULT.size} and the outputs")
    inference, status, guards, stack, low, high = _RESULT.unpack_from(payload)
    unmeasured = low == NOT_MEASURED and high == NOT_MEASURED
    return Result(
        inference,
        status,
        guards,
        None if stack == NOT_MEASURED else stack,
        None if unmeasured else high << 32 | low,
        payload[_RESULT.size :],
    )


def check_outputs(result: Result, output_bytes: Sequence[int]) -> None:
    """Raises FrameError unless a RESULT has the bytes of the model's outputs."""
    if len(result.outputs) != sum(output_bytes):
        raise FrameError(
            f"a RESULT frame of the firmware has {len(result.outputs)} bytes of outputs; "
            f"the model has {sum(output_bytes)}"
        )


@dataclass(frozen=True, slots=True)
class StepFrame:
    """A STEP frame: the output of one step in one inference, or a row of it."""

    inference: int
    step: int
    output: bytes


def parse_step(payload: bytes) -> StepFrame:
    """The fields of a STEP payload. Raises FrameError when it is too short for them."""
    if len(payload) < _PAIR.size:
        raise _wrong_length("STEP", len(payload), f"{_PAIR.size} and the step's output")
    inference, step = _PAIR.unpack_from(payload)
    return StepFrame(inference, step, payload[_PAIR.size :])


@dataclass(frozen=True, slots=True)
class Refusal:
    """An ERROR frame: why a request was refused."""

    code: int
    detail: int


def parse_refusal(payload: bytes) -> Refusal:
    """The fields of an ERROR payload. Raises FrameError when it has not their length."""
    if len(payload) != _PAIR.size:
        raise _wrong_length("ERROR", len(payload), str(_PAIR.size))
    return Refusal(*_PAIR.unpack(payload))


@dataclass(frozen=True, slots=True)
class Done:
    """An END or a RESET frame: that request has been carried out."""

    reply: Reply


@dataclass(frozen=True, slots=True)
class FaultFrame:
    """A FAULT frame: where the core was, and its fault registers. pc and lr None: they could not be read.
    RISC-V: exc_return is 0, exception is mcause, lr is ra and mmfar is mtval."""

    inference: int
    exception: int
    exc_return: int
    sp: int
    pc: int | None
    lr: int | None
    cfsr: int
    hfsr: int
    mmfar: int
    bfar: int


def parse_fault(payload: bytes) -> FaultFrame:
    """The fields of a FAULT payload. Raises FrameError when it has not their length."""
    if len(payload) != _FAULT.size:
        raise _wrong_length("FAULT", len(payload), str(_FAULT.size))
    inference, exception, exc_return, sp, pc, lr, cfsr, hfsr, mmfar, bfar = _FAULT.unpack(payload)
    return FaultFrame(
        inference,
        exception,
        exc_return,
        sp,
        None if pc == NOT_MEASURED else pc,
        None if lr == NOT_MEASURED else lr,
        cfsr,
        hfsr,
        mmfar,
        bfar,
    )


Message = InfoFrame | Result | StepFrame | Refusal | FaultFrame | Done

_PARSERS: Mapping[int, Callable[[bytes], Message]] = {
    Reply.INFO: parse_info,
    Reply.RESULT: parse_result,
    Reply.STEP: parse_step,
    Reply.ERROR: parse_refusal,
    Reply.FAULT: parse_fault,
}


def decode(frame: ProtocolFrame) -> Message:
    """What a frame of the firmware says. Raises FrameError when its type is none of Reply, or its length wrong."""
    if frame.type in _PARSERS:
        return _PARSERS[frame.type](frame.payload)
    if frame.type not in (Reply.END, Reply.RESET):
        raise FrameError(f"the firmware sent a frame of type 0x{frame.type:02x}, which is no reply")
    if frame.payload:
        raise _wrong_length(Reply(frame.type).name, len(frame.payload), "none")
    return Done(Reply(frame.type))


# Bits of the Configurable Fault Status Register, Armv7-M and Armv8-M Architecture Reference Manual.
_CFSR = (
    (0, "instruction fetch from memory that must not be executed"),
    (1, "access that the memory protection refuses"),
    (8, "instruction fetch from memory that is not there"),
    (9, "access to memory that is not there"),
    (10, "access to memory that is not there"),
    (16, "undefined instruction"),
    (17, "jump to an address without the Thumb bit"),
    (19, "floating-point instruction with the FPU off"),
    (24, "unaligned access"),
    (25, "division by zero"),
)
_MMFAR_VALID, _BFAR_VALID = 7, 15

# Exception codes of mcause, RISC-V Privileged Architecture; those from _FIRST_ACCESS on have an address in mtval.
_MCAUSE = {
    0: "jump to an unaligned address",
    1: "instruction fetch from memory that must not be executed",
    2: "undefined instruction",
    3: "breakpoint",
    4: "unaligned access",
    5: "access that the memory protection refuses",
    6: "unaligned access",
    7: "access that the memory protection refuses",
}
_FIRST_ACCESS = 4


def fault_reason(fault: FaultFrame) -> str:
    """What went wrong, in words, with the address where the core gives one (Armv6-M gives nothing)."""
    if fault.pc is None:
        return f"the stack overflowed (stack pointer 0x{fault.sp:08x})"
    if fault.exc_return == 0:
        reason = _MCAUSE.get(fault.exception, f"exception {fault.exception}")
        return reason + (f" at 0x{fault.mmfar:08x}" if fault.exception >= _FIRST_ACCESS else "")
    reasons = [text for bit, text in _CFSR if fault.cfsr >> bit & 1] or ["hard fault"]
    reason = ", ".join(dict.fromkeys(reasons))
    if fault.cfsr >> _MMFAR_VALID & 1:
        reason += f" at 0x{fault.mmfar:08x}"
    elif fault.cfsr >> _BFAR_VALID & 1:
        reason += f" at 0x{fault.bfar:08x}"
    return reason
