# SPDX-License-Identifier: Apache-2.0
"""UARTs register by register, written from their vendors' descriptions and not from the drivers: SERCOM (Microchip
DS40001882, DS60001507, and the files ATSAMD21G18A.svd, ATSAMD51J19A.svd), SCI (Renesas R01UH0887, R7FA4M1AB.svd;
R01UH0995 and the register file of RA8D1),
LPUART (NXP IMXRT1060RM, 49), PL011 (Arm DDI 0183), that of the Cortex-M System Design Kit (Arm DDI 0479), USART and
LPUART of STM32 (RM0090, RM0432), Nordic's older UART (nRF52840 specification, 6.33), and UART and USB Serial/JTAG of
Espressif's RISC-V chips (manuals of ESP32-C3 and C6, and the files esp32c3.svd, esp32c6.svd). An access that the
hardware would not take as meant is an error: a wrong width, a register that the mode does not have, one that is locked
while it is enabled, a byte sent where there is no room.

Bytes take a number of polls to leave. Where `overrun` says so, an overrun stops the receiver, until the program
starts it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

POLLS = 3  # of a state, until the shift register is empty


class SerialLine:
    """What all have: a shift register and one byte before it, and received bytes. overrun: the receiver stops before
    this many bytes of the inbox, until its flag is cleared."""

    SPAN = 0x20
    WIDTHS: dict[int, int]  # bytes of each register that is accessed, by offset

    def __init__(self, inbox: Iterable[int] = (), overrun: int | None = None) -> None:
        self.inbox = deque(inbox)
        self.sent = bytearray()
        self.registers = dict.fromkeys(self.WIDTHS, 0)
        self.waiting: int | None = None
        self.shifting: int | None = None
        self.polls = 0
        self.overrun = overrun
        self.taken = 0
        self.stopped = False

    def width(self, offset: int, size: int) -> None:
        assert self.WIDTHS.get(offset) == size, f"0x{offset:02X} with {size} bytes"

    def put(self, byte: int) -> None:
        assert self.waiting is None, "no room"
        self.waiting = byte
        self._shift()

    def poll(self) -> None:
        """Time passes."""
        if self.shifting is not None:
            self.polls -= 1
            if self.polls == 0:
                self.sent.append(self.shifting)
                self.shifting = None
        self._shift()

    def _shift(self) -> None:
        if self.shifting is None and self.waiting is not None:
            self.shifting, self.waiting, self.polls = self.waiting, None, POLLS

    @property
    def has_byte(self) -> bool:
        if self.overrun is not None and self.taken == self.overrun:
            self.overrun, self.stopped = None, True
        return bool(self.inbox) and not self.stopped

    def get(self) -> int:
        assert self.has_byte, "nothing was received"
        self.taken += 1
        return self.inbox.popleft()


class Sercom(SerialLine):
    """As a USART with its internal clock. A reset, an enabling and a write of CTRLB are in the air until SYNCBUSY is
    read as zero."""

    SPAN = 0x40
    CTRLA, CTRLB, BAUD, INTFLAG, SYNCBUSY, DATA = 0x00, 0x04, 0x0C, 0x18, 0x1C, 0x28
    WIDTHS = {CTRLA: 4, CTRLB: 4, BAUD: 2, INTFLAG: 1, SYNCBUSY: 4, DATA: 2}  # noqa: RUF012

    def __init__(self, inbox: Iterable[int] = (), overrun: int | None = None) -> None:
        super().__init__(inbox, overrun)
        self.busy = 0
        self.ever_sent = False

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.SYNCBUSY:
            self.busy = max(self.busy - 1, 0)
            return 1 if self.busy else 0
        assert self.enabled, f"0x{offset:02X} is read before it is enabled"
        if offset == self.INTFLAG:
            self.poll()
            sent = self.ever_sent and self.waiting is None and self.shifting is None
            return (self.waiting is None) << 0 | sent << 1 | self.has_byte << 2
        assert offset == self.DATA, f"0x{offset:02X} is not read"
        return self.get()

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        assert self.busy == 0 or offset == self.DATA, "SYNCBUSY"
        if offset == self.DATA:
            assert self.enabled
            assert self.registers[self.CTRLB] & 1 << 16, "TXEN"
            self.ever_sent = True
            self.put(value & 0x1FF)
            return
        assert offset not in (self.INTFLAG, self.SYNCBUSY), f"0x{offset:02X} is not written"
        if offset == self.CTRLA and value & 1:
            self.registers = dict.fromkeys(self.WIDTHS, 0)
            self.busy = POLLS
            return
        assert not self.enabled, "locked while it is enabled"
        if offset == self.CTRLA:
            setting = self.registers[self.CTRLA]
            assert not value & 2 or not setting or setting == value & ~2, "the mode is set before it is enabled"
            assert value >> 2 & 7 == 1, "USART, internal clock"
            assert value >> 13 & 7 == 0, "16 samples, arithmetic"
            assert (value >> 16 & 3, value >> 20 & 3) == (0, 1), "TX on pad 0, RX on pad 1"
            assert value >> 24 & 15 == 0, "no parity"
            assert value >> 28 & 1 == 0, "asynchronous"
            assert value >> 30 & 1, "the least bit first"
        if offset == self.CTRLB:
            assert value & 7 == 0, "8 bits"
            assert not value >> 6 & 1, "one stop bit"
        if offset == self.CTRLB or (value & 2 and offset == self.CTRLA):
            self.busy = POLLS
        self.registers[offset] = value

    @property
    def enabled(self) -> bool:
        return bool(self.registers[self.CTRLA] & 2)

    @property
    def has_byte(self) -> bool:
        return bool(self.registers[self.CTRLB] & 1 << 17) and super().has_byte

    def baud(self, clock_hz: int) -> float:
        return clock_hz / 16 * (1 - self.registers[self.BAUD] / 65536)


class Sci(SerialLine):
    """Asynchronous, without FIFO. A receiver with an overrun stops until ORER is read as one and written as zero."""

    SMR, BRR, SCR, TDR, SSR, RDR, SCMR, SEMR = range(8)
    WIDTHS = dict.fromkeys(range(8), 1)

    def __init__(self, inbox: Iterable[int] = (), overrun: int | None = None) -> None:
        super().__init__(inbox, overrun)
        self.registers.update({self.BRR: 0xFF, self.SCMR: 0xF2})
        self.seen = False

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.RDR:
            return self.get()
        assert offset == self.SSR, f"{offset} is not read"
        self.poll()
        has_byte = bool(self.registers[self.SCR] & 1 << 4) and self.has_byte
        self.seen = self.stopped
        idle = self.waiting is None and self.shifting is None
        return (self.waiting is None) << 7 | has_byte << 6 | self.stopped << 5 | idle << 2

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        if offset == self.TDR:
            assert self.registers[self.SCR] & 1 << 5, "TE"
            self.put(value)
        elif offset == self.SSR:
            assert value & 0xC0 == 0xC0, "TDRE and RDRF are not for programs to clear"
            if self.seen and not value & 1 << 5:
                self.stopped = False
        else:
            assert offset != self.RDR, "RDR is not written"
            assert offset == self.SCR or not self.registers[self.SCR] & 0x30, "locked while it sends or receives"
            assert offset != self.SCMR or value == 0xF2, "8 bits, the least first, no smart card"
            assert offset != self.SMR or value & ~3 == 0, "asynchronous, 8 bits, no parity, one stop bit"
            assert offset != self.SCR or value & 0xCF == 0, "no interrupts, the internal clock"
            self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        """64 * 2^(2n-1) clocks, halved by each of BGDM and ABCS."""
        bits = 64 * 2 ** (2 * (self.registers[self.SMR] & 3) - 1)
        for bit in (4, 6):
            bits /= 2 if self.registers[self.SEMR] >> bit & 1 else 1
        assert not self.registers[self.SEMR] & 0x0C, "neither 6 clocks nor a modulated rate"
        return clock_hz / (bits * (self.registers[self.BRR] + 1))


class SciB(SerialLine):
    """Asynchronous, without FIFO. Flags are cleared by ones to CFCLR, RDRF by the program, too; a receiver with an
    overrun stops until ORER is cleared."""

    SPAN = 0x80
    RDR, TDR, CCR0, CCR1, CCR2, CCR3, CCR4, CSR, CFCLR = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x14, 0x18, 0x48, 0x68
    WIDTHS = dict.fromkeys((RDR, TDR, CCR0, CCR1, CCR2, CCR3, CCR4, CSR, CFCLR), 4)

    def __init__(self, inbox: Iterable[int] = (), overrun: int | None = None) -> None:
        super().__init__(inbox, overrun)
        self.registers.update({self.CCR2: 0xFF00FF04, self.CCR3: 0x1203})
        self.full = False  # RDRF

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.RDR:
            assert self.full, "nothing was received"
            return self.inbox[0]
        assert offset == self.CSR, f"0x{offset:02X} is not read"
        self.poll()
        self.full = bool(self.registers[self.CCR0] & 1) and self.has_byte
        idle = self.waiting is None and self.shifting is None
        return self.full << 31 | idle << 30 | (self.waiting is None) << 29 | self.stopped << 24 | 1 << 15

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        enabled = self.registers[self.CCR0] & 0x11
        if offset == self.TDR:
            assert enabled & 0x10, "TE"
            self.put(value & 0x1FF)
        elif offset == self.CFCLR:
            assert not value & ~0x9D070010, "reserved"
            self.stopped &= not value & 1 << 24
            if value >> 31 and self.full:
                self.get()
                self.full = False
        else:
            assert offset not in (self.RDR, self.CSR), f"0x{offset:02X} is not written"
            assert offset == self.CCR0 or not enabled, "locked while it sends or receives"
            assert offset != self.CCR0 or value & ~0x11 == 0, "no interrupts"
            assert offset != self.CCR1 or value & ~0x30 == 0, "no parity, no flow control, nothing inverted"
            assert offset != self.CCR3 or value == 0x1200, "8 bits, the least first, a stop bit, asynchronous, no FIFO"
            assert offset != self.CCR4 or value == 0
            self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        value = self.registers[self.CCR2]
        assert not value >> 16 & 1, "no modulation"
        assert value >> 24 == 0xFF
        bits = 6 if value >> 6 & 1 else 32 >> (value >> 4 & 1) >> (value >> 5 & 1)
        return clock_hz / (bits * 4 ** (value >> 20 & 3) * ((value >> 8 & 0xFF) + 1))


class Lpuart(SerialLine):
    """Without FIFO. A receiver with an overrun stops until OR is written as one."""

    SPAN = 0x30
    GLOBAL, BAUD, STAT, CTRL, DATA = 0x08, 0x10, 0x14, 0x18, 0x1C
    WIDTHS = {GLOBAL: 4, BAUD: 4, STAT: 4, CTRL: 4, DATA: 4}  # noqa: RUF012

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.DATA:
            return self.get()
        assert offset == self.STAT, f"0x{offset:02X} is not read"
        self.poll()
        has_byte = bool(self.registers[self.CTRL] & 1 << 18) and self.has_byte
        idle = self.waiting is None and self.shifting is None
        return (self.waiting is None) << 23 | idle << 22 | has_byte << 21 | self.stopped << 19

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        assert offset == self.GLOBAL or not self.registers[self.GLOBAL], "it is held in reset"
        if offset == self.DATA:
            assert self.registers[self.CTRL] & 1 << 19, "TE"
            self.put(value)
        elif offset == self.STAT:
            assert value == 1 << 19, "OR; other bits invert or turn the line"
            self.stopped = False
        elif offset == self.GLOBAL:
            assert value in (0, 2)
            self.registers = dict.fromkeys(self.WIDTHS, 0)
            self.registers[self.GLOBAL] = value
        else:
            assert offset != self.BAUD or not self.registers[self.CTRL] & 3 << 18, "while it sends or receives"
            self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        value = self.registers[self.BAUD]
        samples, divisor = (value >> 24 & 31) + 1, value & 0x1FFF
        assert samples >= 8, "fewer than 4 are 16; fewer than 8 need both edges"
        assert value & ~(31 << 24 | 0x1FFF) == 0, "one stop bit, no match, no DMA"
        return clock_hz / (samples * divisor)


class Pl011(SerialLine):
    """With FIFOs of one byte, as deep as none. The divisors count from the next write of LCR_H."""

    SPAN = 0x48
    DR, FR, IBRD, FBRD, LCR_H, CR = 0x00, 0x18, 0x24, 0x28, 0x2C, 0x30
    WIDTHS = dict.fromkeys((DR, FR, IBRD, FBRD, LCR_H, CR), 4)

    def __init__(self, inbox: Iterable[int] = (), overrun: int | None = None) -> None:
        super().__init__(inbox, overrun)
        self.divisor = 0

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.DR:
            return self.get()
        assert offset == self.FR, f"0x{offset:02X} is not read"
        self.poll()
        has_byte = self.registers[self.CR] & 0x201 == 0x201 and self.has_byte
        busy = self.waiting is not None or self.shifting is not None
        return busy << 3 | (not has_byte) << 4 | (self.waiting is not None) << 5

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        if offset == self.DR:
            assert self.registers[self.CR] & 0x101 == 0x101, "enabled, and the transmitter"
            self.put(value & 0xFF)
            return
        assert offset != self.FR, "FR is not written"
        assert offset == self.CR or not self.registers[self.CR] & 1, "while it is enabled"
        assert offset != self.LCR_H or value & ~0x10 == 0x60, "8 bits, no parity, one stop bit"
        assert offset != self.FBRD or value < 64
        self.registers[offset] = value
        if offset == self.LCR_H:
            self.divisor = 64 * self.registers[self.IBRD] + self.registers[self.FBRD]

    def baud(self, clock_hz: int) -> float:
        return clock_hz / (16 * self.divisor / 64)


class Cmsdk(SerialLine):
    """One byte in either direction."""

    DATA, STATE, CTRL, BAUDDIV = 0x00, 0x04, 0x08, 0x10
    WIDTHS = dict.fromkeys((DATA, STATE, CTRL, BAUDDIV), 4)

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.DATA:
            return self.get()
        assert offset == self.STATE, f"0x{offset:02X} is not read"
        self.poll()
        has_byte = bool(self.registers[self.CTRL] & 2) and self.has_byte
        return (self.waiting is not None) | has_byte << 1

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        if offset == self.DATA:
            assert self.registers[self.CTRL] & 1, "the transmitter is off"
            assert self.registers[self.BAUDDIV] >= 16
            self.put(value & 0xFF)
            return
        assert offset != self.STATE, "STATE clears overruns, of which there are none"
        assert offset != self.CTRL or value & ~3 == 0, "no interrupts, no test mode"
        self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        return clock_hz / self.registers[self.BAUDDIV]


class Usart(SerialLine):
    """Of STM32 with ISR, TDR and RDR. An overrun stops reception until ORECF is written."""

    SPAN = 0x30
    CR1, BRR, ISR, ICR, RDR, TDR = 0x00, 0x0C, 0x1C, 0x20, 0x24, 0x28
    WIDTHS = dict.fromkeys((CR1, BRR, ISR, ICR, RDR, TDR), 4)
    PARTS = 1  # of a clock, that BRR counts
    LEAST = 16

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.RDR:
            return self.get()
        assert offset == self.ISR, f"0x{offset:02X} is not read"
        self.poll()
        has_byte = self.registers[self.CR1] & 5 == 5 and self.has_byte
        idle = self.waiting is None and self.shifting is None
        return (self.waiting is None) << 7 | idle << 6 | has_byte << 5 | self.stopped << 3

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        if offset == self.TDR:
            assert self.registers[self.CR1] & 9 == 9, "enabled, and the transmitter"
            self.put(value & 0xFF)
        elif offset == self.ICR:
            self.stopped &= not value & 1 << 3
        else:
            assert offset in (self.CR1, self.BRR), f"0x{offset:02X} is not written"
            assert offset != self.BRR or not self.registers[self.CR1] & 1, "while it is enabled"
            assert offset != self.BRR or value >= self.LEAST, "too small"
            assert offset != self.CR1 or value & ~0x0D == 0, "8 bits, 16 samples, no parity, no interrupts"
            self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        return self.PARTS * clock_hz / self.registers[self.BRR]


class StmLpuart(Usart):
    """Its clock is divided by 256ths."""

    PARTS, LEAST = 256, 0x300


class OldUsart(SerialLine):
    """Of STM32F4: one data register; 16 samples of a bit, BRR in 16ths of them."""

    SR, DR, BRR, CR1 = 0x00, 0x04, 0x08, 0x0C
    WIDTHS = dict.fromkeys((SR, DR, BRR, CR1), 4)

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.DR:
            return self.get()
        assert offset == self.SR, f"0x{offset:02X} is not read"
        self.poll()
        has_byte = self.registers[self.CR1] & 0x2004 == 0x2004 and self.has_byte
        idle = self.waiting is None and self.shifting is None
        return (self.waiting is None) << 7 | idle << 6 | has_byte << 5

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        if offset == self.DR:
            assert self.registers[self.CR1] & 0x2008 == 0x2008, "enabled, and the transmitter"
            self.put(value & 0xFF)
            return
        assert offset != self.SR, "SR is not written"
        assert offset != self.BRR or value >= 16
        assert offset != self.CR1 or value & ~0x200C == 0, "8 bits, 16 samples, no parity, no interrupts"
        self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        return clock_hz / (16 * (self.registers[self.BRR] / 16))


class NordicUart(SerialLine):
    """Tasks and events: RXDRDY comes when a byte has moved to RXD, TXDRDY when one has left."""

    SPAN = 0x600
    STARTRX, STARTTX, RXDRDY, TXDRDY = 0x000, 0x008, 0x108, 0x11C
    ENABLE, PSEL_TXD, PSEL_RXD, RXD, TXD, BAUDRATE = 0x500, 0x50C, 0x514, 0x518, 0x51C, 0x524
    WIDTHS = dict.fromkeys((STARTRX, STARTTX, RXDRDY, TXDRDY, ENABLE, PSEL_TXD, PSEL_RXD, RXD, TXD, BAUDRATE), 4)

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.RXD:
            byte = self.get()
            self.registers[self.RXDRDY] = int(self.has_byte)
            return byte
        assert offset in (self.RXDRDY, self.TXDRDY), f"0x{offset:03X} is not read"
        if offset == self.RXDRDY and self.registers[self.STARTRX] and self.has_byte:
            self.registers[self.RXDRDY] = 1
        left = len(self.sent)
        self.poll()
        if len(self.sent) > left:
            self.registers[self.TXDRDY] = 1
        return self.registers[offset]

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        enabled = self.registers[self.ENABLE] == 4
        if offset in (self.RXDRDY, self.TXDRDY):
            assert value == 0, "events are cleared"
        elif offset in (self.STARTRX, self.STARTTX, self.TXD):
            assert enabled
        else:
            assert offset != self.RXD, "RXD is not written"
            assert not enabled, "before it is enabled"
        self.registers[offset] = value
        if offset == self.STARTRX:
            self.registers[self.RXDRDY] = int(self.has_byte)
        if offset == self.TXD:
            assert self.registers[self.STARTTX], "TASKS_STARTTX"
            assert self.shifting is None, "TXD has one place"
            self.put(value & 0xFF)

    def baud(self, clock_hz: int) -> float:
        return self.registers[self.BAUDRATE] * 16e6 / 2**32


class EspUart(SerialLine):
    """With FIFOs of 128 bytes. The boot ROM has said something, which has not left when the firmware begins; a new rate
    would damage it."""

    SPAN = 0x84
    FIFO, CLKDIV, STATUS, CONF0, FSM_STATUS, CLK_CONF = 0x00, 0x14, 0x1C, 0x20, 0x6C, 0x78
    WIDTHS = dict.fromkeys((FIFO, CLKDIV, STATUS, CONF0, FSM_STATUS, CLK_CONF), 4)
    ROOM = 128
    RESETS = 3 << 17  # of the FIFOs

    def __init__(self, inbox: Iterable[int] = (), overrun: int | None = None) -> None:
        super().__init__(inbox, overrun)
        self.queue = deque[int | None]([None] * 5)  # None: of the ROM

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.FIFO:
            return self.get()
        assert offset in (self.STATUS, self.FSM_STATUS), f"0x{offset:02X} is not read"
        self._pass()
        if offset == self.FSM_STATUS:
            return (2 << 4 if self.polls else 0) | 3
        return len(self.queue) << 16 | min(len(self.inbox), self.ROOM) | 0xE000 << 16

    def _pass(self) -> None:
        """A byte is on its way for a number of polls."""
        if self.polls:
            self.polls -= 1
            if self.polls == 0 and self.shifting is not None:
                self.sent.append(self.shifting)
        elif self.queue:
            self.shifting, self.polls = self.queue.popleft(), POLLS

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        if offset == self.FIFO:
            assert self.registers[self.CONF0] == 0x1000001C, "8 bits, one stop bit, no parity, with memory"
            assert len(self.queue) < self.ROOM, "no room"
            self.queue.append(value & 0xFF)
            return
        assert offset in (self.CLKDIV, self.CONF0, self.CLK_CONF), f"0x{offset:02X} is not written"
        assert not self.queue, "bytes are on their way"
        assert not self.polls
        assert offset != self.CLK_CONF or value >> 20 == 0x37, "the crystal, on, for both directions, nothing in reset"
        assert offset != self.CONF0 or value & ~self.RESETS == 0x1000001C
        self.registers[offset] = value

    def baud(self, clock_hz: int) -> float:
        parts = 16 * (self.registers[self.CLKDIV] & 0xFFF) + (self.registers[self.CLKDIV] >> 20 & 15)
        undivided = (self.registers[self.CLK_CONF] >> 12 & 0xFF) + 1
        return clock_hz / undivided / (parts / 16)


class EspUsb(SerialLine):
    """Packets: a byte stays where it is until its packet is full or told to go, and there is no room until the computer
    has it."""

    SPAN = 0x08
    EP1, CONF = 0x00, 0x04
    WIDTHS = {EP1: 4, CONF: 4}  # noqa: RUF012
    MOST = 64

    def __init__(self, inbox: Iterable[int] = (), overrun: int | None = None) -> None:
        super().__init__(inbox, overrun)
        self.packet = bytearray()

    def read(self, offset: int, size: int) -> int:
        self.width(offset, size)
        if offset == self.EP1:
            return self.get()
        if self.polls:
            self.polls -= 1
            if self.polls == 0:
                self.sent += self.packet
                self.packet.clear()
        return (not self.polls) << 1 | bool(self.inbox) << 2

    def write(self, offset: int, size: int, value: int) -> None:
        self.width(offset, size)
        assert not self.polls, "the computer has not taken the packet"
        if offset == self.EP1:
            self.packet.append(value & 0xFF)
        else:
            assert value == 1, "the rest is read only"
        if offset == self.CONF or len(self.packet) == self.MOST:
            self.polls = POLLS


MODELS: dict[str, type[SerialLine]] = {
    "cmsdk": Cmsdk,
    "esp32": EspUart,
    "esp32-usb": EspUsb,
    "imxrt-lpuart": Lpuart,
    "nrf": NordicUart,
    "pl011": Pl011,
    "ra-sci": Sci,
    "ra-sci-b": SciB,
    "sam-sercom": Sercom,
    "stm32f4": OldUsart,
    "stm32l4": Usart,
    "stm32-lpuart": StmLpuart,
}
