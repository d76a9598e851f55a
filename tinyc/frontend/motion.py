# SPDX-License-Identifier: Apache-2.0
"""A front end for accelerometers and the like: numbers of windows over several axes, by their parameters.

window of samples -> mean, root mean square, deviation, ends, crossings, peaks of the spectrum -> scaling -> int8, or
float32 for decision trees and models that compute in it
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.frontend.declared import Scaling
from tinyc.frontend.draft import Draft
from tinyc.frontend.front import FrameByFrame, quant_of
from tinyc.frontend.mel import Reals
from tinyc.ir.graph import Array, DType, Quant, Value
from tinyc.kernel.site import Act
from tinyc.ops.add import Add
from tinyc.ops.convert import Convert
from tinyc.ops.motion import COUNT_BITS, FEATURES, MOST_AXES, MOST_PEAKS, MOST_WINDOW, Motion, moved
from tinyc.ops.mul import Mul
from tinyc.ops.spectrum_log import FRACTION
from tinyc.ops.spectrum_project import ProjectParams, SpectrumProject, fixed_point, projected

_AT_ONCE = 256  # windows


@dataclass(frozen=True)
class MotionFront:
    """Settings. samples, every: of a window, and from one to the next, in samples of all axes. unit: what a count of an
    axis stands for, one number or one for each axis. rate: Hz. hop: windows for which a model that sees several of them
    runs again."""

    axes: int = 3
    hz: float = 100.0
    samples: int = 128
    every: int = 64
    unit: tuple[float, ...] = (1.0,)
    features_of: tuple[str, ...] = FEATURES[:3]
    peaks: int = 0
    scaling: Scaling = field(default_factory=Scaling)
    hop: int = 1
    before: ClassVar[int] = 0
    widths: ClassVar[tuple[DType, ...]] = ("s8", "f32")

    def __post_init__(self) -> None:
        """TinycError for settings that do not fit each other."""
        if not 1 <= self.axes <= MOST_AXES or not 2 <= self.samples <= MOST_WINDOW:
            raise TinycError(
                f"a window of {self.samples} samples of {self.axes} axes: from 2 to {MOST_WINDOW} samples, and at most "
                f"{MOST_AXES} axes"
            )
        if not 0 < self.every <= self.samples:
            raise TinycError(f"a window of {self.samples} samples every {self.every}: a step is at most a window")
        if not 0 <= self.peaks <= min(MOST_PEAKS, (self.samples - 1) // 2):
            raise TinycError(f"{self.peaks} peaks of the spectrum of {self.samples} samples: at most {MOST_PEAKS}")
        if not self.operator(0).results:
            raise TinycError("no features are asked for", hint=f"`features` may have {', '.join(FEATURES)}")
        counts = {"unit": self.axes, "mean": self.channels, "deviation": self.channels}
        given = {"unit": self.unit, "mean": self.scaling.mean, "deviation": self.scaling.deviation}
        for name, count in counts.items():
            if len(given[name]) not in (1, count):
                what = "axes" if name == "unit" else "features"
                raise TinycError(f"`{name}` has {len(given[name])} numbers for {count} {what}")

    def operator(self, number: int) -> Motion:
        """Window `number` of those that begin in the samples held and new."""
        return Motion(self.axes, self.samples, self.features_of, self.peaks, number * self.every)

    @property
    def channels(self) -> int:
        """Features of a window."""
        return self.axes * self.operator(0).results

    @property
    def window(self) -> int:
        """Numbers of all axes in a window."""
        return self.samples * self.axes

    @property
    def step(self) -> int:
        """Numbers of all axes from window to window."""
        return self.every * self.axes

    @property
    def rate(self) -> int:
        """Numbers of all axes in a second, at least 1."""
        return max(round(self.hz * self.axes), 1)

    @cached_property
    def affine(self) -> tuple[Reals, Reals]:
        """(factor [channels], offset [channels]): from the operator's integers to features."""
        unit = np.broadcast_to(np.array(self.unit, np.float64), self.axes)
        own, count = unit / self.samples, np.full(self.axes, 2.0**-COUNT_BITS)
        size = own * 2 / self.samples * self.operator(0).size_unit
        columns = [count if name == "crossings" else own for name in self.features_of]
        columns += [count * self.hz / self.samples, size] * self.peaks
        mean, deviation = (np.array(part, np.float64) for part in (self.scaling.mean, self.scaling.deviation))
        return np.stack(columns, axis=1).reshape(-1) / deviation, np.broadcast_to(-mean / deviation, self.channels)

    def projection(self, quant: Quant) -> tuple[SpectrumProject, Array, Array]:
        """(operator, factors, offsets) to int8 of a scale and zero point."""
        scale, zero = quant.per_tensor
        factor, offset = self.affine
        try:
            bits, factors, offsets = fixed_point(factor * (1 << FRACTION) / scale, offset / scale + zero)
        except TinycError as error:
            message = f"features of motion do not fit int8 with scale {scale:g}, zero point {zero}"
            raise TinycError(message, hint="check `unit`, `mean` and `deviation`") from error
        return SpectrumProject(bits, *self.scaling.ends(quant), self.scaling.cuts), factors, offsets

    @one_thread
    def numbers(self, samples: Array) -> Array:
        """int16 [n, axes] or [recordings, n, axes], of one axis [n] too -> int32 [.., windows, channels]: the integers
        of the operator."""
        x = np.asarray(samples)
        if self.axes == 1 and x.ndim == 1:
            x = x[:, None]
        if x.dtype != np.int16 or x.ndim not in (2, 3) or x.shape[-1] != self.axes:
            raise TinycError(f"samples are int16 [.., n, {self.axes}], not {x.dtype} {list(x.shape)}")
        lines = x if x.ndim == 3 else x[None]
        count = max((lines.shape[1] - self.samples) // self.every + 1, 0)
        if count == 0 or len(lines) == 0:
            return np.zeros((*x.shape[:-2], count, self.channels), np.int32)
        view = np.lib.stride_tricks.sliding_window_view(lines, self.samples, axis=1)[:, :: self.every]
        windows = view.transpose(0, 1, 3, 2).reshape(-1, self.samples, self.axes)
        parts = [moved(self.operator(0), windows[at : at + _AT_ONCE]) for at in range(0, len(windows), _AT_ONCE)]
        return np.concatenate(parts).reshape(*x.shape[:-2], count, self.channels)

    def features(self, samples: Array) -> npt.NDArray[np.float32]:
        """int16 [n, axes] or [recordings, n, axes], of one axis [n] too -> float32 [.., windows, features]: what the
        device's integers stand for, axis by axis, to train with. No window where there are fewer samples."""
        factor, offset = self.affine
        scaled = self.numbers(samples) * factor + offset
        return np.clip(scaled, self.scaling.least, self.scaling.most).astype(np.float32)

    def quantized(self, samples: Array, scale: float, zero: int) -> npt.NDArray[np.int8]:
        """The same as the model gets it from the library: int8 of its input's scale and zero point."""
        attrs, factor, offset = self.projection(quant_of(scale, zero))
        p = ProjectParams(attrs.bits, attrs.least, attrs.most, attrs.cuts)
        numbers = self.numbers(samples)
        return projected(p, numbers.reshape(-1, self.channels), factor, offset).reshape(numbers.shape)


class MotionNodes(FrameByFrame):
    """The same as operators, window by window; nothing but samples lasts."""

    def __init__(self, draft: Draft, front: MotionFront) -> None:
        self._draft, self._front = draft, front

    def frame(self, x: Value, before: Value | None, number: int) -> tuple[Value, Value]:
        """What is computed of the samples directly, and the features in the model's type, of window `number` of the
        new samples x and those before."""
        draft, held = self._draft, (before,) if before is not None else ()
        numbers = draft.node(self._front.operator(number), (x, *held), name="motion")
        return numbers, self._reals(numbers) if draft.gives_reals else self._projected(numbers)

    def _projected(self, numbers: Value) -> Value:
        project, factor, offset = self._front.projection(self._draft.quant)
        tables = (self._draft.table("factor", factor), self._draft.table("offset", offset))
        return self._draft.node(project, (numbers, *tables), name="feature")

    def _reals(self, numbers: Value) -> Value:
        """number * factor + offset in float32, limited: `MotionFront.features` but for the rounding of each step."""
        draft, scaling = self._draft, self._front.scaling
        factor, offset = (draft.table(name, part.astype(np.float32)) for name, part in self._named_affine())
        x = draft.node(Convert("f32"), (numbers,), name="real")
        x = draft.node(Mul(Act()), (x, factor), name="scaled")
        return draft.node(Add(Act(scaling.least, scaling.most)), (x, offset), name="feature")

    def _named_affine(self) -> tuple[tuple[str, Reals], tuple[str, Reals]]:
        factor, offset = self._front.affine
        return ("factor", factor), ("offset", offset)

    def finish(self) -> None:
        """After the last window: nothing more."""

    def silence(self) -> bytes:
        """The features of a sensor that says nothing."""
        still = np.zeros((self._front.samples, self._front.axes), np.int16)
        if self._draft.gives_reals:
            return self._front.features(still).tobytes()
        return self._front.quantized(still, *self._draft.quant.per_tensor).tobytes()
