"""The assembly of a weighted layer over a row of pixels, two pixels by four output channels at a time.

Per pair of pixels:

1. gather: the taps of both pixels go as int16 into a buffer, interleaved step by step: word 2j holds step j (two
   taps) of the first pixel, word 2j + 1 of the second. One LDRD then feeds a step.
2. for every four output channels: eight accumulators (r1-r4 first pixel, r5-r8 second) take all steps, the
   weights coming from one stream (runtime_c/tc_stream.h) that r0 walks through; then scaling and eight stores.

The buffer is at the bottom of the stack, so its addresses are immediates: that leaves three registers for
weights and LDM brings three words at a time. Above 256 taps the offsets of LDRD do not reach: the buffer then
lies in scratch, r14 walks through it, the loop over the steps is a loop.

A last odd pixel is gathered as the second of a pair with its left neighbour, and multiplied alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tinyc.codegen.finish import GROUP, Way
from tinyc.codegen.thumb import Asm, naked_function

_REACH = 1020  # of the immediate of LDRD
_UNROLLED_BYTES = 160  # of taps per pixel, gathered without a loop
_UNROLLED_CHUNKS = 8  # of 8 bytes, per run of a gather loop
_LOOP_STEPS = 8  # steps per turn where the buffer is in scratch
_ALONE_STEPS = 4  # steps per turn for a pixel alone
_ALONE_UNROLLED = 32  # steps of a pixel alone without a loop, in layers whose rows are short

FIRST = ("r1", "r2", "r3", "r4")
SECOND = ("r5", "r6", "r7", "r8")
STREAM = "r0"


@dataclass(frozen=True, slots=True)
class Run:
    """`size` consecutive taps, from byte `offset` of a kernel row on."""

    offset: int
    size: int


@dataclass(frozen=True)
class Layer:
    """What the code depends on. `runs`: the taps in one of the k_h input rows. aligned: pixels and rows start at words.

    single: a call makes one pixel; otherwise two or more.
    """

    k_h: int
    runs: tuple[Run, ...]
    pixel_bytes: int
    out_c: int
    aligned: bool
    single: bool
    way: Way

    @cached_property
    def row_taps(self) -> int:
        return sum(run.size for run in self.runs)

    @cached_property
    def looped(self) -> bool:
        """Whether the gather is a loop over the kernel rows (or over the taps of one row)."""
        return self.k_h * self.row_taps > _UNROLLED_BYTES

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """Tap number (kernel row * row_taps + place in the row) of every half step, -1 for none."""
        found: list[int] = []
        tails: list[int] = []
        for row in range(self.k_h):
            start = row * self.row_taps
            for run in self.runs:
                for at in range(start, start + run.size // 4 * 4, 4):
                    found += (at, at + 2, at + 1, at + 3)
                tail = list(range(start + run.size // 4 * 4, start + run.size))
                start += run.size
                if self.looped:
                    found += tail + [-1] * (len(tail) % 2)
                else:
                    tails += tail
        return tuple(found + tails + [-1] * (len(tails) % 2))

    @property
    def steps(self) -> int:
        return len(self.slots) // 2

    @property
    def buffer_bytes(self) -> int:
        return 8 * self.steps

    @property
    def in_scratch(self) -> bool:
        """Whether the buffer is in scratch."""
        return self.buffer_bytes - 8 > _REACH

    @property
    def words_per_step(self) -> int:
        return 2 if self.way.packed else 4

    @property
    def group_words(self) -> int:
        """Words of the stream for four output channels."""
        return GROUP + self.steps * self.words_per_step + GROUP * self.way.constants

    @property
    def groups(self) -> int:
        return -(-self.out_c // GROUP)

    def tap_place(self, tap: int) -> tuple[int, int]:
        """(kernel row, byte in the row's window) of a tap number."""
        row, place = divmod(tap, self.row_taps)
        for run in self.runs:
            if place < run.size:
                return row, run.offset + place
            place -= run.size
        raise ValueError(f"tap {tap} is beyond the window")


@dataclass(frozen=True, slots=True)
class Count:
    """Executed instructions: per call, per pair of pixels, for a last odd pixel."""

    call: int
    pair: int
    alone: int

    def of(self, pixels: int) -> int:
        return self.call + pixels // 2 * self.pair + pixels % 2 * self.alone


PARAMETERS = (
    "const int32_t *stream",
    "const int8_t *const *x",
    "int8_t *y",
    "int32_t n",
    "int32_t first",
)


def pixels_function(name: str, layer: Layer) -> tuple[str, Count]:
    """The naked function `name(stream, x, y, n, first[, scratch])` and what it executes.

    x: k_h row pointers; taps of the first pixel start `first` bytes into them. n >= 2 pixels (1 if layer.single)
    go to y [n][out_c]. scratch: layer.buffer_bytes, if layer.in_scratch.
    """
    writer = Writer(layer)
    parameters = (*PARAMETERS, "int32_t *buffer") if layer.in_scratch else PARAMETERS
    count = writer.write()
    return naked_function(name, parameters, writer.asm), count


class Frame:
    """Stack slots above the buffer: [sp, #offset] by name."""

    def __init__(self, layer: Layer) -> None:
        self.base = 0 if layer.in_scratch else layer.buffer_bytes
        names = ["y", "end", "stream", "n"]
        names += ["x"] if layer.k_h == 1 else ["rows", "first"]
        names += ["buffer", "buffer_end"] if layer.in_scratch else []
        self._slots = {name: self.base + 4 * i for i, name in enumerate(names)}
        size = self.base + 4 * len(names)
        self.size = size + (4 - size) % 8  # with nine saved registers, a multiple of 8
        self.saved = 36

    def at(self, name: str) -> str:
        return f"[sp, #{self._slots[name]}]"

    def argument(self, index: int) -> str:
        """A stack argument of the function; index 4 is the first."""
        return f"[sp, #{self.size + self.saved + 4 * (index - 4)}]"

    @property
    def pairs_reach(self) -> bool:
        """Whether LDRD reaches y and end."""
        return self._slots["y"] <= _REACH


class Writer:
    """Writes one function; `asm` has the text."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.frame = Frame(layer)
        self.asm = Asm()

    def write(self) -> Count:
        layer, asm = self.layer, self.asm
        call = self._prologue()
        gathered = type(self)(layer).gather()
        pair = 0
        if not layer.single:
            pair = self._pairs() + gathered
            call += 2
            asm.op("adds", "r9", "r9", "#1")
            asm.branch("bmi.w", "done")
        start = asm.size
        if not layer.single:
            self._step_back()
        asm.branch("bl", "gather")
        asm.op("ldr", STREAM, self.frame.at("stream"))
        alone = asm.size - start + self._groups(paired=False) + gathered
        asm.label("done")
        start = asm.size
        if self.frame.size <= 508:
            asm.op("add", "sp", "sp", f"#{self.frame.size}")
        else:
            asm.op("addw", "sp", "sp", f"#{self.frame.size}")
        asm.op("pop", "{r4-r11, pc}")
        call += asm.size - start
        self.gather()
        return Count(call, pair, alone)

    # ---- around the pixels ----

    def _prologue(self) -> int:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("push", "{r4-r11, lr}")
        asm.op("sub" if frame.size <= 508 else "subw", "sp", "sp", f"#{frame.size}")
        asm.op("str", STREAM, frame.at("stream"))
        asm.op("str", "r2", frame.at("y"))
        end = layer.group_words * layer.groups
        if layer.out_c % GROUP:
            end -= GROUP * layer.way.constants  # the last group ends differently: seen before its constants
        asm.add("r4", STREAM, 4 * end, "r5")
        asm.op("str", "r4", frame.at("end"))
        if not layer.single:
            asm.op("sub", "r3", "r3", "#2")
            asm.op("str", "r3", frame.at("n"))
        asm.op("ldr", "r4", frame.argument(4))
        if layer.k_h == 1:
            asm.op("ldr", "r1", "[r1]")
            asm.op("add", "r1", "r1", "r4")
            asm.op("str", "r1", frame.at("x"))
        else:
            asm.op("str", "r1", frame.at("rows"))
            asm.op("str", "r4", frame.at("first"))
        if layer.in_scratch:
            asm.op("ldr", "r4", frame.argument(5))
            asm.op("str", "r4", frame.at("buffer"))
            asm.add("r4", "r4", layer.buffer_bytes, "r5")
            asm.op("str", "r4", frame.at("buffer_end"))
        return asm.size

    def _pairs(self) -> int:
        """The loop over pairs of pixels. Leaves r9 = pixels left - 2: -1 or -2. Instructions per pair."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.label("pair")
        start = asm.size
        asm.branch("bl", "gather")
        asm.op("ldr", STREAM, frame.at("stream"))
        rest = asm.size - start
        groups = self._groups(paired=True)
        start = asm.size
        asm.op("ldr", "r9", frame.at("n"))
        asm.add("r14", "r14", layer.out_c, "r10")
        asm.op("str", "r14", frame.at("y"))
        asm.op("subs", "r9", "r9", "#2")
        asm.op("str", "r9", frame.at("n"))
        asm.branch("bpl.w", "pair")
        return rest + groups + asm.size - start

    def _step_back(self) -> None:
        """The last odd pixel is the second of a pair: start one pixel earlier."""
        slot = self.frame.at("x" if self.layer.k_h == 1 else "first")
        self.asm.op("ldr", "r9", slot)
        self.asm.add("r9", "r9", -self.layer.pixel_bytes, "r10")
        self.asm.op("str", "r9", slot)

    # ---- gather ----

    def gather(self) -> int:
        """A subroutine: fills the buffer, moves to the next pair. Executed instructions."""
        layer, asm = self.layer, self.asm
        asm.label("gather", aligned=True)
        if layer.in_scratch:
            asm.op("ldr", "r11", self.frame.at("buffer"))
        else:
            asm.op("mov", "r11", "sp")
        if layer.k_h == 1:
            return self._gather_row()
        return self._gather_looped() if layer.looped else self._gather_unrolled()

    def _gather_row(self) -> int:
        """One kernel row: its address stays in the frame."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", "r9", frame.at("x"))
        asm.add("r10", "r9", self._second, "r12")
        executed = asm.size + self._runs(tails_from=None if layer.looped else self._first_tail)
        start = asm.size
        if not layer.single:
            span = layer.runs[-1].offset + layer.runs[-1].size
            if layer.pixel_bytes == span:
                asm.op("str", "r10", frame.at("x"))  # the end of the second pixel
            else:
                asm.add("r9", "r9", 2 * layer.pixel_bytes - span, "r12")
                asm.op("str", "r9", frame.at("x"))
        asm.op("bx", "lr")
        return executed + asm.size - start

    def _gather_unrolled(self) -> int:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", "r0", frame.at("rows"))
        asm.op("ldr", "r12", frame.at("first"))
        tail = self._first_tail
        for row in range(layer.k_h):
            asm.op("ldr", "r9", f"[r0, #{4 * row}]")
            asm.op("add", "r9", "r9", "r12")
            asm.add("r10", "r9", self._second, "r8")
            self._runs(tails_from=tail)
            tail += sum(run.size % 4 for run in layer.runs)
        self._next_first("r12")
        asm.op("bx", "lr")
        return asm.size

    def _gather_looped(self) -> int:
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.op("ldr", "r0", frame.at("rows"))
        before = asm.size
        asm.label("kernel_row", aligned=True)
        asm.op("ldr", "r9", "[r0], #4")
        asm.op("ldr", "r12", frame.at("first"))
        asm.op("add", "r9", "r9", "r12")
        asm.add("r10", "r9", self._second, "r8")
        start = asm.size
        per_row = start - before + self._runs(tails_from=None)
        start = asm.size
        asm.op("ldr", "r1", frame.at("rows"))
        asm.add("r1", "r1", 4 * layer.k_h)
        asm.op("cmp", "r0", "r1")
        asm.branch("bne.w", "kernel_row")
        per_row += asm.size - start
        start = asm.size
        asm.op("ldr", "r12", frame.at("first"))
        self._next_first("r12")
        asm.op("bx", "lr")
        return before + layer.k_h * per_row + asm.size - start

    def _next_first(self, first: str) -> None:
        if not self.layer.single:
            self.asm.add("r1", first, 2 * self.layer.pixel_bytes, "r2")
            self.asm.op("str", "r1", self.frame.at("first"))

    @property
    def _second(self) -> int:
        """Bytes from the first to the second pixel of a pair."""
        return 0 if self.layer.single else self.layer.pixel_bytes

    @property
    def _first_tail(self) -> int:
        """Number of the first half step that holds a tap outside the groups of four."""
        layer = self.layer
        return layer.k_h * sum(run.size // 4 * 4 for run in layer.runs)

    def _runs(self, tails_from: int | None) -> int:
        """The taps of one kernel row from r9 (and r10) on to the buffer. Executed instructions.

        tails_from: the half step that takes the first tap outside the groups of four; None: where r11 is.
        """
        executed = 0
        at = 0
        for number, run in enumerate(self.layer.runs):
            for pointer in ("r9", "r10") if run.offset > at else ():
                start = self.asm.size
                self.asm.add(pointer, pointer, run.offset - at, "r8")
                executed += self.asm.size - start
            executed += self._fours(run.size // 4, f"run{number}")
            start = self.asm.size
            self.tail(run.size % 4, tails_from)
            executed += self.asm.size - start
            at = run.offset + run.size
            tails_from = tails_from + run.size % 4 if tails_from is not None else None
        return executed

    def _fours(self, count: int, label: str) -> int:
        """`count` groups of four taps; executed instructions. In pairs of groups, with a loop if there are many."""
        asm = self.asm
        pairs, executed = count // 2, 0
        if pairs > _UNROLLED_CHUNKS and self.layer.looped:
            turns, unroll = pairs // 4, 4
            asm.add("r12", "r9", 8 * unroll * turns)
            asm.label(label, aligned=True)
            start = asm.size
            for _ in range(unroll):
                self._eight()
            asm.op("cmp", "r9", "r12")
            asm.branch("bne.w", label)
            executed += 1 + turns * (asm.size - start)
            pairs -= unroll * turns
        start = asm.size
        for _ in range(pairs):
            self._eight()
        if count % 2:
            asm.op("ldr", "r3", "[r9], #4")
            asm.op("ldr", "r4", "[r10], #4")
            self._unpack(0)
            asm.op("stm", "r11!", "{r1-r4}")
        return executed + asm.size - start

    def _eight(self) -> None:
        """Eight taps of both pixels to eight words of the buffer."""
        asm = self.asm
        if self.layer.aligned:
            asm.op("ldrd", "r3", "r7", "[r9], #8")
            asm.op("ldrd", "r4", "r8", "[r10], #8")
        else:
            asm.op("ldr", "r7", "[r9, #4]")
            asm.op("ldr", "r3", "[r9], #8")
            asm.op("ldr", "r8", "[r10, #4]")
            asm.op("ldr", "r4", "[r10], #8")
        self._unpack(0)
        self._unpack(4)
        asm.op("stm", "r11!", "{r1-r8}")

    def _unpack(self, base: int) -> None:
        """Bytes of r3 and r4 (+ base) -> int16 words r1-r4: taps (0,2) of both pixels, then (1,3)."""
        even_a, even_b, odd_a, odd_b = (f"r{base + i}" for i in (1, 2, 3, 4))
        self.asm.op("sxtb16", even_a, odd_a)
        self.asm.op("sxtb16", even_b, odd_b)
        self.asm.op("sxtb16", odd_a, odd_a, "ror #8")
        self.asm.op("sxtb16", odd_b, odd_b, "ror #8")

    def tail(self, count: int, first_half: int | None) -> None:
        """The last 1 to 3 taps of a run, one halfword each. The other half of a last step stays as it is."""
        asm = self.asm
        for i in range(count):
            asm.op("ldrsb", "r1", "[r9], #1")
            asm.op("ldrsb", "r2", "[r10], #1")
            half = i if first_half is None else first_half + i
            base = "r11" if first_half is None else "sp"
            offset = half // 2 * 8 + half % 2 * 2
            asm.op("strh", "r1", f"[{base}, #{offset}]")
            asm.op("strh", "r2", f"[{base}, #{offset + 4}]")
        if count and first_half is None:
            asm.add("r11", "r11", 8 * (-(-count // 2)))

    # ---- output channels ----

    def _groups(self, paired: bool) -> int:
        """All output channels; leaves y behind the (first) pixel in r14. Executed instructions."""
        layer, asm = self.layer, self.asm
        full, rest = divmod(layer.out_c, GROUP)
        kind = "pair" if paired else "alone"
        asm.label(f"{kind}_group", aligned=True)
        start = asm.size
        dot = self.dot_pair() if paired else self.dot_alone()
        dot_size = asm.size - start
        if rest and full:
            asm.op("ldr", "r9", self.frame.at("end"))
            asm.op("cmp", "r0", "r9")
            asm.branch("beq.w", f"{kind}_rest")
        checked = asm.size - start - dot_size
        executed = layer.groups * (dot + checked)
        if full:
            start = asm.size
            self._finish(GROUP, paired, f"{kind}_group", check=rest == 0)
            executed += full * (asm.size - start)
        if rest:
            asm.label(f"{kind}_rest")
            start = asm.size
            self._finish(rest, paired, "", check=False)
            executed += asm.size - start
        return executed

    def dot_pair(self) -> int:
        """Eight accumulators over all steps; executed instructions."""
        if self.layer.in_scratch:
            return self._dot_pair_looped()
        asm, layer = self.asm, self.layer
        start = asm.size
        weights = Weights(asm, ("r9", "r10", "r11"), layer.steps * layer.words_per_step)
        asm.load_multiple(STREAM, FIRST)
        for step in range(layer.steps):
            asm.op("ldrd", "r12", "r14", f"[sp, #{8 * step}]")
            self._step_pair(weights, "r12", "r14", fresh=step == 0)
        return asm.size - start

    def _dot_pair_looped(self) -> int:
        asm, layer, frame = self.asm, self.layer, self.frame
        start = asm.size
        turns, ahead = divmod(layer.steps, _LOOP_STEPS)
        asm.load_multiple(STREAM, FIRST, advance=False)
        asm.load_multiple(STREAM, SECOND)
        asm.op("ldr", "r14", frame.at("buffer"))

        def steps(count: int) -> None:
            weights = Weights(asm, ("r9", "r10"), count * layer.words_per_step)
            for _ in range(count):
                asm.op("ldrd", "r11", "r12", "[r14], #8")
                self._step_pair(weights, "r11", "r12", fresh=False)

        steps(ahead)
        executed = asm.size - start
        asm.label("pair_steps", aligned=True)
        start = asm.size
        steps(_LOOP_STEPS)
        asm.op("ldr", "r9", frame.at("buffer_end"))
        asm.op("cmp", "r14", "r9")
        asm.branch("bne.w", "pair_steps")
        return executed + turns * (asm.size - start)

    def _step_pair(self, weights: Weights, x0: str, x1: str, fresh: bool) -> None:
        """One step: x0, x1 times the weights of four channels. fresh: only r1-r4 hold the start values yet."""
        asm = self.asm

        def multiply(channel: int, w: str) -> None:
            a, b = FIRST[channel], SECOND[channel]
            asm.op("smlad", b, x1, w, a if fresh else b)
            asm.op("smlad", a, x0, w, a)

        if not self.layer.way.packed:
            for channel in range(GROUP):
                multiply(channel, weights.next())
            return
        for channel in range(0, GROUP, 2):
            w = weights.next()
            multiply(channel, w)
            asm.op("sxtb16", w, w)
            multiply(channel + 1, w)

    def dot_alone(self) -> int:
        """Four accumulators over all steps of the pixel in the odd words (single: the even words)."""
        asm, layer, frame = self.asm, self.layer, self.frame
        start = asm.size
        word = 0 if layer.single else 4
        asm.load_multiple(STREAM, FIRST)
        if not layer.in_scratch and layer.k_h > 1 and layer.steps <= _ALONE_UNROLLED:
            self._steps_alone([f"[sp, #{8 * step + word}]" for step in range(layer.steps)])
            return asm.size - start
        if layer.in_scratch:
            asm.op("ldr", "r14", frame.at("buffer"))
            asm.add("r14", "r14", word)
        else:
            asm.add("r14", "sp", word)
        turns, ahead = divmod(layer.steps, _ALONE_STEPS)
        self._steps_alone(["[r14], #8"] * ahead)
        executed = asm.size - start
        if turns == 0:
            return executed
        asm.label("alone_steps", aligned=True)
        start = asm.size
        self._steps_alone(["[r14], #8"] * _ALONE_STEPS)
        if layer.in_scratch:
            asm.op("ldr", "r9", frame.at("buffer_end"))
            asm.add("r9", "r9", word)
        else:
            asm.add("r9", "sp", layer.buffer_bytes + word)
        asm.op("cmp", "r14", "r9")
        asm.branch("bne.w", "alone_steps")
        return executed + turns * (asm.size - start)

    def _steps_alone(self, places: Sequence[str]) -> None:
        """Steps of one pixel whose taps lie at `places`."""
        asm, packed = self.asm, self.layer.way.packed
        weights = Weights(asm, SECOND, len(places) * self.layer.words_per_step)
        for place in places:
            asm.op("ldr", "r9", place)
            for channel in range(0, GROUP, 2 if packed else 1):
                w = weights.next()
                asm.op("smlad", FIRST[channel], "r9", w, FIRST[channel])
                if packed:
                    asm.op("sxtb16", w, w)
                    asm.op("smlad", FIRST[channel + 1], "r9", w, FIRST[channel + 1])

    def _finish(self, channels: int, paired: bool, again: str, check: bool) -> None:
        """Scales and stores `channels` of the group, then goes on to label `again` (if any).

        check: only while the stream has not ended. Leaves the next y in r14.
        """
        asm, layer, frame = self.asm, self.layer, self.frame
        for position in range(channels):
            constants, temp = self._constants(position)
            for acc, last in ((FIRST, not paired), (SECOND, True))[: 1 + paired]:
                scratch = constants[1] if last else temp
                below = acc[position + 1] if position + 1 < GROUP else ""
                layer.way.emit(asm, position, acc[position], below, constants, scratch)
            if position == 0:
                if check and frame.pairs_reach:
                    asm.op("ldrd", "r14", "r9", frame.at("y"))
                else:
                    asm.op("ldr", "r14", frame.at("y"))
                    if check:
                        asm.op("ldr", "r9", frame.at("end"))
            moved = channels if position else 0  # the first store moves y on
            if paired:
                asm.op("strb", SECOND[position], f"[r14, #{layer.out_c + position - moved}]")
            place = f"[r14, #{position - moved}]" if position else f"[r14], #{channels}"
            asm.op("strb", FIRST[position], place)
        if again:
            asm.op("str", "r14", frame.at("y"))
        if check:
            asm.op("cmp", "r0", "r9")
            asm.branch("bne.w", again)
        elif again:
            asm.branch("b.w", again)

    def _constants(self, position: int) -> tuple[tuple[str, ...], str]:
        """Registers with the constants of a channel, and a free one; loads them where they are not there yet."""
        asm = self.asm
        temp = "r14" if position == 0 else SECOND[0]
        if self.layer.way.constants == 3:
            asm.load_multiple(STREAM, ("r10", "r11", "r12"))
            return ("r10", "r11", "r12"), temp
        # r9 has the end of the stream after the first channel; r1 is free then.
        registers = ("r9", "r10", "r11", "r12") if position < 2 else ("r1", "r10", "r11", "r12")
        if position % 2 == 0:
            asm.load_multiple(STREAM, registers)
        return registers[:2] if position % 2 == 0 else registers[2:], temp


class Weights:
    """Hands out registers with the next words of the stream, loaded as many at a time as there are registers."""

    def __init__(self, asm: Asm, registers: tuple[str, ...], words: int) -> None:
        self._asm = asm
        self._registers = registers
        self._left = words
        self._ready: list[str] = []

    def next(self) -> str:
        if not self._ready:
            count = min(len(self._registers), self._left)
            if count == 2:
                self._asm.op("ldrd", *self._registers[:2], f"[{STREAM}], #8")
            else:
                self._asm.load_multiple(STREAM, self._registers[:count])
            self._ready = list(self._registers[:count])
            self._left -= count
        return self._ready.pop(0)
