# SPDX-License-Identifier: Apache-2.0
"""Logistic and tanh of int16, as TensorFlow Lite's recurrent layers compute them: one interpolated table for both.

Inputs in Q3.12 (or scaled to it), outputs in Q0.15. tanh(x) = 2 * logistic(2x) - 1; both are odd around their middle.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.requantize import round_half_away

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


def logistic_chords() -> npt.NDArray[np.int32]:
    """[128] chords of logistic in Q0.15 from -8 on, each over 1/8: its rise << 16 | where it begins. Each is moved by
    half of what it would miss in its middle; the first and the last are flat."""
    at = np.arange(-64, 64, dtype=np.float64)
    before, middle, after = (32768 / (1 + np.exp(-(at + k) / 8)) for k in (0.0, 0.5, 1.0))
    begin = round_half_away(before + (middle - (before + after) / 2) / 2)
    # A rise is multiplied by up to 2^13 places and loses 16 bits; half a step makes up for what that drops.
    rise = round_half_away((after - before) * 8 + 0.5 / 8)
    rise[[0, -1]] = 0
    return np.asarray((rise.astype(np.int64) << 16) | begin.astype(np.int64), np.int32)


def on_chord(v: _Ints, shift: int) -> _Ints:
    """Logistic in Q0.15 of v in steps of 1 / 2^(shift + 3), from `logistic_chords`; shift >= 13."""
    entry = _CHORDS[np.clip(v >> shift, -64, 63) + 64]
    return (entry & 0x7FFF) + ((((v >> (shift - 13)) & 8191) * (entry >> 16)) >> 16)


_CHORDS = logistic_chords().astype(np.int64)


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
