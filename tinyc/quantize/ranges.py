"""From a distribution to the range that an integer type should cover: one function per method."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tinyc.ir.graph import INT_RANGE, DType, Quant
from tinyc.quantize.observe import BINS, Stats

Range = tuple[float, float]
Method = Callable[[Stats, DType], Range]

_LEAST_SCALE = 2.0**-24  # of a tensor that is always zero; softmax cannot take less
_STEPS = 64  # candidate bounds on each side of the MSE search


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


METHODS: Mapping[str, Method] = MappingProxyType({"minmax": minmax, "mse": mse})


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
    return replace(many[0], lo=lo, hi=hi, counts=counts)
