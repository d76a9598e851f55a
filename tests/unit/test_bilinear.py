# SPDX-License-Identifier: Apache-2.0
"""The identities behind the exact fast convolutions."""

from __future__ import annotations

import numpy as np
import pytest

from tinyc.kernels.fast.bilinear import FORMS, S24, BilinearForm
from tinyc.kernels.fast.tiles import INVERSES


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_sums_of_products_are_the_convolution(form: BilinearForm) -> None:
    """As polynomials in inputs and weights, so for all values at once."""
    sums, inputs, weights = map(np.array, (form.sums, form.inputs, form.weights))
    got = np.einsum("ap,px,pk->axk", sums, inputs, weights)
    want = np.zeros_like(got)
    for a, k in np.ndindex(form.m, 3):
        want[a, form.stride * a + k, k] = form.unit * 2 ** form.raised[a]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("form", [*FORMS, S24], ids=lambda form: form.name)
def test_what_the_kernels_rely_on(form: BilinearForm) -> None:
    assert all(form.sums[a][form.shared] == 2 ** form.raised[a] for a in range(form.m))
    assert min(form.raised) == 0
    assert form.largest_input < 2**15
    assert form.unit * form.across.unit == 2**form.scale * form.odd


def test_the_inverses_of_odd_factors() -> None:
    assert {form.odd for form in (*FORMS, S24)} == {1, *INVERSES}
    assert all(odd * inverse % 2**32 == 1 for odd, inverse in INVERSES.items())
