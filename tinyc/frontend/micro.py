# SPDX-License-Identifier: Apache-2.0
"""The micro front end: what micro_speech and microWakeWord are trained on, and ESPHome computes on the device.

window -> scale -> FFT -> energies -> bank of filters -> root -> noise taken away -> gain control (PCAN) -> logarithm,
for every step of the samples. The integers are those of the C library `microfrontend` of TensorFlow, whose tables are
made in float32; so are these.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.frontend.features import features_of
from tinyc.frontend.front import quant_of
from tinyc.ir.graph import Array, DType, Quant
from tinyc.ops.integer_map import IntegerMap, mapped
from tinyc.ops.signal_filter_bank import BankParams
from tinyc.ops.signal_pcan import TABLE
from tinyc.ops.signal_spectral_subtraction import SignalSpectralSubtraction

F = np.float32
WEIGHT_BITS = 12  # of a filter's weights, of the window
_NOISE_BITS = 14
_MOST_WINDOW = 1 << 13  # samples
_SNR_BITS = 12
REAL_STEP = 0.0390625  # what a step of the features stands for where they are used as floats
_NEAR = 0.01  # a scale that differs by no more is that of the wake words
_ESPHOME = (("mul", 256), ("add", 333), ("div", 666), ("add", -128), ("min", 127), ("max", -128))
_ESPHOME_SCALE = 666 / 256 * REAL_STEP
_LARGEST_LOG = 23  # ln of 2^32, rounded up


@dataclass(frozen=True)
class Micro:
    """Settings; the defaults are those of micro_speech and microWakeWord.

    window, step: samples. hop: frames for which a model that sees a whole window of them runs again. even, odd:
    smoothing of the noise per channel; least: what is left of a channel at least. strength, offset, gain_bits: of the
    gain control, None: none. log_shift: a step of the features is 2^-log_shift of the natural logarithm.
    """

    rate: int = 16000
    window: int = 480
    step: int = 160
    channels: int = 40
    low_hz: float = 125.0
    high_hz: float = 7500.0
    smoothing_bits: int = 10
    even: float = 0.025
    odd: float = 0.06
    least: float = 0.05
    pcan: tuple[float, float, int] | None = (0.95, 80.0, 21)
    log_shift: int = 6
    hop: int = 1
    axes: ClassVar[int] = 1
    widths: ClassVar[tuple[DType, ...]] = ("s8",)
    before: ClassVar[int] = 0

    def __post_init__(self) -> None:
        """TinycError for settings that do not fit each other."""
        if not 0 < self.step <= self.window <= _MOST_WINDOW:
            raise TinycError(
                f"a window of {self.window} samples every {self.step}: a step is at most a window, and a window at "
                f"most {_MOST_WINDOW} samples"
            )
        if self.window % 2 or self.step % 2:
            raise TinycError(f"a window of {self.window} samples every {self.step}: both have to be even")
        if not 0 < self.low_hz < self.high_hz <= self.rate / 2:
            raise TinycError(
                f"filters from {self.low_hz:g} to {self.high_hz:g} Hz of audio of {self.rate} Hz, which ends at "
                f"{self.rate / 2:g} Hz"
            )
        if self.pcan is not None and not 0 <= self.snr_shift <= 31:
            least = self.correction_bits + _SNR_BITS
            raise TinycError(
                f"a gain of {self.pcan[2]} bits with a transform of {self.length} points: at least {least} are possible"
            )
        if self.smoothing_bits < self.correction_bits:
            raise TinycError(f"{self.smoothing_bits} smoothing bits: at least {self.correction_bits}")
        if self.bins[1] > self.length // 2 + 1:
            raise TinycError(f"filters up to {self.high_hz:g} Hz reach beyond the {self.length // 2 + 1} bins")

    @property
    def length(self) -> int:
        """Points of the Fourier transform."""
        return max(1 << (self.window - 1).bit_length(), 128)

    @property
    def correction_bits(self) -> int:
        """What the roots of energies lack, for the transform divides by its length and weights have 12 bits."""
        return self.length.bit_length() - 1 - WEIGHT_BITS // 2

    @property
    def snr_shift(self) -> int:
        assert self.pcan is not None
        return self.pcan[2] - self.correction_bits - _SNR_BITS

    @property
    def subtraction(self) -> SignalSpectralSubtraction:
        even, odd, least = (int(F(part) * F(1 << _NOISE_BITS)) for part in (self.even, self.odd, self.least))
        one = 1 << _NOISE_BITS
        return SignalSpectralSubtraction(
            (even, odd), (one - even, one - odd), least, self.smoothing_bits, _NOISE_BITS, clamps=False
        )

    def window_table(self) -> Array:
        """int16 [window]: a raised cosine, in 12 bits."""
        turn = F(np.pi) * F(2) / F(self.window)
        phases = turn * (np.arange(self.window, dtype=F) + F(0.5))
        return np.floor((F(0.5) - F(0.5) * np.cos(phases)) * F(1 << WEIGHT_BITS) + F(0.5)).astype(np.int16)

    @cached_property
    def _filters(self) -> tuple[int, npt.NDArray[np.int64], Array, Array]:
        """(the first bin, of each bin from there its interval, its weight, its unweight)."""
        bin_hz = F(0.5 * self.rate / (self.length // 2))
        low, high = _mel(F(self.low_hz)), _mel(F(self.high_hz))
        width = (high - low) / F(self.channels + 1)
        centres = low + width * np.arange(1, self.channels + 2, dtype=F)
        first = int(F(1.5) + F(self.low_hz) / bin_hz)
        mels = _mel(np.arange(first, self.length, dtype=F) * bin_hz)
        mels = mels[mels <= centres[-1]]
        interval = np.searchsorted(centres, mels, side="left")
        edges = np.concatenate([np.array([low], F), centres])
        share = (centres[interval] - mels) / (centres[interval] - edges[interval])
        return first, interval, _weight(share), _weight(F(1) - share)

    @property
    def bins(self) -> tuple[int, int]:
        """The first bin of the spectrum that is used, and the first behind the last."""
        first, interval, _, _ = self._filters
        return first, first + len(interval)

    def bank(self) -> BankParams:
        """The filters as the operator has them."""
        first, interval, weights, unweights = self._filters
        begins = np.searchsorted(interval, np.arange(self.channels + 2))
        cuts = list(zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True))
        return BankParams(
            tuple(first + begin for begin, _ in cuts),
            tuple(tuple(weights[begin:end].tolist()) for begin, end in cuts),
            tuple(tuple(unweights[begin:end].tolist()) for begin, end in cuts),
        )

    def gains(self) -> Array:
        """int16 [125]: the gain at noises 0 and 1, then for each octave its parabola, scaled to [0, 1) of the
        octave."""
        table = np.zeros(TABLE, np.int16)
        table[0], table[1] = self._gain(0), self._gain(1)
        for octave in range(2, 33):
            begin = 1 << (octave - 1)
            end = min(2 * begin, (1 << 32) - 1)
            there, middle, after = self._gain(begin), self._gain(begin + begin // 2), self._gain(end)
            linear = 4 * (middle - there) - (after - there)
            table[4 * octave - 6 : 4 * octave - 3] = there, linear, after - there - linear
        return table

    def _gain(self, noise: int) -> int:
        assert self.pcan is not None
        strength, offset, bits = self.pcan
        level = F(noise) / F(1 << (self.smoothing_bits - self.correction_bits)) + F(offset)
        gain = F(1 << bits) * np.power(level, F(-strength), dtype=F)
        return min(int(gain + F(0.5)), 32767) if gain <= F(32767) else 32767

    def features(self, samples: Array) -> Array:
        """int16 [n] or [recordings, n] -> int16 [frames, channels] or [recordings, frames, channels], from silence.

        The frames that a library pushed with these samples after a reset computes. No frame where there are fewer
        samples than a window.
        """
        return features_of(self, samples)

    def quantized(self, samples: Array, scale: float, zero: int) -> Array:
        """The same as the model gets it from the library: int8 of its input's scale and zero point."""
        return mapped(IntegerMap(to_model(self, quant_of(scale, zero)), "s8"), self.features(samples))


def to_model(front: Micro, quant: Quant) -> tuple[tuple[str, int], ...]:
    """Steps from a feature to the model's int8: ESPHome's where the scale is that of its wake words, else the nearest
    integer of feature * 0.0390625 / scale, and the zero point."""
    scale, zero = quant.per_tensor
    if zero == -128 and abs(scale / _ESPHOME_SCALE - 1) <= _NEAR:
        return _ESPHOME
    largest = _LARGEST_LOG << front.log_shift
    for bits in range(20, 0, -1):
        factor = round(REAL_STEP / scale * (1 << bits))
        if factor > 0 and largest * factor + (1 << bits) < 1 << 31:
            break
    else:
        raise TinycError(f"the model's scale {scale:g} does not fit features in steps of {REAL_STEP}")
    return (
        *(("mul", factor), ("add", 1 << (bits - 1)), ("shr", bits), ("add", zero)),
        *(("min", 127), ("max", -128)),
    )


def _mel(hz: npt.NDArray[np.float32] | np.float32) -> npt.NDArray[np.float32]:
    mels: npt.NDArray[np.float32] = F(1127) * np.log1p(hz / F(700), dtype=F)
    return mels


def _weight(share: npt.NDArray[np.float32]) -> Array:
    return np.floor(share * F(1 << WEIGHT_BITS) + F(0.5)).astype(np.int16)
