# SPDX-License-Identifier: Apache-2.0
"""What windows over an image mean."""

from __future__ import annotations

import pytest

from tinyc.kernel.site import Padding, Pair
from tinyc.kernel.windows import Window

FAR = 2**63 - 1


@pytest.mark.parametrize("stride", [1, 2, 5, 8, 9, 10, 11, FAR])
@pytest.mark.parametrize("kernel", [1, 3, 10])
def test_within_an_image_a_window_has_the_same_places(stride: int, kernel: int) -> None:
    """With numbers that generated C can hold."""
    x = (1, 8, 8, 2)
    window = Window(Pair(kernel, 1), Pair(stride, FAR), Padding(1, 0, 1, 0), Pair(1, FAR))
    within = window.within(x)
    assert within.output(x) == window.output(x)
    assert within.span == window.span
    assert max(*within.stride, *within.dilation) <= 10
    assert within.stride.h == min(stride, 10)
