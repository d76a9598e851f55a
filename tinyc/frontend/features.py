# SPDX-License-Identifier: Apache-2.0
"""The micro front end as a function of NumPy arrays: the integers of the device, many frames at a time.

Everything but the estimate of the noise is computed for all frames at once, by the same functions that define the
operators.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tinyc.base.one_thread import one_thread
from tinyc.frontend.frames import frames_of
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
    channels = frames_of(samples, front.window, front.step, lambda frames, _: channels_of(front, frames), _AT_ONCE)
    controlled = _controlled(front, channels if channels.ndim == 3 else channels[None])
    return controlled.reshape(channels.shape)


def channels_of(front: Micro, frames: Array) -> Array:
    """int16 [frames, window] -> uint64 [frames, channels], which hold uint32: before the noise is taken away."""
    table, matrix = _tables(front)
    w = windowed(frames, table, 12, wraps=True)
    shift = micro_shift(w)
    spectra = forward(Fourier(front.length, "s16"), scaled(w, shift))
    begin, end = front.bins
    sums = energies(spectra[:, : 2 * end], begin, end).astype(np.float64) @ matrix
    return roots(sums.astype(np.uint64)) >> shift.astype(np.uint64)


@lru_cache(maxsize=8)
def _tables(front: Micro) -> tuple[Array, Array]:
    """(window, matrix of the filters)."""
    return front.window_table(), _matrix(front.bank(), front.bins[1])


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
    gains = front.gains() if front.pcan is not None else None
    gained: Array = np.empty(channels.shape, np.int16)
    for at in range(0, channels.shape[1], _AT_ONCE):
        part = left[:, at : at + _AT_ONCE]
        if gains is not None:
            part = controlled(part, noises[:, at : at + _AT_ONCE], gains, front.snr_shift)
        gained[:, at : at + _AT_ONCE] = logs(part, 1 << front.log_shift, front.correction_bits)
    return gained
