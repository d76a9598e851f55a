# SPDX-License-Identifier: Apache-2.0
"""Nordic's UARTE with EasyDMA, by the nRF52840's specification (6.34) and as Renode's stock platform has it. What not
both do is refused: registers of the older UART, shortcuts, buffers outside the RAM, tasks started out of turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

STARTRX, STARTTX, ENDRX, ENDTX = 0x000, 0x008, 0x110, 0x120
ENABLE, PSEL_TXD, PSEL_RXD, BAUDRATE = 0x500, 0x50C, 0x514, 0x524
RXD_PTR, RXD_MAXCNT, TXD_PTR, TXD_MAXCNT = 0x534, 0x538, 0x544, 0x548
WRITABLE = {
    STARTRX, STARTTX, ENDRX, ENDTX, ENABLE, PSEL_TXD, PSEL_RXD, BAUDRATE, RXD_PTR, RXD_MAXCNT, TXD_PTR, TXD_MAXCNT,
}  # fmt: skip
READABLE = {ENDRX, ENDTX}
RATES = {
    0x00275000: 9600, 0x003AF000: 14400, 0x004EA000: 19200, 0x0075C000: 28800, 0x009D0000: 38400, 0x00EB0000: 57600,
    0x01D60000: 115200, 0x03B00000: 230400, 0x07400000: 460800, 0x0F000000: 921600, 0x10000000: 1000000,
}  # fmt: skip
POLLS = 3  # of ENDTX, until a byte has left


class Uarte:
    """inbox: what comes over the line. sent: what has left. read_memory, write_memory: what EasyDMA does."""

    def __init__(
        self,
        ram: range,
        read_memory: Callable[[int, int], bytes],
        write_memory: Callable[[int, bytes], None],
        inbox: Iterable[int] = (),
    ) -> None:
        self.ram, self.read_memory, self.write_memory = ram, read_memory, write_memory
        self.inbox = deque(inbox)
        self.sent = bytearray()
        self.registers = dict.fromkeys(WRITABLE, 0)
        self.polls = 0

    def read(self, offset: int) -> int:
        assert offset in READABLE, f"0x{offset:03X} is not read"
        if offset == ENDTX and self.polls:
            self.polls -= 1
            if self.polls == 0:
                self.sent += self.read_memory(self.registers[TXD_PTR], self.registers[TXD_MAXCNT])
                self.registers[ENDTX] = 1
        return self.registers[offset]

    def write(self, offset: int, value: int) -> None:
        assert offset in WRITABLE, f"0x{offset:03X} is not written"
        if offset in (PSEL_TXD, PSEL_RXD, BAUDRATE):
            assert self.registers[ENABLE] == 0, "before it is enabled"
        if offset == STARTTX:
            self._start(TXD_PTR, TXD_MAXCNT, ENDTX)
            assert self.polls == 0, "a byte is on its way"
            self.polls = POLLS
        elif offset == STARTRX:
            self._start(RXD_PTR, RXD_MAXCNT, ENDRX)
            self._receive()
        else:
            self.registers[offset] = value

    def _start(self, pointer: int, count: int, event: int) -> None:
        assert self.registers[ENABLE] == 8, "as UARTE"
        assert self.registers[BAUDRATE] in RATES
        assert self.registers[event] == 0, "the event would be taken for that of this transfer"
        begin, size = self.registers[pointer], self.registers[count]
        assert size > 0
        assert begin in self.ram
        assert begin + size - 1 in self.ram

    def _receive(self) -> None:
        size = self.registers[RXD_MAXCNT]
        if len(self.inbox) >= size:
            self.write_memory(self.registers[RXD_PTR], bytes(self.inbox.popleft() for _ in range(size)))
            self.registers[ENDRX] = 1
