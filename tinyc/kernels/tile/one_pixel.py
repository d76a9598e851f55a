# SPDX-License-Identifier: Apache-2.0
"""The assembly of a weighted layer for one pixel, four output channels at a time.

The taps are unpacked once to int16 in scratch, in the order of use. Then, for every four output channels, LDM brings
words of taps and words of weights: r1-r4 accumulators, r5-r12 both. Whichever runs out is fetched into all registers
that are free by then; the two take turns, so that LDM brings five words or more where loads of both at a time would
bring four.

Few taps lie at the bottom of the stack instead, and no loop walks over them: their addresses are immediates, so no
register points to them, and LDM brings seven words of weights at a time. r1-r4 accumulators, r5-r10 and r14 weights,
r11 and r12 taps.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from tinyc.kernels import int4_words
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.tile.groups import FIRST, STREAM, GroupWriter, PixelWork, Weights
from tinyc.kernels.tile.layer import Run, WeightedLayer
from tinyc.machine.thumb import Asm, Work

_WORDS = tuple(f"r{i}" for i in range(5, 13))  # taps and weights
_WEIGHTS = ("r5", "r6", "r7", "r8", "r9", "r10", "r14")  # where taps are on the stack
_CHUNK = 4  # steps
_CHUNKS_PER_TURN = range(16, 7, -1)  # the best divisor is taken; up to the first there is no loop
_SHORT_PER_TURN = range(6, 2, -1)  # where the code for four outputs is to stay small


class MultipleLoad(NamedTuple):
    """LDM of the next words of taps, or of weights."""

    taps: bool
    words: int


def loads(steps: int, per_step: int) -> tuple[MultipleLoad, ...]:
    """What to fetch so that registers have what each step takes, a word of taps and `per_step` of weights. The
    shortest list of those that differ in how many weights come first, and how many words at most at once."""
    shortest, sizes = _by_chunks(steps, per_step), range(1, len(_WORDS))
    for first, taps, most in product(sizes, repeat=3):
        shortest = _filled(steps, per_step, first, (taps, most), len(shortest)) or shortest
    return shortest


def _by_chunks(steps: int, per_step: int) -> tuple[MultipleLoad, ...]:
    """Taps of four steps, then their weights in fours."""
    loads = []
    for step in range(0, steps, _CHUNK):
        taps = min(_CHUNK, steps - step)
        loads.append(MultipleLoad(True, taps))
        loads += [MultipleLoad(False, min(_CHUNK, taps * per_step - at)) for at in range(0, taps * per_step, _CHUNK)]
    return tuple(loads)


def _filled(
    steps: int, per_step: int, first: int, most: tuple[int, int], limit: int
) -> tuple[MultipleLoad, ...] | None:
    """The list that begins with `first` words of weights; each load takes what registers are free, at most so many
    words of taps or weights, but for registers without which no step could follow. None unless it has fewer than
    `limit`."""
    weights, taps, done = min(first, steps * per_step), 0, 0  # words fetched, steps that they are enough for
    if 1 - (-steps // most[0]) - (weights - steps * per_step) // most[1] >= limit:
        return None
    loads = [(False, weights)]
    while done < steps:
        if len(loads) == limit:
            return None
        waiting = (taps - done) + (weights - done * per_step)
        if weights >= (done + 1) * per_step:
            ahead = weights // per_step + len(_WORDS) - 2 * per_step + 1  # and weights of a step beside those taps
            words = min(len(_WORDS) - waiting, max(ahead, done + 1) - taps, steps - taps, most[0])
            loads.append((True, words))
            taps += words
        else:
            words = min(len(_WORDS) - waiting - (taps == done), steps * per_step - weights, most[1])
            loads.append((False, words))
            weights += words
        done = min(taps, weights // per_step)
    return tuple(MultipleLoad(*load) for load in loads) if len(loads) < limit else None


class OnePixelWriter(GroupWriter):
    """Writes one function for taps in scratch; `asm` has the text."""

    def write(self) -> PixelWork:
        asm = self.asm
        self.enter()
        self._gather()
        self.sum_taps()
        self.load_stream()
        self.groups("dense", self._sums, paired=False)
        self.leave()
        return PixelWork(asm.work(), Work(), Work(), self.group_bytes)

    def _gather(self) -> None:
        """Unpacks all taps: r9 input, r11 buffer."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("loads: all taps to the buffer, as int16")
        asm.op("ldr", "r11", frame.at("buffer"))
        if layer.k_h == 1:
            asm.op("ldr", "r9", frame.at("x"))
            self._runs()
            return
        asm.op("ldr", "r0", frame.at("rows"))
        asm.add("r12", "r0", 4 * layer.k_h)
        with asm.loop("kernel_row", layer.k_h):
            asm.op("ldr", "r9", "[r0], #4")
            asm.op("ldr", "r1", frame.at("first"))
            asm.op("add", "r9", "r9", "r1")
            self._runs()
            asm.until_equal("r0", "r12", "kernel_row")

    def _runs(self) -> None:
        """The taps of one kernel row."""
        at = 0
        for number, run in enumerate(self.layer.runs):
            self.asm.add("r9", "r9", run.offset - at, "r10")
            self._run(run, f"run{number}")
            at = run.offset + run.size

    def _run(self, run: Run, label: str) -> None:
        asm, turns = self.asm, run.size // 16
        if turns:
            asm.add("r10", "r9", 16 * turns)
            with asm.loop(label, turns):
                asm.piece(_sixteen, self.layer.aligned)
                asm.until_equal("r9", "r10", label)
        for _ in range(run.size % 16 // 4):
            asm.op("ldr", "r2", "[r9], #4")
            asm.op("sxtb16", "r1", "r2")
            asm.op("sxtb16", "r2", "r2", "ror #8")
            asm.op("stm", "r11!", "{r1, r2}")
        for left in range(run.size % 4, 0, -1):
            asm.op("ldrsb", "r1", "[r9], #1")
            if left == 1 and run.size % 2:  # the other half of its step has weight 0
                asm.op("str", "r1", "[r11], #4")
            else:
                asm.op("strh", "r1", "[r11], #2")

    def _sums(self) -> None:
        """Four accumulators over all steps."""
        asm, frame = self.asm, self.frame
        asm.load_multiple(STREAM, FIRST)
        asm.op("ldr", "r14", frame.at("buffer"))
        chunks, rest = divmod(self.layer.steps, _CHUNK)
        per_turn = chunks
        counts = _SHORT_PER_TURN if self.layer.tile.short else _CHUNKS_PER_TURN
        if chunks > counts.start:
            per_turn = min(counts, key=lambda count: (chunks % count, -count))
        turns, ahead = divmod(chunks, per_turn) if chunks else (0, 0)
        if turns <= 1:
            self._steps(self.layer.steps)
        else:
            self._steps(rest + _CHUNK * ahead)
            with asm.loop("steps", turns):
                self._steps(_CHUNK * per_turn)
                asm.op("ldr", "r9", frame.at("buffer_end"))
                asm.until_equal("r14", "r9", "steps")
        self.split("first_sum", None)

    def _steps(self, count: int) -> None:
        """The next steps: taps from r14 on, weights from the stream."""
        asm, per_step, requant = self.asm, self.layer.words_per_step, self.layer.requant
        free, taps, weights = list(_WORDS), list[str](), list[str]()
        for load in loads(count, per_step):
            registers, free = free[: load.words], free[load.words :]
            asm.load_multiple("r14" if load.taps else STREAM, registers)
            (taps if load.taps else weights).extend(registers)
            while taps and len(weights) >= per_step:
                asm.piece(_multiply, taps[0], tuple(weights[:per_step]), requant.packed, requant.offsets)
                free = sorted([*free, taps[0], *weights[:per_step]], key=_WORDS.index)
                taps, weights = taps[1:], weights[per_step:]


class OnePixelStackWriter(OnePixelWriter):
    """The same for few taps, on the stack."""

    def _gather(self) -> None:
        """Unpacks all taps: r9 input, r11 buffer."""
        self.asm.note("loads: all taps to the buffer, as int16")
        self.asm.op("mov", "r11", "sp")
        self.asm.op("ldr", "r9", self.frame.at("x"))
        self._runs()

    def _sums(self) -> None:
        """Four accumulators over all steps."""
        sums_of_pixel(self.asm, self.layer, _from_stack)


def sums_of_pixel(asm: Asm, layer: WeightedLayer, load: Callable[[Asm, tuple[str, ...], int], None]) -> None:
    """Four accumulators over all steps, one after the other. load: writes how registers get the taps of the step of
    that number, or of it and the next."""
    asm.load_multiple(STREAM, FIRST)
    weights = Weights(asm, _WEIGHTS, layer.steps * layer.words_per_step)
    for first in range(0, layer.steps, 2):
        taps = ("r11", "r12")[: layer.steps - first]
        load(asm, taps, first)
        for tap in taps:
            weights.multiply(layer.requant, layer.words_per_step, ((tap, FIRST, FIRST),))


def _from_stack(asm: Asm, taps: tuple[str, ...], first: int) -> None:
    place = f"[sp, #{4 * first}]" if first else "[sp]"
    asm.op("ldrd" if len(taps) == 2 else "ldr", *taps, place)


def _sixteen(asm: Asm, aligned: bool) -> None:
    """Sixteen taps to eight words of the buffer."""
    words = ("r2", "r4", "r6", "r8")
    if aligned:
        asm.load_multiple("r9", words)
    else:
        for word in words:
            asm.op("ldr", word, "[r9], #4")
    for i, word in enumerate(words):
        asm.op("sxtb16", f"r{2 * i + 1}", word)
        asm.op("sxtb16", word, word, "ror #8")
    asm.op("stm", "r11!", "{r1-r8}")


def _multiply(asm: Asm, tap: str, weights: tuple[str, ...], packed: bool, offsets: int4_words.Offsets) -> None:
    """A word of taps times the weights of four channels."""
    for channel in range(GROUP):
        word, unpacked = divmod(channel * len(weights), GROUP)
        if unpacked and packed:
            asm.op("sxtb16", weights[word], weights[word])
        elif unpacked:
            int4_words.unpack(asm, channel, weights[word], offsets)
        asm.op("smlad", FIRST[channel], tap, weights[word], FIRST[channel])
