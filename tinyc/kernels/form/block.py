# SPDX-License-Identifier: Apache-2.0
"""Copies of the columns at the border of an image, with the padding filled in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tinyc.base.dataclass import dataclass
from tinyc.kernels.form.function import twin
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Work, naked_function

_UNROLLED = 64  # bytes of a row that are copied without a loop
_ROUND = 16  # bytes per turn of the loop
_PARAMETERS = ("const int8_t *const *x", "const int8_t **rows", "int8_t *to")
_TEMPS = ("r4", "r5", "r12", "r14")


@dataclass(frozen=True, slots=True)
class RowBlock:
    """Columns [first, last) of k_h image rows [in_w][in_c]; what lies outside is x_zero."""

    first: int
    last: int
    in_w: int
    in_c: int
    x_zero: int
    k_h: int
    core: Core

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


class BlockFunction(NamedTuple):
    """C text of a function in assembly and of its twin, and what a call executes."""

    fast: str
    twin: str
    work: Work


def block_function(name: str, block: RowBlock) -> BlockFunction:
    """The function `name(x, rows, to)`.

    x: k_h row pointers. to: k_h * row_bytes, word aligned. rows: k_h pointers out, to the rows of the block.
    """
    asm = Asm(block.core)
    asm.save("{r4-r8, lr}")
    zero = block.x_zero & 0xFF
    asm.constant("r7", zero * 0x01010101)
    asm.add("r6", "r1", 4 * block.k_h)
    with asm.loop("row", block.k_h):
        asm.op("ldr", "r3", "[r0], #4")
        asm.op("str", "r2", "[r1], #4")
        asm.note("padding, the columns of the image, padding")
        _fill(asm, block.left, "left")
        asm.add("r3", "r3", block.begin, "r4")
        _copy(asm, block)
        _fill(asm, block.right, "right")
        used = block.left + block.copied + block.right
        asm.add("r2", "r2", block.row_bytes - used)
        asm.until_equal("r1", "r6", "row")
    asm.restore()
    numbers = (block.k_h, block.x_zero, block.left, block.begin, block.copied, block.right)
    calls = f"tc_stream_block(x, rows, to, {', '.join(map(str, numbers))});"
    return BlockFunction(naked_function(name, _PARAMETERS, asm), twin(name, _PARAMETERS, calls), asm.work())


def _fill(asm: Asm, count: int, label: str) -> None:
    """`count` bytes of r7 to r2 on."""
    turns = count // _ROUND if count > _UNROLLED else 0

    def sixteen() -> None:
        for _ in range(4):
            asm.op("str", "r7", "[r2], #4")

    _loop(asm, turns, "r2", label, sixteen)
    rest = count - turns * _ROUND
    for store, size in (("str", 4), ("strh", 2), ("strb", 1)):
        for _ in range(rest // size):
            asm.op(store, "r7", f"[r2], #{size}")
        rest %= size


def _copy(asm: Asm, block: RowBlock) -> None:
    """Bytes of r3 on to r2 on."""

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
    _loop(asm, turns, "r3", "copy", sixteen)
    rest = block.copied - turns * _ROUND
    for _ in range(rest // _ROUND):
        sixteen()
    rest %= _ROUND
    for suffix, size in (("", 4), ("h", 2), ("b", 1)):
        for _ in range(rest // size):
            asm.op(f"ldr{suffix}", "r4", f"[r3], #{size}")
            asm.op(f"str{suffix}", "r4", f"[r2], #{size}")
        rest %= size


def _loop(asm: Asm, turns: int, pointer: str, label: str, body: Callable[[], None]) -> None:
    """`turns` times the body, which moves `pointer` by 16 bytes; nothing for 0."""
    if turns == 0:
        return
    asm.add("r8", pointer, turns * _ROUND)
    with asm.loop(label, turns):
        body()
        asm.until_equal(pointer, "r8", label)
