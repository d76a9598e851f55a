# SPDX-License-Identifier: Apache-2.0
"""esptool, as tinyc calls it, against a boot loader written from Espressif's page: what it writes, and faults on the
line and in the flash. Skipped where esptool is not installed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from esp_simulator import CHIPS, ByteFault, EspChip

from tinyc.base.errors import TinycError
from tinyc.flash import flash, plan_flash
from tinyc.flash.handover import tool_command

ORIGIN = 0x10000
pytestmark = pytest.mark.skipif(tool_command("esptool") is None, reason="esptool is not installed: pip install esptool")


def application(board: str, plain: bool = True) -> bytes:
    """An image of ESP-IDF for the chip, of data that can be deflated or not."""
    head = (
        b"\xe9\0\2\x20" + bytes(8) + CHIPS[board].to_bytes(2, "little") + bytes(18) + 0xABCD5432.to_bytes(4, "little")
    )
    return head + (bytes(range(200)) * 50 if plain else random.Random(3).randbytes(9000))


def flashed(tmp_path: Path, chip: EspChip, data: bytes) -> bool:
    """Whether tinyc calls it good."""
    binary = tmp_path / "app.bin"
    binary.write_bytes(data)
    with chip.at_socket() as port:
        try:
            flash(plan_flash(binary, chip.board, port))
        except TinycError:
            return False
    return True


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("board", CHIPS)
def test_an_application_is_written(tmp_path: Path, board: str, plain: bool) -> None:
    chip, data = EspChip(board), application(board, plain)
    assert flashed(tmp_path, chip, data)
    assert chip.flash[ORIGIN : ORIGIN + len(data)] == data
    assert chip.flash[:ORIGIN] == b"\xff" * ORIGIN


@pytest.mark.parametrize("board", CHIPS)
def test_firmware_of_a_build_is_written_to_the_start(tmp_path: Path, board: str) -> None:
    """Byte by byte: esptool changes no bytes of what has no header."""
    chip, data = EspChip(board), 2 * bytes.fromhex("1d04dbae") + random.Random(5).randbytes(20_000)
    assert flashed(tmp_path, chip, data)
    assert chip.flash[: len(data)] == data
    assert set(chip.flash[len(data) :]) == {0xFF}


def test_flash_that_does_not_keep_its_bytes_is_not_called_good(tmp_path: Path) -> None:
    assert not flashed(tmp_path, EspChip("esp32-c3", worn=range(ORIGIN + 5000, ORIGIN + 5001)), application("esp32-c3"))


@pytest.mark.parametrize("part", [pytest.param(n, marks=() if n == 0 else pytest.mark.slow) for n in range(8)])
def test_bytes_of_a_session(tmp_path: Path, part: int) -> None:
    """Damaged or lost, at places all over it: the flash is right, or tinyc does not say so."""
    board, chances = "esp32-c3", random.Random(part)
    data, whole = application(board), EspChip(board)
    assert flashed(tmp_path, whole, data)
    good = 0
    for to_chip, count in whole.counts.items():
        for _ in range(4):
            fault = ByteFault(to_chip, chances.randrange(count), chances.choice((None, 0x01, 0x80, 0xFF)))
            chip = EspChip(board, fault=fault)
            if flashed(tmp_path, chip, data):
                assert chip.flash[ORIGIN : ORIGIN + len(data)] == data, fault
                good += 1
    assert good > 0
