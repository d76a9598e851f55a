# SPDX-License-Identifier: Apache-2.0
"""Options under a limit, against brute force."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tinyc.base.knapsack import Item, exact

ITEMS = st.tuples(st.integers(0, 40), st.integers(0, 1000))
CLASSES = st.lists(st.lists(ITEMS, min_size=1, max_size=4), min_size=1, max_size=5)


def _sums(classes: list[list[Item]], taken: list[int]) -> tuple[int, float]:
    chosen = [options[i] for options, i in zip(classes, taken, strict=True)]
    return sum(item[0] for item in chosen), sum(item[1] for item in chosen)


def _best(classes: list[list[Item]], limit: int) -> float | None:
    every = itertools.product(*(range(len(options)) for options in classes))
    sums = [_sums(classes, list(taken)) for taken in every]
    return min((weight for size, weight in sums if size <= limit), default=None)


@settings(max_examples=150, deadline=None)
@given(CLASSES, st.integers(0, 120))
def test_exact_is_the_best_that_fits(classes: list[list[Item]], limit: int) -> None:
    taken, best = exact(classes, limit), _best(classes, limit)
    assert (taken is None) == (best is None)
    if taken is not None:
        assert _sums(classes, taken)[0] <= limit
        assert _sums(classes, taken)[1] == best
