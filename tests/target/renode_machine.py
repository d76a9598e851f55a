"""What a Renode platform of tinyc's is: the firmware on unicorn, with exactly the devices of board.repl made here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from renode_text import Platform

from tinyc.build.elf import read_elf
from tinyc.run.trace import instruction_starts
from tinyc.run.unicorn import CPUS

SYSTICK, DWT_COUNTER = 0xE000E018, 4
PAGE = 0x1000
NEVER = 0xDFFFFFFE


@dataclass
class Machine:
    """on_write(device, value): what the firmware writes to a console; False ends the run. outside: addresses that are
    no memory's; Renode warns of them, and reads 0. executed: of every block, the addresses of its instructions."""

    elf: Path
    cpu: str
    platform: Platform
    on_write: Callable[[str, int], bool]
    requests: bytes = b""
    keep_trace: bool = False
    outside: list[int] = field(default_factory=list)
    executed: list[int] = field(default_factory=list)
    pc: int = 0

    def run(self, limit: int) -> None:
        unicorn = pytest.importorskip("unicorn", reason="unicorn is not installed: pip install unicorn")
        arm = pytest.importorskip("unicorn.arm_const")
        engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, cpu=getattr(arm, CPUS[self.cpu]))
        self._map(engine)
        consoles = {e.address: name for name, e in self.platform.entries.items() if e.type == "UART.TrivialUart"}
        counter = self.platform.address("dwt") + DWT_COUNTER
        count = 0
        shapes: dict[int, list[int]] = {}

        def on_block(uc: Any, address: int, size: int, data: Any) -> None:
            nonlocal count
            starts = shapes.get(address)
            if starts is None or len(starts) != size:
                offsets = instruction_starts(bytes(engine.mem_read(address, size)))
                starts = [address + offset for offset in offsets]
            count += len(starts)
            if self.keep_trace:
                self.executed += starts

        def on_read(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
            ticks = count if address == counter else 0xFFFFFF - count % 0xFFFFFF
            engine.mem_write(address, ticks.to_bytes(4, "little"))

        def on_write(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
            assert size == 4, "a console takes words"
            if not self.on_write(consoles[address], value):
                engine.emu_stop()

        def on_unmapped(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> bool:
            self.outside.append(address)
            engine.mem_map(address // PAGE * PAGE, PAGE)
            return True

        engine.hook_add(unicorn.UC_HOOK_BLOCK, on_block)
        for register in (counter, SYSTICK):
            engine.hook_add(unicorn.UC_HOOK_MEM_READ, on_read, begin=register, end=register + 3)
        for console in consoles:
            engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, on_write, begin=console, end=console + PAGE - 1)
        engine.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED, on_unmapped)
        engine.reg_write(arm.UC_ARM_REG_SP, self._vector(engine, 0))
        try:
            engine.emu_start(self._vector(engine, 1) | 1, NEVER, count=limit)
        except unicorn.UcError:
            self._enter_fault_handler(engine, arm)
            engine.emu_start(engine.reg_read(arm.UC_ARM_REG_PC) | 1, NEVER, count=limit)
        self.pc = engine.reg_read(arm.UC_ARM_REG_PC)

    def _map(self, engine: Any) -> None:
        for name, entry in self.platform.entries.items():
            assert entry.address is not None or name == "cpu"
            if entry.type == "Memory.MappedMemory":
                engine.mem_map(entry.address, self.platform.number(name, "size"))
            elif entry.address is not None:
                engine.mem_map(entry.address // PAGE * PAGE, PAGE)
        for segment in read_elf(self.elf).segments:
            engine.mem_write(segment.load, segment.data)
        if self.requests:
            engine.mem_write(self.platform.address("requests"), self.requests)

    def _enter_fault_handler(self, engine: Any, arm: Any) -> None:
        """What the core does: registers to the stack, then the handler."""
        names = ("R0", "R1", "R2", "R3", "R12", "LR", "PC", "XPSR")
        saved = [engine.reg_read(getattr(arm, f"UC_ARM_REG_{name}")) for name in names]
        stack = engine.reg_read(arm.UC_ARM_REG_SP) - 4 * len(saved)
        engine.mem_write(stack, b"".join(word.to_bytes(4, "little") for word in saved))
        engine.reg_write(arm.UC_ARM_REG_SP, stack)
        engine.reg_write(arm.UC_ARM_REG_LR, 0xFFFFFFF9)
        engine.reg_write(arm.UC_ARM_REG_PC, self._vector(engine, 3) | 1)

    def _vector(self, engine: Any, number: int) -> int:
        table = read_elf(self.elf).symbol("tc_vector_table").address
        return int.from_bytes(engine.mem_read(table + 4 * number, 4), "little")
