"""The STM32 system bootloader at a pseudo-terminal, from ST's AN3155, strict: what the document does not allow is
answered with NACK, or not at all. Faults can be put in: see `Fault`."""

from __future__ import annotations

import os
import threading
import time
import tty
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import xor

ACK, NACK = b"\x79", b"\x1f"
GET, GET_VERSION, GET_ID, READ, GO, WRITE, ERASE, EXTENDED = 0x00, 0x01, 0x02, 0x11, 0x21, 0x31, 0x43, 0x44
F4_SECTORS = (*(16_384,) * 4, 65_536, *(131_072,) * 7)


@dataclass
class Fault:
    """What goes wrong when a command comes for the n-th time (from 1), `times` times on end.

    nack: its code is refused. silent: the last answer is lost, after the command was carried out. flip: the last
    answer's first byte is damaged. garble: the data as received is damaged, so the checksum is wrong. unplug: the line
    breaks. stall: it answers nothing at all from then on.
    """

    command: int
    nth: int
    kind: str
    times: int = 1


class UnpluggedError(Exception):
    """The line is gone."""


@dataclass
class Stm32:
    """A chip. flash starts erased unless `contents` says otherwise."""

    chip_id: int = 0x413
    origin: int = 0x0800_0000
    sectors: tuple[int, ...] = F4_SECTORS
    extended: bool = True
    protected: bool = False
    size_kib: int = 1024
    size_register: int = 0x1FFF_7A22
    faults: tuple[Fault, ...] = ()
    contents: bytes = b""
    stuck: int | None = None  # address of a flash byte that keeps its value 0x00
    flash: bytearray = field(init=False)
    started: int | None = field(init=False, default=None)
    counts: Counter[int] = field(init=False, default_factory=Counter)
    erased: list[int] = field(init=False, default_factory=list)
    problems: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.flash = bytearray(b"\xff" * sum(self.sectors))
        self.flash[: len(self.contents)] = self.contents
        if self.stuck is not None:
            self.flash[self.stuck - self.origin] = 0

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

    # --- bytes ---

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = os.read(self._master, count - len(data))
            except OSError as error:
                raise UnpluggedError from error
            if not more:
                raise UnpluggedError
            data += more
        return data

    def _send(self, data: bytes) -> None:
        try:
            os.write(self._master, data)
        except OSError as error:
            raise UnpluggedError from error

    # --- the protocol ---

    def _serve(self) -> None:
        try:
            while self._take(1) != b"\x7f":
                pass  # the baud rate is not known yet
            self._send(ACK)
            while True:
                self._command()
        except UnpluggedError:
            pass
        except Exception as error:
            self.problems.append(repr(error))

    def _command(self) -> None:
        code, complement = self._take(1)[0], self._take(1)[0]
        if code ^ complement != 0xFF:
            self._send(NACK)
            return
        known = {GET, GET_VERSION, GET_ID, READ, GO, WRITE, EXTENDED if self.extended else ERASE}
        if code not in known:
            self._send(NACK)
            return
        self.counts[code] += 1
        kinds = {f.kind for f in self.faults if f.command == code and 0 <= self.counts[code] - f.nth < f.times}
        if "unplug" in kinds:
            self._close()
            raise UnpluggedError
        if "stall" in kinds:
            while True:
                self._take(1)
        if "nack" in kinds or (self.protected and code in (READ, GO, WRITE, ERASE, EXTENDED)):
            self._send(NACK)
            return
        self._send(ACK)
        answer = self._carry_out(code, "garble" in kinds)
        if "silent" in kinds:
            answer = answer[:-1]
        if "flip" in kinds:
            answer = bytes([answer[0] ^ 0x55]) + answer[1:]
        self._send(answer)

    def _carry_out(self, code: int, garble: bool) -> bytes:
        """Takes what else belongs to the command, answering its middle steps; the last answer."""
        fixed = self._fixed_answer(code)
        if fixed is not None:
            return fixed
        if code in (ERASE, EXTENDED):
            return self._erase(code == EXTENDED)
        body = self._take(5)
        address = int.from_bytes(body[:4], "big")
        if reduce(xor, body) != 0 or (code == GO and not self.origin <= address < self.origin + len(self.flash)):
            return NACK
        if code == GO:
            self.started = address
            return ACK
        return self._read(address) if code == READ else self._write(address, garble)

    def _fixed_answer(self, code: int) -> bytes | None:
        if code == GET:
            commands = [GET, GET_VERSION, GET_ID, READ, GO, WRITE, EXTENDED if self.extended else ERASE]
            return bytes([len(commands), 0x31, *commands]) + ACK
        if code == GET_VERSION:
            return bytes([0x31, 0, 0]) + ACK
        if code == GET_ID:
            return b"\x01" + self.chip_id.to_bytes(2, "big") + ACK
        return None

    def _memory(self, address: int, count: int) -> bytes | None:
        at = address - self.origin
        if at >= 0 and at + count <= len(self.flash):
            return bytes(self.flash[at : at + count])
        if self.size_register <= address and address + count <= self.size_register + 2:
            start = address - self.size_register
            return self.size_kib.to_bytes(2, "little")[start : start + count]
        return None

    def _read(self, address: int) -> bytes:
        if self._memory(address, 1) is None:
            return NACK
        self._send(ACK)
        count, complement = self._take(2)
        if count ^ complement != 0xFF:
            return NACK
        data = self._memory(address, count + 1)
        return NACK if data is None else ACK + data

    def _write(self, address: int, garble: bool) -> bytes:
        at = address - self.origin
        if at < 0 or at >= len(self.flash) or at % 4:
            return NACK
        self._send(ACK)
        count = self._take(1)[0] + 1
        data = bytearray(self._take(count))
        checksum = self._take(1)[0]
        if garble:
            data[0] ^= 1
        if reduce(xor, data, count - 1) != checksum or count % 4 or at + count > len(self.flash):
            return NACK
        for index, byte in enumerate(data):
            self.flash[at + index] &= byte  # programming only clears bits
        return ACK

    def _erase(self, extended: bool) -> bytes:
        width = 2 if extended else 1
        head = self._take(width)
        count = int.from_bytes(head, "big") + 1
        if (extended and count > 0xFFF0) or (not extended and count == 256):
            checksum = self._take(1)[0]
            expected = reduce(xor, head) if extended else 0
            numbers = list(range(len(self.sectors)))
        else:
            body = self._take(width * count)
            checksum = self._take(1)[0]
            expected = reduce(xor, head + body)
            numbers = [int.from_bytes(body[i : i + width], "big") for i in range(0, len(body), width)]
        if checksum != expected or any(number >= len(self.sectors) for number in numbers):
            return NACK
        for number in numbers:
            start = sum(self.sectors[:number])
            self.flash[start : start + self.sectors[number]] = b"\xff" * self.sectors[number]
            self.erased.append(number)
            if self.stuck is not None:
                self.flash[self.stuck - self.origin] = 0
            time.sleep(0.01)
        return ACK
