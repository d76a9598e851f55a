# SPDX-License-Identifier: Apache-2.0
"""The assembly of depthwise convolutions with windows of one column: a pixel from row pointers, and sums by rows.

Four channels at a time, nothing in scratch. Two rows lie over each other: two loads, two packings and four SXTB16
make the words of four channels for both rows; a last odd row is taken by halves. r0 stream, r1 row pointers, r2
outputs, r3 bytes into the rows, r4 ... r7 accumulators, r8 ... r11 columns, then constants, r12 r14 weights. Of int4
weights r12 has a word for both rows, of which an AND with r11 makes a channel's (`int4_words.top`).

The other function adds one row into sums that last from call to call: int32 of all channels.
"""

from __future__ import annotations

from tinyc.base.dataclass import dataclass
from tinyc.kernels import int4_words
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.machine.cores import Core
from tinyc.machine.thumb import Asm, Work, naked_function

_ACC = ("r4", "r5", "r6", "r7")
PIXEL = ("const int32_t *stream", "const int8_t *const *x", "int8_t *y", "int32_t offset")  # parameters
ADD = ("const int32_t *stream", "const int8_t *x", "int32_t *sums")
END = ("const int32_t *constants", "const int32_t *sums", "int8_t *y")
_MOST_ROWS = 32  # unrolled


@dataclass(frozen=True)
class Column:
    """What the code depends on. Windows of rows x 1 taps, `channels` inputs and outputs. int4: weights are."""

    rows: int
    channels: int
    requant: Requantization
    core: Core
    int4: bool = False

    @property
    def groups(self) -> int:
        return -(-self.channels // GROUP)

    @property
    def full(self) -> int:
        """Groups of four channels."""
        return self.channels // GROUP

    @property
    def rest(self) -> int:
        """Channels of a last group that is not full, else 0."""
        return self.channels % GROUP

    @property
    def fits(self) -> bool:
        """Whether this module can write the functions."""
        return self.channels >= GROUP and self.rows <= _MOST_ROWS


def order(column: Column) -> list[int]:
    """The channels by groups of four; the last group ends with the last channel, -1 where it begins before."""
    channels = list(range(column.channels - column.rest))
    if column.rest:
        channels += [-1] * (GROUP - column.rest) + list(range(column.channels - column.rest, column.channels))
    return channels


# ---- a pixel ----


def pixel_function(name: str, column: Column) -> tuple[str, Work]:
    """`name(stream, x, y, offset)`: one output pixel; the taps lie `offset` bytes into the rows. Its text, and what a
    call executes."""
    asm, full = Asm(column.core), column.full
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}")
    asm.add("r4", "r3", GROUP * full)
    asm.save(frame=12)
    asm.op("str", "r4", "[sp]")
    with asm.loop("group", full):
        _pixel_group(asm, column, GROUP)
        asm.op("ldr", "r12", "[sp]")
        asm.op("add", "r3", "r3", f"#{GROUP}")
        asm.until_equal("r3", "r12", "group")
    if column.rest:
        asm.note("the last channels")
        asm.op("sub", "r3", "r3", f"#{GROUP - column.rest}")
        _pixel_group(asm, column, column.rest)
    asm.restore()
    return naked_function(name, PIXEL, asm), asm.work()


def _pixel_group(asm: Asm, column: Column, channels: int) -> None:
    """Four channels, of which the last `channels` are stored."""
    asm.note("products: four channels of pairs of rows")
    asm.load_multiple("r0", _ACC)
    if column.int4:
        _nibble_rows(asm, column.rows)
    else:
        _rows(asm, column.rows)
    _finish(asm, column.requant, channels, "[r2], #1")


def _rows(asm: Asm, rows: int) -> None:
    for pair in range(rows // 2):
        asm.op("ldrd", "r8", "r9", f"[r1, #{8 * pair}]" if pair else "[r1]")
        asm.op("ldr", "r8", "[r8, r3]")
        asm.op("ldr", "r9", "[r9, r3]")
        asm.op("pkhbt", "r10", "r8", "r9", "lsl #16")
        asm.op("pkhtb", "r9", "r9", "r8", "asr #16")
        asm.op("sxtb16", "r8", "r10")
        asm.op("sxtb16", "r10", "r10", "ror #8")
        asm.op("sxtb16", "r11", "r9")
        asm.op("sxtb16", "r9", "r9", "ror #8")
        for first, words in ((0, ("r8", "r10")), (2, ("r11", "r9"))):
            asm.op("ldrd", "r12", "r14", "[r0], #8")
            for i, (x, w) in enumerate(zip(words, ("r12", "r14"), strict=True)):
                asm.op("smlad", _ACC[first + i], x, w, _ACC[first + i])
    if rows % 2:
        asm.op("ldr", "r9", f"[r1, #{4 * (rows - 1)}]" if rows > 1 else "[r1]")
        asm.op("ldr", "r9", "[r9, r3]")
        _single_row(asm)


def _nibble_rows(asm: Asm, rows: int) -> None:
    """The same with int4 weights."""
    asm.op("mov", "r11", f"#{int4_words.NIBBLE_MASK:#x}")
    for pair in range(rows // 2):
        asm.op("ldrd", "r8", "r9", f"[r1, #{8 * pair}]" if pair else "[r1]")
        asm.op("ldr", "r8", "[r8, r3]")
        asm.op("ldr", "r9", "[r9, r3]")
        asm.op("ldr", "r12", f"[r0, #{4 * pair}]" if pair else "[r0]")
        asm.op("pkhbt", "r10", "r8", "r9", "lsl #16")
        asm.op("pkhtb", "r9", "r9", "r8", "asr #16")
        asm.op("sxtb16", "r8", "r10")
        asm.op("sxtb16", "r10", "r10", "ror #8")
        _nibble_products(asm, 0, (("smlad", "r8"), ("smlad", "r10")))
        asm.op("sxtb16", "r8", "r9")
        asm.op("sxtb16", "r9", "r9", "ror #8")
        _nibble_products(asm, 2, (("smlad", "r8"), ("smlad", "r9")))
    if rows % 2:
        asm.op("ldr", "r9", f"[r1, #{4 * (rows - 1)}]" if rows > 1 else "[r1]")
        asm.op("ldr", "r9", "[r9, r3]")
        asm.op("ldr", "r12", f"[r0, #{4 * (rows // 2)}]" if rows > 1 else "[r0]")
        asm.op("sxtb16", "r8", "r9")
        asm.op("sxtb16", "r9", "r9", "ror #8")
        _nibble_products(asm, 0, (("smlabb", "r8"), ("smlabb", "r9"), ("smlatb", "r8"), ("smlatb", "r9")))
    asm.add("r0", "r0", 4 * -(-rows // 2))


def _nibble_products(asm: Asm, first: int, products: tuple[tuple[str, str], ...]) -> None:
    """Products, each an instruction and its column, for the channels from `first` on: weights in r12, mask in r11."""
    for channel, (product, x) in enumerate(products, first):
        int4_words.top(asm, channel, "r14", "r12", "r11")
        asm.op(product, _ACC[channel], x, "r14", _ACC[channel])


def _single_row(asm: Asm) -> None:
    """Four channels of one row, bytes in r9, times the halves of two words of the stream. Uses r8."""
    asm.op("ldrd", "r12", "r14", "[r0], #8")
    asm.op("sxtb16", "r8", "r9")
    asm.op("sxtb16", "r9", "r9", "ror #8")
    for x, w, low, high in (("r8", "r12", 0, 2), ("r9", "r14", 1, 3)):
        asm.op("smlabb", _ACC[low], x, w, _ACC[low])
        asm.op("smlatt", _ACC[high], x, w, _ACC[high])


def _finish(asm: Asm, requant: Requantization, channels: int, place: str) -> None:
    """Scales and stores the last `channels` accumulators; uses r8 ... r12."""
    asm.note("requantize and store")
    in_turn = requant.constants_in_turn(asm, "r0", ("r8", "r9", "r10", "r11"), channels)
    for acc, constants in zip(_ACC[GROUP - channels :], in_turn, strict=True):
        requant.emit(asm, 0, acc, "", constants, "r12")
        asm.op("strb", acc, place)


# ---- sums by rows ----


def add_function(name: str, column: Column) -> tuple[str, Work]:
    """`name(stream, x, sums)`: adds a row times its weights to int32 sums. Its text, and what a call executes."""
    asm = Asm(column.core)
    asm.save("{r4-r11, lr}")
    asm.add("r3", "r2", 4 * GROUP * column.full)
    with asm.loop("group", column.full):
        asm.note("products: four channels of a row, added to the sums")
        asm.op("ldr", "r9", "[r1], #4")
        asm.load_multiple("r2", _ACC, advance=False)
        _single_row(asm)
        asm.op("stm", "r2!", "{r4-r7}")
        asm.until_equal("r2", "r3", "group")
    if column.rest:
        asm.note("the last channels")
        asm.op("ldr", "r9", f"[r1, #-{GROUP - column.rest}]")
        used = ", ".join(_ACC[GROUP - column.rest :])
        asm.op("ldm" if column.rest > 1 else "ldr", "r2" if column.rest > 1 else used, *_multiple(column.rest, used))
        _single_row(asm)
        asm.op("stm" if column.rest > 1 else "str", "r2" if column.rest > 1 else used, *_multiple(column.rest, used))
    asm.restore()
    return naked_function(name, ADD, asm), asm.work()


def _multiple(count: int, used: str) -> tuple[str, ...]:
    return ("{" + used + "}",) if count > 1 else ("[r2]",)


def finish_function(name: str, column: Column) -> tuple[str, Work]:
    """`name(constants, sums, y)`: the outputs of the sums. Its text, and what a call executes."""
    asm = Asm(column.core)
    asm.save("{r4-r11, lr}")
    asm.add("r3", "r1", 4 * GROUP * column.full)
    with asm.loop("group", column.full):
        asm.load_multiple("r1", _ACC)
        _finish(asm, column.requant, GROUP, "[r2], #1")
        asm.until_equal("r1", "r3", "group")
    if column.rest:
        asm.load_multiple("r1", _ACC[GROUP - column.rest :])
        _finish(asm, column.requant, column.rest, "[r2], #1")
    asm.restore()
    return naked_function(name, END, asm), asm.work()
