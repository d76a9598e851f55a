# SPDX-License-Identifier: Apache-2.0
"""A UF2 boot loader as the format's page describes it (github.com/microsoft/uf2): a drive that takes sectors of 512
bytes in any order, again and again and with others between them, writes those that are blocks of its family, and starts
when it has as many as they say. Nothing of tinyc is in it."""

from __future__ import annotations

import struct
from pathlib import Path

SECTOR = 512


class Uf2Board:
    """flash: what was written, by address. folder: where the drive is mounted, None without a drive."""

    def __init__(self, family: int, folder: Path | None = None, current: bool = False, stays: bool = False) -> None:
        self.family = family
        self.flash: dict[int, int] = {}
        self.started = False
        self._seen: set[int] = set()
        self._folder = folder
        self._current = current
        self._stays = stays
        if folder is not None:
            folder.mkdir(parents=True)
            (folder / "INFO_UF2.TXT").write_text("UF2 Bootloader v3.16\r\nModel: Simulated\r\nBoard-ID: SIM-v0\r\n")
            self._show()

    def take(self, data: bytes) -> None:
        """What the computer writes to the drive; a last sector that is not whole is filled up."""
        for at in range(0, len(data), SECTOR):
            self._sector(data[at : at + SECTOR].ljust(SECTOR, b"\0"))
        self._show()

    def _sector(self, sector: bytes) -> None:
        first, second, flags, address, size, number, count, family = struct.unpack_from("<8I", sector)
        last = struct.unpack_from("<I", sector, 508)[0]
        if (first, second, last) != (0x0A324655, 0x9E5D5157, 0x0AB16F30) or flags & 0x1001 or self.started:
            return
        if not flags & 0x2000 or family != self.family or size > 476:
            return
        for offset, byte in enumerate(sector[32 : 32 + size]):
            self.flash[address + offset] = byte
        self._seen.add(number)
        if sum(each < count for each in self._seen) == count and not self._stays:
            self.started = True
            self._unmount()

    def _show(self) -> None:
        """CURRENT.UF2: all of the flash, from address 0 on, 256 bytes of payload each."""
        if self._folder is None or not self._current or self.started:
            return
        end = -(-max(self.flash, default=0) // 256) + 1
        with (self._folder / "CURRENT.UF2").open("wb") as file:
            for number in range(end):
                payload = bytes(self.flash.get(number * 256 + at, 0xFF) for at in range(256))
                head = struct.pack("<8I", 0x0A324655, 0x9E5D5157, 0x2000, number * 256, 256, number, end, self.family)
                file.write(head + payload + b"\0" * 220 + struct.pack("<I", 0x0AB16F30))

    def _unmount(self) -> None:
        if self._folder is not None:
            for file in list(self._folder.iterdir()):
                file.unlink()
            self._folder.rmdir()

    def bytes_from(self, address: int, size: int) -> bytes:
        """What the flash holds there; erased where nothing was written."""
        return bytes(self.flash.get(address + at, 0xFF) for at in range(size))
