# SPDX-License-Identifier: Apache-2.0
"""The assembly of the input's side of exact fast convolutions: `vertical` and `horizontal` of `tiles.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinyc.kernels.fast.bilinear import F4, BilinearForm
from tinyc.kernels.fast.tiles import TileInputs
from tinyc.machine.thumb import Asm, Naked, Work

_PAIR_REACH = 1020  # of the immediate of LDRD and STRD
_UNROLLED_QUADS = 4  # of a column
_FAR = 4096
_LOADED = 10  # words of a row of the strip


# ---- vertical ----


def vertical_function(tiles: TileInputs) -> tuple[Naked, Work, Work]:
    """`@(x, offset, columns, strip)`: the function, instructions of a call and of each column."""
    asm = Asm(tiles.core)
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=12)
    asm.op("str", "r2", "[sp]")
    to = _vertical_pointers(asm, tiles.form)
    with asm.loop("column", "column"):
        asm.note("a column of the image: its rows combined, to the strip")
        _vertical_column(asm, tiles, to)
    asm.restore()
    parameters = ("const int8_t *const *x", "int32_t offset", "int32_t columns", "int32_t *strip")
    asm.reorder()
    return Naked("@", parameters, asm), asm.work(), asm.work("column")


def _vertical_pointers(asm: Asm, form: BilinearForm) -> str:
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


def _vertical_column(asm: Asm, tiles: TileInputs, to: str) -> None:
    """All of a column, and back to the next."""
    quad = {"f2": _vertical_f2, "s2": _vertical_s2, "s24": _vertical_s2, "f4": _vertical_f4}[tiles.form.name]
    quad_bytes = 8 * tiles.form.products * tiles.columns
    full, rest = divmod(tiles.in_c, 4)
    if full > _UNROLLED_QUADS:
        asm.constant("r12", full)
        asm.op("str", "r12", "[sp, #4]")
        with asm.loop("quad", full):
            quad(asm, tiles, 4)
            asm.add(to, to, quad_bytes)
            asm.count_down("r12", "[sp, #4]", "quad")
    for channels in [4] * full * (full <= _UNROLLED_QUADS) + [rest] * (rest > 0):
        quad(asm, tiles, channels)
        asm.add(to, to, quad_bytes)
    asm.add(to, to, 4 - tiles.quads * quad_bytes, "r12")
    asm.count_down("r12", "[sp]", "column")


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

    def __init__(self, asm: Asm, tiles: TileInputs, to: str, half: int) -> None:
        self._asm, self._to = asm, to
        self._row = 4 * tiles.columns
        self._base = half * tiles.form.products * self._row
        self._ror = ("ror #8",) if half else ()

    def unpack(self, target: str, source: str) -> None:
        self._asm.op("sxtb16", target, source, *self._ror)

    def store(self, product: int, register: str) -> None:
        at = self._base + product * self._row
        self._asm.op("str", register, f"[{self._to}, #{at}]" if at else f"[{self._to}]")


def _vertical_f2(asm: Asm, tiles: TileInputs, channels: int) -> None:
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


def _vertical_s2(asm: Asm, tiles: TileInputs, channels: int) -> None:
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


def _vertical_f4(asm: Asm, tiles: TileInputs, channels: int) -> None:
    """r0: bytes into the rows, r1: strip, r2: row pointers, which are loaded where the words of the rows go."""
    raw = ("r3", "r4", "r5", "r6", "r7", "r8")
    asm.op("ldm", "r2", "{r3-r8}")
    if channels == 3:
        asm.op("add", "r10", "r0", "#2")
    for row in raw:
        if channels == 4:
            asm.op("ldr", row, f"[{row}, r0]")
        elif channels == 1:
            asm.op("ldrb", row, f"[{row}, r0]")
        elif channels == 2:
            asm.op("ldrh", row, f"[{row}, r0]")
        else:
            asm.op("ldrh", "r9", f"[{row}, r0]")
            asm.op("ldrb", row, f"[{row}, r10]")
            asm.op("orr", row, "r9", row, "lsl #16")
    asm.op("add", "r0", "r0", f"#{channels}")
    for half in range(2):
        words = _Words(asm, tiles, "r1", half)
        x: list[str] = [""] * 6

        def unpack(i: int, register: str, words: _Words = words, x: list[str] = x) -> str:
            words.unpack(register, raw[i])
            x[i] = register
            return register

        toom(asm, unpack, words.store)


def toom(asm: Asm, x: Callable[[int, str], str], store: Callable[[int, str], None]) -> None:
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


def horizontal_function(tiles: TileInputs, order: Sequence[tuple[int, int]]) -> tuple[Naked, Work]:
    """`@(strip, factors)`: the function and instructions of a call. order: (row, column) products as they are used."""
    asm = Asm(tiles.core)
    row = {"f2": _horizontal_f2, "s2": _horizontal_s2, "s24": _horizontal_s4, "f4": _horizontal_f4}[tiles.form.name]
    asm.note("registers and arguments to the stack")
    asm.save("{r4-r11, lr}", frame=12)
    asm.constant("r2", tiles.steps)
    asm.op("str", "r2", "[sp]")
    with asm.loop("step", tiles.steps):
        to = ReachingCursor(asm, "r1", pairs=tiles.form.name in ("f2", "s2"))
        loaded = tiles.columns if tiles.columns <= _LOADED else tiles.form.across.n
        for i in range(tiles.form.products):
            asm.note(f"row {i} of the strip: its columns combined, to the factors")
            places = [8 * tiles.steps * order.index((i, j)) for j in range(tiles.form.across.products)]
            asm.op("ldm", "r0!", "{" + ", ".join(f"r{2 + column}" for column in range(loaded)) + "}")
            row(asm, to, places)
        to.move(8)
        asm.count_down("r2", "[sp]", "step")
    asm.restore()
    asm.reorder()
    return Naked("@", ("int32_t *strip", "int32_t *factors"), asm), asm.work()


def _horizontal_f2(asm: Asm, to: ReachingCursor, places: list[int]) -> None:
    """A row of the strip, which is in r2 and on; r0 is behind it. (Others: what of the row fits registers.)"""
    asm.op("strd", "r6", "r7", "[r0, #-24]")
    for place, (op, a, b) in zip(
        places, (("ssub16", 0, 2), ("sadd16", 1, 2), ("ssub16", 2, 1), ("ssub16", 1, 3)), strict=True
    ):
        asm.op(op, "r8", f"r{2 + a}", f"r{2 + b}")
        asm.op(op, "r9", f"r{4 + a}", f"r{4 + b}")
        asm.op("strd", "r8", "r9", to.at(place))


def _horizontal_s2(asm: Asm, to: ReachingCursor, places: list[int]) -> None:
    asm.op("str", "r10", "[r0, #-36]")
    for i in (1, 2, 3):
        asm.op("strd", f"r{2 + i}", f"r{6 + i}", to.at(places[i]))
    for i in (0, 4):
        asm.op("ssub16", "r11", f"r{2 + i}", "r4")
        asm.op("ssub16", "r12", f"r{6 + i}", "r8")
        asm.op("strd", "r11", "r12", to.at(places[i]))


def _horizontal_s4(asm: Asm, to: ReachingCursor, places: list[int]) -> None:
    """17 columns: nine of each tile, r2 and on, one of them in both."""
    for tile in range(2):
        if tile:
            asm.op("mov", "r2", "r10")
            asm.op("ldm", "r0!", "{r3-r10}")
            asm.op("str", "r10", "[r0, #-68]")

        def store(product: int, register: str, tile: int = tile) -> None:
            asm.op("str", register, to.at(places[product] + 4 * tile))

        for a in range(4):
            store(5 + a, f"r{3 + 2 * a}")
        x0, x1, x2, x3, x4 = "r2", "r4", "r6", "r8", "r10"
        asm.op("ssub16", "r11", x3, x1)
        store(3, "r11")
        asm.op("ssub16", x0, x2, x0)
        _take_twice(asm, "r11", x0)
        store(0, "r12")
        asm.op("ssub16", "r12", x4, x2)
        _take_twice(asm, "r12", "r11")
        store(4, "r12")
        asm.op("ssub16", x3, x3, x2)
        asm.op("ssub16", x2, x2, x1)
        for product, second in ((1, x1), (2, x2)):
            _take_twice(asm, x3, second)
            store(product, "r12")


def _take_twice(asm: Asm, first: str, second: str) -> None:
    """r12 = first - 2 second."""
    asm.op("ssub16", "r12", first, second)
    asm.op("ssub16", "r12", "r12", second)


def _horizontal_f4(asm: Asm, to: ReachingCursor, places: list[int]) -> None:
    asm.op("strd", "r10", "r11", "[r0, #-40]")
    for tile in range(2):

        def store(product: int, register: str, tile: int = tile) -> None:
            asm.op("str", register, to.at(places[product] + 4 * tile))

        toom_of_registers(asm, [f"r{2 + 4 * tile + i}" for i in range(6)], store)


def toom_of_registers(asm: Asm, r: list[str], store: Callable[[int, str], None]) -> None:
    """The inputs of F4 of six registers. Uses them, r12 and r14."""
    c, t = "r12", "r14"
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


class ReachingCursor:
    """A pointer register that moves where immediates do not reach: of LDRD and STRD, or (pairs False) of STR."""

    def __init__(self, asm: Asm, register: str, pairs: bool) -> None:
        self._asm, self._register = asm, register
        self._pairs = pairs
        self._low, self._high = (-_PAIR_REACH, _PAIR_REACH) if pairs else (-252, 4092)
        self._base = 0

    def at(self, offset: int) -> str:
        """`[register, #imm]` for byte `offset`, a multiple of 4."""
        if not self._low <= offset - self._base <= self._high:
            self.move(offset if self._pairs else offset // _FAR * _FAR)
        imm = offset - self._base
        return f"[{self._register}, #{imm}]" if imm else f"[{self._register}]"

    def move(self, base: int) -> None:
        """The register points to byte `base`."""
        while left := base - self._base:
            far = left // _FAR * _FAR if left > 0 else -(-left // _FAR * _FAR)
            if far:  # an immediate of one byte and its place
                self._asm.op("add" if far > 0 else "sub", self._register, self._register, f"#{abs(far)}")
            else:
                self._asm.add(self._register, self._register, left)
            self._base += far or left
