# SPDX-License-Identifier: Apache-2.0
"""Layers as dot products of 16 bytes at a time (VMLADAVA.S8): steps, order of the stream, twin (tc_mve.h)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.kernels.form.function import Fields
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.mve.finish import LaneFinish, LaneRequantization
from tinyc.kernels.mve.lanes import needed
from tinyc.kernels.stream import as_words

LANES = 4  # int32 in a vector
STEP = 16  # bytes in a vector
VECTORS = 8
WORD_REACH = 508  # of the immediate of VLDRW
BYTE_REACH = 127  # of VLDRB and VSTRB
ACCUMULATORS = ("r0", "r2", "r4", "r6", "r8", "r10", "r12", "r14")  # VMLADAVA takes even registers


@dataclass(frozen=True, slots=True)
class DotStep:
    """Up to 16 taps: `size` bytes from byte `at` of a window's row on."""

    row: int
    at: int
    size: int


@dataclass(frozen=True)
class Dot:
    """What the code of a layer depends on.

    Windows are k_h rows of row_taps consecutive bytes, pixel_bytes from window to window. aligned: all of them start at
    words. alone: one pixel, eight channels beside each other; otherwise pixels in twos with four channels.
    paired: eight channels are done as the four even and the four odd ones, so that narrowing puts them in order; always
    with `alone`, else only where out_c is a multiple of 8.
    """

    k_h: int
    row_taps: int
    pixel_bytes: int
    out_c: int
    aligned: bool
    alone: bool
    paired: bool
    requant: LaneRequantization

    @cached_property
    def steps(self) -> tuple[DotStep, ...]:
        return tuple(
            DotStep(row, at, min(STEP, self.row_taps - at))
            for row in range(self.k_h)
            for at in range(0, self.row_taps, STEP)
        )

    @property
    def tail(self) -> int:
        """Bytes of the last step of each row if they are not 16; 0: none is short."""
        return self.row_taps % STEP

    @property
    def held(self) -> bool:
        """Whether the taps of both pixels stay in vectors while all their channels are made."""
        if self.alone or self.k_h > 1 or not self.reaches(self.pixel_bytes):
            return False
        return 2 * len(self.steps) + 2 * self.paired + needed(self.requant, 2 - self.paired) <= VECTORS

    @property
    def has_single(self) -> bool:
        """Whether an odd last pixel is made by itself, eight channels at a time; else its left neighbour comes too."""
        return self.paired and self.k_h == 1 and not self.alone

    def reaches(self, offset: int) -> bool:
        """Whether immediates of loads reach every step, `offset` bytes on."""
        words = self.aligned and offset % 4 == 0
        limits = ((step, WORD_REACH if words and step.size == STEP else BYTE_REACH) for step in self.steps)
        return all(step.at + offset <= limit for step, limit in limits)

    @property
    def group(self) -> int:
        """Channels whose weights lie together: their sums are made at once."""
        return 2 * LANES if self.alone else LANES

    @property
    def groups(self) -> int:
        """Groups of `group` channels; with pairs of them an even number."""
        block = 2 * LANES if self.paired else LANES
        return -(-self.out_c // block) * block // self.group

    @property
    def group_bytes(self) -> int:
        """Stream of one group."""
        return self.group * (STEP * len(self.steps) + 4 * self.requant.constants)

    @cached_property
    def channels(self) -> npt.NDArray[np.int64]:
        """Output channel of every place in the stream [groups, group]; some may be out_c or more."""
        order = np.arange(self.groups * self.group).reshape(-1, 2 * LANES if self.paired else LANES)
        if not self.paired:
            return order
        return order if self.alone else order[:, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(-1, LANES)

    def stream(self, matrix: Matrix, finish: LaneFinish) -> npt.NDArray[np.int32]:
        """Words of the layer: weights of a group step by step, 16 bytes of each channel; then vectors of constants of
        four channels (with `alone` of the even ones, then of the odd ones)."""
        count = self.groups * self.group
        taps = _padded((matrix.taps * finish.live[:, None])[: self.out_c].T, count).T
        taps = np.pad(taps, ((0, 0), (0, self.k_h * self.row_taps - taps.shape[1])))
        rows = taps.reshape(count, self.k_h, self.row_taps)
        rows = np.pad(rows, ((0, 0), (0, 0), (0, -self.row_taps % STEP))).reshape(count, -1, STEP)
        constants = _padded(finish.constants(matrix.p.bias.astype(np.int64))[:, : self.out_c], count)
        words = []
        for channels in self.channels:
            weights = rows[channels].transpose(1, 0, 2).astype(np.int8)
            words.append(np.ascontiguousarray(weights).view(np.int32).ravel())
            for quad in (channels[0::2], channels[1::2]) if self.alone else (channels,):
                words.append(as_words(constants[:, quad]).ravel())
        return np.concatenate(words)

    @property
    def fields(self) -> Fields:
        """Of the tc_mve_dot_t."""
        return {
            "k_h": self.k_h,
            "row_taps": self.row_taps,
            "pixel_bytes": self.pixel_bytes,
            "out_c": self.out_c,
            "group": self.group,
            "paired": int(self.paired),
            "held": int(self.held),
            "requant": self.requant.c_text,
        }


def _padded(columns: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
    """The last axis extended with zeros."""
    return np.pad(columns, ((0, 0), (0, count - columns.shape[1])))
