# SPDX-License-Identifier: Apache-2.0
"""NumPy's buffer is as large as before, whatever happened inside."""

from __future__ import annotations

import numpy as np
import pytest

from tinyc.base.unbuffered import unbuffered


@unbuffered
def _sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    assert np.getbufsize() == 16
    return np.asarray(a + b)


def test_the_buffer_comes_back() -> None:
    before = np.getbufsize()
    parts = np.arange(600).reshape(10, 3, 20)[:, 1:]
    np.testing.assert_array_equal(_sum(parts, np.arange(2)[:, None]), parts + np.arange(2)[:, None])
    with pytest.raises(ValueError, match="broadcast"):
        _sum(parts, np.arange(3)[:, None])
    assert np.getbufsize() == before
