# SPDX-License-Identifier: Apache-2.0
"""The micro front end as a function of NumPy arrays: the integers of the device, many frames at a time.

Everything but the estimate of the noise is computed for all frames at once, by the same functions that define the
operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.ir.graph import Array
from tinyc.ops.fourier import Fourier, forward
from tinyc.ops.signal_energy import energies
from tinyc.ops.signal_fft_auto_scale import micro_shift, scaled
from tinyc.ops.signal_filter_bank import BankParams
from tinyc.ops.signal_log import logs
from tinyc.ops.signal_pcan import controlled
from tinyc.ops.signal_spectral_subtraction import subtracted
from tinyc.ops.signal_square_root import roots
from tinyc.ops.signal_window import windowed

if TYPE_CHECKING:
    from tinyc.frontend.micro import Micro

_AT_ONCE = 256  # frames whose spectra fit a processor's cache


@one_thread
def features_of(front: Micro, samples: Array) -> Array:
    """`Micro.features`."""
    x = np.asarray(samples)
    if x.dtype != np.int16 or x.ndim not in (1, 2):
        raise TinycError(
            f"samples are int16 [n] or [recordings, n], not {x.dtype} {list(x.shape)}",
            hint="scale floats of [-1, 1] by 32768 and round them, as a microphone's samples are",
        )
    lines = np.atleast_2d(x)
    count = max((lines.shape[1] - front.window) // front.step + 1, 0)
    if count == 0:
        return np.zeros((*x.shape[:-1], 0, front.channels), np.int16)
    view = np.lib.stride_tricks.sliding_window_view(lines, front.window, axis=1)[:, :: front.step]
    frames = view.reshape(-1, front.window)
    parts = [channels_of(front, frames[i : i + _AT_ONCE]) for i in range(0, len(frames), _AT_ONCE)]
    channels = np.concatenate(parts).reshape(len(lines), count, front.channels)
    found = _controlled(front, channels)
    return found[0] if x.ndim == 1 else found


def channels_of(front: Micro, frames: Array) -> Array:
    """int16 [frames, window] -> uint64 [frames, channels], which hold uint32: before the noise is taken away."""
    w = windowed(frames, front.window_table(), 12, wraps=True)
    shift = micro_shift(w)
    spectra = forward(Fourier(front.length, "s16"), scaled(w, shift))
    begin, end = front.bins
    sums = energies(spectra[:, : 2 * end], begin, end).astype(np.float64) @ _matrix(front.bank(), end)
    return roots(sums.astype(np.uint64)) >> shift.astype(np.uint64)


def _matrix(bank: BankParams, bins: int) -> Array:
    """float64 [bins, channels]. Sums of energies of 32 bits and weights of 13 are exact in float64."""
    matrix = np.zeros((bins, len(bank.firsts)))
    for interval, first in enumerate(bank.firsts):
        taken = slice(first, first + len(bank.weights[interval]))
        if interval > 0:
            matrix[taken, interval - 1] += bank.weights[interval]
        matrix[taken, interval] += bank.unweights[interval]
    return matrix[:, :-1]


def _controlled(front: Micro, channels: Array) -> Array:
    """uint64 [recordings, frames, channels] -> int16, the frames of a recording one after the other."""
    silence = np.zeros((len(channels), front.channels), np.uint64)
    left, noises = (part.swapaxes(0, 1) for part in subtracted(front.subtraction, channels.swapaxes(0, 1), silence))
    if front.pcan is not None:
        left = controlled(left, noises, front.gains(), front.snr_shift)
    return logs(left, 1 << front.log_shift, front.correction_bits)
