# SPDX-License-Identifier: Apache-2.0
"""From accumulators to int8 in lanes of 32 bits (tc_rvv.h), proved equal to the layer's definition or that
itself.

VMULH and VNCLIP are what Helium has as VMULH and VQRSHRN, both rounding to nearest and halves up, so its proofs
(mve/finish.py) serve here: ways that scale by start, multiplier and a shift of all channels, and ways that add a
constant. Where double rounding is visible, TensorFlow Lite's definition is as short: VSMUL is its first rounding (a
product over 2^31, halves up), and VSSRA, after 1 is subtracted from negatives, its second (halves away from zero).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Rounding
from tinyc.kernel.dsp import Fields
from tinyc.kernel.kernel import Const
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.mve.finish import LaneFinish, lanes
from tinyc.kernels.requantize import Bools, Int64s
from tinyc.kernels.stream import as_words

PROVED = "a requantization that is proved for vectors"
PLAIN, DEFINED, ADDED = "TC_RVV_PLAIN", "TC_RVV_DEFINED", "TC_RVV_ADDED"
INSTRUCTIONS: Mapping[str, int] = {
    PLAIN: 5,
    DEFINED: 9,
    ADDED: 6,
}  # for the lanes of a pixel, from sums to bytes stored


@dataclass(frozen=True, slots=True)
class VectorFinish:
    """How a layer's sums become int8. constants: int64[vectors, O]. live: channels whose output depends on the input;
    the others' weights count as 0."""

    way: str
    power: int
    shift: int
    y_zero: int
    clamp: tuple[int, int]
    constants: Int64s
    live: Bools

    def fields(self, taps: Int64s, layout: str, together: int = 1) -> Fields:
        """Those of the tc_rvv_out_t called `out`, for weights taps[O, K]. layout: what the transposed ones are.
        together: how often all channels come, one after the other."""
        out_c, length = taps.shape
        weights = np.tile((taps * self.live[:out_c, None]).T.astype(np.int8), together)
        words = np.tile(as_words(self.constants[:, :out_c]), together)
        vectors = {PLAIN: "start, mult", DEFINED: "start, mult, shift", ADDED: "start, mult, add, shift"}[self.way]
        low, high = self.clamp
        fields: Fields = {
            "w": Const(weights, layout, "w"),
            "constants": Const(np.ascontiguousarray(words), f"[{vectors}][out_c]", "channels"),
            **{"out_c": out_c * together, "taps": length, "power": self.power, "way": self.way, "shift": self.shift},
            **{"y_zero": self.y_zero, "clamps": int(self.clamp != (-128, 127)), "y_min": low, "y_max": high},
        }
        return {f"out.{name}": value for name, value in fields.items()}


def vector_finish(matrix: Matrix) -> VectorFinish | None:
    """The cheapest way of a layer; None if none is proved."""
    in_lanes = lanes(matrix)
    if in_lanes is not None and not in_lanes.requant.add:
        return _plain(matrix, in_lanes)
    if matrix.p.rounding is Rounding.DOUBLE and int(matrix.p.shift.max(initial=-1)) < 0:
        return _defined(matrix)
    return None if in_lanes is None or in_lanes.requant.sign else _added(matrix, in_lanes)


def _plain(matrix: Matrix, lane: LaneFinish) -> VectorFinish:
    shift = lane.requant.shift
    assert shift is not None  # channels with shifts of their own have something to add
    constants = lane.constants(matrix.p.bias.astype(np.int64))
    return VectorFinish(PLAIN, 1 << lane.requant.scale, shift, 0, _clamp(matrix), constants, lane.live)


def _defined(matrix: Matrix) -> VectorFinish:
    p = matrix.p
    constants = np.stack([column.astype(np.int64) for column in (p.bias, p.mult, -p.shift)])
    return VectorFinish(DEFINED, 1, 0, p.y_zero, _clamp(matrix), constants, np.ones(len(p.bias), np.bool_))


def _added(matrix: Matrix, lane: LaneFinish) -> VectorFinish:
    start, mult = lane.constants(matrix.p.bias.astype(np.int64))[:2]
    shift = lane.scaling.shift
    half = np.where(shift > 0, 1 << np.maximum(shift - 1, 0), 0)  # VSSRA rounds, the proof's shift does not
    add = lane.scaling.add - half
    constants = np.stack([start, mult, add, shift])
    return VectorFinish(ADDED, 1 << lane.requant.scale, 0, 0, _clamp(matrix), constants, lane.live)


def _clamp(matrix: Matrix) -> tuple[int, int]:
    return matrix.p.y_min, matrix.p.y_max
