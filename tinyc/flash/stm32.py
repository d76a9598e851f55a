"""Client of the bootloader that every STM32 has in ROM, over a UART (ST AN3155; command set of AN2606's chips).

Bytes go with even parity. A command is its code and the complement; every step is answered by ACK or NACK. Nothing is
erased before the chip is known to be the board's, and the image to fit.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import reduce
from operator import xor
from typing import Protocol, TypeVar

from tinyc.board_parts import Flashing
from tinyc.build.image import ERASED, Image
from tinyc.errors import Loc
from tinyc.flash.base import FlashError, Report, Sector, check_image, sectors_of, sectors_under, silent
from tinyc.line import LineError

ACK, NACK, AUTO_BAUD = 0x79, 0x1F, 0x7F
BLOCK = 256  # bytes of one read or write
ANSWER_SECONDS = 1.0
SECTOR_SECONDS = 5.0  # the slowest sector of 256 KiB takes up to 4 s
TRIES = 3
_BURST = 32
_RESYNC_BURSTS = 2 + BLOCK // _BURST  # more than any step of a command waits for
_QUIET_SECONDS = 0.05
_ALIGN = 8  # the widest flash word


class Command(IntEnum):
    GET = 0x00
    GET_ID = 0x02
    READ = 0x11
    GO = 0x21
    WRITE = 0x31
    ERASE = 0x43
    EXTENDED_ERASE = 0x44


class SerialLine(Protocol):
    """What is needed of tinyc.line.Line."""

    port: str

    def write(self, data: bytes) -> None: ...
    def read_exactly(self, count: int, seconds: float) -> bytes: ...
    def drain(self, seconds: float = 0.05) -> None: ...


class NoAnswer(FlashError):  # noqa: N818  a step of the protocol, not an error for users
    """The chip was silent, or gave a byte that is neither ACK nor NACK."""


class Refused(FlashError):  # noqa: N818
    """The chip answered NACK."""


@dataclass(frozen=True, slots=True)
class Chip:
    """What the bootloader says: its version (0x31: 3.1), the chip's id, the commands that it has."""

    version: int
    chip_id: int
    commands: frozenset[int]


Result = TypeVar("Result")


class Bootloader:
    """The commands, each retried when the line fails."""

    def __init__(self, line: SerialLine, tries: int = TRIES) -> None:
        self._line = line
        self._tries = tries
        self._where = Loc(line.port)

    # --- commands ---

    def connect(self) -> Chip:
        """Finds the baud rate, asks for the commands and the chip's id. Raises FlashError when nobody answers."""
        for _ in range(self._tries):
            self._line.drain()
            self._line.write(bytes([AUTO_BAUD]))
            # A bootloader that knows the baud rate already takes the byte for a broken command.
            if self._line.read_exactly(1, ANSWER_SECONDS)[:1] in (bytes([ACK]), bytes([NACK])):
                break
        else:
            raise FlashError(
                "no bootloader answers",
                self._where,
                "start it: BOOT0 high and reset (docs/flash.md); is the adapter at the bootloader's pins, RX to TX?",
            )
        return self._retry(self._identify, "asking what it is")

    def _identify(self) -> Chip:
        self._command(Command.GET)
        listed = self._counted()
        self._acknowledged("its list of commands")
        self._command(Command.GET_ID)
        chip = self._counted()
        self._acknowledged("its id")
        return Chip(listed[0], int.from_bytes(chip, "big"), frozenset(listed[1:]))

    def read(self, address: int, count: int) -> bytes:
        """Up to 256 bytes. Raises Refused when the flash is protected against reading."""
        return self._retry(lambda: self._read(address, count), f"reading at 0x{address:08x}")

    def _read(self, address: int, count: int) -> bytes:
        self._command(Command.READ)
        self._send_address(address)
        self._line.write(bytes([count - 1, (count - 1) ^ 0xFF]))
        self._acknowledged("the number of bytes")
        data = self._line.read_exactly(count, ANSWER_SECONDS)
        if len(data) != count:
            raise NoAnswer(f"it sent {len(data)} of {count} bytes", self._where)
        return data

    def write(self, address: int, data: bytes) -> None:
        """Up to 256 bytes to erased flash; the chip wants words, so 0xFF follows what is no multiple of 8."""
        padded = data + bytes([ERASED]) * (-len(data) % _ALIGN)
        tried = False

        def step() -> None:
            nonlocal tried
            # Only the answer may have been lost; some flash refuses a second write of the same bytes.
            if not tried or self._read(address, len(padded)) != padded:
                tried = True
                self._write(address, padded)

        self._retry(step, f"writing at 0x{address:08x}")

    def _write(self, address: int, data: bytes) -> None:
        self._command(Command.WRITE)
        self._send_address(address)
        body = bytes([len(data) - 1]) + data
        self._line.write(body + bytes([_checksum(body)]))
        self._acknowledged("the data")

    def erase(self, sectors: Sequence[int], extended: bool) -> None:
        """Erases the sectors with these numbers."""
        if extended:
            command = Command.EXTENDED_ERASE
            body = struct.pack(f">H{len(sectors)}H", len(sectors) - 1, *sectors)
        else:
            command = Command.ERASE
            body = bytes([len(sectors) - 1, *sectors])
        seconds = SECTOR_SECONDS * len(sectors)
        self._retry(lambda: self._erase(command, body, seconds), f"erasing sector {sectors[0]}")

    def _erase(self, command: Command, body: bytes, seconds: float) -> None:
        self._command(command)
        self._line.write(body + bytes([_checksum(body)]))
        self._acknowledged("the sectors", seconds)

    def go(self, address: int) -> None:
        """Starts what lies at the address."""
        self._retry(lambda: self._go(address), "starting the firmware")

    def _go(self, address: int) -> None:
        self._command(Command.GO)
        self._send_address(address)

    # --- steps ---

    def _command(self, command: Command) -> None:
        self._line.write(bytes([command, command ^ 0xFF]))
        self._acknowledged(f"the command {command.name}")

    def _send_address(self, address: int) -> None:
        body = struct.pack(">I", address)
        self._line.write(body + bytes([_checksum(body)]))
        self._acknowledged(f"the address 0x{address:08x}")

    def _counted(self) -> bytes:
        """A byte n, and the n + 1 bytes behind it."""
        head = self._line.read_exactly(1, ANSWER_SECONDS)
        data = self._line.read_exactly(head[0] + 1, ANSWER_SECONDS) if head else b""
        if not head or len(data) != head[0] + 1:
            raise NoAnswer("its answer is cut short", self._where)
        return data

    def _acknowledged(self, what: str, seconds: float = ANSWER_SECONDS) -> None:
        answer = self._line.read_exactly(1, seconds)
        if answer == bytes([NACK]):
            raise Refused(f"it refuses {what}", self._where)
        if answer != bytes([ACK]):
            raise NoAnswer(f"no answer to {what}" if not answer else f"a wrong answer to {what}", self._where)

    def _retry(self, step: Callable[[], Result], what: str) -> Result:
        for attempt in range(1, self._tries + 1):
            try:
                return step()
            except Refused:
                if attempt == self._tries:
                    raise
            except NoAnswer as error:
                if attempt == self._tries:
                    raise FlashError(
                        f"{what} failed {attempt} times: {error.message}",
                        self._where,
                        "check the cable, or use a lower --baud; `tinyc flash` again goes on with --resume",
                    ) from error
                self._resynchronize()
        raise AssertionError("no try is left")

    def _resynchronize(self) -> None:
        """Until the bootloader waits for a command again. 0x7F 0x7F is none, so it answers NACK; before, it may swallow
        them as the rest of what broke off, whose checksum is then wrong."""
        self._line.drain()
        for _ in range(_RESYNC_BURSTS):
            self._line.write(bytes([AUTO_BAUD] * _BURST))
            if self._line.read_exactly(1, _QUIET_SECONDS):
                break
        self._line.drain()
        for _ in range(2):  # one byte may be left over; the NACK shows that none is
            self._line.write(bytes([AUTO_BAUD]))
            if self._line.read_exactly(1, _QUIET_SECONDS):
                break
        self._line.drain()


def _checksum(body: bytes) -> int:
    """XOR of the bytes; of a single byte its complement."""
    return reduce(xor, body, 0xFF if len(body) == 1 else 0)


@dataclass(frozen=True, slots=True)
class Written:
    """Sectors that were erased and written, and those that held the image already."""

    chip_id: int
    erased: int
    kept: int
    started: bool


def flash_stm32(
    line: SerialLine,
    flashing: Flashing,
    flash_origin: int,
    image: Image,
    *,
    resume: bool = False,
    start: bool = True,
    report: Report = silent,
) -> Written:
    """Erases the sectors under the image, writes it, reads it back, and starts it.

    resume: sectors that hold their part of the image already are left alone. Raises FlashError before anything is
    erased when the chip is another one or protected, or the image does not fit it.
    """
    bootloader = Bootloader(line)
    where = Loc(line.port)
    chip = bootloader.connect()
    sectors = _check(bootloader, chip, flashing, flash_origin, image, where)
    wanted = sectors_under(image, sectors)
    stale = _stale(bootloader, image, wanted, report) if resume else wanted
    for number, sector in enumerate(stale):
        report("erase", number, len(stale))
        bootloader.erase([sector.index], Command.EXTENDED_ERASE in chip.commands)
    report("erase", len(stale), len(stale))
    blocks = [block for sector in stale for block in _blocks(image, sector)]
    _write_blocks(bootloader, blocks, report)
    _verify(bootloader, image, where, report)
    if start:
        bootloader.go(image.origin)
    return Written(chip.chip_id, len(stale), len(wanted) - len(stale), start)


def _check(
    bootloader: Bootloader, chip: Chip, flashing: Flashing, origin: int, image: Image, where: Loc
) -> tuple[Sector, ...]:
    """The chip's sectors; raises FlashError when it is not the board's, is protected, or the image does not fit."""
    if chip.chip_id not in flashing.chip_ids:
        known = ", ".join(f"0x{one:03x}" for one in flashing.chip_ids)
        raise FlashError(
            f"the chip says that it is 0x{chip.chip_id:03x}; the board has {known}",
            where,
            "is it another board? Nothing was erased",
        )
    sectors = sectors_of(origin, flashing.sectors)
    size = sectors[-1].end - origin
    check_image(image, origin, size, where)
    if Command.EXTENDED_ERASE not in chip.commands and Command.ERASE not in chip.commands:
        raise FlashError("its bootloader cannot erase", where)
    try:
        bootloader.read(origin, 4)
    except Refused as error:
        raise FlashError(
            "the chip's flash is protected against reading",
            where,
            "ST's STM32CubeProgrammer removes the protection, which erases the chip. Nothing was erased",
        ) from error
    there = _flash_size(bootloader, flashing.size_register)
    if there is not None:
        check_image(image, origin, min(size, there), where)
    return sectors


def _flash_size(bootloader: Bootloader, register: int) -> int | None:
    """Bytes, from the chip's own register; None where it cannot be read: some bootloaders refuse it."""
    if register == 0:
        return None
    try:
        kib = int.from_bytes(bootloader.read(register, 2), "little")
    except FlashError:
        return None
    return kib * 1024 if kib not in (0, 0xFFFF) else None


def _blocks(image: Image, sector: Sector) -> list[tuple[int, bytes]]:
    """Address and bytes of the writes in a sector; what is all 0xFF is as erased."""
    first, last = max(image.origin, sector.address), min(image.end, sector.end)
    pieces = (
        (at, image.data[at - image.origin : min(at + BLOCK, last) - image.origin]) for at in range(first, last, BLOCK)
    )
    return [(at, data) for at, data in pieces if data.strip(bytes([ERASED]))]


def _stale(bootloader: Bootloader, image: Image, wanted: Sequence[Sector], report: Report) -> tuple[Sector, ...]:
    """The sectors that do not hold their part of the image."""
    stale = []
    for number, sector in enumerate(wanted):
        report("compare", number, len(wanted))
        first, last = max(image.origin, sector.address), min(image.end, sector.end)
        pieces = range(first, last, BLOCK)
        if any(bootloader.read(at, min(BLOCK, last - at)) != _part(image, at, min(at + BLOCK, last)) for at in pieces):
            stale.append(sector)
    report("compare", len(wanted), len(wanted))
    return tuple(stale)


def _part(image: Image, first: int, last: int) -> bytes:
    return image.data[first - image.origin : last - image.origin]


def _write_blocks(bootloader: Bootloader, blocks: Sequence[tuple[int, bytes]], report: Report) -> None:
    total = sum(len(data) for _, data in blocks)
    done = 0
    for address, data in blocks:
        report("write", done, total)
        bootloader.write(address, data)
        done += len(data)
    report("write", total, total)


def _verify(bootloader: Bootloader, image: Image, where: Loc, report: Report) -> None:
    for at in range(image.origin, image.end, BLOCK):
        report("verify", at - image.origin, len(image.data))
        expected = _part(image, at, min(at + BLOCK, image.end))
        found = bootloader.read(at, len(expected))
        if found != expected:
            first = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
            byte = f"0x{found[first]:02x}, not 0x{expected[first]:02x}"
            raise FlashError(
                f"what was written is not there: at 0x{at + first:08x} is {byte}",
                where,
                "flash it again; if the address stays the same, that part of the flash is worn or protected",
            )
    report("verify", len(image.data), len(image.data))


__all__ = ("Bootloader", "Chip", "Command", "LineError", "Written", "flash_stm32")
