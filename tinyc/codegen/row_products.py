"""The assembly of `products` of `row_tiles.py`: factors times weights, sums of products (by the walk of
`row_walks.py`), and the way to int8.

Four accumulators, r1 ... r4, are what registers feed with the fewest loads: of one tile and four output channels, or of
two tiles and two channels each (ten instructions for sixteen multiplications, and half of the weights). r14 walks
through the factors, r0 through the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tinyc.codegen.groups import Weights
from tinyc.codegen.row_tiles import RowTiles
from tinyc.codegen.row_walks import SLOTS, Step
from tinyc.codegen.thumb import Asm, Work, naked_function

THIRD = 2863311531  # 1/3 modulo 2^32
_TURN = 48  # steps of a product without a loop
_ACC = ("r1", "r2", "r3", "r4")
_OTHER = ("r5", "r6", "r7", "r8")
_LAST = ("r9", "r10", "r11", "r12")
_WEIGHTS = ("r5", "r6", "r7", "r8", "r9", "r10")  # of one tile
_ONE_ROW_SLOTS = 3  # vectors of four sums on the stack
_FRAME = ("y0", "end", "factors", "stop", "third", "y1")


def products_function(name: str, tiles: RowTiles) -> tuple[str, Work]:
    """`name(stream, factors, y)`, of two rows `name(stream, factors, y, y1)`: the outputs of a call, each y
    [outputs][out_c]. Its text, and what a call executes."""
    writer = _Products(tiles)
    executed = writer.write()
    parameters = ("const int32_t *stream", "const int32_t *factors", "int8_t *y", "int8_t *y1")[: 2 + tiles.rows]
    return naked_function(name, parameters, writer.asm), executed


class _Products:
    """Writes one function; `asm` has the text."""

    def __init__(self, tiles: RowTiles) -> None:
        self.tiles = tiles
        self.asm = Asm()
        self._loops = Work()  # what turns beyond the first execute
        self._count = 0
        self._slots = _ONE_ROW_SLOTS if tiles.rows == 1 else SLOTS

    def _at(self, slot: str) -> str:
        return f"[sp, #{16 * self._slots + 4 * _FRAME.index(slot)}]"

    def write(self) -> Work:
        """What a call executes."""
        asm, tiles = self.asm, self.tiles
        size = 16 * self._slots + 4 * (len(_FRAME) - 2 + tiles.rows)
        size += (4 - size) % 8  # with nine saved registers, a multiple of 8
        asm.op("push", "{r4-r11, lr}")
        asm.op("sub", "sp", "sp", f"#{size}")
        if tiles.rows == 2:
            asm.op("str", "r3", self._at("y1"))
        asm.add("r3", "r2", tiles.out_c)
        asm.op("strd", "r2", "r3", self._at("y0"))
        asm.op("str", "r1", self._at("factors"))
        if tiles.third:
            asm.constant("r3", THIRD)
            asm.op("str", "r3", self._at("third"))
        executed = asm.size
        asm.label("group", aligned=True)
        start = asm.size
        asm.op("ldr", "r14", self._at("factors"))
        asm.load_multiple("r0", _ACC[: tiles.channels])
        if tiles.together == 2:
            asm.op("mov", "r3", "r1")
            asm.op("mov", "r4", "r2")
        self._walk()
        if tiles.rows == 2:
            asm.op("ldr", "r4", self._at("y1"))
            asm.op("add", "r4", "r4", f"#{tiles.channels}")
            asm.op("str", "r4", self._at("y1"))
        asm.op("ldrd", "r2", "r3", self._at("y0"))
        asm.op("add", "r2", "r2", f"#{tiles.channels}")
        asm.op("str", "r2", self._at("y0"))
        asm.op("cmp", "r2", "r3")
        asm.branch("bne.w", "group")
        executed += tiles.groups * (asm.size - start + self._loops)
        start = asm.size
        asm.op("add", "sp", "sp", f"#{size}")
        asm.op("pop", "{r4-r11, pc}")
        return executed + (asm.size - start)

    def _walk(self) -> None:
        fresh = False
        for step in self.tiles.walk:
            if step.kind == "product":
                self._product(len(step.rows), fresh)
            elif step.kind == "output":
                self._output(step.a, step.b)
            elif step.kind in ("keep", "copy"):
                self._vector("stm", step.a, _ACC)
            else:
                self._combine(step)
            fresh = step.kind in ("keep", "output")

    def _product(self, rows: int, fresh: bool) -> None:
        """Adds the next products to the accumulators; fresh: they hold nothing."""
        asm, steps = self.asm, rows * self.tiles.steps
        turn = max(n for n in range(2, _TURN + 1, 2) if steps % n == 0)
        turns = steps // turn
        if turns == 1:
            self._steps(turn, fresh)
            return
        if fresh:
            for register in _ACC:
                asm.op("mov", register, "#0")
        asm.add("r11", "r14", 4 * steps * self.tiles.together)
        asm.op("str", "r11", self._at("stop"))
        label = f"steps{self._count}"
        self._count += 1
        asm.label(label, aligned=True)
        start = asm.size
        self._steps(turn, fresh=False)
        asm.op("ldr", "r11", self._at("stop"))
        asm.op("cmp", "r14", "r11")
        asm.branch("bne.w", label)
        self._loops += (turns - 1) * (asm.size - start)

    def _steps(self, count: int, fresh: bool) -> None:
        if self.tiles.together == 2:
            self._steps_of_two(count, fresh)
            return
        asm = self.asm
        weights = Weights(asm, _WEIGHTS, count * len(_ACC))
        for i in range(count // 2):
            asm.op("ldrd", "r11", "r12", "[r14], #8")
            for step, x in enumerate(("r11", "r12")):
                for acc in _ACC:
                    self._mac(acc, x, weights.next(), fresh and i + step == 0)

    def _steps_of_two(self, count: int, fresh: bool) -> None:
        for i in range(count // 2):
            self.asm.load_multiple("r14", _LAST)
            self.asm.load_multiple("r0", _OTHER)
            for step in range(2):
                for tile in range(2):
                    for channel in range(2):
                        x, w = _LAST[2 * step + tile], _OTHER[2 * step + channel]
                        self._mac(_ACC[2 * tile + channel], x, w, fresh and i + step == 0)

    def _mac(self, acc: str, x: str, w: str, fresh: bool) -> None:
        self.asm.op("smuad" if fresh else "smlad", acc, x, w, *(() if fresh else (acc,)))

    def _vector(self, op: str, slot: int, registers: Sequence[str], pointer: str = "r12") -> None:
        """Four sums to or from the stack."""
        if slot:
            self.asm.add(pointer, "sp", 16 * slot)
        self.asm.op(op, pointer if slot else "sp", "{" + ", ".join(registers) + "}")

    def _combine(self, step: Step) -> None:
        """What comes between products and outputs."""
        asm = self.asm
        if step.kind == "take":
            self._vector("ldm", step.a, _ACC)
            return
        self._vector("ldm", step.a + (step.kind == "odd"), _OTHER)
        if step.kind == "add":
            for a, b in zip(_ACC, _OTHER, strict=True):
                asm.op("add", a, a, b)
        elif step.kind == "fold":
            for a, b in zip(_OTHER, _ACC, strict=True):
                asm.op("sub", a, a, b)
                asm.op("add", b, a, b, "lsl #1")
            self._vector("stm", step.b, _OTHER)
        elif step.kind == "even":
            # accumulators: S = m3 + m4. The slot: s = m1 + m2. The slot becomes 4s + S, the accumulators s + S.
            for total, s, low in zip(_ACC, _OTHER, _LAST, strict=True):
                asm.op("add", low, total, s, "lsl #2")
                asm.op("add", total, total, s)
            self._vector("stm", step.a, _LAST, pointer="r5")
        else:
            # odd: slot 1: d = m1 - m2, slot 2: D = m3 - m4. Slot 1 becomes d + 2D, the accumulators 2d + D.
            self._vector("ldm", step.a + 2, _ACC)
            for big, d, low in zip(_ACC, _OTHER, _LAST, strict=True):
                asm.op("add", low, d, big, "lsl #1")
                asm.op("add", big, big, d, "lsl #1")
            self._vector("stm", step.a + 1, _LAST, pointer="r5")

    def _output(self, row: int, number: int) -> None:
        """Scales and stores output `number` of every tile in an output row."""
        asm, tiles = self.asm, self.tiles
        raised, way = tiles.form.raised[number], tiles.way
        if not tiles.lowers and way.shifts is not None:
            way = replace(way, shifts=tuple(shift + raised for shift in way.shifts))
        asm.op("ldr", "r7", self._at(f"y{row}"))
        if tiles.third:
            asm.op("ldr", "r6", self._at("third"))
        constants: list[tuple[str, ...]] = []
        for channel in range(tiles.channels):
            if not constants:
                registers = _LAST[: 4 if way.constants == 2 else 3]
                asm.load_multiple("r0", registers)
                constants = [registers[:2], registers[2:]] if way.constants == 2 else [registers]
            own = constants.pop(0)
            for tile in range(tiles.together):
                acc = _ACC[tile * tiles.channels + channel]
                if tiles.third:
                    asm.op("mul", acc, acc, "r6")
                if tiles.lowers and raised:
                    asm.op("asr", acc, acc, f"#{raised}")
                way.emit(asm, channel, acc, "", own, "r5")
                at = (tile * tiles.form.m + number) * tiles.out_c + channel
                asm.op("strb", acc, f"[r7, #{at}]" if at else "[r7]")
