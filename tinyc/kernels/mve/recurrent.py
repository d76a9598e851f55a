# SPDX-License-Identifier: Apache-2.0
"""Loops of recurrent layers with Helium (MVE), four units at a time: what tc_recurrent_mve.h reads, and the cost."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.kernel import Cost
from tinyc.machine.thumb import Work

EIGHT, _LANES = 8, 4  # taps of a vector, units at a time
_FACTOR_BITS = 16
# Instructions and cycles by beats.
_TAPS, _W4_TAPS, _SUM = Work(10, 18), Work(12, 22), Work(15, 22)  # eight taps of four units, and around a sum
_UNITS = {"lstm": Work(140, 250), "gru": Work(112, 200)}  # of four
_INPUT, _STEP = Work(5, 9), Work(75, 90)  # of four numbers, and around a step
_CALL = Work(60, 80)  # around the loop
_BEGIN, _STATE = Work(14, 20), Work(19, 27)  # of each unit: zeros, and a state that is found or left


@dataclass(frozen=True, slots=True)
class VectorLoop:
    """What the cost depends on. at: where the hidden state begins; taps: of the vector, by eights; states: that are
    found or left; narrow: weights have 4 bits."""

    cell: str
    units: int
    inputs: int
    at: int
    taps: int
    steps: int
    states: int
    narrow: bool

    @property
    def quads(self) -> int:
        return -(-self.units // _LANES)

    @property
    def scratch_bytes(self) -> int:
        """What the layer remembers, int32, and two vectors of int16."""
        return 4 * self.units + 4 * self.taps


def weights(rows: Array, parts: tuple[slice, ...], narrow: bool) -> Array:
    """The stream of weights: int8 [units, rows, taps] as sums go over them; parts: taps of each of the four sums, of
    which the last two may be those of one row. narrow: 4 bits, of two units in a byte."""
    units, count, taps = rows.shape
    padded = np.zeros((-(-units // _LANES) * _LANES, count, taps), np.int8)
    padded[:units] = rows
    quads = padded.reshape(-1, _LANES, count, taps)
    sums = []
    for number, part in enumerate(parts):
        row = quads[:, :, min(number, count - 1), part]
        eights = row.reshape(len(quads), _LANES, -1, EIGHT).transpose(0, 2, 1, 3)
        if narrow:
            eights = (eights[:, :, 0::2] & 15) | (eights[:, :, 1::2] << 4)
        sums.append(eights.reshape(len(quads), -1))
    return np.concatenate(sums, axis=1)


def constants(starts: npt.NDArray[np.int32], factors: npt.NDArray[np.int16]) -> npt.NDArray[np.int32]:
    """What sums begin with [units, 4], and their factors [units, rows], as the lanes take them."""
    four = np.concatenate([factors, factors[:, 2:]], axis=1)[:, :4].astype(np.int64) << _FACTOR_BITS
    both = np.stack([starts.astype(np.int64), four])
    padded = np.pad(both, ((0, 0), (0, -len(starts) % _LANES), (0, 0)))
    return padded.reshape(2, -1, _LANES, 4).transpose(1, 0, 3, 2).astype(np.int32)


def cost(loop: VectorLoop, constant_bytes: int) -> Cost:
    """Counted from the assembly, and what C around it takes as measured; to 10 %."""
    cells = 2 if loop.cell == "lstm" else 1
    over = loop.taps * (4 if loop.cell == "lstm" else 3) // EIGHT
    quad = over * (_W4_TAPS if loop.narrow else _TAPS) + 4 * _SUM + _UNITS[loop.cell]
    step = loop.quads * quad + -(-loop.inputs // _LANES) * _INPUT + _STEP
    whole = loop.steps * step + _CALL + loop.units * (cells * _BEGIN + loop.states * _STATE)
    return Cost(whole.instructions, constant_bytes, loop.scratch_bytes, whole.cycles)
