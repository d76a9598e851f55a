# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of float32 layers, the same bits on every core; the Python twin of tc_float*.h.

Everything is made of operations that IEEE 754 defines: +, -, *, /, square root and the fused multiply-add, each rounded
once to nearest, ties to even, with subnormal numbers. No product feeds a sum but through `fma`, so that no compiler can
contract what is not contracted here. Functions such as `exp` are polynomials, fitted for the
least error, which docs/float32.md states. All take and give float32 arrays. What is not a number has no defined bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

_HALF_WAY = np.uint64((1 << 28) - 1)  # low bits of a double that are all 0 where a float32 could be halfway
LOG2_E, LN2_HI, LN2_LO = np.float32(1.442695041), np.float32(0.693359375), np.float32(-2.1219444e-4)
_TO_INTEGER = np.float32(12582912.0)  # 3 * 2^22: adding it leaves no bits behind the point
_EXP = (0.0013820468448102474, 0.00836925022304058, 0.04166828468441963, 0.16666516661643982, 0.4999999403953552)
_LOG = (
    *(-0.07636940479278564, 0.12762485444545746, -0.13159550726413727, 0.14201539754867554),
    *(-0.1662341058254242, 0.2000124305486679, -0.2500081956386566, 0.3333333134651184),
)
_TANH = (-0.0057162027806043625, 0.020649708807468414, -0.05374317243695259, 0.13331486284732819, -0.3333328366279602)
_ERF = (
    *(-4.402264312375337e-05, -0.00043389006168581545, 0.0047760577872395515, -0.02664051577448845),
    *(0.11278599500656128, -0.37612199783325195),
)
_ERF_FIRST = np.float32(1.1283791065216064)
_LOG_ERFC = (
    *(-1.7041965350017563e-07, -1.925440301420167e-05, 0.000426461425377056, -0.004153648857027292),
    *(0.025101544335484505, -0.10827826708555222, -0.6333329677581787, -1.1295273303985596, 0.00017812312580645084),
)
_SIN = (2.824350303853862e-06, -0.00019852464902214706, 0.008333378471434116, -0.1666666716337204)
_COS = (-2.8746222824338474e-07, 2.4820861654006876e-05, -0.0013888977700844407, 0.0416666679084301)
_QUARTER = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100059e-15)  # pi / 2 as a sum of three float32
_ATAN = (-0.06446155160665512, 0.1074264720082283, -0.1426393687725067, 0.19999542832374573, -0.3333333134651184)
_ASIN = (0.0384206622838974, 0.026392536237835884, 0.04502575471997261, 0.07498738169670105, 0.16666673123836517)
_SINH = (2.8068109259038465e-06, 0.00019838035223074257, 0.008333340287208557, 0.1666666716337204)
_HALF_PI, _HALF_PI_LO = np.float32(1.5707963705062866), np.float32(-4.371138828673793e-08)
_EIGHTH = np.float32(0.41421356797218323)  # the tangent of pi / 8
_MOST_TURNS = np.float32(4194304.0)  # neighbours beyond are half a radian apart
MOST_FACTORS = 8  # of a power that is computed as a product
TANH_SMALL = np.float32(0.625)
EXPM1_SMALL, LOG1P_SMALL = np.float32(0.34), np.float32(0.4)
EXP_HIGHEST, EXP_LOWEST = np.float32(88.72284), np.float32(-104.0)


def fma(x: npt.ArrayLike, y: npt.ArrayLike, z: npt.ArrayLike) -> Floats:
    """x * y + z, rounded once."""
    with np.errstate(all="ignore"):
        product = np.asarray(x, np.float64) * np.asarray(y, np.float64)  # exact
        total = np.asarray(product + np.asarray(z, np.float64))
        near = (total.view(np.uint64) & _HALF_WAY) == 0
        if near.any():
            total = _to_odd(product, np.asarray(z, np.float64), total, near)
        return np.asarray(total.astype(np.float32))


def _to_odd(
    product: npt.NDArray[np.float64], z: npt.NDArray[np.float64], total: npt.NDArray[np.float64], near: Any
) -> npt.NDArray[np.float64]:
    """The sums, where they are inexact and their last bit is 0, moved by that bit towards the exact sum: so rounded, a
    second rounding to fewer bits is as if there had been one (Boldo and Melquiond, "Emulation of FMA", 2008)."""
    part = total - product
    error = (product - (total - part)) + (z - part)
    bits = total.view(np.int64)
    up = (error > 0) == (total > 0)
    moves = near & (error != 0) & np.isfinite(total) & (bits & 1 == 0)
    return np.asarray(np.where(moves, bits + np.where(up, 1, -1), bits)).view(np.float64)


def clip(y: Floats, lo: float, hi: float) -> Floats:
    """lo where y <= lo, hi where y >= hi, else y: what is not a number stays so; relu makes +0 of -0."""
    low, high = np.float32(lo), np.float32(hi)
    return np.asarray(np.where(y <= low, low, np.where(y >= high, high, y)), np.float32)


def horner(coefficients: tuple[float, ...], x: Floats) -> Floats:
    """The polynomial with these coefficients, the highest power first."""
    y = np.full_like(x, np.float32(coefficients[0]))
    for c in coefficients[1:]:
        y = fma(y, x, np.float32(c))
    return y


def scale_by_power(p: Floats, k: npt.NDArray[np.int32]) -> Floats:
    """p * 2^k for p in [1/2, 2) whose product is no infinity, rounded once."""
    bits = p.view(np.int32)
    small = (bits >> 23) + k < 1
    shifted = (bits + ((k + np.where(small, 64, 0).astype(np.int32)) << 23)).astype(np.int32).view(np.float32)
    return np.asarray(np.where(small, fma(shifted, np.float32(2.0**-64), np.float32(0)), shifted), np.float32)


def _reduced(x: Floats) -> tuple[npt.NDArray[np.int32], Floats]:
    """(n, x - n * ln 2), n the nearest integer to x / ln 2."""
    n = fma(x, LOG2_E, _TO_INTEGER) - _TO_INTEGER
    r = fma(n, -LN2_LO, fma(n, -LN2_HI, x))
    return n.astype(np.int32), r


def exp(x: Floats) -> Floats:
    """e^x."""
    x = np.asarray(x, np.float32)
    inside = (x <= EXP_HIGHEST) & (x >= EXP_LOWEST)
    n, r = _reduced(np.where(inside, x, np.float32(0)))
    y = scale_by_power(fma(horner(_EXP, r), r * r, r) + np.float32(1), n)
    beyond = np.where(x > EXP_HIGHEST, np.float32(np.inf), np.where(x < EXP_LOWEST, np.float32(0), x))
    return np.asarray(np.where(inside, y, beyond), np.float32)


def log(x: Floats) -> Floats:
    """The natural logarithm: -inf of 0, not a number below."""
    x = np.asarray(x, np.float32)
    inside = (x > 0) & (x < np.inf)
    safe = np.where(inside, x, np.float32(1))
    tiny = safe < np.float32(2.0**-126)
    with np.errstate(over="ignore"):
        safe = np.where(tiny, safe * np.float32(2.0**32), safe)
    bits = safe.view(np.int32) - np.int32(0x3F3504F3)  # the bits of sqrt(1/2)
    k = (bits >> 23).astype(np.int32)
    f = (safe.view(np.int32) - (k << 23)).astype(np.int32).view(np.float32) - np.float32(1)
    e = (k - np.where(tiny, 32, 0)).astype(np.float32)
    tail = fma(horner(_LOG, f), f, np.float32(-0.5))
    y = fma(e, LN2_HI, fma(tail, f * f, fma(e, LN2_LO, f)))
    with np.errstate(all="ignore"):
        beyond = np.where(x == 0, np.float32(-np.inf), np.where(x < 0, np.float32(np.nan), x))
    return np.asarray(np.where(inside, y, beyond), np.float32)


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + e^-x)."""
    x = np.asarray(x, np.float32)
    e = exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, np.float32(1)) / (np.float32(1) + e), np.float32)


def tanh(x: Floats) -> Floats:
    """The hyperbolic tangent."""
    x = np.asarray(x, np.float32)
    far = np.abs(x)
    square = x * x
    near = fma(horner(_TANH, square) * square, x, x)
    e = exp(np.float32(2) * far)
    away = np.float32(1) - np.float32(2) / (e + np.float32(1))
    return np.asarray(np.where(far < TANH_SMALL, near, np.copysign(away, x)), np.float32)


def expm1(x: Floats) -> Floats:
    """e^x - 1."""
    x = np.asarray(x, np.float32)
    near = fma(horner(_EXP, x), x * x, x)
    return np.asarray(np.where(np.abs(x) < EXPM1_SMALL, near, exp(x) - np.float32(1)), np.float32)


def log1p(x: Floats) -> Floats:
    """log(1 + x) for x >= 0."""
    x = np.asarray(x, np.float32)
    near = fma(fma(horner(_LOG, x), x, np.float32(-0.5)), x * x, x)
    return np.asarray(np.where(x < LOG1P_SMALL, near, log(np.float32(1) + x)), np.float32)


def softplus(x: Floats) -> Floats:
    """log(1 + e^x)."""
    x = np.asarray(x, np.float32)
    return np.asarray(np.where(x > 0, x, np.float32(0)) + log1p(exp(-np.abs(x))), np.float32)


def erf(x: Floats) -> Floats:
    """The error function."""
    x = np.asarray(x, np.float32)
    far = np.abs(x)
    near = fma(x, _ERF_FIRST, x * (x * x) * horner(_ERF, x * x))
    away = np.float32(1) - exp(horner(_LOG_ERFC, np.where(far < 4, far, np.float32(4))))
    away = np.where(far < 4, away, np.where(np.isnan(x), x, np.float32(1)))
    return np.asarray(np.where(far < 1, near, np.copysign(away, x)), np.float32)


def floor(x: Floats) -> Floats:
    """The largest integer that is not above x; 0 has the sign +."""
    x = np.asarray(x, np.float32)
    inside = np.abs(x) < np.float32(2**23)
    whole = np.where(inside, x, np.float32(0)).astype(np.int32).astype(np.float32)
    return np.asarray(np.where(inside, whole - (whole > x).astype(np.float32), x), np.float32)


def round_half_even(x: Floats) -> Floats:
    """The nearest integer, of two the even one."""
    x = np.asarray(x, np.float32)
    far = np.abs(x)
    whole = (far + np.float32(2**23)) - np.float32(2**23)
    return np.asarray(np.where(far < np.float32(2**23), np.copysign(whole, x), x), np.float32)


def sqrt(x: Floats) -> Floats:
    """The square root, correctly rounded."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(x < 0, np.float32(np.nan), np.sqrt(np.asarray(x, np.float32))), np.float32)


def sin_or_cos(x: Floats, quarters: int) -> Floats:
    """sin(x + quarters * pi / 2); beyond 2^22, where neighbours are half a radian apart, that of 0."""
    x = np.asarray(x, np.float32)
    safe = np.where(np.abs(x) < _MOST_TURNS, x, np.float32(0))
    n = fma(safe, np.float32(0.6366197723675814), _TO_INTEGER) - _TO_INTEGER
    r = safe
    for part in _QUARTER:
        r = fma(n, np.float32(-part), r)
    square = r * r
    sine = fma(horner(_SIN, square) * square, r, r)
    cosine = fma(horner(_COS, square), square * square, fma(square, np.float32(-0.5), np.float32(1)))
    turn = (n.astype(np.int32) + quarters) & 3
    y = np.where(turn & 1, cosine, sine)
    return np.asarray(np.where(np.isnan(x), x, np.where(turn & 2, -y, y)), np.float32)


def tan(x: Floats) -> Floats:
    """The tangent; beyond 2^22 that of 0."""
    with np.errstate(all="ignore"):
        return np.asarray(sin_or_cos(x, 0) / sin_or_cos(x, 1), np.float32)


def atan(x: Floats) -> Floats:
    """The angle of a tangent, in (-pi / 2, pi / 2)."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        far = np.abs(x)
        steep = far > np.float32(1)
        t = np.where(steep, np.float32(1) / far, far)
        turned = t > _EIGHTH
        t = np.where(turned, (t - np.float32(1)) / (t + np.float32(1)), t)
        square = t * t
        near = fma(horner(_ATAN, square) * square, t, t)
        angle = np.where(turned, _HALF_PI * np.float32(0.5) + (near + _HALF_PI_LO * np.float32(0.5)), near)
        angle = np.where(steep, (_HALF_PI_LO - angle) + _HALF_PI, angle)
        return np.asarray(np.copysign(angle, x), np.float32)


def _near_asin(x: Floats) -> Floats:
    """The angle of a sine of at most 1/2."""
    square = x * x
    return fma(horner(_ASIN, square) * square, x, x)


def asin(x: Floats) -> Floats:
    """The angle of a sine; not a number beyond 1."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        far = np.abs(x)
        half = sqrt(np.float32(0.5) * (np.float32(1) - far))
        away = _HALF_PI - (np.float32(2) * _near_asin(half) - _HALF_PI_LO)
        y = np.where(far <= np.float32(0.5), _near_asin(x), np.copysign(away, x))
        return np.asarray(np.where(far > np.float32(1), np.float32(np.nan), y), np.float32)


def acos(x: Floats) -> Floats:
    """The angle of a cosine; not a number beyond 1."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        far = np.abs(x)
        above = np.float32(2) * _near_asin(sqrt(np.float32(0.5) * (np.float32(1) - far)))
        below = np.float32(2) * _HALF_PI - (above - np.float32(2) * _HALF_PI_LO)
        near = _HALF_PI - (_near_asin(x) - _HALF_PI_LO)
        y = np.where(far <= np.float32(0.5), near, np.where(x < 0, below, above))
        return np.asarray(np.where(far > np.float32(1), np.float32(np.nan), y), np.float32)


def _halves(far: Floats) -> tuple[Floats, Floats]:
    """e^far / 2, and what e^-far / 2 is beside it: of large numbers by squares, which reach further."""
    with np.errstate(all="ignore"):
        large = far > np.float32(88)
        e = exp(np.where(large, np.float32(0.5) * far, far))
        half = np.float32(0.5) * e
        return np.where(large, half * e, half), np.where(large, np.float32(0), np.float32(0.5) / e)


def sinh(x: Floats) -> Floats:
    """The hyperbolic sine."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        far, square = np.abs(x), x * x
        near = fma(horner(_SINH, square) * square, x, x)
        grown, shrunk = _halves(far)
        return np.asarray(np.where(far < np.float32(1), near, np.copysign(grown - shrunk, x)), np.float32)


def cosh(x: Floats) -> Floats:
    """The hyperbolic cosine."""
    grown, shrunk = _halves(np.abs(np.asarray(x, np.float32)))
    with np.errstate(all="ignore"):
        return np.asarray(grown + shrunk, np.float32)


def asinh(x: Floats) -> Floats:
    """The inverse of sinh."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        far = np.abs(x)
        near = fma(far, far / (np.float32(1) + sqrt(fma(far, far, np.float32(1)))), far)
        y = np.where(far > np.float32(1e9), log(far) + np.float32(0.6931471824645996), log1p(near))
        return np.asarray(np.copysign(y, x), np.float32)


def acosh(x: Floats) -> Floats:
    """The inverse of cosh; not a number below 1."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        above = x - np.float32(1)
        y = log1p(np.asarray(above + sqrt(above * (x + np.float32(1))), np.float32))
        y = np.where(x > np.float32(1e9), log(x) + np.float32(0.6931471824645996), y)
        return np.asarray(np.where(x < np.float32(1), np.float32(np.nan), y), np.float32)


def atanh(x: Floats) -> Floats:
    """The inverse of tanh; not a number beyond 1."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        far = np.abs(x)
        y = np.float32(0.5) * log1p(np.asarray((far + far) / (np.float32(1) - far), np.float32))
        return np.asarray(np.where(far > np.float32(1), np.float32(np.nan), np.copysign(y, x)), np.float32)


def power(x: Floats, exponent: float) -> Floats:
    """x^exponent: products for whole exponents up to 8 and inverses of them, roots for 1/2 and -1/2, else
    exp(exponent * log x)."""
    x = np.asarray(x, np.float32)
    with np.errstate(all="ignore"):
        if abs(exponent) == 0.5:
            y = sqrt(x)
        elif float(exponent).is_integer() and abs(exponent) <= MOST_FACTORS:
            y = np.ones_like(x)
            for _ in range(abs(int(exponent))):
                y = y * x
        else:
            return exp(np.float32(exponent) * log(x))
        return y if exponent >= 0 else np.asarray(np.float32(1) / y, np.float32)
