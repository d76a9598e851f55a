# SPDX-License-Identifier: Apache-2.0
"""From accumulator to int8 in two to four instructions, proved equal to the layer's definition.

The definition (tinyc/base/numerics.py, then + y_zero, then the clamp) is a monotone step function of the
accumulator: output v or more exactly from the threshold theta_v on, at most 255 of them. The fast way is

    out = saturate8((X * mult + offset) >> (32 + shift)),   X = acc * 2^scale

done as SMMLA (high word of the product, plus `add`) and SSAT with its built-in shift. It equals the
definition on the reachable accumulators [low, high] if and only if for every v

    X(theta_v) * mult + offset >= v * 2^(32+shift) > X(theta_v - 1) * mult + offset,

two linear inequalities in (mult, offset); outside [low, high] nothing is asked. So mult need not be the
multiplier of the definition: any number between its bounds serves. offset = add * 2^32 + nudge * mult,
where the nudge is added to X beforehand, in the bias. `sign` takes 1 from the high word of negative X: the
halves-away-from-zero of double rounding, where outputs below y_zero can be seen.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import requantize
from tinyc.kernel.windows import Rescale

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_SHIFT = 22  # 2^(32 + shift) * 128 must fit int64 here, y_zero * 2^shift and a product int32 there
_NEAR, _FAR = 16, 1 << 17  # how far to look for a nudge
_UNBOUNDED = 2**62
_PROBED = 4  # channels that are tried first, to give up early
_TOGETHER = 4096  # channels
_WORD = 1 << 32
_SLOPE_BITS = 9  # the multiplier is sought within 2^-9 of the definition's
_GUESS = 4  # accumulators between the real-valued and the exact threshold
_MULTIPLIERS, _AT_ONCE = 512, 16  # how far from the best multiplier to look for one with a nudge; looked at together
_SUMS = 2**31 + 1  # beyond what the first step of double rounding makes


@dataclass(frozen=True, slots=True)
class Steps:
    """What the proof looks at: the accumulators around every threshold, and the reachable range.

    reach[o][i]: accumulator of channel o where the output must be at least outputs[i]; below[o][i]: where
    it must be less. has_reach, has_below: whether that lies in [low, high].
    """

    low: Int64s
    high: Int64s
    outputs: Int64s
    reach: Int64s
    has_reach: Bools
    below: Int64s
    has_below: Bools

    @property
    def is_live(self) -> Bools:
        """Channels whose output is not the same for every reachable accumulator."""
        return np.asarray((self.has_reach & self.has_below).any(axis=1))

    def without_dead(self) -> Steps:
        """The same with accumulator 0 for the other channels: any accumulator gives their output."""
        live = self.is_live
        return replace(
            self,
            low=self.low * live,
            high=self.high * live,
            reach=self.reach * live[:, None],
            below=self.below * live[:, None],
        )

    def times(self, factor: int) -> Steps:
        """The same where accumulators come as multiples."""
        places = {name: getattr(self, name) * factor for name in ("low", "high", "reach", "below")}
        return replace(self, **places)


@dataclass(frozen=True, slots=True)
class ScalingConstants:
    """Constants per channel: X = acc * 2^scale + nudge, out = saturate8((high(X * mult) + add [- (X < 0)]) >> shift).

    With `sign`, the high word of the product is rounded (SMMLAR), as the definition's first step does. With `drop`, it
    is not, and each channel's drop is subtracted for negative X: 1 of the definition's first step.
    """

    scale: Int64s
    shift: Int64s
    mult: Int64s
    add: Int64s
    nudge: Int64s
    sign: bool
    drop: Int64s | None = None

    @property
    def rounding(self) -> int:
        """What the instruction adds to the product: with `sign` it is SMMLAR."""
        return _WORD // 2 if self.sign and self.drop is None else 0

    @property
    def fall(self) -> Int64s:
        """What negative X lose, per channel."""
        return np.full_like(self.mult, self.sign) if self.drop is None else self.drop

    def outputs(self, acc: Int64s) -> Int64s:
        """What the instructions compute of acc[O, ...], before saturation."""
        extra = (slice(None),) + (None,) * (acc.ndim - 1)
        x = (acc << self.scale[extra]) + self.nudge[extra]
        t = ((x * self.mult[extra] + self.rounding) >> 32) + self.add[extra]
        return np.asarray((t - self.fall[extra] * (x < 0)) >> self.shift[extra])

    def fits(self, steps: Steps) -> Bools:
        """Per channel: X and the sum of SMMLA stay within int32 from the least to the greatest accumulator."""
        good = np.ones(len(self.mult), np.bool_)
        for acc in (steps.low, steps.high):
            x = (acc << self.scale) + self.nudge
            t = ((x * self.mult + self.rounding) >> 32) + self.add
            good &= (np.abs(x) < 2**31) & (np.abs(t) < 2**31 - 1)
        return good

    def equals(self, steps: Steps) -> Bools:
        """Per channel: whether the instructions give the layer's outputs for every reachable accumulator."""
        rises = ~steps.has_reach | (self.outputs(steps.reach) >= steps.outputs)
        stays = ~steps.has_below | (self.outputs(steps.below) < steps.outputs)
        return np.asarray((rises & stays).all(axis=1) & self.fits(steps))


def steps_between(p: Rescale, low: Int64s, high: Int64s) -> Steps:
    """The thresholds of a layer whose accumulators lie in [low, high], per channel."""
    outputs = np.arange(p.y_min + 1, p.y_max + 1, dtype=np.int64)
    parts = [_thresholds(p.of(rows), outputs, low[rows], high[rows]) for rows in _blocks(len(low))]
    theta = np.concatenate(parts)
    return Steps(
        low=low,
        high=high,
        outputs=outputs,
        reach=np.maximum(theta, low[:, None]),
        has_reach=theta <= high[:, None],
        below=np.minimum(theta - 1, high[:, None]),
        has_below=theta > low[:, None],
    )


def _thresholds(p: Rescale, outputs: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """theta[o][i]: the least accumulator in [low, high + 1] with an output of at least outputs[i]."""
    mult, shift = p.mult[:, None], p.shift[:, None]

    def reaches(acc: Int64s) -> Bools:
        return requantize(acc, mult, shift, p.rounding) + p.y_zero >= outputs

    first, last = low[:, None], high[:, None] + 1
    guess, off = _guessed(p, outputs)
    before = np.clip(guess - max(off, 1), first - 1, last)
    after = np.clip(guess + off, first, last)
    # before: not reached, or outside; after: reached, or one past the end.
    before = np.where((before >= first) & reaches(np.clip(before, first, last - 1)), first - 1, before)
    after = np.where((after < last) & ~reaches(np.clip(after, first, last - 1)), last, after)
    while ((gap := after - before) > 1).any():
        middle = np.clip(before + gap // 2, first, last - 1)
        reached = reaches(middle)
        unmet = gap > 1
        after = np.where(unmet & reached, middle, after)
        before = np.where(unmet & ~reached, middle, before)
    return np.clip(after, first, last)


def _guessed(p: Rescale, outputs: Int64s) -> tuple[Int64s, int]:
    """(the least accumulators with outputs of at least `outputs`, how far off they may be): of double rounding the
    definition turned round, else those of the real factor."""
    mult, shift = p.mult.astype(np.int64)[:, None], p.shift.astype(np.int64)[:, None]
    targets = outputs - p.y_zero
    if p.rounding is Rounding.DOUBLE:
        right = np.maximum(-shift, 0)
        half = (np.int64(1) << right) >> 1  # which the second step rounds away from zero
        sums = np.clip((targets << right) - half + ((targets <= 0) & (right > 0)), -_SUMS, _SUMS)
        return -(((1 << 30) - (sums << 31)) // np.maximum(mult << np.maximum(shift, 0), 1)), 0
    factor = np.maximum(np.ldexp(mult.astype(np.float64), shift - 31), 2.0**-40)
    return np.ceil(np.clip((targets - 0.5) / factor, -(2.0**40), 2.0**40)).astype(np.int64), _GUESS


def _blocks(channels: int) -> list[Int64s]:
    """Channels that are looked at together: what the proof holds of them for a while grows with their number."""
    return np.split(np.arange(channels), range(_TOGETHER, channels, _TOGETHER))


@dataclass(frozen=True, slots=True)
class Shifts:
    """What is chosen of a Scaling before its constants are looked for."""

    scale: Int64s
    shift: Int64s
    sign: bool
    drop: Int64s | None = None

    def of(self, rows: Int64s) -> Shifts:
        """Those of some channels."""
        return Shifts(self.scale[rows], self.shift[rows], self.sign, None if self.drop is None else self.drop[rows])


def solve(p: Rescale, steps: Steps, shifts: Shifts, grain: Int64s) -> ScalingConstants | None:
    """Constants for the given scales, shifts and drops, proved for every channel; None where there are none.

    grain: the nudge of a channel must be a multiple of it.
    """
    shift = shifts.shift
    if int(shift.min(initial=0)) < 0 or int(shift.max(initial=0)) > MAX_SHIFT:
        return None
    solutions = []
    for rows in _blocks(len(shift)):
        solved = _solve(p.of(rows), _step_rows(steps, rows), shifts.of(rows), grain[rows])
        if solved is None:
            return None
        solutions.append(solved)

    def column(name: str) -> Int64s:
        return np.concatenate([getattr(one, name) for one in solutions])

    return ScalingConstants(
        column("scale"), column("shift"), column("mult"), column("add"), column("nudge"), shifts.sign, shifts.drop
    )


def _solve(p: Rescale, steps: Steps, shifts: Shifts, grain: Int64s) -> ScalingConstants | None:
    """`solve` of some channels."""
    scale, shift = shifts.scale, shifts.shift
    exponent = 1 + p.shift.astype(np.int64) + shift - scale  # mult = definition's * 2^exponent
    mult = np.where(steps.is_live, _scaled(p.mult.astype(np.int64), exponent), 0)
    worst = np.maximum(np.abs(steps.low), np.abs(steps.high))
    if (mult >= 2**31).any() or (worst >= (np.int64(2**31 - 2**18) >> scale)).any():
        return None
    constants = ScalingConstants(scale, shift, mult, mult * 0, mult * 0, shifts.sign, shifts.drop)
    probed = np.flatnonzero(steps.is_live)[:_PROBED]
    if _has_none(constants, steps, probed) and _has_none(best_slope(constants, steps, probed), steps, probed):
        return None
    constants = _nudged(constants, grain, np.arange(len(mult)), interval(constants, steps), _NEAR)
    unmet = np.flatnonzero(~constants.equals(steps))
    if not len(unmet):
        return constants
    constants, widest = _sloped(constants, steps, unmet)
    if (widest[0] > widest[1]).any():
        return None
    constants = _nudged(constants, grain, unmet, widest, _FAR)
    return constants if constants.equals(steps).all() else None


def _has_none(s: ScalingConstants, steps: Steps, rows: Int64s) -> bool:
    """Whether one of the channels `rows` has no offset with its multiplier."""
    least, greatest = interval(_rows(s, rows), _step_rows(steps, rows))
    return bool((least > greatest).any())


def _scaled(mult: Int64s, exponent: Int64s) -> Int64s:
    """mult * 2^exponent, rounded; far too large where it cannot fit int32."""
    left = mult << np.clip(exponent, 0, 30)
    right = np.clip(-exponent, 1, 62)
    rounded = (mult + (np.int64(1) << (right - 1))) >> right
    return np.where(exponent > 0, left, np.where(exponent < 0, rounded, mult))


class Offsets:
    """Which offsets serve every threshold, for one multiplier per channel after the other: all but the product with the
    multiplier is computed once."""

    def __init__(self, s: ScalingConstants, steps: Steps) -> None:
        goal = (steps.outputs << (32 + s.shift)[:, None]) - s.rounding
        falls = bool(s.fall.any())
        shape = (2, 1, *steps.reach.shape)  # [least, minus greatest][multipliers][channels][thresholds]
        self._start, self._x = np.empty(shape, np.int64), np.empty(shape, np.int64)

        def line(side: int, acc: Int64s, asked: Bools, free: int) -> None:
            x = np.where(asked, acc << s.scale[:, None], 0)
            start = goal + _WORD * s.fall[:, None] * (x < 0) if falls else goal
            self._start[side, 0], self._x[side, 0] = np.where(asked, start, free), x

        line(0, steps.reach, steps.has_reach, -_UNBOUNDED)
        line(1, steps.below, steps.has_below, _UNBOUNDED + 1)
        np.negative(self._start[1], out=self._start[1])
        np.negative(self._x[1], out=self._x[1])

    def interval(self, mult: Int64s) -> tuple[Int64s, Int64s]:
        """(least, greatest) offset that serves every threshold; empty if least > greatest.

        mult [multipliers, channels], and so are they."""
        least, most = self._rooms(mult).max(axis=3, initial=-_UNBOUNDED - 1)
        return np.maximum(least, -_UNBOUNDED), -most - 1

    def widens(self, mult: Int64s) -> Bools:
        """Whether the interval is wider with a greater multiplier; as a function of the multiplier it is concave.

        mult [channels], and so is what is returned.
        """
        binding = self._rooms(mult[None]).argmax(axis=3)[:, 0]
        channels = np.arange(len(mult))
        return np.asarray(self._x[0, 0, channels, binding[0]] + self._x[1, 0, channels, binding[1]] > 0)

    def _rooms(self, mult: Int64s) -> Int64s:
        """(2, multipliers, channels, thresholds): bounds of the offset, the upper ones with their sign changed."""
        room = np.multiply(self._x, mult[None, :, :, None])
        return np.subtract(self._start, room, out=room)


def interval(s: ScalingConstants, steps: Steps) -> tuple[Int64s, Int64s]:
    """(least, greatest) offset that serves every threshold; empty if least > greatest."""
    least, greatest = Offsets(s, steps).interval(s.mult[None])
    return least[0], greatest[0]


def best_slope(s: ScalingConstants, steps: Steps, rows: Int64s) -> ScalingConstants:
    """The multipliers of channels `rows` moved to where the interval of offsets is widest."""
    return _sloped(s, steps, rows)[0]


def _sloped(s: ScalingConstants, steps: Steps, rows: Int64s) -> tuple[ScalingConstants, tuple[Int64s, Int64s]]:
    """`best_slope`, and the `interval` of each of the channels then."""
    part, offsets = _rows(s, rows), Offsets(_rows(s, rows), _step_rows(steps, rows))
    reach = np.maximum(part.mult >> _SLOPE_BITS, 8)
    left = np.maximum(part.mult - reach, 0)
    right = np.minimum(part.mult + reach, 2**31 - 1)
    while (right - left > 1).any():
        middle = (left + right) // 2
        widens = offsets.widens(middle)
        left, right = np.where(widens, middle, left), np.where(widens, right, middle)
    candidates = np.stack([left, right])
    least, greatest = offsets.interval(candidates)
    widest = (greatest - least).argmax(axis=0), np.arange(len(rows))
    mult = s.mult.copy()
    mult[rows] = candidates[widest]
    return replace(s, mult=mult), (least[widest], greatest[widest])


def solve_with_base(p: Rescale, steps: Steps, shifts: Shifts, base: int, based: Bools) -> ScalingConstants | None:
    """Constants, proved, where the channels `based` have one `add`, the base. None where there are none."""
    rows, others = np.flatnonzero(based), np.flatnonzero(~based)
    solved = _solve_with_base(p.of(rows), _step_rows(steps, rows), shifts.of(rows), base)
    if solved is None or not len(others):
        return solved
    grain = np.ones(len(others), np.int64)
    own = solve(p.of(others), _step_rows(steps, others), shifts.of(others), grain)
    if own is None:
        return None

    def column(name: str) -> Int64s:
        together = np.empty(len(based), np.int64)
        together[rows], together[others] = getattr(solved, name), getattr(own, name)
        return together

    return ScalingConstants(
        column("scale"), column("shift"), column("mult"), column("add"), column("nudge"), shifts.sign
    )


def _solve_with_base(p: Rescale, steps: Steps, shifts: Shifts, base: int) -> ScalingConstants | None:
    """Constants with one `add` for all channels; None where none are near each channel's widest interval.

    Channels differ in multiplier and nudge: of multipliers near the best one each has another multiple of its own in
    the interval, or none.
    """
    if int(shifts.shift.min(initial=0)) < 0 or int(shifts.shift.max(initial=0)) > MAX_SHIFT:
        return None
    exponent = 1 + p.shift.astype(np.int64) + shifts.shift - shifts.scale
    mult = np.where(steps.is_live, _scaled(p.mult.astype(np.int64), exponent), 2**30)
    worst = np.maximum(np.abs(steps.low), np.abs(steps.high))
    if (mult >= 2**31).any() or (worst >= (np.int64(2**31 - 2**20) >> shifts.scale)).any():
        return None
    add = np.full_like(mult, base)
    constants = ScalingConstants(shifts.scale, shifts.shift, mult, add, mult * 0, False)
    live = np.flatnonzero(steps.is_live)
    if _has_none(best_slope(constants, steps, live[:_PROBED]), steps, live[:_PROBED]):
        return None
    constants, widest = _sloped(constants, steps, live)
    if (widest[0] > widest[1]).any():
        return None
    unmet = np.arange(len(mult))
    for distance in (0, *range(1, _MULTIPLIERS, _AT_ONCE)):  # nearly all channels have one with the best multiplier
        end = min(distance + _AT_ONCE, _MULTIPLIERS) if distance else 1
        constants, unmet = _based(constants, steps, unmet, np.arange(distance, end))
        if not len(unmet):
            return constants if constants.equals(steps).all() else None
    return None


def _based(s: ScalingConstants, steps: Steps, rows: Int64s, distances: Int64s) -> tuple[ScalingConstants, Int64s]:
    """Channels `rows` with the nearest multiplier, so far from theirs, that has a nudge for their `add`; and those
    that have none."""
    moved = s.mult[rows] + np.stack([distances, -distances], axis=1).reshape(-1, 1)
    moved = np.clip(moved, 1, 2**31 - 1)
    least, greatest = Offsets(_rows(s, rows), _step_rows(steps, rows)).interval(moved)
    first, last = -((s.add[rows] * _WORD - least) // moved), (greatest - s.add[rows] * _WORD) // moved
    good = first <= last
    best, channels = good.argmax(axis=0), np.arange(len(rows))
    done = good[best, channels]
    mult, nudge = s.mult.copy(), s.nudge.copy()
    mult[rows[done]] = moved[best, channels][done]
    nudge[rows[done]] = np.clip(0, first[best, channels], last[best, channels])[done]
    return replace(s, mult=mult, nudge=nudge), rows[~done]


def without_add(s: ScalingConstants, steps: Steps, channels: int) -> ScalingConstants | None:
    """The same with no `add` of the first channels: their nudges make all of the offsets. None where one of them has no
    such nudge, or an output that is always the same, or where X leaves int32."""
    is_chosen = np.arange(len(s.mult)) < channels
    if not steps.is_live[is_chosen].all():
        return None
    for sloped in (s, best_slope(s, steps, np.flatnonzero(is_chosen))):
        least, _ = interval(sloped, steps)
        nudge = np.where(is_chosen, -(-least // np.maximum(sloped.mult, 1)), s.nudge)
        nudged = replace(sloped, add=np.where(is_chosen, 0, s.add), nudge=nudge)
        if nudged.equals(steps).all():
            return nudged
    return None


def _nudged(
    s: ScalingConstants, grain: Int64s, rows: Int64s, between: tuple[Int64s, Int64s], most: int
) -> ScalingConstants:
    """The offsets of channels `rows` set to add * 2^32 + nudge * mult in their intervals, with the nudge that is
    nearest to 0, the negative of two, where there is one of at most so many grains. between: `interval` of the rows."""
    add, nudge = s.add.copy(), s.nudge.copy()
    least, greatest = between
    room = np.where(least > greatest, -1, np.minimum(greatest, least + (_WORD - 1)) - least)
    nudges, counts = _near_nudge(greatest, room, s.mult[rows] * grain[rows])
    if most > _NEAR:
        for at in np.flatnonzero(~nudges):
            step = int(s.mult[rows[at]] * grain[rows[at]])
            count = _far_nudge(int(greatest[at]), int(room[at]), step)
            nudges[at], counts[at] = abs(count) <= most, count
    done, counts = rows[nudges], counts[nudges]
    nudge[done] = counts * grain[done]
    add[done] = _middle(least[nudges], greatest[nudges], nudge[done] * s.mult[done])
    return replace(s, add=add, nudge=nudge)


def _near_nudge(greatest: Int64s, room: Int64s, step: Int64s) -> tuple[Bools, Int64s]:
    """(found, count): the count of at most _NEAR that is nearest to 0, with `greatest - count * step` at most `room`
    above a multiple of 2^32."""
    far = np.arange(_NEAR + 1, dtype=np.int64)
    order = np.stack([-far, far], axis=1).ravel()  # near first
    good = ((greatest[:, None] - order * step[:, None]) & (_WORD - 1)) <= room[:, None]
    first = good.argmax(axis=1)
    return np.asarray(good[np.arange(len(step)), first]), order[first]


def _far_nudge(greatest: int, room: int, step: int) -> int:
    """The count beyond _NEAR that is nearest to 0, as `_near_nudge`; one beyond _FAR where there is none."""
    if room < 0:
        return _FAR + 1
    start = _NEAR + 1
    distances = []
    for way in (-1, 1):
        rest = (greatest - way * start * step) % _WORD
        count = 0 if rest <= room else _first_between(way * step % _WORD, rest - room, rest, _WORD)
        distances.append(_FAR + 1 if count is None else start + count)
    return -distances[0] if distances[0] <= distances[1] else distances[1]


def _first_between(step: int, least: int, most: int, modulus: int) -> int | None:
    """The smallest k >= 0 with least <= k * step mod modulus <= most; None if there is none. By Euclid's algorithm:
    where no multiple of the step itself lies between, one does after so many turns of the modulus, which is the same
    question of what is left of the modulus by the step.

    0 < least <= most < modulus, 0 <= step < modulus."""
    if 2 * step > modulus:
        step, least, most = modulus - step, modulus - most, modulus - least
    if step == 0:
        return None
    count = -(-least // step)
    if count * step <= most:
        return count
    turns = _first_between(modulus % step, -most % step, -least % step, step)
    return None if turns is None else -(-(least + turns * modulus) // step)


def _middle(least: Int64s, greatest: Int64s, nudged: Int64s) -> Int64s:
    """add: where there is a choice, the middle is the definition's own rounding or close to it."""
    first, last = -((nudged - least) // _WORD), (greatest - nudged) // _WORD
    return np.asarray((first + last) // 2)


def _rows(s: ScalingConstants, rows: Int64s) -> ScalingConstants:
    drop = None if s.drop is None else s.drop[rows]
    return ScalingConstants(s.scale[rows], s.shift[rows], s.mult[rows], s.add[rows], s.nudge[rows], s.sign, drop)


def _step_rows(steps: Steps, rows: Int64s) -> Steps:
    return Steps(
        steps.low[rows],
        steps.high[rows],
        steps.outputs,
        steps.reach[rows],
        steps.has_reach[rows],
        steps.below[rows],
        steps.has_below[rows],
    )
