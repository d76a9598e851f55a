# SPDX-License-Identifier: Apache-2.0
"""The loops on RV32IM: sums of eight or four channels in registers, weights of each four behind a pointer of their
own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinyc.kernels.scalar.loops.pairs import WORD_BYTES, PairsCore
from tinyc.kernels.scalar.loops.products import Products, ProductsCore
from tinyc.machine.riscv import SAVED, RiscvAsm, RiscvFrame

_X, _W, _BYTES, _TO = "a0", "a1", "a2", "a3"
_END, _STOP, _PRODUCT = "a5", "a6", "a7"  # of x, of the product
_INPUTS, _WEIGHT = ("t0", "t1"), "t2"


class Rv32Products(ProductsCore[RiscvAsm]):
    """The words of `products.py`, of `many`. a0 x, a1 and with eight lanes a4 weights, a2 bytes of a product in x, a3
    where the sums go."""

    begins = True

    def __init__(self, loop: Products, lanes: int) -> None:
        self.loop, self.asm, self.lanes = loop, RiscvAsm(), lanes
        self._pointers = (_W, "a4")[: lanes // 4]
        free = ["a4"] * (lanes == 4) + [f"t{i}" for i in range(3, 7)] + [f"s{i}" for i in range(12)]
        self._sums = free[: lanes * loop.inputs]
        self._saved = [name for name in self._sums if name in SAVED]

    def enter(self) -> None:
        asm, loop = self.asm, self.loop
        asm.save(RiscvFrame(self._saved).size, self._saved)
        asm.op("mv", _END, _TO)
        if self.lanes == 8:  # the weights of the last four lie behind the others
            asm.op("sub", "a4", _TO, _X)
            if loop.narrow:
                asm.op("add", "a4", "a4", "a4")
            asm.op("add", "a4", "a4", _W)

    @contextmanager
    def products(self) -> Iterator[None]:
        with self.asm.loop("product", "product", aligned=False):
            self.asm.op("add", _STOP, _X, _BYTES)
            yield
            self.asm.branch("bne", "product", _X, _END)

    @contextmanager
    def unless_done(self) -> Iterator[None]:
        self.asm.branch("beq", "summed", _X, _STOP)
        yield
        self.asm.label("summed")

    @contextmanager
    def turns(self) -> Iterator[None]:
        with self.asm.loop("turns", "turn", aligned=False, of_call=True):
            yield
            self.asm.branch("bne", "turns", _X, _STOP)

    def inputs(self, tap: int) -> None:
        size = self.loop.tap_bytes // self.loop.inputs
        for number, name in enumerate(_INPUTS):
            self.asm.op("lh" if self.loop.narrow else "lw", name, f"{self.loop.tap_bytes * tap + size * number}({_X})")

    def weight(self, tap: int, lane: int) -> None:
        at = (self.loop.apart * tap + lane % 4) * self.loop.weight_bytes
        self.asm.op("lh", _WEIGHT, f"{at}({self._pointers[lane // 4]})")

    def multiply(self, tap: int, lane: int, number: int, sets: bool) -> None:
        total = self._sums[lane * self.loop.inputs + number]
        self.asm.op("mul", total if sets else _PRODUCT, _INPUTS[number], _WEIGHT)
        if not sets:
            self.asm.op("add", total, total, _PRODUCT)

    def step(self) -> None:
        self.asm.add(_X, _X, self.loop.turn_bytes)
        for pointer in self._pointers:
            self.asm.add(pointer, pointer, self.loop.turn_weights)

    def store(self) -> None:
        self.asm.words("sw", self._sums, _TO)
        self.asm.add(_TO, _TO, 4 * len(self._sums))

    def leave(self) -> None:
        self.asm.restore()


class Rv32Pairs(PairsCore[RiscvAsm]):
    """The words of `pairs.py`. a0 x, a1 and a2 weights, a3 where the accumulators go, a4 end of the first weights, a5 a
    mask, a6 and a7 halves of a word, t0 a segment's sum, t1 its start."""

    lanes, held = 8, 4
    _MASK, _SUM, _START = "a5", "t0", "t1"

    def __init__(self, segment: int) -> None:
        self.segment, self.asm = segment, RiscvAsm()
        self._pointers = (_W, "a2")
        self._accs = ["t2", "t3", "t4", "t5", "t6", "s0", "s1", "s2"]
        self._factors = [f"s{3 + i}" for i in range(2 * segment)]
        self._saved = [*self._accs[5:], *self._factors]

    def enter(self) -> None:
        asm = self.asm
        asm.save(RiscvFrame(self._saved).size, self._saved)
        asm.op("slli", "a2", "a2", "4")
        asm.op("add", "a2", "a2", _W)
        asm.op("mv", "a4", "a2")
        asm.op("lui", self._MASK, str(0x00FF00FF >> 12))
        asm.add(self._MASK, self._MASK, 0xFF)
        for acc in self._accs:
            asm.op("li", acc, "0")

    @contextmanager
    def segments(self) -> Iterator[None]:
        with self.asm.loop("segment", "segment", aligned=False):
            yield
            self.asm.branch("bne", "segment", _W, "a4")

    def start(self) -> None:
        self.asm.op("lw", self._START, f"0({_X})")

    def factors(self, words: Sequence[int]) -> None:
        self.asm.words("lw", self._factors, _X, 4)

    def pair(self, lane: int, word: int) -> None:
        asm, total = self.asm, self._SUM
        asm.op("lw", "a6", f"{WORD_BYTES * word + 4 * (lane % 4)}({self._pointers[lane // 4]})")
        asm.op("and", "a7", "a6", self._MASK)
        asm.op("srli", "a6", "a6", "8")
        asm.op("and", "a6", "a6", self._MASK)
        asm.op("mul", "a7", "a7", self._factors[2 * word])
        asm.op("mul", "a6", "a6", self._factors[2 * word + 1])
        asm.op("add", total, self._START if word == 0 else total, "a7")
        asm.op("add", total, total, "a6")

    def add(self, lane: int) -> None:
        acc = self._accs[lane]
        self.asm.op("srai", self._SUM, self._SUM, "16")
        self.asm.op("add", acc, acc, self._SUM)

    def step(self) -> None:
        self.asm.add(_X, _X, 4 * (1 + 2 * self.segment))
        for pointer in self._pointers:
            self.asm.add(pointer, pointer, WORD_BYTES * self.segment)

    def leave(self) -> None:
        self.asm.words("sw", self._accs, _TO)
        self.asm.restore()
