# SPDX-License-Identifier: Apache-2.0
"""How a call goes along an output row: where it is cut, and what each piece reads.

Pixels whose windows lie inside the image read it directly; those at the left and right border read a block, a copy of
their columns with the padding filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Rows, writing
from tinyc.kernel.site import Padding, Pair
from tinyc.kernel.windows import Window
from tinyc.kernels.form.function import twin
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Naked, Work

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
    """A function in assembly, the name of it and its twin, what that calls, and what a call executes."""

    function: Naked
    name: str
    calls: str
    work: Work

    @property
    def twin(self) -> str:
        """C text for cores without the instructions."""
        return twin(self.name, _PARAMETERS, self.calls)


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
    asm.reorder()
    return BlockFunction(Naked(name, _PARAMETERS, asm), name, calls, asm.work())


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


POINT = Window(Pair(1, 1), Pair(1, 1), Padding(0, 0, 0, 0), Pair(1, 1))

_WHOLE_ROW_BYTES = 512  # a row that is copied whole is not longer
_PIECE_COST = 40  # instructions of one more piece


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Pixels [start, stop) of a row. block: they read a copy of their columns; None: the image."""

    start: int
    stop: int
    block: RowBlock | None

    @property
    def pixels(self) -> int:
        return self.stop - self.start

    def place(self, pointer: str, step: int) -> str:
        """Where the piece begins in what has `step` for each pixel, in C."""
        return f"{pointer} + {self.start * step}" if self.start else pointer


@dataclass(frozen=True)
class RowWalk:
    """The pieces of a row. k_h: rows of a window. pixel_bytes: from window to window. pad_bytes: the left padding, as
    bytes of a row."""

    pieces: tuple[RowPiece, ...]
    k_h: int
    pixel_bytes: int
    pad_bytes: int = 0

    @property
    def is_direct(self) -> bool:
        """Whether all pixels read the image: then the number of pixels is an argument."""
        return self.pieces[0].block is None and len(self.pieces) == 1

    @cached_property
    def blocks(self) -> Sequence[BlockFunction]:
        """The functions that copy columns."""
        return [writing(block_function, _copies(piece), piece.block) for piece in self.pieces if piece.block]

    @property
    def block_bytes(self) -> int:
        """Scratch for the largest block."""
        return max((self.k_h * piece.block.row_bytes for piece in self.pieces if piece.block), default=0)

    def statements(self, scratch: str, make: Callable[[RowPiece, str, int], Iterable[str]]) -> list[str]:
        """All pieces in C. scratch: where blocks go. make: of a piece, its row pointers and the byte at which its first
        window begins."""
        lines = []
        for piece in self.pieces:
            if piece.block:
                lines += [f"{_copies(piece)}(x, rows, {scratch});", *make(piece, "rows", 0)]
            else:
                lines += make(piece, "x", piece.start * self.pixel_bytes - self.pad_bytes)
        return lines


def _copies(piece: RowPiece) -> str:
    """The name of the function that copies a piece's columns."""
    return f"@_block_{piece.start}"


def walk(window: Window, in_w: int, out_w: int, rows: Rows, by_rows: bool) -> tuple[Window, int, int, Rows]:
    """(window, input columns, output columns, rows) of the calls. rows: of the image (`row_geometry`).

    Unless by_rows, the whole image is one row where that is the same: for 1x1 weights of stride 1, and where it is one
    column.
    """
    if by_rows:
        return window, in_w, out_w, rows
    one = Rows(1, 1, 1, 1, 0, 1, rows.in_h * rows.in_row_bytes, rows.out_h * rows.out_row_bytes, None)
    if window == POINT:
        return window, rows.in_h * in_w, rows.out_h * out_w, one
    if in_w == out_w == window.kernel.w == 1 and window.pad.left == 0:
        turned = [Pair(1, size.h) for size in (window.kernel, window.stride, window.dilation)]
        pad = Padding(0, window.pad.top, 0, window.pad.bottom)
        return Window(turned[0], turned[1], pad, turned[2]), rows.in_h, rows.out_h, one
    return window, in_w, out_w, rows


def row_pieces(window: Window, in_w: int, in_c: int, out_w: int, x_zero: int, core: Core) -> tuple[RowPiece, ...]:
    """A row of out_w pixels: blocks at the borders where windows leave the image, the image itself between.

    Every piece has two pixels or more (unless the row has one): an odd pixel reads its left neighbour too.
    """

    def block(start: int, stop: int) -> RowPiece:
        first = start * window.stride.w - window.pad.left
        last = (stop - 1) * window.stride.w - window.pad.left + window.span.w
        return RowPiece(start, stop, RowBlock(first, last, in_w, in_c, x_zero, window.kernel.h, core))

    left = min(-(-window.pad.left // window.stride.w), out_w)
    right = min(max((in_w - window.span.w + window.pad.left) // window.stride.w + 1, 0), out_w)
    if left == 0 and right == out_w:
        return (RowPiece(0, out_w, None),)
    whole = block(0, out_w)
    first = left + left % 2
    last = out_w if right == out_w else min(right, out_w - 2)
    last -= (last - first) % 2 if last < out_w else 0
    if last - first < 2 or last > right:
        return (whole,)
    split = [RowPiece(first, last, None)]
    split += [block(0, first)] if first else []
    split += [block(last, out_w)] if last < out_w else []
    pieces = tuple(sorted(split, key=lambda piece: piece.start))
    copied = [sum(b.block.row_bytes for b in some if b.block) * window.kernel.h for some in ((whole,), pieces)]
    short = whole.block is not None and whole.block.row_bytes * window.kernel.h <= _WHOLE_ROW_BYTES
    cheaper = copied[0] // 2 <= copied[1] // 2 + _PIECE_COST * (len(pieces) - 1)
    return (whole,) if short and cheaper else pieces
