# SPDX-License-Identifier: Apache-2.0
"""Fixed-point arithmetic of the integer path; the Python twin of tc_math.h.

A real factor is written as mult * 2^(shift - 31) with mult in [2^30, 2^31): shift > 0 is a left
shift. `Rounding` names the three rules that turn an int32 accumulator into an output.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding

Ints = npt.NDArray[np.integer[Any]]


def quantize_multiplier(real: float) -> tuple[int, int]:
    """(mult, shift) with real ~ mult * 2^(shift - 31), mult in [2^30, 2^31), or (0, 0) below 2^-32.

    The rule of TensorFlow Lite's `QuantizeMultiplier`: mantissa of the double rounded half away
    from zero to 31 bits. Raises TinycError if `real` is negative, not finite, or 2^31 or more.
    """
    mult, shift = quantize_multipliers(real)
    return int(mult[0]), int(shift[0])


def quantize_multipliers(reals: npt.ArrayLike) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """`quantize_multiplier` of each factor, as two int32 arrays of the same length."""
    reals = np.atleast_1d(np.asarray(reals, np.float64))
    bad = ~(np.isfinite(reals) & (reals >= 0) & (reals < 2.0**31))
    if bad.any():
        first = float(reals[bad][0])
        raise TinycError(f"cannot scale by {first}: a factor between scales must be finite and in [0, 2^31)")
    mantissa, shift = np.frexp(reals)
    mult = np.floor(mantissa * 2.0**31 + 0.5)
    over = mult == 2.0**31
    mult, shift = np.where(over, 2.0**30, mult), shift + over
    small = shift < -31
    return np.where(small, 0, mult).astype(np.int32), np.where(small, 0, shift).astype(np.int32)


def saturating_rounding_doubling_high_mul(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """(a * b * 2 + 2^31) >> 32 on int32 operands, saturated: floor(a*b / 2^31 + 1/2).

    ARMv7 `VQRDMULH`; gemmlowp's function of this name gives the same (its truncating division with
    a nudge of either sign equals this floor). Only -2^31 * -2^31 saturates.
    """
    product = np.asarray(a, np.int64) * np.asarray(b, np.int64)
    return np.minimum((product + (1 << 30)) >> 31, 2**31 - 1)


def rounding_divide_by_pot(x: npt.ArrayLike, exponent: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """x / 2^exponent, rounded to nearest, halves away from zero. exponent >= 0."""
    x = np.asarray(x, np.int64)
    exponent = np.asarray(exponent, np.int64)
    half = (np.int64(1) << exponent) >> 1
    return np.where(exponent > 0, (x + half - (x < 0)) >> exponent, x)


def requantize(
    acc: npt.ArrayLike, mult: npt.ArrayLike, shift: npt.ArrayLike, rounding: Rounding
) -> npt.NDArray[np.int64]:
    """acc * mult * 2^(shift - 31), rounded by the given rule; broadcasts; int64, not yet clamped.

    acc must fit int32, also after a left shift by `shift` > 0 (the compiler bounds it). FLOAT: the factor
    mult * 2^(shift - 31) must be a float32; results stay within 2^21 of 0, beyond every clamp to 16 bits.
    """
    acc, mult, shift = np.asarray(acc, np.int64), np.asarray(mult, np.int64), np.asarray(shift, np.int64)
    if rounding is Rounding.SINGLE:
        total = 31 - shift
        return (acc * mult + (np.int64(1) << (total - 1))) >> total
    if rounding is Rounding.FLOAT:
        y = acc.astype(np.float32) * float_factor(mult, shift)
        return np.clip(np.rint(y), -(2**21), 2**21).astype(np.int64)
    left, right = np.maximum(shift, 0), np.maximum(-shift, 0)
    return rounding_divide_by_pot(saturating_rounding_doubling_high_mul(acc << left, mult), right)


def float_factor(mult: npt.ArrayLike, shift: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """mult * 2^(shift - 31) as float32."""
    return np.ldexp(np.asarray(mult, np.float64), np.asarray(shift, np.int64) - 31).astype(np.float32)


def round_half_away(x: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """C's `round`: nearest integer, halves away from zero. (numpy's own rounds halves to even.)

    Exact also just below a half: the fraction x - trunc(x) has no rounding error.
    """
    x = np.asarray(x, np.float64)
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


def quantize_array(real: npt.ArrayLike, scale: float, zero: int, lo: int, hi: int) -> npt.NDArray[np.int64]:
    """clamp(round(real / scale) + zero, lo, hi), halves away from zero, division in float32 as TFLite does."""
    with np.errstate(over="ignore", invalid="ignore"):  # infinite: an end of the range
        ratio = np.asarray(real, np.float32) / np.float32(scale)
        return np.clip(round_half_away(ratio) + zero, lo, hi).astype(np.int64)
