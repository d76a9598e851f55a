"""The assembly of exact fast convolutions (`bilinear.py`), two neighbouring tiles by four output channels at a time.

Three functions per layer; runtime_c/tc_tiles.h calls them tile pair by tile pair and has their portable twins:

* vertical: columns of int8 input, all channels, to sums over rows: strip [step][product row][column], a step
  being two channels of one word, channels (0, 2) and (1, 3) of each four;
* horizontal: a strip to factors [product][step][tile], products in the order of use; it also moves the strip's
  last columns to its front, where the next pair needs them;
* products: factors times weights, sums of products, and the way to int8.

In `products` eight registers hold an accumulator per tile and channel. The sums over products are made inside
them: a product is accumulated on top of the sum that it belongs to, and two of them become their sum and
difference at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tinyc.codegen.bilinear import F4, Form
from tinyc.codegen.finish import GROUP, Way
from tinyc.codegen.thumb import Asm, naked_function

_ACC = tuple(f"r{i}" for i in range(2, 10))  # four channels of the first tile, then of the second
_PAIR_REACH = 1020  # of the immediate of LDRD and STRD
_STEPS = 32  # of a product without a loop
_UNROLLED_QUADS = 4  # of a column
_VECTORS = {"f2": 5, "s2": 3, "f4": 15}  # in the frame of `products`
NINTH = 954437177  # 1/9 modulo 2^32


@dataclass(frozen=True, slots=True)
class Tiles:
    """What the code depends on. way: from sums to int8, for outputs that are raised least."""

    form: Form
    in_c: int
    out_c: int
    way: Way

    @property
    def quads(self) -> int:
        return -(-self.in_c // 4)

    @property
    def steps(self) -> int:
        """Words of two channels per product, tile and output channel."""
        return 2 * self.quads

    @property
    def columns(self) -> int:
        """Input columns of a pair of tiles."""
        return self.form.n + self.form.m * self.form.stride

    @property
    def carried(self) -> int:
        """Columns that the next pair of tiles uses again."""
        return self.columns - 2 * self.form.m * self.form.stride

    @property
    def groups(self) -> int:
        return self.out_c // GROUP

    @property
    def strip_words(self) -> int:
        return self.steps * self.form.products * self.columns

    @property
    def factor_words(self) -> int:
        return self.form.products**2 * self.steps * 2

    @property
    def lowers(self) -> bool:
        """Whether raised sums are shifted down first; else their multiples pass through the scaling."""
        return self.way.sign or self.way.shifts is None

    @property
    def raises(self) -> tuple[int, ...]:
        """The raises for which there are constants."""
        raised = self.form.raised
        return (0,) if self.lowers else tuple(sorted({a + b for a in raised for b in raised}))

    @property
    def group_words(self) -> int:
        """Words of the stream for four output channels: start values and weights."""
        return GROUP + self.form.products**2 * self.steps * GROUP

    @property
    def finish_words(self) -> int:
        """Words of constants for four output channels."""
        return len(self.raises) * GROUP * self.way.constants


# ---- vertical ----


def vertical_function(name: str, tiles: Tiles) -> tuple[str, int, int]:
    """`name(x, offset, columns, strip)`: text, instructions of a call, instructions of each column."""
    asm = Asm()
    asm.op("push", "{r4-r11, lr}")
    asm.op("sub", "sp", "sp", "#12")
    asm.op("str", "r2", "[sp]")
    to = _vertical_pointers(asm, tiles.form)
    around = asm.size + 2
    asm.label("column", aligned=True)
    executed = _vertical_column(asm, tiles, to)
    asm.op("add", "sp", "sp", "#12")
    asm.op("pop", "{r4-r11, pc}")
    parameters = ("const int8_t *const *x", "int32_t offset", "int32_t columns", "int32_t *strip")
    return naked_function(name, parameters, asm), around, executed


def _vertical_pointers(asm: Asm, form: Form) -> str:
    """Moves the arguments to where the columns expect them; the register of the strip."""
    if form is F4:  # too many rows for registers: see _vertical_f4
        asm.op("mov", "r2", "r0")
        asm.op("mov", "r0", "r1")
        asm.op("mov", "r1", "r3")
        return "r1"
    to = f"r{form.n}"
    asm.op("mov", "r12", "r0")
    asm.op("mov", "r14", "r1")
    asm.op("mov", to, "r3")
    for i in range(form.n):
        asm.op("ldr", f"r{i}", f"[r12, #{4 * i}]")
        asm.op("add", f"r{i}", f"r{i}", "r14")
    return to


def _vertical_column(asm: Asm, tiles: Tiles, to: str) -> int:
    """The loop over columns, whose label is set; executed instructions of each."""
    quad = {"f2": _vertical_f2, "s2": _vertical_s2, "f4": _vertical_f4}[tiles.form.name]
    quad_bytes = 8 * tiles.form.products * tiles.columns
    full, rest = divmod(tiles.in_c, 4)
    start = asm.size
    executed = 0
    if full > _UNROLLED_QUADS:
        asm.constant("r12", full)
        asm.op("str", "r12", "[sp, #4]")
        executed += asm.size - start
        asm.label("quad", aligned=True)
        start = asm.size
        quad(asm, tiles, 4)
        asm.add(to, to, quad_bytes)
        _count_down(asm, "r12", "[sp, #4]", "quad")
        executed += full * (asm.size - start)
        start = asm.size
    for channels in [4] * full * (full <= _UNROLLED_QUADS) + [rest] * (rest > 0):
        quad(asm, tiles, channels)
        asm.add(to, to, quad_bytes)
    asm.add(to, to, 4 - tiles.quads * quad_bytes, "r12")
    _count_down(asm, "r12", "[sp]", "column")
    return executed + asm.size - start


def _count_down(asm: Asm, temp: str, place: str, label: str) -> None:
    """Back to the label until the counter in memory is 0."""
    asm.op("ldr", temp, place)
    asm.op("subs", temp, temp, "#1")
    asm.op("str", temp, place)
    asm.branch("bne.w", label)


def _load(asm: Asm, target: str, pointer: str, channels: int, temp: str) -> None:
    """`channels` bytes at the pointer, which moves on; the other bytes of the word are anything."""
    if channels == 4:
        asm.op("ldr", target, f"[{pointer}], #4")
    elif channels == 1:
        asm.op("ldrb", target, f"[{pointer}], #1")
    else:
        asm.op("ldrh", target, f"[{pointer}], #2")
        if channels == 3:
            asm.op("ldrb", temp, f"[{pointer}], #1")
            asm.op("orr", target, target, f"{temp}, lsl #16")


class _Words:
    """Stores words of one half of a quad to the strip."""

    def __init__(self, asm: Asm, tiles: Tiles, to: str, half: int) -> None:
        self._asm, self._to = asm, to
        self._row = 4 * tiles.columns
        self._base = half * tiles.form.products * self._row
        self._ror = ("ror #8",) if half else ()

    def unpack(self, target: str, source: str) -> None:
        self._asm.op("sxtb16", target, source, *self._ror)

    def store(self, product: int, register: str) -> None:
        at = self._base + product * self._row
        self._asm.op("str", register, f"[{self._to}, #{at}]" if at else f"[{self._to}]")


def _vertical_f2(asm: Asm, tiles: Tiles, channels: int) -> None:
    raw, x = ("r5", "r6", "r7", "r8"), ("r9", "r10", "r11", "r12")
    for i in range(4):
        _load(asm, raw[i], f"r{i}", channels, "r14")
    for half in range(2):
        words = _Words(asm, tiles, "r4", half)
        for i in range(4):
            words.unpack(x[i], raw[i])
        for product, (op, a, b) in enumerate((("ssub16", 0, 2), ("sadd16", 1, 2), ("ssub16", 2, 1), ("ssub16", 1, 3))):
            asm.op(op, "r14", x[a], x[b])
            words.store(product, "r14")


def _vertical_s2(asm: Asm, tiles: Tiles, channels: int) -> None:
    raw = ("r6", "r7", "r8", "r9", "r10")
    for i in range(5):
        _load(asm, raw[i], f"r{i}", channels, "r14")
    for half in range(2):
        words = _Words(asm, tiles, "r5", half)
        words.unpack("r11", raw[2])
        words.store(2, "r11")
        for product, i in ((0, 0), (4, 4)):
            words.unpack("r12", raw[i])
            asm.op("ssub16", "r12", "r12", "r11")
            words.store(product, "r12")
        for i in (1, 3):
            words.unpack("r12", raw[i])
            words.store(i, "r12")


def _vertical_f4(asm: Asm, tiles: Tiles, channels: int) -> None:
    """r0: bytes into the rows, r1: strip, r2: row pointers."""
    raw = ("r3", "r4", "r5", "r6", "r7", "r8")
    for i in range(6):
        asm.op("ldr", "r9", f"[r2, #{4 * i}]")
        if channels == 4:
            asm.op("ldr", raw[i], "[r9, r0]")
        else:
            asm.op("add", "r9", "r9", "r0")
            _load(asm, raw[i], "r9", channels, "r10")
    asm.op("add", "r0", "r0", f"#{channels}")
    for half in range(2):
        words = _Words(asm, tiles, "r1", half)
        x: list[str] = [""] * 6

        def unpack(i: int, register: str, words: _Words = words, x: list[str] = x) -> str:
            words.unpack(register, raw[i])
            x[i] = register
            return register

        _toom(asm, unpack, words.store)


def _toom(asm: Asm, x: Callable[[int, str], str], store: Callable[[int, str], None]) -> None:
    """The inputs of F4 of x(0) ... x(5), unpacked to the register named. Uses r9 ... r12, r14."""
    a, c, t, u, v = "r9", "r10", "r11", "r12", "r14"
    x(2, a)
    x(4, v)
    x(0, t)
    asm.op("ssub16", c, v, a)  # x4 - x2
    asm.op("ssub16", t, t, a)
    _double(asm, t, 2)
    asm.op("sadd16", t, t, c)
    store(0, t)
    _double(asm, a, 2)
    asm.op("ssub16", a, v, a)  # x4 - 4 x2
    x(3, t)
    x(1, u)
    asm.op("sadd16", v, u, u)
    _double(asm, v, 1)
    asm.op("ssub16", v, t, v)  # x3 - 4 x1
    asm.op("ssub16", u, t, u)
    _double(asm, u, 1)  # 2 (x3 - x1)
    for product, first, second in ((1, a, v), (3, c, u)):
        asm.op("sadd16", t, first, second)
        store(product, t)
        asm.op("ssub16", t, first, second)
        store(product + 1, t)
    x(5, v)
    x(3, t)
    asm.op("ssub16", t, v, t)
    _double(asm, u, 1)
    asm.op("ssub16", t, t, u)
    store(5, t)


def _double(asm: Asm, register: str, times: int) -> None:
    for _ in range(times):
        asm.op("sadd16", register, register, register)


# ---- horizontal ----


def horizontal_function(name: str, tiles: Tiles, order: list[tuple[int, int]]) -> tuple[str, int]:
    """`name(strip, factors)`: text and instructions of a call. order: (row, column) products as they are used."""
    asm = Asm()
    row = {"f2": _horizontal_f2, "s2": _horizontal_s2, "f4": _horizontal_f4}[tiles.form.name]
    asm.op("push", "{r4-r11, lr}")
    asm.op("sub", "sp", "sp", "#12")
    asm.constant("r2", tiles.steps)
    asm.op("str", "r2", "[sp]")
    around = asm.size + 2
    asm.label("step", aligned=True)
    start = asm.size
    to = _Cursor(asm, "r1", pairs=tiles.form is not F4)
    for i in range(tiles.form.products):
        places = [8 * tiles.steps * order.index((i, j)) for j in range(tiles.form.products)]
        row(asm, _Cursor(asm, "r0", fixed=4 * i * tiles.columns), to, places)
    asm.add("r0", "r0", 4 * tiles.form.products * tiles.columns)
    to.move(8)
    _count_down(asm, "r2", "[sp]", "step")
    executed = around + tiles.steps * (asm.size - start)
    asm.op("add", "sp", "sp", "#12")
    asm.op("pop", "{r4-r11, pc}")
    return naked_function(name, ("int32_t *strip", "int32_t *factors"), asm), executed


class _Cursor:
    """A pointer register that moves where immediates do not reach: of LDRD and STRD, or (pairs False) of STR."""

    def __init__(self, asm: Asm, register: str, fixed: int = 0, pairs: bool = True) -> None:
        self._asm, self._register, self._fixed = asm, register, fixed
        self._low, self._high = (-_PAIR_REACH, _PAIR_REACH) if pairs else (-252, 4092)
        self._base = 0

    def at(self, offset: int) -> str:
        """`[register, #imm]` for byte `offset`, a multiple of 4."""
        offset += self._fixed
        if not self._low <= offset - self._base <= self._high:
            self.move(offset)
        imm = offset - self._base
        return f"[{self._register}, #{imm}]" if imm else f"[{self._register}]"

    def move(self, base: int) -> None:
        """The register points to byte `base`."""
        while left := base - self._base:
            step = max(-4092, min(left, 4092))
            self._asm.add(self._register, self._register, step)
            self._base += step


def _horizontal_f2(asm: Asm, x: _Cursor, to: _Cursor, places: list[int]) -> None:
    for i in range(0, 6, 2):
        asm.op("ldrd", f"r{2 + i}", f"r{3 + i}", x.at(4 * i))
    asm.op("strd", "r6", "r7", x.at(0))
    for place, (op, a, b) in zip(
        places, (("ssub16", 0, 2), ("sadd16", 1, 2), ("ssub16", 2, 1), ("ssub16", 1, 3)), strict=True
    ):
        asm.op(op, "r8", f"r{2 + a}", f"r{2 + b}")
        asm.op(op, "r9", f"r{4 + a}", f"r{4 + b}")
        asm.op("strd", "r8", "r9", to.at(place))


def _horizontal_s2(asm: Asm, x: _Cursor, to: _Cursor, places: list[int]) -> None:
    for i in range(0, 8, 2):
        asm.op("ldrd", f"r{2 + i}", f"r{3 + i}", x.at(4 * i))
    asm.op("ldr", "r10", x.at(32))
    asm.op("str", "r10", x.at(0))
    for i in (1, 2, 3):
        asm.op("strd", f"r{2 + i}", f"r{6 + i}", to.at(places[i]))
    for i in (0, 4):
        asm.op("ssub16", "r11", f"r{2 + i}", "r4")
        asm.op("ssub16", "r12", f"r{6 + i}", "r8")
        asm.op("strd", "r11", "r12", to.at(places[i]))


def _horizontal_f4(asm: Asm, x: _Cursor, to: _Cursor, places: list[int]) -> None:
    for i in range(0, 10, 2):
        asm.op("ldrd", f"r{2 + i}", f"r{3 + i}", x.at(4 * i))
    asm.op("strd", "r10", "r11", x.at(0))
    for tile in range(2):
        r = [f"r{2 + 4 * tile + i}" for i in range(6)]
        c, t = "r12", "r14"

        def store(product: int, register: str, tile: int = tile) -> None:
            asm.op("str", register, to.at(places[product] + 4 * tile))

        asm.op("ssub16", c, r[4], r[2])
        asm.op("ssub16", r[0], r[0], r[2])
        _double(asm, r[0], 2)
        asm.op("sadd16", r[0], r[0], c)
        store(0, r[0])
        _double(asm, r[2], 2)
        asm.op("ssub16", r[2], r[4], r[2])  # x4 - 4 x2
        asm.op("ssub16", r[0], r[3], r[1])
        _double(asm, r[0], 1)  # 2 (x3 - x1)
        _double(asm, r[1], 2)
        asm.op("ssub16", r[1], r[3], r[1])  # x3 - 4 x1
        for product, first, second in ((1, r[2], r[1]), (3, c, r[0])):
            asm.op("sadd16", t, first, second)
            store(product, t)
            asm.op("ssub16", t, first, second)
            store(product + 1, t)
        asm.op("ssub16", r[3], r[5], r[3])
        _double(asm, r[0], 1)
        asm.op("ssub16", r[3], r[3], r[0])
        store(5, r[3])


# ---- products ----


def products_function(name: str, tiles: Tiles) -> tuple[str, int, list[tuple[int, int]]]:
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
        names = ["return", "constants", "groups", "factors", "turns", "ninth"]
        names += [f"y{a}" for a in range(tiles.form.m)]
        self._slots = {slot: 4 * i for i, slot in enumerate(names)}
        self._vectors: dict[str, int] = {}
        self._top = 4 * len(names)
        self.executed = 0
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
        if tiles.form.ninth:
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
        _count_down(asm, "r10", self._at("groups"), "group")
        per_group = asm.size - start
        asm.op("add", "sp", "sp", f"#{size}")
        asm.op("pop", "{r4-r11, pc}")
        onto, fresh = self._subroutines()
        per_group += self._calls["onto"] * onto + self._calls["fresh"] * fresh
        self.executed += tiles.groups * per_group

    # ---- one product: all channels ----

    def _product(self, i: int, j: int, fresh: bool = False) -> None:
        """acc += (or, fresh, =) product (i, j)."""
        self.order.append((i, j))
        kind = "fresh" if fresh else "onto"
        self._calls[kind] += 1
        self.asm.branch("bl", kind)

    def _subroutines(self) -> tuple[int, int]:
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
            _count_down(asm, "r10", self._at("turns"), "turn")
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

    def _mix(self, name: str, stay: tuple[int, int], put: tuple[int, int]) -> None:
        """acc, vector = the sums of acc and vector, each shifted left as `stay` and `put` say; one of two by 0."""
        for at, accs in self._pairs(name):
            for acc, held, new in zip(accs, ("r10", "r11"), ("r12", "r14"), strict=True):
                for target, (left, right) in ((new, put), (acc, stay)):
                    first, second, shift = (acc, held, right) if left == 0 else (held, acc, left)
                    self.asm.op("add", target, first, f"{second}, lsl #{shift}" if shift else second)
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
        for j in (1, 2, 3, 4, 0, 5):
            self._product(1, j, fresh=j != 1)
            self._store("t")
            self._product(2, j, fresh=True)
            self._sum_difference("t")  # t: d
            self._store("u")  # s
            self._product(3, j, fresh=True)
            self._store("v")
            self._product(4, j, fresh=True)
            self._sum_difference("v")  # acc: S, v: D
            self._mix("u", stay=(0, 2), put=(0, 0))  # acc: S + 4 s, u: S + s
            self._product(0, j)
            self._f4_outer(0, j)
            self._load("u")
            self._f4_outer(2, j)
            self._load("v")
            self._mix("t", stay=(1, 0), put=(0, 1))  # acc: 2 D + d, t: D + 2 d
            self._product(5, j)
            self._f4_outer(3, j)
            self._load("t")
            self._f4_outer(1, j)

    def _f4_outer(self, a: int, j: int) -> None:
        if j in (1, 3):
            self._store(f"{a}first" if j == 1 else f"{a}second")
        elif j == 2:
            self._sum_difference(f"{a}first")  # d
            self._store(f"{a}sum")  # s
        elif j == 4:
            self._sum_difference(f"{a}second")  # acc: S, D
            self._mix(f"{a}sum", stay=(0, 0), put=(0, 2))
            self._finish(a, 2)
            self._load(f"{a}second")
            self._mix(f"{a}first", stay=(0, 1), put=(1, 0))
            self._finish(a, 1)
        elif j == 0:
            self._add(f"{a}sum")
            self._finish(a, 0)
        else:
            self._add(f"{a}first")
            self._finish(a, 3)

    # ---- to int8 ----

    def _finish(self, a: int, b: int) -> None:
        """Outputs (a, b) of both tiles."""
        asm, tiles, form = self.asm, self.tiles, self.tiles.form
        raised = form.raised[a] + form.raised[b]
        if form.ninth:
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
        saves = way.sign or way.constants == 3
        if saves:
            asm.op("str", "r1", self._at("factors"))
        asm.op("ldr", "r14", self._at(f"y{a}"))
        asm.op("ldr", "r12", self._at("constants"))
        for channel in range(GROUP):
            at = 4 * way.constants * (block * GROUP + channel)
            constants = ("r10", "r11", "r1")[: way.constants]
            asm.op("ldrd", "r10", "r11", f"[r12, #{at}]" if at else "[r12]")
            if way.constants == 3:
                asm.op("ldr", "r1", f"[r12, #{at + 8}]")
            for tile in range(2):
                acc = _ACC[4 * tile + channel]
                temp = "r11" if tile or way.constants == 3 else "r1"
                way.emit(asm, 0, acc, "", constants, temp)
                if way.sign and temp == "r11" and not tile:
                    asm.op("ldr", "r11", f"[r12, #{at + 4}]")
                place = (tile * form.m + b) * tiles.out_c + channel
                asm.op("strb", acc, f"[r14, #{place}]" if place else "[r14]")
        if b == form.m - 1:  # the last of the row
            asm.op("add", "r14", "r14", f"#{GROUP}")
            asm.op("str", "r14", self._at(f"y{a}"))
        if saves:
            asm.op("ldr", "r1", self._at("factors"))
