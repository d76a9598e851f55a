# SPDX-License-Identifier: Apache-2.0
"""Logistic and tanh of int16, as TensorFlow Lite's recurrent layers compute them: one interpolated table for both.

Inputs in Q3.12 (or scaled to it), outputs in Q0.15. tanh(x) = 2 * logistic(2x) - 1; both are odd around their middle.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.numerics import round_half_away

_Ints = npt.NDArray[np.int64]

_STEP = 24  # entries of the table per unit of x


def logistic_table() -> npt.NDArray[np.uint16]:
    """[256] logistic(i / 24) in Q0.16, each raised by half of what interpolation misses behind it."""
    at = np.arange(256, dtype=np.float64)
    value, middle, after = (65536 / (1 + np.exp(-(at + k) / _STEP)) for k in (0.0, 0.5, 1.0))
    raised = round_half_away(value - ((value + after) / 2 - middle) / 2)
    raised[-1] = 65535
    return raised.astype(np.uint16)


_TABLE = logistic_table().astype(np.int64)


def _interpolated(size: _Ints, bits: int, beyond: int) -> _Ints:
    """The table at |x|, `bits` of which lie between two entries."""
    index = size >> bits
    inside = np.minimum(index, 254)
    slope = _TABLE[inside + 1] - _TABLE[inside]
    return np.where(index >= 255, beyond, (_TABLE[inside] << bits) + (size & ((1 << bits) - 1)) * slope)


def logistic_at(x: _Ints) -> _Ints:
    """Q0.15 of x in steps of 1 / (3 * 4096)."""
    result = _interpolated(np.abs(x), 9, 0x7FFF << 10)
    return np.where(x >= 0, result + (1 << 9), (1 << 25) - result + (1 << 9) - 1) >> 10


def tanh_at(x: _Ints) -> _Ints:
    """Q0.15 of x in steps of 1 / (3 * 4096)."""
    result = _interpolated(np.abs(x), 8, 0xFFFF << 8)
    return np.where(x >= 0, result - (1 << 23) + (1 << 7), -result + (1 << 23) + (1 << 7) - 1) >> 8


def logistic(q: _Ints) -> _Ints:
    """Q0.15 of Q3.12."""
    return logistic_at(3 * q)


def tanh(q: _Ints, left: int = 0) -> _Ints:
    """Q0.15 of q * 2^left in Q3.12."""
    return tanh_at((3 * q) << left if left >= 0 else (3 * q + (1 << (-left - 1))) >> -left)
