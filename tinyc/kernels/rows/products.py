# SPDX-License-Identifier: Apache-2.0
"""The assembly of `products` of `tiles.py`: factors times weights, sums of products (by the walk of
`walks.py`), and the requantization.

Four accumulators, r1 ... r4, are what registers feed with the fewest loads: of one tile and four output channels, or of
two tiles and two channels each (ten instructions for sixteen multiplications, and half of the weights). r14 walks
through the factors, r0 through the stream.

Products are a run of the same instructions, as many as there are input channels. Where these are many, that code is
there once: for a column of products of two rows, else for the longest run of products, which is entered where as many
are left as are wanted. Such code returns to an address in the frame: lr is in use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tinyc.kernels.finish import Requantization
from tinyc.kernels.rows.tiles import RowTiles
from tinyc.kernels.rows.walks import SLOTS, SPLIT, WalkStep
from tinyc.kernels.tile.groups import Weights, Word
from tinyc.machine.frame import Frame
from tinyc.machine.thumb import Asm, Naked, Work

THIRD = 2863311531  # 1/3 modulo 2^32
_TURN = 48  # steps of a product without a loop
_LONGEST = 4  # run of products that is code of its own
_COLUMN = ("product", "copy", "product", "copy", "product")  # of two rows: what each of their columns begins with
_REST = ("turn", "product")
_ACC = ("r1", "r2", "r3", "r4")
_OTHER = ("r5", "r6", "r7", "r8")
_LAST = ("r9", "r10", "r11", "r12")
_WEIGHTS = ("r5", "r6", "r7", "r8", "r9", "r10")  # of one tile
_ONE_ROW_SLOTS = 3  # vectors of four sums on the stack
_WORDS = ("y0", "end", "factors", "stop", "third", "back", "y1")


def products_function(name: str, tiles: RowTiles) -> tuple[Naked, Work]:
    """`name(stream, factors, y)`, of two rows `name(stream, factors, y, y1)`: the outputs of a call, each y
    [outputs][out_c]. Its text, and what a call executes."""
    writer = _Products(tiles)
    asm = writer.write()
    parameters = ("const int32_t *stream", "const int32_t *factors", "int8_t *y", "int8_t *y1")[: 2 + tiles.rows]
    asm.reorder()
    return Naked(name, parameters, asm), asm.work()


class _Products:
    """Writes one function."""

    def __init__(self, tiles: RowTiles) -> None:
        self.tiles = tiles
        self.asm = Asm(tiles.core)
        self._entered: list[str] = []  # subroutines, in the order of their calls
        slots = _ONE_ROW_SLOTS if tiles.rows == 1 else SLOTS
        self.frame = Frame(_WORDS[: len(_WORDS) - 2 + tiles.rows], below=16 * slots)

    def write(self) -> Asm:
        asm, tiles, frame = self.asm, self.tiles, self.frame
        asm.reads_constants("r0", "lr")  # the stream and the factors
        asm.note("registers and arguments to the stack")
        asm.save("{r4-r11, lr}", frame=frame.size)
        if tiles.rows == 2:
            asm.op("str", "r3", frame.at("y1"))
        asm.add("r3", "r2", tiles.out_c)
        asm.op("strd", "r2", "r3", frame.at("y0"))
        asm.op("str", "r1", frame.at("factors"))
        if tiles.third:
            asm.constant("r3", THIRD)
            asm.op("str", "r3", frame.at("third"))
        with asm.loop("group", tiles.groups):
            self._group()
        asm.note("return")
        asm.restore()
        if self._entered and self._in_columns:
            self._column()
        elif self._entered:
            self._runs()
        return asm

    def _group(self) -> None:
        """The output channels that accumulate together."""
        asm, tiles, frame = self.asm, self.tiles, self.frame
        asm.note("output channels that accumulate together: products and their sums")
        asm.op("ldr", "r14", frame.at("factors"))
        asm.load_multiple("r0", _ACC[: tiles.channels])
        if tiles.together == 2:
            asm.op("mov", "r3", "r1")
            asm.op("mov", "r4", "r2")
        self._walk()
        if tiles.rows == 2:
            asm.op("ldr", "r4", frame.at("y1"))
            asm.op("add", "r4", "r4", f"#{tiles.channels}")
            asm.op("str", "r4", frame.at("y1"))
        asm.op("ldrd", "r2", "r3", frame.at("y0"))
        asm.op("add", "r2", "r2", f"#{tiles.channels}")
        asm.op("str", "r2", frame.at("y0"))
        asm.until_equal("r2", "r3", "group")

    def _walk(self) -> None:
        fresh, walk = False, self.tiles.walk
        while walk:
            step, taken = walk[0], 0 if self.tiles.inline else self._enter(walk, fresh)
            walk = walk[taken or 1 :]
            if taken:
                fresh = False
                continue
            if step.kind == "product":
                self._product(len(step.rows), fresh)
            elif step.kind == "output":
                self._output(step.a, step.b)
            elif step.kind in ("keep", "copy"):
                _vector(self.asm, "stm", step.a, _ACC)
            else:
                self.asm.piece(_combined, step)
            fresh = step.kind in ("keep", "output")

    # ---- products ----

    def _product(self, rows: int, fresh: bool) -> None:
        """Adds the next products to the accumulators; fresh: they hold nothing."""
        self._end(self._begin(rows, fresh), rows)

    def _begin(self, rows: int, fresh: bool) -> Iterator[None]:
        """What differs with `fresh`; for `_end`: the steps that are left, of one turn of the loop if there is one."""
        turn = self._turn(rows)
        looped = turn < rows * self.tiles.steps
        steps = self._steps(turn, fresh and not looped)
        if not looped:
            next(steps)
        elif fresh:
            for register in _ACC:
                self.asm.op("mov", register, "#0")
        return steps

    def _end(self, left: Iterator[None], rows: int) -> None:
        asm, steps = self.asm, rows * self.tiles.steps
        turns = steps // self._turn(rows)
        if turns == 1:
            _all(left)
            return
        asm.add("r11", "r14", 4 * steps * self.tiles.together)
        asm.op("str", "r11", self.frame.at("stop"))
        label = f"steps{asm.lines}"
        with asm.loop(label, turns):
            _all(left)
            asm.op("ldr", "r11", self.frame.at("stop"))
            asm.until_equal("r14", "r11", label)

    def _turn(self, rows: int) -> int:
        """Steps of products that are written one after the other."""
        return max(n for n in range(2, _TURN + 1, 2) if rows * self.tiles.steps % n == 0)

    def _steps(self, count: int, fresh: bool) -> Iterator[None]:
        """Writes a step each time that it is asked for the next."""
        weights = Weights(self.asm, _WEIGHTS, count * len(_ACC))
        for step in range(count):
            op = "smuad" if fresh and step == 0 else "smlad"
            if self.tiles.together == 2:
                self.asm.piece(_step_of_two, op, step % 2)
            else:
                self.asm.piece(_step_of_one, op, step % 2, weights.take(len(_ACC)))
            yield

    # ---- products as subroutines ----

    def _enter(self, walk: tuple[WalkStep, ...], fresh: bool) -> int:
        """Goes into a subroutine for the first steps of the walk; how many steps those are, 0 for none."""
        kinds = tuple(step.kind for step in walk)
        before = "fresh" if fresh else "onto"
        if self._in_columns and kinds[: len(_COLUMN)] == _COLUMN:
            self._go(f"{before}_column")
            return len(_COLUMN)
        if self._in_columns and kinds[: len(_REST)] == _REST:
            self._go("rest")
            return len(_REST)
        length = next((i for i, kind in enumerate(kinds) if kind != "product"), len(kinds))
        products = sum(len(step.rows) for step in walk[:length])
        calls = -(-products // _LONGEST)
        for call in range(calls):
            count = products * (call + 1) // calls - products * call // calls
            self._go(f"{before if call == 0 else 'onto'}{count}")
        return length

    @property
    def _in_columns(self) -> bool:
        return self.tiles.rows == 2 and self.tiles.form.stride == 1

    def _go(self, label: str) -> None:
        back = f"back{len(self._entered)}"
        self._entered.append(label)
        self.asm.address("r5", back)
        self.asm.branch("b.w", label)
        self.asm.label(back)

    def _entry(self, label: str, fresh: bool) -> Iterator[None]:
        """A way into products, and the steps that are left of the first."""
        self.asm.label(label, aligned=True)
        self.asm.op("str", "r5", self.frame.at("back"))
        return self._begin(1, fresh)

    def _column(self) -> None:
        asm = self.asm
        asm.note("subroutines: the products that a column begins and ends with")
        self._entry("fresh_column", fresh=True)
        asm.branch("b.w", "column_after")
        asm.label("rest", aligned=True)
        asm.op("str", "r5", self.frame.at("back"))
        asm.piece(_combined, WalkStep("turn", SPLIT))
        asm.branch("b.w", "last")
        left = self._entry("onto_column", fresh=False)
        asm.label("column_after")
        self._end(left, 1)
        _vector(self.asm, "stm", SPLIT, _ACC)
        self._product(1, fresh=False)
        _vector(self.asm, "stm", SPLIT + 1, _ACC)
        asm.label("last", aligned=True)
        self._product(1, fresh=False)
        asm.op("ldr", "pc", self.frame.at("back"))

    def _runs(self) -> None:
        """The longest run, and ways to enter it where as many products are left as are wanted."""
        asm = self.asm
        asm.note("subroutines: so many of the longest run of products")
        entries = sorted(set(self._entered))
        for label in entries:
            self._entry(label, label.startswith("fresh"))
            asm.branch("b.w", f"last{label[-1]}_after")
        for count in range(max(int(label[-1]) for label in entries), 0, -1):
            steps = self._begin(1, fresh=False)
            asm.label(f"last{count}_after")
            self._end(steps, 1)
        asm.op("ldr", "pc", self.frame.at("back"))

    # ---- to int8 ----

    def _output(self, row: int, number: int) -> None:
        """Scales and stores output `number` of every tile in an output row."""
        asm, tiles, at = self.asm, self.tiles, self.frame.at
        raised, requant = tiles.form.across.raised[number], tiles.requant
        if not tiles.lowers and requant.shifts is not None:
            requant = replace(requant, shifts=tuple(shift + raised for shift in requant.shifts))
        asm.note("requantize and store")
        third, lowered = at("third") if tiles.third else "", raised if tiles.lowers else 0
        outputs = _Outputs(at(f"y{row}"), number * tiles.out_c, tiles.form.across.m * tiles.out_c, third, lowered)
        asm.piece(_scaled, requant, outputs, tiles.channels)


class _Outputs(NamedTuple):
    """What a vector of accumulators becomes. y: the place of its row in the frame; first: bytes from there to the first
    tile's outputs; apart: to the next tile's. third: the place of 1/3, where sums are divided by 3. lowered: bits that
    they are shifted down."""

    y: str
    first: int
    apart: int
    third: str
    lowered: int


def _scaled(asm: Asm, requant: Requantization, outputs: _Outputs, channels: int) -> None:
    asm.op("ldr", "r7", outputs.y)
    if outputs.third:
        asm.op("ldr", "r6", outputs.third)
    for channel, own in enumerate(requant.constants_in_turn(asm, "r0", _LAST, channels)):
        for tile in range(len(_ACC) // channels):
            acc = _ACC[tile * channels + channel]
            if outputs.third:
                asm.op("mul", acc, acc, "r6")
            if outputs.lowered:
                asm.op("asr", acc, acc, f"#{outputs.lowered}")
            requant.emit(asm, channel, acc, "", own, "r5")
            at = outputs.first + tile * outputs.apart + channel
            asm.op("strb", acc, f"[r7, #{at}]" if at else "[r7]")


def _vector(asm: Asm, op: str, slot: int, registers: Sequence[str], pointer: str = "r12") -> None:
    """Four sums to or from the stack."""
    if slot:
        asm.add(pointer, "sp", 16 * slot)
    asm.op(op, pointer if slot else "sp", "{" + ", ".join(registers) + "}")


def _combined(asm: Asm, step: WalkStep) -> None:
    """What comes between products and outputs."""
    if step.kind == "take":
        _vector(asm, "ldm", step.a, _ACC)
        return
    if step.kind == "turn":
        _vector(asm, "ldm", step.a, (*_ACC, *_OTHER))
        for a, b in zip(_ACC, _OTHER, strict=True):
            asm.op("rsb", a, b, a, "lsl #1")
        return
    if step.kind == "fold":
        _fold(asm, step.a, step.b)
        return
    _vector(asm, "ldm", step.a + (step.kind == "odd"), _OTHER)
    if step.kind == "add":
        for a, b in zip(_ACC, _OTHER, strict=True):
            asm.op("add", a, a, b)
    elif step.kind == "even":
        # accumulators: S = m3 + m4. The slot: s = m1 + m2. The slot becomes 4s + S, the accumulators s + S.
        for total, s, low in zip(_ACC, _OTHER, _LAST, strict=True):
            asm.op("add", low, total, s, "lsl #2")
            asm.op("add", total, total, s)
        _vector(asm, "stm", step.a, _LAST, pointer="r5")
    else:
        # odd: slot 1: d = m1 - m2, slot 2: D = m3 - m4. Slot 1 becomes d + 2D, the accumulators 2d + D.
        _vector(asm, "ldm", step.a + 2, _ACC)
        for big, d, low in zip(_ACC, _OTHER, _LAST, strict=True):
            asm.op("add", low, d, big, "lsl #1")
            asm.op("add", big, big, d, "lsl #1")
        _vector(asm, "stm", step.a + 1, _LAST, pointer="r5")


def _fold(asm: Asm, a: int, b: int) -> None:
    """Slot b is slot a or the next."""
    asm.add("r12", "sp", 16 * a)
    asm.load_multiple("r12", _OTHER, advance=b != a)
    for difference, total in zip(_OTHER, _ACC, strict=True):
        asm.op("sub", difference, difference, total)
        asm.op("add", total, difference, total, "lsl #1")
    asm.op("stm", "r12", "{" + ", ".join(_OTHER) + "}")


def _all(steps: Iterator[None]) -> None:
    for _ in steps:
        pass


def _step_of_two(asm: Asm, op: str, odd: int) -> None:
    """A step of two tiles and two channels; every other one loads for both."""
    if not odd:
        asm.load_multiple("r14", _LAST)
        asm.load_multiple("r0", _OTHER)
    operands = [(_LAST[2 * odd + tile], _OTHER[2 * odd + channel]) for tile in range(2) for channel in range(2)]
    for acc, (x, w) in zip(_ACC, operands, strict=True):
        _mac(asm, op, acc, x, w)


def _step_of_one(asm: Asm, op: str, odd: int, words: tuple[Word, ...]) -> None:
    """A step of a tile and four channels, whose weights are `words`."""
    if not odd:
        asm.op("ldrd", "r11", "r12", "[r14], #8")
    for acc, (loaded, word) in zip(_ACC, words, strict=True):
        if loaded:
            asm.load_multiple("r0", loaded)
        _mac(asm, op, acc, ("r11", "r12")[odd], word)


def _mac(asm: Asm, op: str, acc: str, x: str, w: str) -> None:
    asm.op(op, acc, x, w, *(() if op == "smuad" else (acc,)))
