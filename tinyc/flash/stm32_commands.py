# SPDX-License-Identifier: Apache-2.0
"""The commands of the bootloader that every STM32 has in ROM, over a UART (ST AN3155; command set of AN2606's chips).

Bytes go with even parity. A command is its code and the complement; every step is answered by ACK or NACK. A step whose
answer is lost, damaged or refused is not simply sent again: the chip is first brought back to where it waits for a
command (`stm32_filler.py`), and shows it by a NACK.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from functools import reduce
from itertools import islice
from operator import xor
from typing import Protocol, TypeVar

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc
from tinyc.flash.base import FlashError
from tinyc.flash.stm32_filler import LIMIT, filler
from tinyc.toolchain.image import ERASED

ACK, NACK, AUTO_BAUD = 0x79, 0x1F, 0x7F
ANSWER_SECONDS = 1.0
SECTOR_SECONDS = 5.0  # the slowest sector of 256 KiB takes up to 4 s
TRIES = 8  # of a step; what is refused for a reason is refused as often, in less than a second
_BURST = 32
_QUIET_SECONDS = 0.05
_ALIGN = 8  # the widest flash word
_PIECE = 16  # bytes of a block that come through where the block as a whole does not
_RESET = "reset the board with BOOT0 high, and run `tinyc flash` again with --resume"


class Command(IntEnum):
    GET = 0x00
    GET_ID = 0x02
    READ = 0x11
    GO = 0x21
    WRITE = 0x31
    ERASE = 0x43
    EXTENDED_ERASE = 0x44


class SerialLine(Protocol):
    """What is needed of tinyc.base.serial_line.Line."""

    port: str

    def write(self, data: bytes) -> None: ...
    def unread(self) -> bytes: ...
    def read_exactly(self, count: int, seconds: float) -> bytes: ...
    def drain(self, seconds: float = 0.05) -> None: ...


class NoAnswer(FlashError):  # noqa: N818  a step of the protocol, not an error for users
    """The chip was silent, or gave a byte that is neither ACK nor NACK."""


class CommandRefused(FlashError):  # noqa: N818
    """The chip answered NACK. step: to what."""

    def __init__(self, step: str, where: Loc) -> None:
        super().__init__(f"it refuses {step}", where)
        self.step = step


COMMAND, ADDRESS, LENGTH, DATA, SECTORS = "the command", "the address", "the length", "the data", "the sectors"

_DAMAGED = "if not, the line damages bytes: try a lower --baud, a shorter cable"
_WHY = {
    COMMAND: "the chip may be protected against reading (RDP): STM32CubeProgrammer removes that, and erases the chip",
    ADDRESS: f"the chip may have no memory there: is it the board's chip? {_DAMAGED}",
    LENGTH: f"the read may reach beyond the chip's memory; {_DAMAGED}",
    DATA: f"the place may be protected against writing (WRP), or not erased; {_DAMAGED}",
    SECTORS: f"the chip may have no such sector, or it is protected against writing (WRP); {_DAMAGED}",
}


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
        self._sent = b""  # the last step's bytes, which the chip may have got in part
        self._address_checksum = 0

    # --- commands ---

    def connect(self) -> Chip:
        """Finds the baud rate, asks for the commands and the chip's id. Raises FlashError when nobody answers."""
        if not self._wakes():
            raise FlashError(
                "no bootloader answers",
                self._where,
                "start it: BOOT0 high and reset (docs/flash.md); is the adapter at the bootloader's pins, RX to TX? "
                "Some lines need a lower --baud",
            )
        return self.identify()

    def identify(self) -> Chip:
        """What it says that it is. The line may have damaged that: no checksum goes with it."""
        return self._retry(self._identify, "asking what it is")

    def _wakes(self) -> bool:
        """0x7F tells a bootloader that has just started the baud rate: ACK. For one that knows it already two of them
        are a command that is none: NACK. One that was left in the middle of a command has to be brought back."""
        self._line.drain()
        for _ in range(2):
            self._line.write(bytes([AUTO_BAUD]))
            if self._line.read_exactly(1, ANSWER_SECONDS)[:1] in (bytes([ACK]), bytes([NACK])):
                return True
        return self._comes_back()

    def _identify(self) -> Chip:
        self._command(Command.GET)
        listed = self._counted()
        self._acknowledged("its list of commands")
        self._command(Command.GET_ID)
        chip = self._counted()
        self._acknowledged("its id")
        return Chip(listed[0], int.from_bytes(chip, "big"), frozenset(listed[1:]))

    def read(self, address: int, count: int) -> bytes:
        """Up to 256 bytes. Raises Refused when the chip refuses it, as it does when it is protected against reading."""
        return self._retry(lambda: self._read(address, count), f"reading at 0x{address:08x}")

    def _read(self, address: int, count: int) -> bytes:
        self._command(Command.READ)
        self._send_address(address)
        self._send(bytes([count - 1, (count - 1) ^ 0xFF]), LENGTH)
        data = self._line.read_exactly(count, ANSWER_SECONDS)
        if len(data) != count:
            raise NoAnswer(f"it sent {len(data)} of {count} bytes", self._where)
        return data

    def holds(self, address: int, data: bytes) -> bool:
        """Whether the flash holds the data. What seems to be wrong is read again in halves, so that a line that damages
        a byte here and there does not make a fault of it."""
        if self.read(address, len(data)) == data:
            return True
        if len(data) <= _PIECE:
            return any(self.read(address, len(data)) == data for _ in range(1, self._tries))
        half = len(data) // 2
        return self.holds(address, data[:half]) and self.holds(address + half, data[half:])

    def write(self, address: int, data: bytes) -> None:
        """Up to 256 bytes to erased flash; the chip wants words, so 0xFF follows what is no multiple of 8.

        What a broken line makes of a write is looked at, and written again, in halves, only where it is still erased:
        other flash would refuse it or, worse, mix old and new. Then the caller finds by reading that the sector has to
        be erased.
        """
        padded = data + bytes([ERASED]) * (-len(data) % _ALIGN)
        if len(padded) > _ALIGN and _address_may_shift(address, padded):
            self._write_halves(address, padded)
            return
        what = f"writing at 0x{address:08x}"
        tries = self._tries if len(padded) <= _PIECE else 1
        for attempt in range(1, tries + 1):
            try:
                self._write(address, padded)
            except (CommandRefused, NoAnswer) as error:
                back = self._comes_back()
                if not back or (attempt == tries and len(padded) <= _PIECE):
                    raise self._gives_up(error, what, attempt, back) from error
            else:
                return
            if not self.holds(address, bytes([ERASED]) * len(padded)):
                return
        self._write_halves(address, padded)

    def _write_halves(self, address: int, data: bytes) -> None:
        half = len(data) // 2 // _ALIGN * _ALIGN
        self.write(address, data[:half])
        self.write(address + half, data[half:])

    def _write(self, address: int, data: bytes) -> None:
        self._command(Command.WRITE)
        self._send_address(address)
        self._send(_frame(bytes([len(data) - 1]) + data), DATA)

    def erase(self, sector: int, extended: bool) -> None:
        """Erases the sector with this number."""
        if extended:
            command, body = Command.EXTENDED_ERASE, struct.pack(">HH", 0, sector)
        else:
            command, body = Command.ERASE, bytes([0, sector])
        self._retry(lambda: self._erase(command, body), f"erasing sector {sector}")

    def _erase(self, command: Command, body: bytes) -> None:
        self._command(command)
        self._send(_frame(body), SECTORS, SECTOR_SECONDS)

    def go(self, address: int) -> bool:
        """Starts what lies at the address. False: the chip did not say that it does, but may have."""
        return self._retry(lambda: self._go(address), "starting the firmware")

    def _go(self, address: int) -> bool:
        self._command(Command.GO)
        try:
            self._send_address(address)
        except NoAnswer:
            return False  # to ask again could disturb what runs now
        return True

    # --- steps ---

    def _command(self, command: Command) -> None:
        self._send(bytes([command, command ^ 0xFF]), COMMAND)

    def _send_address(self, address: int) -> None:
        body = _frame(struct.pack(">I", address))
        self._send(body, ADDRESS)
        self._address_checksum = body[-1]

    def _send(self, data: bytes, step: str, seconds: float = ANSWER_SECONDS) -> None:
        self._sent = data
        if self._line.unread():
            raise NoAnswer(f"bytes that nobody asked for came before {step}", self._where)
        self._line.write(data)
        self._acknowledged(step, seconds)

    def _counted(self) -> bytes:
        """A byte n, and the n + 1 bytes behind it."""
        head = self._line.read_exactly(1, ANSWER_SECONDS)
        data = self._line.read_exactly(head[0] + 1, ANSWER_SECONDS) if head else b""
        if not head or len(data) != head[0] + 1:
            raise NoAnswer("its answer is cut short", self._where)
        return data

    def _acknowledged(self, step: str, seconds: float = ANSWER_SECONDS) -> None:
        answer = self._line.read_exactly(1, seconds)
        if answer == bytes([NACK]):
            raise CommandRefused(step, self._where)
        if answer != bytes([ACK]):
            said = f"a wrong answer (0x{answer.hex()})" if answer else "no answer"
            raise NoAnswer(f"{said} to {step}", self._where)

    # --- after a failure ---

    def _retry(self, command: Callable[[], Result], what: str) -> Result:
        for attempt in range(1, self._tries + 1):
            try:
                return command()
            except (CommandRefused, NoAnswer) as error:
                back = self._comes_back()
                if attempt == self._tries or not back:
                    raise self._gives_up(error, what, attempt, back) from error
        raise AssertionError("no try is left")

    def _gives_up(self, error: CommandRefused | NoAnswer, what: str, attempts: int, back: bool) -> FlashError:
        if not back:
            return FlashError(
                f"{what} failed: {error.message}, and then nothing brings the bootloader back", self._where, _RESET
            )
        if isinstance(error, CommandRefused):
            refused = CommandRefused(f"{error.step}, {what}", self._where)
            refused.step, refused.hint = error.step, _WHY.get(error.step, _DAMAGED)
            return refused
        return FlashError(
            f"{what} failed {attempts} times: {error.message}",
            self._where,
            "check the cable, or use a lower --baud; `tinyc flash` again goes on with --resume",
        )

    def _comes_back(self) -> bool:
        """Whether the bootloader waits for a command again, shown by NACK to a single byte that ends none."""
        self._line.drain()
        before = (self._address_checksum,) if len(self._sent) > 2 else ()
        endless = filler(self._sent, before)
        left = LIMIT
        heard = b""
        while left > 0 and NACK not in heard:
            burst = 1 if left == LIMIT else _BURST
            self._line.write(bytes(islice(endless, burst)))
            heard = self._line.read_exactly(_BURST, _QUIET_SECONDS)
            left -= burst
        self._line.drain()
        for _ in range(self._tries):  # one byte may be left over, and an answer to a command of before may still come
            self._line.write(bytes(islice(endless, 1)))
            if self._line.read_exactly(1, _QUIET_SECONDS) == bytes([NACK]):
                self._line.drain()
                self._sent = b""
                return True
        return False


def _frame(body: bytes) -> bytes:
    return body + bytes([reduce(xor, body)])


def _address_may_shift(address: int, data: bytes) -> bool:
    """Whether a byte of the address that arrives twice makes another address, and the frame of the data, behind the
    checksum that is then left over, a shorter frame that is right."""
    frame = _frame(struct.pack(">I", address))
    body = _frame(bytes([len(data) - 1]) + data)
    checksum = frame[-1]
    end = checksum + 1
    return checksum in frame[:-1] and end < len(body) and reduce(xor, body[:end], checksum) == body[end]
