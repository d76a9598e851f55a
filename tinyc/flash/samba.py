# SPDX-License-Identifier: Apache-2.0
"""Client of the SAM-BA bootloader in Arduino's two forms: ASCII commands that end in `#`, over a USB serial port.

Commands (Microchip's SAM-BA monitor, and the extensions that Arduino's bootloaders announce in their version text as
`[Arduino:XYZ]`): N# binary answers; V# version; S<address>,<size># followed by bytes fills RAM; R<address>,<size>#
reads; X<address># erases from there to the end; Y<address>,0# chooses the buffer in RAM; Y<address>,<size># writes it
to flash; Z<address>,<size># answers the CRC-16 (CCITT, start 0) of a piece as Z<8 hex digits>#; K# resets.

That is the form of the SAMD21. Boards with other chips (Nano 33 BLE) announce an I too, `[Arduino:IKXYZ]`, and differ:
S and Y take an offset into a buffer of the bootloader's own, X answers but erases nothing, Y erases what it writes, but
whole pages of 4,096 bytes alone, R is not there, numbers have eight digits, and bytes that do not belong to it follow
the version text.

Commands carry no checksum, so one that broke off is never sent again: USB checks what it carries, and a bootloader that
has lost the thread is started anew by hand. What was written is compared before it is called good.
"""

from __future__ import annotations

import binascii
import re

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc
from tinyc.flash.base import FlashError, Report, silent
from tinyc.flash.stm32_commands import SerialLine
from tinyc.toolchain.image import ERASED, Image

ANSWER_SECONDS = 2.0
ERASE_SECONDS = 60.0
PAGE = 4096
RAM_BUFFER = 0x2000_0000 + 0x4000  # of a SAMD21: above what the bootloader itself uses
_MOST_TEXT = 256  # of a version
TRIES = 3
_NO_EXTENSIONS = "only bootloaders of Arduino's can (docs/flash.md); is it the board's own?"
_AGAIN = "press the reset button twice, quickly, and flash again"


@dataclass(frozen=True, slots=True)
class Extensions:
    """What the version text says that the bootloader can: erase (X), write from a buffer (Y), checksum (Z)."""

    version: str
    letters: frozenset[str]

    @property
    def own_buffer(self) -> bool:
        """Whether it has the buffer, and erases page by page."""
        return "I" in self.letters

    @property
    def buffer(self) -> int:
        return 0 if self.own_buffer else RAM_BUFFER

    @property
    def unit(self) -> int:
        """Bytes that are written at once, or a multiple of them."""
        return PAGE if self.own_buffer else 4


class SamBa:
    """The commands."""

    def __init__(self, line: SerialLine) -> None:
        self._line = line
        self._where = Loc(line.port)

    def connect(self) -> Extensions:
        """Raises FlashError when nobody answers, or a bootloader without Arduino's commands."""
        for _ in range(TRIES):
            self._line.drain()
            self._line.write(b"N#")
            if self._line.read_exactly(2, ANSWER_SECONDS) == b"\n\r":
                break
        else:
            raise FlashError(
                "no SAM-BA bootloader answers",
                self._where,
                "press the reset button twice, quickly: the bootloader's port may have another name",
            )
        self._send("V#")
        text = self._text().strip()
        self._line.drain()
        letters = re.search(r"\[Arduino:([A-Z]*)\]", text)
        extensions = Extensions(text, frozenset(letters[1] if letters else ""))
        if not {"X", "Y"} <= extensions.letters:
            raise FlashError(f"the bootloader cannot write flash by itself: {text!r}", self._where, _NO_EXTENSIONS)
        return extensions

    def erase_from(self, address: int) -> None:
        self._send(f"X{address:08X}#")
        self._confirmed("X\n\r", f"erasing from 0x{address:08x}", ERASE_SECONDS)

    def write_page(self, buffer: int, address: int, data: bytes) -> None:
        """Sends up to PAGE bytes to the buffer and from there to flash."""
        self._send(f"S{buffer:08X},{len(data):08X}#")
        self._line.write(data)
        self._send(f"Y{buffer:08X},00000000#")
        self._confirmed("Y\n\r", f"sending what belongs to 0x{address:08x}")
        self._send(f"Y{address:08X},{len(data):08X}#")
        self._confirmed("Y\n\r", f"writing at 0x{address:08x}")

    def crc(self, address: int, size: int) -> int:
        self._send(f"Z{address:08X},{size:08X}#")
        answer = self._line.read_exactly(12, ANSWER_SECONDS).decode("ascii", "replace")
        match = re.fullmatch(r"Z([0-9A-Fa-f]{8})#\n\r", answer)
        if match is None:
            raise FlashError(f"no checksum of 0x{address:08x} from the bootloader: {answer!r}", self._where, _AGAIN)
        return int(match[1], 16)

    def read(self, address: int, size: int) -> bytes:
        self._send(f"R{address:08X},{size:08X}#")
        data = self._line.read_exactly(size, ANSWER_SECONDS)
        if len(data) != size:
            raise FlashError(f"the bootloader sent {len(data)} of {size} bytes at 0x{address:08x}", self._where, _AGAIN)
        return data

    def reset(self) -> None:
        self._send("K#")

    def _send(self, command: str) -> None:
        """Raises FlashError when there are bytes that nobody asked for: they would be taken for the answer."""
        if unread := self._line.unread():
            raise FlashError(f"the bootloader said {unread!r} before {command!r}", self._where, _AGAIN)
        self._line.write(command.encode())

    def _text(self) -> str:
        said = b""
        while not said.endswith(b"\n\r"):
            more = self._line.read_exactly(1, ANSWER_SECONDS)
            if not more or len(said) > _MOST_TEXT:
                raise FlashError("the bootloader's answer has no end", self._where, _AGAIN)
            said += more
        return said.decode("ascii", "replace")

    def _confirmed(self, expected: str, what: str, seconds: float = ANSWER_SECONDS) -> None:
        answer = self._line.read_exactly(len(expected), seconds).decode("ascii", "replace")
        if answer != expected:
            said = f"the bootloader said {answer!r}" if answer else "no answer"
            raise FlashError(f"{what} failed: {said}", self._where, _AGAIN)


def flash_samba(line: SerialLine, offset: int, image: Image, *, report: Report = silent) -> str:
    """Writes an image and checks it; the bootloader's version. offset: what the bootloader calls address 0.

    The image has been checked against the board's flash. Raises FlashError; nothing is erased until the bootloader has
    said that it can write.
    """
    samba = SamBa(line)
    extensions = samba.connect()
    start = image.origin - offset
    if not extensions.own_buffer:
        report("erase", 0, 1)
        samba.erase_from(start)
        report("erase", 1, 1)
    whole = Image(image.origin, image.data + bytes([ERASED]) * (-len(image.data) % extensions.unit))
    for at in range(0, len(whole.data), PAGE):
        report("write", at, len(whole.data))
        samba.write_page(extensions.buffer, start + at, whole.data[at : at + PAGE])
    report("write", len(whole.data), len(whole.data))
    _verify(samba, start, whole, "Z" in extensions.letters, Loc(line.port), report)
    samba.reset()
    return extensions.version


def _verify(samba: SamBa, start: int, image: Image, by_crc: bool, where: Loc, report: Report) -> None:
    for at in range(0, len(image.data), PAGE):
        report("verify", at, len(image.data))
        page = image.data[at : at + PAGE]
        if by_crc:
            same = samba.crc(start + at, len(page)) == binascii.crc_hqx(page, 0)
        else:
            same = samba.read(start + at, len(page)) == page
        if not same:
            raise FlashError(f"what was written at 0x{image.origin + at:08x} is not there", where, _AGAIN)
    report("verify", len(image.data), len(image.data))
