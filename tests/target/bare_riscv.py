# SPDX-License-Identifier: Apache-2.0
"""A bare RISC-V core with a board's memories, as its boot ROM starts firmware. unicorn's core lacks bit manipulation
and what vendors add: these instructions are carried out here, from the specification (Bitmanip 1.0) and the manuals of
ESP32-C3 and RP2350."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinyc.board import Board
from tinyc.toolchain.elf import Elf

M32 = 0xFFFFFFFF
ILLEGAL = 2
MCOUNTINHIBIT, EVENT, CONTROL, COUNT = 0x320, 0x7E0, 0x7E1, 0x7E2
VENDOR = {"esp32-c3": {EVENT, CONTROL, COUNT}, "esp32-c6": {EVENT, CONTROL, COUNT}, "hazard3": {MCOUNTINHIBIT}}
DIRECT_BOOT = 0xAEDB041D
BLOCK, BLOCK_END, IMAGE_TYPE = 0xFFFFDED3, 0xAB123579, 0x42
RISCV_PROGRAM = 0x1101  # for an RP2350


def signed(value: int) -> int:
    return (value & M32 ^ 1 << 31) - (1 << 31)


def rotated(value: int, by: int) -> int:
    by &= 31
    return (value << by | value >> (32 - by)) & M32 if by else value


Binary = Callable[[int, int], int]
BINARY: dict[tuple[int, int], Binary] = {  # funct7, funct3
    (0x10, 2): lambda a, b: (a << 1) + b,
    (0x10, 4): lambda a, b: (a << 2) + b,
    (0x10, 6): lambda a, b: (a << 3) + b,
    (0x20, 7): lambda a, b: a & ~b,
    (0x20, 6): lambda a, b: a | ~b,
    (0x20, 4): lambda a, b: ~(a ^ b),
    (0x05, 4): lambda a, b: min(a, b, key=signed),
    (0x05, 5): min,
    (0x05, 6): lambda a, b: max(a, b, key=signed),
    (0x05, 7): max,
    (0x30, 1): rotated,
    (0x30, 5): lambda a, b: rotated(a, -b),
    (0x14, 1): lambda a, b: a | 1 << (b & 31),
    (0x24, 1): lambda a, b: a & ~(1 << (b & 31)),
    (0x34, 1): lambda a, b: a ^ 1 << (b & 31),
    (0x24, 5): lambda a, b: a >> (b & 31) & 1,
}
UNARY: dict[int, Callable[[int], int]] = {  # the upper 12 bits and funct3
    0x600 << 3 | 1: lambda a: 32 - a.bit_length(),
    0x601 << 3 | 1: lambda a: (a & -a).bit_length() - 1 if a else 32,
    0x602 << 3 | 1: int.bit_count,
    0x604 << 3 | 1: lambda a: (a & 0xFF ^ 0x80) - 0x80,
    0x605 << 3 | 1: lambda a: (a & 0xFFFF ^ 0x8000) - 0x8000,
    0x698 << 3 | 5: lambda a: int.from_bytes(a.to_bytes(4, "little"), "big"),
    0x287 << 3 | 5: lambda a: sum(0xFF << at for at in range(0, 32, 8) if a >> at & 0xFF),
}


class BareRiscv:
    """csrs: what was written to those of the vendor. The counter of Espressif's cores is about to begin again."""

    def __init__(self, board: Board, elf: Elf) -> None:
        import unicorn  # noqa: PLC0415
        from unicorn import riscv_const  # noqa: PLC0415

        assert board.memory is not None
        self.board, self.elf, self.const = board, elf, riscv_const
        self.engine = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
        self.csrs: dict[int, int] = {}
        self.count = M32 - 50_000
        self.starts = 0
        memory = board.memory
        origins = [memory.flash_origin, *([memory.constants_origin] if memory.constants_origin else [])]
        self.engine.mem_map(memory.ram_origin, memory.ram_bytes)
        for origin in origins:
            self.engine.mem_map(origin, memory.flash_bytes)
            for segment in elf.segments:
                self.engine.mem_write(segment.load - memory.flash_origin + origin, segment.data)
        if memory.constants_origin:
            end = memory.flash_origin + memory.flash_bytes - 1
            self.engine.hook_add(unicorn.UC_HOOK_MEM_READ, self._whole_words, begin=memory.flash_origin, end=end)
        self.engine.hook_add(unicorn.UC_HOOK_INTR, self._on_trap)
        reset = elf.symbol("Reset_Handler").address
        self.engine.hook_add(unicorn.UC_HOOK_CODE, self._on_reset, begin=reset, end=reset)

    @property
    def starts_again(self) -> bool:
        return self.starts == 2

    def start(self, most: int) -> None:
        self.engine.emu_start(self._entry(), 0xDFFFFFFE, count=most)

    def _entry(self) -> int:
        """As the boot ROM finds it."""
        assert self.board.memory is not None
        origin = self.board.memory.flash_origin
        if self.board.boot2 == "esp32":
            assert [self._word(origin), self._word(origin + 4)] == 2 * [DIRECT_BOOT]
            return origin + 8
        at = next(at for at in range(origin, origin + 4096, 4) if self._word(at) == BLOCK)
        items = [self._word(at + 4 * i) for i in range(1, 5)]
        assert items == [RISCV_PROGRAM << 16 | 1 << 8 | IMAGE_TYPE, 1 << 8 | 0xFF, 0, BLOCK_END]
        return origin

    def _word(self, address: int) -> int:
        return int.from_bytes(self.engine.mem_read(address, 4), "little")

    def _on_reset(self, *_: Any) -> None:
        self.starts += 1
        if self.starts_again:
            self.engine.emu_stop()

    @staticmethod
    def _whole_words(uc: Any, access: int, address: int, size: int, value: int, data: Any) -> None:
        assert size == 4, "the bus for code reads whole words alone"
        assert address % 4 == 0

    def _on_trap(self, uc: Any, number: int, data: Any) -> None:
        after = uc.reg_read(self.const.UC_RISCV_REG_PC)
        assert number == ILLEGAL, f"exception {number} before 0x{after:08x}"
        word = self._word(after - 4)
        assert self._carried_out(word), f"no such instruction at 0x{after - 4:08x}: 0x{word:08x}"

    def _carried_out(self, word: int) -> bool:
        a, b = self._register(word >> 15 & 31), self._register(word >> 20 & 31)
        kind, funct3, upper = word & 0x7F, word >> 12 & 7, word >> 20
        if kind == 0x73:
            return self._access(upper, funct3, word)
        if not self.board.isa & {"rv32b"}:
            return False
        if kind == 0x33 and (word >> 25, funct3) in BINARY:
            result = BINARY[word >> 25, funct3](a, b)
        elif kind == 0x33 and (word >> 25, funct3, upper & 31) == (4, 4, 0):
            result = a & 0xFFFF
        elif kind == 0x13 and upper << 3 | funct3 in UNARY:
            result = UNARY[upper << 3 | funct3](a)
        elif kind == 0x13 and (word >> 25, funct3) in BINARY:
            result = BINARY[word >> 25, funct3](a, upper & 31)
        else:
            return False
        self._set(word >> 7 & 31, result)
        return True

    def _access(self, csr: int, funct3: int, word: int) -> bool:
        """csrrw, and csrrs that only reads."""
        if csr not in VENDOR[self.board.core]:
            return False
        if funct3 == 1:
            self.csrs[csr] = self._register(word >> 15 & 31)
            return word >> 7 & 31 == 0
        assert (csr, funct3, word >> 15 & 31) == (COUNT, 2, 0)
        assert (self.csrs[EVENT], self.csrs[CONTROL]) == (1, 1), "it counts cycles"
        self.count = self.count + 300 & M32
        self._set(word >> 7 & 31, self.count)
        return True

    def _register(self, number: int) -> int:
        return int(self.engine.reg_read(self.const.UC_RISCV_REG_X0 + number)) & M32

    def _set(self, number: int, value: int) -> None:
        if number:
            self.engine.reg_write(self.const.UC_RISCV_REG_X0 + number, value & M32)
