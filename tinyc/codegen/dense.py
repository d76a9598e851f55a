"""The assembly of a weighted layer for one pixel: all taps in one row, four output channels at a time.

The taps are unpacked once to int16 in scratch, in the order of use. Then, for every four output channels, LDM brings
four words of taps and four words of weights at a time: r1-r4 accumulators, r5-r8 weights, r9-r12 taps.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinyc.codegen.pixels import FIRST, PARAMETERS, SECOND, STREAM, Count, Layer, Writer
from tinyc.codegen.thumb import naked_function

_TAPS = ("r9", "r10", "r11", "r12")
_TURN = range(16, 7, -1)  # chunks of four steps per turn of the loop


@dataclass(frozen=True)
class Dense(Layer):
    """A layer whose calls make one pixel from one run of taps, at a word address if `aligned`."""

    @property
    def buffer_bytes(self) -> int:
        return 4 * self.steps

    @property
    def in_scratch(self) -> bool:
        return True


def dense_function(name: str, layer: Dense) -> tuple[str, Count]:
    """As `pixels_function`, for one pixel."""
    writer = DenseWriter(layer)
    count = writer.write()
    return naked_function(name, (*PARAMETERS, "int32_t *buffer"), writer.asm), count


class DenseWriter(Writer):
    """Writes one function; `asm` has the text."""

    def gather(self) -> int:
        """A subroutine: unpacks all taps. Executed instructions."""
        asm, frame = self.asm, self.frame
        (run,) = self.layer.runs
        asm.label("gather", aligned=True)
        start = asm.size
        asm.op("ldr", "r11", frame.at("buffer"))
        asm.op("ldr", "r9", frame.at("x"))
        turns = run.size // 16
        executed = asm.size - start
        if turns:
            asm.add("r10", "r9", 16 * turns)
            executed = asm.size - start
            asm.label("sixteen", aligned=True)
            start = asm.size
            self._sixteen()
            asm.op("cmp", "r9", "r10")
            asm.branch("bne.w", "sixteen")
            executed += turns * (asm.size - start)
        start = asm.size
        for _ in range(run.size % 16 // 4):
            asm.op("ldr", "r2", "[r9], #4")
            asm.op("sxtb16", "r1", "r2")
            asm.op("sxtb16", "r2", "r2", "ror #8")
            asm.op("stm", "r11!", "{r1, r2}")
        for i in range(run.size % 4):
            asm.op("ldrsb", "r1", "[r9], #1")
            asm.op("strh", "r1", "[r11], #2")
        asm.op("bx", "lr")
        return executed + asm.size - start

    def _sixteen(self) -> None:
        asm = self.asm
        words = ("r2", "r4", "r6", "r8")
        if self.layer.aligned:
            asm.load_multiple("r9", words)
        else:
            for word in words:
                asm.op("ldr", word, "[r9], #4")
        for i, word in enumerate(words):
            asm.op("sxtb16", f"r{2 * i + 1}", word)
            asm.op("sxtb16", word, word, "ror #8")
        asm.op("stm", "r11!", "{r1-r8}")

    def dot_alone(self) -> int:
        """Four accumulators over all steps; executed instructions."""
        asm, frame = self.asm, self.frame
        start = asm.size
        asm.load_multiple(STREAM, FIRST)
        asm.op("ldr", "r14", frame.at("buffer"))
        chunks, rest = divmod(self.layer.steps, len(_TAPS))
        if rest:
            self._chunk(rest)
        per_turn = chunks if chunks <= _TURN.start else min(_TURN, key=lambda n: (chunks % n, -n))
        turns, ahead = divmod(chunks, per_turn) if chunks else (0, 0)
        for _ in range(ahead if turns > 1 else 0):
            self._chunk(len(_TAPS))
        executed = asm.size - start
        if turns == 0:
            return executed
        asm.label("steps", aligned=True)
        start = asm.size
        for _ in range(per_turn):
            self._chunk(len(_TAPS))
        if turns > 1:
            asm.op("ldr", "r9", frame.at("buffer_end"))
            asm.op("cmp", "r14", "r9")
            asm.branch("bne.w", "steps")
        return executed + turns * (asm.size - start)

    def _chunk(self, steps: int) -> None:
        """Up to four steps, their taps loaded at once."""
        asm, packed = self.asm, self.layer.way.packed
        asm.load_multiple("r14", _TAPS[:steps])
        per_load = len(SECOND) // self.layer.words_per_step
        for first in range(0, steps, per_load):
            taps = _TAPS[first : min(first + per_load, steps)]
            words = list(SECOND[: len(taps) * self.layer.words_per_step])
            asm.load_multiple(STREAM, words)
            for tap in taps:
                for channel in range(0, len(FIRST), 2 if packed else 1):
                    w = words.pop(0)
                    asm.op("smlad", FIRST[channel], tap, w, FIRST[channel])
                    if packed:
                        asm.op("sxtb16", w, w)
                        asm.op("smlad", FIRST[channel + 1], tap, w, FIRST[channel + 1])
