# SPDX-License-Identifier: Apache-2.0
"""The assembly of `products` of `tiles.py`: factors times weights, sums of products, and the requantization.

Eight registers hold an accumulator per tile and channel. The sums over products are made inside them as far as can be:
a product is accumulated on top of the sum that it belongs to. The rest are passes over vectors of eight words in the
frame.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tinyc.kernels.fast.product_code import ACC, TEMPS, ProductCode, words_of
from tinyc.kernels.fast.tiles import INVERSES, Tiles
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.machine.thumb import Asm, Naked, Work

_SAVED = 9  # registers, between the frame and the fifth argument
_VECTORS = {"f2": 5, "s2": 3, "s24": 9, "f4": 6, "one_row": 3}  # in the frame, beside those of columns


PARAMETERS = (
    "const int32_t *stream",
    "const int32_t *constants",
    "const int32_t *factors",
    "int8_t *const *y",
    "int32_t groups",
)


def products_function(name: str, tiles: Tiles) -> tuple[Naked, tuple[Work, Work], list[tuple[int, int]]]:
    """`name(stream, constants, factors, y, groups)`: the function, instructions of a call and of each group of it,
    (row, column) products in order.

    y: m pointers to the first output of the pair in each output row. groups: of four output channels.
    """
    writer = _Products(tiles)
    asm = writer.write()
    asm.reorder()
    return Naked(name, PARAMETERS, asm), (asm.work(), asm.work("group")), writer.order


class _Products(ProductCode):
    """Writes the function."""

    def __init__(self, tiles: Tiles) -> None:
        super().__init__(tiles, _VECTORS[tiles.form.name])

    def write(self) -> Asm:
        asm, tiles = self.asm, self.tiles
        asm.reads_constants("r0", "r1")  # the stream and the factors
        asm.note("registers and arguments to the stack")
        asm.save("{r4-r11, lr}", frame=self._size)
        asm.op("str", "r1", self._at("constants"))
        for a in range(tiles.form.m):
            asm.op("ldr", "r4", f"[r3, #{4 * a}]")
            asm.op("str", "r4", self._at(f"y{a}"))
        asm.op("ldr", "r4", f"[sp, #{self._size + 4 * _SAVED}]")
        asm.op("str", "r4", self._at("groups"))
        if tiles.divided:
            asm.constant("r4", INVERSES[tiles.form.odd])
            asm.op("str", "r4", self._at("inverse"))
        asm.op("mov", "r1", "r2")
        with asm.loop("group", "group"):
            asm.note("four channels of two tiles: products and their sums")
            asm.op("ldm", "r0", "{" + ", ".join(ACC[:GROUP]) + "}")
            asm.op("ldm", "r0!", "{" + ", ".join(ACC[GROUP:]) + "}")
            forms = {"f2": self._f2, "s2": self._s2, "s24": self._s24, "f4": self._f4, "one_row": self._one_row}
            forms[tiles.form.name]()
            asm.note("the next four channels")
            asm.op("ldr", "r2", self._at("constants"))
            asm.add("r2", "r2", 4 * tiles.finish_words)
            asm.op("str", "r2", self._at("constants"))
            asm.add("r1", "r1", -4 * tiles.factor_words, "r2")
            asm.count_down("r2", self._at("groups"), "group")
        asm.note("return")
        asm.restore()
        self._subroutines()
        return asm

    # ---- sums over products ----

    def _f2(self) -> None:
        for j in (1, 2, 0, 3):
            self._product(1, j, fresh=j != 1)
            self._store("t")
            self._product(2, j, fresh=True)
            self._sum_difference("t")
            self._product(0, j)
            self._f2_outer(0, j)
            self._load("t")
            self._product(3, j)
            self._f2_outer(1, j)

    def _f2_outer(self, a: int, j: int) -> None:
        if j == 1:
            self._store(f"difference{a}")
        elif j == 2:
            self._sum_difference(f"difference{a}")
            self._store(f"sum{a}")
        else:
            self._add(f"sum{a}" if j == 0 else f"difference{a}")
            self._finish(a, 0 if j == 0 else 1)

    def _s2(self) -> None:
        self._run((2, 2))
        self._store("t")
        self._run((0, 2), (1, 2))
        self._store("shared0")
        self._load("t")
        self._run((3, 2), (4, 2))
        self._store("shared1")
        for b, columns in ((0, (0, 1)), (1, (3, 4))):
            self._run(*((2, j) for j in columns), fresh=True)
            self._store("t")
            for a, rows in ((0, (0, 1)), (1, (3, 4))):
                if a:
                    self._load("t")
                self._run(*((i, j) for j in columns for i in rows))
                self._add(f"shared{a}")
                self._finish(a, b)

    def _s24(self) -> None:
        """The columns of the outer taps first: what they give to the four outputs of each row waits for the middle
        tap's."""
        rows = ((0, 1), (3, 4))
        for column in (1, 2, 3):
            self._run((2, column), fresh=column > 1)
            self._store("t")
            for a in range(2):
                if a:
                    self._load("t")
                self._run(*((i, column) for i in rows[a]))
                if column == 3:
                    self._s24_outer(a)
                self._store(f"{a}, {column % 3}")
        for b in range(4):
            columns = {0: (0, 5), 3: (4, 8)}.get(b, (5 + b,))
            self._run(*((2, column) for column in columns), fresh=True)
            self._store("t")
            for a in range(2):
                if a:
                    self._load("t")
                self._run(*((i, column) for column in columns for i in rows[a]))
                self._add(f"{a}, {b}")
                self._finish(a, b)

    def _s24_outer(self, a: int) -> None:
        """From acc: m3 and m1, m2 to acc: m1 + m2 + m3, and what outputs 1, 2, 3 have of them."""
        self.asm.piece(_outer_columns, self._vector(f"{a}, 3"), self._vectors_at(f"{a}, 1", f"{a}, 2"))

    def _f4(self) -> None:
        """Columns are made of their products like the rows of each, the first three wait for the others."""
        for number, j in enumerate((1, 2, 3, 4, 0, 5)):
            if j in (2, 3, 4):
                self._lower()
            self._column(j, fresh=number > 0)
            self._f4_outer(0, j)
            if j not in (1, 2, 3):
                self._load("u")
                self._f4_outer(2, j)
                self._load("v")
                self._f4_outer(1, j)
            self._last_of_column(j)
            self._f4_outer(3, j)
        self._rise()

    def _one_row(self) -> None:
        """A row of four outputs per tile."""
        for column, vector, fresh in ((1, "t", False), (2, "u", False), (3, "v", True)):
            self._product(0, column, fresh)
            self._store(vector)
        self._product(0, 4)
        self._rows()
        self._product(0, 0)
        self._finish(0, 0)
        for b, vector in ((2, "u"), (1, "v"), (3, "t")):
            self._load(vector)
            if b == 3:
                self._product(0, 5)
            self._finish(0, b)

    def _row(self, a: int, j: int) -> str:
        """The vector of row a of column 1, 2 or 3."""
        return self._of_column("u" if a == 2 else "v", j - 1) if a in (1, 2) else f"row {a} of column {j - 1}"

    def _f4_outer(self, a: int, j: int) -> None:
        if j in (1, 2, 3):
            self._store(self._row(a, j))
        elif j == 4:
            self._f4_columns(a)
            self._finish(a, 2)
            self._load(self._row(a, 2))
            self._finish(a, 1)
        elif j == 0:
            self._add(self._row(a, 1))
            self._finish(a, 0)
        else:
            self._add(self._row(a, 3))
            self._finish(a, 3)

    def _f4_columns(self, a: int) -> None:
        """From acc: m4 and m1, m2, m3 to acc: s + S, m1: 4 s + S, m2: 2 d + D, m3: d + 2 D."""
        self.asm.piece(_four_columns, self._vectors_at(*(self._row(a, j) for j in (1, 2, 3))))

    # ---- to int8 ----

    def _finish(self, a: int, b: int) -> None:
        """Outputs (a, b) of both tiles."""
        asm, tiles, form = self.asm, self.tiles, self.tiles.form
        asm.note(f"output ({a}, {b}) of both tiles: requantize and store")
        raised = form.raised[a] + form.across.raised[b]
        if tiles.divided:
            asm.op("ldr", "r2", self._at("inverse"))
            for acc in ACC:
                asm.op("mul", acc, acc, "r2")
        requant, block = tiles.requant, 0
        if raised and tiles.lowers:
            for acc in ACC:
                asm.op("asr", acc, acc, f"#{raised}")
        elif not tiles.lowers:
            assert requant.shifts is not None
            requant = replace(requant, shifts=tuple(shift + raised for shift in requant.shifts))
            block = tiles.raises.index(raised)
        slots = _Slots(*map(self._at, (f"y{a}", "constants", "stream", "factors")))
        apart = form.across.m * tiles.out_c
        asm.piece(_scaled, requant, block, slots, b * tiles.out_c, apart)
        if b == form.across.m - 1:  # the last of the row
            asm.op("add", "r14", "r14", f"#{GROUP}")
            asm.op("str", "r14", slots.y)


class _Slots(NamedTuple):
    """Places in the frame: the first output of the pair in a row, and what a call goes through."""

    y: str
    constants: str
    stream: str
    factors: str


def _outer_columns(asm: Asm, last: int, vectors: tuple[int, ...]) -> None:
    t, u, v, _ = TEMPS
    for i, (acc, (m1, m2)) in enumerate(words_of(asm, vectors)):
        asm.op("add", v, t, u)
        asm.op("sub", t, t, u)
        asm.op("add", u, t, acc, "lsl #1")
        asm.op("str", u, m1)
        asm.op("add", t, t, acc, "lsl #3")
        asm.op("str", t, f"[sp, #{last + 4 * i}]")
        asm.op("add", u, v, acc, "lsl #2")
        asm.op("str", u, m2)
        asm.op("add", acc, acc, v)


def _four_columns(asm: Asm, vectors: tuple[int, ...]) -> None:
    t, u, v, w = TEMPS
    for acc, (m1, m2, m3) in words_of(asm, vectors):
        asm.op("sub", w, t, u)  # d
        asm.op("add", t, t, u)  # s
        asm.op("sub", u, v, acc)  # D
        asm.op("add", v, v, acc)  # S
        asm.op("add", acc, t, v)
        asm.op("add", t, v, t, "lsl #2")
        asm.op("str", t, m1)
        asm.op("add", v, u, w, "lsl #1")
        asm.op("str", v, m2)
        asm.op("add", w, w, u, "lsl #1")
        asm.op("str", w, m3)


def _scaled(asm: Asm, requant: Requantization, block: int, slots: _Slots, first: int, apart: int) -> None:
    """Scales and stores the accumulators, at byte `first` of r14, which it loads, and `apart` behind for the second
    tile. block: of constants."""
    asm.op("ldr", "r14", slots.y)
    if requant.constants == 3:
        _scale_with_three(asm, requant, block, slots, first, apart)
    else:
        _scale_with_two(asm, requant, block, slots, first, apart)


def _scale_with_two(asm: Asm, requant: Requantization, block: int, slots: _Slots, first: int, apart: int) -> None:
    if requant.sign:
        asm.op("str", "r1", slots.factors)
    asm.op("ldr", "r4", slots.constants)
    for channel in range(GROUP):
        at = 8 * (block * GROUP + channel)
        asm.op("ldrd", "r2", "r3", f"[r4, #{at}]" if at else "[r4]")
        for tile, temp in enumerate(("r1", "r3")):
            _output(asm, requant, (tile, channel), ("r2", "r3"), temp, first + tile * apart + channel)
    if requant.sign:
        asm.op("ldr", "r1", slots.factors)


def _scale_with_three(asm: Asm, requant: Requantization, block: int, slots: _Slots, first: int, apart: int) -> None:
    """r0 and r1 lend themselves."""
    asm.op("strd", "r0", "r1", slots.stream)
    asm.op("ldr", "r4", slots.constants)
    asm.add("r4", "r4", 12 * block * GROUP)
    for channel in range(GROUP):
        asm.op("ldm", "r4!", "{r1, r2, r3}")
        for tile in range(2):
            _output(asm, requant, (tile, channel), ("r1", "r2", "r3"), "r0", first + tile * apart + channel)
    asm.op("ldrd", "r0", "r1", slots.stream)


def _output(
    asm: Asm, requant: Requantization, which: tuple[int, int], constants: tuple[str, ...], temp: str, at: int
) -> None:
    """Scales and stores an accumulator. which: its tile and channel."""
    tile, channel = which
    acc = ACC[4 * tile + channel]
    below = ACC[4 * tile + channel + 1] if requant.packed and channel % 2 == 0 else ""
    requant.emit(asm, channel, acc, below, constants, temp)
    asm.op("strb", acc, f"[r14, #{at}]" if at else "[r14]")
