# SPDX-License-Identifier: Apache-2.0
"""The STM32 system bootloader, from ST's AN3155, byte by byte: every byte that arrives is taken by the state that the
bootloader is in then, and what the document does not allow is answered with NACK, or not at all. It stands at a
pseudo-terminal (`Stm32.at_port`) or at a line without time (`SimulatedLine`), and faults can be put in."""

from __future__ import annotations

import os
import random
import threading
import tty
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import xor
from typing import Protocol

ACK, NACK = 0x79, 0x1F
GET, GET_VERSION, GET_ID, READ, GO, WRITE, ERASE, EXTENDED = 0x00, 0x01, 0x02, 0x11, 0x21, 0x31, 0x43, 0x44
PROTECT = {0x63: "write protect", 0x73: "write unprotect", 0x82: "readout protect", 0x92: "readout unprotect"}
F4_SECTORS = (*(16_384,) * 4, 65_536, *(131_072,) * 7)
_WHEN_PROTECTED = (GET, GET_VERSION, GET_ID, 0x92)

Bytes = Generator[None, int, None]


@dataclass
class Fault:
    """What goes wrong when a command comes for the n-th time (from 1), `times` times on end.

    nack: its code is refused. nack_last: its last step is refused. silent: the last
    answer is lost, after the command was carried out. flip: the last answer's first byte is damaged. garble: the data
    as received is damaged, so the checksum is wrong. unplug: the line breaks. stall: it answers nothing any more.
    """

    command: int
    nth: int
    kind: str
    times: int = 1


class UnpluggedError(Exception):
    """The line is gone."""


@dataclass
class Stm32:
    """A chip. flash starts erased unless `contents` says otherwise.

    any_length: WRITE takes lengths that are no multiple of 4, as some bootloaders do. erase_waits: of the first erases,
    how long each takes, in times that the host waits in vain; bytes that come meanwhile, but for the first, are lost.
    write_protected: sectors that neither ERASE nor WRITE changes, without a word, as on the older chips.
    """

    chip_id: int = 0x413
    origin: int = 0x0800_0000
    sectors: tuple[int, ...] = F4_SECTORS
    extended: bool = True
    protected: bool = False
    write_protected: tuple[int, ...] = ()
    size_kib: int = 1024
    size_register: int = 0x1FFF_7A22
    faults: tuple[Fault, ...] = ()
    contents: bytes = b""
    stuck: int | None = None  # address of a flash byte that keeps its value 0x00
    any_length: bool = False
    erase_waits: list[int] = field(default_factory=list)
    flash: bytearray = field(init=False)
    started: int | None = field(init=False, default=None)
    counts: Counter[int] = field(init=False, default_factory=Counter)
    erased: list[int] = field(init=False, default_factory=list)
    written: list[tuple[int, int]] = field(init=False, default_factory=list)  # address, bytes
    accidents: list[str] = field(init=False, default_factory=list)  # commands that change the chip for good
    problems: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.flash = bytearray(b"\xff" * sum(self.sectors))
        self.flash[: len(self.contents)] = self.contents
        if self.stuck is not None:
            self.flash[self.stuck - self.origin] = 0
        self._answers = bytearray()
        self._busy = 0
        self._overrun: int | None = None
        self._mute = False
        self._kinds: set[str] = set()
        self._state = self._protocol()
        next(self._state)

    # --- bytes in and out ---

    def feed(self, byte: int) -> bytes:
        """Takes a byte; what is answered to it."""
        if self._busy:
            self._overrun = byte if self._overrun is None else self._overrun
        else:
            self._state.send(byte)
        return self._said()

    def wait(self) -> bytes:
        """Time passes, as long as the host is patient; what is said in it."""
        if self._busy:
            self._busy -= 1
            if not self._busy:
                self._state.send(0)  # the erase is done
                if self._overrun is not None:
                    self._state.send(self._overrun)
                self._overrun = None
        return self._said()

    def _said(self) -> bytes:
        said = b"" if self._mute or self._busy else bytes(self._answers)
        self._answers.clear()
        return said

    def _answer(self, *answers: int) -> None:
        self._answers += bytes(answers)

    # --- the protocol: each `yield` is a state in which it waits for one byte ---

    def _protocol(self) -> Bytes:
        while True:
            while (yield) != 0x7F:
                pass  # the baud rate is not known yet
            self._answer(ACK)
            restarts = False
            while not restarts:
                restarts = yield from self._command()

    def _command(self) -> Generator[None, int, bool]:
        """One command; True: the chip has been reset by it."""
        code = yield
        complement = yield
        erase = EXTENDED if self.extended else ERASE
        commands = {GET, GET_VERSION, GET_ID, READ, GO, WRITE, erase, *PROTECT}
        if code ^ complement != 0xFF or code not in commands:
            self._answer(NACK)
            return False
        self.counts[code] += 1
        self._kinds = {f.kind for f in self.faults if f.command == code and 0 <= self.counts[code] - f.nth < f.times}
        if "unplug" in self._kinds:
            raise UnpluggedError
        self._mute = self._mute or "stall" in self._kinds
        if "nack" in self._kinds or (self.protected and code not in _WHEN_PROTECTED):
            self._answer(NACK)
            return False
        self._answer(ACK)
        if code in PROTECT:
            return (yield from self._protect(code))
        if code in (ERASE, EXTENDED):
            yield from self._erase(code == EXTENDED)
        elif code in (READ, WRITE, GO):
            yield from self._at_address(code)
        else:
            fixed = {GET: (7, 0x31, GET, GET_VERSION, GET_ID, READ, GO, WRITE, erase), GET_VERSION: (0x31, 0, 0)}
            self._last(*fixed.get(code, (1, self.chip_id >> 8, self.chip_id & 0xFF)), ACK)
        return False

    def _last(self, *answers: int) -> None:
        """The last answer of a command, with the faults that concern it."""
        if "silent" in self._kinds:
            answers = answers[:-1]
        if "flip" in self._kinds:
            answers = (answers[0] ^ 0x55, *answers[1:])
        self._answer(*answers)

    def _take(self, count: int) -> Generator[None, int, bytes]:
        data = bytearray()
        while len(data) < count:
            data.append((yield))
        return bytes(data)

    def _at_address(self, code: int) -> Bytes:
        frame = yield from self._take(5)
        address = int.from_bytes(frame[:4], "big")
        is_memory = self._memory(address, 1) is not None if code == READ else self._in_flash(address, 1)
        if reduce(xor, frame) != 0 or not is_memory or (code == WRITE and address % 4):
            self._last(NACK)
        elif code == GO:
            self._last(ACK)
            self.started = address
            while True:
                yield  # the bootloader runs no more
        elif code == READ:
            self._answer(ACK)
            yield from self._read(address)
        else:
            self._answer(ACK)
            yield from self._write(address)

    def _in_flash(self, address: int, count: int) -> bool:
        return self.origin <= address and address + count <= self.origin + len(self.flash)

    def _memory(self, address: int, count: int) -> bytes | None:
        if self._in_flash(address, count):
            return bytes(self.flash[address - self.origin : address - self.origin + count])
        start = address - self.size_register
        if start >= 0 and start + count <= 2:
            return self.size_kib.to_bytes(2, "little")[start : start + count]
        return None

    def _read(self, address: int) -> Bytes:
        count = yield
        complement = yield
        data = self._memory(address, count + 1)
        if count ^ complement != 0xFF or data is None or "nack_last" in self._kinds:
            self._last(NACK)
        else:
            self._last(ACK, *data)

    def _write(self, address: int) -> Bytes:
        count = (yield) + 1
        data = bytearray((yield from self._take(count)))
        checksum = yield
        if "garble" in self._kinds:
            data[0] ^= 1
        fits = (self.any_length or count % 4 == 0) and self._in_flash(address, count)
        if reduce(xor, data, count - 1) != checksum or not fits or "nack_last" in self._kinds:
            self._last(NACK)
            return
        at = address - self.origin
        self.written.append((address, count))
        for index, byte in enumerate(data):
            if not self.write_protected or self._sector_at(at + index) not in self.write_protected:
                self.flash[at + index] &= byte  # programming only clears bits
        self._last(ACK)

    def _sector_at(self, at: int) -> int:
        return next(n for n in range(len(self.sectors)) if at < sum(self.sectors[: n + 1]))

    def _erase(self, extended: bool) -> Bytes:
        width = 2 if extended else 1
        head = yield from self._take(width)
        count = int.from_bytes(head, "big") + 1
        everything = count > 0xFFF0 if extended else count == 256
        body = yield from self._take(1 if everything else width * count + 1)
        pages = body[:-1]
        numbers = [int.from_bytes(pages[i : i + width], "big") for i in range(0, len(pages), width)]
        # "Everything" of the one-byte command has 0x00 for a checksum, not the XOR.
        right = body == b"\x00" if everything and not extended else reduce(xor, head + body) == 0
        if everything and right:
            self.accidents.append("mass erase")
            numbers = list(range(len(self.sectors)))
        if not right or any(number >= len(self.sectors) for number in numbers) or "nack_last" in self._kinds:
            self._last(NACK)
            return
        for number in set(numbers) - set(self.write_protected):
            start = sum(self.sectors[:number])
            self.flash[start : start + self.sectors[number]] = b"\xff" * self.sectors[number]
            self.erased.append(number)
            if self.stuck is not None:
                self.flash[self.stuck - self.origin] = 0
        if self.erase_waits:
            self._busy, *self.erase_waits = self.erase_waits
            yield
        self._last(ACK)

    def _protect(self, code: int) -> Generator[None, int, bool]:
        if code == 0x63:
            head = yield from self._take(1)
            body = yield from self._take(head[0] + 2)
            if reduce(xor, head + body) != 0:
                self._last(NACK)
                return False
        self.accidents.append(PROTECT[code])
        if code == 0x92:
            self.flash[:] = b"\xff" * len(self.flash)
        self.protected = code == 0x82 or (self.protected and code != 0x92)
        self._last(ACK)
        return True

    # --- at a pseudo-terminal ---

    @contextmanager
    def at_port(self) -> Iterator[str]:
        """The port's name, while the bootloader runs behind it."""
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        name = os.ttyname(self._slave)
        self._open = True
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        try:
            yield name
        finally:
            self._close()
            thread.join(5)
        assert not self.problems, self.problems

    def _close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._slave)
            os.close(self._master)

    def _serve(self) -> None:
        try:
            while data := os.read(self._master, 4096):
                for byte in data:
                    os.write(self._master, self.feed(byte))
        except (UnpluggedError, OSError):
            self._close()
        except Exception as error:
            self.problems.append(repr(error))


@dataclass(frozen=True)
class LineFault:
    """What happens to one byte of a session: to_chip or from it, its position in that direction, and `lose`, `twice`,
    or the bits that change."""

    to_chip: bool
    position: int
    kind: str | int


class Chip(Protocol):
    """What stands at the end of a line: Stm32, or another bootloader."""

    def feed(self, byte: int) -> bytes: ...
    def wait(self) -> bytes: ...


class SimulatedLine:
    """A line to a chip, for tinyc.flash, on which no time passes: waiting in vain is an event."""

    port = "simulated"

    def __init__(self, chip: Chip, *faults: LineFault) -> None:
        self._chip = chip
        self._faults = {way: {f.position: f.kind for f in faults if f.to_chip is way} for way in (True, False)}
        self._unread = bytearray()
        self.bytes = {True: 0, False: 0}  # that were sent, to the chip and from it

    def write(self, data: bytes) -> None:
        for byte in self._carried(True, data):
            self._unread += self._carried(False, self._chip.feed(byte))

    def unread(self) -> bytes:
        data = bytes(self._unread)
        self._unread.clear()
        return data

    def read_exactly(self, count: int, seconds: float) -> bytes:
        if len(self._unread) < count:
            self._unread += self._carried(False, self._chip.wait())
        data = bytes(self._unread[:count])
        del self._unread[:count]
        return data

    def drain(self, seconds: float = 0.05) -> None:
        self._unread.clear()

    def _carried(self, to_chip: bool, data: bytes) -> bytes:
        first, faults = self.bytes[to_chip], self._faults[to_chip]
        self.bytes[to_chip] += len(data)
        if not any(first <= position < first + len(data) for position in faults):
            return data
        arrived = bytearray()
        for position, byte in enumerate(data, first):
            kind = faults.get(position)
            if isinstance(kind, int):
                arrived.append(byte ^ kind)
            else:
                arrived += bytes([byte]) * {"lose": 0, "twice": 2}.get(kind or "", 1)
        return bytes(arrived)


class NoisyLine(SimulatedLine):
    """A share of all bytes has a wrong bit, is lost, or comes twice."""

    def __init__(self, chip: Chip, share: float, seed: int) -> None:
        super().__init__(chip)
        self._random, self._share = random.Random(seed), share

    def _carried(self, to_chip: bool, data: bytes) -> bytes:
        arrived = b""
        for byte in data:
            self.bytes[to_chip] += 1
            kind = self._random.randrange(10) if self._random.random() < self._share else None
            damaged = bytes([byte ^ 1 << self._random.randrange(8)]) if kind is not None and kind < 8 else bytes([byte])
            arrived += damaged * {8: 0, 9: 2}.get(kind if kind is not None else 0, 1)
        return arrived
