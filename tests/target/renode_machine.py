# SPDX-License-Identifier: Apache-2.0
"""The machine that a monitor script made: the firmware on unicorn, with exactly the devices of its platform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from renode_monitor import Monitor

from tinyc.board.instruction_set import RISCV, THUMB
from tinyc.run.trace import instruction_starts
from tinyc.run.unicorn import CPUS
from tinyc.toolchain.disassembly import disassemble
from tinyc.toolchain.elf import read_elf

SYSTICK, DWT_COUNTER = 0xE000E018, 4
MCYCLE, MCYCLEH = 0xB0002073, 0xB8002073  # csrrs rd, csr, x0 without rd
PAGE = 0x1000
NEVER = 0xDFFFFFFE
UDF = b"\x00\xde"
CORES = {"cortex-m0+": "cortex-m0"}  # it refuses what Renode's takes


def undefined(code: bytes) -> bool:
    """Whether Renode's decoder since August 2025 (1.16.1 has it) takes it for undefined, and cores do not: ORR and MOV
    of 32 bits with rm sp or pc."""
    first, second = int.from_bytes(code[:2], "little"), int.from_bytes(code[2:], "little")
    return len(code) == 4 and first & 0xFFE0 == 0xEA40 and second & 0x8000 == 0 and second & 15 in (13, 15)


@dataclass
class Machine:
    """on_write(device, value): what the firmware writes to a console. outside: addresses that are no memory's; Renode
    warns of them, and reads 0. executed: of every block, the addresses of its instructions, if they are kept. `run`
    ends where the firmware does nothing any more: in a loop of one or two instructions."""

    monitor: Monitor
    on_write: Callable[[str, int], None]
    keep_trace: bool = False
    outside: list[int] = field(default_factory=list)
    executed: list[list[int]] = field(default_factory=list)
    instructions: int = 0
    pc: int = 0

    def run(self, limit: int) -> None:
        unicorn = import_module("unicorn")
        arm = self.monitor.is_arm
        engine = self._arm(unicorn) if arm else unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
        self._map(engine)
        self._watch(engine, unicorn, not arm)
        if arm:
            self._run_arm(engine, unicorn, limit)
        else:
            self._run_riscv(engine, unicorn, limit)

    def _arm(self, unicorn: Any) -> Any:
        constants = import_module("unicorn.arm_const")
        assert self.monitor.platform is not None
        core = self.monitor.platform.text("cpu", "cpuType")
        cpu = getattr(constants, CPUS[CORES.get(core, core)])
        return unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB, cpu=cpu)

    def _map(self, engine: Any) -> None:
        platform = self.monitor.platform
        assert platform is not None
        assert self.monitor.elf is not None
        for name, entry in platform.entries.items():
            if entry.type == "Memory.MappedMemory":
                engine.mem_map(entry.address, platform.number(name, "size"))
            elif entry.address is not None:
                engine.mem_map(entry.address // PAGE * PAGE, max(PAGE, platform.size(name)))
        for segment in read_elf(self.monitor.elf).segments:
            engine.mem_write(segment.load, segment.data)
        for path, address in self.monitor.loads:
            engine.mem_write(address, path.read_bytes())
        if self.monitor.is_arm:
            for instruction in disassemble(read_elf(self.monitor.elf)).values():
                if undefined(instruction.code):
                    engine.mem_write(instruction.address, UDF)

    def _watch(self, engine: Any, unicorn: Any, riscv: bool) -> None:
        platform = self.monitor.platform
        assert platform is not None
        consoles = {e.address: name for name, e in platform.entries.items() if e.type == "UART.TrivialUart"}
        shapes: dict[tuple[int, int], list[int]] = {}
        widths = (RISCV if riscv else THUMB).widths
        before = -1

        def on_block(uc: Any, address: int, size: int, data: Any) -> None:
            nonlocal before
            starts = shapes.get((address, size))
            if starts is None:
                starts = [address + at for at in instruction_starts(bytes(engine.mem_read(address, size)), widths)]
                shapes[address, size] = starts
            self.instructions += len(starts)
            if self.keep_trace:
                self.executed.append(starts)
            if address == before and len(starts) <= 2:
                engine.emu_stop()
            before = address

        def on_read(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
            ticks = 0xFFFFFF - self.instructions % 0xFFFFFF if address == SYSTICK else self.instructions
            engine.mem_write(address, (ticks & 0xFFFFFFFF).to_bytes(4, "little"))

        def on_write(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
            assert size == 4, "a console takes words"
            self.on_write(consoles[address], value)

        def on_unmapped(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> bool:
            self.outside.append(address)
            engine.mem_map(address // PAGE * PAGE, PAGE)
            return True

        engine.hook_add(unicorn.UC_HOOK_BLOCK, on_block)
        for console in consoles:
            engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, on_write, begin=console, end=console + PAGE - 1)
        engine.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED, on_unmapped)
        if riscv:
            self._watch_cycles(engine, unicorn)
        else:
            for register in (platform.address("dwt") + DWT_COUNTER, SYSTICK):
                engine.hook_add(unicorn.UC_HOOK_MEM_READ, on_read, begin=register, end=register + 3)

    def _watch_cycles(self, engine: Any, unicorn: Any) -> None:
        """The cycle counter of machine mode counts instructions."""
        constants = import_module("unicorn.riscv_const")
        assert self.monitor.elf is not None
        elf = read_elf(self.monitor.elf)

        def on_csr(uc: Any, address: int, size: int, shift: int) -> None:
            word = int.from_bytes(engine.mem_read(address, 4), "little")
            register = constants.UC_RISCV_REG_X0 + (word >> 7 & 31)
            engine.reg_write(register, self.instructions >> shift & 0xFFFFFFFF)
            engine.reg_write(constants.UC_RISCV_REG_PC, address + 4)

        for section in elf.sections:
            if not section.executable or section.size == 0:
                continue
            code = elf.read(section.address, section.size)
            for at in instruction_starts(code, RISCV.widths):
                shift = {MCYCLE: 0, MCYCLEH: 32}.get(int.from_bytes(code[at : at + 4], "little") & ~0xF80)
                place = section.address + at
                if shift is not None:
                    engine.hook_add(unicorn.UC_HOOK_CODE, on_csr, shift, begin=place, end=place)

    def _run_arm(self, engine: Any, unicorn: Any, limit: int) -> None:
        arm = import_module("unicorn.arm_const")
        engine.reg_write(arm.UC_ARM_REG_SP, self._vector(engine, 0))
        try:
            engine.emu_start(self._vector(engine, 1) | 1, NEVER, count=limit)
        except unicorn.UcError:
            self._enter_fault_handler(engine, arm)
            engine.emu_start(engine.reg_read(arm.UC_ARM_REG_PC) | 1, NEVER, count=limit)
        self.pc = engine.reg_read(arm.UC_ARM_REG_PC)

    def _run_riscv(self, engine: Any, unicorn: Any, limit: int) -> None:
        """Execution begins at the ELF file's entry."""
        riscv = import_module("unicorn.riscv_const")
        assert self.monitor.elf is not None
        entry = read_elf(self.monitor.elf).symbol("Reset_Handler").address
        try:
            engine.emu_start(entry, NEVER, count=limit)
        except unicorn.UcError as error:
            if error.errno != unicorn.UC_ERR_INSN_INVALID:  # what unicorn makes of an ebreak
                raise
            engine.reg_write(riscv.UC_RISCV_REG_MEPC, engine.reg_read(riscv.UC_RISCV_REG_PC))
            engine.reg_write(riscv.UC_RISCV_REG_MCAUSE, 3)
            engine.emu_start(engine.reg_read(riscv.UC_RISCV_REG_MTVEC), NEVER, count=limit)
        self.pc = engine.reg_read(riscv.UC_RISCV_REG_PC)

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
        assert self.monitor.vectors is not None
        return int.from_bytes(engine.mem_read(self.monitor.vectors + 4 * number, 4), "little")
