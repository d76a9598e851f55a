# SPDX-License-Identifier: Apache-2.0
"""The ROM boot loader of an ESP32-C3 or C6 at a socket, and what esptool loads into its RAM in its place, by the page
"Serial Protocol" of Espressif (docs.espressif.com/projects/esptool): SLIP packets, commands with a checksum, answers
with a status. Nothing of tinyc and of esptool is in it.

What the page does not allow is answered with an error, or not at all.
"""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

END, ESCAPE, ESCAPED_END, ESCAPED_ESCAPE = 0xC0, 0xDB, 0xDC, 0xDD
FLASH_BEGIN, FLASH_DATA, FLASH_END = 0x02, 0x03, 0x04
MEM_BEGIN, MEM_END, MEM_DATA, SYNC, WRITE_REG, READ_REG = 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A
SPI_SET_PARAMS, SPI_ATTACH, CHANGE_BAUDRATE = 0x0B, 0x0D, 0x0F
DEFLATED_BEGIN, DEFLATED_DATA, DEFLATED_END, MD5, SECURITY_INFO = 0x10, 0x11, 0x12, 0x13, 0x14
DONE_AT_ONCE = {
    WRITE_REG, MEM_BEGIN, MEM_DATA, SPI_ATTACH, SPI_SET_PARAMS, CHANGE_BAUDRATE, FLASH_END, DEFLATED_END,
}  # fmt: skip
SECTOR = 4096
CHIPS = {"esp32-c3": 5, "esp32-c6": 13}
SPI_DATA = {"esp32-c3": 0x60002058, "esp32-c6": 0x60003058}  # W0 of SPI1, where what the flash answered is read
FLASH_ID = 0x1640EF  # W25Q32, 4 MiB
BAD_CHECKSUM, FAILED = 0x07, 0x06


@dataclass(frozen=True)
class ByteFault:
    """Of one byte, by its position in what goes to the chip or comes from it: bits that change, or it is lost."""

    to_chip: bool
    position: int
    mask: int | None

    def on(self, to_chip: bool, data: bytes, begin: int) -> bytes:
        """What arrives of data that begins at a position."""
        at = self.position - begin
        if to_chip != self.to_chip or not 0 <= at < len(data):
            return data
        return data[:at] + (b"" if self.mask is None else bytes([data[at] ^ self.mask])) + data[at + 1 :]


class EspChip:
    """flash: its bytes; those that are worn do not keep what is written. counts: bytes to the chip and from it."""

    def __init__(self, board: str, worn: range = range(0), fault: ByteFault | None = None) -> None:
        self.board, self.worn, self.fault = board, worn, fault
        self.flash = bytearray(b"\xff" * (4 << 20))
        self.stub = False
        self.counts = {True: 0, False: 0}
        self.packet: bytearray | None = None
        self.escaped = False
        self.expected = self.offset = self.sequence = 0
        self.inflate: Any = None

    @contextmanager
    def at_socket(self) -> Iterator[str]:
        """The port's name, for pyserial."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            thread = threading.Thread(target=self._serve, args=(server,), daemon=True)
            thread.start()
            yield f"socket://127.0.0.1:{server.getsockname()[1]}"
            server.shutdown(socket.SHUT_RDWR)
            thread.join(5)

    def _serve(self, server: socket.socket) -> None:
        try:
            while True:
                line, _ = server.accept()
                with line:
                    while data := line.recv(4096):
                        for byte in self._line(True, data):
                            line.sendall(self._line(False, self.feed(byte)))
        except OSError:
            pass  # closed

    def _line(self, to_chip: bool, data: bytes) -> bytes:
        begin = self.counts[to_chip]
        self.counts[to_chip] += len(data)
        return data if self.fault is None else self.fault.on(to_chip, data, begin)

    def feed(self, byte: int) -> bytes:
        """Takes a byte; what is answered to it."""
        if byte == END:
            packet, self.packet, self.escaped = self.packet, bytearray(), False
            return self._command(bytes(packet)) if packet else b""
        if self.packet is None:
            return b""
        if self.escaped:
            self.packet.append({ESCAPED_END: END, ESCAPED_ESCAPE: ESCAPE}.get(byte, byte))
            self.escaped = False
        elif byte == ESCAPE:
            self.escaped = True
        else:
            self.packet.append(byte)
        return b""

    def _command(self, packet: bytes) -> bytes:
        if len(packet) < 8 or packet[0] != 0 or len(packet) != 8 + int.from_bytes(packet[2:4], "little"):
            return b""
        command, data = packet[1], packet[8:]
        checksum = int.from_bytes(packet[4:8], "little")
        if command in (MEM_DATA, FLASH_DATA, DEFLATED_DATA) and checksum != self._checksum(data[16:]):
            return self._answer(command, error=BAD_CHECKSUM)
        return self._carry_out(command, data)

    @staticmethod
    def _checksum(data: bytes) -> int:
        value = 0xEF
        for byte in data:
            value ^= byte
        return value

    def _carry_out(self, command: int, data: bytes) -> bytes:
        if command == SYNC:
            return 8 * self._answer(SYNC, 0 if self.stub else 0x20120707)
        if command == SECURITY_INFO:
            return self._answer(command, data=struct.pack("<IB7sII", 0, 0, bytes(7), CHIPS[self.board], 0))
        if command == READ_REG:
            address = int.from_bytes(data[:4], "little")
            return self._answer(command, FLASH_ID if address == SPI_DATA[self.board] else 0)
        if command == MEM_END:
            answer, self.stub = self._answer(command), True
            return answer + self._slip(b"OHAI")
        if command == MD5 and len(data) >= 8:
            address, size = struct.unpack("<II", data[:8])
            return self._answer(command, data=hashlib.md5(self.flash[address : address + size]).digest())
        return self._write(command, data)

    def _write(self, command: int, data: bytes) -> bytes:
        if command in (FLASH_BEGIN, DEFLATED_BEGIN) and len(data) >= 16:
            self.expected, _, _, self.offset = struct.unpack("<IIII", data[:16])
            end = -(-(self.offset + self.expected) // SECTOR) * SECTOR
            self.flash[self.offset : end] = b"\xff" * (end - self.offset)
            self.inflate, self.sequence = zlib.decompressobj() if command == DEFLATED_BEGIN else None, 0
            return self._answer(command)
        if command in (FLASH_DATA, DEFLATED_DATA) and len(data) >= 16:
            size, sequence = struct.unpack("<II", data[:8])
            if sequence != self.sequence or size != len(data) - 16 or (self.inflate is None) != (command == FLASH_DATA):
                return self._answer(command, error=FAILED)
            try:
                plain = data[16:] if self.inflate is None else self.inflate.decompress(data[16:])
            except zlib.error:
                return self._answer(command, error=FAILED)
            self.sequence += 1
            self._program(plain[: self.expected])
            return self._answer(command)
        return self._answer(command, error=0 if command in DONE_AT_ONCE else FAILED)

    def _program(self, data: bytes) -> None:
        for byte in data:
            self.flash[self.offset] &= 0xFF if self.offset in self.worn else byte
            self.offset += 1
        self.expected -= len(data)

    def _answer(self, command: int, value: int = 0, data: bytes = b"", error: int = 0) -> bytes:
        status = bytes([error != 0, error]) + (b"" if self.stub else bytes(2))
        return self._slip(struct.pack("<BBHI", 1, command, len(data) + len(status), value) + data + status)

    @staticmethod
    def _slip(packet: bytes) -> bytes:
        escaped = packet.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")
        return bytes([END]) + escaped + bytes([END])
