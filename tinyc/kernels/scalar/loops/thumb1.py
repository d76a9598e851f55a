# SPDX-License-Identifier: Apache-2.0
"""The loops on ARMv6-M: only r0-r7 are multiplied, and a product overwrites one of its factors. So sums are in r8-r11,
and what is needed once more is copied first.

A signed byte or half is loaded from the sum of two registers alone: x and the distance from there to a lane's weights,
which are as far apart as the words of x.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinyc.kernels.scalar.loops.columns import WORD, ColumnsCore
from tinyc.kernels.scalar.loops.pairs import WORD_BYTES, PairsCore
from tinyc.kernels.scalar.loops.products import Products, ProductsCore
from tinyc.machine.cores import CORES
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm

HIGH, LOW = ("r8", "r9", "r10", "r11"), ("r4", "r5", "r6", "r7")
_X, _END = "r0", "r12"


def assembler() -> Asm:
    return Asm(CORES["cortex-m0plus"])


def save(asm: Asm, first: str) -> None:
    """Saves r4-r11 and lr; first: what lies lowest of what `restore` leaves for the end."""
    asm.save(f"{{{first}-r7, lr}}")
    for low, high in zip(LOW, HIGH, strict=True):
        asm.op("mov", low, high)
    asm.save("{r4-r7}")


def restore(asm: Asm) -> None:
    """r8-r11 as the caller had them."""
    asm.restore(keep=1)
    for low, high in zip(LOW, HIGH, strict=True):
        asm.op("mov", high, low)


class Thumb1Products(ProductsCore[Asm]):
    """The words of `products.py`. r0 x, r1 weights, r2 turns or bytes of x or its end, r3 where the sums go. of_four:
    which of the four channels of a word of int4 weights are first."""

    def __init__(self, loop: Products, of_four: int = 0) -> None:
        self.loop, self.asm, self._of_four = loop, assembler(), of_four
        self.lanes, self.begins = 4 // loop.inputs, loop.many
        self._frame = Frame(("sums", "end"))
        self._inputs = ("r2", "r3") if loop.inputs == 2 else ("r1",)
        self._weight = "r4" if loop.inputs == 2 else "r2"
        self._distances = LOW if loop.inputs == 1 else ("r6", "r7")
        self._words = "r7" if loop.weight == "s4" else "r1"  # where weights are loaded from, if not from x on
        self._left = 0  # int4 weights in the word

    @property
    def _from_x(self) -> bool:
        return not self.loop.narrow and self.loop.weight != "s4"

    def enter(self) -> None:
        asm, loop = self.asm, self.loop
        save(asm, "r4" if loop.many else "r3")
        if loop.many:
            asm.save(frame=self._frame.size)
            asm.op("str", "r3", self._frame.at("sums"))
            asm.op("str", "r3", self._frame.at("end"))
            asm.op("mov", "lr", "r2")
        elif loop.weight == "s4":
            asm.op("mov", self._words, "r1")
            asm.op("mov", _END, "r2")
        if self._from_x:
            first, *others = self._distances
            asm.op("subs", first, "r1", _X)
            asm.op("subs", first, f"#{loop.tap_bytes}")
            for lane, other in enumerate(others, 1):
                asm.op("adds", other, first, f"#{lane * loop.weight_bytes}")
        if loop.many:
            return
        if self._from_x:
            asm.op("lsls", "r2", "r2", f"#{loop.turn_bytes.bit_length() - 1}")
            asm.op("add", "r2", _X)
            asm.op("mov", _END, "r2")
        asm.op("movs", self._weight, "#0")
        for total in HIGH:
            asm.op("mov", total, self._weight)

    @contextmanager
    def products(self) -> Iterator[None]:
        with self.asm.loop("product", "product", aligned=False):
            self.asm.op("mov", "r4", "lr")
            self.asm.op("adds", "r4", "r4", _X)
            self.asm.op("mov", _END, "r4")
            yield
            self.asm.branch("beq", "all")
            self.asm.branch("b", "product")
        self.asm.label("all")

    @contextmanager
    def unless_done(self) -> Iterator[None]:
        self.asm.branch("beq", "summed")
        yield
        self.asm.label("summed")

    @contextmanager
    def turns(self) -> Iterator[None]:
        with self.asm.loop("turns", "turn", aligned=False, of_call=True):
            yield
            self.asm.branch("bne", "turns")

    def inputs(self, tap: int) -> None:
        asm = self.asm
        if self.loop.narrow:
            asm.op("ldr", "r3", f"[{_X}, #{4 * tap}]")
            asm.op("sxth", "r2", "r3")
            asm.op("asrs", "r3", "r3", "#16")
        else:
            asm.op("ldm", f"{_X}!", f"{{{', '.join(self._inputs)}}}")

    def weight(self, tap: int, lane: int) -> None:
        asm, loop = self.asm, self.loop
        if loop.narrow:
            if lane == 0:
                asm.op("ldr", "r5", f"[r1, #{8 * tap}]")
                asm.op("sxth", "r4", "r5")
                asm.op("asrs", "r5", "r5", "#16")
        elif loop.weight == "s4":
            self._unpack()
        else:
            asm.op("ldrsb" if loop.weight == "s8" else "ldrsh", self._weight, f"[{_X}, {self._distances[lane]}]")

    def _unpack(self) -> None:
        """The four bits on top of the word, once the next are there."""
        if self._left == 0:
            self.asm.op("ldm", f"{self._words}!", "{r6}")
            if self._of_four:
                self.asm.op("lsls", "r6", "r6", "#16")
            self._left = 4
        else:
            self.asm.op("lsls", "r6", "r6", "#4")
        self._left -= 1
        self.asm.op("asrs", self._weight, "r6", "#28")

    def multiply(self, tap: int, lane: int, number: int, sets: bool) -> None:
        asm, loop = self.asm, self.loop
        weight, factor = "r5" if loop.narrow and lane else self._weight, self._inputs[number]
        if number == loop.inputs - 1 and lane < self.lanes - 1:
            product, other = weight, factor
        elif lane == self.lanes - 1:
            product, other = (factor, weight) if loop.inputs > 1 else (weight, factor)
        else:
            product, other = "r6" if loop.narrow else "r5", factor
            asm.op("mov", product, weight)
        asm.op("muls", product, other, product)
        asm.op("mov" if sets else "add", HIGH[lane * loop.inputs + number], product)

    def step(self) -> None:
        if self.loop.narrow:
            self.asm.op("adds", _X, f"#{self.loop.turn_bytes}")
            self.asm.op("adds", "r1", f"#{self.loop.turn_weights}")
        self.asm.op("cmp", _X, _END)

    def store(self) -> None:
        asm = self.asm
        if self.loop.many:
            for low, high in zip(("r2", "r3", "r4", "r5"), HIGH, strict=True):
                asm.op("mov", low, high)
            place = "r6" if self.loop.narrow else "r1"
            asm.op("ldr", place, self._frame.at("sums"))
            asm.op("stm", f"{place}!", "{r2-r5}")
            asm.op("str", place, self._frame.at("sums"))
            asm.op("ldr", place, self._frame.at("end"))
            asm.op("cmp", _X, place)
            return
        for low, high in zip(("r0", "r1", "r2", "r3"), HIGH, strict=True):
            asm.op("mov", low, high)
        restore(asm)
        asm.op("pop", "{r4}")
        asm.op("stm", "r4!", "{r0-r3}")

    def leave(self) -> None:
        if self.loop.many:
            restore(self.asm)
        self.asm.restore("{r4-r7, lr}")


class Thumb1Pairs(PairsCore[Asm]):
    """The words of `pairs.py`. r0 x, r1 weights, r2 and r3 factors, r4 and r5 halves of a word, r6 a mask; r7 a
    segment's start, and the sum of the first lane."""

    lanes, held = 2, 1
    _MASK = "r6"

    def __init__(self, segment: int) -> None:
        self.segment, self.asm = segment, assembler()
        self._sums, self._accs = ("r7", "r10"), ("r8", "r9")

    def enter(self) -> None:
        asm = self.asm
        save(asm, "r3")
        asm.op("lsls", "r2", "r2", "#4")
        asm.op("adds", "r2", "r2", "r1")
        asm.op("mov", _END, "r2")
        asm.op("movs", self._MASK, "#255")
        asm.op("lsls", "r5", self._MASK, "#16")
        asm.op("orrs", self._MASK, "r5")
        asm.op("movs", "r5", "#0")
        for acc in self._accs:
            asm.op("mov", acc, "r5")

    @contextmanager
    def segments(self) -> Iterator[None]:
        with self.asm.loop("segment", "segment", aligned=False):
            yield
            self.asm.until_equal("r1", _END, "segment", "bne")

    def start(self) -> None:
        self.asm.op("ldm", f"{_X}!", "{r7}")
        self.asm.op("mov", self._sums[1], "r7")

    def factors(self, words: Sequence[int]) -> None:
        self.asm.op("ldm", f"{_X}!", "{r2, r3}")

    def pair(self, lane: int, word: int) -> None:
        asm = self.asm
        asm.op("ldr", "r4", f"[r1, #{WORD_BYTES * word + 4 * lane}]")
        asm.op("mov", "r5", "r4")
        asm.op("ands", "r5", self._MASK)
        asm.op("muls", "r5", "r2", "r5")
        asm.op("add", self._sums[lane], "r5")
        asm.op("lsrs", "r4", "r4", "#8")
        asm.op("ands", "r4", self._MASK)
        asm.op("muls", "r4", "r3", "r4")
        asm.op("add", self._sums[lane], "r4")

    def add(self, lane: int) -> None:
        total = self._sums[lane]
        if total != "r7":
            self.asm.op("mov", "r4", total)
            total = "r4"
        self.asm.op("asrs", total, total, "#16")
        self.asm.op("add", self._accs[lane], total)

    def step(self) -> None:
        self.asm.op("adds", "r1", f"#{WORD_BYTES * self.segment}")

    def leave(self) -> None:
        asm = self.asm
        for low, acc in zip(("r2", "r3"), self._accs, strict=True):
            asm.op("mov", low, acc)
        restore(asm)
        asm.op("pop", "{r4}")
        asm.op("stm", "r4!", "{r2, r3}")
        asm.restore("{r4-r7, lr}")


class Thumb1Columns(ColumnsCore[Asm]):
    """The words of `columns.py`. r0 columns, r1 weights and then a column, r2 a pixel, r3 a product; weights are on the
    stack, but for the last two in r12 and lr."""

    def __init__(self, stride: int) -> None:
        self.stride, self.asm = stride, assembler()
        self._held = {7: "r12", 8: "lr"}
        self._frame = Frame([f"w{i}" for i in range(9) if i not in self._held], saved=5)
        self._pixel = "r2"

    @property
    def _sums(self) -> Sequence[str]:
        return ("r4", "r5", "r6") if self.stride == 1 else ("r4",)

    def enter(self) -> None:
        asm = self.asm
        asm.save("{r4-r7, lr}", frame=self._frame.size)
        asm.note("weights, to the stack and to high registers")
        for number in range(9):
            asm.op("movs", "r3", f"#{number}")
            asm.op("ldrsb", "r3", "[r1, r3]")
            if number in self._held:
                asm.op("mov", self._held[number], "r3")
            else:
                asm.op("str", "r3", self._frame.at(f"w{number}"))
        if self.stride == 1:
            asm.op("mov", "r7", "r2")
        else:  # r5: where the next sum goes, r6: the end
            asm.op("mov", "r5", _X)
            asm.op("lsls", "r6", "r2", "#2")
            asm.op("adds", "r6", "r6", _X)

    @contextmanager
    def turns(self) -> Iterator[None]:
        with self.asm.loop("turns", "turn", aligned=False):
            self.asm.note("a turn: pixels out of their columns, products, sums to the columns that are used up")
            yield
            if self.stride == 1:
                self.asm.op("subs", "r7", "#3")
                self.asm.branch("bgt", "turns")
            else:
                self.asm.until_equal("r5", "r6", "turns", "bne")

    def pixel(self, column: int, ky: int) -> None:
        asm = self.asm
        self._pixel = "r1" if ky == 2 else "r2"
        if ky == 0:
            asm.op("ldr", "r1", f"[{_X}, #{WORD * column}]")
            asm.op("sxtb", "r2", "r1")
        elif ky == 1:
            asm.op("lsls", "r2", "r1", "#16")
            asm.op("asrs", "r2", "r2", "#24")
        else:
            asm.op("asrs", "r1", "r1", "#24")

    def multiply(self, total: int, ky: int, kx: int) -> None:
        asm, number, register = self.asm, 3 * ky + kx, self._sums[total]
        product = register if number == 0 else "r3"
        if number in self._held:
            asm.op("mov", product, self._held[number])
        else:
            asm.op("ldr", product, self._frame.at(f"w{number}"))
        asm.op("muls", product, self._pixel, product)
        if product != register:
            asm.op("adds", register, register, product)

    def store(self, total: int) -> None:
        if self.stride == 1:
            self.asm.op("stm", f"{_X}!", f"{{{self._sums[total]}}}")
        else:
            self.asm.op("adds", _X, f"#{2 * WORD}")
            self.asm.op("stm", "r5!", "{r4}")

    def leave(self) -> None:
        self.asm.restore()
