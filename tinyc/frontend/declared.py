# SPDX-License-Identifier: Apache-2.0
"""Front ends by their parameters: log mel spectra, and cepstra of them (MFCC).

    pre-emphasis -> window -> FFT -> power or magnitude -> mel -> logarithm -> cosine transform -> scaling -> int8

Nobody else's integers are reproduced here: what counts is that the int8 features are those of the formula in reals,
but for values next to a border between two integers. Numbers have 32 bits up to the spectrum, 64 up to the logarithm.
"""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.frontend.frames import frames_of
from tinyc.frontend.front import quant_of
from tinyc.frontend.mel import Mel, Reals, window
from tinyc.ir.graph import INT_RANGE, Array, DType, Quant
from tinyc.ops.signal_square_root import roots
from tinyc.ops.spectrum import EMPHASIS_BITS, SpectrumParams, spectra, unit_of, window_unit
from tinyc.ops.spectrum_bands import WEIGHT_BITS, BandsParams, banded
from tinyc.ops.spectrum_log import ADD_BITS, FRACTION, logs
from tinyc.ops.spectrum_power import powers
from tinyc.ops.spectrum_project import ProjectParams, SpectrumProject, fixed_point, projected
from tinyc.ops.transform import check_transform

LOGS = {"ln": math.log(2), "log10": math.log10(2), "log2": 1.0}  # what an octave of power or magnitude counts
_AT_ONCE = 128  # frames whose spectra fit a processor's cache


@dataclass(frozen=True)
class Dct:
    """A cosine transform (DCT-II) of the bands: c[j] = f[j] sum_m L[m] cos(pi j (2 m + 1) / (2 bands)).

    norm `ortho`: f is sqrt(2 / bands), and for j = 0 sqrt(1 / bands), as librosa and torchaudio have it; `equal`:
    sqrt(2 / bands) for all, as TensorFlow; `none`: 2. lifter: > 0: c[j] is multiplied by 1 + lifter / 2 sin(pi (j +
    1) / lifter), as in librosa.
    """

    coefficients: int = 13
    norm: str = "ortho"
    lifter: float = 0.0

    def matrix(self, bands: int) -> Reals:
        """[coefficients, bands]."""
        j, m = np.arange(self.coefficients)[:, None], np.arange(bands)
        cosines = np.cos(np.pi * j * (2 * m + 1) / (2 * bands))
        cosines *= 2.0 if self.norm == "none" else math.sqrt(2 / bands)
        if self.norm == "ortho":
            cosines[0] /= math.sqrt(2)
        if self.lifter:
            cosines *= 1 + self.lifter / 2 * np.sin(np.pi * (j + 1) / self.lifter)
        return cosines


DCT_NORMS = ("ortho", "equal", "none")


@dataclass(frozen=True)
class Scaling:
    """What becomes of a logarithm or coefficient f: clip((f - mean) / deviation, least, most); mean and deviation are
    one number, or one for each feature. cuts: to int8 by a cast, towards zero, instead of to the nearest integer."""

    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    least: float = -math.inf
    most: float = math.inf
    cuts: bool = False

    def ends(self, quant: Quant, dtype: DType = "s8") -> tuple[int, int]:
        """`least` and `most` as integers of that scale and zero point."""
        scale, zero = quant.per_tensor
        low, high = INT_RANGE[dtype]
        least, most = (
            int(np.clip(np.round(np.clip(bound / scale + zero, -1e6, 1e6)), low, high))
            for bound in (self.least, self.most)
        )
        return least, most


@dataclass(frozen=True)
class Declared:
    """Settings. window, step: samples; length: points of the transform. taper: the window's name.

    peak: what a sample of 32768 stands for. power: 2, or 1 for magnitudes, times `factor`. log: `ln`, `log10`, `log2`
    or `dB` of max(band + add, floor). hop: frames for which a model that sees a window of them runs again.
    """

    rate: int = 16000
    window: int = 480
    step: int = 160
    length: int = 512
    taper: str = "hann"
    periodic: bool = True
    emphasis: float = 0.0
    peak: float = 1.0
    power: int = 2
    factor: float = 1.0
    mel: Mel = field(default_factory=Mel)
    log: str = "ln"
    floor: float = 0.0
    add: float = 0.0
    dct: Dct | None = None
    scaling: Scaling = field(default_factory=Scaling)
    hop: int = 1
    axes: ClassVar[int] = 1
    widths: ClassVar[tuple[DType, ...]] = ("s8",)

    def __post_init__(self) -> None:
        """TinycError for settings that do not fit each other."""
        check_transform(self.length)
        if not 0 < self.step <= self.window <= self.length:
            raise TinycError(
                f"a window of {self.window} samples every {self.step} for a transform of {self.length}: a step is at "
                "most a window, and a window at most a transform"
            )
        if self.window % 2 or self.step % 2:
            raise TinycError(f"a window of {self.window} samples every {self.step}: both have to be even")
        if not 0 <= self.mel.low_hz < self.mel.high_hz <= self.rate / 2:
            raise TinycError(
                f"bands from {self.mel.low_hz:g} to {self.mel.high_hz:g} Hz of audio of {self.rate} Hz, which ends at "
                f"{self.rate / 2:g} Hz"
            )
        empty = np.flatnonzero(~self.mel.matrix(self.length, self.rate).any(axis=1))
        if len(empty):
            raise TinycError(
                f"band {empty[0]} of {self.mel.bands} lies between two bins of {self.rate / self.length:g} Hz",
                hint="take fewer bands, a longer transform, or a higher `low_hz`",
            )
        if self.dct is not None and self.dct.coefficients > self.mel.bands:
            raise TinycError(f"{self.dct.coefficients} coefficients of {self.mel.bands} bands are too many")
        if not self.scaling.least < self.scaling.most:
            raise TinycError(f"features from {self.scaling.least:g} to {self.scaling.most:g}: `least` is below `most`")
        for name in ("mean", "deviation"):
            given = len(getattr(self.scaling, name))
            if given not in (1, self.channels):
                raise TinycError(f"`{name}` has {given} numbers for {self.channels} features")

    @property
    def channels(self) -> int:
        """Features of a frame."""
        return self.mel.bands if self.dct is None else self.dct.coefficients

    @property
    def before(self) -> int:
        """Samples in front of a window that it is computed from: with a pre-emphasis one, kept as two."""
        return 2 if self.emphasis_steps else 0

    @property
    def emphasis_steps(self) -> int:
        """The pre-emphasis in 1 / 2^14."""
        return round(self.emphasis * (1 << EMPHASIS_BITS))

    def window_table(self) -> Array:
        """int32 [window]."""
        unit = window_unit(self.length)
        return np.minimum(np.round(window(self.taper, self.window, self.periodic) * unit), 2**31 - 1).astype(np.int32)

    @cached_property
    def bins(self) -> tuple[int, int]:
        """The first bin of the spectrum that is used, and the first behind the last."""
        used = np.flatnonzero(self.mel.matrix(self.length, self.rate).any(axis=0))
        return int(used[0]), int(used[-1]) + 1

    def weights(self) -> Array:
        """int32 [bands, bins], in 1 / 2^16."""
        begin, end = self.bins
        matrix = self.mel.matrix(self.length, self.rate)[:, begin:end]
        return np.minimum(np.round(matrix * (1 << WEIGHT_BITS)), (1 << WEIGHT_BITS) - 1).astype(np.int32)

    @cached_property
    def units(self) -> Reals:
        """[bands]: what a count of a band stands for while samples are not shifted up."""
        unit = unit_of(self.length, self.power, self.emphasis_steps != 0)
        return (self.peak / 32768) ** self.power * unit * self.factor * self.mel.norms()

    def added(self) -> Array | None:
        """uint64 [bands], or None: `add` in counts."""
        if not self.add:
            return None
        counts = np.round(self.add / self.units)
        if counts.max() >= 1 << ADD_BITS or counts.min() < 1:
            raise TinycError(
                f"`add` is {self.add:g}; with the scale of these bands it must be from {self.units.max():g} to "
                f"{self.units.min() * (1 << ADD_BITS):g}"
            )
        return counts.astype(np.uint64)

    def least_logs(self) -> Array:
        """int32 [bands]: the logarithm of `floor`, to base 2 of counts."""
        if not self.floor:
            return np.full(self.mel.bands, -(1 << 30), np.int32)
        octaves = np.log2(self.floor / self.units)
        return np.round(np.clip(octaves, -1000, 1000) * (1 << FRACTION)).astype(np.int32)

    @property
    def octave(self) -> float:
        """What the logarithm grows by where a band doubles."""
        return 20 / self.power * math.log10(2) if self.log == "dB" else LOGS[self.log]

    @cached_property
    def affine(self) -> tuple[Reals, Reals]:
        """(factor [features, bands] or [bands], offset [features]): from logarithms to base 2 of counts to features."""
        mean, deviation = (np.array(part, np.float64) for part in (self.scaling.mean, self.scaling.deviation))
        constant = self.octave * np.log2(self.units)
        if self.dct is None:
            return np.broadcast_to(self.octave / deviation, constant.shape), (constant - mean) / deviation
        matrix = self.dct.matrix(self.mel.bands)
        deviation = np.broadcast_to(deviation, len(matrix))
        return matrix * self.octave / deviation[:, None], (matrix @ constant - mean) / deviation

    def projection(self, quant: Quant) -> tuple[SpectrumProject, Array, Array]:
        """(operator, factors, offsets) to int8 of a scale and zero point."""
        scale, zero = quant.per_tensor
        factor, offset = self.affine
        try:
            bits, factors, offsets = fixed_point(factor / scale, offset / scale + zero)
        except TinycError as error:
            message = f"features of a logarithm do not fit int8 with scale {scale:g}, zero point {zero}"
            raise TinycError(message, hint=error.message) from error
        return SpectrumProject(bits, *self.scaling.ends(quant), self.scaling.cuts), factors, offsets

    @one_thread
    def logarithms(self, samples: Array) -> Array:
        """int16 [n] or [recordings, n] -> int32 [.., frames, bands]: what the device computes before the scaling."""
        return frames_of(samples, self.window, self.step, self._logs, _AT_ONCE)

    @one_thread
    def features(self, samples: Array) -> npt.NDArray[np.float32]:
        """int16 [n] or [recordings, n] -> float32 [frames, features] or [recordings, frames, features].

        What the device's integers stand for, to train with, before they become the int8 of a model. A sample before
        the first one counts as 0. No frame where there are fewer samples than a window.
        """
        factor, offset = self.affine
        octaves = self.logarithms(samples) / float(1 << FRACTION)
        sums = octaves * factor if factor.ndim == 1 else octaves @ factor.T
        return np.clip(sums + offset, self.scaling.least, self.scaling.most).astype(np.float32)

    def quantized(self, samples: Array, scale: float, zero: int) -> npt.NDArray[np.int8]:
        """The same as the model gets it from the library: int8 of its input's scale and zero point."""
        attrs, factor, offset = self.projection(quant_of(scale, zero))
        p = ProjectParams(attrs.bits, attrs.least, attrs.most, attrs.cuts)
        octaves = self.logarithms(samples)
        integers = projected(p, octaves.reshape(-1, self.mel.bands), factor, offset)
        return integers.reshape(*octaves.shape[:-1], self.channels)

    def _logs(self, frames: Array, first: Array) -> Array:
        """int16 [frames, window], the samples before them [frames] -> int32 [frames, bands]."""
        begin, end = self.bins
        p = SpectrumParams(self.length, 0, self.emphasis_steps)
        bins, shift = spectra(p, frames, first, self._window)
        x = powers(bins, begin, end)
        if self.power == 1:
            x = roots(x).astype(np.uint32)
        return logs(self.power, banded(self._bands, x), shift, self._least, self._added).T

    @cached_property
    def _window(self) -> Array:
        return self.window_table()

    @cached_property
    def _bands(self) -> BandsParams:
        return BandsParams(self.weights())

    @cached_property
    def _least(self) -> Array:
        return self.least_logs()

    @cached_property
    def _added(self) -> Array | None:
        return self.added()
