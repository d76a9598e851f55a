# SPDX-License-Identifier: Apache-2.0
"""Frames of the firmware protocol, and how its replies become a result or an error."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyc.base.errors import TinycError
from tinyc.cli.serial_text import frame_text
from tinyc.run.protocol import (
    Done,
    FaultFrame,
    FrameError,
    FrameReader,
    InfoFrame,
    Message,
    ProtocolFrame,
    Refusal,
    Reply,
    Request,
    Result,
    StepFrame,
    check_outputs,
    decode,
    encode,
    fault_reason,
    parse_fault,
    parse_result,
    requests,
)


@given(st.lists(st.tuples(st.sampled_from(Reply), st.binary(max_size=300)), max_size=5), st.integers(1, 40))
def test_frames_survive_any_cutting(frames: list[tuple[Reply, bytes]], piece: int) -> None:
    stream = b"".join(encode(type_, payload) for type_, payload in frames)
    reader = FrameReader()
    got = [f for at in range(0, len(stream), piece) for f in reader.feed(stream[at : at + piece])]
    assert got == [ProtocolFrame(type_, payload) for type_, payload in frames]


@given(st.lists(st.binary(max_size=30), max_size=4), st.integers(1, 9))
def test_noise_between_frames_is_left_out_wherever_it_is_cut(payloads: list[bytes], piece: int) -> None:
    """Among it first bytes of a frame, right before one and at the end of a piece."""
    stream = b"".join(b"boot T\xff" + encode(Reply.STEP, payload) + b"T" for payload in payloads)
    reader = FrameReader(skip_noise=True)
    got = [f for at in range(0, len(stream), piece) for f in reader.feed(stream[at : at + piece])]
    assert got == [ProtocolFrame(Reply.STEP, payload) for payload in payloads]


def crc32(data: bytes) -> int:
    """Bit by bit, as the standard defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_layout() -> None:
    body = b"\x01\x02\x01\0\0\0\x05"
    assert encode(Request.RUN, b"\x05") == b"TC" + body + struct.pack("<I", crc32(body))


@pytest.mark.parametrize("at", range(2, 13))
def test_a_changed_bit_is_found(at: int) -> None:
    frame = bytearray(encode(Reply.RESULT, b"abc"))
    frame[at] ^= 0x10
    reader = FrameReader()
    with pytest.raises(TinycError, match=r"damaged|version"):  # a longer length only shows with more bytes
        reader.feed(bytes(frame) + bytes(1 << 21))


def test_no_frame() -> None:
    with pytest.raises(TinycError, match="no frame where one must begin"):
        FrameReader().feed(b"Hello, world")


def test_result() -> None:
    payload = struct.pack("<IiIIII", 7, -3, 2, 48, 0x10, 1) + b"out"
    result = parse_result(payload)
    assert (result.inference, result.status, result.guards, result.stack_bytes) == (7, -3, 2, 48)
    assert result.cycles == 0x1_0000_0010
    assert result.outputs == b"out"
    unmeasured = parse_result(struct.pack("<IiIIII", 0, 0, 0, *[0xFFFFFFFF] * 3))
    assert unmeasured.stack_bytes is None
    assert unmeasured.cycles is None


def fault(cfsr: int, pc: int = 0x100) -> FaultFrame:
    words = [0, 3, 0xFFFFFFF9, 0x20001000, pc, 0x200, cfsr, 0x40000000, 0x60000001, 0x70000002]
    return parse_fault(struct.pack("<10I", *words))


@pytest.mark.parametrize(
    ("cfsr", "reason"),
    [
        (0x00000082, "access that the memory protection refuses at 0x60000001"),
        (0x00008200, "access to memory that is not there at 0x70000002"),
        (0x00000400, "access to memory that is not there"),
        (0x00010000, "undefined instruction"),
        (0x01000000, "unaligned access"),
        (0x02000000, "division by zero"),
        (0x00080000, "floating-point instruction with the FPU off"),
        (0x00000000, "hard fault"),
    ],
)
def test_fault_reason(cfsr: int, reason: str) -> None:
    assert fault_reason(fault(cfsr)) == reason


def test_fault_without_registers_is_a_stack_overflow() -> None:
    assert "the stack overflowed" in fault_reason(fault(0x1000, pc=0xFFFFFFFF))


@pytest.mark.parametrize(
    ("sequence", "kinds"),
    [
        (None, "RUN RUN RUN END"),
        (0, "RESET RUN RUN RUN END"),
        (2, "RESET RUN RUN RESET RUN END"),
        (1, "RESET RUN RESET RUN RESET RUN END"),
    ],
)
def test_requests_reset_models_with_state(sequence: int | None, kinds: str) -> None:
    frames = FrameReader().feed(requests([[b"a"], [b"b"], [b"c"]], sequence))
    assert [Request(frame.type).name for frame in frames] == kinds.split()


# --- frames with a right checksum and wrong contents ---

KINDS = {
    Reply.INFO: InfoFrame,
    Reply.RESULT: Result,
    Reply.STEP: StepFrame,
    Reply.ERROR: Refusal,
    Reply.FAULT: FaultFrame,
}


def fits(type_: int, payload: bytes) -> bool:
    """Whether docs/firmware-protocol.md allows a payload of this length."""
    exact = {Reply.ERROR: 8, Reply.FAULT: 40, Reply.END: 0, Reply.RESET: 0}
    if type_ in exact:
        return len(payload) == exact[Reply(type_)]
    if type_ == Reply.INFO and len(payload) >= 24:
        inputs, outputs = struct.unpack_from("<2I", payload, 12)
        return len(payload) >= 24 + 4 * (inputs + outputs)
    return len(payload) >= {Reply.RESULT: 24, Reply.STEP: 8}.get(Reply(type_), 1 << 30)


PAYLOADS = st.binary(max_size=80) | st.builds(
    lambda head, counts, rest: head[:12].ljust(12) + struct.pack("<2I", *counts) + rest,
    st.binary(max_size=12),
    st.tuples(st.integers(0, 4), st.integers(0, 4)) | st.tuples(*[st.integers(0, 2**32 - 1)] * 2),
    st.binary(max_size=60),
)


@given(st.sampled_from(Reply) | st.integers(0, 255), PAYLOADS)
def test_any_frame_is_decoded_or_refused_by_name(type_: int, payload: bytes) -> None:
    frame = ProtocolFrame(type_, payload)
    if type_ in set(Reply) and fits(type_, payload):
        message = decode(frame)
        assert isinstance(message, KINDS.get(Reply(type_), Done))
        assert frame_text(frame)
    else:
        with pytest.raises(FrameError) as caught:
            decode(frame)
        name = Reply(type_).name if type_ in set(Reply) else f"0x{type_:02x}"
        assert name in caught.value.message
        assert frame_text(frame).startswith(caught.value.message)


def test_every_message_and_its_line() -> None:
    fault_words = [4, 3, 0xFFFFFFF9, 0x20001000, 0x100, 0x200, 1 << 25, 0, 0, 0]
    info = struct.pack("<9I", 2, 640, 16, 1, 2, 5, 9, 4, 3) + b"net 1\x1b[2J"
    said: list[tuple[Reply, bytes, Message, str]] = [
        (Reply.INFO, info, InfoFrame(False, True, 640, 5, (9,), (4, 3), "net 1\x1b[2J"),
         r"INFO net 1\x1b[2J: arena 640, inputs (9,), outputs (4, 3)"),
        (Reply.RESULT, struct.pack("<IiIIQ", 2, -1, 1, 96, 5000) + b"ab", Result(2, -1, 1, 96, 5000, b"ab"),
         "RESULT 2: status -1, 5,000 cycles, outputs 6162"),
        (Reply.STEP, struct.pack("<2I", 1, 7) + b"\xff", StepFrame(1, 7, b"\xff"), "STEP 7 of inference 1: ff"),
        (Reply.ERROR, struct.pack("<2I", 3, 70), Refusal(3, 70), "ERROR 3, detail 70"),
        (
            Reply.FAULT,
            struct.pack("<10I", *fault_words),
            FaultFrame(*fault_words),
            "FAULT in inference 4: division by zero",
        ),
        (Reply.END, b"", Done(Reply.END), "END"),
        (Reply.RESET, b"", Done(Reply.RESET), "RESET"),
    ]  # fmt: skip
    stream = b"".join(encode(type_, payload) for type_, payload, _, _ in said)
    assert [decode(frame) for frame in FrameReader().feed(stream)] == [message for _, _, message, _ in said]
    assert [frame_text(ProtocolFrame(type_, payload)) for type_, payload, _, _ in said] == [line for *_, line in said]


def test_outputs_of_another_length() -> None:
    result = Result(0, 0, 0, None, None, b"abc")
    check_outputs(result, (1, 2))
    for sizes in ((4,), (1, 1), ()):
        with pytest.raises(FrameError, match=f"has 3 bytes of outputs; the model has {sum(sizes)}"):
            check_outputs(result, sizes)
