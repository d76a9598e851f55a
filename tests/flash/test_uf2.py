# SPDX-License-Identifier: Apache-2.0
"""UF2: what tinyc writes and reads against a boot loader written from the format's page, with a fault at every byte."""

from __future__ import annotations

import hashlib
import itertools
import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from uf2_simulator import SECTOR, Uf2Board

from tinyc.base.errors import Loc, TinycError
from tinyc.board import load_board
from tinyc.flash import FlashJob, drives, flash, plan_flash
from tinyc.toolchain.image import Image
from tinyc.toolchain.uf2 import read_uf2, uf2

PICO2 = 0xE48B_FF59
HERE = Loc("firmware.uf2")
DATA = random.Random(5).randbytes(700)
IMAGE = Image(0x1000_0000, DATA)


def block(
    address: int, payload: bytes, number: int, count: int, flags: int = 0x2000, family: int = PICO2, tail: bytes = b""
) -> bytes:
    head = struct.pack("<8I", 0x0A324655, 0x9E5D5157, flags, address, len(payload), number, count, family)
    return (head + payload).ljust(508 - len(tail), b"\xff") + tail + struct.pack("<I", 0x0AB16F30)


@pytest.mark.parametrize("size", [1, 255, 256, 257, 512, 70_001])
@pytest.mark.parametrize("origin", [0, 0x2000, 0x1000_0000])
def test_written_and_read(size: int, origin: int) -> None:
    data = random.Random(size).randbytes(size)
    file = uf2(Image(origin, data), PICO2)
    board = Uf2Board(PICO2)
    board.take(file)
    assert board.started
    assert board.bytes_from(origin, size) == data
    read = read_uf2(file, PICO2, HERE)
    assert (read.origin, read.data[:size], any(read.data[size:])) == (origin, data, False)


def test_any_order_and_other_sectors_between() -> None:
    """As the format's page says that computers write."""
    file = uf2(IMAGE, PICO2)
    sectors = [file[at : at + SECTOR] for at in range(0, len(file), SECTOR)]
    for order in itertools.permutations(sectors):
        board = Uf2Board(PICO2)
        board.take(bytes(SECTOR) + b"FAT".ljust(SECTOR) + b"".join((order[0], *order)))
        assert board.started
        assert board.bytes_from(IMAGE.origin, 700) == DATA
        assert read_uf2(b"".join(order), PICO2, HERE).data[:700] == DATA


def test_what_is_for_others_is_left_out() -> None:
    """Files of several families joined, comments, regular files; the first block that picotool writes for an RP2350."""
    mine = uf2(IMAGE, PICO2)
    other = uf2(Image(0x2000, b"other" * 90), 0x68ED_2B88)
    notes = block(0, b"note", 0, 9, flags=0x2001) + block(0, b"file", 0, 9, flags=0x3000)
    first = block(0x10FF_FF00, b"\xef" * 256, 0, 2, flags=0xA000, family=0xE48B_FF57, tail=bytes(220))
    file = other + first + notes + mine
    assert read_uf2(file, PICO2, HERE) == read_uf2(mine, PICO2, HERE)
    board = Uf2Board(PICO2)
    board.take(file)
    assert board.bytes_from(IMAGE.origin, 700) == DATA


@pytest.mark.parametrize("size", [4, 256, 472, 476])
def test_other_sizes_of_payload_and_gaps(size: int) -> None:
    parts = [DATA[at : at + size] for at in range(0, 3 * 4, 4)]
    file = b"".join(block(0x4000 + number * 1024, part, number, 3) for number, part in enumerate(parts))
    read = read_uf2(file, PICO2, HERE)
    assert read.origin == 0x4000
    assert [read.data[at * 1024 :][:size] for at in range(3)] == parts
    if size < 476:
        assert set(read.data[size:1024]) == {0xFF}


def test_checksums_of_regions() -> None:
    region = DATA[:512]
    tail = struct.pack("<2I16s", 0x4000, 512, hashlib.md5(region, usedforsecurity=False).digest())
    blocks = [block(0x4000 + at, region[at : at + 256], at // 256, 2, flags=0x6000, tail=tail) for at in (0, 256)]
    assert read_uf2(b"".join(blocks), PICO2, HERE).data == region
    for at in range(256):
        damaged = bytearray(blocks[0])
        damaged[32 + at] ^= 0x10
        with pytest.raises(TinycError, match="the checksum of 0x00004000 in the UF2 file"):
            read_uf2(bytes(damaged) + blocks[1], PICO2, HERE)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "no UF2 file"),
        (b"MZ" * 100, "no UF2 file"),
        (bytes(512), "block 0 of the UF2 file is damaged"),
        (uf2(IMAGE, PICO2)[:-SECTOR], "does not have all of its blocks"),
        (uf2(IMAGE, PICO2) + uf2(IMAGE, PICO2)[:SECTOR], "has block 0 twice"),
        (uf2(IMAGE, 0xE48B_FF56), "has nothing for this board"),
        (block(0, b"abcd", 0, 2) + block(0, b"abcd", 1, 2), "two blocks for 0x00000000"),
        (block(0, b"abcd", 0, 2) + block(1 << 30, b"abcd", 1, 2), "spread over"),
        (block(0, b"abcd", 0, 1) + block(256, b"abcd", 1, 2), "does not have all"),
        (block(0, b"abc", 0, 1), "damaged"),
        (block(2, b"abcd", 0, 1), "damaged"),
        (block(0, b"", 0, 1), "damaged"),
        (block(0xFFFF_FFFC, b"abcdefgh", 0, 1), "damaged"),
        (block(0, b"abcd", 1, 1), "damaged"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused(file: bytes, message: str) -> None:
    with pytest.raises(TinycError, match=message):
        read_uf2(file, PICO2, HERE)


def faults(file: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Each byte lost, there twice, and damaged in several ways; and the file cut off there."""
    for at in range(len(file)):
        yield "lost", at, file[:at] + file[at + 1 :]
        yield "twice", at, file[: at + 1] + file[at:]
        yield "cut", at, file[:at]
        for mask in (0x01, 0x80, 0xFF):
            yield "damaged", at, file[:at] + bytes([file[at] ^ mask]) + file[at + 1 :]


def test_every_byte_of_a_file() -> None:
    """Refused, or the same for the board's flash; but for the payload itself and the address, which nothing in the file
    guards, and what the boot loader writes then is what tinyc read."""
    file = uf2(IMAGE, PICO2)
    whole = read_uf2(file, PICO2, HERE)
    kinds: dict[str, int] = {}
    for kind, at, damaged in faults(file):
        place = at % SECTOR
        try:
            read = read_uf2(damaged, PICO2, HERE)
        except TinycError:
            kinds[kind] = kinds.get(kind, 0) + 1
            continue
        assert kind == "damaged"  # every other fault leaves bytes that are no blocks
        unguarded = 32 <= place < 288 or 12 <= place < 20
        assert read == whole or unguarded
        board = Uf2Board(PICO2)
        board.take(damaged)
        assert all(read.data[address - read.origin] == byte for address, byte in board.flash.items())
    assert kinds["lost"] == kinds["twice"] == kinds["cut"] == len(file)
    assert kinds["damaged"] > 3 * 3 * 20  # magic numbers, flags, sizes, numbers, family of three blocks


def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, board: str = "raspberry-pi-pico2"):
    monkeypatch.setenv("TINYC_DRIVES", str(tmp_path / "drives"))
    monkeypatch.setattr(drives, "ACCEPT_SECONDS", 0.3)
    binary = tmp_path / "app.bin"
    binary.write_bytes(DATA)
    return plan_flash(binary, board, None, "uf2")


def connect(monkeypatch: pytest.MonkeyPatch, board: Uf2Board, damage=lambda data: data) -> None:
    """What is copied to the drive reaches the board, as `damage` says."""
    real = drives._write

    def write(target: Path, data: bytes, report: drives.Report) -> None:
        real(target, data, report)
        board.take(damage(data))

    monkeypatch.setattr(drives, "_write", write)


def test_a_board_takes_the_file_and_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A binary becomes a UF2 file on the way."""
    job = plan(tmp_path, monkeypatch)
    board = Uf2Board(PICO2, tmp_path / "drives" / "RP2350")
    connect(monkeypatch, board)
    steps: list[tuple[str, int, int]] = []
    result = flash(job, report=lambda *step: steps.append(step))
    assert board.started
    assert board.bytes_from(IMAGE.origin, 700) == DATA
    assert result.how.endswith("app.uf2: the board has taken every block, and started")
    assert ("write", 3 * SECTOR, 3 * SECTOR) in steps
    assert steps[-1] == ("verify", 1, 1)


def test_every_byte_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that has not got a block never starts, and tinyc never says that it did. Bytes that USB would have to
    damage without noticing are not guarded by the format: payload, and address."""
    monkeypatch.setattr(drives, "_LOOK_SECONDS", 0.001)
    job = plan(tmp_path, monkeypatch)
    monkeypatch.setattr(drives, "ACCEPT_SECONDS", 0.002)
    good = refused = 0
    for place in [*range(36), *range(280, 300), *range(504, SECTOR)]:
        for at in (place, place + 2 * SECTOR):
            for mask in (0x01, 0xFF):
                board = Uf2Board(PICO2, tmp_path / "drives" / "RP2350")
                with monkeypatch.context() as context:
                    connect(context, board, lambda data, at=at, mask=mask: _flipped(data, at, mask))
                    said = _try(job)
                unguarded = 32 <= place < 288 or 12 <= place < 28
                assert board.started == (said == "")
                assert said == "" or "has not got every block" in said
                assert said or unguarded or board.bytes_from(IMAGE.origin, 700) == DATA
                good += said == ""
                refused += said != ""
                if said:
                    board._unmount()
    assert good > 50
    assert refused > 50


def _try(job: FlashJob) -> str:
    """What is said of a flashing that failed; empty of one that did not."""
    try:
        flash(job)
    except TinycError as error:
        return error.message
    return ""


def _flipped(data: bytes, at: int, mask: int) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


@pytest.mark.parametrize("wrong", [False, True])
def test_flash_that_is_shown_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bool) -> None:
    """Boot loaders of the SAMD21 and nRF52840 show all of it as CURRENT.UF2."""
    family = 0x68ED_2B88
    job = plan(tmp_path, monkeypatch, "seeed-xiao-samd21")
    assert job.flashing.uf2_family == family
    board = Uf2Board(family, tmp_path / "drives" / "Arduino", current=True, stays=True)
    connect(monkeypatch, board, lambda data: _flipped(data, 100, 0x40) if wrong else data)
    if wrong:
        with pytest.raises(TinycError, match="what was copied is not in the board's flash"):
            flash(job)
    else:
        assert flash(job).how.endswith("its flash is right, but the board has not started: press reset")


def test_a_file_for_another_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "app.uf2"
    file.write_bytes(uf2(IMAGE, 0xE48B_FF56))
    with pytest.raises(TinycError, match="has nothing for this board"):
        plan_flash(file, "raspberry-pi-pico2", None, "uf2")
    with pytest.raises(TinycError, match="nrf52840-dk takes no UF2 file"):
        plan_flash(file, "nrf52840-dk", None)
    file.write_bytes(uf2(IMAGE, PICO2))
    assert plan_flash(file, "raspberry-pi-pico2", None, "uf2").image.data[:700] == DATA
    with pytest.raises(TinycError, match="cannot be flashed by openocd"):
        plan_flash(file, "raspberry-pi-pico2", None, "openocd")
    file.write_bytes(uf2(Image(0x0800_0000, DATA), PICO2))
    with pytest.raises(TinycError, match="the board's flash is 0x10000000"):
        plan_flash(file, "raspberry-pi-pico2", None, "uf2")


def test_families_are_those_of_the_list() -> None:
    """github.com/microsoft/uf2, utils/uf2families.json."""
    listed = {
        "raspberry-pi-pico": 0xE48BFF56, "raspberry-pi-pico2": 0xE48BFF59, "arduino-nano-rp2040": 0xE48BFF56,
        "seeed-xiao-samd21": 0x68ED2B88, "adafruit-feather-m4": 0x55114460, "seeed-xiao-nrf52840": 0xADA52840,
    }  # fmt: skip
    for name, family in listed.items():
        way = load_board(name).flashing
        assert way is not None
        assert (name, way.uf2_family) == (name, family)
