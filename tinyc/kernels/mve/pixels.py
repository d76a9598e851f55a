# SPDX-License-Identifier: Apache-2.0
"""The functions of dot-product layers: two pixels by four channels at a time, or one pixel by eight channels.

Sums stay in the eight even registers; odd ones are pointers and a counter. A group of channels goes through all
steps (unrolled; long ones of a single row in a loop), then its sums are scaled in vectors and stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyc.kernels.mve.asm import VectorAsm
from tinyc.kernels.mve.dot import ACCUMULATORS, BYTE_REACH, LANES, STEP, VECTORS, Dot, Step
from tinyc.kernels.mve.lanes import STREAM, narrow, needed, scale_sums, set_power, to_bytes
from tinyc.machine.thumb import Asm, Work, naked_function

PARAMETERS = ("const int32_t *stream", "const int8_t *const *x", "int8_t *y", "int32_t n", "int32_t first")
_SAVED = "{r0, r2-r11, lr}"  # at the stack pointer then: stream, a free word, n
_SAVED_BYTES = 12 * 4 + 64
_UNROLLED = 40  # steps
_TURN = 16  # steps per turn of a loop, at most
_LOW = ACCUMULATORS[:LANES]
_HIGH = ACCUMULATORS[LANES:]


@dataclass(frozen=True, slots=True)
class Count:
    """What a call executes: once, for each pair of pixels, and `turns` times for each pair's channels."""

    once: Work
    pair: Work
    turns: int
    turn: Work

    def of(self, pixels: int) -> Work:
        return self.once + -(-pixels // 2) * (self.pair + self.turns * self.turn)


def can_read(dot: Dot) -> bool:
    """Whether immediates reach the taps of both pixels, and registers hold the rows."""
    if dot.k_h == 1:
        return True
    return dot.k_h <= 3 and dot.reaches(dot.pixel_bytes) and len(dot.steps) <= _UNROLLED


def pixels_function(name: str, dot: Dot) -> tuple[str, Count]:
    """The naked function `name(stream, x, y, n, first)`; with more than one row, n is 2 or more."""
    writer = _Pixels(dot)
    count = writer.write()
    return naked_function(name, PARAMETERS, writer.asm), count


class _Pixels:
    """Writes the function of two pixels by four channels.

    Registers: r7 y, r11 stream. One row: r1 pixel, r3 2^scale, r5 pixels left, r9 channels; where immediates do not
    reach (`walks`), r3 is the second pixel. More rows: r1, r3, r9 rows, r5 channels; a third row takes the place of
    2^scale.
    """

    def __init__(self, dot: Dot) -> None:
        self.dot = dot
        self.asm = VectorAsm()
        self.single = dot.k_h == 1
        self.walks = self.single and not dot.reaches(dot.pixel_bytes)
        self.x = ("r1", "r3", "r9")[: 2 if self.walks else dot.k_h]
        self.counter = "r9" if self.single else "r5"
        self.power = "" if self.walks else {1: "r3", 2: "r9"}.get(dot.k_h, "")
        steps = len(dot.steps)
        taken = 2 * steps if self.dot.held else 2
        self.inputs = [f"q{i}" for i in range(taken)]
        self.free = [f"q{i}" for i in range(taken, VECTORS)]
        self.held = [self.free.pop(), self.free.pop()] if dot.paired else []
        self.ragged = dot.out_c % LANES != 0

    def write(self) -> Count:
        asm, dot = self.asm, self.dot
        self._enter()
        once = asm.size
        asm.label("pair", aligned=True)
        start = asm.size
        self._begin_pair()
        asm.constant(self.counter, dot.out_c if self.ragged else dot.groups // (1 + dot.paired))
        pair = asm.size - start
        asm.label("group", aligned=True)
        start = asm.size
        looped = sum((self._group(number) for number in range(1 + dot.paired)), Work())
        asm.op("subs", self.counter, self.counter, f"#{LANES if self.ragged else 1}")
        asm.branch("bgt.w", "group")
        turn = asm.size - start + looped
        start = asm.size
        self._end_pair()
        pair += asm.size - start
        start = asm.size
        self._leave()
        return Count(once + asm.size - start, pair, dot.groups // (1 + dot.paired), turn)

    def _enter(self) -> None:
        asm, dot = self.asm, self.dot
        asm.op("vpush", "{d8-d15}")
        asm.op("push", _SAVED)
        asm.op("mov", "r7", "r2")
        asm.op("ldr", "r4", f"[sp, #{_SAVED_BYTES}]")
        asm.op("mov", "r6", "r1")
        if self.single:
            asm.op("mov", "r5", "r3")
        for row in range(dot.k_h):
            asm.op("ldr", self.x[row], f"[r6, #{4 * row}]")
            asm.op("add", self.x[row], self.x[row], "r4")
        if self.power:
            set_power(asm, dot.way, self.power)
        if dot.tail and not self.ragged:
            self._tail_lanes()

    def _leave(self) -> None:
        self.asm.op("add", "sp", "sp", "#12")
        self.asm.op("pop", "{r4-r11, lr}")
        self.asm.op("vpop", "{d8-d15}")
        self.asm.op("bx", "lr")

    def _tail_lanes(self) -> None:
        """Predicate: the bytes of a short step. Uses r0."""
        self.asm.constant("r0", (1 << self.dot.tail) - 1)
        self.asm.op("vmsr", "p0", "r0")

    def _begin_pair(self) -> None:
        asm, dot = self.asm, self.dot
        asm.op("ldr", STREAM, "[sp]")
        if self.walks:
            asm.add("r3", "r1", dot.pixel_bytes, "r3")
        if dot.held:
            if dot.tail and self.ragged:
                self._tail_lanes()
            for number, step in enumerate(dot.steps):
                self._load_inputs(step, self.inputs[2 * number : 2 * number + 2])

    def _end_pair(self) -> None:
        """Goes on with the next pair; for one pixel that is left its left neighbour comes again."""
        asm, dot = self.asm, self.dot
        rows = self.x[: dot.k_h]
        for row in rows:
            asm.add(row, row, 2 * dot.pixel_bytes, "r2")
        asm.add("r7", "r7", 2 * dot.out_c - dot.groups * LANES, "r2")
        left = "r5" if self.single else "r0"
        if not self.single:
            asm.op("ldr", left, "[sp, #8]")
        asm.op("sub", left, left, "#2")
        if not self.single:
            asm.op("str", left, "[sp, #8]")
        asm.op("cmp", left, "#1")
        asm.branch("bgt.w", "pair")
        asm.branch("blt", "done")
        for row in rows:
            asm.add(row, row, -dot.pixel_bytes, "r2")
        asm.add("r7", "r7", -dot.out_c, "r2")
        asm.branch("b.w", "pair")
        asm.label("done")

    def _load_inputs(self, step: Step, targets: list[str]) -> None:
        short = step.size < STEP
        if short:
            self.asm.op("vpstt")
        for pixel, target in enumerate(targets):
            if self.walks:
                base, at = self.x[pixel], 0
            else:
                base, at = self.x[step.row], step.at + pixel * self.dot.pixel_bytes
            load_input(self.asm, self.dot.aligned and not short, target, base, at, short, self.walks)

    def _group(self, number: int) -> Work:
        """Four channels of two pixels. Instructions beyond those in the text."""
        asm, dot = self.asm, self.dot
        if dot.tail and self.ragged and not self.dot.held:
            self._tail_lanes()
        steps = dot.steps
        turn, first = _turns(len(steps)) if len(steps) > _UNROLLED else (0, len(steps))
        turns = (len(steps) - first - (dot.tail > 0)) // turn if turn else 0
        for index, step in enumerate(steps[:first]):
            self._step(step, index, index == 0)
        looped = Work()
        if turns:
            asm.op("str", self.counter, "[sp, #4]")
            asm.constant(self.counter, turns)
            asm.label(f"turn{number}", aligned=True)
            start = asm.size
            for _ in range(turn):
                self._step(steps[first], first, False)
            asm.op("subs", self.counter, self.counter, "#1")
            asm.branch("bne.w", f"turn{number}")
            looped = (turns - 1) * (asm.size - start)
            asm.op("ldr", self.counter, "[sp, #4]")
        for index, step in enumerate(steps[first + turns * turn :], first):
            self._step(step, index, False)
        self._finish(number)
        if self.walks:
            whole = dot.row_taps // STEP * STEP
            for pointer in self.x:
                asm.add(pointer, pointer, -whole, "r0")
        return looped

    def _step(self, step: Step, index: int, begins: bool) -> None:
        asm = self.asm
        inputs = self.inputs[2 * index : 2 * index + 2] if self.dot.held else self.inputs
        if not self.dot.held:
            self._load_inputs(step, inputs)
        for channel in range(LANES):
            vector = self.free[channel % 2]
            asm.op("vldrw.u32", vector, f"[{STREAM}]", f"#{STEP}")
            for accumulators, taps in zip((_LOW, _HIGH), inputs, strict=True):
                asm.op("vmladav.s8" if begins else "vmladava.s8", accumulators[channel], taps, vector)

    def _finish(self, number: int) -> None:
        """Sums -> outputs."""
        asm, dot, way = self.asm, self.dot, self.dot.way
        free = self.free if self.dot.held else self.inputs + self.free
        quads, powers = (_LOW, _HIGH), (self.power or "r0", self.power or "r8")
        ready = self.power != ""
        if len(free) >= needed(way, 2):
            scaled = scale_sums(asm, way, quads, free, powers[0], shared=True, ready=ready)
            results = list(zip(scaled, self.held or (scaled[0],) * 2, (0, 1), strict=True))
            self._narrow(results, number)
        else:
            for pixel in (0, 1):
                quad, stays = quads[pixel : pixel + 1], pixel == 0
                (one,) = scale_sums(asm, way, quad, free, powers[pixel], stays=stays, ready=ready)
                self._narrow([(one, self.held[pixel], pixel)], number)
        if not dot.paired:
            self._store_quads(scaled[0], next(q for q in free if q != scaled[0]))
        elif number == 1:
            to_bytes(asm, way, self.held, free[0])
            self._store_eights()

    def _narrow(self, results: list[tuple[str, str, int]], number: int) -> None:
        for source, target, pixel in results:
            narrow(self.asm, self.dot.way, target, source, bool(number if self.dot.paired else pixel))

    def _store_quads(self, vector: str, temp: str) -> None:
        """Bottom halves are the first pixel, top halves the second."""
        asm = self.asm
        to_bytes(asm, self.dot.way, [vector], temp)
        if self.ragged:
            asm.op("vshr.u32", temp, vector, "#16")
            second = self._second_pixel(0)
            asm.op("vctp.32", self.counter)
            asm.op("vpstt")
            asm.op("vstrbt.32", temp, second)
            asm.op("vstrbt.32", vector, "[r7]", f"#{LANES}")
        else:
            asm.op("vstrb.32", vector, "[r7]", f"#{LANES}")
            asm.op("vshr.u32", vector, vector, "#16")
            asm.op("vstrb.32", vector, self._second_pixel(LANES))

    def _store_eights(self) -> None:
        asm = self.asm
        asm.op("vstrb.16", self.held[0], "[r7]", f"#{2 * LANES}")
        asm.op("vstrb.16", self.held[1], self._second_pixel(2 * LANES))

    def _second_pixel(self, advance: int) -> str:
        """Where the second pixel is stored, once r7 has moved on by `advance`. May use r0."""
        distance = self.dot.out_c - advance
        if distance <= BYTE_REACH:
            return f"[r7, #{distance}]"
        self.asm.add("r0", "r7", distance)
        return "[r0]"


def load_input(asm: Asm, words: bool, target: str, base: str, at: int, short: bool, walks: bool) -> None:
    """16 bytes of the input, or with `short` those that the predicate has. walks: the pointer moves on."""
    mnemonic = "vldrbt.u8" if short else "vldrw.u32" if words else "vldrb.u8"
    if walks and not short:
        asm.op(mnemonic, target, f"[{base}]", f"#{STEP}")
    else:
        asm.op(mnemonic, target, f"[{base}, #{at}]" if at else f"[{base}]")


# ---- one pixel ----


def alone_function(name: str, dot: Dot) -> tuple[str, Count]:
    """The naked function `name(stream, x, y, n, first)` of one pixel with one row; n is not looked at."""
    writer = _Alone(dot)
    count = writer.write()
    return naked_function(name, PARAMETERS, writer.asm), count


class _Alone:
    """Writes the function of one pixel by eight channels: r1 taps, r3 where they begin, r5 turns, r7 y, r9 channels."""

    def __init__(self, dot: Dot) -> None:
        self.dot = dot
        self.asm = VectorAsm()
        self.ragged = dot.out_c % (2 * LANES) != 0
        self.turn, self.first = _turns(len(dot.steps))

    def write(self) -> Count:
        asm, dot = self.asm, self.dot
        asm.op("vpush", "{d8-d15}")
        asm.op("push", _SAVED)
        asm.op("mov", "r7", "r2")
        asm.op("mov", STREAM, "r0")
        asm.op("ldr", "r4", f"[sp, #{_SAVED_BYTES}]")
        asm.op("ldr", "r3", "[r1]")
        asm.op("add", "r3", "r3", "r4")
        if dot.tail and not self.ragged:
            self._tail_lanes()
        asm.constant("r9", dot.out_c if self.ragged else dot.groups)
        once = asm.size
        asm.label("group", aligned=True)
        start = asm.size
        if dot.tail and self.ragged:
            self._tail_lanes()
        asm.op("mov", "r1", "r3")
        looped = self._sums()
        self._finish()
        asm.op("subs", "r9", "r9", f"#{2 * LANES if self.ragged else 1}")
        asm.branch("bgt.w", "group")
        turn = asm.size - start + looped
        start = asm.size
        asm.op("add", "sp", "sp", "#12")
        asm.op("pop", "{r4-r11, lr}")
        asm.op("vpop", "{d8-d15}")
        asm.op("bx", "lr")
        return Count(once + asm.size - start, Work(), dot.groups, turn)

    def _tail_lanes(self) -> None:
        self.asm.constant("r0", (1 << self.dot.tail) - 1)
        self.asm.op("vmsr", "p0", "r0")

    def _sums(self) -> Work:
        """All steps of eight channels; instructions beyond those in the text."""
        asm, steps = self.asm, self.dot.steps
        turns = (len(steps) - self.first - (self.dot.tail > 0)) // self.turn if self.turn else 0
        for index in range(self.first):
            self._step(steps[index].size < STEP, index == 0)
        looped = Work()
        if turns:
            asm.constant("r5", turns)
            asm.label("turn", aligned=True)
            start = asm.size
            for _ in range(self.turn):
                self._step(False, False)
            asm.op("subs", "r5", "r5", "#1")
            asm.branch("bne.w", "turn")
            looped = (turns - 1) * (asm.size - start)
        for step in steps[self.first + turns * self.turn :]:
            self._step(step.size < STEP, False)
        return looped

    def _step(self, short: bool, begins: bool) -> None:
        asm = self.asm
        if short:
            asm.op("vpst")
        load_input(asm, self.dot.aligned and not short, "q0", "r1", 0, short, True)
        for channel, accumulator in enumerate(ACCUMULATORS):
            vector = f"q{1 + channel % 2}"
            asm.op("vldrw.u32", vector, f"[{STREAM}]", f"#{STEP}")
            asm.op("vmladav.s8" if begins else "vmladava.s8", accumulator, "q0", vector)

    def _finish(self) -> None:
        asm, way = self.asm, self.dot.way
        free = [f"q{i}" for i in range(VECTORS)]
        quads = (ACCUMULATORS[0::2], ACCUMULATORS[1::2])
        even, odd = scale_sums(asm, way, quads, free, "r0")
        narrow(asm, way, even, even, False)
        narrow(asm, way, even, odd, True)
        to_bytes(asm, way, [even], next(q for q in free if q != even))
        if self.ragged:
            asm.op("vctp.16", "r9")
            asm.op("vpst")
        asm.op("vstrbt.16" if self.ragged else "vstrb.16", even, "[r7]", f"#{2 * LANES}")


def _turns(steps: int) -> tuple[int, int]:
    """(steps per turn of a loop, steps before it); the turn is 0 where all steps are unrolled."""
    if steps <= _TURN:
        return 0, steps
    choices = [(turn, (steps - 1) % turn + 1) for turn in range(_TURN // 2, _TURN + 1)]
    return min(choices, key=lambda choice: (choice[1] + choice[0], choice[0]))
