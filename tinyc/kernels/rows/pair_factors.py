# SPDX-License-Identifier: Apache-2.0
"""The assembly of `factors` of `tiles.py` for two output rows: first sums over the input rows, column by column, to
a buffer on the stack [half][product row][column], then sums over its columns.

Columns outside the image differ from tile to tile. They are tested where they are not the same for all tiles, and the
function is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from tinyc.kernels.fast.bilinear import F2, F4, S2
from tinyc.kernels.fast.transforms import toom_of_registers
from tinyc.kernels.rows.tiles import FACTORS_PARAMETERS, RowTileInputs
from tinyc.machine.thumb import Asm, Naked, Work

_F2 = (("ssub16", 0, 2), ("sadd16", 1, 2), ("ssub16", 2, 1), ("ssub16", 1, 3))


PARAMETERS = (*FACTORS_PARAMETERS, "uint32_t outside")


def pair_factors_function(
    name: str, tiles: RowTileInputs, variants: Sequence[tuple[bool, ...]], x_zero: int
) -> tuple[Naked, list[Work]]:
    """`name(x, offset, factors, outside)`: as `factors_function`, of the rows of x that two output rows need; bit i of
    `outside` is set where column i counts as x_zero. variants: which columns those may be. What a call with each
    executes."""
    writer = _Factors(tiles, variants)
    asm = writer.write(x_zero)
    always = asm.work()
    asm.reorder()
    return Naked(name, PARAMETERS, asm), [always + asm.work(_unit(i)) for i in range(len(variants))]


class _Factors:
    """r1: factors. By rows: r2 and on: input rows, then their words, unpacked words, and r0; by columns: r0: buffer, r4
    and on: its words. On the stack: the buffer, the row pointers, the end of the first product's factors, `outside`.

    spans: neighbouring columns, with the variants where they are outside.
    """

    def __init__(self, tiles: RowTileInputs, variants: Sequence[tuple[bool, ...]]) -> None:
        self.tiles = tiles
        self._spans = [
            (list(span), outer)
            for outer, span in groupby(range(tiles.form.across.n), key=lambda c: tuple(v[c] for v in variants))
        ]
        self.asm = Asm(tiles.core)
        self._lines, self._columns = tiles.form.products, tiles.form.across.n
        self._rows_at = 2 * 4 * self._lines * self._columns
        self._end_at = self._rows_at + 4 * tiles.form.n
        self._outside_at = self._end_at + 4
        self._rows = [f"r{2 + i}" for i in range(tiles.form.n)]
        self._raw = [f"r{2 + tiles.form.n + i}" for i in range(tiles.form.n)]

    def write(self, x_zero: int) -> Asm:
        asm, tiles = self.asm, self.tiles
        pitch = 4 * tiles.together  # of a step
        size = self._outside_at + 4
        size += (4 - size) % 8  # with nine saved registers, a multiple of 8
        asm.note("registers and arguments to the stack")
        asm.save("{r4-r11, lr}", frame=size)
        asm.op("str", "r3", f"[sp, #{self._outside_at}]")
        for i, row in enumerate(self._raw):
            asm.op("ldr", row, f"[r0, #{4 * i}]" if i else "[r0]")
            asm.op("add", row, row, "r1")
            asm.op("str", row, f"[sp, #{self._rows_at + 4 * i}]")
        asm.op("mov", "r1", "r2")
        asm.add("r2", "r1", pitch * tiles.steps)
        asm.op("str", "r2", f"[sp, #{self._end_at}]")
        self._outer_columns(x_zero)
        with asm.loop("quad", tiles.in_c // 4):
            self._vertical()
            self._horizontal(pitch)
            asm.op("ldr", "r2", f"[sp, #{self._end_at}]")
            asm.op("add", "r1", "r1", f"#{2 * pitch}")
            asm.until_equal("r1", "r2", "quad")
        asm.restore()
        return asm

    def _where(self, inside: bool, write: Callable[[list[int]], None]) -> None:
        """Writes the columns for tiles where they are inside (else: outside)."""
        for number, (columns, outer) in enumerate(self._spans):
            variants = [variant for variant, is_out in enumerate(outer) if is_out != inside]
            if len(variants) == len(outer):
                write(columns)
            elif variants:
                label = f"past{number}{inside}"
                self.asm.op("ldr", "r0", f"[sp, #{self._outside_at}]")
                self.asm.op("lsls", "r0", "r0", f"#{31 - columns[0]}")
                self.asm.branch("bmi.w" if inside else "bpl.w", label)
                with self.asm.per(*map(_unit, variants)):
                    write(columns)
                self.asm.label(label)

    def _outer_columns(self, x_zero: int) -> None:
        """The sums of columns that are outside, which stay in the buffer."""
        sums = [sum(line) * x_zero for line in self.tiles.form.inputs]

        def write(columns: list[int]) -> None:
            for value in sorted(set(sums)):
                self.asm.constant("r2", (value & 0xFFFF) * 0x00010001)
                for line in (i for i, total in enumerate(sums) if total == value):
                    for half in range(2):
                        for column in columns:
                            self._store(half, line, column, "r2")

        self._where(False, write)

    def _store(self, half: int, line: int, column: int, register: str) -> None:
        at = 4 * ((half * self._lines + line) * self._columns + column)
        self.asm.op("str", register, f"[sp, #{at}]" if at else "[sp]")

    def _vertical(self) -> None:
        """Four channels of every column inside; the row pointers move on."""
        asm = self.asm
        asm.note("loads: four channels, rows combined, to the stack")
        asm.op("add", "r0", "sp", f"#{self._rows_at}")
        asm.op("ldm", "r0", "{" + ", ".join(self._rows) + "}")
        for row in self._rows:
            asm.op("add", row, row, "#4")
        asm.op("stm", "r0", "{" + ", ".join(self._rows) + "}")

        def write(columns: list[int]) -> None:
            for column in columns:
                for row, raw in zip(self._rows, self._raw, strict=True):
                    asm.op("ldr", raw, f"[{row}, #{column * self.tiles.in_c - 4}]")
                for half in range(2):
                    self._sums(half, column)

        self._where(True, write)

    def _sums(self, half: int, column: int) -> None:
        """Sums over the rows, of two channels."""
        asm, free = self.asm, [f"r{i}" for i in (9, 10, 11, 12, 14)]
        ror = ("ror #8",) if half else ()
        if self.tiles.form.stride == 1:
            x = free[1:]
            for register, raw in zip(x, self._raw, strict=True):
                asm.op("sxtb16", register, raw, *ror)
            for line, (op, a, b) in enumerate(_F2):
                asm.op(op, "r0", x[a], x[b])
                self._store(half, line, column, "r0")
            return
        middle, word = "r12", "r14"
        asm.op("sxtb16", middle, self._raw[2], *ror)
        self._store(half, 2, column, middle)
        for line in (0, 1, 3, 4):
            asm.op("sxtb16", word, self._raw[line], *ror)
            if line in (0, 4):
                asm.op("ssub16", word, word, middle)
            self._store(half, line, column, word)

    def _horizontal(self, pitch: int) -> None:
        asm, tiles = self.asm, self.tiles
        asm.note("columns combined, to the factors")
        asm.op("mov", "r0", "sp")
        words = [f"r{4 + column}" for column in range(self._columns)]
        for half in range(2):
            for line in range(self._lines):

                def store(product: int, register: str, line: int = line, half: int = half) -> None:
                    at = pitch * (tiles.order.index((line, product)) * tiles.steps + half)
                    asm.op("str", register, f"[r1, #{at}]" if at else "[r1]")

                asm.op("ldm", "r0!", "{" + ", ".join(words) + "}")
                if tiles.form.across is F4:
                    toom_of_registers(asm, words, store)
                elif tiles.form.across is F2:
                    for product, (op, a, b) in enumerate(_F2):
                        asm.op(op, "r12", words[a], words[b])
                        store(product, "r12")
                else:
                    assert tiles.form.across is S2
                    for product in (1, 2, 3):
                        store(product, words[product])
                    for product in (0, 4):
                        asm.op("ssub16", "r12", words[product], words[2])
                        store(product, "r12")


def _unit(variant: int) -> str:
    """Of what a variant executes beside what all do."""
    return f"variant{variant}"
