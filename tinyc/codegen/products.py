"""The assembly of `products` of `tiles.py`: factors times weights, sums of products, and the way to int8.

Eight registers hold an accumulator per tile and channel. The sums over products are made inside them as far as can be:
a product is accumulated on top of the sum that it belongs to. The rest are passes over vectors of eight words in the
frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tinyc.codegen.finish import GROUP, Way
from tinyc.codegen.thumb import Asm, Work, naked_function
from tinyc.codegen.tiles import NINTH, Tiles, count_down

_ACC = tuple(f"r{i}" for i in range(2, 10))  # four channels of the first tile, then of the second
_STEPS = 32  # of a product without a loop
_VECTORS = {"f2": 5, "s2": 3, "f4": 15}  # in the frame


def products_function(name: str, tiles: Tiles) -> tuple[str, Work, list[tuple[int, int]]]:
    """`name(stream, constants, factors, y)`: text, instructions of a call, (row, column) products in order.

    y: m pointers to the first output of the pair in each output row.
    """
    writer = _Products(tiles)
    writer.write()
    parameters = (
        "const int32_t *stream",
        "const int32_t *constants",
        "const int32_t *factors",
        "int8_t *const *y",
    )
    return naked_function(name, parameters, writer.asm), writer.executed, writer.order


class _Products:
    """r0: stream, r1: factors, r2 ... r9: accumulators, r10 ... r14: factors, weights, temporaries."""

    def __init__(self, tiles: Tiles) -> None:
        self.tiles = tiles
        self.asm = Asm()
        self.order: list[tuple[int, int]] = []
        names = ["stream", "factors", "return", "constants", "groups", "turns", "ninth"]
        names += [f"y{a}" for a in range(tiles.form.m)]
        self._slots = {slot: 4 * i for i, slot in enumerate(names)}
        self._vectors: dict[str, int] = {}
        self._top = 4 * len(names)
        self.executed = Work()
        self._calls = {"onto": 0, "fresh": 0}

    def _at(self, slot: str) -> str:
        offset = self._slots[slot]
        return f"[sp, #{offset}]" if offset else "[sp]"

    def write(self) -> None:
        asm, tiles = self.asm, self.tiles
        size = self._top + 4 * len(_ACC) * _VECTORS[tiles.form.name]
        size += (4 - size) % 8  # with nine saved registers, a multiple of 8
        asm.op("push", "{r4-r11, lr}")
        asm.op("sub", "sp", "sp", f"#{size}")
        asm.op("str", "r1", self._at("constants"))
        for a in range(tiles.form.m):
            asm.op("ldr", "r4", f"[r3, #{4 * a}]")
            asm.op("str", "r4", self._at(f"y{a}"))
        asm.constant("r4", tiles.groups)
        asm.op("str", "r4", self._at("groups"))
        if tiles.ninth:
            asm.constant("r4", NINTH)
            asm.op("str", "r4", self._at("ninth"))
        asm.op("mov", "r1", "r2")
        self.executed = asm.size + 2
        asm.label("group", aligned=True)
        start = asm.size
        asm.op("ldm", "r0", "{r2-r5}")
        asm.op("ldm", "r0!", "{r6-r9}")
        {"f2": self._f2, "s2": self._s2, "f4": self._f4}[tiles.form.name]()
        asm.op("ldr", "r10", self._at("constants"))
        asm.add("r10", "r10", 4 * tiles.finish_words)
        asm.op("str", "r10", self._at("constants"))
        asm.add("r1", "r1", -4 * tiles.factor_words, "r10")
        count_down(asm, "r10", self._at("groups"), "group")
        per_group = asm.size - start
        asm.op("add", "sp", "sp", f"#{size}")
        asm.op("pop", "{r4-r11, pc}")
        if not tiles.inline:
            onto, fresh = self._subroutines()
            per_group += self._calls["onto"] * onto + self._calls["fresh"] * fresh
        self.executed += tiles.groups * per_group

    # ---- one product: all channels ----

    def _product(self, i: int, j: int, fresh: bool = False) -> None:
        """acc += (or, fresh, =) product (i, j)."""
        self.order.append((i, j))
        if self.tiles.inline:
            for step in range(self.tiles.steps):
                self._step("smuad" if fresh and step == 0 else "smlad")
            return
        kind = "fresh" if fresh else "onto"
        self._calls[kind] += 1
        self.asm.branch("bl", kind)

    def _subroutines(self) -> tuple[Work, Work]:
        """Executed instructions of "onto" and of "fresh"."""
        asm, steps = self.asm, self.tiles.steps
        turn = max(n for n in range(1, _STEPS + 1) if steps % n == 0)
        looped = steps > turn
        asm.label("fresh", aligned=True)
        start = asm.size
        if looped:
            for register in _ACC:
                asm.op("mov", register, "#0")
            fresh = asm.size - start
        else:
            asm.op("str", "r14", self._at("return"))
            self._step("smuad")
            asm.branch("b.w", "rest")
            fresh = asm.size - start
        asm.label("onto", aligned=True)
        start = asm.size
        asm.op("str", "r14", self._at("return"))
        if looped:
            asm.constant("r10", steps // turn)
            asm.op("str", "r10", self._at("turns"))
            around = asm.size - start
            asm.label("turn", aligned=True)
            start = asm.size
            for _ in range(turn):
                self._step("smlad")
            count_down(asm, "r10", self._at("turns"), "turn")
            onto = around + steps // turn * (asm.size - start) + 1
            asm.op("ldr", "pc", self._at("return"))
            return onto, fresh + onto
        self._step("smlad")
        rest = asm.size
        asm.label("rest")
        for _ in range(steps - 1):
            self._step("smlad")
        asm.op("ldr", "pc", self._at("return"))
        return asm.size - start, fresh + asm.size - rest

    def _step(self, op: str) -> None:
        """Two input channels of both tiles times four output channels."""
        asm = self.asm
        asm.op("ldrd", "r10", "r11", "[r1], #8")
        for pair in range(2):
            asm.op("ldrd", "r12", "r14", "[r0], #8")
            for channel, weight in enumerate(("r12", "r14")):
                for tile, x in enumerate(("r10", "r11")):
                    acc = _ACC[4 * tile + 2 * pair + channel]
                    asm.op(op, acc, x, weight, *((acc,) if op == "smlad" else ()))

    # ---- vectors of the eight accumulators, in the frame ----

    def _vector(self, name: str) -> int:
        if name not in self._vectors:
            self._vectors[name] = self._top
            self._top += 4 * len(_ACC)
        return self._vectors[name]

    def _store(self, name: str) -> None:
        self.asm.op("add", "r10", "sp", f"#{self._vector(name)}")
        self.asm.op("stm", "r10", "{r2-r9}")

    def _load(self, name: str) -> None:
        self.asm.op("add", "r10", "sp", f"#{self._vector(name)}")
        self.asm.op("ldm", "r10", "{r2-r9}")

    def _pairs(self, name: str) -> Iterator[tuple[str, tuple[str, str]]]:
        """Two words of the vector at a time in r10, r11, with the accumulators that they meet."""
        for i in range(0, len(_ACC), 2):
            at = f"[sp, #{self._vector(name) + 4 * i}]"
            self.asm.op("ldrd", "r10", "r11", at)
            yield at, (_ACC[i], _ACC[i + 1])

    def _add(self, name: str) -> None:
        """acc += vector."""
        for _, accs in self._pairs(name):
            for acc, held in zip(accs, ("r10", "r11"), strict=True):
                self.asm.op("add", acc, acc, held)

    def _sum_difference(self, name: str) -> None:
        """acc, vector = vector + acc, vector - acc."""
        for at, accs in self._pairs(name):
            for acc, held, new in zip(accs, ("r10", "r11"), ("r12", "r14"), strict=True):
                self.asm.op("sub", new, held, acc)
                self.asm.op("add", acc, acc, held)
            self.asm.op("strd", "r12", "r14", at)

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
        self._product(2, 2)
        self._store("t")
        self._product(0, 2)
        self._product(1, 2)
        self._store("shared0")
        self._load("t")
        self._product(3, 2)
        self._product(4, 2)
        self._store("shared1")
        for b, columns in ((0, (0, 1)), (1, (3, 4))):
            for j in columns:
                self._product(2, j, fresh=j == columns[0])
            self._store("t")
            for a, rows in ((0, (0, 1)), (1, (3, 4))):
                if a:
                    self._load("t")
                for j in columns:
                    for i in rows:
                        self._product(i, j)
                self._add(f"shared{a}")
                self._finish(a, b)

    def _f4(self) -> None:
        """With m_i the products of row i: s, S = m1 + m2, m3 + m4 are made by accumulation, d, D = m1 - m2, m3 - m4 by
        the way in the passes. Output rows: m0 + 4 s + S, 2 d + D, s + S, d + 2 D + m5; columns alike."""
        for j in (1, 2, 3, 4, 0, 5):
            self._product(1, j, fresh=j != 1)
            self._store("t")  # m1
            self._product(2, j)
            self._store("u")  # s
            self._product(3, j, fresh=True)
            self._store("v")  # m3
            self._product(4, j)
            self._f4_rows(j)
            self._product(0, j)
            self._f4_outer(0, j)
            if j not in (1, 2, 3):
                self._load("u")
                self._f4_outer(2, j)
                self._load("v")
                self._f4_outer(1, j)
            self._load("t")
            self._product(5, j)
            self._f4_outer(3, j)

    def _words(self, *names: str) -> Iterator[tuple[str, list[str]]]:
        """An accumulator and the places of its words in the vectors, which are in r10, r11, r12 then."""
        for i, acc in enumerate(_ACC):
            places = [f"[sp, #{self._vector(name) + 4 * i}]" for name in names]
            for register, place in zip(("r10", "r11", "r12"), places, strict=True):
                self.asm.op("ldr", register, place)
            yield acc, places

    def _f4_rows(self, j: int) -> None:
        """From acc: S, t: m1, u: s, v: m3 to acc: S + 4 s, u: S + s, v: D + 2 d, t: d + 2 D. The rows of u and v are
        ready: in columns 1 to 3 they go where `_f4_outer` would put them."""
        asm = self.asm
        row2, row1 = (f"2m{j}", f"1m{j}") if j in (1, 2, 3) else ("u", "v")
        for i, (acc, (t, _, _)) in enumerate(self._words("t", "u", "v")):
            u, v = (f"[sp, #{self._vector(row) + 4 * i}]" for row in (row2, row1))
            asm.op("rsb", "r10", "r11", "r10", "lsl #1")  # d
            asm.op("rsb", "r12", acc, "r12", "lsl #1")  # D
            asm.op("add", "r14", acc, "r11")
            asm.op("add", acc, acc, "r11", "lsl #2")
            asm.op("str", "r14", u)
            asm.op("add", "r11", "r12", "r10", "lsl #1")
            asm.op("str", "r11", v)
            asm.op("add", "r10", "r10", "r12", "lsl #1")
            asm.op("str", "r10", t)

    def _f4_outer(self, a: int, j: int) -> None:
        if j in (1, 2, 3):
            self._store(f"{a}m{j}")
        elif j == 4:
            self._f4_columns(a)
            self._finish(a, 2)
            self._load(f"{a}m2")
            self._finish(a, 1)
        elif j == 0:
            self._add(f"{a}m1")
            self._finish(a, 0)
        else:
            self._add(f"{a}m3")
            self._finish(a, 3)

    def _f4_columns(self, a: int) -> None:
        """From acc: m4 and m1, m2, m3 to acc: s + S, m1: 4 s + S, m2: 2 d + D, m3: d + 2 D."""
        asm = self.asm
        for acc, (m1, m2, m3) in self._words(f"{a}m1", f"{a}m2", f"{a}m3"):
            asm.op("sub", "r14", "r10", "r11")  # d
            asm.op("add", "r10", "r10", "r11")  # s
            asm.op("sub", "r11", "r12", acc)  # D
            asm.op("add", "r12", "r12", acc)  # S
            asm.op("add", acc, "r10", "r12")
            asm.op("add", "r10", "r12", "r10", "lsl #2")
            asm.op("str", "r10", m1)
            asm.op("add", "r12", "r11", "r14", "lsl #1")
            asm.op("str", "r12", m2)
            asm.op("add", "r14", "r14", "r11", "lsl #1")
            asm.op("str", "r14", m3)

    # ---- to int8 ----

    def _finish(self, a: int, b: int) -> None:
        """Outputs (a, b) of both tiles."""
        asm, tiles, form = self.asm, self.tiles, self.tiles.form
        raised = form.raised[a] + form.raised[b]
        if tiles.ninth:
            asm.op("ldr", "r10", self._at("ninth"))
            for acc in _ACC:
                asm.op("mul", acc, acc, "r10")
        way, block = tiles.way, 0
        if raised and tiles.lowers:
            for acc in _ACC:
                asm.op("asr", acc, acc, f"#{raised}")
        elif not tiles.lowers:
            assert way.shifts is not None
            way = replace(way, shifts=(way.shifts[0] + raised,) * GROUP)
            block = tiles.raises.index(raised)
        asm.op("ldr", "r14", self._at(f"y{a}"))
        if way.constants == 3:
            self._scale_with_three(way, block, b)
        else:
            self._scale_with_two(way, block, b)
        if b == form.m - 1:  # the last of the row
            asm.op("add", "r14", "r14", f"#{GROUP}")
            asm.op("str", "r14", self._at(f"y{a}"))

    def _scale_with_two(self, way: Way, block: int, b: int) -> None:
        asm = self.asm
        if way.sign:
            asm.op("str", "r1", self._at("factors"))
        asm.op("ldr", "r12", self._at("constants"))
        for channel in range(GROUP):
            at = 8 * (block * GROUP + channel)
            asm.op("ldrd", "r10", "r11", f"[r12, #{at}]" if at else "[r12]")
            for tile, temp in enumerate(("r1", "r11")):
                self._output(way, b, tile, channel, ("r10", "r11"), temp)
        if way.sign:
            asm.op("ldr", "r1", self._at("factors"))

    def _scale_with_three(self, way: Way, block: int, b: int) -> None:
        """r0 and r1 lend themselves."""
        asm = self.asm
        asm.op("strd", "r0", "r1", self._at("stream"))
        asm.op("ldr", "r12", self._at("constants"))
        asm.add("r12", "r12", 12 * block * GROUP)
        for channel in range(GROUP):
            asm.op("ldm", "r12!", "{r1, r10, r11}")
            for tile in range(2):
                self._output(way, b, tile, channel, ("r1", "r10", "r11"), "r0")
        asm.op("ldrd", "r0", "r1", self._at("stream"))

    def _output(self, way: Way, b: int, tile: int, channel: int, constants: tuple[str, ...], temp: str) -> None:
        """Scales and stores an accumulator."""
        acc = _ACC[4 * tile + channel]
        way.emit(self.asm, 0, acc, "", constants, temp)
        place = (tile * self.tiles.form.m + b) * self.tiles.out_c + channel
        self.asm.op("strb", acc, f"[r14, #{place}]" if place else "[r14]")
