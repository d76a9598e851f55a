"""An Arduino SAM-BA bootloader at a pseudo-terminal: ASCII commands, X, Y and Z extensions."""

from __future__ import annotations

import binascii
import os
import re
import select
import threading
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

RAM = 0x2000_0000


@dataclass
class SamBaBoard:
    """flash_bytes of flash from address 0; `letters`: the extensions that it announces; corrupt: this flash address
    takes a wrong byte."""

    flash_bytes: int = 65_536
    letters: str = "XYZ"
    corrupt: int | None = None
    flash: bytearray = field(init=False)
    reset: bool = field(init=False, default=False)
    problems: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.flash = bytearray(b"\x00" * self.flash_bytes)
        self._ram = bytearray(65_536)
        self._buffer = 0

    @contextmanager
    def at_port(self) -> Iterator[str]:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield os.ttyname(slave)
            deadline = time.monotonic() + 2
            while select.select([self._master], [], [], 0)[0] and time.monotonic() < deadline:
                time.sleep(0.01)  # what was sent last is still on its way
        finally:
            os.close(slave)
            os.close(self._master)
            thread.join(5)
        assert not self.problems, self.problems

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += os.read(self._master, count - len(data))
        return data

    def _serve(self) -> None:
        try:
            while True:
                text = b""
                while not text.endswith(b"#"):
                    text += self._take(1)
                os.write(self._master, self._answer(text[:-1].decode()))
        except OSError:
            pass  # the port is closed
        except Exception as error:
            self.problems.append(repr(error))

    def _answer(self, command: str) -> bytes:
        name, numbers = command[:1], [int(text, 16) for text in re.findall(r"[0-9A-Fa-f]+", command[1:])]
        fixed = {"N": b"\n\r", "V": f"v1.1 [Arduino:{self.letters}] Nov 21\n\r".encode(), "K": b""}
        if name in fixed:
            self.reset = self.reset or name == "K"
            return fixed[name]
        if name == "S":
            address, size = numbers
            self._ram[address - RAM : address - RAM + size] = self._take(size)
            return b""
        if name == "R":
            address, size = numbers
            return bytes(self.flash[address : address + size])
        if name == "Z":
            address, size = numbers
            return f"Z{binascii.crc_hqx(bytes(self.flash[address : address + size]), 0):08X}#\n\r".encode()
        if name == "X":
            self.flash[numbers[0] :] = b"\xff" * (self.flash_bytes - numbers[0])
            return b"X\n\r"
        assert name == "Y", command
        return self._write(*numbers)

    def _write(self, address: int, size: int) -> bytes:
        if size == 0:
            self._buffer = address - RAM
            return b"Y\n\r"
        if address + size > self.flash_bytes:
            return b"!\n\r"
        for index, byte in enumerate(self._ram[self._buffer : self._buffer + size]):
            wrong = address + index == self.corrupt
            self.flash[address + index] &= byte ^ (1 if wrong else 0)
        return b"Y\n\r"
