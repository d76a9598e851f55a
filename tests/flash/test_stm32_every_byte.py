# SPDX-License-Identifier: Apache-2.0
"""Every byte of a flashing session is lost, comes twice or is damaged: the flash ends right, or tinyc says that it does
not; and nothing outside the image's sectors changes. The same from every state that the bootloader may be left in."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from operator import xor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stm32_simulator import WRITE, LineFault, SimulatedLine, Stm32

from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.flash.base import FlashError
from tinyc.flash.stm32 import FlashedSectors, flash_stm32
from tinyc.flash.stm32_commands import Bootloader
from tinyc.flash.stm32_filler import LIMIT, filler
from tinyc.toolchain.image import Image

ORIGIN = 0x0800_0000
SECTOR = 512
KINDS: tuple[str | int, ...] = ("lose", "twice", *(1 << bit for bit in range(8)), 0x7F, 0xFF)
OLD = (bytes(range(1, 255)) * 13)[: 6 * SECTOR]
_FLASHING = load_board("stm32f4-discovery").flashing
assert _FLASHING is not None
FLASHING = replace(_FLASHING, sectors=((6, SECTOR),), size_register=0)


@dataclass
class Session:
    """An image for a small chip that holds another firmware. at: from the flash's start."""

    data: bytes
    at: int = 0
    extended: bool = True
    erase_waits: tuple[int, ...] = ()

    def run(self, *faults: LineFault) -> tuple[Stm32, SimulatedLine, FlashedSectors | TinycError]:
        chip = Stm32(sectors=(SECTOR,) * 6, contents=OLD, any_length=True, extended=self.extended,
                     erase_waits=[*self.erase_waits])  # fmt: skip
        line = SimulatedLine(chip, *faults)
        try:
            return chip, line, flash_stm32(line, FLASHING, ORIGIN, Image(ORIGIN + self.at, self.data))
        except TinycError as error:
            return chip, line, error

    @property
    def expected(self) -> bytes:
        first, last = self.at // SECTOR * SECTOR, -(-(self.at + len(self.data)) // SECTOR) * SECTOR
        mine = b"\xff" * (self.at - first) + self.data
        return OLD[:first] + mine.ljust(last - first, b"\xff") + OLD[last:]

    def check(self, *faults: LineFault) -> bool:
        """Whether it was flashed; asserts what must hold in any case."""
        chip, _, done = self.run(*faults)
        first, last = self.at // SECTOR * SECTOR, -(-(self.at + len(self.data)) // SECTOR) * SECTOR
        assert not chip.accidents, faults
        assert chip.flash[:first] == OLD[:first], faults
        assert chip.flash[last:] == OLD[last:], faults
        if isinstance(done, TinycError):
            assert done.exit_code in (1, 2)
            assert done.message
            return False
        assert chip.flash == self.expected, faults
        return True

    def single_faults(self) -> Iterator[LineFault]:
        _, line, done = self.run()
        assert isinstance(done, FlashedSectors)
        for to_chip, count in line.bytes.items():
            for position in range(count):
                yield from (LineFault(to_chip, position, kind) for kind in KINDS)


def without_commands(data: bytes) -> bytes:
    """No two bytes beside each other that are a command: see test_data_that_are_commands."""
    harmless = bytearray(data)
    for i in range(1, len(harmless)):
        if harmless[i - 1] ^ harmless[i] == 0xFF:
            harmless[i] ^= 1
    return bytes(harmless)


RANDOM = without_commands(random.Random(3).randbytes(700))
SESSIONS = {
    "short": Session(RANDOM[:20]),
    "ones that 0x7f would make": Session(b"\x7f" * 24),
    "zeros": Session(bytes(24)),
    "at the checksum's address": Session(RANDOM[:16], at=0x800 - 0x200),
    "old erase": Session(RANDOM[20:40], at=SECTOR, extended=False),
    "slow erase": Session(RANDOM[:9], erase_waits=(1, 1)),
    "erase that takes longer than tinyc waits": Session(RANDOM[:9], erase_waits=(4,)),
}
LONG = {
    "three blocks": Session(RANDOM[:600]),
    "old erase, far": Session(RANDOM[:300], at=3 * SECTOR, extended=False),
    "like lengths": Session(bytes(range(64)) * 4, at=SECTOR),
    "second sector": Session(RANDOM[100:360], at=SECTOR + 256),
}


@pytest.mark.parametrize(
    "name", [name if "waits" not in name else pytest.param(name, marks=pytest.mark.slow) for name in SESSIONS]
)
def test_every_byte_of_a_session(name: str) -> None:
    session = SESSIONS[name]
    flashed = [session.check(fault) for fault in session.single_faults()]
    assert sum(flashed) > 0.9 * len(flashed)  # most single faults are mended


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_every_byte_of_a_long_session(name: str) -> None:
    session = LONG[name]
    flashed = [session.check(fault) for fault in session.single_faults()]
    assert sum(flashed) > 0.9 * len(flashed)


FAULTS = st.lists(
    st.builds(LineFault, st.booleans(), st.integers(0, 400), st.sampled_from(KINDS) | st.integers(1, 255)), max_size=12
)


@settings(max_examples=150, deadline=None)
@given(FAULTS, st.sampled_from(sorted(SESSIONS)))
def test_a_wrong_flash_is_never_called_good(faults: list[LineFault], name: str) -> None:
    session = SESSIONS[name]
    chip, _, done = session.run(*faults)
    if isinstance(done, FlashedSectors):
        assert chip.flash[session.at : session.at + len(session.data)] == session.data


def test_the_lost_answer_to_an_address() -> None:
    """The chip then waits for the length of a WRITE: 0x7F and what follows would be 128 bytes of 0x7F with the right
    checksum."""
    session = Session(RANDOM[:256])
    chip, line, _ = session.run()
    acks = [position for position in range(line.bytes[False]) if session.check(LineFault(False, position, "lose"))]
    assert len(acks) == line.bytes[False]  # whatever answer is lost, it ends well
    assert chip.counts[WRITE] == 1


SLOW_PAIRS = (b"\x82\x7d", b"\x73\x8c", b"\x44\xbb", b"\x21\xde")


@pytest.mark.parametrize(
    "pair", [b"\x92\x6d", b"\x31\xce", *(pytest.param(pair, marks=pytest.mark.slow) for pair in SLOW_PAIRS)]
)
def test_data_that_are_commands(pair: bytes) -> None:
    """When the length of a WRITE arrives damaged, the rest of its data is taken for commands. The protocol has nothing
    against it; but never is the flash called good that is not."""
    session = Session(pair * 12)
    for fault in session.single_faults():
        chip, _, done = session.run(fault)
        if isinstance(done, FlashedSectors):
            assert chip.flash == session.expected
            assert not chip.accidents


# --- the filler ---


DATA = bytes([63, *RANDOM[:64]])
FRAMES = {
    "command": b"\x31\xce",
    "address": b"\x08\x00\x12\x00\x1a",
    "one-byte erase": bytes([0, 5, 5]),
    "two-byte erase": bytes([0, 0, 0, 5, 5]),
    "data": DATA + bytes([reduce(xor, DATA)]),
}


def waiting(arrived: bytes, extended: bool = True) -> Stm32:
    chip = Stm32(sectors=(SECTOR,) * 6, contents=OLD, any_length=True, extended=extended)
    for byte in b"\x7f" + arrived:
        chip.feed(byte)
    return chip


TO_WRITE, AT = b"\x31\xce", b"\x08\x00\x02\x00\x0a"
SOME = b"\x03\x01\x02\x04\x08\x0c"  # four bytes of data between length and checksum
# What the bootloader waits for: what arrived before its last step, what of that step, and what was sent of it.
STATES = {
    "a command": (b"", b"", b""),
    "a complement": (b"", b"\x31", b"\x31\xce"),
    "an address": (b"", TO_WRITE, TO_WRITE),
    "the rest of an address": (TO_WRITE, AT[:2], AT),
    "the checksum of an address": (TO_WRITE, AT[1:], AT),
    "a length": (TO_WRITE, AT, AT),
    "data": (TO_WRITE + AT, SOME[:3], SOME),
    "the checksum of data": (TO_WRITE + AT, SOME[:5], SOME),
    "data whose length was lost": (TO_WRITE + AT, b"\x21" + bytes(15) + b"\x2e", b"\x0f\x21" + bytes(15) + b"\x2e"),
    "data whose length was damaged": (TO_WRITE + AT, b"\x47" + SOME[1:], SOME),
    "the length of a read": (b"\x11\xee", AT, AT),
    "the complement of a length": (b"\x11\xee" + AT, b"\x04", b"\x04\xfb"),
    "an address to start at": (b"", b"\x21\xde", b"\x21\xde"),
    "the number of sectors": (b"", b"\x44\xbb", b"\x44\xbb"),
    "half the number of sectors": (b"\x44\xbb", b"\x00", b"\x00\x00\x00\x03\x03"),
    "half a sector": (b"\x44\xbb", b"\x00\x00\x00", b"\x00\x00\x00\x03\x03"),
    "the checksum of sectors": (b"\x44\xbb", b"\x00\x00\x00\x03", b"\x00\x00\x00\x03\x03"),
    "more sectors, of a damaged number": (b"\x44\xbb", b"\x00\x02\x00\x01\x01", b"\x00\x00\x00\x01\x01"),
    "the number of write protected sectors": (b"", b"\x63\x9c", b""),
    "old: the number of sectors": (b"", b"\x43\xbc", b"\x43\xbc"),
    "old: the rest, without the number": (b"\x43\xbc", b"\x01\x01", b"\x00\x01\x01"),
    **{f"old: number {n}": (b"\x43\xbc", bytes([n, 1, 1]), b"\x00\x01\x01") for n in (1, 2, 3, 4, 127, 254)},
}


@pytest.mark.parametrize("state", STATES)
def test_the_filler_ends_every_state_and_changes_nothing(state: str) -> None:
    before, arrived, sent = STATES[state]
    chip = waiting(before + arrived, extended=b"\x43" not in before + arrived)
    bootloader = Bootloader(SimulatedLine(chip))
    bootloader._sent = sent
    assert bootloader._comes_back()
    assert bytes(chip.flash) == OLD
    assert not chip.accidents
    assert chip.started is None
    assert bootloader._identify().chip_id == 0x413  # and it takes the next command at once


@pytest.mark.parametrize("frame", FRAMES)
def test_the_running_xor_of_the_filler_ends_no_frame(frame: str) -> None:
    """By the definition of frames, not by the simulator: whatever byte of the frame is lost or damaged, and wherever in
    the filler a frame could begin."""
    sent = FRAMES[frame]
    data = bytes(islice(filler(sent), LIMIT))
    assert all(2 <= byte < 64 for byte in data)
    for damage in range(1, 256) if frame in ("data", "one-byte erase") else ():
        length = sent[0] ^ damage
        missing = length + 2 - (len(sent) - 1)
        if 0 < missing <= LIMIT:
            assert reduce(xor, data[:missing]) != damage  # the XOR of what arrived is the damage
    for at in range(400):
        end = at + data[at] + 3
        assert reduce(xor, data[at:end]) != 0
        end = at + 2 + 2 * ((data[at] << 8 | data[at + 1]) + 1) + 1
        if end <= LIMIT:
            assert reduce(xor, data[at:end]) != 0
    assert data[0] not in sent
    running = [reduce(xor, data[:count]) for count in range(1, 700)]
    assert 0 not in running


@given(st.binary(max_size=12))
@settings(max_examples=100, deadline=None)
def test_connecting_to_a_bootloader_that_was_left_anywhere(reach: bytes) -> None:
    """Whatever came before: it is connected to, or said not to answer."""
    chip = waiting(TO_WRITE + AT + reach)
    with suppress(FlashError):  # nobody answers
        assert Bootloader(SimulatedLine(chip)).connect().chip_id == 0x413
