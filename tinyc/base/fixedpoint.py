# SPDX-License-Identifier: Apache-2.0
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

from tinyc.base.requantize import rounding_divide_by_pot, saturating_rounding_doubling_high_mul

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


_HALF_SQRT_2 = _q(math.sqrt(2) / 2, 31)
_ROOT_STEPS = 5  # of Newton's iteration


def inverse_root(v: int) -> tuple[int, int]:
    """(m, s) with 1 / sqrt(v) ~ m * 2^(-31 - s), v >= 0: Newton's iteration on v, scaled to Q3.28. 0 counts as 1.

    TensorFlow Lite's `GetInvSqrtQuantizedMultiplierExp`.
    """
    if v <= 1:
        return ONE_Q0, 0
    down = 11
    while v >= 1 << 29:
        v, down = v // 4, down + 1
    pairs = (32 - v.bit_length() - 1) // 2 - 1
    half = int(rounding_divide_by_pot((v << 2 * pairs) >> 1, 1))
    x = 1 << 28  # 1 in Q3.28
    for _ in range(_ROOT_STEPS):
        cube = _saturated_left(_product(_product(x, x), x), 6)
        x = _saturated_left(_product((1 << 28) + (1 << 27), x) - _product(half, cube), 3)
    root, down = _product(x, _HALF_SQRT_2), down - pairs
    return (root << -down, 0) if down < 0 else (root, down)


def _product(a: int, b: int) -> int:
    return int(_mul(a, b))


def _saturated_left(x: int, bits: int) -> int:
    return max(_INT32_MIN, min(_INT32_MAX, x << bits))


_LOG_2 = _q(math.log(2), 31)
_ROOT_OF_ROOT_HALF = _q(0.5**0.25, 31)
_ALPHA_N = _q(11 / 240 * 2**0.25, 31)  # of the rational function that approximates log around 2^(-1/4)
_ALPHA_D = _q(1 / 20 * 2**0.25, 31)
_ALPHA_I = _q(2 / 2**0.25 - 2**0.25, 31)
_ALPHA_F = _q(1 / 4 * 2**0.25, 31)


def log_of_sum(x: int) -> int:
    """log(x) in Q5.26 for x >= 1 in Q12.19, as TensorFlow Lite's `log_x_for_x_greater_than_or_equal_to_1` has it.

    x is brought to r in about [2^-1/2, 1) by a power of 2, directly or over x / sqrt(2), whichever has less to shift.
    """
    zeros = 32 - x.bit_length()
    shifted = _saturated_left(x, zeros - 1)
    near = _saturated_left(_product(shifted, _HALF_SQRT_2), 1)
    power = ((12 - zeros) << 25) + (1 << 23)
    zeros_b = 31 - _product(x, _HALF_SQRT_2).bit_length()
    r = min(near, _saturated_left(x, zeros_b))
    power = max(power, ((12 - zeros_b) << 25) - (1 << 23))
    p, q = (r + _ROOT_OF_ROOT_HALF + 1) >> 1, 2 * (r - _ROOT_OF_ROOT_HALF)
    square = _product(q, q)
    above = _product(q, r) + _product(_product(q, square), _ALPHA_N)
    below = _product(p, _ALPHA_I + q + _product(_ALPHA_D, square)) + _product(_ALPHA_F, q)
    inverse = int(one_over_one_plus_x_for_x_in_0_1(below))
    scaled = int(rounding_divide_by_pot(above, 6))
    return _saturated_left(_product(power, _LOG_2) + _product(scaled, inverse), 1)
