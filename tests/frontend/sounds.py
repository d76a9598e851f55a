# SPDX-License-Identifier: Apache-2.0
"""Made-up recordings of 16 kHz: what front ends have to stand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Samples = npt.NDArray[np.int16]
RATE = 16000


def voice(seconds: float, seed: int = 1) -> Samples:
    """Harmonics of a gliding tone through two resonances, syllable by syllable, and breath."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    pitch = 120 + 40 * np.sin(2 * np.pi * 0.7 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    syllables = np.clip(np.sin(2 * np.pi * 3.1 * t), 0, 1) ** 2
    peaks = (500 + 200 * np.sin(2 * np.pi * 1.3 * t), 1700 + 500 * np.sin(2 * np.pi * 0.9 * t))
    tone = sum(
        np.sin(k * phase) * sum(np.exp(-(((k * pitch - peak) / 180) ** 2)) for peak in peaks) for k in range(1, 30)
    )
    breath = rng.normal(0, 0.05, len(t)) * (1 - syllables)
    return np.round(6000 * (tone * syllables + breath)).clip(-32768, 32767).astype(np.int16)


def sirens(seconds: float) -> Samples:
    """A buzz whose pitch and loudness swing: the MLPerf wakeword model gives it values between its extremes."""
    t = np.arange(int(seconds * RATE)) / RATE
    phase = 2 * np.pi * np.cumsum(150 * (1 + 0.2 * np.sin(2 * np.pi * 2 * t))) / RATE
    buzz = sum(np.sin(k * phase) / k for k in range(1, 20))
    swell = 0.5 + 0.5 * np.sin(2 * np.pi * 1.3 * t)
    return np.round(10_000 * buzz * swell).clip(-32768, 32767).astype(np.int16)


def recordings(seconds: float = 0.7) -> Mapping[str, Samples]:
    """Speech-like, noise of several levels, silence, steps, single counts, and full scale in many forms."""
    rng = np.random.default_rng(7)
    n = int(seconds * RATE)
    t = np.arange(n)
    steps = np.repeat(10.0 ** rng.uniform(0, 4.4, -(-n // 1600)), 1600)[:n] * rng.standard_normal(n)
    chirp = np.sin(np.pi * 0.4 * t**2 / n)
    square = np.where(t // 37 % 2, 32767, -32768)
    return {
        "voice": voice(seconds),
        "loud voice": (voice(seconds, 2).astype(np.int32) * 9).clip(-32768, 32767).astype(np.int16),
        "noise": rng.normal(0, 900, n).astype(np.int16),
        "faint noise": rng.integers(-2, 3, n).astype(np.int16),
        "full noise": rng.integers(-32768, 32768, n).astype(np.int16),
        "ends": np.where(rng.random(n) < 0.5, -32768, 32767).astype(np.int16),
        "silence": np.zeros(n, np.int16),
        "count": (t == 3000).astype(np.int16),
        "constant": np.full(n, -32768, np.int16),
        "steps": steps.clip(-32768, 32767).astype(np.int16),
        "square": square.astype(np.int16),
        "chirp": np.round(32767 * chirp).astype(np.int16),
        "quarter": np.tile(np.array([32767, 32767, -32768, -32768], np.int16), -(-n // 4))[:n],
    }
