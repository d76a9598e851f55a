# SPDX-License-Identifier: Apache-2.0
"""Copies of the columns at the border of an image, with the padding filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tinyc.machine.thumb import Asm, Work, naked_function

_UNROLLED = 64  # bytes of a row that are copied without a loop
_ROUND = 16  # bytes per turn of the loop
_TEMPS = ("r4", "r5", "r12", "r14")


@dataclass(frozen=True, slots=True)
class Block:
    """Columns [first, last) of k_h image rows [in_w][in_c]; what lies outside is x_zero."""

    first: int
    last: int
    in_w: int
    in_c: int
    x_zero: int
    k_h: int

    @property
    def left(self) -> int:
        """Bytes before the image, at most the whole row."""
        return max(0, min(0, self.last) - self.first) * self.in_c

    @property
    def begin(self) -> int:
        """First byte of the image that is copied."""
        return max(self.first, 0) * self.in_c

    @property
    def copied(self) -> int:
        """Bytes of the image."""
        return max(0, min(self.last, self.in_w) - max(self.first, 0)) * self.in_c

    @property
    def right(self) -> int:
        """Bytes behind the image."""
        return (self.last - self.first) * self.in_c - self.left - self.copied

    @property
    def row_bytes(self) -> int:
        """Bytes from row to row of the block, a multiple of 4."""
        return -(-(self.last - self.first) * self.in_c // 4) * 4

    @property
    def aligned(self) -> bool:
        """Whether rows and pieces are whole words."""
        return self.in_c % 4 == 0


def block_function(name: str, block: Block) -> tuple[str, Work]:
    """The naked function `name(x, rows, to)` and the instructions it executes.

    x: k_h row pointers. to: k_h * row_bytes, word aligned. rows: k_h pointers out, to the rows of the block.
    """
    asm = Asm()
    asm.op("push", "{r4-r8, lr}")
    zero = block.x_zero & 0xFF
    asm.constant("r7", zero * 0x01010101)
    asm.add("r6", "r1", 4 * block.k_h)
    around = asm.size
    asm.label("row", aligned=True)
    start = asm.size
    asm.op("ldr", "r3", "[r0], #4")
    asm.op("str", "r2", "[r1], #4")
    executed = asm.size - start + _fill(asm, block.left, "left")
    start = asm.size
    asm.add("r3", "r3", block.begin, "r4")
    executed += asm.size - start + _copy(asm, block)
    executed += _fill(asm, block.right, "right")
    start = asm.size
    used = block.left + block.copied + block.right
    asm.add("r2", "r2", block.row_bytes - used)
    asm.op("cmp", "r1", "r6")
    asm.branch("bne.w", "row")
    executed += asm.size - start
    asm.op("pop", "{r4-r8, pc}")
    parameters = ("const int8_t *const *x", "const int8_t **rows", "int8_t *to")
    return naked_function(name, parameters, asm), around + block.k_h * executed + 1


def _fill(asm: Asm, count: int, label: str) -> Work:
    """`count` bytes of r7 to r2 on. Executed instructions."""
    turns = count // _ROUND if count > _UNROLLED else 0

    def sixteen() -> None:
        for _ in range(4):
            asm.op("str", "r7", "[r2], #4")

    executed = _loop(asm, turns, "r2", label, sixteen)
    start = asm.size
    rest = count - turns * _ROUND
    for store, size in (("str", 4), ("strh", 2), ("strb", 1)):
        for _ in range(rest // size):
            asm.op(store, "r7", f"[r2], #{size}")
        rest %= size
    return executed + asm.size - start


def _copy(asm: Asm, block: Block) -> Work:
    """Bytes of r3 on to r2 on. Executed instructions."""

    def sixteen() -> None:
        registers = "{" + ", ".join(_TEMPS) + "}"
        if block.aligned:
            asm.op("ldm", "r3!", registers)
            asm.op("stm", "r2!", registers)
            return
        for register in _TEMPS:
            asm.op("ldr", register, "[r3], #4")
        for register in _TEMPS:
            asm.op("str", register, "[r2], #4")

    turns = block.copied // _ROUND if block.copied > _UNROLLED else 0
    executed = _loop(asm, turns, "r3", "copy", sixteen)
    rest = block.copied - turns * _ROUND
    start = asm.size
    for _ in range(rest // _ROUND):
        sixteen()
    rest %= _ROUND
    for suffix, size in (("", 4), ("h", 2), ("b", 1)):
        for _ in range(rest // size):
            asm.op(f"ldr{suffix}", "r4", f"[r3], #{size}")
            asm.op(f"str{suffix}", "r4", f"[r2], #{size}")
        rest %= size
    return executed + asm.size - start


def _loop(asm: Asm, turns: int, pointer: str, label: str, body: Callable[[], None]) -> Work:
    """`turns` times the body, which moves `pointer` by 16 bytes; nothing for 0. Executed instructions."""
    if turns == 0:
        return Work()
    start = asm.size
    asm.add("r8", pointer, turns * _ROUND)
    executed = asm.size - start
    asm.label(label, aligned=True)
    start = asm.size
    body()
    asm.op("cmp", pointer, "r8")
    asm.branch("bne.w", label)
    return executed + turns * (asm.size - start)


def block_twin(name: str, block: Block) -> str:
    """The same in C."""
    numbers = (block.k_h, block.x_zero, block.left, block.begin, block.copied, block.right)
    return f"""static void {name}(const int8_t *const *x, const int8_t **rows, int8_t *to)
{{
    tc_stream_block(x, rows, to, {", ".join(map(str, numbers))});
}}
"""
