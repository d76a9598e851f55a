# SPDX-License-Identifier: Apache-2.0
"""The fixed-point rules against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import (
    quantize_array,
    quantize_multiplier,
    requantize,
    round_half_away,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)

INT32 = st.integers(-(2**31), 2**31 - 1)


def _floor(x: Fraction) -> int:
    return x.numerator // x.denominator


def _half_away(x: Fraction) -> int:
    return -_floor(-x + Fraction(1, 2)) if x < 0 else _floor(x + Fraction(1, 2))


@given(st.floats(2.0**-31, 2.0**30, allow_nan=False))
def test_multiplier_is_the_nearest_of_31_bits(real: float) -> None:
    mult, shift = quantize_multiplier(real)
    assert 2**30 <= mult < 2**31
    assert abs(Fraction(mult) * Fraction(2) ** (shift - 31) / Fraction(real) - 1) <= Fraction(1, 2**31)


@pytest.mark.parametrize("real", [-1.0, float("nan"), float("inf"), 2.0**31])
def test_multiplier_refuses(real: float) -> None:
    with pytest.raises(TinycError):
        quantize_multiplier(real)


def test_multiplier_ends() -> None:
    assert quantize_multiplier(0.0) == (0, 0)
    assert quantize_multiplier(2.0**-40) == (0, 0)
    assert quantize_multiplier(1.0) == (2**30, 1)
    assert quantize_multiplier(1 - 2.0**-40) == (2**30, 1)


@given(INT32, INT32)
def test_high_mul(a: int, b: int) -> None:
    expected = min(_floor(Fraction(a * b, 2**31) + Fraction(1, 2)), 2**31 - 1)
    assert int(saturating_rounding_doubling_high_mul(a, b)) == expected


@given(INT32, st.integers(0, 31))
def test_rounding_divide(x: int, exponent: int) -> None:
    assert int(rounding_divide_by_pot(x, exponent)) == _half_away(Fraction(x, 2**exponent))


@given(INT32, st.integers(2**30, 2**31 - 1), st.integers(-31, 0))
def test_requantize(acc: int, mult: int, shift: int) -> None:
    single = _floor(Fraction(acc * mult, 2 ** (31 - shift)) + Fraction(1, 2))
    double = _half_away(Fraction(_floor(Fraction(acc * mult, 2**31) + Fraction(1, 2)), 2**-shift))
    assert int(requantize(acc, mult, shift, Rounding.SINGLE)) == single
    assert int(requantize(acc, mult, shift, Rounding.DOUBLE)) == double


@given(st.integers(-(2**15), 2**15), st.integers(2**30, 2**31 - 1), st.integers(1, 8))
def test_requantize_with_a_left_shift(acc: int, mult: int, shift: int) -> None:
    expected = _floor(Fraction(acc * 2**shift * mult, 2**31) + Fraction(1, 2))
    assert int(requantize(acc, mult, shift, Rounding.DOUBLE)) == expected
    assert int(requantize(acc, mult, shift, Rounding.SINGLE)) == expected


def test_round_half_away() -> None:
    values = np.array([0.5, -0.5, 1.5, -1.5, 0.49999999999999994, 2.4, -2.6])
    assert round_half_away(values).tolist() == [1, -1, 2, -2, 0, 2, -3]


def test_quantize_array_saturates() -> None:
    assert quantize_array([1e9, -1e9, 0.25, -0.25], 0.5, 3, -128, 127).tolist() == [127, -128, 4, 2]
