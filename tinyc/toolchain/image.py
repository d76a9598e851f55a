# SPDX-License-Identifier: Apache-2.0
"""What goes into a board's flash: the bytes of an ELF file, and the file formats that flash tools take."""

from __future__ import annotations

import struct

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.toolchain.elf import Elf

ERASED = 0xFF


@dataclass(frozen=True, slots=True)
class Image:
    """Bytes for the flash from address `origin` on."""

    origin: int
    data: bytes

    @property
    def end(self) -> int:
        return self.origin + len(self.data)


def image_of(elf: Elf) -> Image:
    """What the ELF file loads, as one piece; gaps are as erased flash. Raises TinycError when it loads nothing."""
    segments = [segment for segment in elf.segments if segment.data]
    if not segments:
        raise TinycError("the firmware has nothing to load")
    origin = min(segment.load for segment in segments)
    data = bytearray([ERASED]) * (max(segment.load + len(segment.data) for segment in segments) - origin)
    for segment in segments:
        at = segment.load - origin
        data[at : at + len(segment.data)] = segment.data
    return Image(origin, bytes(data))


def intel_hex(image: Image) -> str:
    """Intel HEX: data records (00) of 16 bytes, extended linear addresses (04), end of file (01)."""
    lines = []
    high = None
    at = 0
    while at < len(image.data):
        address = image.origin + at
        if address >> 16 != high:
            high = address >> 16
            lines.append(_record(0, 4, high.to_bytes(2, "big")))
        size = min(16, len(image.data) - at, 0x10000 - (address & 0xFFFF))
        lines.append(_record(address & 0xFFFF, 0, image.data[at : at + size]))
        at += size
    return "\n".join([*lines, _record(0, 1, b""), ""])


def _record(address: int, kind: int, data: bytes) -> str:
    body = struct.pack(">BHB", len(data), address, kind) + data
    return f":{body.hex().upper()}{-sum(body) & 0xFF:02X}"


BOOT2_BYTES = 256


def seal_boot2(code: bytes) -> bytes:
    """The RP2040's second stage as its boot ROM wants it: 252 bytes and their CRC-32 (RP2040 data sheet, 2.8.1.3.1:
    polynomial 0x04C11DB7, start 0xFFFFFFFF, nothing reflected or inverted)."""
    if len(code) > BOOT2_BYTES - 4:
        raise TinycError(f"the second stage bootloader has {len(code)} bytes; there is room for {BOOT2_BYTES - 4}")
    padded = code.ljust(BOOT2_BYTES - 4, b"\0")
    crc = 0xFFFFFFFF
    for byte in padded:
        crc ^= byte << 24
        for _ in range(8):
            crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 else 0)) & 0xFFFFFFFF
    return padded + struct.pack("<I", crc)
