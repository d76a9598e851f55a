"""The assembly of exact fast convolutions along a row (`bilinear.py` in one dimension), a tile of outputs at a time.

The three kernel rows are summed inside the products: a product has a factor per kernel row and channel. Two functions
per layer; runtime_c/tc_row_tiles.h has their portable twins:

* factors: columns of int8 input, all channels, to [product][kernel row][step], products in the order of use, a step
  being two channels of one word, channels (0, 2) and (1, 3) of each four;
* products: factors times weights, sums of products, and the way to int8, four output channels at a time: r1 ... r4
  accumulators, r5 ... r10 weights, r11 r12 factors, r14 walks through the factors.

A walk says what comes after what: products, sums of them, outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tinyc.codegen.bilinear import F2, F4, S2, Form
from tinyc.codegen.finish import GROUP, Way
from tinyc.codegen.groups import Weights
from tinyc.codegen.thumb import Asm, Work, naked_function
from tinyc.codegen.transforms import toom

THIRD = 2863311531  # 1/3 modulo 2^32
ROWS = 3  # of the kernel
_REACH = 4095  # of LDR, STR, STRB
_TURN = 24  # steps of a product without a loop
_ACC = ("r1", "r2", "r3", "r4")
_OTHER = ("r5", "r6", "r7", "r8")
_WEIGHTS = ("r5", "r6", "r7", "r8", "r9", "r10")
_SLOTS = 3  # vectors of four sums on the stack
_FRAME = ("y", "end", "factors", "turns", "third")


@dataclass(frozen=True)
class RowTiles:
    """What the code depends on. way: from sums to int8, for outputs that are raised least."""

    form: Form
    in_c: int
    out_c: int
    way: Way

    @property
    def steps(self) -> int:
        """Words of two channels per product."""
        return ROWS * self.in_c // 2

    @property
    def groups(self) -> int:
        return self.out_c // GROUP

    @property
    def factor_bytes(self) -> int:
        return 4 * self.steps * self.form.products

    @property
    def has_third(self) -> bool:
        """Whether sums are multiples of 3."""
        return self.form.unit % 3 == 0

    @property
    def lowers(self) -> bool:
        """Whether raised sums are shifted down first; else their multiples pass through the scaling."""
        return self.way.sign or self.way.shifts is None

    @property
    def walk(self) -> tuple[tuple[str, int], ...]:
        """What is read of the stream after the start values: weights of a product, constants of an output."""
        return tuple((kind, number) for kind, number in _WALKS[self.form.name] if kind in ("product", "output"))

    @property
    def order(self) -> list[int]:
        """The products as they are used."""
        return [number for kind, number in self.walk if kind == "product"]

    @property
    def fits(self) -> bool:
        """Whether this module can write the functions."""
        return (
            self.in_c % 4 == 0
            and self.out_c % GROUP == 0
            and self.factor_bytes <= _REACH
            and self.form.n * self.in_c <= _REACH
            and self.form.m * self.out_c <= _REACH
        )


# keep n: the accumulators to slot n. fold n: accumulators and slot n become their sum and difference: the sum stays,
# the difference goes to slot n. The steps of F4 between its products are `_between`.
_WALKS: dict[str, tuple[tuple[str, int], ...]] = {
    "f2": (
        *(("product", 1), ("keep", 0), ("product", 2), ("fold", 0)),
        *(("on", 0), ("product", 0), ("output", 0), ("take", 0), ("product", 3), ("output", 1)),
    ),
    "s2": (
        *(("product", 2), ("keep", 0), ("on", 0), ("product", 0), ("product", 1), ("output", 0)),
        *(("take", 0), ("product", 3), ("product", 4), ("output", 1)),
    ),
    "f4": (
        *(("product", 1), ("keep", 0), ("product", 2), ("fold", 1), ("keep", 0)),
        *(("product", 3), ("keep", 2), ("product", 4), ("fold", 2)),
        *(("even", 0), ("output", 2), ("odd", 0), ("output", 1)),
        *(("take", 0), ("product", 0), ("output", 0), ("take", 1), ("product", 5), ("output", 3)),
    ),
}


# ---- factors ----


def factors_function(name: str, tiles: RowTiles, outside: Sequence[bool], x_zero: int) -> tuple[str, Work]:
    """`name(x, offset, factors)`: the factors of the tile whose first column lies `offset` bytes into the rows; columns
    that are outside count as x_zero. Its text, and what a call executes."""
    asm, form = Asm(), tiles.form
    asm.op("push", "{r4-r11, lr}")
    asm.op("sub", "sp", "sp", "#20")
    asm.op("strd", "r0", "r1", "[sp]")
    asm.op("mov", "r1", "r2")
    asm.add("r2", "r1", 2 * tiles.in_c * ROWS)
    asm.op("str", "r2", "[sp, #8]")
    raw = tuple(f"r{3 + i}" for i in range(form.n))
    outer = [register for register, is_out in zip(raw, outside, strict=True) if is_out]
    for register in outer:
        asm.constant(register, (x_zero & 0xFF) * 0x01010101)
    executed = asm.size
    asm.label("row", aligned=True)
    start = asm.size
    asm.op("ldrd", "r9", "r10", "[sp]")
    asm.op("ldr", "r0", "[r9], #4")
    asm.op("str", "r9", "[sp]")
    asm.op("add", "r0", "r0", "r10")
    asm.add("r2", "r1", 2 * tiles.in_c)
    executed += ROWS * (asm.size - start)
    asm.label("quad", aligned=True)
    start = asm.size
    for i, register in enumerate(raw):
        if not outside[i]:
            asm.op("ldr", register, f"[r0, #{i * tiles.in_c}]" if i else "[r0]")
    asm.op("add", "r0", "r0", "#4")
    for half in range(2):
        _half(asm, tiles, raw, half)
    asm.op("add", "r1", "r1", "#8")
    asm.op("cmp", "r1", "r2")
    asm.branch("bne.w", "quad")
    executed += ROWS * tiles.in_c // 4 * (asm.size - start)
    start = asm.size
    asm.op("ldr", "r9", "[sp, #8]")
    asm.op("cmp", "r1", "r9")
    asm.branch("bne.w", "row")
    executed += ROWS * (asm.size - start)
    start = asm.size
    asm.op("add", "sp", "sp", "#20")
    asm.op("pop", "{r4-r11, pc}")
    parameters = ("const int8_t *const *x", "int32_t offset", "int32_t *factors")
    return naked_function(name, parameters, asm), executed + (asm.size - start)


def _half(asm: Asm, tiles: RowTiles, raw: Sequence[str], half: int) -> None:
    """Channels 0 and 2 (half 1: 1 and 3) of the columns in `raw` to a word of each product at r1."""

    def store(product: int, register: str) -> None:
        at = 4 * (tiles.order.index(product) * tiles.steps + half)
        asm.op("str", register, f"[r1, #{at}]" if at else "[r1]")

    def unpack(column: int, register: str) -> str:
        asm.op("sxtb16", register, raw[column], *(("ror #8",) if half else ()))
        return register

    if tiles.form is F4:
        toom(asm, unpack, store)
    elif tiles.form is F2:
        x = [unpack(i, f"r{9 + i}") for i in range(4)]
        for product, (op, a, b) in enumerate((("ssub16", 0, 2), ("sadd16", 1, 2), ("ssub16", 2, 1), ("ssub16", 1, 3))):
            asm.op(op, "r14", x[a], x[b])
            store(product, "r14")
    else:
        assert tiles.form is S2
        middle = unpack(2, "r11")
        store(2, middle)
        for product in (0, 1, 3, 4):
            word = unpack(product, "r12")
            if product in (0, 4):
                asm.op("ssub16", word, word, middle)
            store(product, word)


# ---- products ----


def products_function(name: str, tiles: RowTiles) -> tuple[str, Work]:
    """`name(stream, factors, y)`: the outputs of a tile, y [outputs][out_c]. Its text, and what a call executes."""
    writer = _Products(tiles)
    executed = writer.write()
    parameters = ("const int32_t *stream", "const int32_t *factors", "int8_t *y")
    return naked_function(name, parameters, writer.asm), executed


class _Products:
    """Writes one function; `asm` has the text."""

    def __init__(self, tiles: RowTiles) -> None:
        self.tiles = tiles
        self.asm = Asm()
        self._loops = Work()  # what turns beyond the first execute
        self._count = 0

    def _at(self, slot: str) -> str:
        return f"[sp, #{16 * _SLOTS + 4 * _FRAME.index(slot)}]"

    def write(self) -> Work:
        """What a call executes."""
        asm, tiles = self.asm, self.tiles
        size = 16 * _SLOTS + 4 * len(_FRAME)
        size += (4 - size) % 8  # with nine saved registers, a multiple of 8
        asm.op("push", "{r4-r11, lr}")
        asm.op("sub", "sp", "sp", f"#{size}")
        asm.add("r3", "r2", tiles.out_c)
        asm.op("strd", "r2", "r3", self._at("y"))
        asm.op("str", "r1", self._at("factors"))
        if tiles.has_third:
            asm.constant("r3", THIRD)
            asm.op("str", "r3", self._at("third"))
        executed = asm.size
        asm.label("group", aligned=True)
        start = asm.size
        asm.load_multiple("r0", _ACC)
        fresh = False
        for kind, number in _WALKS[tiles.form.name]:
            if kind == "product":
                self._product(number, fresh)
                fresh = False
            elif kind == "keep":
                self._vector("stm", number, _ACC)
                fresh = True  # unless the sums go on
            elif kind == "on":
                fresh = False
            else:
                fresh = self._combine(kind, number)
        asm.op("ldrd", "r2", "r3", self._at("y"))
        asm.op("add", "r2", "r2", f"#{GROUP}")
        asm.op("str", "r2", self._at("y"))
        asm.op("cmp", "r2", "r3")
        asm.branch("bne.w", "group")
        executed += tiles.groups * (asm.size - start + self._loops)
        start = asm.size
        asm.op("add", "sp", "sp", f"#{size}")
        asm.op("pop", "{r4-r11, pc}")
        return executed + (asm.size - start)

    def _product(self, number: int, fresh: bool) -> None:
        """Adds a product to the accumulators; fresh: they hold nothing."""
        asm, tiles = self.asm, self.tiles
        asm.op("ldr", "r14", self._at("factors"))
        asm.add("r14", "r14", 4 * tiles.steps * tiles.order.index(number))
        turn = max(n for n in range(2, _TURN + 1, 2) if tiles.steps % n == 0)
        turns = tiles.steps // turn
        if turns == 1:
            self._steps(turn, fresh)
            return
        if fresh:
            for register in _ACC:
                asm.op("mov", register, "#0")
        asm.op("mov", "r11", f"#{turns}")
        label = f"steps{self._count}"
        self._count += 1
        asm.label(label, aligned=True)
        start = asm.size
        asm.op("str", "r11", self._at("turns"))
        self._steps(turn, fresh=False)
        asm.op("ldr", "r11", self._at("turns"))
        asm.op("subs", "r11", "r11", "#1")
        asm.branch("bne.w", label)
        self._loops += (turns - 1) * (asm.size - start)

    def _steps(self, count: int, fresh: bool) -> None:
        asm = self.asm
        weights = Weights(asm, _WEIGHTS, count * GROUP)
        for _ in range(count // 2):
            asm.op("ldrd", "r11", "r12", "[r14], #8")
            for x in ("r11", "r12"):
                for acc in _ACC:
                    w = weights.next()
                    if fresh:
                        asm.op("smuad", acc, x, w)
                    else:
                        asm.op("smlad", acc, x, w, acc)
                fresh = False

    def _vector(self, op: str, slot: int, registers: Sequence[str]) -> None:
        """Four sums to or from the stack."""
        pointer = "sp"
        if slot:
            pointer = "r14"
            self.asm.add(pointer, "sp", 16 * slot)
        self.asm.op(op, pointer, "{" + ", ".join(registers) + "}")

    def _combine(self, kind: str, number: int) -> bool:
        """What comes between products. Whether the accumulators are free then."""
        asm = self.asm
        if kind == "take":
            self._vector("ldm", number, _ACC)
            return False
        if kind == "output":
            self._output(number)
            return True
        if kind == "fold":
            # F4 folds m1 (slot 0) and m2; the others what they kept in the slot of the difference.
            self._vector("ldm", 0 if number == 1 else number, _OTHER)
            for a, b in zip(_OTHER, _ACC, strict=True):
                asm.op("sub", a, a, b)
                asm.op("add", b, a, b, "lsl #1")
            self._vector("stm", number, _OTHER)
            return True
        if kind == "even":
            # accumulators: S = m3 + m4. Slot 0: s = m1 + m2. Slot 0 becomes 4s + S, the accumulators s + S.
            self._vector("ldm", 0, _OTHER)
            for total, s, low in zip(_ACC, _OTHER, ("r9", "r10", "r11", "r12"), strict=True):
                asm.op("add", low, total, s, "lsl #2")
                asm.op("add", total, total, s)
            self._vector("stm", 0, ("r9", "r10", "r11", "r12"))
            return False
        # odd: slot 1: d = m1 - m2, slot 2: D = m3 - m4. Slot 1 becomes d + 2D, the accumulators 2d + D.
        self._vector("ldm", 1, _OTHER)
        self._vector("ldm", 2, _ACC)
        for big, d, low in zip(_ACC, _OTHER, ("r9", "r10", "r11", "r12"), strict=True):
            asm.op("add", low, d, big, "lsl #1")
            asm.op("add", big, big, d, "lsl #1")
        self._vector("stm", 1, ("r9", "r10", "r11", "r12"))
        return False

    def _output(self, number: int) -> None:
        """Scales and stores output `number` of the tile, four channels."""
        asm, tiles = self.asm, self.tiles
        raised = tiles.form.raised[number]
        way = tiles.way
        if not tiles.lowers and way.shifts is not None:
            way = replace(way, shifts=tuple(shift + raised for shift in way.shifts))
        asm.op("ldr", "r14", self._at("y"))
        if tiles.has_third:
            asm.op("ldr", "r6", self._at("third"))
        constants: list[tuple[str, ...]] = []
        for position, acc in enumerate(_ACC):
            if tiles.has_third:
                asm.op("mul", acc, acc, "r6")
            if tiles.lowers and raised:
                asm.op("asr", acc, acc, f"#{raised}")
            if not constants:
                registers = ("r9", "r10", "r11", "r12")[: 4 if way.constants == 2 else 3]
                asm.load_multiple("r0", registers)
                constants = [registers[:2], registers[2:]] if way.constants == 2 else [registers]
            way.emit(asm, position, acc, "", constants.pop(0), "r5")
            at = number * tiles.out_c + position
            asm.op("strb", acc, f"[r14, #{at}]" if at else "[r14]")


# ---- held outputs ----


def move_function(name: str, pairs: bool) -> tuple[str, Work, Work]:
    """`name(from, to, words)`: copies words, with `pairs` an even number of them. Its text, what a call executes, and
    what each turn of one or two words does."""
    asm = Asm()
    asm.op("push", "{r4, lr}")
    asm.op("add", "r2", "r0", "r2", "lsl #2")
    around = asm.size
    asm.label("word", aligned=True)
    start = asm.size
    if pairs:
        asm.op("ldrd", "r3", "r4", "[r0], #8")
        asm.op("strd", "r3", "r4", "[r1], #8")
    else:
        asm.op("ldr", "r3", "[r0], #4")
        asm.op("str", "r3", "[r1], #4")
    asm.op("cmp", "r0", "r2")
    asm.branch("bne.w", "word")
    each = asm.size - start
    start = asm.size
    asm.op("pop", "{r4, pc}")
    around += asm.size - start
    return naked_function(name, ("const int8_t *from", "int8_t *to", "int32_t words"), asm), around, each
