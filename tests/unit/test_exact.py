# SPDX-License-Identifier: Apache-2.0
"""Sums, factors and functions that are the same whatever the order of the terms: that is what a processor changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinyc.base import exact
from tinyc.quantize.factors import cholesky, inverse_factor


@pytest.mark.parametrize("shape", [(7, 1, 3), (5, 9, 1), (300, 144, 16), (2, 2500, 3)])
def test_products_do_not_depend_on_the_order(shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    rows, taps, columns = shape
    a = (rng.standard_normal((rows, taps)) * np.exp(rng.uniform(-5, 5, (rows, 1)))).astype(np.float32)
    b = rng.standard_normal((taps, columns)).astype(np.float32)
    product, order = exact.product(a, b), rng.permutation(taps)
    for permuted in (order, order[::-1]):
        np.testing.assert_array_equal(exact.product(a[:, permuted], b[permuted]), product)
        np.testing.assert_array_equal(exact.precise_product(a[:, permuted], b[permuted]), exact.precise_product(a, b))
        np.testing.assert_array_equal(exact.gram(a.T[permuted], b[permuted]), exact.gram(a.T, b))
    true, scale = a.astype(np.float64) @ b, np.abs(b).astype(np.float64).sum(axis=0)
    assert (np.abs(product - true) <= 2.0**-17 * scale * np.abs(a).max(axis=1, keepdims=True)).all()
    assert (np.abs(exact.precise_product(a, b) - true) <= 2.0**-36 * scale * np.abs(a).max()).all()
    np.testing.assert_array_equal(exact.product(a[:1], b), product[:1])  # a row does not know of the others


def test_stacks_of_matrices() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((3, 4, 5)).astype(np.float32), rng.standard_normal((3, 5, 2)).astype(np.float32)
    each = [exact.product(x[None], y[None])[0] for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(exact.product(a, b), each)
    np.testing.assert_allclose(exact.product(a, b[0]), [x.astype(np.float64) @ b[0] for x in a], rtol=1e-5, atol=1e-5)
    louder = a * np.array([1, 1e9, 1e-9], np.float32)[:, None, None]
    for factor in (b, b[0]):  # a sample does not know of the others
        alone = exact.product(louder[:1], factor[:1] if factor.ndim == 3 else factor)
        np.testing.assert_array_equal(exact.product(louder, factor)[:1], alone)
    np.testing.assert_array_equal(exact.product(np.full((1, 1), 1e-310), np.ones((1, 1))), [[0.0]])
    np.testing.assert_array_equal(exact.gram(a, a), exact.gram(a, a.copy()))
    assert exact.dot(a, b).dtype == np.float32
    integers = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(exact.dot(integers, integers.T), integers @ integers.T)
    np.testing.assert_array_equal(exact.product(np.zeros((2, 3)), np.zeros((3, 2))), np.zeros((2, 2)))


def test_bands_are_as_exact_as_what_they_weigh() -> None:
    """A filter bank's faint bands, whatever the loud ones are, alone, in a stack, and in any order of the taps."""
    rng = np.random.default_rng(3)
    a = np.exp(rng.uniform(-1, 1, (2, 6, 40)) - np.arange(40.0)).astype(np.float32)
    bank = np.zeros((40, 9), np.float32)
    for band in range(8):
        bank[5 * band : 5 * band + 5, band] = rng.uniform(0.1, 1, 5)
    true, order = a.astype(np.float64) @ bank, rng.permutation(40)
    bands = exact.dot(a, bank)
    np.testing.assert_allclose(bands, true, rtol=1e-6)
    np.testing.assert_array_equal(exact.dot(a[:, :, order], bank[order]), bands)
    np.testing.assert_array_equal(exact.dot(a[1, 2:3], bank), bands[1, 2:3])


def test_functions_are_those_of_the_library_but_for_the_last_bits() -> None:
    x = np.concatenate([np.linspace(-60, 60, 20001), [-800.0, 0.0, 800.0, math.inf, -math.inf]])
    with np.errstate(over="ignore", divide="ignore"):
        np.testing.assert_allclose(exact.exp(x), np.exp(x), rtol=5e-16)
        np.testing.assert_allclose(exact.log(np.abs(x)), np.log(np.abs(x)), rtol=2e-15, atol=5e-16)
    np.testing.assert_allclose(exact.tanh(x), np.tanh(x), atol=5e-16)
    np.testing.assert_allclose(exact.logistic(x[:20001]), 1 / (1 + np.exp(-x[:20001])), rtol=1e-15)
    assert np.isnan(exact.exp(np.nan))
    assert np.isnan(exact.log(-1.0))


@pytest.mark.parametrize("size", [1, 9, 48, 49, 130])
def test_factors(size: int) -> None:
    a = np.random.default_rng(size).standard_normal((3, size + 4, size))
    h = a.transpose(0, 2, 1) @ a + 0.1 * np.eye(size)
    np.testing.assert_allclose(cholesky(h), np.linalg.cholesky(h), atol=1e-9)
    upper = inverse_factor(h)
    np.testing.assert_array_equal(upper, np.triu(upper))
    np.testing.assert_allclose(upper.transpose(0, 2, 1) @ upper @ h, np.broadcast_to(np.eye(size), h.shape), atol=1e-8)
    h[1, -1, -1] = -1
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(h)


@pytest.mark.parametrize("taps", [1, 27, 2000])
@pytest.mark.parametrize("most", [127, 255, 32767])
def test_sums_of_integers_are_those_of_whole_numbers(taps: int, most: int) -> None:
    rng = np.random.default_rng(taps)
    q, w = rng.integers(-most, most + 1, (40, taps)), rng.integers(-127, 128, (6, taps))
    step, steps = 0.037, rng.uniform(0.001, 2, 6)
    x, real = (q * step).astype(np.float32), (w * steps[:, None]).astype(np.float32)

    def sums(x: exact.Array, w: exact.Array) -> exact.Array:
        return np.asarray(x @ w.T)

    in_steps = exact.weighted(sums, x, real, (step, float(most)), steps)
    np.testing.assert_allclose(in_steps, (q @ w.T) * (step * steps), rtol=3e-7)
    order = rng.permutation(taps)
    for grids in ((), ((step, float(most)),), ((step, float(most)), steps)):
        whole = exact.weighted(sums, x, real, *grids)
        np.testing.assert_array_equal(exact.weighted(sums, x[:, order], real[:, order], *grids), whole)
        np.testing.assert_allclose(whole, in_steps, rtol=1e-4, atol=1e-5 * np.abs(in_steps).max())
        assert exact.weighted(sums, x[:0], real, *grids).shape == (0, 6)
    rows = rng.integers(-most, most + 1, (500, min(taps, 30)))
    np.testing.assert_array_equal(exact.gram_of_integers(rows, rows, most * most), rows.T @ rows)
    h = rng.standard_normal((taps, 3))
    np.testing.assert_array_equal(
        exact.product_of_integers(w[:, order].astype(np.float64), h[order], 127),
        exact.product_of_integers(w.astype(np.float64), h, 127),
    )
