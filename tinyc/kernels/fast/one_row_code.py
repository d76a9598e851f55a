# SPDX-License-Identifier: Apache-2.0
"""The assembly of the inputs of `one_row.py`: of pairs of input rows, to factors of two output rows.

A word is two int16. A pair of rows gives a word per channel, upper row in the low half. An output row wants that of the
two rows of one pair, and its third row alone, from the pair below or above: channels by twos (TWOS) in words of their
own, and where one is left over the pair's word, whose other half meets weights of 0.

    columns   int8 pixels of a pair of rows -> strip [channel][column]
    factors   strip -> factors [output row][product][step][tile]; what was the lower pair of rows becomes the upper one

Factors of the first output row: the upper pair's words, then those of the lower pair's first row. Of the second: the
lower pair's words, then those of the upper pair's second row.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels.fast.tiles import Tiles
from tinyc.kernels.fast.transforms import toom_of_registers
from tinyc.machine.thumb import Asm, Work, naked_function

# Channels of the row that is alone, by twos, by the number of channels.
TWOS = {1: ((0,),), 2: ((0, 1),), 3: ((0, 2), (1,)), 4: ((0, 2), (1, 3))}
MOST_CHANNELS = max(TWOS)
COLUMNS = ("const int8_t *upper", "const int8_t *lower", "int32_t count", "int32_t *strip")  # parameters
FACTORS = ("int32_t *strip", "int32_t *factors")


@dataclass(frozen=True, slots=True)
class OneRowTiles(Tiles):
    """Tiles of one output row; the rows of the kernel are in the steps."""

    @property
    def steps(self) -> int:
        return self.in_c + len(TWOS[self.in_c])

    @property
    def strip_words(self) -> int:
        return self.in_c * self.columns

    @property
    def fresh_words(self) -> int:
        """Of a pair of rows: [product][channel][tile]."""
        return self.products * self.in_c * 2


def columns_function(name: str, tiles: OneRowTiles) -> tuple[str, Work, Work]:
    """`name(upper, lower, count, strip)`: text, instructions of a call, of each column."""
    asm, row = Asm(tiles.core), 4 * tiles.columns
    asm.save("{r4-r7}")
    with asm.loop("column", "column"):
        asm.note("a column of two rows, a word for each channel to the strip")
        unpacked = []  # registers of two channels or one, and whether the second of them is above
        if tiles.in_c == 4:
            asm.op("ldr", "r4", "[r0], #4")
            asm.op("ldr", "r5", "[r1], #4")
            asm.op("pkhtb", "r6", "r5", "r4", "asr #16")
            asm.op("pkhbt", "r4", "r4", "r5", "lsl #16")
            unpacked = ["r4", "r6"]
        else:
            for load, size in (("ldrh", 2), ("ldrb", 1)):
                if tiles.in_c & size:
                    both = ("r4", "r5") if not unpacked else ("r6", "r7")
                    asm.op(load, both[0], f"[r0], #{size}")
                    asm.op(load, both[1], f"[r1], #{size}")
                    asm.op("orr", both[0], both[0], f"{both[1]}, lsl #16")
                    unpacked.append(both[0])
        for channel in range(tiles.in_c - 1, -1, -1):
            word = unpacked[channel // 2]
            asm.op("sxtb16", "r12", word, *(("ror #8",) if channel % 2 else ()))
            asm.op("str", "r12", f"[r3, #{row * channel}]" if channel else "[r3], #4")
        asm.count_down("r2", "", "column")
    asm.restore()
    return naked_function(name, COLUMNS, asm), asm.work(), asm.work("column")


def factors_function(name: str, tiles: OneRowTiles, order: list[tuple[int, int]]) -> tuple[str, Work]:
    """`name(strip, factors)`: text and instructions of a call. Behind the strip are the words of the pair of rows."""
    asm, words = Asm(tiles.core), tiles.in_c
    asm.save("{r1, r4-r11, lr}", frame=8)
    asm.add("r1", "r0", 4 * tiles.strip_words)
    asm.op("str", "r1", "[sp, #4]")
    asm.constant("r2", words)
    asm.op("str", "r2", "[sp]")
    with asm.loop("channel", words):
        asm.note("a channel of the strip: its columns combined, to the factors")
        asm.op("ldm", "r0!", "{r2-r11}")
        for tile in range(2):

            def store(product: int, register: str, tile: int = tile) -> None:
                at = 8 * words * order.index((0, product)) + 4 * tile
                asm.op("str", register, f"[r1, #{at}]" if at else "[r1]")

            toom_of_registers(asm, [f"r{2 + 4 * tile + i}" for i in range(6)], store)
        asm.op("add", "r1", "r1", "#8")
        asm.count_down("r2", "[sp]", "channel")
    asm.note("the factors of rows before move on")
    asm.op("ldrd", "r12", "r0", "[sp, #4]")  # words of the pair, factors
    asm.add("r1", "r0", 4 * tiles.factor_words)
    for _ in range(tiles.products):
        _next_product(asm, tiles)
    asm.restore("{r4-r11, lr}", beside=4)
    return naked_function(name, FACTORS, asm), asm.work()


def _next_product(asm: Asm, tiles: OneRowTiles) -> None:
    """r0, r1: factors of the first and second output row, r12: words of the new pair of rows; all move on."""
    words = tuple(f"r{2 + i}" for i in range(2 * tiles.in_c))
    for pair in range(2):
        asm.load_multiple(("r1", "r12")[pair], words, advance=pair == 1)
        _store_multiple(asm, ("r0", "r1")[pair], words)
        for number, channels in enumerate(TWOS[tiles.in_c]):
            single = words[2 * channels[0] : 2 * channels[0] + 2]
            if len(channels) == 2:
                for tile in range(2):
                    first, second = (words[2 * channel + tile] for channel in channels)
                    if pair == 0:
                        asm.op("pkhtb", ("r10", "r11")[tile], second, first, "asr #16")
                    else:
                        asm.op("pkhbt", ("r10", "r11")[tile], first, second, "lsl #16")
                single = ("r10", "r11")
            asm.op("strd", *single, f"[{('r1', 'r0')[pair]}, #{8 * (tiles.in_c + number)}]")
    for pointer in ("r0", "r1"):
        asm.op("add", pointer, pointer, f"#{8 * tiles.steps}")


def _store_multiple(asm: Asm, base: str, registers: tuple[str, ...]) -> None:
    if len(registers) == 2:
        asm.op("strd", *registers, f"[{base}]")
    else:
        asm.op("stm", base, "{" + ", ".join(registers) + "}")
