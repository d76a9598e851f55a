# SPDX-License-Identifier: Apache-2.0
"""fixedpoint: close to the real functions everywhere, exact at the points where gemmlowp's are known."""

from __future__ import annotations

import numpy as np
import pytest

from tinyc.base import fixedpoint as fp

Q0 = 2.0**31


def test_constants_are_gemmlowps():
    assert fp._EXP_MINUS_EIGHTH == 1895147668
    assert fp._THIRD == 715827883
    assert (fp._48_17, fp._32_17) == (1515870810, 1010580540)
    assert [factor for _, factor in fp._EXP_OF_BIT] == [
        1672461947,
        1302514674,
        790015084,
        290630308,
        39332535,
        720401,
        242,
    ]


@pytest.mark.parametrize("integer_bits", [0, 1, 4, 5])
def test_exp(integer_bits):
    real = np.linspace(-(2.0**integer_bits), 0, 4001)
    raw = np.maximum(np.floor(real * 2.0 ** (31 - integer_bits)), -(2.0**31)).astype(np.int64)
    exact = np.exp(raw / 2.0 ** (31 - integer_bits))
    result = fp.exp_on_negative_values(raw, integer_bits)
    np.testing.assert_allclose(result / Q0, exact, atol=3e-7)
    assert result[-1] == fp.ONE_Q0
    assert (np.diff(result) >= 0).all()


def test_logistic_and_tanh():
    raw = np.linspace(-(2**31) + 1, 2**31 - 1, 4001).astype(np.int64)
    real = raw / 2.0**27
    np.testing.assert_allclose(fp.logistic(raw, 4) / Q0, 1 / (1 + np.exp(-real)), atol=3e-7)
    np.testing.assert_allclose(fp.tanh(raw, 4) / Q0, np.tanh(real), atol=3e-7)
    assert fp.logistic(0, 4) == 2**30
    assert fp.tanh(0, 4) == 0
    np.testing.assert_array_equal(fp.tanh(-raw, 4), -fp.tanh(raw, 4))


def test_reciprocal():
    raw = np.array([1 << 19, (1 << 19) + 1, 3 << 19, 12345678, 4095 << 19, 2**31 - 1])
    scale, bits = fp.reciprocal(raw, 12)
    np.testing.assert_allclose(scale / Q0 * 2.0**-bits, 2.0**19 / raw, rtol=1e-7)
    assert ((scale > 0.499 * Q0) & (scale < 2**31)).all()


def test_one_minus_x_over_one_plus_x():
    raw = np.arange(0, 2**31, 9999991)
    np.testing.assert_allclose(
        fp.one_minus_x_over_one_plus_x_for_x_in_0_1(raw) / Q0, (1 - raw / Q0) / (1 + raw / Q0), atol=3e-7
    )
