# SPDX-License-Identifier: Apache-2.0
"""A front end for models that see samples themselves: windows of several axes, each scaled as in the training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.frontend.declared import Scaling
from tinyc.frontend.draft import Draft
from tinyc.frontend.front import quant_of
from tinyc.frontend.mel import Reals
from tinyc.ir.graph import Array, DType, Quant, Value
from tinyc.ops.axes_scale import AxesScale, fixed_point, scaled


@dataclass(frozen=True)
class RawFront:
    """Settings. unit: what a count of an axis stands for; it, and mean and deviation of the scaling, are one number or
    one for each axis. hz: samples of each axis in a second. hop: for how many new samples of all axes the model runs
    again."""

    axes: int = 3
    hz: float = 100.0
    unit: tuple[float, ...] = (1.0,)
    scaling: Scaling = field(default_factory=Scaling)
    hop: int = 1
    before: ClassVar[int] = 0
    widths: ClassVar[tuple[DType, ...]] = ("s8", "s16")

    def __post_init__(self) -> None:
        """TinycError for settings that do not fit each other."""
        given = {"unit": self.unit, "mean": self.scaling.mean, "deviation": self.scaling.deviation}
        for name, numbers in given.items():
            if len(numbers) not in (1, self.axes):
                raise TinycError(f"`{name}` has {len(numbers)} numbers for {self.axes} axes")

    @property
    def channels(self) -> int:
        """Numbers of a frame, which is one sample of all axes."""
        return self.axes

    @property
    def window(self) -> int:
        """Numbers of all axes in a frame."""
        return self.axes

    @property
    def step(self) -> int:
        """Numbers of all axes from frame to frame."""
        return self.axes

    @property
    def rate(self) -> int:
        """Numbers of all axes in a second, at least 1."""
        return max(round(self.hz * self.axes), 1)

    def affine(self) -> tuple[Reals, Reals]:
        """(factor [axes], offset [axes]): from counts to what the model was trained on."""
        unit, mean, deviation = (
            np.broadcast_to(np.array(part, np.float64), self.axes)
            for part in (self.unit, self.scaling.mean, self.scaling.deviation)
        )
        return unit / deviation, -mean / deviation

    def operator(self, quant: Quant, dtype: DType) -> tuple[AxesScale, Array, Array]:
        """(operator, factors, offsets) to integers of a scale and zero point. TinycError where they do not fit."""
        scale, zero = quant.per_tensor
        factor, offset = self.affine()
        try:
            bits, factors, offsets = fixed_point(factor / scale, offset / scale + zero)
        except TinycError as error:
            message = f"samples do not fit int{dtype[1:]} with scale {scale:g}, zero point {zero}"
            raise TinycError(message, hint="check `unit`, `mean` and `deviation`") from error
        return AxesScale(bits, *self.scaling.ends(quant, dtype), self.scaling.cuts, dtype), factors, offsets

    def _samples(self, samples: Array) -> Array:
        """int16 [.., n, axes]."""
        x = np.asarray(samples)
        if self.axes == 1 and x.ndim == 1:
            x = x[:, None]
        if x.dtype != np.int16 or x.ndim not in (2, 3) or x.shape[-1] != self.axes:
            raise TinycError(f"samples are int16 [.., n, {self.axes}], not {x.dtype} {list(x.shape)}")
        return x

    def features(self, samples: Array) -> npt.NDArray[np.float32]:
        """int16 [n, axes] or [recordings, n, axes], of one axis [n] too -> float32 [.., n, axes]: what they stand for,
        to cut into windows and train with."""
        factor, offset = self.affine()
        scaled = self._samples(samples) * factor + offset
        return np.clip(scaled, self.scaling.least, self.scaling.most).astype(np.float32)

    def quantized(self, samples: Array, scale: float, zero: int, dtype: DType = "s8") -> Array:
        """The same as the model gets it from the library: integers of its input's scale, zero point and type."""
        attrs, factor, offset = self.operator(quant_of(scale, zero, dtype), dtype)
        return scaled(attrs, self._samples(samples), factor, offset)


class RawNodes:
    """The same as one operator, whatever the number of samples."""

    def __init__(self, draft: Draft, front: RawFront) -> None:
        self._draft, self._front = draft, front

    def run(self, x: Value, before: Value | None, frames: int) -> tuple[Sequence[Value], Value]:
        """The new samples, scaled."""
        draft = self._draft
        attrs, factor, offset = self._front.operator(draft.quant, draft.dtype)
        tables = (draft.table("factor", factor), draft.table("offset", offset))
        feature = draft.value("feature", x.shape, draft.dtype, draft.quant)
        draft.node(attrs, (x, *tables), (feature,))
        return (feature,), feature

    def finish(self) -> None:
        """Nothing lasts but what the model sees."""

    def silence(self) -> bytes:
        """A sensor that says nothing."""
        still = np.zeros((1, self._front.axes), np.int16)
        scale, zero = self._draft.quant.per_tensor
        return self._front.quantized(still, scale, zero, self._draft.dtype).tobytes()
