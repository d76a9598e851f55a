# SPDX-License-Identifier: Apache-2.0
"""The loops in C, for every other machine: the same words, printed as statements on unsigned numbers, whose sums are
those modulo 2^32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tinyc.kernels.scalar.loops.columns import ColumnsCore
from tinyc.kernels.scalar.loops.pairs import PairsCore
from tinyc.kernels.scalar.loops.products import Products, ProductsCore

_PLACES = ((28, 24, 12, 8), (20, 16, 4, 0))  # as of Thumb2Products


class Statements:
    """Lines of a function's body."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._depth = 1

    def add(self, line: str) -> None:
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.add(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.add("}")


class PlainProducts(ProductsCore[Statements]):
    """The words of `products.py`; x, w, count or bytes or end, and sums are the function's parameters."""

    def __init__(self, loop: Products) -> None:
        self.loop, self.asm = loop, Statements()

    def enter(self) -> None:
        loop = self.loop
        if loop.many:
            self.asm.add(f"const {self._type} *const end = (const {self._type} *)(const void *)sums;")
        if not loop.many:
            self._clear()
        self.asm.add(f"uint32_t {', '.join(f'x{i}' for i in range(loop.inputs))}, weight;")

    def _clear(self) -> None:
        self.asm.add(f"uint32_t {', '.join(f'sum{i} = 0' for i in range(self.lanes * self.loop.inputs))};")

    @property
    def _type(self) -> str:
        return "int16_t" if self.loop.narrow else "int32_t"

    @contextmanager
    def products(self) -> Iterator[None]:
        size = 2 if self.loop.narrow else 4
        with self.asm.block("while (x < end)"):
            self.asm.add(f"const {self._type} *const stop = x + bytes / {size};")
            self._clear()
            yield

    @contextmanager
    def turns(self) -> Iterator[None]:
        head = "x < stop" if self.loop.many else "x < end" if self.loop.weight == "s4" else "count-- > 0"
        with self.asm.block(f"while ({head})"):
            yield

    def inputs(self, tap: int) -> None:
        for number in range(self.loop.inputs):
            self.asm.add(f"x{number} = (uint32_t)x[{self.loop.inputs * tap + number}];")

    def weight(self, tap: int, lane: int) -> None:
        if self.loop.weight == "s4":
            word = f"(uint32_t)w[{tap // 2}] << {28 - _PLACES[tap % 2][lane]}"
            self.asm.add(f"weight = (uint32_t)((int32_t)({word}) >> 28);")
        else:
            self.asm.add(f"weight = (uint32_t)w[{self.loop.apart * tap + lane}];")

    def multiply(self, tap: int, lane: int, number: int, sets: bool) -> None:
        total = f"sum{lane * self.loop.inputs + number}"
        self.asm.add(f"{total} {'=' if sets else '+='} weight * x{number};")

    def step(self) -> None:
        words = 2 if self.loop.weight == "s4" else self.loop.taps * self.loop.apart
        self.asm.add(f"x += {self.loop.taps * self.loop.inputs};")
        self.asm.add(f"w += {words};")

    def store(self) -> None:
        for number in range(self.lanes * self.loop.inputs):
            self.asm.add(f"sums[{number}] = (int32_t)sum{number};")
        if self.loop.many:
            self.asm.add(f"sums += {self.lanes * self.loop.inputs};")


class PlainPairs(PairsCore[Statements]):
    """The words of `pairs.py`, of one output."""

    lanes = 1

    def __init__(self, segment: int) -> None:
        self.segment, self.held, self.asm = segment, segment, Statements()

    def enter(self) -> None:
        self.asm.add("int32_t sum = 0;")

    @contextmanager
    def segments(self) -> Iterator[None]:
        with self.asm.block(f"for (; words > 0; words -= {self.segment})"):
            yield

    def start(self) -> None:
        self.asm.add("uint32_t part = *x++;")

    def pair(self, lane: int, word: int) -> None:
        place, weights = 2 * word, f"w[{4 * word}]"
        self.asm.add(
            f"part += x[{place}] * ({weights} & 0x00ff00ffu) + x[{place + 1}] * ({weights} >> 8 & 0x00ff00ffu);"
        )

    def add(self, lane: int) -> None:
        self.asm.add("sum += (int32_t)part >> 16;")

    def step(self) -> None:
        self.asm.add(f"x += {2 * self.segment};")
        self.asm.add(f"w += {4 * self.segment};")

    def leave(self) -> None:
        self.asm.add("*acc = sum;")


class PlainColumns(ColumnsCore[Statements]):
    """The words of `columns.py`."""

    def __init__(self, stride: int) -> None:
        self.stride, self.asm = stride, Statements()

    def enter(self) -> None:
        self.asm.add(f"int32_t {', '.join(f'sum{i}' for i in range(3 if self.stride == 1 else 1))}, pixel;")
        if self.stride == 2:
            self.asm.add("int32_t *to = columns;")

    @contextmanager
    def turns(self) -> Iterator[None]:
        with self.asm.block(f"for (; n > 0; n -= {3 if self.stride == 1 else 1})"):
            yield

    def pixel(self, column: int, ky: int) -> None:
        word = f"columns[{column}]"
        self.asm.add(f"pixel = {(f'(int8_t){word}', f'(int8_t)({word} >> 8)', f'{word} >> 24')[ky]};")

    def multiply(self, total: int, ky: int, kx: int) -> None:
        self.asm.add(f"sum{total} {'=' if ky == kx == 0 else '+='} pixel * w[{3 * ky + kx}];")

    def store(self, total: int) -> None:
        if self.stride == 1:
            self.asm.add(f"*columns++ = sum{total};")
        else:
            self.asm.add("columns += 2;")
            self.asm.add(f"*to++ = sum{total};")
