"""The assembly of a weighted layer for one pixel, four output channels at a time.

The taps are unpacked once to int16 in scratch, in the order of use. Then, for every four output channels, LDM brings
four words of taps and four words of weights at a time: r1-r4 accumulators, r5-r8 weights, r9-r12 taps.
"""

from __future__ import annotations

from functools import lru_cache

from tinyc.codegen.finish import GROUP
from tinyc.codegen.thumb import Work, naked_function
from tinyc.codegen.weighted.groups import FIRST, SECOND, STREAM, Count, GroupWriter, Weights
from tinyc.codegen.weighted.taps import Layer, Run

_TAPS = ("r9", "r10", "r11", "r12")
_CHUNKS_PER_TURN = range(16, 7, -1)  # of four steps, the best divisor is taken; up to the first there is no loop
_ROLLED_PER_TURN = range(6, 2, -1)  # where the code for four outputs is to stay small


@lru_cache(maxsize=256)
def dense_function(name: str, layer: Layer) -> tuple[str, Count]:
    """The naked function `name` for one pixel, and what it executes."""
    writer = DenseWriter(layer)
    count = writer.write()
    return naked_function(name, writer.parameters, writer.asm), count


class DenseWriter(GroupWriter):
    """Writes one function; `asm` has the text."""

    def write(self) -> Count:
        asm = self.asm
        self.enter()
        call = asm.size + self._gather() + self.sum_taps()
        start = asm.size
        self.load_stream()
        call += asm.size - start + self.groups("dense", self._sums, paired=False)
        start = asm.size
        self.leave()
        return Count(call + asm.size - start, Work(), Work(), self.group_bytes)

    def _gather(self) -> Work:
        """Unpacks all taps: r9 input, r11 buffer. Executed instructions."""
        layer, asm, frame = self.layer, self.asm, self.frame
        start = asm.size
        asm.op("ldr", "r11", frame.at("buffer"))
        if layer.k_h == 1:
            asm.op("ldr", "r9", frame.at("x"))
            return asm.size - start + self._runs()
        asm.op("ldr", "r0", frame.at("rows"))
        asm.add("r12", "r0", 4 * layer.k_h)
        executed = asm.size - start
        asm.label("kernel_row", aligned=True)
        start = asm.size
        asm.op("ldr", "r9", "[r0], #4")
        asm.op("ldr", "r1", frame.at("first"))
        asm.op("add", "r9", "r9", "r1")
        per_row = asm.size - start + self._runs()
        start = asm.size
        asm.op("cmp", "r0", "r12")
        asm.branch("bne.w", "kernel_row")
        return executed + layer.k_h * (per_row + asm.size - start)

    def _runs(self) -> Work:
        """The taps of one kernel row. Executed instructions."""
        executed, at = Work(), 0
        for number, run in enumerate(self.layer.runs):
            start = self.asm.size
            self.asm.add("r9", "r9", run.offset - at, "r10")
            executed += self.asm.size - start + self._run(run, f"run{number}")
            at = run.offset + run.size
        return executed

    def _run(self, run: Run, label: str) -> Work:
        asm = self.asm
        turns, executed = run.size // 16, Work()
        if turns:
            start = asm.size
            asm.add("r10", "r9", 16 * turns)
            executed = asm.size - start
            asm.label(label, aligned=True)
            start = asm.size
            self._sixteen()
            asm.op("cmp", "r9", "r10")
            asm.branch("bne.w", label)
            executed += turns * (asm.size - start)
        start = asm.size
        for _ in range(run.size % 16 // 4):
            asm.op("ldr", "r2", "[r9], #4")
            asm.op("sxtb16", "r1", "r2")
            asm.op("sxtb16", "r2", "r2", "ror #8")
            asm.op("stm", "r11!", "{r1, r2}")
        for _ in range(run.size % 4):
            asm.op("ldrsb", "r1", "[r9], #1")
            asm.op("strh", "r1", "[r11], #2")
        asm.add("r11", "r11", run.size % 2 * 2)  # what stays in that half of a step has weight 0
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

    def _sums(self) -> Work:
        """Four accumulators over all steps; executed instructions."""
        asm, frame = self.asm, self.frame
        start = asm.size
        asm.load_multiple(STREAM, FIRST)
        asm.op("ldr", "r14", frame.at("buffer"))
        chunks, rest = divmod(self.layer.steps, len(_TAPS))
        per_turn = chunks
        counts = _ROLLED_PER_TURN if self.layer.rolled else _CHUNKS_PER_TURN
        if chunks > counts.start:
            per_turn = min(counts, key=lambda count: (chunks % count, -count))
        turns, ahead = divmod(chunks, per_turn) if chunks else (0, 0)
        self._chunk(rest)
        for _ in range(ahead):
            self._chunk(len(_TAPS))
        executed = asm.size - start
        if turns == 0:
            return executed + self.split("first_sum", None)
        if turns > 1:
            asm.label("steps", aligned=True)
        start = asm.size
        for _ in range(per_turn):
            self._chunk(len(_TAPS))
        if turns > 1:
            asm.op("ldr", "r9", frame.at("buffer_end"))
            asm.op("cmp", "r14", "r9")
            asm.branch("bne.w", "steps")
        return executed + turns * (asm.size - start) + self.split("first_sum", None)

    def _chunk(self, steps: int) -> None:
        """Up to four steps, their taps loaded at once."""
        if steps == 0:
            return
        asm, layer = self.asm, self.layer
        asm.load_multiple("r14", _TAPS[:steps])
        per_load = len(SECOND) // layer.words_per_step
        for first in range(0, steps, per_load):
            taps = _TAPS[first : min(first + per_load, steps)]
            weights = Weights(asm, SECOND, len(taps) * layer.words_per_step)
            for tap in taps:
                for channel in range(GROUP):
                    w = weights.of(channel, layer)
                    asm.op("smlad", FIRST[channel], tap, w, FIRST[channel])
