# SPDX-License-Identifier: Apache-2.0
"""Recordings cut into frames."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array

OfFrames = Callable[[Array, Array], Array]  # int16 [frames, window], the sample before each [frames] -> [frames, ..]


def frames_of(samples: Array, window: int, step: int, function: OfFrames, at_once: int) -> Array:
    """int16 [n] or [recordings, n] -> [frames, ..] or [recordings, frames, ..]: a function of some frames at a time.

    The sample before the first is 0. TinycError for anything but int16, and for [n, channels], as programs read stereo.
    """
    x = np.asarray(samples)
    if x.dtype != np.int16 or x.ndim not in (1, 2):
        raise TinycError(
            f"samples are int16 [n] or [recordings, n], not {x.dtype} {list(x.shape)}",
            hint="scale floats of [-1, 1] by 32768 and round them, as a microphone's samples are",
        )
    lines = np.atleast_2d(x)
    if lines.shape[1] < window <= lines.shape[0] and lines.shape[1] > 0:
        raise TinycError(
            f"samples of {list(x.shape)} are {lines.shape[0]:,} recordings, all shorter than a window of {window:,}",
            hint="of [n, channels] take one channel, x[:, 0]; of recordings so short there are no frames",
        )
    count = max((lines.shape[1] - window) // step + 1, 0)
    if count == 0 or len(lines) == 0:
        nothing = function(np.zeros((1, window), np.int16), np.zeros(1, np.int16))[:0]
        return nothing.reshape(*x.shape[:-1], count, nothing.shape[1])
    view = np.lib.stride_tricks.sliding_window_view(lines, window, axis=1)[:, ::step]
    frames = view.reshape(-1, window)
    first = np.concatenate([np.zeros((len(lines), 1), np.int16), lines[:, step - 1 :: step]], 1)[:, :count].reshape(-1)
    parts = [function(frames[i : i + at_once], first[i : i + at_once]) for i in range(0, len(frames), at_once)]
    return np.concatenate(parts).reshape(*x.shape[:-1], count, -1)
