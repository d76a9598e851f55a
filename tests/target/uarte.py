# SPDX-License-Identifier: Apache-2.0
"""Nordic's UARTE with EasyDMA, by the nRF52840's specification (6.34) and as Renode's stock platform has it, and that
of the nRF54L15, by Nordic's register file nrf54l15.svd. What they do not have is refused: registers of the older UART,
shortcuts, buffers outside the RAM, tasks started out of turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

ENABLE, BAUDRATE = 0x500, 0x524
RATES = {
    0x00275000: 9600, 0x003AF000: 14400, 0x004EA000: 19200, 0x0075C000: 28800, 0x009D0000: 38400, 0x00EB0000: 57600,
    0x01D60000: 115200, 0x03B00000: 230400, 0x07400000: 460800, 0x0F000000: 921600, 0x10000000: 1000000,
}  # fmt: skip
POLLS = 3  # of the end of sending, until a byte has left


@dataclass(frozen=True)
class Direction:
    """Offsets of one of the two: task, event, buffer, pin."""

    start: int
    end: int
    pointer: int
    count: int
    pin: int


LAYOUTS = {
    "nrf-uarte": (Direction(0x000, 0x110, 0x534, 0x538, 0x514), Direction(0x008, 0x120, 0x544, 0x548, 0x50C)),
    "nrf54-uarte": (Direction(0x028, 0x14C, 0x704, 0x708, 0x60C), Direction(0x050, 0x168, 0x73C, 0x740, 0x604)),
}


class Uarte:
    """inbox: what comes over the line. sent: what has left. read_memory, write_memory: what EasyDMA does."""

    SPAN = 0x800

    def __init__(
        self,
        kind: str,
        ram: range,
        read_memory: Callable[[int, int], bytes],
        write_memory: Callable[[int, bytes], None],
        inbox: Iterable[int] = (),
    ) -> None:
        self.receiving, self.sending = LAYOUTS[kind]
        self.ram, self.read_memory, self.write_memory = ram, read_memory, write_memory
        self.inbox = deque(inbox)
        self.sent = bytearray()
        sides = [(side.start, side.end, side.pointer, side.count, side.pin) for side in LAYOUTS[kind]]
        self.registers = dict.fromkeys((ENABLE, BAUDRATE, *sides[0], *sides[1]), 0)
        self.polls = 0
        self.listening = False

    def read(self, offset: int, size: int) -> int:
        assert size == 4, "registers are words"
        assert offset in (self.receiving.end, self.sending.end), f"0x{offset:03X} is not read"
        if offset == self.sending.end and self.polls:
            self.polls -= 1
            if self.polls == 0:
                pointer, count = self.registers[self.sending.pointer], self.registers[self.sending.count]
                self.sent += self.read_memory(pointer, count)
                self.registers[offset] = 1
        if offset == self.receiving.end and self.listening:
            self._receive()
        return self.registers[offset]

    def write(self, offset: int, size: int, value: int) -> None:
        assert size == 4, "registers are words"
        assert offset in self.registers, f"0x{offset:03X} is not written"
        if offset in (self.sending.pin, self.receiving.pin, BAUDRATE):
            assert self.registers[ENABLE] == 0, "before it is enabled"
        if offset == self.sending.start:
            self._start(self.sending)
            assert self.polls == 0, "a byte is on its way"
            self.polls = POLLS
        elif offset == self.receiving.start:
            self._start(self.receiving)
            self.listening = True
            self._receive()
        else:
            self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        return RATES[self.registers[BAUDRATE]]

    def _start(self, side: Direction) -> None:
        assert self.registers[ENABLE] == 8, "as UARTE"
        assert self.registers[BAUDRATE] in RATES
        assert self.registers[side.end] == 0, "the event would be taken for that of this transfer"
        begin, size = self.registers[side.pointer], self.registers[side.count]
        assert size > 0
        assert begin in self.ram
        assert begin + size - 1 in self.ram

    def _receive(self) -> None:
        size = self.registers[self.receiving.count]
        if len(self.inbox) >= size:
            self.write_memory(self.registers[self.receiving.pointer], bytes(self.inbox.popleft() for _ in range(size)))
            self.registers[self.receiving.end] = 1
            self.listening = False
