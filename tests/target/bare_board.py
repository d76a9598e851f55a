# SPDX-License-Identifier: Apache-2.0
"""A bare core with a board's memories and the model of its UART, the firmware in its flash. Other registers hold what
is written, and have the value that is waited for when a step of the set-up waits. RISC-V: bare_riscv.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bare_riscv import BareRiscv
from uart_models import MODELS, SerialLine
from uarte import LAYOUTS, Uarte

from tinyc.board import Board
from tinyc.run.unicorn import CPUS
from tinyc.toolchain.elf import Elf

PAGE = 0x1000
SYSTEM = 0xE000E000  # registers of a Cortex-M
LEFT = b"\x5a"  # bytes of registers as something else left them
MPU_TYPE, MPU_CTRL = 0xE000ED90, 0xE000ED94
AIRCR = 0xE000ED0C
IMXRT_GPR = 0x400AC000  # IOMUXC_GPR, which the first steps of an i.MX RT write


def factory_pairs(board: Board) -> list[tuple[int, int]]:
    """What the factory has written to be copied: to registers of the UART's page that nothing else uses."""
    assert board.uart is not None
    page = board.uart.base // PAGE * PAGE
    return [(page + 0xF00, 0x12345678), (page + 0xF04, 0x9ABCDEF0)]


class BareArm:
    """A core without a DWT: an access to it faults."""

    def __init__(self, board: Board, elf: Elf) -> None:
        import unicorn  # noqa: PLC0415
        from unicorn import arm_const  # noqa: PLC0415

        assert board.memory is not None
        assert board.unicorn is not None
        self.board, self.elf, self.const = board, elf, arm_const
        cpu = getattr(arm_const, CPUS[board.unicorn.cpu])
        self.engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, cpu=cpu)
        self.engine.mem_map(board.memory.flash_origin, board.memory.flash_bytes)
        self.engine.mem_map(board.memory.ram_origin, board.memory.ram_bytes)
        for other in (board.memory.code, board.memory.slow):
            if other is not None:
                self.engine.mem_map(other.origin, other.bytes)
        for segment in elf.segments:
            self.engine.mem_write(segment.load, segment.data)
        self.engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, lambda *_: self.engine.emu_stop(), begin=AIRCR, end=AIRCR)

    @property
    def starts_again(self) -> bool:
        return self._word(AIRCR) == 0x05FA0004

    def start(self, most: int) -> None:
        imxrt = self.board.boot2 == "imxrt1060"
        vectors = imxrt_vectors(self.board, self.engine) if imxrt else self.elf.symbol("tc_vector_table").address
        self.engine.reg_write(self.const.UC_ARM_REG_SP, self._word(vectors))
        self.engine.emu_start(self._word(vectors + 4) | 1, 0xDFFFFFFE, count=most)

    def _word(self, address: int) -> int:
        return int.from_bytes(self.engine.mem_read(address, 4), "little")


def imxrt_vectors(board: Board, engine: Any) -> int:
    """As the boot ROM of an i.MX RT reads the flash: the vector table that it starts by. IMXRT1060RM, 9.6.3 and 9.7."""
    assert board.memory is not None
    origin = board.memory.flash_origin

    def words(address: int, count: int) -> list[int]:
        return [int.from_bytes(engine.mem_read(address + 4 * i, 4), "little") for i in range(count)]

    assert words(origin, 1) == [0x42464346], "FCFB, a configuration of FlexSPI"
    header, entry, _, dcd, image, itself, csf, _ = words(origin + 0x1000, 8)
    assert header & 0xF0FFFFFF == 0x402000D1 & 0xF0FFFFFF, "an image vector table of 32 bytes"
    assert (itself, dcd, csf) == (origin + 0x1000, 0, 0), "where it says, no commands, no signature"
    assert words(image, 3) == [origin, 8 << 20, 0]
    return entry


def unit_of(board: Board, engine: Any, requests: bytes, overrun: int | None) -> Uarte | SerialLine:
    """The model of the board's UART."""
    assert board.memory is not None
    assert board.uart is not None
    if board.uart.kind in LAYOUTS:
        ram = range(board.memory.ram_origin, board.memory.ram_origin + board.memory.ram_bytes)
        return Uarte(
            board.uart.kind, ram, lambda at, size: bytes(engine.mem_read(at, size)), engine.mem_write, requests
        )
    return MODELS[board.uart.kind](requests, overrun)


class BareBoard:
    """requests: what has come over the line. written: accesses to registers, address and value. overrun: of the UART's
    model."""

    def __init__(self, board: Board, elf: Elf, requests: bytes = b"", overrun: int | None = None) -> None:
        assert board.uart is not None
        self.board, self.elf = board, elf
        addresses = {board.uart.base, *(step.address for step in board.setup if step.op != "pause")}
        self.pages = {address // PAGE * PAGE for address in addresses}
        self.pages |= {IMXRT_GPR} if board.boot2 == "imxrt1060" else set()
        self.core = BareRiscv(board, elf) if board.startup == "riscv" else BareArm(board, elf)
        self.engine = self.core.engine
        for page in self.pages | ({SYSTEM} if board.startup == "cortex-m" else set()):
            self.engine.mem_map(page, PAGE)
        self.unit = unit_of(board, self.engine, requests, overrun)
        self.modelled = range(board.uart.base, board.uart.base + self.unit.SPAN)
        self.steps = [step for step in board.setup if step.op not in ("pairs", "pause")]  # that are still to come
        self.widths = {step.address: step.width for step in self.steps}
        self.written: list[tuple[int, int]] = []
        self._factory()

    def _factory(self) -> None:
        """Registers and what the factory wrote, before the first instruction."""
        for page in self.pages:
            self.engine.mem_write(page, LEFT * PAGE)
        if self.board.startup == "cortex-m":
            self.engine.mem_write(MPU_TYPE, (8 << 8).to_bytes(4, "little"))  # eight regions
        for step in self.board.setup:
            if step.op == "pairs":
                words = [*(word for pair in factory_pairs(self.board) for word in pair), 0xFFFFFFFF]
                self.engine.mem_write(step.address, b"".join(word.to_bytes(4, "little") for word in words))

    def run(self, take: Callable[[bytearray], None], most: int = 5_000_000) -> None:
        """From the reset until `take`, which gets all bytes that have left and clears them, stops the engine, or the
        program asks for a restart; at most so many instructions, 0: without a limit."""
        import unicorn  # noqa: PLC0415

        def on_read(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
            self._read(address, size)
            take(self.unit.sent)

        hooks, engine = (unicorn.UC_HOOK_MEM_READ, unicorn.UC_HOOK_MEM_WRITE), self.engine
        for page in self.pages:
            engine.hook_add(hooks[0], on_read, begin=page, end=page + PAGE - 1)
            engine.hook_add(hooks[1], self._on_write, begin=page, end=page + PAGE - 1)
        engine.hook_add(hooks[1], self._on_write, begin=MPU_CTRL, end=MPU_CTRL)
        self.core.start(most)

    def word(self, address: int) -> int:
        return int.from_bytes(self.engine.mem_read(address, 4), "little")

    def _read(self, address: int, size: int) -> None:
        engine = self.engine
        if address in self.modelled:
            engine.mem_write(address, self.unit.read(address - self.modelled.start, size).to_bytes(size, "little"))
        elif self.steps and self.steps[0].op == "wait" and self.steps[0].address == address:
            step = self.steps.pop(0)
            assert size == step.width, "the register's width"
            value = int.from_bytes(engine.mem_read(address, size), "little")
            engine.mem_write(address, (value & ~step.bits & (1 << 8 * size) - 1 | step.value).to_bytes(size, "little"))

    def _on_write(self, uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        value &= (1 << 8 * size) - 1
        self.written.append((address, value))
        if address in self.modelled:
            self.unit.write(address - self.modelled.start, size, value)
        else:
            assert size == self.widths.get(address, 4), "the register's width"
        if self.steps and self.steps[0].op != "wait" and self.steps[0].address == address:
            self.steps.pop(0)
