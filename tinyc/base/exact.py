# SPDX-License-Identifier: Apache-2.0
"""Products of matrices and functions whose last bit is the same on every processor.

What a sum of floats is rounded to depends on its order, and a BLAS library orders it as its vector registers are wide;
numpy's exponential has another last bit with other instructions. Where choices follow, another processor then makes
another model. Here factors are first rounded to so few bits, of the largest in their row, sample or column, that all
products and sums are exact in float64: every order gives the same. (Ozaki et al., "Error-free transformations of matrix
multiplication by using fast routines of matrix multiplication", 2012.) Functions are made of +, -, *, / alone, one
operation of numpy at a time, so that nothing is contracted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

_MANTISSA = 53
_EXACT32 = 2.0**24  # up to which every integer is a float32
_ROWS_32 = 64  # fewer at a time take longer than float64
_FINER = 4  # bits that a sample has more than weights: its largest element is beside much fainter ones
_CHUNK = 2**17  # elements that are rounded at once: they stay in the cache
_LOG2_E = 1.4426950408889634
_LN2_HI, _LN2_LO = 0.6931471803691238, 1.9082149292705877e-10  # their sum is ln 2; the first has 32 bits
_EXP = tuple(1.0 / float(np.prod(np.arange(1, n + 1, dtype=np.float64))) for n in range(13, -1, -1))
_LOG = tuple(2.0 / n for n in range(23, 2, -2))
_HALF_ROOT = 0.7071067811865476
_LEAST_EXPONENT, _MOST_EXPONENT = -1080.0, 1025.0
_LEAST_UNIT = -1000  # whose inverse is a number too


def product(a: Array, b: Array) -> Doubles:
    """a @ b of matrices, or of stacks of them; each factor is rounded to half of the bits that leave the sums exact: 21
    where 2,048 products are added.

    They are counted from the largest of a column of b, and of a row of a matrix a, or of all that a stack a holds under
    one first index: a sample is computed as if it were alone.
    """
    bits = _bits(a.shape[-1])
    unit = _units(a, bits, -1 if a.ndim == 2 else tuple(range(1, a.ndim)))
    right_unit = _units(b, bits, -2)
    right = _on_grid(b, right_unit)
    if b.ndim > 2:
        return np.asarray((_on_grid(a, unit) @ right) * (unit * right_unit))
    y = np.empty((*a.shape[:-1], b.shape[1]))
    at_once = max(1, _CHUNK // max(1, math.prod(a.shape[1:])))
    for first in range(0, len(a), at_once):
        part = slice(first, first + at_once)
        left = _on_grid(a[part], unit[part])
        y[part] = (left.reshape(-1, left.shape[-1]) @ right).reshape(y[part].shape)
        y[part] *= unit[part] * right_unit
    return y


def weighted(
    sums: Callable[[Array, Array], Array],
    x: Array,
    w: Array,
    steps: tuple[float, float] | None = None,
    w_steps: Doubles | None = None,
    finish: Callable[[Array], Array] = lambda y: y,
) -> Array:
    """float32 finish(sums(x, w)), [samples, ..., O], of samples x and weights w [O, ...]: of as many products as an
    output channel has weights, in the type of its arguments. finish: of float32 sums of some samples, in place.

    Both are rounded before: x once per sample and not once per window that it lies in. steps: x is integers times the
    first number, none of them beyond the second. w_steps [O]: of weights that are integers, the same. Integers are
    multiplied in float32 where no sum can leave its mantissa. Some samples at a time: they stay in the cache.
    """
    count = max(1, w[0].size).bit_length()
    ones = (1,) * (w.ndim - 1)
    bits = (_MANTISSA - count) // 2 + _FINER
    most, narrow = 2.0**bits if steps is None else steps[1], False
    if w_steps is None:
        right_unit = _units(w, _MANTISSA - count - math.ceil(math.log2(most)), tuple(range(1, w.ndim)))
        right = _on_grid(w, right_unit)
    else:
        right_unit = w_steps.reshape(-1, *ones)
        right = np.rint(w / right_unit.astype(w.dtype))
        largest = most * float(np.abs(right).reshape(len(w), -1).sum(axis=1).max(initial=0.0))
        narrow = steps is not None and largest <= _EXACT32
    right, right_unit = right.astype(np.float32 if narrow else np.float64, copy=False), right_unit.ravel()
    at_once, results = max(1, _CHUNK // max(1, x[:1].size)), None
    for first in range(0, max(1, len(x)), at_once):
        part = x[first : first + at_once]
        if steps is None:
            unit = _units(part, bits, tuple(range(1, x.ndim)))
            y = sums(_on_grid(part, unit), right)
            y *= unit.reshape(-1, *(1,) * (y.ndim - 1))
        else:
            left = part * np.float32(1 / steps[0])
            y = sums(np.rint(left, out=left).astype(right.dtype, copy=False), right)
        factor = right_unit if steps is None else steps[0] * right_unit
        y *= along_rows(y, factor.astype(y.dtype))
        if results is None:
            results = np.empty((len(x), *y.shape[1:]), np.float32)
        with np.errstate(over="ignore"):  # infinity is what float32 has of it
            results[first : first + at_once] = finish(y.astype(np.float32, copy=False))
    assert results is not None
    return results


def along_rows(y: Array, v: Array) -> Array:
    """v [C] once for each place of a row of y [..., W, C]: [W, C]. With that, numpy goes over whole rows of y; with v,
    place by place, which takes several times as long where C is small."""
    return v if y.ndim < 2 else np.ascontiguousarray(np.broadcast_to(v, (y.shape[-2], *v.shape)))


def gram(a: Array, b: Array) -> Doubles:
    """The same of a's transpose and b, [..., N, K] each: sums over many rows. `a is b` takes half of the time."""
    bits, each = _bits(a.shape[-2]), (-2, -1)
    unit, right_unit = _units(a, bits, each), _units(b, bits, each)
    left = _on_grid(a, unit)
    right = left if a is b else _on_grid(b, right_unit)
    return np.asarray((np.swapaxes(left, -1, -2) @ right) * (unit * right_unit))


def gram_of_integers(a: Array, b: Array, most: float) -> Doubles:
    """The same of integers [..., N, K] in any type; no product of two of them is beyond `most`. In float32, as many
    rows at a time as its mantissa holds, where that is many."""
    rows = int(_EXACT32 // max(most, 1.0))
    if rows < _ROWS_32 or a.ndim > 2:
        left = np.asarray(a, np.float64)
        return np.asarray(np.swapaxes(left, -1, -2) @ (left if a is b else np.asarray(b, np.float64)))
    left = np.ascontiguousarray(a, np.float32)
    right = left if a is b else np.ascontiguousarray(b, np.float32)
    products = np.zeros((a.shape[1], b.shape[1]))
    for first in range(0, len(left), rows):
        products += left[first : first + rows].T @ (left if a is b else right)[first : first + rows]
    return products


def product_of_integers(q: Array, h: Array, most: float) -> Doubles:
    """q @ h of integers q not beyond `most`: h has all the bits that they leave."""
    unit = _units(h, _MANTISSA - max(1, q.shape[-1]).bit_length() - math.ceil(math.log2(most)), -2)
    return np.asarray((q @ _on_grid(h, unit)) * unit)


def precise_product(a: Array, b: Array) -> Doubles:
    """The same with twice the bits: what the first rounding leaves of either factor is multiplied too."""
    bits = _bits(a.shape[-1])
    (left, left_rest), (right, right_rest) = _in_two(a, bits, (-2, -1)), _in_two(b, bits, -2)
    return left @ right + (left @ right_rest + left_rest @ right)


def dot(a: Array, b: Array) -> Array:
    """a @ b in the arrays' own type: float32 by `product`; others hold integers whose sums are exact as they are."""
    if np.float32 not in (a.dtype, b.dtype):
        return np.asarray(a @ b)
    with np.errstate(over="ignore"):  # infinity is what float32 has of it
        return (_by_bands(a, b) if is_bank(b) else product(a, b)).astype(np.float32)


def is_bank(b: Array) -> bool:
    """Whether b is a matrix that weighs some inputs for each output and leaves most out, as a filter bank of a spectrum
    does. Sums of powers have no two signs, so that faint bands are as exact as loud ones, and logarithms follow."""
    sparse = b.ndim == 2 and b.shape[0] > 1 and 0 < 2 * np.count_nonzero(b) <= b.size
    return bool(sparse and b.min() >= 0)


def _by_bands(a: Array, b: Array) -> Doubles:
    """a @ b; the bits of a row are counted, for each column of b, from the largest element that it does not leave
    out."""
    rows = a.reshape(-1, a.shape[-1])
    y = np.zeros((len(rows), b.shape[1]))
    for column in range(b.shape[1]):
        used = np.flatnonzero(b[:, column])
        if used.size:
            y[:, column] = product(rows[:, used], b[used, column : column + 1])[:, 0]
    return y.reshape(*a.shape[:-1], b.shape[1])


def _bits(products: int) -> int:
    """That a factor may have where so many products are added."""
    return (_MANTISSA - max(1, products - 1).bit_length()) // 2


def _on_grid(x: Array, unit: Doubles) -> Doubles:
    """The nearest integers to x in units, which are powers of two."""
    in_units: Doubles = np.multiply(x, 1 / unit, dtype=np.float64)
    return np.rint(in_units, out=in_units)


def _in_two(x: Array, bits: int, axis: int | tuple[int, ...]) -> tuple[Doubles, Doubles]:
    """x to so many bits of the largest number along the axis, and what that leaves to as many of its own largest."""
    unit = _units(x, bits, axis)
    coarse = _on_grid(x, unit) * unit
    rest = x - coarse
    unit = _units(rest, bits, axis)
    return coarse, _on_grid(rest, unit) * unit


def _units(x: Array, bits: int, axis: int | tuple[int, ...]) -> Doubles:
    """The power of two, along the axis or for whole matrices, by which all x are below 2^bits."""
    if x.size == 0:
        return np.ones((1,) * x.ndim)
    largest = np.maximum(x.max(axis=axis, keepdims=True), -x.min(axis=axis, keepdims=True)).astype(np.float64)
    exponent = np.frexp(largest)[1] - bits
    return np.ldexp(1.0, np.where(np.isfinite(largest), np.maximum(exponent, _LEAST_UNIT), 0))


def exp(x: npt.ArrayLike) -> Doubles:
    """e^x in float64, to two units in the last place."""
    wide = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        turns = np.clip(np.rint(wide * _LOG2_E), _LEAST_EXPONENT, _MOST_EXPONENT)
        rest = (wide - turns * _LN2_HI) - turns * _LN2_LO
        rest = np.where(np.abs(rest) < 1, rest, np.where(np.isnan(wide), wide, 0.0))  # beyond all exponents
        series = np.full_like(rest, _EXP[0])
        for factor in _EXP[1:]:
            series = series * rest + factor
        return np.asarray(np.ldexp(series, turns.astype(np.int64)))


def log(x: npt.ArrayLike) -> Doubles:
    """The natural logarithm in float64, to two units in the last place of what is not near 1."""
    wide = np.asarray(x, np.float64)
    with np.errstate(all="ignore"):
        fraction, exponent = np.frexp(wide)
        low = fraction < _HALF_ROOT
        fraction, turns = np.where(low, fraction * 2, fraction), (exponent - low).astype(np.float64)
        s = (fraction - 1) / (fraction + 1)
        square, y = s * s, np.full_like(s, _LOG[0])
        for factor in _LOG[1:]:
            y = y * square + factor
        y = turns * _LN2_HI + (turns * _LN2_LO + (2 * s + s * square * y))
        y = np.where(wide == 0, -np.inf, np.where(np.isposinf(wide), np.inf, y))
        return np.asarray(np.where(wide < 0, np.nan, y))


def logistic(x: npt.ArrayLike) -> Doubles:
    """1 / (1 + e^-x)."""
    wide = np.asarray(x, np.float64)
    small = exp(-np.abs(wide))
    return np.asarray(np.where(wide >= 0, 1, small) / (1 + small))


def tanh(x: npt.ArrayLike) -> Doubles:
    """The hyperbolic tangent; absolute errors below 2^-52."""
    wide = np.asarray(x, np.float64)
    small = exp(-2 * np.abs(wide))
    return np.asarray(np.copysign((1 - small) / (1 + small), wide))
