# SPDX-License-Identifier: Apache-2.0
"""The taps of a weighted layer, and the order in which its code reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.machine.cores import Core

_REACH = 1020  # of the immediate of LDRD
_FPU_REGISTERS = 32
_UNROLLED_BYTES = 160  # of taps per pixel, gathered without a loop


@dataclass(frozen=True, slots=True)
class Run:
    """`size` consecutive taps, from byte `offset` of a window's row on."""

    offset: int
    size: int


@dataclass(frozen=True)
class WeightedLayer:
    """What the code of a layer depends on.

    runs: the taps in each of the k_h input rows of a window. pixel_bytes: from window to window. aligned: rows
    and pixels start at words. alone: a call makes one pixel; otherwise two or more. fpu: the first steps' taps
    may stay in FPU registers. rolled: all steps in one loop, however few they are. nibbles: int4 weights that one
    instruction each puts on top of halves (`int4_words.top`).
    """

    k_h: int
    runs: tuple[Run, ...]
    pixel_bytes: int
    out_c: int
    aligned: bool
    alone: bool
    requant: Requantization
    core: Core
    fpu: bool = False
    rolled: bool = False
    nibbles: bool = False

    @cached_property
    def row_taps(self) -> int:
        return sum(run.size for run in self.runs)

    @cached_property
    def looped(self) -> bool:
        """Whether the taps of a kernel row stay together; otherwise those beyond groups of four come last."""
        return self.alone or self.rolled or self.k_h * self.row_taps > _UNROLLED_BYTES

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """Tap number (kernel row * row_taps + place in the row) of every half step, -1 for none.

        Four taps go as (0, 2), (1, 3), since that is how SXTB16 unpacks a word.
        """
        places: list[int] = []
        tails: list[int] = []
        start = 0
        for run in self.runs * self.k_h:
            fours = run.size // 4 * 4
            for at in range(start, start + fours, 4):
                places += (at, at + 2, at + 1, at + 3)
            tail = range(start + fours, start + run.size)
            start += run.size
            if self.looped:
                places += [*tail, *[-1] * (len(tail) % 2)]
            else:
                tails += tail
        return tuple(places + tails + [-1] * (len(tails) % 2))

    @property
    def steps(self) -> int:
        """Pairs of half steps: what one SMLAD takes."""
        return len(self.slots) // 2

    @property
    def buffer_bytes(self) -> int:
        """Unpacked taps: a word per step and pixel."""
        return 4 * self.steps * (1 if self.alone else 2)

    @property
    def in_scratch(self) -> bool:
        """Whether the unpacked taps are in scratch, not on the stack."""
        return self.alone or self.rolled or self.buffer_bytes - 8 > _REACH

    @property
    def at_once(self) -> int:
        """Pixels that are read before their outputs are written."""
        return 2

    @property
    def together(self) -> int:
        """Channels of a group of the stream."""
        return GROUP

    @property
    def windows_overlap(self) -> bool:
        """Whether two pixels share taps, in whole eights of the buffer."""
        eights = len(self.runs) == 1 and self.row_taps % 8 == 0 and self.pixel_bytes % 8 == 0
        return eights and not self.alone and self.pixel_bytes < self.row_taps

    @property
    def held_steps(self) -> int:
        """Steps whose taps of both pixels FPU registers hold while all output channels use them."""
        return min(self.steps, _FPU_REGISTERS // 2) if self.fpu and not self.in_scratch else 0

    @property
    def words_per_step(self) -> int:
        """Weights of four channels."""
        if self.requant.offsets or self.nibbles:
            return 1
        return 2 if self.requant.packed else 4

    @property
    def group_words(self) -> int:
        """Words of the stream for four output channels."""
        return GROUP + self.steps * self.words_per_step + GROUP * self.requant.constants

    @property
    def groups(self) -> int:
        return -(-self.out_c // GROUP)

    @property
    def turns(self) -> int:
        """Of the loop over the channels."""
        return self.groups

    def tap_place(self, tap: int) -> tuple[int, int]:
        """(kernel row, byte in the row's window) of a tap number."""
        row, place = divmod(tap, self.row_taps)
        for run in self.runs:
            if place < run.size:
                return row, run.offset + place
            place -= run.size
        raise ValueError(f"tap {tap} is beyond the window")


class FourPixelLayer(WeightedLayer):
    """A layer of 1x1 weights of which four pixels by two channels are made together (`four_pixels.py`): its stream goes
    by two channels, and the unpacked taps of four pixels are on the stack."""

    @property
    def looped(self) -> bool:
        return True

    @property
    def buffer_bytes(self) -> int:
        return 4 * self.steps * self.at_once

    @property
    def in_scratch(self) -> bool:
        return False

    @property
    def at_once(self) -> int:
        return 4

    @property
    def together(self) -> int:
        return 2

    @property
    def turns(self) -> int:
        return self.out_c // 2
