# SPDX-License-Identifier: Apache-2.0
"""The assembly of a weighted layer over a row of pixels, two pixels by four output channels at a time.

Per pair of pixels:

1. gather: the taps of both pixels go as int16 into a buffer, interleaved step by step: word 2j holds step j (two
   taps) of the first pixel, word 2j + 1 of the second. One LDRD then feeds a step.
2. for every four output channels: eight accumulators take all steps, the weights coming from one stream
   (tc_stream.h) that r0 walks through; then scaling and eight stores.

The buffer is at the bottom of the stack (with `fpu`, its first 32 words are in FPU registers, from where two words
take a cycle less), so its addresses are immediates: that leaves three registers for
weights, and LDM brings three words at a time. Above 256 taps the offsets of LDRD do not reach: the buffer then
lies in scratch, r14 walks through it, and the steps are a loop.

A last odd pixel is gathered as the second of a pair with its left neighbour, and multiplied alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.kernels import int4_words
from tinyc.kernels.tile.groups import FIRST, SECOND, STREAM, GroupWriter, PixelWork, Weights
from tinyc.kernels.tile.layer import Run
from tinyc.machine.thumb import Asm, fpu_registers

_EIGHTS = 8  # groups of eight taps of a run without a loop, in layers that have loops
_EIGHTS_PER_TURN = 4
_STEPS_PER_TURN = 8  # where the buffer is in scratch
_LAST_PER_TURN = 4  # steps of a last odd pixel
_LDR_REACH = 4095
_LAST_TAPS = ("r9", "r10", "r11", "r12")  # loaded together
_LAST_UNROLLED = 32  # its steps without a loop, in layers whose rows are short


class TwoPixelWriter(GroupWriter):
    """Writes one function for n >= 2 pixels, or an even number; `asm` has the code."""

    _words = 0  # of taps that are gathered so far, as far as registers of the FPU take them

    def write(self) -> PixelWork:
        asm = self.asm
        self.enter()
        self._pairs()
        if not self.layer.even:
            self._last()
        self.leave()
        self.gather()
        self.sum()
        return PixelWork(asm.work(), asm.work("pair"), asm.work("last"), self.group_bytes)

    def _last(self) -> None:
        """A last odd pixel, if there is one."""
        asm = self.asm
        asm.op("adds", "r9", "r9", "#1")
        asm.branch("bmi.w", "done")
        with asm.per("last"):
            self._step_back()
            self._call_gather()
            if self.layer.moves_to_fpu:
                asm.op("vstmia", "sp", self._held)
            self.load_stream()
            self.groups("last", self._sums_last, paired=False)
        asm.label("done")

    def _pairs(self) -> None:
        """The loop over pairs of pixels. Leaves r9 = pixels left - 2: -1 or -2."""
        layer, asm, frame = self.layer, self.asm, self.frame
        with asm.loop("pair", "pair", aligned=False):
            self._call_gather()
            if layer.held_steps and not self.layer.moves_to_fpu:
                asm.op("vldmia", "sp", self._held)
            self.load_stream()
            self.groups("pair", self._sums, paired=True)
            asm.note("the next pair of pixels")
            asm.op("ldr", "r9", frame.at("n"))
            asm.add("r14", "r14", layer.out_c, "r10")
            asm.op("str", "r14", frame.at("y"))
            asm.op("subs", "r9", "r9", "#2")
            asm.op("str", "r9", frame.at("n"))
            asm.branch("bpl.w", "pair")

    @property
    def _held(self) -> str:
        """The registers of the FPU with taps of a pair."""
        return fpu_registers(0, 2 * self.layer.held_steps)

    def _step_back(self) -> None:
        """The last odd pixel is the second of a pair: start one pixel earlier."""
        place = self.frame.at("x" if self.layer.k_h == 1 else "first")
        self.asm.note("a last odd pixel: the second of a pair that begins one earlier")
        self.asm.op("ldr", "r9", place)
        self.asm.add("r9", "r9", -self.layer.pixel_bytes, "r10")
        self.asm.op("str", "r9", place)

    def _call_gather(self) -> None:
        self.asm.branch("bl", "gather")
        if self.layer.requant.offsets:
            self.asm.branch("bl", "sum")

    def sum(self) -> None:
        """For int4 weights: a subroutine that sums the taps in the buffer."""
        if not self.layer.requant.offsets:
            return
        self.asm.label("sum", aligned=True)
        self.sum_taps()
        self.asm.op("bx", "lr")

    # ---- gather: r9, r10 taps of both pixels, r11 buffer, r1-r8 data ----

    def gather(self) -> None:
        """A subroutine: `_fill_buffer`."""
        self.asm.note("subroutine: taps of both pixels to the buffer, as int16")
        self.asm.label("gather", aligned=True)
        self._fill_buffer()
        self.asm.op("bx", "lr")

    def _fill_buffer(self) -> None:
        """Fills the buffer, moves to the next pair."""
        layer, asm = self.layer, self.asm
        if layer.in_scratch:
            asm.op("ldr", "r11", self.frame.at("buffer"))
        elif not layer.moves_to_fpu:
            asm.op("mov", "r11", "sp")
        elif layer.steps > layer.held_steps:
            asm.add("r11", "sp", 8 * layer.held_steps)
        self._words = 0 if layer.moves_to_fpu else 2 * layer.held_steps
        if layer.k_h == 1:
            self._gather_row()
        elif layer.looped:
            self._gather_looped()
        else:
            self._gather_unrolled()

    def _gather_row(self) -> None:
        """One kernel row: its address is in the frame."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", "r9", frame.at("x"))
        asm.add("r10", "r9", layer.pixel_bytes)
        self._runs(None if layer.looped else self._first_tail)
        span = layer.runs[-1].offset + layer.runs[-1].size
        if layer.pixel_bytes == span:
            asm.op("str", "r10", frame.at("x"))  # where the second pixel ends, the next pair starts
        else:
            asm.add("r9", "r9", 2 * layer.pixel_bytes - span, "r12")
            asm.op("str", "r9", frame.at("x"))

    def _gather_unrolled(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", "r0", frame.at("rows"))
        asm.op("ldr", "r12", frame.at("first"))
        tail = self._first_tail
        fours = layer.k_h if layer.runs == (Run(0, 4),) and layer.pixel_bytes <= _LDR_REACH else 0
        for row in range(0, fours, 2):
            rows = min(2, fours - row)
            asm.piece(_rows_of_four, range(row, row + rows), layer.pixel_bytes, self._places(4 * rows))
        for row in range(fours, layer.k_h):
            asm.piece(_begin_row, row, layer.pixel_bytes)
            self._runs(tail)
            tail += sum(run.size % 4 for run in layer.runs)
        self._next_pair()

    def _gather_looped(self) -> None:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", "r0", frame.at("rows"))
        with asm.loop("kernel_row", layer.k_h):
            asm.op("ldr", "r9", "[r0], #4")
            asm.op("ldr", "r12", frame.at("first"))
            asm.op("add", "r9", "r9", "r12")
            asm.add("r10", "r9", layer.pixel_bytes)
            self._runs(None)
            asm.op("ldr", "r1", frame.at("rows"))
            asm.add("r1", "r1", 4 * layer.k_h)
            asm.until_equal("r0", "r1", "kernel_row")
        asm.op("ldr", "r12", frame.at("first"))
        self._next_pair()

    def _next_pair(self) -> None:
        """Moves `first`, which is in r12, to the next pair."""
        self.asm.add("r1", "r12", 2 * self.layer.pixel_bytes)
        self.asm.op("str", "r1", self.frame.at("first"))

    @property
    def _first_tail(self) -> int:
        """Number of the first half step that holds a tap outside the groups of four."""
        return self.layer.k_h * sum(run.size // 4 * 4 for run in self.layer.runs)

    def _runs(self, tail: int | None) -> None:
        """The taps of one kernel row to the buffer.

        tail: the half step that takes the first tap outside the groups of four; None: where r11 is.
        """
        asm = self.asm
        at = 0
        for number, run in enumerate(self.layer.runs):
            for pointer in ("r9", "r10"):
                asm.add(pointer, pointer, run.offset - at, "r8")
            self._fours(run.size // 4, f"run{number}")
            self._tail(run.size % 4, tail)
            at = run.offset + run.size
            tail = tail + run.size % 4 if tail is not None else None

    def _fours(self, count: int, label: str) -> None:
        """`count` groups of four taps, two groups at a time."""
        asm, eights = self.asm, count // 2
        if self.layer.looped and eights > _EIGHTS:
            turns = eights // _EIGHTS_PER_TURN
            asm.add("r12", "r9", 8 * _EIGHTS_PER_TURN * turns)
            with asm.loop(label, turns):
                for _ in range(_EIGHTS_PER_TURN):
                    asm.piece(_eight, self.layer.aligned, ())
                asm.until_equal("r9", "r12", label)
            eights -= _EIGHTS_PER_TURN * turns
        for _ in range(eights):
            asm.piece(_eight, self.layer.aligned, self._places(8))
        if count % 2:
            asm.piece(_four, self._places(4))

    def _places(self, count: int) -> tuple[str, ...]:
        """Registers of the FPU for the next words; none: the buffer."""
        first, self._words = self._words, self._words + count
        return tuple(f"s{i}" for i in range(first, min(self._words, 2 * self.layer.held_steps)))

    def _tail(self, count: int, half: int | None) -> None:
        """The last 1 to 3 taps of a run, a halfword each, or a word where the other half of a step has weight 0."""
        asm = self.asm
        for i in range(count):
            asm.op("ldrsb", "r1", "[r9], #1")
            asm.op("ldrsb", "r2", "[r10], #1")
            base, at = ("r11", i) if half is None else ("sp", half + i)
            offset = at // 2 * 8 + at % 2 * 2
            store = "str" if i == count - 1 and at % 2 == 0 else "strh"
            asm.op(store, "r1", f"[{base}, #{offset}]")
            asm.op(store, "r2", f"[{base}, #{offset + 4}]")
        if half is None:
            asm.add("r11", "r11", -(-count // 2) * 8)

    # ---- sums ----

    def _sums(self) -> None:
        """Eight accumulators over all steps."""
        if self.layer.in_scratch:
            self._sums_looped()
            return
        asm, layer = self.asm, self.layer
        asm.load_multiple(STREAM, FIRST)
        if layer.nibbles:
            self._nibble_steps()
            return
        weights = Weights(asm, ("r9", "r10", "r11"), layer.steps * layer.words_per_step)
        for step in range(layer.steps):
            load: tuple[str, ...]
            if step < layer.held_steps:
                load = "vmov", "r12", "r14", f"s{2 * step}", f"s{2 * step + 1}"
            else:
                load = "ldrd", "r12", "r14", f"[sp, #{8 * step}]"
            self._step(weights, load, fresh=step == 0)
        self.split("first_sum", "second_sum")

    def _nibble_steps(self) -> None:
        """All steps with int4 weights that go on top of halves one by one. Of three loads in a row the second and
        third take a cycle each."""
        asm = self.asm
        asm.op("mov", "r11", f"#{int4_words.NIBBLE_MASK:#x}")
        for step in range(self.layer.steps):
            asm.op("ldr", "r9", f"[{STREAM}], #4")
            asm.op("ldr", "r12", f"[sp, #{8 * step}]" if step else "[sp]")
            asm.op("ldr", "r14", f"[sp, #{8 * step + 4}]")
            for channel, (a, b) in enumerate(zip(FIRST, SECOND, strict=True)):
                int4_words.top(asm, channel, "r10", "r9", "r11")
                asm.op("smlad", b, "r14", "r10", b if step else a)
                asm.op("smlad", a, "r12", "r10", a)

    def _sums_looped(self) -> None:
        asm, layer, frame = self.asm, self.layer, self.frame
        turns, ahead = divmod(layer.steps, _STEPS_PER_TURN)

        def steps(count: int) -> None:
            weights = Weights(asm, ("r9", "r10"), count * layer.words_per_step)
            for _ in range(count):
                self._step(weights, ("ldrd", "r11", "r12", "[r14], #8"), fresh=False)

        asm.load_multiple(STREAM, FIRST, advance=False)
        asm.load_multiple(STREAM, SECOND)
        asm.op("ldr", "r14", frame.at("buffer"))
        steps(ahead)
        with asm.loop("pair_steps", turns):
            steps(_STEPS_PER_TURN)
            asm.op("ldr", "r9", frame.at("buffer_end"))
            asm.until_equal("r14", "r9", "pair_steps")
        self.split("first_sum", "second_sum")

    def _step(self, weights: Weights, load: tuple[str, ...], fresh: bool) -> None:
        """Two taps of each pixel, which `load` brings, times the weights of four channels. fresh: only the first
        pixel's registers have the start values."""
        _, x0, x1, *_ = load
        pixels = (x1, SECOND, FIRST if fresh else SECOND), (x0, FIRST, FIRST)
        weights.multiply(self.layer.requant, self.layer.words_per_step, pixels, load)

    def _sums_last(self) -> None:
        """Four accumulators over all steps of the second pixel in the buffer."""
        asm, layer, frame = self.asm, self.layer, self.frame
        asm.load_multiple(STREAM, FIRST)
        if not layer.in_scratch and layer.k_h > 1 and layer.steps <= _LAST_UNROLLED:
            self._steps_last("sp", 4, layer.steps)
            self.split("second_sum", None)
            return
        turns, ahead = divmod(layer.steps, _LAST_PER_TURN)
        if layer.in_scratch:
            asm.op("ldr", "r14", frame.at("buffer"))
            asm.add("r14", "r14", 4)
        else:
            asm.add("r14", "sp", 4)
        self._steps_last("r14", 0, ahead)
        asm.add("r14", "r14", 8 * ahead)
        if turns:
            with asm.loop("last_steps", turns):
                self._steps_last("r14", 0, _LAST_PER_TURN)
                asm.add("r14", "r14", 8 * _LAST_PER_TURN)
                if layer.in_scratch:
                    asm.op("ldr", "r9", frame.at("buffer_end"))
                    asm.add("r9", "r9", 4)
                else:
                    asm.add("r9", "sp", layer.buffer_bytes + 4)
                asm.until_equal("r14", "r9", "last_steps")
        self.split("second_sum", None)

    def _steps_last(self, base: str, first: int, count: int) -> None:
        """Steps of one pixel whose taps begin `first` bytes behind a register. Loads behind each other take less."""
        asm, per_step = self.asm, self.layer.words_per_step
        places = [f"[{base}, #{first + 8 * step}]" for step in range(count)]
        if self.layer.nibbles:
            self._nibbles_last(places)
            return
        weights = Weights(asm, SECOND, count * per_step)
        for at in range(0, count, len(_LAST_TAPS)):
            taps = _LAST_TAPS[: count - at]
            asm.piece(_load, taps, tuple(places[at : at + len(taps)]))
            for tap in taps:
                weights.multiply(self.layer.requant, per_step, ((tap, FIRST, FIRST),))

    def _nibbles_last(self, places: Sequence[str]) -> None:
        asm = self.asm
        word, weights, mask = SECOND[:3]
        asm.op("mov", mask, f"#{int4_words.NIBBLE_MASK:#x}")
        for place in places:
            asm.op("ldr", word, f"[{STREAM}], #4")
            asm.op("ldr", "r9", place)
            for channel, acc in enumerate(FIRST):
                int4_words.top(asm, channel, weights, word, mask)
                asm.op("smlad", acc, "r9", weights, acc)


def _load(asm: Asm, taps: tuple[str, ...], places: tuple[str, ...]) -> None:
    """Words of the buffer to registers."""
    for tap, place in zip(taps, places, strict=True):
        asm.op("ldr", tap, place)


def _begin_row(asm: Asm, row: int, pixel_bytes: int) -> None:
    """Where both pixels begin in a kernel row."""
    asm.op("ldr", "r9", f"[r0, #{4 * row}]")
    asm.op("add", "r9", "r9", "r12")
    asm.add("r10", "r9", pixel_bytes)


def _eight(asm: Asm, aligned: bool, held: tuple[str, ...]) -> None:
    """Eight taps of both pixels to eight words of the buffer, the first ones to registers of the FPU."""
    asm.piece(_eight_words, aligned)
    _put(asm, 8, held)


def _eight_words(asm: Asm, aligned: bool) -> None:
    """Eight taps of both pixels to r1-r8."""
    if aligned:
        asm.op("ldrd", "r3", "r7", "[r9], #8")
        asm.op("ldrd", "r4", "r8", "[r10], #8")
    else:
        asm.op("ldr", "r7", "[r9, #4]")
        asm.op("ldr", "r3", "[r9], #8")
        asm.op("ldr", "r8", "[r10, #4]")
        asm.op("ldr", "r4", "[r10], #8")
    asm.piece(_unpack, 0)
    asm.piece(_unpack, 4)


def _put(asm: Asm, count: int, held: tuple[str, ...]) -> None:
    """Words in r1 and so on to registers of the FPU, others to the buffer."""
    for i in range(0, len(held), 2):
        asm.op("vmov", *held[i : i + 2], f"r{1 + i}", f"r{2 + i}")
    if len(held) < count:
        asm.op("stm", "r11!", f"{{r{1 + len(held)}-r{count}}}")


def _four(asm: Asm, held: tuple[str, ...]) -> None:
    """Four taps of both pixels to four words of the buffer, the first ones to registers of the FPU."""
    asm.piece(_four_words)
    _put(asm, 4, held)


def _four_words(asm: Asm) -> None:
    """Four taps of both pixels to r1-r4."""
    asm.op("ldr", "r3", "[r9], #4")
    asm.op("ldr", "r4", "[r10], #4")
    asm.piece(_unpack, 0)


def _rows_of_four(asm: Asm, rows: range, pixel_bytes: int, held: tuple[str, ...]) -> None:
    """The same of one or two kernel rows that have no more. Loads behind each other take less."""
    pointers = ("r9", "r10")[: len(rows)]
    for pointer, row in zip(pointers, rows, strict=True):
        asm.op("ldr", pointer, f"[r0, #{4 * row}]")
    asm.piece(_words_of_four, pointers, pixel_bytes)
    _put(asm, 4 * len(rows), held)


def _words_of_four(asm: Asm, pointers: tuple[str, ...], pixel_bytes: int) -> None:
    """Four taps of both pixels in rows at the pointers to r1-r4, of a second row to r5-r8."""
    for pointer in pointers:
        asm.op("add", pointer, pointer, "r12")
    for base, pointer in zip((0, 4), pointers, strict=False):
        asm.op("ldr", f"r{base + 3}", f"[{pointer}]")
        asm.op("ldr", f"r{base + 4}", f"[{pointer}, #{pixel_bytes}]")
    for base in range(0, 4 * len(pointers), 4):
        asm.piece(_unpack, base)


def _unpack(asm: Asm, base: int) -> None:
    """Bytes in r3 and r4 (+ base) -> int16 in r1-r4: taps (0, 2) of both pixels, then (1, 3)."""
    first, second, odd_first, odd_second = (f"r{base + i}" for i in (1, 2, 3, 4))
    asm.op("sxtb16", first, odd_first)
    asm.op("sxtb16", second, odd_second)
    asm.op("sxtb16", odd_first, odd_first, "ror #8")
    asm.op("sxtb16", odd_second, odd_second, "ror #8")
