# SPDX-License-Identifier: Apache-2.0
"""The functions of dot-product layers: two pixels by four channels at a time, or one pixel by eight channels.

Sums stay in the eight even registers; odd ones are pointers and a counter. A group of channels goes through all
steps (unrolled; long ones of a single row in a loop), then its sums are scaled in vectors and stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tinyc.base.dataclass import dataclass
from tinyc.kernels.mve.dot import ACCUMULATORS, BYTE_REACH, LANES, STEP, VECTORS, Dot, DotStep
from tinyc.kernels.mve.lanes import STREAM, ScalePower, narrow, needed, scale_sums, set_power, to_bytes
from tinyc.machine.cores import CORTEX_M55
from tinyc.machine.thumb import Asm, Work, naked_function

PARAMETERS = ("const int32_t *stream", "const int8_t *const *x", "int8_t *y", "int32_t n", "int32_t first")
_SAVED = "{r0, r2-r11, lr}"  # at the stack pointer then: stream, a free word, n
_SAVED_BYTES = 12 * 4 + 64
_UNROLLED = 40  # steps
_TURN = 16  # steps per turn of a loop, at most
_LOW = ACCUMULATORS[:LANES]
_HIGH = ACCUMULATORS[LANES:]


@dataclass(frozen=True, slots=True)
class PairWork:
    """What a call executes: once, for each pair of pixels, and for one that is left over."""

    once: Work
    pair: Work
    single: Work

    def of(self, pixels: int) -> Work:
        return self.once + pixels // 2 * self.pair + pixels % 2 * self.single


def can_read(dot: Dot) -> bool:
    """Whether immediates reach the taps of both pixels, and registers hold the rows."""
    if dot.k_h == 1:
        return True
    return dot.k_h <= 3 and dot.reaches(dot.pixel_bytes) and len(dot.steps) <= _UNROLLED


def pixels_function(name: str, dot: Dot) -> tuple[str, PairWork]:
    """The naked function `name(stream, x, y, n, first)`; n is 2 or more."""
    asm = _Pixels(dot).write()
    pair = asm.work("pair")
    single = asm.work("single") if dot.has_single else pair
    return naked_function(name, PARAMETERS, asm), PairWork(asm.work(), pair, single)


class _Dots:
    """What both functions do alike. Registers: r7 y, r11 stream."""

    def __init__(self, dot: Dot, together: int) -> None:
        self.dot = dot
        self.asm = Asm(CORTEX_M55)
        self.together = together  # channels
        self.ragged = dot.out_c % together != 0

    def enter(self) -> None:
        self.asm.note("registers and arguments")
        self.asm.save("{d8-d15}", _SAVED)
        self.asm.op("mov", "r7", "r2")

    def leave(self) -> None:
        self.asm.note("return")
        self.asm.restore("{r4-r11, lr}", beside=12)

    def tail_lanes(self, begins: bool) -> None:
        """Predicate: the bytes of a short step, set where a function `begins`, or, where the last channels have another
        one, again and again. Uses r0."""
        if self.dot.tail and self.ragged != begins:
            self.asm.constant("r0", (1 << self.dot.tail) - 1)
            self.asm.op("vmsr", "p0", "r0")

    def load_input(self, target: str, place: Sequence[str], short: bool) -> None:
        """16 bytes of the input, or with `short` those that the predicate has."""
        self.asm.op("vldrbt.u8" if short else "vldrw.u32" if self.dot.aligned else "vldrb.u8", target, *place)

    @contextmanager
    def groups(self, counter: str, passes: int = 1) -> Iterator[None]:
        """The loop over groups of channels, so many in a turn."""
        turns = self.dot.groups // passes
        self.asm.constant(counter, self.dot.out_c if self.ragged else turns)
        with self.asm.loop("group", turns):
            yield
            self.asm.op("subs", counter, counter, f"#{self.together if self.ragged else 1}")
            self.asm.branch("bgt.w", "group")

    def steps(
        self,
        before: tuple[int, int],
        counter: str,
        label: str,
        write: Callable[[DotStep, int, bool], None],
        keep: str = "",
    ) -> None:
        """All steps, written with their number and whether they are the first. before: steps of a turn of the loop, 0
        for none, and before it. keep: where the counter's register waits, if it has another use."""
        asm, steps = self.asm, self.dot.steps
        turn, first = before
        turns = (len(steps) - first - (self.dot.tail > 0)) // turn if turn else 0
        for index, step in enumerate(steps[:first]):
            write(step, index, index == 0)
        if turns:
            if keep:
                asm.op("str", counter, keep)
            asm.constant(counter, turns)
            with asm.loop(label, turns):
                for _ in range(turn):
                    write(steps[first], first, False)
                asm.count_down(counter, "", label)
            if keep:
                asm.op("ldr", counter, keep)
        for index, step in enumerate(steps[first + turns * turn :], first):
            write(step, index, False)


class _Pixels(_Dots):
    """Writes the function of two pixels by four channels.

    One row: r1 pixel, r3 2^scale, r5 pixels left, r9 channels; where immediates do not
    reach (`walks`), r3 is the second pixel. More rows: r1, r3, r9 rows, r5 channels; a third row takes the place of
    2^scale.
    """

    def __init__(self, dot: Dot) -> None:
        super().__init__(dot, LANES)
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
        self.resident = self._resident()

    def _resident(self) -> dict[tuple[int, int], str]:
        """Vectors of the input, by step and pixel, that stay in registers while all channels are made: of those that no
        loop reads, as many as there is room for beside the two that the others come to and what a finish needs."""
        dot, steps = self.dot, self.dot.steps
        if dot.held or self.walks:
            return {}
        before = self._turns()[1]
        places = [(number, pixel) for number in range(before) for pixel in (0, 1) if steps[number].size == STEP]
        spare = len(self.free) + 2 - max(needed(dot.requant, 2), 3)
        return {place: self.free.pop() for place in places[: max(spare, 0)]}

    def _turns(self) -> tuple[int, int]:
        """(steps per turn of a loop, steps before it)."""
        steps = len(self.dot.steps)
        return _turns(steps) if steps > _UNROLLED else (0, steps)

    def write(self) -> Asm:
        asm, passes = self.asm, 1 + self.dot.paired
        self._enter()
        with asm.loop("pair", "pair"):
            self._begin_pair()
            with self.groups(self.counter, passes):
                for number in range(passes):
                    self._group(number)
            self._end_pair()
        if self.dot.has_single:
            with asm.per("single"):
                self._single()
        asm.label("done")
        self.leave()
        return asm

    def _enter(self) -> None:
        asm, dot = self.asm, self.dot
        self.enter()
        asm.op("ldr", "r4", f"[sp, #{_SAVED_BYTES}]")
        asm.op("mov", "r6", "r1")
        if self.single:
            asm.op("mov", "r5", "r3")
        for row in range(dot.k_h):
            asm.op("ldr", self.x[row], f"[r6, #{4 * row}]")
            asm.op("add", self.x[row], self.x[row], "r4")
        if self.power:
            set_power(asm, dot.requant, self.power)
        self.tail_lanes(begins=True)

    def _begin_pair(self) -> None:
        asm, dot = self.asm, self.dot
        asm.note("a pair of pixels")
        asm.op("ldr", STREAM, "[sp]")
        if self.walks:
            asm.add("r3", "r1", dot.pixel_bytes, "r3")
        if dot.held:
            self.tail_lanes(begins=False)
            for number, step in enumerate(dot.steps):
                self._load_inputs(step, (0, 1), self.inputs[2 * number : 2 * number + 2])
        for (number, pixel), vector in self.resident.items():
            self._load_inputs(dot.steps[number], (pixel,), (vector,))

    def _end_pair(self) -> None:
        """Goes on with the next pair. For one pixel that is left its left neighbour comes again, or what follows."""
        asm, dot = self.asm, self.dot
        again = "one" if dot.has_single else "the one before it again"
        asm.note(f"the next pair, or for a last odd pixel {again}")
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
        if dot.has_single:
            return
        for row in rows:
            asm.add(row, row, -dot.pixel_bytes, "r2")
        asm.add("r7", "r7", -dot.out_c, "r2")
        asm.branch("b.w", "pair")

    def _load_inputs(self, step: DotStep, pixels: Sequence[int], targets: Sequence[str]) -> None:
        short = step.size < STEP
        if short:
            self.asm.op("vps" + "t" * len(targets))
        for pixel, target in zip(pixels, targets, strict=True):
            if self.walks:
                base, at = self.x[pixel], 0
            else:
                base, at = self.x[step.row], step.at + pixel * self.dot.pixel_bytes
            self.load_input(target, input_at(base, at, self.walks and not short), short)

    def _group(self, number: int) -> None:
        """Four channels of two pixels."""
        asm, dot = self.asm, self.dot
        asm.note("products: two pixels by four channels")
        if not dot.held:
            self.tail_lanes(begins=False)
        self.steps(self._turns(), self.counter, f"turn{number}", self._step, "[sp, #4]")
        self._finish(number)
        if self.walks:
            whole = dot.row_taps // STEP * STEP
            for pointer in self.x:
                asm.add(pointer, pointer, -whole, "r0")

    def _step(self, step: DotStep, index: int, begins: bool) -> None:
        asm = self.asm
        inputs = self.inputs[2 * index : 2 * index + 2] if self.dot.held else self._inputs_of(step, index)
        for channel in range(LANES):
            vector = self.free[channel % len(self.free[:2])]
            asm.op("vldrw.u32", vector, f"[{STREAM}]", f"#{STEP}")
            for accumulators, taps in zip((_LOW, _HIGH), inputs, strict=True):
                asm.op("vmladav.s8" if begins else "vmladava.s8", accumulators[channel], taps, vector)

    def _inputs_of(self, step: DotStep, index: int) -> list[str]:
        """The inputs of both pixels, those that are not kept loaded."""
        inputs = [self.resident.get((index, pixel), self.inputs[pixel]) for pixel in (0, 1)]
        pixels = [pixel for pixel in (0, 1) if inputs[pixel] == self.inputs[pixel]]
        if pixels:
            self._load_inputs(step, pixels, [inputs[pixel] for pixel in pixels])
        return inputs

    def _finish(self, number: int) -> None:
        """Sums -> outputs."""
        asm, dot, requant = self.asm, self.dot, self.dot.requant
        asm.note("requantize")
        free = self.free if self.dot.held else self.inputs + self.free
        quads, powers = (_LOW, _HIGH), (self.power or "r0", self.power or "r8")
        ready = self.power != ""
        if len(free) >= needed(requant, 2):
            scaled = scale_sums(asm, requant, quads, free, ScalePower(powers[0], ready), "shared")
            results = list(zip(scaled, self.held or (scaled[0],) * 2, (0, 1), strict=True))
            self._narrow(results, number)
        else:
            for pixel in (0, 1):
                power = ScalePower(powers[pixel], ready)
                (one,) = scale_sums(asm, requant, quads[pixel : pixel + 1], free, power, "each" if pixel else "stay")
                self._narrow([(one, self.held[pixel], pixel)], number)
        if not dot.paired:
            self._store_quads(scaled[0], next(q for q in free if q != scaled[0]))
        elif number == 1:
            to_bytes(asm, requant, self.held, free[0])
            self._store_eights()

    def _narrow(self, results: list[tuple[str, str, int]], number: int) -> None:
        for source, target, pixel in results:
            narrow(self.asm, self.dot.requant, target, source, bool(number if self.dot.paired else pixel))

    def _store_quads(self, vector: str, temp: str) -> None:
        """Bottom halves are the first pixel, top halves the second."""
        asm = self.asm
        asm.note("store")
        to_bytes(asm, self.dot.requant, [vector], temp)
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
        asm.note("store")
        asm.op("vstrb.16", self.held[0], "[r7]", f"#{2 * LANES}")
        asm.op("vstrb.16", self.held[1], self._second_pixel(2 * LANES))

    def _second_pixel(self, advance: int) -> str:
        """Where the second pixel is stored, once r7 has moved on by `advance`. May use r0."""
        distance = self.dot.out_c - advance
        if distance <= BYTE_REACH:
            return f"[r7, #{distance}]"
        self.asm.add("r0", "r7", distance)
        return "[r0]"

    def _single(self) -> None:
        """The last pixel: of eight channels even and odd ones beside each other. r5: stream of the odd ones."""
        asm, dot = self.asm, self.dot
        asm.note("the last pixel")
        asm.op("ldr", STREAM, "[sp]")
        if dot.held:
            self.tail_lanes(begins=False)
            for number, step in enumerate(dot.steps):
                self._load_inputs(step, (0,), (f"q{number}",))
        with self._eights():
            asm.note("products: a pixel by eight channels")
            asm.add("r5", STREAM, dot.group_bytes, "r0")
            if not dot.held:
                self.tail_lanes(begins=False)
            self.steps(self._turns(), self.counter, "single_turn", self._single_step, "[sp, #4]")
            asm.note("requantize and store")
            free = [f"q{i}" for i in range(VECTORS) if not dot.held or i >= len(dot.steps)]
            (even,) = scale_sums(asm, dot.requant, (_LOW,), free, ScalePower(self.power or "r0", self.power != ""))
            asm.op("mov", STREAM, "r5")
            free.remove(even)
            (odd,) = scale_sums(asm, dot.requant, (_HIGH,), free, ScalePower(self.power or "r8", self.power != ""))
            narrow(asm, dot.requant, even, even, False)
            narrow(asm, dot.requant, even, odd, True)
            to_bytes(asm, dot.requant, [even], odd)
            asm.op("vstrb.16", even, "[r7]", f"#{2 * LANES}")
            if self.walks:
                asm.add("r1", "r1", -(dot.row_taps // STEP * STEP), "r0")

    @contextmanager
    def _eights(self) -> Iterator[None]:
        """The loop over eight channels."""
        turns = self.dot.groups // 2
        self.asm.constant(self.counter, turns)
        with self.asm.loop("eight", turns):
            yield
            self.asm.count_down(self.counter, "", "eight", "bgt.w")

    def _single_step(self, step: DotStep, index: int, begins: bool) -> None:
        asm = self.asm
        vector = f"q{index}" if self.dot.held else "q0"
        if not self.dot.held:
            self._load_inputs(step, (0,), (vector,))
        for stream, accumulators in ((STREAM, _LOW), ("r5", _HIGH)):
            for number, accumulator in enumerate(accumulators):
                weights = f"q{6 + number % 2}"
                asm.op("vldrw.u32", weights, f"[{stream}]", f"#{STEP}")
                asm.op("vmladav.s8" if begins else "vmladava.s8", accumulator, vector, weights)


def input_at(base: str, at: int, walks: bool) -> tuple[str, ...]:
    """The operands of a vector of the input; walks: the pointer moves on."""
    return (f"[{base}]", f"#{STEP}") if walks else (f"[{base}, #{at}]" if at else f"[{base}]",)


# ---- one pixel ----


def alone_function(name: str, dot: Dot) -> tuple[str, PairWork]:
    """The naked function `name(stream, x, y, n, first)` of one pixel with one row; n is not looked at."""
    asm = _Alone(dot).write()
    return naked_function(name, PARAMETERS, asm), PairWork(asm.work(), Work(), Work())


class _Alone(_Dots):
    """Writes the function of one pixel by eight channels: r1 taps, r3 where they begin, r5 turns, r9 channels."""

    def __init__(self, dot: Dot) -> None:
        super().__init__(dot, 2 * LANES)

    def write(self) -> Asm:
        asm = self.asm
        self.enter()
        asm.op("mov", STREAM, "r0")
        asm.op("ldr", "r4", f"[sp, #{_SAVED_BYTES}]")
        asm.op("ldr", "r3", "[r1]")
        asm.op("add", "r3", "r3", "r4")
        self.tail_lanes(begins=True)
        with self.groups("r9"):
            asm.note("products: a pixel by eight channels")
            self.tail_lanes(begins=False)
            asm.op("mov", "r1", "r3")
            self.steps(_turns(len(self.dot.steps)), "r5", "turn", self._step)
            self._finish()
        self.leave()
        return asm

    def _step(self, step: DotStep, index: int, begins: bool) -> None:
        asm, short = self.asm, step.size < STEP
        if short:
            asm.op("vpst")
        self.load_input("q0", input_at("r1", 0, not short), short)
        for channel, accumulator in enumerate(ACCUMULATORS):
            vector = f"q{1 + channel % 2}"
            asm.op("vldrw.u32", vector, f"[{STREAM}]", f"#{STEP}")
            asm.op("vmladav.s8" if begins else "vmladava.s8", accumulator, "q0", vector)

    def _finish(self) -> None:
        asm, requant = self.asm, self.dot.requant
        asm.note("requantize and store")
        free = [f"q{i}" for i in range(VECTORS)]
        quads = (ACCUMULATORS[0::2], ACCUMULATORS[1::2])
        even, odd = scale_sums(asm, requant, quads, free, ScalePower("r0", ready=False))
        narrow(asm, requant, even, even, False)
        narrow(asm, requant, even, odd, True)
        to_bytes(asm, requant, [even], next(q for q in free if q != even))
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
