# SPDX-License-Identifier: Apache-2.0
"""The assembly of a 1x1 layer over a row of pixels, four pixels by two output channels at a time.

Against two pixels by four channels (`two_pixels.py`) the stream of weights is read half as often, and constants serve
twice as many outputs; a step takes a cycle more, since registers are left for two taps and one word of weights only.
That pays where the stream waits for slow flash. The code for two channels is a short loop, which a small cache holds.

Per four pixels:

1. gather: the taps of all go as int16 into a buffer at the bottom of the stack, step by step: words 4j to 4j + 3 hold
   step j (two taps) of each pixel;
2. for every two output channels: eight accumulators take all steps, then scaling and eight stores.

Of a last group of fewer pixels the last one stands in for those that are missing; they are not stored.
"""

from __future__ import annotations

from itertools import pairwise

from tinyc.base.dataclass import dataclass
from tinyc.kernels.tile.groups import FIRST, SECOND, STREAM, GroupWriter, PixelWork
from tinyc.machine.thumb import Asm, Work

PIXELS = 4
CHANNELS = 2
_POINTERS = ("r9", "r10", "r11", "r12")  # of the pixels
_STEPS_PER_TURN = range(5, 14)
_COPIES = 14  # of a step's code, that all for two channels fit 1 KiB
_TURN, _MOVES = 5, 6  # cycles: of a turn beside its steps; of start values where no step is ahead of the loop
_FOURS_PER_TURN = range(4, 0, -1)  # of taps that are gathered


@dataclass(frozen=True, slots=True)
class FourPixelWork(PixelWork):
    """`pair` is of four pixels, or of what is left of them."""

    def of(self, pixels: int) -> Work:
        return self.call + -(-pixels // PIXELS) * self.pair


def _turns(steps: int) -> tuple[int, int, int]:
    """(turns of the loop, steps in each, steps ahead of it)."""
    if steps <= _COPIES:
        return 0, 0, steps
    divided = [(*divmod(steps, count), count) for count in _STEPS_PER_TURN]
    fit = [(turns, count, ahead) for turns, ahead, count in divided if ahead + count <= _COPIES]
    return min(fit, key=lambda one: (_TURN * one[0] + _MOVES * (not one[2]), one[1]))


class FourPixelWriter(GroupWriter):
    """Writes one function for n >= 1 pixels; `asm` has the code. The frame's n is the number of pixels left - 2."""

    def write(self) -> PixelWork:
        layer, asm, frame = self.layer, self.asm, self.frame
        self.enter()
        with asm.loop("quad", "pair", aligned=False):
            self._gather()
            self.load_stream()
            self._channels()
            asm.note("the next four pixels")
            asm.op("ldr", "r9", frame.at("n"))
            asm.add("r14", "r14", (PIXELS - 1) * layer.out_c, "r10")
            asm.op("str", "r14", frame.at("y"))
            asm.op("subs", "r9", "r9", f"#{PIXELS}")
            asm.op("str", "r9", frame.at("n"))
            asm.op("adds", "r9", "r9", "#1")
            asm.branch("bpl.w", "quad")
        self.leave()
        self._last_stores()
        return FourPixelWork(asm.work(), asm.work("pair"), Work(), self.group_bytes)

    def _gather(self) -> None:
        """The taps of four pixels to the buffer. r9-r12 pixels, r14 buffer, r1-r8 data, r0 the end of the first."""
        layer, asm, frame = self.layer, self.asm, self.frame
        asm.note("taps of four pixels to the buffer, as int16")
        asm.op("ldr", _POINTERS[0], frame.at("x"))
        asm.op("ldr", "r0", frame.at("n"))
        for number, (before, pointer) in enumerate(pairwise(_POINTERS)):
            asm.add(pointer, before, layer.pixel_bytes)
            asm.op("cmp", "r0", f"#{number}")
            asm.op("it", "lt")
            asm.op("movlt", pointer, before)
        asm.op("mov", "r14", "sp")
        fours = layer.row_taps // 4
        per_turn = next(count for count in _FOURS_PER_TURN if fours % count == 0)
        if fours == per_turn:
            asm.piece(_fours, per_turn)
        else:
            asm.add("r0", _POINTERS[0], layer.row_taps)
            with asm.loop("gather", fours // per_turn):
                asm.piece(_fours, per_turn)
                asm.until_equal(_POINTERS[0], "r0", "gather")
        asm.op("str", _POINTERS[-1], frame.at("x"))

    def _channels(self) -> None:
        """All output channels of four pixels; leaves y behind those of the first in r14."""
        layer, asm, frame = self.layer, self.asm, self.frame
        with asm.loop("channels", layer.out_c // CHANNELS):
            first = asm.lines
            asm.note("products: four pixels by two channels")
            self._sums()
            self._scale()
            self._store()
            asm.op("ldr", "r9", frame.at("end"))
            asm.op("str", "r14", frame.at("y"))
            asm.until_equal(STREAM, "r9", "channels")
            self.group_bytes = 4 * (asm.lines - first)

    def _sums(self) -> None:
        """Eight accumulators over all steps: r1-r4 of the first channel over the second, r5-r8 of the second."""
        asm, steps = self.asm, self.layer.steps
        asm.op("ldrd", FIRST[0], SECOND[0], f"[{STREAM}], #8")
        asm.op("mov", "r14", "sp")
        turns, per_turn, ahead = _turns(steps)
        for number in range(ahead):
            asm.piece(_step, number == 0)
        if not ahead:
            for registers in (FIRST, SECOND):
                for register in registers[1:]:
                    asm.op("mov", register, registers[0])
        if turns:
            with asm.loop("steps", turns):
                for _ in range(per_turn):
                    asm.piece(_step, False)
                asm.add("r9", "sp", self.layer.buffer_bytes)
                asm.until_equal("r14", "r9", "steps")

    def _scale(self) -> None:
        asm, requant = self.asm, self.layer.requant
        asm.note("requantize both channels of four pixels")
        common = self.frame.common() if requant.common else ()
        in_turn = requant.constants_in_turn(asm, STREAM, ("r9", "r10", "r11", "r12"), CHANNELS, common=common)
        for position, (registers, constants) in enumerate(zip((FIRST, SECOND), in_turn, strict=True)):
            for acc, below in zip(registers, SECOND, strict=True):
                requant.emit(asm, position, acc, below, constants, "r14")

    def _store(self) -> None:
        """Stores the outputs, of the pixels that there are; next y to r14."""
        asm, frame = self.asm, self.frame
        asm.op("ldr", "r14", frame.at("y"))
        asm.op("ldr", "r12", frame.at("n"))
        self._store_pixel(0)
        asm.op("cmp", "r12", "#2")
        asm.branch("blt.w", "fewer")
        for pixel in range(1, PIXELS):
            self._store_pixel(pixel)
        asm.label("stored")

    def _store_pixel(self, pixel: int) -> None:
        """Both channels of a pixel; the first pixel moves y on."""
        asm = self.asm
        at = pixel * self.layer.out_c - CHANNELS
        asm.op("strb", SECOND[pixel], f"[r14, #{at + 1}]" if pixel else "[r14, #1]")
        asm.op("strb", FIRST[pixel], f"[r14, #{at}]" if pixel else f"[r14], #{CHANNELS}")

    def _last_stores(self) -> None:
        """The second and third pixel, where there are fewer than four."""
        asm = self.asm
        asm.note("of fewer than four pixels")
        asm.label("fewer")
        for pixel in range(1, PIXELS - 1):
            asm.op("cmp", "r12", f"#{pixel - 1}")
            asm.branch("blt.w", "stored")
            self._store_pixel(pixel)
        asm.branch("b.w", "stored")


def _step(asm: Asm, fresh: bool) -> None:
    """Two taps of four pixels times the weights of two channels. fresh: only the first pixel's registers have the
    start values."""
    asm.op("ldr", "r11", f"[{STREAM}], #4")
    asm.op("ldrd", "r9", "r10", "[r14, #8]")
    asm.op("sxtb16", "r12", "r11")
    for pixel in (2, 3, 1, 0):  # the first one last: the others take its start values
        if pixel == 1:
            asm.op("ldrd", "r9", "r10", "[r14], #16")
        tap = ("r9", "r10")[pixel % 2]
        for acc, weights in ((FIRST, "r11"), (SECOND, "r12")):
            asm.op("smlad", acc[pixel], tap, weights, acc[0 if fresh else pixel])


def _fours(asm: Asm, count: int) -> None:
    """Four taps of each pixel, so many times."""
    for _ in range(count):
        for pointer, odd in zip(_POINTERS, SECOND, strict=True):
            asm.op("ldr", odd, f"[{pointer}], #4")
        for even, odd in zip(FIRST, SECOND, strict=True):
            asm.op("sxtb16", even, odd)
            asm.op("sxtb16", odd, odd, "ror #8")
        asm.op("stm", "r14!", "{r1-r8}")
