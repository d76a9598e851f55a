# SPDX-License-Identifier: Apache-2.0
"""What the code of a tile depends on: the taps of a layer, the order in which it reads them, where they wait."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from tinyc.base.dataclass import dataclass
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.kernels.stream import RAISED, Packing
from tinyc.kernels.tile.shape import Inputs, Tile
from tinyc.machine.cores import Core
from tinyc.machine.three_stage import ThreeStage

_REACH = 1020  # of the immediate of LDRD
_FPU_REGISTERS = 32
_UNROLLED_BYTES = 160  # of taps per pixel, gathered without a loop


ANY_TAPS = (128, 256)  # that functions for any number of channels have room for
_ANY_CHANNELS = 129  # by which code for any number of channels is ordered: groups of four, and one that is not full


def _overlapping(taps: int, turn: int) -> tuple[int, ...]:
    """The tap of every half step for any number of channels: fours of which the first overlaps with the second where
    taps are no multiple of four, filled to whole turns of so many steps; steps in reverse."""
    begin = range(taps % 4 or 4, taps, 4)
    fours = [0, *begin]
    places = [at + i for at in fours for i in (0, 2, 1, 3)]
    places[4:] = [tap if tap >= 4 else -1 for tap in places[4:]]
    places += [-1] * (-len(places) % (2 * turn))
    steps = [places[i : i + 2] for i in range(0, len(places), 2)]
    return tuple(tap for step in reversed(steps) for tap in step)


@dataclass(frozen=True, slots=True)
class Run:
    """`size` consecutive taps, from byte `offset` of a window's row on."""

    offset: int
    size: int


@dataclass(frozen=True)
class WeightedLayer:
    """What the code of a layer depends on.

    runs: the taps in each of the k_h input rows of a window. pixel_bytes: from window to window. aligned: rows
    and pixels start at words.
    """

    k_h: int
    runs: tuple[Run, ...]
    pixel_bytes: int
    out_c: int
    aligned: bool
    tile: Tile
    packing: Packing
    requant: Requantization
    core: Core
    even: bool = False  # whether calls make even numbers of pixels alone
    odd: bool = False  # whether every call ends with an odd pixel, whose taps are in registers of the FPU
    room: int = 0  # taps of the widest layer that may have the same function, where many have one

    @cached_property
    def row_taps(self) -> int:
        return sum(run.size for run in self.runs)

    @cached_property
    def looped(self) -> bool:
        """Whether the taps of a kernel row stay together; otherwise those beyond groups of four come last."""
        return self.tile.pixels != 2 or self.tile.short or self.k_h * self.row_taps > _UNROLLED_BYTES

    @property
    def ended(self) -> bool:
        """Whether the stream says where it ends, so that the code is the same for any number of channels by fours."""
        return self.alone and self.in_scratch

    @property
    def of_any_channels(self) -> WeightedLayer:
        """What the code depends on: where the stream says what there is, no number of channels but the rest of them, or
        not even that."""
        if self.tile.of_any:
            return replace(self, runs=(Run(0, self.any_taps),), pixel_bytes=0, out_c=0, aligned=False)
        if not self.ended:
            return self
        return replace(self, out_c=GROUP * (self.out_c >= GROUP) + self.out_c % GROUP)

    @property
    def of_most_channels(self) -> WeightedLayer:
        """Where the code is that of any number of channels, the layer by which its instructions are ordered: with all
        that the code may run."""
        return replace(self, runs=(Run(0, self.any_taps),), out_c=_ANY_CHANNELS) if self.tile.of_any else self

    @property
    def any_taps(self) -> int:
        """For how many taps the function for any number of channels has room."""
        return next(most for most in ANY_TAPS if max(self.row_taps, self.room) <= most)

    @property
    def head(self) -> tuple[int, ...]:
        """Words of the stream before the first channel, behind those of the requantization: numbers of channels, or
        where the last group ends and how many outputs there are. A group that is not full is told before its
        constants."""
        if self.tile.of_any:
            return self.row_taps, self.out_c
        if not self.ended:
            return ()
        told = self.requant.words(GROUP) if self.out_c % GROUP else 0
        return 4 * (self.group_words * self.groups - told), self.out_c

    @property
    def head_words(self) -> int:
        """Words of the stream before the first channel."""
        return len(self.head) + self.requant.head_words

    @property
    def alone(self) -> bool:
        """Whether a call makes one pixel; otherwise two or more, or any number of four-pixel tiles."""
        return self.tile.pixels == 1

    @cached_property
    def slots(self) -> tuple[int, ...]:
        """Tap number (kernel row * row_taps + place in the row) of every half step, -1 for none.

        Four taps go as (0, 2), (1, 3), since that is how SXTB16 unpacks a word.
        """
        if self.tile.of_any:
            return _overlapping(self.row_taps, self.tile.turn)
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
        return 4 * self.steps * self.tile.pixels

    @property
    def in_scratch(self) -> bool:
        """Whether the unpacked taps are in scratch, not on the stack."""
        far = self.tile.pixels == 2 and self.buffer_bytes - 8 > _REACH
        return self.tile.inputs == "scratch" or far

    @property
    def together(self) -> int:
        """Channels of a group of the stream."""
        return self.tile.channels

    @property
    def nibbles(self) -> bool:
        """Whether one instruction each puts int4 weights on top of halves (`int4_words.top`)."""
        return self.packing is RAISED

    @property
    def windows_overlap(self) -> bool:
        """Whether two pixels share taps, in whole eights of the buffer."""
        eights = len(self.runs) == 1 and self.row_taps % 8 == 0 and self.pixel_bytes % 8 == 0
        return eights and not self.alone and self.pixel_bytes < self.row_taps

    @property
    def held_steps(self) -> int:
        """Steps whose taps of both pixels FPU registers hold while all output channels use them."""
        fpu = self.tile.inputs == "FPU registers" and not self.in_scratch
        return min(self.steps, _FPU_REGISTERS // 2) if fpu else 0

    @property
    def moves_to_fpu(self) -> bool:
        """Whether taps go to registers of the FPU without a way through the buffer: moves take less than stores."""
        fours = self.k_h * sum(run.size // 4 * 2 for run in self.runs)  # steps of taps in fours
        held = 0 < self.held_steps <= fours and not self.looped and not self.requant.offsets
        return held and isinstance(self.core, ThreeStage)

    @property
    def fits_odd(self) -> bool:
        """Whether registers of the FPU hold all taps of a pixel, too, which are in fours."""
        in_fours = self.k_h == len(self.runs) == 1 and self.row_taps % 4 == 0
        return self.moves_to_fpu and in_fours and self.row_taps <= 2 * _FPU_REGISTERS

    @property
    def text(self) -> str:
        """The tile in words."""
        inputs: Inputs = "FPU registers" if self.held_steps else "scratch" if self.in_scratch else "stack"
        return self.tile.text(inputs, self.packing.weights)

    @property
    def words_per_step(self) -> int:
        """Weights of four channels."""
        return self.packing.words_per_step

    @property
    def group_words(self) -> int:
        """Words of the stream for four output channels."""
        return GROUP + self.steps * self.words_per_step + self.requant.words(GROUP)

    @property
    def groups(self) -> int:
        return -(-self.out_c // GROUP)

    @property
    def turns(self) -> int:
        """Of the loop over the channels."""
        return -(-self.out_c // self.tile.channels)

    def tap_place(self, tap: int) -> tuple[int, int]:
        """(kernel row, byte in the row's window) of a tap number."""
        row, place = divmod(tap, self.row_taps)
        for run in self.runs:
            if place < run.size:
                return row, run.offset + place
            place -= run.size
        raise ValueError(f"tap {tap} is beyond the window")
