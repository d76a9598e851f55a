# SPDX-License-Identifier: Apache-2.0
"""In which order taps and weights come into registers."""

from __future__ import annotations

import pytest

from tinyc.kernels.tile.one_pixel import loads

REGISTERS = 8


@pytest.mark.parametrize("per_step", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 7, 9, 17, 64])
def test_every_step_finds_its_words(steps: int, per_step: int) -> None:
    taps = weights = 0
    brought = [0, 0]
    for load in loads(steps, per_step):
        assert load.words > 0
        brought[load.taps] += load.words
        taps, weights = taps + load.words * load.taps, weights + load.words * (not load.taps)
        assert taps + weights <= REGISTERS
        done = min(taps, weights // per_step)
        taps, weights = taps - done, weights - done * per_step
    assert brought == [steps * per_step, steps]
    assert (taps, weights) == (0, 0)


def test_loads_take_turns() -> None:
    """Five words at a time instead of four."""
    assert len(loads(64, 1)) < 64 * 2 / 4 * 0.9
    assert len(loads(64, 2)) < 64 * 3 / 4 * 0.9
