# SPDX-License-Identifier: Apache-2.0
"""From accumulators to int8 in vectors of four lanes (MVE), proved equal to the layer's definition.

    X = (acc << scale) + start,   y = saturate8(high(X * mult) >> shift, to nearest)

is VMLA (or VMLAS) with 2^scale, VMULH and VQRSHRN: scale and shift belong to the layer, start and mult to the
channel. Bias, zero point and rounding are all in `start`: it moves the sums by any multiple of mult, far finer than
the thresholds of the outputs lie apart, so that nothing has to be added to the high word. Where channels differ too
much for that, a constant `add` follows the product, and shifts may differ too. Where double rounding is visible below
the zero point, the high word is rounded, and 1 is subtracted for negative X before `add` (requantize.py has the
proofs).

The last shift rounds because GNU as 2.40 writes VQSHRN as VQRSHRN; both assemblers agree on the latter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.requantize import (
    MAX_SHIFT,
    Bools,
    Int64s,
    ScalingConstants,
    Shifts,
    Steps,
    best_slope,
    interval,
    solve,
)

_NARROW_SHIFT = 16  # that VQRSHRN reaches
_FLAT = 30  # log2 of the multiplier of channels whose output is always the same
_TRIED = 4  # scales, from the largest that fits


@dataclass(frozen=True, slots=True)
class LaneRequantization:
    """The instructions, the same for all channels of a layer.

    scale: X = acc * 2^scale + start. add: a constant is added to high words. sign: they are rounded, and 1 comes off
    for negative X, before. shift: of VQRSHRN; None: each channel has its own, which does not round. clamp: None where
    saturation to int8 does.
    """

    scale: int
    shift: int | None
    add: bool
    sign: bool
    clamp: tuple[int, int] | None

    @property
    def constants(self) -> int:
        """Vectors of constants for four channels: start, mult[, add][, minus shift]."""
        return 2 + self.add + (self.shift is None)

    @property
    def c_text(self) -> str:
        """The initializer of a tc_mve_requant_t."""
        low, high = self.clamp or (-128, 127)
        flags = (int(self.add), int(self.sign), int(self.shift is None))
        return "{" + ", ".join(map(str, (self.scale, self.shift or 0, *flags, low, high))) + "}"


@dataclass(frozen=True, slots=True)
class LaneFinish:
    """A requantization and its constants for one layer, one entry of `scaling` per output channel. live: channels whose
    output depends on the input; the others' weights and biases count as 0."""

    requant: LaneRequantization
    scaling: ScalingConstants
    live: Bools

    def constants(self, bias: Int64s) -> Int64s:
        """int64[constants, O]: start, mult[, add][, minus shift]. Start is right modulo 2^32."""
        s = self.scaling
        start = ((bias * self.live) << s.scale) + s.nudge
        rows = [start, s.mult]
        if self.requant.add:
            rows.append(s.add - half(self.requant.shift))
        if self.requant.shift is None:
            rows.append(-s.shift)
        return np.stack(rows)


def half(shift: int | None) -> int:
    """What the last shift adds before."""
    return 0 if shift is None else 1 << (shift - 1)


PROVED = "a requantization that is proved for vectors"


def lanes(matrix: Matrix) -> LaneFinish | None:
    """The cheapest proved requantization of a layer; None if none is proved."""
    p, steps = matrix.p, matrix.steps
    always = np.where(steps.has_reach, steps.outputs, p.y_min).max(axis=1, initial=p.y_min)
    steps = steps.without_dead()
    live = steps.is_live
    clamp = None if (p.y_min, p.y_max) == (-128, 127) else (p.y_min, p.y_max)
    for scale, shift in _plain_ways(p, steps):
        scaling = _plain(p, steps, scale, shift, always)
        if scaling is not None:
            return LaneFinish(LaneRequantization(scale, shift, False, False, clamp), scaling, live)
    for scale, shifts, shared, sign in _added_ways(p, steps):
        scaling = solve(p.rescale, steps, Shifts(np.full_like(shifts, scale), shifts, sign), np.full_like(shifts, 2))
        if scaling is not None:
            return LaneFinish(LaneRequantization(scale, shared, True, sign, clamp), scaling, live)
    return None


def _plain_ways(p: ConvParams, steps: Steps) -> Iterator[tuple[int, int]]:
    """(scale, shift) to try: as much precision as there is room for."""
    live = steps.is_live
    factor = np.ldexp(p.mult[live].astype(np.float64), p.shift[live] - 31)
    if len(factor) == 0 or not factor.min(initial=1.0) > 0:
        factor = np.array([0.5])
    # Beyond the accumulators, start holds the zero point: 128 steps of the output, and what is left of a step.
    worst = np.maximum(np.abs(steps.low), np.abs(steps.high))[live].max(initial=1) + 130 / factor.min()
    room = 30 - int(np.ceil(np.log2(worst + 1)))
    for scale in range(room, max(room - _TRIED, 0), -1):
        most = 31 + scale - 32 - int(np.ceil(np.log2(factor.max())))  # so that the greatest multiplier fits int32
        if most >= 1:
            yield scale, min(most, _NARROW_SHIFT)


def _plain(p: ConvParams, steps: Steps, scale: int, shift: int, always: Int64s) -> ScalingConstants | None:
    """Constants without add, proved; None where there are none. Starts are even, for doubling products."""
    live = steps.is_live
    exponent = (1 + p.shift + shift - scale).astype(np.float64)
    mult = np.where(live, np.rint(np.ldexp(p.mult.astype(np.float64), exponent.astype(np.int64))), 1 << _FLAT)
    if mult.max(initial=0) >= 2**31 or (mult < 1).any():
        return None
    same = np.ones_like(p.shift, np.int64)
    zero = np.zeros_like(same)
    constants = ScalingConstants(same * scale, same * shift, mult.astype(np.int64), same * half(shift), zero, False)
    constants = _started(constants, steps, always)
    failed = np.flatnonzero(~constants.equals(steps))
    if len(failed):
        constants = _started(best_slope(constants, steps, failed), steps, always)
    return constants if constants.equals(steps).all() else None


def _started(s: ScalingConstants, steps: Steps, always: Int64s) -> ScalingConstants:
    """`s` with the nudge in the middle of where it may be; wrong where there is no such place."""
    least, greatest = interval(s, steps)
    first, last = -(((s.add << 32) - least) // s.mult), (greatest - (s.add << 32)) // s.mult
    nudge = np.where(steps.is_live, (first + last) // 2, always << (32 + s.shift - _FLAT))
    return replace(s, nudge=nudge & ~np.int64(1))


def _added_ways(p: ConvParams, steps: Steps) -> Iterator[tuple[int, Int64s, int | None, bool]]:
    """(scale, shift of every channel, the one of all or None, sign) to try, with a constant added."""
    live = steps.is_live
    down = -p.shift.astype(np.int64)  # of the definition
    least = int(down[live].min(initial=_NARROW_SHIFT))
    most = int(down[live].max(initial=_NARROW_SHIFT))
    worst = np.maximum(np.abs(steps.low), np.abs(steps.high)).max(initial=1)
    room = min(29 - int(worst).bit_length(), MAX_SHIFT - most)
    shared = min(least + room - 1, _NARROW_SHIFT)
    if room >= 1 and shared >= 1:
        yield room, np.full_like(down, shared), shared, False
    if 1 <= least <= _NARROW_SHIFT:
        yield 1, np.full_like(down, least), least, True
    if room >= 1:
        yield room, np.where(live, np.clip(down + room - 1, 0, MAX_SHIFT), 0), None, False
    yield 1, np.where(live, np.clip(down, 0, MAX_SHIFT), 0), None, True
