# SPDX-License-Identifier: Apache-2.0
"""The assembly of a weighted layer over a row of an odd number of pixels, as `two_pixels.py` but for the last one: all
of its taps are in registers of the FPU, and its steps are written one after the other (`WeightedLayer.fits_odd`)."""

from __future__ import annotations

from tinyc.kernels.tile.groups import PixelWork
from tinyc.kernels.tile.one_pixel import sums_of_pixel
from tinyc.kernels.tile.two_pixels import TwoPixelWriter
from tinyc.machine.thumb import Asm

_AT_ONCE = 16  # taps


class OddRowWriter(TwoPixelWriter):
    """Writes one function for an odd n >= 3; `asm` has the code."""

    def write(self) -> PixelWork:
        asm = self.asm
        self.enter()
        self._pairs()
        with asm.per("last"):
            self._gather_last()
            self.load_stream()
            self.groups("last", self._sums_last, paired=False)
        self.leave()
        return PixelWork(asm.work(), asm.work("pair"), asm.work("last"), self.group_bytes)

    def _call_gather(self) -> None:
        """Nothing else calls for it."""
        self.asm.note("loads: taps of both pixels to registers of the FPU, and to the stack, as int16")
        self._fill_buffer()

    def _gather_last(self) -> None:
        """All taps of the last pixel to registers of the FPU."""
        (run,) = self.layer.runs
        self.asm.note("loads: all taps of the last pixel to registers of the FPU, as int16")
        self.asm.op("ldr", "r9", self.frame.at("x"))
        for first in range(0, run.size, _AT_ONCE):
            self.asm.piece(_unpack, run.offset, first, min(_AT_ONCE, run.size - first))

    def _sums_last(self) -> None:
        """Four accumulators over all steps."""
        sums_of_pixel(self.asm, self.layer, _from_fpu)


def _unpack(asm: Asm, offset: int, first: int, count: int) -> None:
    """Taps at r9, from number `first` on, to registers of the FPU. offset: bytes before the first tap of all."""
    words = ("r2", "r4", "r6", "r8")[: count // 4]
    for i, word in enumerate(words):
        at = offset + first + 4 * i
        asm.op("ldr", word, f"[r9, #{at}]" if at else "[r9]")
    for i, word in enumerate(words):
        to = first // 2 + 2 * i
        asm.op("sxtb16", "r1", word)
        asm.op("sxtb16", word, word, "ror #8")
        asm.op("vmov", f"s{to}", f"s{to + 1}", "r1", word)


def _from_fpu(asm: Asm, taps: tuple[str, ...], first: int) -> None:
    asm.op("vmov", *taps, f"s{first}", f"s{first + 1}")
