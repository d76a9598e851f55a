# SPDX-License-Identifier: Apache-2.0
"""Constants that a model holds as integers: they stay integers through every transpose and reshape on the way.

A Grid carries, element by element, the scale and zero point that its integers are meant with, so whatever
moves the integers moves those along, and which axis they belong to is read off at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Quant

Move = Callable[[Array], Array]
# Element type -> the type that holds it here, and how much is taken from its numbers.
HELD: Mapping[type, tuple[DType, int]] = MappingProxyType(
    {
        np.int8: ("s8", 0),
        np.uint8: ("s8", 128),
        np.int16: ("s16", 0),
        np.uint16: ("s16", 32768),
        np.int32: ("s32", 0),
    }
)
SHIFT: Mapping[DType, int] = MappingProxyType({"s8": 128, "s16": 32768})  # of unsigned tensors held so


@dataclass(frozen=True, slots=True)
class Grid:
    """reals = scale * (ints - zero), all three of one shape; `dtype` is that of the integers (signed). computed: the
    file computes them of others, clipped to the bits that they have (QCDQ: QuantizeLinear, Clip, DequantizeLinear)."""

    ints: npt.NDArray[np.int64]
    scale: npt.NDArray[np.float32]
    zero: npt.NDArray[np.int64]
    dtype: DType
    computed: bool = False

    def moved(self, move: Move) -> Grid:
        """After a function that only moves elements."""
        return Grid(move(self.ints), move(self.scale), move(self.zero), self.dtype, self.computed)

    def reals(self) -> npt.NDArray[np.float32]:
        """DequantizeLinear: the difference is exact, the product is rounded to float32."""
        return np.asarray((self.ints - self.zero).astype(np.float32) * self.scale, np.float32)

    def centred(self, narrow: bool) -> Grid:
        """The same reals with zero point 0, in as many bits as they had, or 8 or 16.

        narrow: in 4 bits where the file clips them to that.
        """
        ints = self.ints - self.zero
        kinds: tuple[DType, ...] = ("s4", "s8", "s16") if self.computed and narrow else (self.dtype, "s8", "s16")
        for dtype in kinds:
            lo, hi = INT_RANGE[dtype]
            if ints.size and ints.min() >= lo and ints.max() <= hi:
                return Grid(ints, self.scale, np.zeros_like(self.zero), dtype, self.computed)
        return self

    def in_8_bits(self) -> Grid:
        """The same reals, integers of 4 bits around 0 as multiples that fill 8."""
        times = INT_RANGE["s8"][1] // max(int(np.abs(self.ints).max(initial=0)), 1)
        scale = np.asarray(self.scale / times, np.float32)
        return Grid(self.ints * times, scale, self.zero, "s8") if self.dtype == "s4" else self

    def array(self) -> Array:
        """The integers in their own type."""
        return self.ints.astype(NUMPY_DTYPE[self.dtype])

    def quant(self, axis: int | None = None) -> Quant | None:
        """One scale, or one per index of `axis`; None if they differ along another axis (blocks)."""
        if self.ints.size == 0:
            return None
        along = [k for k in range(self.ints.ndim) if k != axis] if axis is not None else list(range(self.ints.ndim))
        first = tuple(slice(0, 1) if k in along else slice(None) for k in range(self.ints.ndim))
        scale, zero = self.scale[first], self.zero[first]
        if not ((self.scale == scale).all() and (self.zero == zero).all()):
            return None
        if (scale == scale.flat[0]).all() and (zero == zero.flat[0]).all():
            return Quant((float(scale.flat[0]),), (int(zero.flat[0]),))
        return Quant(tuple(map(float, scale.ravel())), tuple(map(int, zero.ravel())), axis)
