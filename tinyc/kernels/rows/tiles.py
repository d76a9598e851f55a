# SPDX-License-Identifier: Apache-2.0
"""What the assembly of exact fast convolutions (`fast/bilinear.py`) of one or two output rows depends on, and
its input's side. A call makes one tile of outputs, or two neighbours.

The forms of rows and columns nest: with `ROW` three kernel rows make one output row, with others there are two rows.
Two functions per layer; tc_row_tiles.h has their portable twins:

* factors: columns of int8 input, all channels, of one tile to [product][step][tile], products in the order
  of use, a step being two channels of one word, channels (0, 2) and (1, 3) of each four;
* products (`products.py`): factors times weights, sums of products, and the requantization.

A walk (`walks.py`) says what comes after what: products, sums of them, outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from tinyc.base.dataclass import dataclass
from tinyc.kernels.fast.bilinear import F2, F4, S2
from tinyc.kernels.fast.tiles import TileInputs
from tinyc.kernels.fast.transforms import toom
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.rows.walks import WalkStep, walk_of
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Naked, Work

ROWS = 3  # of the kernel
_REACH = 4095  # of LDR, STR, STRB
INLINE_CHANNELS = {"f2": 16, "f4": 16, "s2": 32}  # of input, most for the longer code of `products.py`


@dataclass(frozen=True)
class RowTileInputs(TileInputs):
    """What the code of the factors depends on. together: tiles of a call, 1 or 2."""

    together: int

    @property
    def rows(self) -> int:
        """Output rows."""
        return self.form.m

    @property
    def outputs(self) -> int:
        """Pixels of a call in each row."""
        return self.form.across.m * self.together

    @property
    def factor_bytes(self) -> int:
        return 4 * self.steps * self.products * self.together

    @property
    def name(self) -> str:
        """Of the forms, and how many tiles a call makes."""
        return f"{self.form.name}x{self.together}"

    @cached_property
    def walk(self) -> tuple[WalkStep, ...]:
        return walk_of(self.form)

    @cached_property
    def order(self) -> list[tuple[int, int]]:
        """The (row, column) products as they are used."""
        return [(i, step.column) for step in self.walk for i in step.rows]


@dataclass(frozen=True)
class RowTiles(RowTileInputs):
    """What the code of the products depends on. requant: from sums to int8, for outputs that are raised least. third:
    sums are divided by 3 first. inline: every product is code of its own, a few kilobytes for a few percent."""

    out_c: int
    requant: Requantization
    third: bool
    inline: bool

    @property
    def inputs(self) -> RowTileInputs:
        """What layers of other outputs have, too."""
        return RowTileInputs(self.core, self.form, self.in_c, self.together)

    @property
    def channels(self) -> int:
        """Output channels that accumulate together: there are four accumulators."""
        return GROUP // self.together

    @property
    def groups(self) -> int:
        return self.out_c // self.channels

    def scratch_bytes(self, held: bool) -> int:
        """Factors and, with `held`, the outputs of a call."""
        return self.factor_bytes + held * self.rows * self.outputs * self.out_c

    @property
    def lowers(self) -> bool:
        """Whether raised sums are shifted down first; else their multiples pass through the scaling."""
        return self.requant.takes_no_multiples

    @property
    def fits(self) -> bool:
        """Whether this module can write the functions."""
        return (
            self.in_c % 4 == 0
            and self.out_c % GROUP == 0
            and self.factor_bytes <= _REACH
            and self.form.across.n * self.in_c <= _REACH
            and self.outputs * self.out_c <= _REACH
            and self.out_c <= _REACH
        )


# ---- factors ----


FACTORS_PARAMETERS = ("const int8_t *const *x", "int32_t offset", "int32_t *factors")


def factors_function(name: str, tiles: RowTileInputs, outside: Sequence[bool], x_zero: int) -> tuple[Naked, Work]:
    """`name(x, offset, factors)`: the factors of one output row, of the tile whose first column lies `offset` bytes
    into the rows; columns that are outside count as x_zero. factors: of the tile's first word. Its text, and what a
    call executes."""
    asm, form = Asm(tiles.core), tiles.form.across
    pitch = 4 * tiles.together  # of a step
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=20)
    asm.op("strd", "r0", "r1", "[sp]")
    asm.op("mov", "r1", "r2")
    asm.add("r2", "r1", ROWS * pitch * tiles.steps)
    asm.op("str", "r2", "[sp, #8]")
    raw = tuple(f"r{3 + i}" for i in range(form.n))
    outer = [register for register, is_out in zip(raw, outside, strict=True) if is_out]
    for register in outer:
        asm.constant(register, (x_zero & 0xFF) * 0x01010101)
    with asm.loop("row", ROWS):
        asm.op("ldrd", "r9", "r10", "[sp]")
        asm.op("ldr", "r0", "[r9], #4")
        asm.op("str", "r9", "[sp]")
        asm.op("add", "r0", "r0", "r10")
        asm.add("r2", "r1", pitch * tiles.in_c // 2)
        with asm.loop("quad", tiles.in_c // 4):
            asm.note("loads: four channels of the columns of a row")
            for i, register in enumerate(raw):
                if not outside[i]:
                    asm.op("ldr", register, f"[r0, #{i * tiles.in_c}]" if i else "[r0]")
            asm.op("add", "r0", "r0", "#4")
            asm.note("columns combined, to the factors")
            for half in range(2):
                _half(asm, tiles, raw, half)
            asm.op("add", "r1", "r1", f"#{2 * pitch}")
            asm.until_equal("r1", "r2", "quad")
        asm.op("ldr", "r9", "[sp, #8]")
        asm.until_equal("r1", "r9", "row")
    asm.restore()
    asm.reorder()
    return Naked(name, FACTORS_PARAMETERS, asm), asm.work()


def _half(asm: Asm, tiles: RowTileInputs, raw: Sequence[str], half: int) -> None:
    """Channels 0 and 2 (half 1: 1 and 3) of the columns in `raw` to a word of each product at r1."""

    def store(product: int, register: str) -> None:
        at = 4 * tiles.together * (tiles.order.index((0, product)) * tiles.steps + half)
        asm.op("str", register, f"[r1, #{at}]" if at else "[r1]")

    def unpack(column: int, register: str) -> str:
        asm.op("sxtb16", register, raw[column], *(("ror #8",) if half else ()))
        return register

    if tiles.form.across is F4:
        toom(asm, unpack, store)
    elif tiles.form.across is F2:
        x = [unpack(i, f"r{9 + i}") for i in range(4)]
        for product, (op, a, b) in enumerate((("ssub16", 0, 2), ("sadd16", 1, 2), ("ssub16", 2, 1), ("ssub16", 1, 3))):
            asm.op(op, "r14", x[a], x[b])
            store(product, "r14")
    else:
        assert tiles.form.across is S2
        middle = unpack(2, "r11")
        store(2, middle)
        for product in (0, 1, 3, 4):
            word = unpack(product, "r12")
            if product in (0, 4):
                asm.op("ssub16", word, word, middle)
            store(product, word)


# ---- held outputs ----


MOVE_TWIN = """static void @(const int8_t *from, int8_t *to, int32_t words)
{
    for (int32_t i = 0; i < 4 * words; i++) {
        to[i] = from[i];
    }
}
"""


def move_function(name: str, core: Core, pairs: bool) -> tuple[Naked, Work, Work]:
    """`name(from, to, words)`: copies words, with `pairs` an even number of them. Its text, what a call executes, and
    what each turn of one or two words does."""
    asm = Asm(core)
    asm.save("{r4, lr}")
    asm.op("add", "r2", "r0", "r2", "lsl #2")
    with asm.loop("word", "turn"):
        if pairs:
            asm.op("ldrd", "r3", "r4", "[r0], #8")
            asm.op("strd", "r3", "r4", "[r1], #8")
        else:
            asm.op("ldr", "r3", "[r0], #4")
            asm.op("str", "r3", "[r1], #4")
        asm.until_equal("r0", "r2", "word")
    asm.restore()
    parameters = ("const int8_t *from", "int8_t *to", "int32_t words")
    asm.reorder()
    return Naked(name, parameters, asm), asm.work(), asm.work("turn")
