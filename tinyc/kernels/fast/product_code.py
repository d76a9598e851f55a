# SPDX-License-Identifier: Apache-2.0
"""What the assembly of `products.py` is made of: frame, vectors of accumulators, and products as subroutines.

Products of one (row, column) are a run of the same instructions, as many as there are input channels. That code exists
once for as many products in a row as the form has, not once for each product:

* inline False: a subroutine for one product;
* inline True: for stride 2 the longest run of products, which is entered where as many are left as are wanted; for
  4x4 outputs all of a column's products with the passes between them; for those of one row each where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator

from tinyc.kernels.fast.tiles import Tiles
from tinyc.kernels.matrix import GROUP
from tinyc.machine.thumb import Asm

ACC = tuple(f"r{i}" for i in range(5, 13))  # four channels of the first tile, then of the second
VECTOR = "{r5-r12}"  # the same
TEMPS = ("r2", "r3", "r4", "r14")  # factors, weights, temporaries: low registers, as most short instructions take
_VECTOR = 4 * len(ACC)
_STEPS = 32  # of a product without a loop
_IN_REACH = 16  # steps whose factors and packed weights short loads reach
_LONGEST = 4  # run of products at stride 2
# Places at the same distance from sp wherever sp is: what subroutines use. Then three vectors of a column.
_LOW = {"return": 0, "inner": 4, "turns": 8}
_T, _U, _V = 16, 16 + _VECTOR, 16 + 2 * _VECTOR
COLUMN_BYTES = 2 * _VECTOR  # that sp moves down for a column: vectors u and v of the one before stay
COLUMNS_ON_STACK = 3


def step_size(tiles: Tiles) -> tuple[int, int]:
    """Of two input channels of both tiles times four output channels: instructions, bytes of code."""
    words, others = 2 + tiles.words_per_step, 10 if tiles.requant.packed else 8
    short = words - tiles.words_per_step // 2  # every second weight goes to the register that short loads do not know
    return others + words, 4 * (others + words) - 2 * short


class ProductCode:
    """r0: stream, r1: factors, accumulators in `ACC`, all else in `TEMPS`.

    The frame, upwards: places of subroutines and of a column's vectors, [those of columns before], slots, vectors.
    """

    def __init__(self, tiles: Tiles, vectors: int) -> None:
        self.tiles = tiles
        self.asm = Asm(tiles.core)
        self.order: list[tuple[int, int]] = []
        self._moves = tiles.form.name == "f4"
        self._height = COLUMNS_ON_STACK * COLUMN_BYTES if self._moves else 0  # of sp above its lowest place
        base = _V + _VECTOR + self._height if self._moves else 4 * len(_LOW)
        names = ["stream", "factors", "constants", "groups", "inverse"]
        names += [f"y{a}" for a in range(tiles.form.m)]
        self._slots = {slot: base + 4 * i for i, slot in enumerate(names)}
        self._vectors: dict[str, int] = {}
        self._top = base + 4 * len(names)
        size = self._top + _VECTOR * vectors
        self._size = size + (4 - size) % 8 - self._height  # with nine saved registers, a multiple of 8
        self._called: set[str] = set()

    def _at(self, slot: str) -> str:
        offset = _LOW[slot] if slot in _LOW else self._slots[slot] - self._height
        return f"[sp, #{offset}]" if offset else "[sp]"

    def _lower(self) -> None:
        """The next column: u and v of this one stay where they are, further up."""
        self.asm.op("sub.w", "sp", "sp", f"#{COLUMN_BYTES}")
        self._height -= COLUMN_BYTES

    def _rise(self) -> None:
        self.asm.op("add.w", "sp", "sp", f"#{COLUMNS_ON_STACK * COLUMN_BYTES}")
        self._height += COLUMNS_ON_STACK * COLUMN_BYTES

    # ---- products: all channels ----

    def _product(self, i: int, j: int, fresh: bool = False) -> None:
        """acc += (or, fresh, =) product (i, j)."""
        self.order.append((i, j))
        if self.tiles.inline:
            self._steps(fresh)
        else:
            self._call("fresh" if fresh else "onto")

    def _run(self, *products: tuple[int, int], fresh: bool = False) -> None:
        """acc += (or, fresh, =) the sum of the products."""
        self.order.extend(products)
        if self.tiles.inline:
            self._call(f"{'fresh' if fresh else 'onto'}{len(products)}")
            return
        for number in range(len(products)):
            self._call("fresh" if fresh and number == 0 else "onto")

    def _column(self, j: int, fresh: bool) -> None:
        """Rows of column j, with m_i its products: acc = m0 + 4 s + S, u = s + S, v = 2 d + D, t = d + 2 D, where
        s, S = m1 + m2, m3 + m4 and d, D = m1 - m2, m3 - m4."""
        self.order.extend((i, j) for i in (1, 2, 3, 4, 0))
        self._call("fresh_column" if fresh else "column")

    def _last_of_column(self, j: int) -> None:
        """acc = t + m5."""
        self.order.append((5, j))
        self._call("last")

    def _call(self, label: str) -> None:
        self._called.add(label)
        self.asm.branch("bl", label)

    def _steps(self, fresh: bool = False, first: int = 0, end: int = 0) -> None:
        """Those of a product from the first one on. end: behind the last one; 0: behind all."""
        end = end or self.tiles.steps
        for step in range(first, end):
            self._step("smuad" if fresh and step == 0 else "smlad", step)
            if (step + 1) % _IN_REACH == 0 or step + 1 == end:
                self._move_on(step % _IN_REACH + 1)

    def _step(self, op: str, number: int = 0) -> None:
        """Two input channels of both tiles times four output channels, the step of this number of a product."""
        self.asm.piece(_two_channels, op, self.tiles.requant.packed, number % _IN_REACH)

    def _move_on(self, steps: int) -> None:
        """Stream and factors behind so many steps."""
        for base, words in (("r0", self.tiles.words_per_step), ("r1", 2)):
            self.asm.op("add", base, base, f"#{4 * words * steps}")

    # ---- subroutines ----

    def _subroutines(self) -> None:
        """Those that are called."""
        if not self.tiles.inline:
            self._one_product()
        if self._moves:
            if self.tiles.inline:
                self._inline_column()
            else:
                self._calling_column()
        elif self.tiles.inline and self._called:
            self._runs()

    def _one_product(self) -> None:
        """ "onto" and "fresh"."""
        asm, steps = self.asm, self.tiles.steps
        asm.note("subroutines: a product, of all input channels")
        turn = max(n for n in range(1, _STEPS + 1) if steps % n == 0)
        looped = steps > turn
        asm.label("fresh", aligned=True)
        if looped:
            for register in ACC:
                asm.op("mov", register, "#0")
        else:
            asm.op("str", "r14", self._at("inner"))
            self._step("smuad")
            asm.branch("b.w", "rest")
        asm.label("onto", aligned=True)
        asm.op("str", "r14", self._at("inner"))
        if looped:
            asm.constant("r2", steps // turn)
            asm.op("str", "r2", self._at("turns"))
            with asm.loop("turn", steps // turn):
                self._steps(end=turn)
                asm.count_down("r2", self._at("turns"), "turn")
        else:
            self._step("smlad")
            asm.label("rest")
            self._steps(first=1)
        asm.op("ldr", "pc", self._at("inner"))

    def _entry(self, label: str, to: str, smuad: bool = False) -> None:
        """A way into a run of products."""
        self.asm.label(label, aligned=True)
        self.asm.op("str", "r14", self._at("return"))
        if smuad:
            self._step("smuad")
        self.asm.branch("b.w", to)

    def _runs(self) -> None:
        """The longest run, and ways to enter it where as many products are left as are wanted."""
        asm = self.asm
        asm.note("subroutines: so many of the longest run of products")
        for label in sorted(self._called):
            count = int(label[-1])
            fresh = label.startswith("fresh")
            self._entry(label, f"last{count}" + "_after" * fresh, fresh)
        for count in range(_LONGEST, 0, -1):
            asm.label(f"last{count}", aligned=True)
            self._step("smlad")
            asm.label(f"last{count}_after")
            self._steps(first=1)
        asm.op("ldr", "pc", self._at("return"))

    def _inline_column(self) -> None:
        """ "column", "fresh_column" and "last"."""
        asm = self.asm
        asm.note("subroutines: the products of a column, and the sums of its rows")
        self._entry("fresh_column", "column_after", smuad=True)
        asm.label("last", aligned=True)
        asm.op("str", "r14", self._at("return"))
        self._load("t")
        asm.branch("b.w", "last_product")
        asm.label("column", aligned=True)
        asm.op("str", "r14", self._at("return"))
        self._step("smlad")
        asm.label("column_after")
        self._steps(first=1)
        self._store("t")
        self._steps()
        self._store("u")
        self._steps(fresh=True)
        self._store("v")
        self._steps()
        self._rows()
        asm.label("last_product", aligned=True)
        self._steps()
        asm.op("ldr", "pc", self._at("return"))

    def _calling_column(self) -> None:
        """ "column", "fresh_column" and "last", which call "onto" and "fresh"."""
        asm = self.asm
        asm.note("subroutines: the products of a column, and the sums of its rows")
        asm.label("last", aligned=True)
        self._load("t")
        asm.branch("b.w", "onto")
        for label, first in (("column", "onto"), ("fresh_column", "fresh")):
            asm.label(label, aligned=True)
            asm.op("str", "r14", self._at("return"))
            asm.branch("bl", first)
            if label == "column":
                asm.branch("b.w", "column_after")
        asm.label("column_after")
        self._store("t")
        asm.branch("bl", "onto")
        self._store("u")
        asm.branch("bl", "fresh")
        self._store("v")
        asm.branch("bl", "onto")
        self._rows()
        asm.op("ldr", "r14", self._at("return"))
        asm.branch("b.w", "onto")

    def _rows(self) -> None:
        """From acc: S, t: m1, u: s, v: m3 to acc: S + 4 s, u: S + s, v: D + 2 d, t: d + 2 D."""
        self.asm.piece(_rows_of_column, self._vectors_at("t", "u", "v"))

    # ---- vectors of the eight accumulators, in the frame ----

    def _vector(self, name: str) -> int:
        """Bytes from sp. t, u, v: of this column; ("u", n): of the nth."""
        if self._moves and name in ("t", "u", "v"):
            return {"t": _T, "u": _U, "v": _V}[name]
        if name not in self._vectors:
            self._vectors[name] = self._top
            self._top += _VECTOR
        return self._vectors[name] - self._height

    def _of_column(self, name: str, number: int) -> str:
        """A name for vector u or v of the column made as the given one, 0 to 2."""
        label = f"{name} of column {number}"
        place = {"u": _U, "v": _V}[name] + (COLUMNS_ON_STACK - number) * COLUMN_BYTES
        self._vectors.setdefault(label, place)
        return label

    def _store(self, name: str) -> None:
        self.asm.op("add", "r2", "sp", f"#{self._vector(name)}")
        self.asm.op("stm", "r2", VECTOR)

    def _load(self, name: str) -> None:
        self.asm.op("add", "r2", "sp", f"#{self._vector(name)}")
        self.asm.op("ldm", "r2", VECTOR)

    def _vectors_at(self, *names: str) -> tuple[int, ...]:
        """Bytes from sp of several."""
        return tuple([self._vector(name) for name in names])

    def _add(self, name: str) -> None:
        """acc += vector."""
        self.asm.piece(_add_vector, self._vector(name))

    def _sum_difference(self, name: str) -> None:
        """acc, vector = vector + acc, vector - acc."""
        self.asm.piece(_sum_difference, self._vector(name))


def words_of(asm: Asm, vectors: tuple[int, ...]) -> Iterator[tuple[str, list[str]]]:
    """An accumulator and the places of its words in up to three vectors, which are in the first `TEMPS` then. vectors:
    bytes from sp."""
    for i, acc in enumerate(ACC):
        places = [f"[sp, #{vector + 4 * i}]" for vector in vectors]
        for register, place in zip(TEMPS, places, strict=False):
            asm.op("ldr", register, place)
        yield acc, places


def _rows_of_column(asm: Asm, vectors: tuple[int, ...]) -> None:
    a, b, c, d = TEMPS
    for acc, (t, u, v) in words_of(asm, vectors):
        asm.op("rsb", a, b, a, "lsl #1")  # d
        asm.op("rsb", c, acc, c, "lsl #1")  # D
        asm.op("add", d, acc, b)
        asm.op("add", acc, acc, b, "lsl #2")
        asm.op("str", d, u)
        asm.op("add", b, c, a, "lsl #1")
        asm.op("str", b, v)
        asm.op("add", a, a, c, "lsl #1")
        asm.op("str", a, t)


def _pairs(asm: Asm, vector: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Two words of the vector at a time in the first `TEMPS`, with the accumulators that they meet."""
    for i in range(0, len(ACC), 2):
        at = f"[sp, #{vector + 4 * i}]"
        asm.op("ldrd", *TEMPS[:2], at)
        yield at, (ACC[i], ACC[i + 1])


def _add_vector(asm: Asm, vector: int) -> None:
    for _, accs in _pairs(asm, vector):
        for acc, held in zip(accs, TEMPS[:2], strict=True):
            asm.op("add", acc, acc, held)


def _sum_difference(asm: Asm, vector: int) -> None:
    for at, accs in _pairs(asm, vector):
        for acc, held, new in zip(accs, TEMPS[:2], TEMPS[2:], strict=True):
            asm.op("sub", new, held, acc)
            asm.op("add", acc, acc, held)
        asm.op("strd", *TEMPS[2:], at)


def _two_channels(asm: Asm, op: str, packed: bool, number: int) -> None:
    """Two input channels of both tiles times four output channels. number: of the step, from where r0 and r1 are.

    Of single loads in a row all but the first take one cycle on a Cortex-M4, where one of two words takes three."""
    words = GROUP // 2 if packed else GROUP
    _load_two(asm, TEMPS[:2], "r1", 8 * number)
    for channel in range(GROUP):
        weight = TEMPS[2 + (channel // 2 if packed else channel % 2)]
        if channel % (4 if packed else 2) == 0:
            _load_two(asm, TEMPS[2:], "r0", 4 * (words * number + channel))
        if packed and channel % 2:
            asm.op("sxtb16", weight, weight)
        for tile, x in enumerate(TEMPS[:2]):
            acc = ACC[4 * tile + channel]
            asm.op(op, acc, x, weight, *((acc,) if op == "smlad" else ()))


def _load_two(asm: Asm, registers: tuple[str, ...], base: str, offset: int) -> None:
    for register, at in zip(registers, (offset, offset + 4), strict=True):
        asm.op("ldr", register, f"[{base}, #{at}]" if at else f"[{base}]")
