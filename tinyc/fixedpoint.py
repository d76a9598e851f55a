"""exp, logistic and tanh in 32-bit fixed point, as gemmlowp's `fixedpoint.h` defines them; vectorised.

Qm.n is an int32 with m bits before the point, n = 31 - m behind it and a sign: raw = real * 2^n.
TensorFlow Lite Micro computes softmax, logistic and tanh with these, so the bits are part of the
result, not only the accuracy. Arrays hold raw values as int64; results have the range of int32.
Each function takes what int8 models can produce: the sums inside cannot overflow there.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tinyc.numerics import rounding_divide_by_pot, saturating_rounding_doubling_high_mul

Raw = npt.NDArray[np.int64]

ONE_Q0 = 2**31 - 1  # the nearest to 1.0 that Q0.31 has
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1


def _q(real: float, fraction_bits: int) -> int:
    """The constant, rounded to nearest."""
    return math.floor(real * 2.0**fraction_bits + 0.5)


_EXP_MINUS_EIGHTH = _q(math.exp(-0.125), 31)
_THIRD = _q(1 / 3, 31)
_EXP_OF_BIT = tuple((exponent, _q(math.exp(-(2.0**exponent)), 31)) for exponent in range(-2, 5))
_48_17 = _q(48 / 17, 29)
_32_17 = _q(32 / 17, 29)

_mul = saturating_rounding_doubling_high_mul


def _shift_left_saturating(x: Raw, bits: int) -> Raw:
    shifted: Raw = np.clip(x << bits, _INT32_MIN, _INT32_MAX)
    return shifted


def exp_on_negative_values(a: npt.ArrayLike, integer_bits: int) -> Raw:
    """exp(a) in Q0.31 for a <= 0 in Q(integer_bits); integer_bits in [0, 5]."""
    a = np.asarray(a, np.int64)
    fraction_bits = 31 - integer_bits
    quarter = 1 << (fraction_bits - 2)
    last_quarter = (a & (quarter - 1)) - quarter  # a modulo 1/4, moved to [-1/4, 0)
    result = _exp_on_last_quarter(last_quarter << integer_bits)
    rest = last_quarter - a
    for exponent, factor in _EXP_OF_BIT:
        if integer_bits > exponent:
            bit = 1 << (fraction_bits + exponent)
            result = np.where(rest & bit, _mul(result, factor), result)
    return np.where(a == 0, ONE_Q0, result)


def _exp_on_last_quarter(a: Raw) -> Raw:
    """exp(a) for a in [-1/4, 0), both Q0.31: four terms of the Taylor series around -1/8."""
    x = a + (1 << 28)
    x2 = _mul(x, x)
    x3 = _mul(x2, x)
    x4_4 = rounding_divide_by_pot(_mul(x2, x2), 2)
    tail = rounding_divide_by_pot(_mul(x4_4 + x3, _THIRD) + x2, 1)
    return _EXP_MINUS_EIGHTH + _mul(_EXP_MINUS_EIGHTH, x + tail)


def _reciprocal_of_half_sum(a: Raw) -> Raw:
    """2 / (1 + a) in Q2.29 for a in [0, 1) in Q0.31: three Newton steps from 48/17 - 32/17 d."""
    half_denominator = (a + ONE_Q0 + 1) >> 1
    x = _48_17 + _mul(half_denominator, -_32_17)
    for _ in range(3):
        error = (1 << 29) - _mul(half_denominator, x)
        x = x + _shift_left_saturating(_mul(x, error), 2)
    return x


def one_over_one_plus_x_for_x_in_0_1(a: npt.ArrayLike) -> Raw:
    """1 / (1 + a), both Q0.31."""
    return _shift_left_saturating(_reciprocal_of_half_sum(np.asarray(a, np.int64)), 1)


def one_minus_x_over_one_plus_x_for_x_in_0_1(a: npt.ArrayLike) -> Raw:
    """(1 - a) / (1 + a), both Q0.31."""
    return _shift_left_saturating(_reciprocal_of_half_sum(np.asarray(a, np.int64)) - (1 << 29), 2)


def logistic(a: npt.ArrayLike, integer_bits: int) -> Raw:
    """1 / (1 + exp(-a)) in Q0.31 for a in Q(integer_bits); integer_bits in [0, 5]."""
    a = np.asarray(a, np.int64)
    upper = one_over_one_plus_x_for_x_in_0_1(exp_on_negative_values(-np.abs(a), integer_bits))
    return np.where(a == 0, 1 << 30, np.where(a > 0, upper, ONE_Q0 - upper))


def tanh(a: npt.ArrayLike, integer_bits: int) -> Raw:
    """tanh(a) in Q0.31 for a in Q(integer_bits); integer_bits in [0, 4]."""
    a = np.asarray(a, np.int64)
    # The same raw value with one more integer bit is twice the number: exp(-2|a|).
    size = one_minus_x_over_one_plus_x_for_x_in_0_1(exp_on_negative_values(-np.abs(a), integer_bits + 1))
    return np.where(a == 0, 0, np.sign(a) * size)


def reciprocal(x: npt.ArrayLike, integer_bits: int) -> tuple[Raw, Raw]:
    """(scale in Q0.31, bits) with 1/x ~ scale * 2^-bits, for x > 0 in Q(integer_bits)."""
    x = np.asarray(x, np.int64)
    headroom = 32 - np.frexp(x.astype(np.float64))[1].astype(np.int64)  # leading zeros of 32 bits
    fraction = (x << headroom) - (1 << 31)
    return one_over_one_plus_x_for_x_in_0_1(fraction), integer_bits - headroom
