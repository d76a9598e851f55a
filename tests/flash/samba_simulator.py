# SPDX-License-Identifier: Apache-2.0
"""Two SAM-BA bootloaders of Arduino's, byte by byte, at a pseudo-terminal or at a stm32_simulator.SimulatedLine.

SamdBoard is the monitor of the SAMD21 (ArduinoCore-samd, bootloaders/zero/sam_ba_monitor.c): S and Y take addresses in
RAM, X erases. NrfBoard is that of the Nano 33 BLE (ArduinoCore-nRF528x-mbedos, bootloaders/nano33ble): it was written
from the machine code of its `main`, for no source is published. What is no command is left out, as both do.
"""

from __future__ import annotations

import binascii
import os
import re
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

RAM = 0x2000_0000


@dataclass
class SamBaBoard:
    """flash_bytes of flash from address 0; `letters`: the extensions that it announces; corrupt: this flash address
    takes a wrong byte. accidents: what would have crashed a real board."""

    flash_bytes: int = 65_536
    letters: str = "XYZ"
    corrupt: int | None = None
    flash: bytearray = field(init=False)
    reset: bool = field(init=False, default=False)
    problems: list[str] = field(init=False, default_factory=list)
    accidents: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.flash = bytearray(b"\x00" * self.flash_bytes)
        self._ram = bytearray(65_536)
        self._buffer = 0
        self._text = b""
        self._fill = (0, 0)  # where the next byte goes in RAM, and how many more there are

    @contextmanager
    def at_port(self) -> Iterator[str]:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield os.ttyname(slave)
        finally:
            os.close(slave)  # the thread still reads what was sent last, and then that the port is closed
            thread.join(5)
            os.close(self._master)
        assert not self.problems, self.problems

    def _serve(self) -> None:
        try:
            while data := os.read(self._master, 4096):
                for byte in data:
                    os.write(self._master, self.feed(byte))
        except OSError:
            pass  # the port is closed
        except Exception as error:
            self.problems.append(repr(error))

    def feed(self, byte: int) -> bytes:
        """Takes a byte; what is answered to it."""
        at, left = self._fill
        if left:
            if at < len(self._ram):
                self._ram[at] = byte
            self._fill = (at + 1, left - 1)
            return b""
        self._text += bytes([byte])
        if byte != ord("#"):
            return b""
        text, self._text = self._text[:-1], b""
        return self._answer(text.decode("latin-1"))

    def wait(self) -> bytes:
        """Time passes; nothing comes."""
        return b""

    def _answer(self, command: str) -> bytes:
        raise NotImplementedError

    def _program(self, address: int, size: int) -> None:
        """Programming only clears bits."""
        for index, byte in enumerate(self._ram[self._buffer : self._buffer + size]):
            wrong = address + index == self.corrupt
            self.flash[address + index] &= byte ^ (1 if wrong else 0)

    def _crc(self, at: int, size: int) -> bytes:
        return f"Z{binascii.crc_hqx(bytes(self.flash[at : at + size]), 0):08X}#\n\r".encode()


@dataclass
class SamdBoard(SamBaBoard):
    """A SAMD21. Writing beyond its flash is answered by something else than the confirmation."""

    def _answer(self, command: str) -> bytes:
        name, numbers = command[:1], [int(text, 16) for text in re.findall(r"[0-9A-Fa-f]+", command[1:])]
        fixed = {"N": b"\n\r", "V": f"v1.1 [Arduino:{self.letters}] Nov 21\n\r".encode(), "K": b""}
        if name in fixed:
            self.reset = self.reset or name == "K"
            return fixed[name]
        if len(numbers) != (1 if name == "X" else 2):
            return b""
        return self._at(name, numbers[0], numbers[-1])

    def _at(self, name: str, at: int, size: int) -> bytes:
        if name == "S":
            self._fill = (max(at - RAM, 0), size)
        elif name == "X":
            self.flash[at:] = b"\xff" * max(self.flash_bytes - at, 0)
            return b"X\n\r"
        elif name == "Y":
            return self._write(at, size)
        elif name == "R":
            return bytes(self.flash[at : at + size])
        elif name == "Z":
            return self._crc(at, size)
        return b""

    def _write(self, address: int, size: int) -> bytes:
        if size == 0:
            self._buffer = max(address - RAM, 0)
            return b"Y\n\r"
        if address + size > self.flash_bytes:
            return b"!\n\r"
        self._program(address, size)
        return b"Y\n\r"


@dataclass
class NrfBoard(SamBaBoard):
    """A Nano 33 BLE. Its address 0 is 0x10000 of the chip. page: what its flash erases at once."""

    letters: str = "IKXYZ"
    page: int = 4096

    def _answer(self, command: str) -> bytes:
        name = command[:1]
        version = f"Arduino Bootloader (SAM-BA extended) 2.0 [Arduino:{self.letters}]\n\r\0n".encode()
        fixed = {"N": b"\n\r", "V": version, "I": b"nRF52840-QIAA\n\r\0X", "X": b"X\n\r", "K": b""}
        if name in fixed:
            self.reset = self.reset or name == "K"
            return fixed[name]
        first, second = self._number(command[1:]), self._number(command[10:])
        if name == "S":
            if first + second > 8192:
                self.accidents.append(f"{second} bytes to {first:#x} of a buffer of 8,192")
            self._fill = (first, second)
        elif name == "Y" and second == 0:
            self._buffer = first
        elif name == "Y":
            self._write(first, second)
        elif name == "Z":
            return self._crc(first, second)
        return b"Y\n\r" if name == "Y" else b""

    @staticmethod
    def _number(text: str) -> int:
        """As strtoul."""
        digits = re.match(r"[0-9A-Fa-f]*", text)
        return int(digits[0] or "0", 16) if digits is not None else 0

    def _write(self, address: int, size: int) -> None:
        """Nothing says whether the flash took it."""
        if address + size > self.flash_bytes:
            return
        if address % self.page == 0 and size % self.page == 0:
            self.flash[address : address + size] = b"\xff" * size
        if address % 4 == 0 and size % 4 == 0:
            self._program(address, size)
