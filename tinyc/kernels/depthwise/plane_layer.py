# SPDX-License-Identifier: Apache-2.0
"""What the assembly of a depthwise convolution over planes depends on: geometry, bands, and which taps go together."""

from __future__ import annotations

from functools import cached_property

from tinyc.base.dataclass import dataclass
from tinyc.kernels.finish import Requantization
from tinyc.kernels.matrix import GROUP
from tinyc.machine.cores import Core
from tinyc.machine.three_stage import ThreeStage

_RESIDENT_WORDS = 6  # weight words of a channel that registers hold
_CHANNEL = 20  # cycles of a channel of a band beside its products, at least
_PAD_ROW = 30  # of a row of zero points beside its stores, at most
_UNROLLED_OUTPUTS = 26  # of the loop over output rows


@dataclass(frozen=True, slots=True)
class Mac:
    """One multiply-accumulate of a plane word (two columns) with a weight word, for output `out`."""

    x: int
    w: int
    op: str
    out: int


def row_words(k_w: int, stride: int) -> list[tuple[int, int]]:
    """The taps (low half, high half) of each weight word of one kernel row; -1 for none.

    Stride 1: words of taps (0, 1), (2, 3) ... for even columns, of (1, 2), (3, 4) ... for odd ones, by turns.
    """
    if stride == 2 or k_w == 1:
        return [(tap, tap + 1 if tap + 1 < k_w else -1) for tap in range(0, k_w, 2)]
    return [(tap, tap + 1) for tap in range(k_w - 1)]


def tap_halves(k_w: int, stride: int) -> list[int]:
    """Where each tap of a kernel row is in its words: twice the word, and 1 for the high half."""
    halves = {tap: 2 * word + half for word, taps in enumerate(row_words(k_w, stride)) for half, tap in enumerate(taps)}
    return [halves[tap] for tap in range(k_w)]


def row_macs(outputs: int, k_w: int, stride: int) -> list[Mac]:
    """What one kernel row adds to neighbouring outputs; word 0 is the first output's first column."""
    place = {taps: word for word, taps in enumerate(row_words(k_w, stride))}
    halves = {tap: (word, "bt"[half]) for taps, word in place.items() for half, tap in enumerate(taps)}
    macs = []
    for out in range(outputs):
        tap = 0
        while tap < k_w:
            x, odd = divmod(out * stride + tap, 2)
            if not odd and (tap, tap + 1) in place:
                macs.append(Mac(x, place[tap, tap + 1], "smlad", out))
                tap += 2
            else:
                word, half = halves[tap]
                macs.append(Mac(x, word, f"smla{'bt'[odd]}{half}", out))
                tap += 1
    return macs


@dataclass(frozen=True)
class PlaneLayer:
    """What the code depends on. Rows and columns may be the image's columns and rows."""

    in_h: int
    in_w: int
    out_h: int
    out_w: int
    k_h: int
    k_w: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    in_step: int  # bytes from column to column of the input
    in_row: int  # bytes from row to row of the input
    out_step: int  # bytes from column to column of the output
    out_row: int  # bytes from row to row of the output
    channels: int
    band: int  # output rows per band
    requant: Requantization
    core: Core
    transposed: bool = False  # rows and columns are the image's columns and rows
    by_rows: bool = False  # a call gets pointers to in_h = k_h rows, and makes one output row
    bits: int = 16  # of a weight in flash; of fewer than 16, registers hold them in the upper bits of int16
    group: int = GROUP  # channels whose planes are in scratch at a time, 4; or 2 in a single band
    most_unrolled: int = _UNROLLED_OUTPUTS  # outputs in a turn of the row loop, if rows are not longer

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of the C function."""
        x = "const int8_t *const *x" if self.by_rows else "const int8_t *x"
        return ("const int32_t *stream", x, "int8_t *y", "void *scratch")

    @property
    def row_words(self) -> int:
        """Weight words of a kernel row."""
        return len(row_words(self.k_w, self.stride_w))

    @property
    def resident(self) -> bool:
        """Whether registers hold the weights of a channel."""
        return self.weight_words <= _RESIDENT_WORDS

    @property
    def stacked_words(self) -> int:
        """Weight words of a channel that are unpacked on the stack."""
        return self.weight_words if self.bits < 16 and not self.resident else 0

    @property
    def weight_words(self) -> int:
        """Of a channel, two int16 in each."""
        return self.k_h * self.row_words

    @property
    def stored_words(self) -> int:
        """The same in flash."""
        return -(-self.weight_words * self.bits // 16)

    @property
    def channel_words(self) -> int:
        """Words of the stream per channel: start value, weights, mult, add[, shift]."""
        return 1 + self.stored_words + self.requant.constants

    @property
    def columns(self) -> int:
        """Columns of a plane row in use, padding included."""
        return (self.out_w - 1) * self.stride_w + self.k_w

    @property
    def real_columns(self) -> int:
        """Columns of the input that windows reach."""
        return min(self.in_w, self.columns - self.pad_left)

    @property
    def real_rows(self) -> int:
        """Rows of the input that windows reach."""
        return min(self.in_h, (self.out_h - 1) * self.stride_h + self.k_h - self.pad_top)

    @property
    def pitch(self) -> int:
        """Bytes of one row of one plane."""
        return 8 * -(-self.columns // 4)

    @property
    def plane_row(self) -> int:
        """Bytes of one row of the planes of a group."""
        return self.group * self.pitch

    @property
    def keep(self) -> int:
        """Rows that a band hands to the next."""
        return max(self.k_h - self.stride_h, 0)

    @property
    def fresh(self) -> int:
        """Rows that a band adds."""
        return self.band * self.stride_h

    @property
    def plane_rows(self) -> int:
        if self.bands == 1:
            return (self.out_h - 1) * self.stride_h + self.k_h
        return self.fresh + self.keep

    @property
    def loaded_rows(self) -> int:
        """Of all bands; a last one that is not full may load rows beyond the image."""
        return self.plane_rows + (self.bands - 1) * self.fresh

    @property
    def bands(self) -> int:
        return -(-self.out_h // self.band)

    @property
    def is_looped(self) -> bool:
        """Whether a channel's rows of a band take several turns, which cost more than the next band does: that one
        takes no rows of this one."""
        return self.keep == 0 and self.takes_turns

    @property
    def takes_turns(self) -> bool:
        """Whether a channel's rows of a band are a loop."""
        return min(self.band, self.out_h) > self.turn

    def is_quicker_than(self, other: PlaneLayer) -> bool:
        """Whether that follows from the bands, of two functions that differ in nothing else. Where instructions stay in
        order, and a band's rows take turns in both, fewer bands pay for rows of padding."""
        rows = self.loaded_rows - other.loaded_rows
        padding = rows * self.groups * (_PAD_ROW + 9 * self.plane_row // 32)
        pays = self.stays_in_order and self.takes_turns <= other.takes_turns
        begun = (other.bands - self.bands) * self.channels * _CHANNEL * pays
        own, others = ((layer.bands, layer.is_looped, -layer.turn) for layer in (self, other))
        differs = rows != 0 or own != others
        return differs and padding <= begun and all(a <= b for a, b in zip(own, others, strict=True))

    @property
    def stays_in_order(self) -> bool:
        """Whether a function with more of the same instructions takes longer: none of a core that begins two at a time,
        where all are ordered anew."""
        return isinstance(self.core, ThreeStage)

    @property
    def last_band(self) -> int:
        """Output rows of the last band."""
        return self.out_h - (self.bands - 1) * self.band

    @property
    def scratch_bytes(self) -> int:
        return self.plane_rows * self.plane_row

    @property
    def groups(self) -> int:
        return -(-self.channels // self.group)

    @property
    def rest(self) -> int:
        """Channels of a last group that is not full, else 0."""
        return self.channels % self.group

    @cached_property
    def turn(self) -> int:
        """Output rows per turn of the row loop: a divisor of all bands' rows."""
        sizes = (self.band, self.last_band) if self.bands > 1 else (self.out_h,)
        fits = [n for n in range(1, min(sizes) + 1) if all(size % n == 0 for size in sizes)]
        return max((n for n in fits if n * self.out_w <= self.most_unrolled), default=1)
