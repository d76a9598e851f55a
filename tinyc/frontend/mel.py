# SPDX-License-Identifier: Apache-2.0
"""Filter banks on the mel scale, as the libraries that people train with define them, and windows.

scale: `htk` is 1127 ln(1 + f / 700) (the same as 2595 log10); `slaney` is a straight line up to 1000 Hz, 15 mel, and
logarithmic above, 27 mel from 1000 to 6400 Hz (Slaney, "Auditory Toolbox", 1998). slope: triangles are straight lines
over Hz, as in librosa and torchaudio, or over mel, as in TensorFlow and the HTK book.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass

Reals = npt.NDArray[np.float64]

_LINEAR_HZ, _LINEAR_MEL = 1000.0, 15.0
_PER_MEL = math.log(6.4) / 27
SCALES, SLOPES, NORMS = ("htk", "slaney"), ("hz", "mel"), ("none", "slaney")


@dataclass(frozen=True)
class Mel:
    """bands: how many triangles, whose edges lie evenly on the mel scale from low_hz to high_hz. norm `slaney`: each
    has the area 1 over Hz; else each has the height 1."""

    bands: int = 40
    low_hz: float = 20.0
    high_hz: float = 7600.0
    scale: str = "htk"
    slope: str = "hz"
    norm: str = "none"

    def matrix(self, length: int, rate: int) -> Reals:
        """[bands, length / 2 + 1] without the norm."""
        bins = np.arange(length // 2 + 1) * rate / length
        low, high = to_mel(self.scale, np.array([self.low_hz, self.high_hz]))
        edges = np.linspace(low, high, self.bands + 2)
        at = to_mel(self.scale, bins) if self.slope == "mel" else bins
        edges = edges if self.slope == "mel" else to_hz(self.scale, edges)
        left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
        weights: Reals = np.maximum(np.minimum((at - left) / (centre - left), (right - at) / (right - centre)), 0)
        if self.slope == "mel":
            weights[:, 0] = 0  # as TensorFlow, whose matrix has no weight for a constant
        return weights

    def norms(self) -> Reals:
        """[bands]: by what a band is multiplied."""
        if self.norm == "none":
            return np.ones(self.bands)
        low, high = to_mel(self.scale, np.array([self.low_hz, self.high_hz]))
        edges = to_hz(self.scale, np.linspace(low, high, self.bands + 2))
        return 2 / (edges[2:] - edges[:-2])


def to_mel(scale: str, hz: Reals) -> Reals:
    """Hz -> mel."""
    if scale == "htk":
        return 1127 * np.log1p(hz / 700)
    above = _LINEAR_MEL + np.log(np.maximum(hz, 1) / _LINEAR_HZ) / _PER_MEL
    return np.where(hz < _LINEAR_HZ, hz * _LINEAR_MEL / _LINEAR_HZ, above)


def to_hz(scale: str, mel: Reals) -> Reals:
    """mel -> Hz."""
    if scale == "htk":
        return 700 * np.expm1(mel / 1127)
    above = _LINEAR_HZ * np.exp((mel - _LINEAR_MEL) * _PER_MEL)
    return np.where(mel < _LINEAR_MEL, mel * _LINEAR_HZ / _LINEAR_MEL, above)


_COSINES = {  # of a sum of cosines of 0, 1 and 2 turns
    "rectangular": (1.0,),
    "hann": (0.5, -0.5),
    "hamming": (0.54, -0.46),
    "blackman": (0.42, -0.5, 0.08),
}
WINDOWS = tuple(_COSINES)


def window(name: str, n: int, periodic: bool) -> Reals:
    """[n], at most 1: periodic (one turn is n samples) or symmetric (n - 1)."""
    phases = 2 * np.pi * np.arange(n) / (n if periodic else max(n - 1, 1))
    parts = [factor * np.cos(k * phases) for k, factor in enumerate(_COSINES[name])]
    return np.clip(np.sum(parts, axis=0), 0, 1)
