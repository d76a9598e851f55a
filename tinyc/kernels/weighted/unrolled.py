# SPDX-License-Identifier: Apache-2.0
"""The assembly of a weighted layer for one pixel of few taps, four output channels at a time.

As `dense.py`, but the unpacked taps lie at the bottom of the stack and no loop walks over them: their addresses are
immediates, so no register points to them, and LDM brings seven words of weights at a time. r1-r4 accumulators,
r5-r10 and r14 weights, r11 and r12 taps.
"""

from __future__ import annotations

from functools import lru_cache

from tinyc.kernels.matrix import GROUP
from tinyc.kernels.weighted.dense import DenseWriter
from tinyc.kernels.weighted.groups import FIRST, STREAM, Weights
from tinyc.kernels.weighted.taps import WeightedLayer
from tinyc.machine.thumb import Naked, Work

_MOST_STEPS = 64  # of unrolled code
_WEIGHTS = ("r5", "r6", "r7", "r8", "r9", "r10", "r14")


class UnrolledLayer(WeightedLayer):
    """A layer of one pixel whose taps are unpacked on the stack."""

    @property
    def in_scratch(self) -> bool:
        return False


def unrolled_layer(layer: WeightedLayer) -> UnrolledLayer | None:
    """The same layer for one pixel; None where it has more than one row of taps or too many."""
    unrolled = UnrolledLayer(
        1, layer.runs, layer.pixel_bytes, layer.out_c, layer.aligned, True, layer.requant, layer.core
    )
    int4 = layer.requant.offsets or layer.nibbles
    fits = layer.k_h == 1 and unrolled.steps <= _MOST_STEPS and unrolled.slots == layer.slots and not int4
    return unrolled if fits else None


@lru_cache(maxsize=256)
def unrolled_function(name: str, layer: UnrolledLayer) -> tuple[Naked, Work]:
    """The naked function `name(stream, x, y, n, first)` for one pixel, and what it executes."""
    writer = _UnrolledWriter(layer)
    count = writer.write()
    return Naked(name, writer.parameters, writer.asm), count.call


class _UnrolledWriter(DenseWriter):
    """Writes one function; `asm` has the text."""

    def _gather(self) -> None:
        """Unpacks all taps: r9 input, r11 buffer."""
        self.asm.note("loads: all taps to the buffer, as int16")
        self.asm.op("mov", "r11", "sp")
        self.asm.op("ldr", "r9", self.frame.at("x"))
        self._runs()

    def _sums(self) -> None:
        """Four accumulators over all steps."""
        asm, layer = self.asm, self.layer
        asm.load_multiple(STREAM, FIRST)
        weights = Weights(asm, _WEIGHTS, layer.steps * layer.words_per_step)
        for first in range(0, layer.steps, 2):
            taps = ("r11", "r12")[: layer.steps - first]
            asm.op("ldrd" if len(taps) == 2 else "ldr", *taps, f"[sp, #{4 * first}]" if first else "[sp]")
            for tap in taps:
                self._step(weights, tap)

    def _step(self, weights: Weights, tap: str) -> None:
        asm, packed = self.asm, self.layer.requant.packed
        for channel in range(0, GROUP, 2 if packed else 1):
            w = weights.next()
            asm.op("smlad", FIRST[channel], tap, w, FIRST[channel])
            if packed:
                asm.op("sxtb16", w, w)
                asm.op("smlad", FIRST[channel + 1], tap, w, FIRST[channel + 1])
