# SPDX-License-Identifier: Apache-2.0
"""The loops in C, for every other machine: the same words, printed as statements on unsigned numbers, whose sums are
those modulo 2^32."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tinyc.kernels.scalar.loops.products import Products

LANES = 4
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


class PlainProducts:
    """The words of `products.py`; x, w, count or bytes or end, and sums are the function's parameters."""

    def __init__(self, loop: Products) -> None:
        self.loop, self.c = loop, Statements()

    @property
    def batches(self) -> tuple[tuple[int, ...], ...]:
        return tuple((lane,) for lane in range(LANES))

    @property
    def begins(self) -> bool:
        return False

    def enter(self) -> None:
        loop = self.loop
        if loop.many:
            self.c.add(f"const {self._type} *const end = (const {self._type} *)(const void *)sums;")
        if not loop.many:
            self._clear()
        self.c.add(f"uint32_t {', '.join(f'x{i}' for i in range(loop.inputs))}, weight;")

    def _clear(self) -> None:
        self.c.add(f"uint32_t {', '.join(f'sum{i} = 0' for i in range(LANES * self.loop.inputs))};")

    @property
    def _type(self) -> str:
        return "int16_t" if self.loop.narrow else "int32_t"

    @contextmanager
    def products(self) -> Iterator[None]:
        if not self.loop.many:
            yield
            return
        size = 2 if self.loop.narrow else 4
        with self.c.block("while (x < end)"):
            self.c.add(f"const {self._type} *const stop = x + bytes / {size};")
            self._clear()
            yield

    @contextmanager
    def unless_done(self) -> Iterator[None]:
        yield

    @contextmanager
    def turns(self) -> Iterator[None]:
        head = "x < stop" if self.loop.many else "x < end" if self.loop.weight == "s4" else "count-- > 0"
        with self.c.block(f"while ({head})"):
            yield

    def inputs(self, tap: int) -> None:
        for number in range(self.loop.inputs):
            self.c.add(f"x{number} = (uint32_t)x[{self.loop.inputs * tap + number}];")

    def weight(self, tap: int, lane: int) -> None:
        if self.loop.weight == "s4":
            word = f"(uint32_t)w[{tap // 2}] << {28 - _PLACES[tap % 2][lane]}"
            self.c.add(f"weight = (uint32_t)((int32_t)({word}) >> 28);")
        else:
            self.c.add(f"weight = (uint32_t)w[{self.loop.apart * tap + lane}];")

    def multiply(self, tap: int, lane: int, number: int, sets: bool) -> None:
        total = f"sum{lane * self.loop.inputs + number}"
        self.c.add(f"{total} {'=' if sets else '+='} weight * x{number};")

    def step(self) -> None:
        words = 2 if self.loop.weight == "s4" else self.loop.taps * self.loop.apart
        self.c.add(f"x += {self.loop.taps * self.loop.inputs};")
        self.c.add(f"w += {words};")

    def store(self) -> None:
        for number in range(LANES * self.loop.inputs):
            self.c.add(f"sums[{number}] = (int32_t)sum{number};")
        if self.loop.many:
            self.c.add(f"sums += {LANES * self.loop.inputs};")

    def leave(self) -> None:
        pass


class PlainPairs:
    """The words of `pairs.py`, of one output."""

    lanes = 1

    def __init__(self, segment: int) -> None:
        self.segment, self.held, self.c = segment, segment, Statements()

    def enter(self) -> None:
        self.c.add("int32_t sum = 0;")

    @contextmanager
    def segments(self) -> Iterator[None]:
        with self.c.block(f"for (; words > 0; words -= {self.segment})"):
            yield

    def start(self) -> None:
        self.c.add("uint32_t part = *x++;")

    def factors(self, words: Sequence[int]) -> None:
        pass

    def pair(self, lane: int, word: int) -> None:
        place, weights = 2 * word, f"w[{4 * word}]"
        self.c.add(f"part += x[{place}] * ({weights} & 0x00ff00ffu) + x[{place + 1}] * ({weights} >> 8 & 0x00ff00ffu);")

    def add(self, lane: int) -> None:
        self.c.add("sum += (int32_t)part >> 16;")

    def step(self) -> None:
        self.c.add(f"x += {2 * self.segment};")
        self.c.add(f"w += {4 * self.segment};")

    def leave(self) -> None:
        self.c.add("*acc = sum;")


class PlainColumns:
    """The words of `columns.py`."""

    def __init__(self, stride: int) -> None:
        self.stride, self.c = stride, Statements()

    def enter(self) -> None:
        self.c.add(f"int32_t {', '.join(f'sum{i}' for i in range(3 if self.stride == 1 else 1))}, pixel;")
        if self.stride == 2:
            self.c.add("int32_t *to = columns;")

    @contextmanager
    def turns(self) -> Iterator[None]:
        with self.c.block(f"for (; n > 0; n -= {3 if self.stride == 1 else 1})"):
            yield

    def pixel(self, column: int, ky: int) -> None:
        word = f"columns[{column}]"
        self.c.add(f"pixel = {(f'(int8_t){word}', f'(int8_t)({word} >> 8)', f'{word} >> 24')[ky]};")

    def multiply(self, total: int, ky: int, kx: int) -> None:
        self.c.add(f"sum{total} {'=' if ky == kx == 0 else '+='} pixel * w[{3 * ky + kx}];")

    def store(self, total: int) -> None:
        if self.stride == 1:
            self.c.add(f"*columns++ = sum{total};")
        else:
            self.c.add("columns += 2;")
            self.c.add(f"*to++ = sum{total};")

    def leave(self) -> None:
        pass
