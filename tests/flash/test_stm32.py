# SPDX-License-Identifier: Apache-2.0
"""Flashing by the STM32 bootloader, against a strict simulator that independent clients prove honest."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from stm32_simulator import (
    ERASE,
    EXTENDED,
    F4_SECTORS,
    GET,
    GET_ID,
    GO,
    READ,
    WRITE,
    Fault,
    NoisyLine,
    SimulatedLine,
    Stm32,
)  # fmt: skip

from tinyc.base.errors import TinycError
from tinyc.base.serial_line import LineError, SerialPort
from tinyc.board import load_board
from tinyc.board.parts import Flashing
from tinyc.flash import stm32_commands
from tinyc.flash.base import Manner
from tinyc.flash.stm32 import FlashedSectors, flash_stm32
from tinyc.toolchain.image import Image

ORIGIN = 0x0800_0000
DATA = random.Random(1).randbytes(20_001)  # two sectors; no multiple of anything
FLASHING = load_board("stm32f4-discovery").flashing
assert FLASHING is not None


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost answers are given up sooner than on a real line."""
    monkeypatch.setattr(stm32_commands, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(stm32_commands, "SECTOR_SECONDS", 0.3)


def flash(chip: Stm32, data: bytes = DATA, *, flashing: Flashing = FLASHING, **options: bool) -> FlashedSectors:
    with chip.at_port() as port, SerialPort(port, 115_200, even_parity=True) as line:
        return flash_stm32(line, flashing, ORIGIN, Image(ORIGIN, data), Manner(**options))


def test_flash() -> None:
    chip = Stm32(contents=b"\x55" * 300_000)
    seen: dict[str, list[tuple[int, int]]] = {}
    with chip.at_port() as port, SerialPort(port, 115_200, even_parity=True) as line:
        done = flash_stm32(
            line, FLASHING, ORIGIN, Image(ORIGIN, DATA),
            Manner(report=lambda what, at, total: seen.setdefault(what, []).append((at, total))),
        )  # fmt: skip
    assert done == FlashedSectors(0x413, 2, 0, True)
    assert chip.flash[: len(DATA)] == DATA
    assert chip.erased == [0, 1]
    assert chip.flash[2 * 16_384 : 300_000] == b"\x55" * (300_000 - 2 * 16_384)  # the rest is as it was
    assert chip.started == ORIGIN
    assert {what: steps[-1][0] == steps[-1][1] for what, steps in seen.items()} == {
        "erase": True, "write": True, "verify": True,
    }  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 4, 7, 255, 256, 257, 16_383, 16_384, 16_385])
def test_sizes(size: int) -> None:
    chip = Stm32()
    flash(chip, DATA[:size])
    assert chip.flash[:size] == DATA[:size]
    assert len(chip.erased) == (2 if size > 16_384 else 1)


def test_blank_parts_are_not_written() -> None:
    chip = Stm32(contents=b"\x00" * 16_384)
    flash(chip, DATA[:256] + b"\xff" * 2048 + DATA[:100])
    assert chip.counts[WRITE] == 2
    assert chip.flash[:2404] == DATA[:256] + b"\xff" * 2048 + DATA[:100]


def test_old_erase_command() -> None:
    chip = Stm32(extended=False)
    flash(chip)
    assert chip.counts[ERASE] == 2
    assert chip.flash[: len(DATA)] == DATA


def test_no_start() -> None:
    chip = Stm32()
    assert flash(chip, start=False) == FlashedSectors(0x413, 2, 0, False)
    assert chip.started is None


# --- faults on the way ---

TRANSIENT = [
    *(Fault(command, 1, kind) for command in (GET, GET_ID) for kind in ("nack", "silent")),
    Fault(GO, 1, "nack"), Fault(GET_ID, 1, "flip"),
    Fault(EXTENDED, 1, "nack"), Fault(EXTENDED, 2, "silent"), Fault(EXTENDED, 1, "flip"),
    Fault(WRITE, 1, "nack"), Fault(WRITE, 5, "garble"), Fault(WRITE, 7, "silent"), Fault(WRITE, 80, "flip"),
    Fault(WRITE, 3, "garble", times=2), Fault(WRITE, 77, "silent", times=99),  # written all the same
    Fault(READ, 5, "nack"), Fault(READ, 20, "silent"), Fault(READ, 30, "flip"),
]  # fmt: skip


@pytest.mark.parametrize("fault", TRANSIENT, ids=lambda f: f"{f.command:#x}-{f.kind}-{f.nth}x{f.times}")
def test_passing_faults_are_retried(fault: Fault) -> None:
    chip = Stm32(faults=(fault,))
    done = flash(chip)
    assert done.started
    assert chip.flash[: len(DATA)] == DATA


def test_start_without_an_answer() -> None:
    chip = Stm32(faults=(Fault(GO, 1, "silent"),))
    assert flash(chip) == FlashedSectors(0x413, 2, 0, False)
    assert chip.flash[: len(DATA)] == DATA
    assert chip.started == ORIGIN


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            Fault(WRITE, 5, "stall", 99),
            "writing at 0x08000400 failed: no answer to the command, and then nothing brings",
        ),
        pytest.param(Fault(EXTENDED, 1, "stall", 99), "erasing sector 0 failed: no answer", marks=pytest.mark.slow),
        pytest.param(Fault(GET, 1, "stall", 99), "asking what it is failed: no answer", marks=pytest.mark.slow),
        (Fault(READ, 3, "silent", 99), "reading at 0x08000000 failed 8 times: it sent 255 of 256 bytes"),
    ],
)
def test_lasting_faults_are_named(fault: Fault, message: str) -> None:
    chip = Stm32(faults=(fault,))
    with pytest.raises(TinycError, match=message):
        flash(chip)
    assert chip.started is None


@pytest.mark.parametrize(
    ("chip", "message", "why"),
    [
        (Stm32(faults=(Fault(WRITE, 5, "nack", 99),)), "it refuses the command, writing at 0x08000400", "RDP"),
        (Stm32(faults=(Fault(WRITE, 5, "nack_last", 99),)), "it refuses the data, writing at 0x08000400", "WRP"),
        (Stm32(faults=(Fault(EXTENDED, 2, "nack_last", 99),)), "the sectors, erasing sector 1", "no such sector"),
        (Stm32(faults=(Fault(READ, 11, "nack", 99),)), "it refuses the command, reading at 0x08000600", "RDP"),
        (Stm32(faults=(Fault(READ, 11, "nack_last", 99),)), "the length, reading at 0x08000600", "lower --baud"),
        (Stm32(origin=0x0900_0000), "it refuses the address, reading at 0x08000000", "no memory there"),
        (Stm32(write_protected=(1,), contents=bytes(40_000)), "there: at 0x08004000 is 0x00", "against writ"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_where_and_why(chip: Stm32, message: str, why: str) -> None:
    with pytest.raises(TinycError, match=message) as caught:
        flash(chip)
    assert why in caught.value.hint
    assert caught.value.exit_code == 1
    assert chip.started is None


def test_unplugged_then_resumed() -> None:
    chip = Stm32(faults=(Fault(WRITE, 70, "unplug"),))
    with pytest.raises(LineError, match="the serial line broke") as caught:
        flash(chip)
    assert "plugged in" in caught.value.hint
    again = Stm32(contents=bytes(chip.flash))
    assert flash(again, resume=True) == FlashedSectors(0x413, 1, 1, True)
    assert again.erased == [1]  # the first sector was whole
    assert again.flash[: len(DATA)] == DATA
    third = Stm32(contents=bytes(again.flash))
    assert flash(third, resume=True) == FlashedSectors(0x413, 0, 2, True)
    assert third.counts[WRITE] == 0


def test_worn_flash_is_found() -> None:
    chip = Stm32(stuck=ORIGIN + 1000)
    with pytest.raises(TinycError, match="what was written is not there: at 0x080003e8 is 0x00, not"):
        flash(chip)
    assert chip.started is None


# --- refused before anything is erased ---


@pytest.mark.parametrize(
    ("chip", "size", "message"),
    [
        (Stm32(chip_id=0x470), 100, "the chip says that it is 0x470; the board has 0x413"),
        (Stm32(protected=True), 100, "protected against reading"),
        (Stm32(size_kib=512), 600_000, "the board's flash is 0x08000000 to 0x0807ffff"),
        (Stm32(), (1 << 20) + 1, "the image takes 0x08000000 to 0x08100000"),
        (Stm32(), 0, "the image is empty"),
    ],
)
def test_refusals(chip: Stm32, size: int, message: str) -> None:
    with pytest.raises(TinycError, match=message) as caught:
        flash(chip, bytes(size))
    assert caught.value.exit_code == 1
    assert chip.erased == []
    assert chip.counts[WRITE] == 0


def test_a_line_that_damages_bytes() -> None:
    """Two bytes of a thousand: half of all blocks of 256 arrive damaged, in either direction."""
    image = Image(ORIGIN, DATA[:3000])
    for seed in range(6):
        chip = Stm32()
        flash_stm32(NoisyLine(chip, 0.002, seed), FLASHING, ORIGIN, image)
        assert chip.flash[:3000] == image.data


def test_reads_that_never_agree_are_no_wrong_byte() -> None:
    class Doubtful(Stm32):
        """Each read has a damaged byte, in another place each time."""

        reads = 0

        def _memory(self, address: int, count: int) -> bytes | None:
            data = bytearray(super()._memory(address, count) or b"")
            self.reads += 1
            if data:
                data[self.reads % len(data)] ^= 1
            return bytes(data)

    with pytest.raises(TinycError, match="cannot be read back: at 0x08000000 each read gives other bytes"):
        flash_stm32(SimulatedLine(Doubtful(size_register=0)), FLASHING, ORIGIN, Image(ORIGIN, bytes(32)))


def test_silence() -> None:
    """A port with nobody behind it."""
    chip = Stm32()
    chip.feed = lambda byte: b""  # type: ignore[method-assign]
    with pytest.raises(TinycError, match="no bootloader answers"):
        stm32_commands.Bootloader(SimulatedLine(chip)).connect()


# --- the simulator is honest ---


def test_stm32flash_against_the_simulator(tmp_path: Path) -> None:
    program = shutil.which("stm32flash")
    if program is None:
        pytest.skip("stm32flash is not installed: apt install stm32flash")
    image = tmp_path / "image.bin"
    data = DATA[:20_000]
    image.write_bytes(data)
    chip = Stm32(contents=b"\x12" * 50_000)
    with chip.at_port() as port:
        command = [program, "-m", "8n1", "-b", "115200", "-w", str(image), "-v", "-g", hex(ORIGIN), port]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert chip.flash[: len(data)] == data
    assert chip.started == ORIGIN


def test_stm32loader_against_the_simulator() -> None:
    bootloader = pytest.importorskip("stm32loader.bootloader", reason="pip install stm32loader")
    uart = pytest.importorskip("stm32loader.uart")

    class Connection(uart.SerialConnection):  # type: ignore[misc, name-defined]
        """Without the control lines, which a pseudo-terminal has not."""

        def enable_boot0(self, enable: bool = True) -> None:
            pass

        def enable_reset(self, enable: bool = True) -> None:
            pass

    chip = Stm32(contents=b"\x12" * 50_000)
    data = DATA[:20_000]
    with chip.at_port() as port:
        connection = Connection(port, 115_200, "N")
        connection.connect()
        client = bootloader.Stm32Bootloader(connection, device_family="F4", verbosity=0)
        client.reset_from_system_memory()
        client.get()  # learns which erase command it is
        assert client.get_id() == 0x413
        client.erase_memory([0, 1])
        client.write_memory_data(ORIGIN, data)
        assert bytes(client.read_memory_data(ORIGIN, len(data))) == data
        client.go(ORIGIN)
        connection.serial_connection.close()
    assert chip.flash[: len(data)] == data
    assert chip.started == ORIGIN


def test_layouts_of_the_boards() -> None:
    """The sectors of every STM32 board fill its flash."""
    for name in ("stm32f4-discovery", "nucleo-f746zg", "nucleo-l4r5zi"):
        board = load_board(name)
        assert board.flashing is not None
        assert sum(count * size for count, size in board.flashing.sectors) == board.flash_bytes
    assert sum(F4_SECTORS) == load_board("stm32f4-discovery").flash_bytes
