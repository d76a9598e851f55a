# SPDX-License-Identifier: Apache-2.0
"""Leaves as integers: exact where they are fractions with something in common, else rounded to 30 bits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tinyc.load.forests import integer_leaves

NO_BASE = np.zeros(1)


def stored(fractions: list[Fraction]) -> np.ndarray:
    """The fractions as an ONNX file holds them, one a row: rounded to float32."""
    return np.array([[np.float32(float(f))] for f in fractions], np.float64)


@pytest.mark.parametrize("denominators", [(1,), (3,), (2, 5), (3, 4, 7), (10, 11, 12), (999,)])
@pytest.mark.parametrize("trees", [1, 11])
def test_fractions_are_exact(denominators: tuple[int, ...], trees: int) -> None:
    """Integers in the very proportion of the fractions, so that sums that tie in truth tie here."""
    fractions = [Fraction(k, d) / trees for d in denominators for k in range(1, min(d, 20) + 1)]
    leaves, step = integer_leaves(stored(fractions), NO_BASE, trees)
    assert [Fraction(int(leaf), int(leaves[0, 0])) for leaf in leaves[:, 0]] == [f / fractions[0] for f in fractions]
    assert step * leaves[:, 0] == pytest.approx([float(f) for f in fractions], rel=1e-6)
    assert np.abs(leaves).max() <= 32767


def test_thirds_and_sixths_tie() -> None:
    thirds = stored([Fraction(1, 3), Fraction(1, 6), Fraction(1, 2)])
    leaves, _ = integer_leaves(thirds, NO_BASE, 3)
    assert leaves[0, 0] + leaves[1, 0] == leaves[2, 0]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [3, 40])
def test_reals_without_a_step_keep_30_bits(seed: int, count: int) -> None:
    """No step is made up for them: the largest sum has 29 or 30 bits."""
    reals = np.random.default_rng(seed).normal(size=(count, 1)).astype(np.float32).astype(np.float64)
    leaves, step = integer_leaves(reals, NO_BASE, 10)
    assert 2**29 <= 10 * np.abs(leaves).max() <= 2**30
    np.testing.assert_allclose(leaves * step, reals, atol=step / 2)


def test_a_base_that_has_no_step_with_the_leaves() -> None:
    leaves, step = integer_leaves(stored([Fraction(1, 3), Fraction(2, 3)]), np.array([2**0.5]), 2)
    assert np.log2(step) == round(np.log2(step))
    assert 2**29 <= 2 * leaves.max() + 2**0.5 / step <= 2**30
