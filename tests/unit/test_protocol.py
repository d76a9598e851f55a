"""Frames of the firmware protocol, and how its replies become a result or an error."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyc.errors import TinycError
from tinyc.run.protocol import (
    Fault,
    Frame,
    FrameReader,
    Reply,
    Request,
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
    assert got == [Frame(type_, payload) for type_, payload in frames]


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


def fault(cfsr: int, pc: int = 0x100) -> Fault:
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
