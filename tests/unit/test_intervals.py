# SPDX-License-Identifier: Apache-2.0
"""Intervals that are joined: bytes where they touch, forbidden distances only where they overlap."""

from __future__ import annotations

import numpy as np
import pytest

from tinyc.plan.blocks import joined


def test_the_distance_between_two_forbidden_ones_stays_allowed() -> None:
    assert joined([(3, 5), (0, 3)]) == [(0, 3), (3, 5)]
    assert joined([(3, 5), (0, 3)], touching=True) == [(0, 5)]
    assert joined([(0, 4), (3, 5)]) == [(0, 5)]
    assert joined([(4, 4), (7, 6)]) == []


@pytest.mark.parametrize("touching", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_same_numbers_are_inside(seed: int, touching: bool) -> None:
    """Counted in halves, so that an end is apart from what lies beside it."""
    lows, sizes = np.random.default_rng(seed).integers((0, 0), (90, 7), (25, 2)).T
    intervals = [(int(low), int(low + size)) for low, size in zip(lows, sizes, strict=True)]
    together = joined(intervals, touching)
    assert together == sorted(together)
    for k in range(200):
        at = k / 2
        inside = [low <= at < high if touching else low < at < high for low, high in intervals]
        again = [low <= at < high if touching else low < at < high for low, high in together]
        assert sum(again) == any(inside), at
