# SPDX-License-Identifier: Apache-2.0
"""From a camera's frame to a model's input: colors, crop, size, scale. Settings, and a function of NumPy arrays with
the integers of the device.

    pixels of the format -> the part that is wanted -> the model's size, from 0 to 255 -> the model's integers
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.one_thread import one_thread
from tinyc.base.requantize import quantize_array
from tinyc.frontend.front import quant_of
from tinyc.frontend.mel import Reals
from tinyc.frontend.resizing import nearest_places, taps_of, used_taps
from tinyc.ir.graph import INT_RANGE, Array, DType, Quant
from tinyc.ops.picture import Picture, decoded, unit_of
from tinyc.ops.resample_columns import BITS, Taps, resampled
from tinyc.ops.resize_bilinear import ResizeBilinear
from tinyc.ops.resize_bilinear import int_ref as interpolated

MOST_SIDE = 8192  # pixels
_AT_ONCE = 16  # frames whose pixels fit a processor's cache


@dataclass(frozen=True)
class Crop:
    """A part of the frame, in pixels."""

    left: int
    top: int
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}+{self.left}+{self.top}"


@dataclass(frozen=True)
class Camera:
    """Settings. format: one of `ops.picture.FORMATS`; width, height: of the frame, in pixels.

    crop: the part that is taken; None: all. fits: the largest part in the middle that has the model's proportions.
    resize: one of RESIZES. blue_first: the model wants blue, green, red. video: of YUV, Y from 16 to 235. What the
    model was trained on is (pixel * peak / 255 - mean) / deviation, both one number or one for each channel. size:
    (height, width) of the model's input, and channels; None: the model's.
    """

    format: str
    width: int
    height: int
    crop: Crop | None = None
    fits: bool = False
    resize: str = "bilinear"
    blue_first: bool = False
    video: bool = False
    peak: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    size: tuple[int, int] | None = None
    channels: int | None = None

    def __post_init__(self) -> None:
        """TinycError for settings that do not fit each other."""
        if self.format.startswith("bayer") and min(self.width, self.height) < 2:
            raise TinycError(f"a Bayer frame of {self.width}x{self.height}: it has two rows and columns at least")
        part = self.crop
        if part is not None:
            inside = part.left + part.width <= self.width and part.top + part.height <= self.height
            if not inside or min(part.width, part.height) < 1:
                raise TinycError(f"the part {part} does not lie in a frame of {self.width}x{self.height}")
        for name in ("mean", "deviation"):
            given = len(getattr(self, name))
            if given not in (1, self.channels or given):
                channels = "one channel" if self.channels == 1 else f"{self.channels} channels"
                raise TinycError(f"`{name}` has {given} numbers; the model's input has {channels}")

    def of(self, size: tuple[int, int], channels: int) -> Camera:
        """The same for a model's input. TinycError where other sizes were declared."""
        for said, own in ((self.size, size), (self.channels, channels)):
            if said not in (None, own):
                raise TinycError(f"the settings say {_size(said)}, the model's input has {_size(own)}")
        if len(size) != 2 or not all(isinstance(side, int | np.integer) and 0 < side <= MOST_SIDE for side in size):
            raise TinycError(f"size {size!r}: two whole numbers, height and width, from 1 to {MOST_SIDE}")
        if channels not in (1, 3):
            raise TinycError(f"a picture has 1 or 3 channels, the model's input has {channels}")
        return replace(self, size=size, channels=channels)

    @property
    def frame_shape(self) -> tuple[int, int, int]:
        """(lines, units of a line, bytes of a unit)."""
        pixels, size = unit_of(self.format)
        return self.height, -(-self.width // pixels), size

    @property
    def part(self) -> Crop:
        """What is taken of the frame."""
        if self.crop is not None:
            return self.crop
        if not self.fits:
            return Crop(0, 0, self.width, self.height)
        height, width = self.declared_size
        w = max(min(self.width, self.height * width // height), 1)
        h = max(min(self.height, self.width * height // width), 1)
        return Crop((self.width - w) // 2, (self.height - h) // 2, w, h)

    @property
    def declared_size(self) -> tuple[int, int]:
        """`size`. TinycError where there is none."""
        if self.size is None:
            hint = "give size=(height, width), or `size` in the settings"
            raise TinycError("nothing says how large the model's input is", hint=hint)
        return self.size

    @property
    def colors(self) -> int:
        """Channels of the model's input."""
        return self.channels or 3

    @cached_property
    def steps(self) -> tuple[Picture, ResizeBilinear | tuple[Taps | None, Taps | None]]:
        """The pixels that are taken, and what makes the model's size of them: across, then down; None: nothing."""
        part, (height, width) = self.part, self.declared_size
        if self.resize == "nearest":
            picked = (nearest_places(part.height, height), nearest_places(part.width, width))
            return self._pixels(*picked), (None, None)
        if self.resize == "bilinear":
            rows, down = used_taps(part.height, height)
            columns, across = used_taps(part.width, width)
            plain = all(not weight for _, _, weight in (*down, *across))
            same = plain and (len(rows), len(columns)) == (height, width)
            return self._pixels(rows, columns), (None, None) if same else ResizeBilinear(down, across)
        across_taps = taps_of(self.resize, part.width, width)
        down_taps = taps_of(self.resize, part.height, height)
        whole = self._pixels(tuple(range(part.height)), tuple(range(part.width)))
        return whole, (_needed(across_taps, part.width), _needed(down_taps, part.height))

    def _pixels(self, rows: tuple[int, ...], columns: tuple[int, ...]) -> Picture:
        part = self.part
        return Picture(
            self.format,
            tuple(part.top + row for row in rows),
            tuple(part.left + column for column in columns),
            self.colors,
            self.blue_first,
            self.video,
        )

    def tables(self, quant: Quant, dtype: DType = "s8") -> Array:
        """[channels, 256], or [256] where all are the same: the model's integer for each pixel less 128 as a byte."""
        scale, zero = quant.per_tensor
        pixel = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float64) + 128
        columns = (np.broadcast_to(np.array(part, np.float64), self.colors) for part in (self.mean, self.deviation))
        mean, deviation = (column[:, None] for column in columns)
        reals = (pixel * self.peak / 255 - mean) / deviation
        table = np.asarray(quantize_array(reals, scale, zero, *INT_RANGE[dtype]))
        table = table.astype(np.int8 if dtype == "s8" else np.uint8)
        return table[0] if (table == table[0]).all() else table

    @one_thread
    def pixels(self, frames: Array) -> npt.NDArray[np.uint8]:
        """uint8 frames [.., lines, bytes of a line], or with their units or bytes apart -> uint8 [.., height, width,
        channels]: the picture that the model sees, before it becomes its integers. TinycError for other sizes."""
        x = np.asarray(frames)
        lines, units, size = self.frame_shape
        tails = ((lines, units * size), (lines, units, size))
        leads = [x.shape[: -len(tail)] for tail in tails if x.shape[-len(tail) :] == tail]
        if x.dtype != np.uint8 or not leads:
            raise TinycError(
                f"frames are uint8 [.., {lines}, {units * size}], {lines} lines of {units * size} bytes of "
                f"{self.format}; these are {x.dtype} {list(x.shape)}"
            )
        all_frames = x.reshape(-1, *self.frame_shape)
        seen = np.empty((len(all_frames), *self.declared_size, self.colors), np.uint8)
        for at in range(0, len(all_frames), _AT_ONCE):
            seen[at : at + _AT_ONCE] = self._seen(all_frames[at : at + _AT_ONCE])
        return seen.reshape(*leads[0], *seen.shape[1:])

    def _seen(self, frames: Array) -> Array:
        """uint8 [n, lines, units, bytes] -> uint8 [n, height, width, channels]."""
        picture, resize = self.steps
        x = decoded(picture, frames)
        if isinstance(resize, ResizeBilinear):
            (x,) = interpolated(resize, x)
        else:
            for axis, taps in zip((2, 1), resize, strict=True):
                x = x if taps is None else resampled(taps, x, axis)
        return x.view(np.uint8) ^ 128

    def features(self, frames: Array) -> npt.NDArray[np.float32]:
        """What these pixels stand for, float32 [.., height, width, channels]: to train with."""
        mean, deviation = (np.array(part, np.float64) for part in (self.mean, self.deviation))
        reals: Reals = (self.pixels(frames) * (self.peak / 255) - mean) / deviation
        return reals.astype(np.float32)

    def quantized(self, frames: Array, scale: float, zero: int) -> npt.NDArray[np.int8]:
        """The same as the model gets it from the library: int8 of its input's scale and zero point."""
        tables = np.atleast_2d(self.tables(quant_of(scale, zero)))
        pixels = self.pixels(frames) ^ 128
        return np.asarray(tables[np.arange(self.colors) % len(tables), pixels])


def _needed(taps: Taps, count: int) -> Taps | None:
    """None where they change nothing."""
    same = taps.firsts == tuple(range(count)) and all(own == (1 << BITS,) for own in taps.weights)
    return None if same else taps


def _size(value: object) -> str:
    return f"{value[0]}x{value[1]} (height x width)" if isinstance(value, tuple) else f"{value} channels"
