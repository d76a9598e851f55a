# SPDX-License-Identifier: Apache-2.0
"""Learned rounding of one layer: the integers whose sums come closest to the float layer's, not the nearest ones.

A layer with quantized inputs x should give the sums t of the float layer. For output channel o with integer weights q
and scale s, the squared error over all calibration windows is a quadratic form

    |s X q + b - t|^2 = s^2 q' H q - 2 s q' c + const,    H = X'X, c = X't  (X and t centred; b is then free)

of which H and c are all that has to be kept. q is found by error compensation (each weight is rounded in turn, and
the rest moves to make up for it; Frantar et al., "GPTQ", 2022) and then by coordinate descent (each weight in turn
takes the best integer given all others) until nothing changes, the scale by its closed form in between. The purpose
is that of AdaRound (Nagel et al., 2020); the search is discrete, so it needs no gradient and no temperature.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.exact import gram_of_integers, precise_product, product_of_integers
from tinyc.ir.graph import Array
from tinyc.passes.weights import Windows
from tinyc.quantize.factors import inverse_factor

Doubles = npt.NDArray[np.float64]

_SWEEPS = 12  # of the coordinate descent, at most; most layers come to rest before
_CHUNK = 2**21  # elements of the windows that are held at once
_TOGETHER = 2**18  # elements of H of the groups that are learned at once
_BLOCK, _CACHED = 64, 2**15  # taps that are rounded before the others make up for it, and weights that do so at once
_ROWS_PER_TAP, _LEAST_ROWS = 48, 4096
_LEAST_SAMPLES = 64  # that windows are taken from
_BITS = 20  # of a float beside the integers that it is near
_GOLDEN = 0.6180339887498949
_SHRINK = np.linspace(0.4, 1.0, 25)  # candidate scales, of max|w| / qmax
_ERROR, _ATTEMPTS = 1e-6, 8  # of the sums of squares in float32, relative to them; ten times more at each attempt
_DAMPING = 0.1  # of the mean diagonal of H: what the calibration inputs hardly excite stays as it was


@dataclass(frozen=True, slots=True)
class Moments:
    """Second moments of a layer's windows. G groups of K taps each, all centred.

    h [G,K,K]: quantized with quantized windows. cross [G,K,K]: quantized (rows) with float windows.
    x_mean, f_mean [G,K]: mean quantized and float window.
    """

    h: Doubles
    cross: Doubles
    x_mean: Doubles
    f_mean: Doubles

    def of(self, groups: slice) -> Moments:
        """Those of some groups."""
        return Moments(self.h[groups], self.cross[groups], self.x_mean[groups], self.f_mean[groups])


def moments(windows: Windows, x: Array, x_float: Array, step: tuple[float, float]) -> Moments:
    """Moments of a layer's windows over samples [N, *shape], with quantized and with float inputs. step: what x is
    integers of, and the largest of those integers.

    About _ROWS_PER_TAP windows for each tap count, _LEAST_ROWS at least: more say the same again. How far floats are
    from integers is rounded to small parts of a step, so that integers are multiplied.
    """
    per_sample = windows(x[:1], None)
    groups, _, k = per_sample.shape
    h, moved = np.zeros((groups, k, k)), np.zeros((groups, k, k))
    x_sum, f_sum, count = np.zeros((groups, k)), np.zeros((groups, k)), 0
    unit, most = step
    parts = 2.0 ** (_BITS - math.ceil(math.log2(most)))
    enough = max(_LEAST_ROWS, _ROWS_PER_TAP * k)
    if (spare := per_sample.shape[1] * _LEAST_SAMPLES // enough) > 1:  # samples need not be looked at, nor copied
        every = min(spare, max(1, len(x) // _LEAST_SAMPLES))
        x, x_float = x[::every], x_float[::every]
    share = min(1.0, enough / (per_sample.shape[1] * len(x)))
    chunk = max(1, _CHUNK // max(1, per_sample.size))
    for first in range(0, len(x), chunk):
        some = slice(first, first + chunk)
        at = _spread(per_sample.shape[1] * len(x[some]), share)
        a = windows(np.rint(x[some] * np.float32(1 / unit)), at)
        f = windows(x_float[some], at)
        off = np.rint(f * np.float32(parts / unit))
        off -= a * np.float32(parts)
        furthest = float(max(off.max(), -off.min()))
        a, off = (one[0] if groups == 1 else one for one in (a, off))
        h += gram_of_integers(a, a, most * most)
        moved += gram_of_integers(a, off, most * furthest)
        a, f = a.reshape(groups, -1, k), f.reshape(groups, -1, k)
        x_sum, f_sum = x_sum + a.sum(axis=1, dtype=np.float64), f_sum + f.sum(axis=1, dtype=np.float64)
        count += a.shape[1]
    x_mean, f_mean = x_sum * (unit / count), f_sum / count
    h *= unit * unit / count
    cross = h + moved * (unit * unit / parts / count) - x_mean[:, :, None] * f_mean[:, None, :]
    return Moments(h - x_mean[:, :, None] * x_mean[:, None, :], cross, x_mean, f_mean)


def _spread(of: int, share: float) -> npt.NDArray[np.int64] | None:
    """Places of that share of so many windows, evenly spread, but not in step with the rows of an image; None: all."""
    if share >= 1:
        return None
    count = max(1, math.ceil(of * share))
    at = (np.arange(count) + np.arange(count) * _GOLDEN % 1.0) * (of / count)
    return np.minimum(at.astype(np.int64), of - 1)


@dataclass(frozen=True, slots=True)
class Rounded:
    """Integer weights [G, O/G, K], scales [G, O/G], and the bias [G, O/G] (a real) that goes with them."""

    q: Doubles
    scale: Doubles
    bias: Doubles


def diagonals(m: Doubles) -> Doubles:
    """[G,K] of matrices [G,K,K]."""
    return np.diagonal(m, axis1=1, axis2=2)


def learn(w: Doubles, bias: Doubles, m: Moments, levels: tuple[int, int], *, fixed: Doubles | None = None) -> Rounded:
    """The integers within `levels` for float weights w [G, O/G, K] and biases [G, O/G].

    fixed: scales [G, O/G] that must be kept; None: the scale is searched for as well. Some groups at a time: their
    matrices stay in the cache.
    """
    at_once = max(1, _TOGETHER // w.shape[2] ** 2)
    parts = [slice(first, first + at_once) for first in range(0, len(w), at_once)]
    each = [_damped(w[g], bias[g], m.of(g), levels, None if fixed is None else fixed[g]) for g in parts]
    q, scale, biases = (np.concatenate(arrays) for arrays in zip(*((r.q, r.scale, r.bias) for r in each), strict=True))
    return Rounded(q, scale, biases)


def _damped(w: Doubles, bias: Doubles, m: Moments, levels: tuple[int, int], fixed: Doubles | None) -> Rounded:
    """`learn`, with more damping as long as H has no inverse."""
    k = w.shape[2]
    diagonal = diagonals(m.h)
    # Where the inputs hardly change, as in a network that was never trained, H is the errors of its sums.
    errors = _ERROR * (np.square(m.x_mean) + np.abs(diagonal)).mean(axis=1)
    least = np.maximum(_DAMPING * np.maximum(diagonal.mean(axis=1), 1e-12), errors)
    damping, more = (each[:, None, None] * np.eye(k) for each in (least, errors))
    for attempt in range(_ATTEMPTS):
        try:
            return _learn(w, bias, m, levels, fixed, damping)
        except np.linalg.LinAlgError:
            damping = damping + 10.0**attempt * more
    raise np.linalg.LinAlgError("damped beyond all powers of the inputs, and yet not positive definite")


def _learn(
    w: Doubles, bias: Doubles, m: Moments, levels: tuple[int, int], fixed: Doubles | None, damping: Doubles
) -> Rounded:
    """`learn` with damping [G, K, K]. LinAlgError if that leaves H without an inverse."""
    h = m.h + damping
    towards = m.cross + damping  # the float weights where the data says nothing
    c = precise_product(w, towards.transpose(0, 2, 1))
    order = PowerOrder.by_power(h)
    upper = inverse_factor(order.of_matrix(h))
    # The best real weights for these inputs.
    target = precise_product(precise_product(order.of_taps(c), upper.transpose(0, 2, 1)), upper)
    scale = best_scale(order.back(target), h, levels) if fixed is None else fixed
    q = np.ascontiguousarray(order.back(compensated(target, scale, upper, levels)))
    sums = product_of_integers(q, h, max(map(abs, levels)))
    for sweep in range(_SWEEPS):
        moved = descend(q, sums, scale, h, c, levels)
        if fixed is None:
            scale = fitted_scale(q, sums, scale, c)
        if not moved and sweep:
            break
    integer_means = (scale[:, :, None] * q * m.x_mean[:, None, :]).sum(axis=2)
    float_means = (w * m.f_mean[:, None, :]).sum(axis=2)
    return Rounded(q, scale, bias + float_means - integer_means)


def best_scale(w: Doubles, h: Doubles, levels: tuple[int, int]) -> Doubles:
    """Of the candidates, the scale with the least expected error of rounding to nearest: [G, O/G]."""
    largest = np.maximum(np.abs(w).max(axis=2), 1e-30)
    diagonal = diagonals(h)[:, None, :]
    best, least = largest / levels[1], np.full(largest.shape, np.inf)
    for ratio in _SHRINK:
        scale = largest * (ratio / levels[1])
        q = np.clip(np.rint(w / scale[:, :, None]), *levels)
        error = (diagonal * np.square(w - q * scale[:, :, None])).sum(axis=2)
        better = error < least
        best, least = np.where(better, scale, best), np.minimum(least, error)
    return best


@dataclass(frozen=True, slots=True)
class PowerOrder:
    """Taps by their power, so that those with the most effect are rounded while most others can still move. after[g]:
    which tap comes at each place."""

    after: npt.NDArray[np.intp]

    @classmethod
    def by_power(cls, h: Doubles) -> PowerOrder:
        return cls(np.argsort(-diagonals(h), axis=1, kind="stable"))

    def of_matrix(self, h: Doubles) -> Doubles:
        return np.take_along_axis(np.take_along_axis(h, self.after[:, :, None], 1), self.after[:, None, :], 2)

    def of_taps(self, w: Doubles) -> Doubles:
        return np.take_along_axis(w, self.after[:, None, :], 2)

    def back(self, w: Doubles) -> Doubles:
        """The inverse of `of_taps`."""
        return np.take_along_axis(w, np.argsort(self.after, axis=1)[:, None, :], 2)


def compensated(w: Doubles, scale: Doubles, upper: Doubles, levels: tuple[int, int]) -> Doubles:
    """Weights rounded one after the other, the ones not yet rounded making up for each error (GPTQ). upper: R with
    R'R the inverse of H, taps in the same order. Those far behind make up for the errors of a block of taps at once,
    some at a time: they stay in the cache."""
    left, shares = _taps_first(w), np.ascontiguousarray(upper.transpose(1, 2, 0))[..., None]
    q, errors = np.empty_like(left), np.empty_like(left)
    at_once = max(1, _CACHED // max(1, left[0].size))
    for first in range(0, len(left), _BLOCK):
        last = min(first + _BLOCK, len(left))
        for k in range(first, last):
            q[k] = np.clip(np.rint(left[k] / scale), *levels)
            errors[k] = (left[k] - q[k] * scale) / shares[k, k]
            left[k + 1 : last] -= errors[k] * shares[k, k + 1 : last]
        for behind in range(last, len(left), at_once):
            some = slice(behind, behind + at_once)
            for k in range(first, last):
                left[some] -= errors[k] * shares[k, some]
    return np.ascontiguousarray(np.moveaxis(q, 0, 2))


def _taps_first(w: Doubles) -> Doubles:
    """[K, G, O/G] of [G, O/G, K]."""
    return np.ascontiguousarray(np.moveaxis(w, 2, 0))


def descend(q: Doubles, sums: Doubles, scale: Doubles, h: Doubles, c: Doubles, levels: tuple[int, int]) -> bool:
    """One sweep of coordinate descent over integers q and their sums q @ h, in place, both contiguous; whether any
    moved. Output channels do not see each other: each goes from one of its taps that moves to the next, and few do."""
    by_row = [each.reshape(-1, q.shape[2]) for each in (q, sums, c)]
    matrix_of, powers, any_moved = np.repeat(np.arange(len(h)), q.shape[1]), diagonals(h), False
    for first in range(0, q.shape[2], _BLOCK):
        block = slice(first, first + _BLOCK)
        rows, passed = np.arange(len(by_row[0])), np.zeros(len(by_row[0]), np.intp)
        while rows.size:
            own, sum_, target = (each[rows, block] for each in by_row)
            factor = scale.reshape(-1, 1)[rows]
            step = (factor * sum_ - target) / (powers[matrix_of[rows], block] * factor)
            delta = np.clip(np.rint(own - step), *levels) - own
            # Halves come and go without gain: only a real improvement counts.
            gain = np.abs(delta) * (2 * np.abs(step) - np.abs(delta))
            moves = (gain > 1e-9) & (delta * step < 0) & (np.arange(own.shape[1]) >= passed[:, None])
            at = moves.argmax(axis=1)
            moved = np.flatnonzero(moves[np.arange(len(rows)), at])
            rows, at, changes = rows[moved], at[moved], delta[moved, at[moved]]
            by_row[0][rows, first + at] += changes
            by_row[1][rows] += changes[:, None] * h[matrix_of[rows], first + at]
            passed, any_moved = at + 1, any_moved or moved.size > 0
    return any_moved


def fitted_scale(q: Doubles, sums: Doubles, scale: Doubles, c: Doubles) -> Doubles:
    """The scale with the least error for given integers, sums their q @ h; as it was where they are all zero or point
    away."""
    power, match = (q * sums).sum(axis=2), (q * c).sum(axis=2)
    return np.where((power > 0) & (match > 0), match / np.maximum(power, 1e-300), scale)
