# SPDX-License-Identifier: Apache-2.0
"""From a distribution to the range that an integer type should cover: one function per method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyc.base import exact
from tinyc.ir.graph import INT_RANGE, DType, Quant
from tinyc.quantize.observe import BINS, Stats

Range = tuple[float, float]
Method = Callable[[Stats, DType], Range]

_LEAST_SCALE = 2.0**-24  # of a tensor that is always zero; softmax cannot take less
_STEPS = 64  # candidate bounds on each side of the searches
_TAIL = 1e-4  # of the elements, that `percentile` leaves out at each end
_UNSEEN = 1e-9  # the probability of what the rounded distribution does not have


def minmax(stats: Stats, dtype: DType) -> Range:
    """Everything that was seen."""
    return min(stats.lo, 0.0), max(stats.hi, 0.0)


def mse(stats: Stats, dtype: DType) -> Range:
    """The range with the least expected squared error: rounding inside (scale^2 / 12), clipping outside.

    Exhaustive over pairs of _STEPS lower and _STEPS upper bounds.
    """
    lo, hi = minmax(stats, dtype)
    if lo == hi or not stats.counts.any():
        return lo, hi
    qmin, qmax = INT_RANGE[dtype]
    shrink = 1 - np.arange(_STEPS) / _STEPS
    los = lo * shrink if lo < 0 else np.zeros(1)
    his = hi * shrink if hi > 0 else np.zeros(1)
    below = np.array([_beyond(stats, bound, upper=False) for bound in los])
    above = np.array([_beyond(stats, bound, upper=True) for bound in his])
    clipped = below[:, None, 1] + above[None, :, 1]
    inside = stats.counts.sum() - below[:, None, 0] - above[None, :, 0]
    scale = (his[None, :] - los[:, None]) / (qmax - qmin)
    error = clipped + inside * scale**2 / 12
    best = np.unravel_index(np.argmin(error), error.shape)
    return float(los[best[0]]), float(his[best[1]])


def _beyond(stats: Stats, bound: float, *, upper: bool) -> tuple[float, float]:
    """(elements beyond the bound, sum of their squared distances to it)."""
    distance = stats.centres - bound if upper else bound - stats.centres
    weight = np.where(distance > 0, stats.counts, 0)
    return float(weight.sum()), float((weight * distance**2).sum())


def percentile(stats: Stats, dtype: DType) -> Range:
    """Without the outermost _TAIL of the elements at either end (zeros not counted)."""
    total = int(stats.counts.sum())
    lo, hi = minmax(stats, dtype)
    if lo == hi or not total:
        return lo, hi
    edges = np.linspace(stats.lo, stats.hi, len(stats.counts) + 1)
    below = np.concatenate([[0], np.cumsum(stats.counts)])
    first = int(np.searchsorted(below, _TAIL * total, side="right")) - 1
    last = int(np.searchsorted(below, (1 - _TAIL) * total, side="left"))
    return min(float(edges[first]), 0.0), max(float(edges[last]), 0.0)


def entropy(stats: Stats, dtype: DType) -> Range:
    """The range that keeps most of the distribution: least Kullback-Leibler divergence of the rounded one.

    Both ends shrink in proportion. What is clipped counts at the ends of the true distribution (Migacz,
    "8-bit inference with TensorRT", 2017).
    """
    lo, hi = minmax(stats, dtype)
    if lo == hi or not stats.counts.any():
        return lo, hi
    least, most = INT_RANGE[dtype]
    best, bounds = np.inf, (lo, hi)
    for shrink in 1 - np.arange(0, _STEPS, 3) / _STEPS:
        step = (hi - lo) * shrink / (most - least)
        level = np.rint(np.clip(stats.centres, lo * shrink, hi * shrink) / step).astype(np.int64)
        divergence = _divergence(stats.counts, level - level.min(), stats.centres, (lo * shrink, hi * shrink))
        if divergence < best:
            best, bounds = divergence, (lo * shrink, hi * shrink)
    return bounds


def _divergence(
    counts: npt.NDArray[np.int64], level: npt.NDArray[np.int64], centres: npt.NDArray[np.float64], bounds: Range
) -> float:
    """Divergence of the distribution (clipped into the bounds) from itself with each level spread out evenly."""
    inside = (centres >= bounds[0]) & (centres <= bounds[1])
    if not counts[inside].any():
        return float(np.inf)
    true = np.where(inside, counts, 0).astype(np.float64)
    first, last = np.flatnonzero(inside)[[0, -1]]
    true[first] += counts[:first].sum()
    true[last] += counts[last + 1 :].sum()
    inside_counts = np.where(inside, counts, 0)
    total = np.bincount(level, inside_counts)
    occupied = np.bincount(level, inside_counts > 0)
    spread = np.where(inside_counts > 0, total[level] / np.maximum(occupied[level], 1), 0.0)
    p, q = true / true.sum(), np.maximum(spread / spread.sum(), _UNSEEN)
    seen = p > 0
    return float((p[seen] * exact.log(p[seen] / q[seen])).sum())


METHODS: Mapping[str, Method] = MappingProxyType(
    {"minmax": minmax, "percentile": percentile, "mse": mse, "entropy": entropy}
)


def affine(lo: float, hi: float, dtype: DType = "s8") -> Quant:
    """The quantization whose integers cover [lo, hi], widened to contain 0, which is exactly representable.

    The scale is a float32, so that every file format can hold it.
    """
    qmin, qmax = INT_RANGE[dtype]
    lo, hi = min(lo, 0.0), max(hi, 0.0)
    scale = float(np.float32(max((hi - lo) / (qmax - qmin), _LEAST_SCALE)))
    zero = int(np.clip(round(qmin - lo / scale), qmin, qmax))
    return Quant((scale,), (zero,))


def merged(many: list[Stats]) -> Stats:
    """The range and histogram of several values taken together; the rest of Stats is the first's."""
    if len(many) == 1:
        return many[0]
    lo, hi = min(s.lo for s in many), max(s.hi for s in many)
    counts = np.zeros(BINS, np.int64)
    for stats in many:
        if hi > lo and stats.counts.any():
            at = ((stats.centres - lo) * (BINS / (hi - lo))).astype(np.int64)
            np.add.at(counts, np.clip(at, 0, BINS - 1), stats.counts)
    return replace(many[0], least=np.array([lo]), most=np.array([hi]), counts=counts)
