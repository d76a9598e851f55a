# SPDX-License-Identifier: Apache-2.0
"""What every front end is: settings, nodes for a frame, and the same as a function of NumPy arrays."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from tinyc.base.errors import TinycError
from tinyc.ir.graph import INT_RANGE, Array, DType, Quant, Value


def quant_of(scale: float, zero: int, dtype: DType = "s8") -> Quant:
    """The quantization of a model's input. TinycError for what is none."""
    least, most = INT_RANGE[dtype]
    if not 0 < scale < math.inf or not least <= zero <= most or zero != int(zero):
        raise TinycError(
            f"scale {scale:g} and zero point {zero:g} of int{dtype[1:]}: a scale is above 0, a zero point a whole "
            f"number from {least} to {most}"
        )
    return Quant((float(scale),), (int(zero),))


class FrontEnd(Protocol):
    """The settings, as a frozen dataclass."""

    @property
    def rate(self) -> int:
        """Samples in a second, those of all axes together."""

    @property
    def axes(self) -> int:
        """How many samples belong to one moment; they follow each other."""

    @property
    def window(self) -> int:
        """Samples that a frame is computed from."""

    @property
    def step(self) -> int:
        """Samples from one frame to the next, at most a window."""

    @property
    def before(self) -> int:
        """Samples in front of a window that are read too; zeros count as there after a reset."""

    @property
    def channels(self) -> int:
        """Features of a frame."""

    @property
    def hop(self) -> int:
        """Frames for which a model that sees a window of them runs again."""

    @property
    def widths(self) -> tuple[DType, ...]:
        """What types features may have for a model."""

    def features(self, samples: Array) -> Array:
        """int16 [n] (several axes: [n, axes]), or recordings of such, -> [.., frames, channels]: to train with."""

    def quantized(self, samples: Array, scale: float, zero: int) -> Array:
        """The same as the library computes it: int8 of the scale and zero point of the model's input."""


class FrameNodes(Protocol):
    """The operators of a front end. It is made of a `Draft` and the settings."""

    def run(self, x: Value, before: Value | None, frames: int) -> tuple[Sequence[Value], Value]:
        """(the features of a run's frames, in parts one behind the other, what was computed of the samples last).

        x: int16, the new samples of the run. before: the held ones in front of them, None if windows do not overlap.
        """

    def finish(self) -> None:
        """After the last frame of a run: states that go from run to run."""

    def silence(self) -> bytes:
        """The features of silence, or a part that repeats in them."""


class FrameByFrame(ABC):
    """`FrameNodes.run` of front ends that compute one frame after the other."""

    @abstractmethod
    def frame(self, x: Value, before: Value | None, number: int) -> tuple[Value, Value]:
        """(what is computed of the samples directly, the int8 features [channels]) of frame `number` of a run."""

    def run(self, x: Value, before: Value | None, frames: int) -> tuple[Sequence[Value], Value]:
        """All of them."""
        per_frame = [self.frame(x, before, number) for number in range(frames)]
        return [features for _, features in per_frame], per_frame[-1][0]
