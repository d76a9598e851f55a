# SPDX-License-Identifier: Apache-2.0
"""The boot loader of Adafruit's nRF52 boards at a pseudo-terminal, by Nordic's page on the HCI transport and the
serial DFU of its SDK 11 (infocenter.nordicsemi.com): SLIP, a header with numbers and a checksum, a CRC behind the
data, an acknowledgement of each packet. Nothing of tinyc and of adafruit-nrfutil is in it.

A packet that is damaged, or not the next one, is not acknowledged. The program is started when all of it has the
CRC that the init packet says.
"""

from __future__ import annotations

import binascii
import os
import struct
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager

END, ESCAPE, ESCAPED_END, ESCAPED_ESCAPE = 0xC0, 0xDB, 0xDC, 0xDD
INIT, START, DATA, STOP = 1, 3, 4, 5
VENDOR = 14  # type of packet
APPLICATION = 4


class DfuBoard:
    """program: what has arrived. started: it was right. lost: numbers, from 0, of bytes that do not arrive."""

    def __init__(self, softdevice: int, device: int, lost: frozenset[int] = frozenset()) -> None:
        self.softdevice, self.device, self.lost = softdevice, device, lost
        self.program, self.started = bytearray(), False
        self.size = self.crc = self.arrived = self.next = 0
        self.packet = bytearray()
        self.escaped = False

    @contextmanager
    def at_port(self) -> Iterator[str]:
        master, slave = os.openpty()
        tty.setraw(slave)
        thread = threading.Thread(target=self._serve, args=(master,), daemon=True)
        thread.start()
        try:
            yield os.ttyname(slave)
        finally:
            os.close(slave)  # the thread still reads what was sent last, and then that the port is closed
            thread.join(5)
            os.close(master)

    def _serve(self, master: int) -> None:
        try:
            while data := os.read(master, 4096):
                for byte in data:
                    self.arrived += 1
                    if self.arrived - 1 not in self.lost and (answer := self.feed(byte)):
                        os.write(master, answer)
        except OSError:
            pass  # closed

    def feed(self, byte: int) -> bytes:
        """Takes a byte; what is answered to it."""
        if byte == END:
            packet, self.packet, self.escaped = bytes(self.packet), bytearray(), False
            return self._packet(packet) if packet else b""
        if self.escaped:
            self.packet.append({ESCAPED_END: END, ESCAPED_ESCAPE: ESCAPE}.get(byte, byte))
            self.escaped = False
        elif byte == ESCAPE:
            self.escaped = True
        else:
            self.packet.append(byte)
        return b""

    def _packet(self, packet: bytes) -> bytes:
        if len(packet) < 6 or sum(packet[:4]) & 0xFF:
            return b""
        number, size = packet[0] & 7, packet[1] >> 4 | packet[2] << 4
        checked, reliable, kind = packet[0] >> 6 & 1, packet[0] >> 7, packet[1] & 15
        body, crc = packet[4:-2], int.from_bytes(packet[-2:], "little")
        if not checked or not reliable or kind != VENDOR or size != len(body):
            return b""
        if crc != binascii.crc_hqx(packet[:-2], 0xFFFF) or number != (self.next + 1) & 7:
            return b""
        if not self._carry_out(int.from_bytes(body[:4], "little"), body[4:]):
            return b""
        self.next = number
        head = bytes([((number + 1) & 7) << 3, 0, 0])
        return bytes([END]) + head + bytes([-sum(head) & 0xFF]) + bytes([END])

    def _carry_out(self, kind: int, data: bytes) -> bool:
        if kind == START:
            mode, softdevice, bootloader, self.size = struct.unpack("<IIII", data)
            self.program.clear()
            return (mode, softdevice, bootloader) == (APPLICATION, 0, 0)
        if kind == INIT:
            device, _, _, count = struct.unpack("<HHIH", data[:10])
            soft_devices = struct.unpack(f"<{count}H", data[10 : 10 + 2 * count])
            self.crc = int.from_bytes(data[10 + 2 * count : 12 + 2 * count], "little")
            return device == self.device and self.softdevice in soft_devices
        if kind == DATA:
            self.program += data
            return len(self.program) <= self.size
        if kind == STOP:
            self.started = len(self.program) == self.size and binascii.crc_hqx(self.program, 0xFFFF) == self.crc
            return self.started
        return False
