# SPDX-License-Identifier: Apache-2.0
"""The integers of softmax on int16: two interpolated tables, as TensorFlow Lite Micro's reference kernel has them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize, round_half_away
from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, of_last_axis
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, s16_to_s16
from tinyc.ops.tables import need_scale

_INTERVALS = 512
_SPAN = 10.0  # exp is tabulated over [-10, 0], which the 65,536 integers cover
_HALF_UP = 64  # of the 7 bits of interpolation


@dataclass(frozen=True, slots=True)
class WideSoftmax:
    """exps, reciprocals: int16 [513] by intervals of 128 integers, from -32768 on. mult, shift: to exp's integers."""

    exps: npt.NDArray[np.int16]
    reciprocals: npt.NDArray[np.int16]
    mult: int
    shift: int

    def run(self, x: Array) -> Array:
        wide = x.astype(np.int64)
        below = wide - wide.max(axis=-1, keepdims=True)
        scaled = requantize(below, self.mult, self.shift, Rounding.DOUBLE) + 32767
        e = _look_up(self.exps, np.clip(scaled, -32768, 32767))
        total = e.sum(axis=-1, keepdims=True)
        zeros = 31 - np.floor(np.log2(total)).astype(np.int64)  # leading zeros of 32 bits
        shifted = ((total << (zeros - 1)) + (1 << 13)) >> 14
        reciprocal = _look_up(self.reciprocals, np.clip(shifted - ((1 << 15) + (1 << 16)), -32768, 32767))
        right = 31 - zeros
        y = (e * reciprocal + (np.int64(1) << (right - 1))) >> right
        return np.clip(y, 0, 32767).astype(np.int16)


def _look_up(table: npt.NDArray[np.int16], v: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    index = 256 + (v >> 7)
    base = table[index].astype(np.int64)
    slope = table[index + 1].astype(np.int64) - base
    return np.asarray(base + ((slope * (v & 127) + _HALF_UP) >> 7))


def _table(function: Callable[[Array], Array], low: float, high: float, real: type) -> npt.NDArray[np.int16]:
    """Q0.15 values at the ends of 512 intervals; each moved by half of what interpolation misses in its middle.

    real: float32 or float64. TensorFlow Lite Micro has the one, desktop LiteRT the other: two numbers differ.
    """
    step, scale = real((high - low) / _INTERVALS), real(32768)
    starts = real(low) + np.arange(_INTERVALS + 1, dtype=real) * step
    ends = function(starts) * scale
    middles = function(starts[:-1] + step / real(2)) * scale
    rounded: Array = round_half_away(ends[:-1]).astype(real)
    missed = round_half_away((ends[1:] + rounded) / real(2)) - round_half_away(middles)
    values = np.append(rounded - round_half_away(missed / 2), round_half_away(ends[-1]))
    return np.clip(values, -32768, 32767).astype(np.int16)


def prepare_wide(site: Site) -> WideSoftmax:
    """TinycError unless the output is quantized by 1/32768 and 0."""
    need_scale(site, 1 / 32768, 0)
    scale, _ = site.scale_zero(site.x(0))
    factor = scale * float(np.float32(site.attrs.beta)) / (_SPAN / 65535.0)
    mult, shift = quantize_multiplier(factor)
    real = np.float32 if site.numerics is Numerics.TFLM else np.float64
    exps, reciprocals = _table(np.exp, -_SPAN, 0.0, real), _table(lambda f: 1 / (1 + f), 0.0, 1.0, real)
    return WideSoftmax(exps, reciprocals, mult, shift)


def _scratch(site: Site, p: WideSoftmax) -> int:
    """The exponentials of one row."""
    return 2 * site.x(0).shape[-1]


def lower_wide(site: Site, p: WideSoftmax) -> Call:
    """tc_softmax_s16: the whole tensor."""
    depth = site.x(0).shape[-1]
    fields: dict[str, int | float | str | Const] = {
        "exp_table": Const(p.exps, "[513] exp over [-10, 0], Q0.15", "exp"),
        "reciprocal_table": Const(p.reciprocals, "[513] 1 / (1 + f) over [0, 1], Q0.15", "reciprocal"),
        "mult": p.mult,
        "shift": p.shift,
        "outer": site.x(0).elements // depth,
        "depth": depth,
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_softmax_s16_t", fields))


KERNEL = Kernel(
    "tc_softmax_s16",
    offered(lower_wide, scratch=_scratch, cost=CountedCost("tc_softmax_s16", of_last_axis)),
    when=(s16_to_s16,),
    inplace=(0,),
)
