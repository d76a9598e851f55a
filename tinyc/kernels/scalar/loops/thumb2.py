# SPDX-License-Identifier: Apache-2.0
"""The loops on ARMv7-M: sums of four channels in r4-r11, products added as they are made, accesses that move their
pointer on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinyc.kernels.scalar.loops.columns import WORD, ColumnsCore
from tinyc.kernels.scalar.loops.pairs import WORD_BYTES, PairsCore
from tinyc.kernels.scalar.loops.products import Products, ProductsCore
from tinyc.machine.cores import CORES
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm

_X, _W, _COUNT, _TO = "r0", "r1", "r2", "r3"
_PLACES = ((28, 24, 12, 8), (20, 16, 4, 0))  # bits of a word from which on it holds the weights of two taps


def assembler() -> Asm:
    return Asm(CORES["cortex-m3"])


def _clear(asm: Asm, registers: Sequence[str]) -> None:
    for register in registers[:4]:
        asm.op("movs", register, "#0")
    for register in registers[4:]:
        asm.op("mov", register, registers[0])


class Thumb2Products(ProductsCore[Asm]):
    """The words of `products.py`. r0 x, r1 weights, r2 turns, r3 where the sums go."""

    def __init__(self, loop: Products) -> None:
        self.loop, self.asm, self.begins = loop, assembler(), loop.many
        self._sums = [f"r{4 + i}" for i in range(self.lanes * loop.inputs)]
        self._frame = Frame(("turns", "sums", "end"))
        # Words that belong to one tap: there is room for those of four.
        self._one = loop.inputs == 1
        self._inputs: Sequence[str] = ("r8", "r9", "r10", "r11") if self._one else ("r3", "r12")
        self._weights = ("r12", "lr") if self._one else ("lr",)

    @property
    def batches(self) -> tuple[tuple[int, ...], ...]:
        size = len(self._weights)
        return tuple(tuple(range(first, first + size)) for first in range(0, self.lanes, size))

    def enter(self) -> None:
        asm, loop = self.asm, self.loop
        first = "r4" if loop.many or self._one else "r2" if loop.weight == "s4" else "r3"
        asm.save(f"{{{first}-r11, lr}}", frame=self._frame.size if loop.many else 0)
        if not loop.many:
            _clear(asm, self._sums)
            return
        asm.op("lsr", _COUNT, _COUNT, f"#{loop.turn_bytes.bit_length() - 1}")
        asm.op("subs", _COUNT, _COUNT, "#1")
        asm.op("strd", _COUNT, _TO, self._frame.at("turns"))
        asm.op("str", _TO, self._frame.at("end"))

    @contextmanager
    def products(self) -> Iterator[None]:
        with self.asm.loop("product", "product"):
            yield
            self.asm.until_equal(_X, "r12", "product")

    @contextmanager
    def unless_done(self) -> Iterator[None]:
        self.asm.op("ldr", _COUNT, self._frame.at("turns"))
        self.asm.op("cmp", _COUNT, "#0")
        self.asm.branch("beq", "summed")
        yield
        self.asm.label("summed")

    @contextmanager
    def turns(self) -> Iterator[None]:
        with self.asm.loop("turns", "turn", of_call=True):
            yield
            if self.loop.weight == "s4":  # r2 is the end, and was needed
                self.asm.op("ldr", "lr", "[sp]")
                self.asm.until_equal(_X, "lr", "turns", "bne")
            else:
                self.asm.op("subs", _COUNT, _COUNT, "#1")
                self.asm.branch("bne", "turns")

    def inputs(self, tap: int) -> None:
        asm, loop, names = self.asm, self.loop, self._inputs
        if self._one:
            if tap == 0:
                asm.load_multiple(_X, names)
        elif loop.narrow:
            asm.op("ldrsh", names[0], *_walked(_X, loop.tap_bytes * tap, loop.turn_bytes))
            asm.op("ldrsh", names[1], f"[{_X}, #{loop.tap_bytes * tap + 2 - loop.turn_bytes}]")
        else:
            asm.op("ldrd", *names, *_walked(_X, loop.tap_bytes * tap, loop.turn_bytes))

    def weight(self, tap: int, lane: int) -> None:
        asm, loop = self.asm, self.loop
        register = self._weights[lane % len(self._weights)]
        if loop.weight == "s4":
            if tap % 2 == 0 and lane == 0:
                asm.op("ldr", _COUNT, f"[{_W}]", "#4")
            asm.op("sbfx", register, _COUNT, f"#{_PLACES[tap % 2][lane]}", "#4")
        else:
            at = (loop.apart * tap + lane) * loop.weight_bytes
            asm.op("ldrsb" if loop.weight == "s8" else "ldrsh", register, *_walked(_W, at, loop.turn_weights))

    def multiply(self, tap: int, lane: int, number: int, sets: bool) -> None:
        weight, total = self._weights[lane % len(self._weights)], self._sums[lane * self.loop.inputs + number]
        factor = self._inputs[tap if self._one else number]
        if sets:
            self.asm.op("mul", total, weight, factor)
        else:
            self.asm.op("mla", total, weight, factor, total)

    def store(self) -> None:
        asm = self.asm
        sums = f"{{{self._sums[0]}-{self._sums[-1]}}}"
        if self.loop.many:
            asm.op("ldrd", _TO, "r12", self._frame.at("sums"))
            asm.op("stm", f"{_TO}!", sums)
            asm.op("str", _TO, self._frame.at("sums"))
        elif self._one:
            asm.op("stm", _TO, sums)
        else:
            asm.op("pop", "{r2, r3}" if self.loop.weight == "s4" else "{r3}")
            asm.op("stm", _TO, sums)

    def leave(self) -> None:
        self.asm.restore("{r4-r11, lr}")


class Thumb2Pairs(PairsCore[Asm]):
    """The words of `pairs.py`. r0 x, r1 weights, r2 their words and then their end, r3 a mask, r4 a segment's start;
    the last lane's sum takes its place."""

    lanes, held = 2, 2
    _MASK = "r3"

    def __init__(self, segment: int) -> None:
        self.segment, self.asm = segment, assembler()
        self._sums, self._accs = ("lr", "r4"), ("r9", "r10")
        self._factors = ("r5", "r6", "r7", "r8")

    def enter(self) -> None:
        self.asm.save("{r3-r11, lr}")
        self.asm.op("add", "r2", _W, "r2", "lsl #4")
        self.asm.op("mov", self._MASK, "#0x00ff00ff")
        for acc in self._accs:
            self.asm.op("mov", acc, "#0")

    @contextmanager
    def segments(self) -> Iterator[None]:
        with self.asm.loop("segment", "segment"):
            yield
            self.asm.until_equal(_W, "r2", "segment", "bne")

    def factors(self, words: Sequence[int]) -> None:
        first = ("r4",) if words[0] == 0 else ()
        self.asm.load_multiple(_X, (*first, *self._factors[: 2 * len(words)]))

    def pair(self, lane: int, word: int) -> None:
        asm, total, place = self.asm, self._sums[lane], 2 * (word % self.held)
        asm.op("ldr", "r11", f"[{_W}, #{WORD_BYTES * word + 4 * lane}]")
        asm.op("and", "r12", "r11", self._MASK)
        asm.op("and", "r11", self._MASK, "r11", "lsr #8")
        asm.op("mla", total, "r12", self._factors[place], "r4" if word == 0 else total)
        asm.op("mla", total, "r11", self._factors[place + 1], total)

    def add(self, lane: int) -> None:
        acc = self._accs[lane]
        self.asm.op("add", acc, acc, self._sums[lane], "asr #16")

    def step(self) -> None:
        self.asm.op("add", _W, _W, f"#{WORD_BYTES * self.segment}")

    def leave(self) -> None:
        self.asm.op("pop", "{r3}")
        self.asm.op("strd", *self._accs, "[r3]")
        self.asm.restore("{r4-r11, lr}")


class Thumb2Columns(ColumnsCore[Asm]):
    """The words of `columns.py`. r0 columns, r1 weights and then a pixel, r2 pixels of the row; the nine weights stay
    in r2-r10."""

    def __init__(self, stride: int) -> None:
        self.stride, self.asm = stride, assembler()
        self._weights = [f"r{2 + i}" for i in range(9)]
        self._sums = ("r11", "r12", "lr")

    def enter(self) -> None:
        asm = self.asm
        asm.save("{r2, r4-r11, lr}" if self.stride == 1 else "{r4-r11, lr}")
        if self.stride == 2:  # lr: where the next sum goes, r12: the end
            asm.op("mov", "lr", _X)
            asm.op("add", "r12", _X, "r2", "lsl #2")
        asm.note("weights")
        for number, register in enumerate(self._weights):
            asm.op("ldrsb", register, f"[{_W}, #{number}]")

    @contextmanager
    def turns(self) -> Iterator[None]:
        asm = self.asm
        with asm.loop("turns", "turn"):
            asm.note("a turn: pixels out of their columns, products, sums to the columns that are used up")
            yield
            if self.stride == 1:
                asm.op("ldr", "r1", "[sp]")
                asm.op("subs", "r1", "r1", "#3")
                asm.op("str", "r1", "[sp]")
                asm.branch("bgt", "turns")
            else:
                asm.until_equal("lr", "r12", "turns", "bne")

    def pixel(self, column: int, ky: int) -> None:
        self.asm.op("ldrsb", "r1", f"[{_X}, #{WORD * column + (0, 1, 3)[ky]}]")

    def multiply(self, total: int, ky: int, kx: int) -> None:
        register, weight = self._sums[total], self._weights[3 * ky + kx]
        if ky == kx == 0:
            self.asm.op("mul", register, "r1", weight)
        else:
            self.asm.op("mla", register, "r1", weight, register)

    def store(self, total: int) -> None:
        if self.stride == 1:
            self.asm.op("str", self._sums[total], f"[{_X}]", f"#{WORD}")
        else:
            self.asm.op("add", _X, _X, f"#{2 * WORD}")
            self.asm.op("str", self._sums[total], "[lr]", f"#{WORD}")

    def leave(self) -> None:
        self.asm.restore()


def _walked(register: str, at: int, turn: int) -> tuple[str, ...]:
    """An address of a turn, whose first access moves the pointer on to the next turn."""
    return (f"[{register}]", f"#{turn}") if at == 0 else (f"[{register}, #{at - turn}]",)
