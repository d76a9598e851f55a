# SPDX-License-Identifier: Apache-2.0
"""Functions of one int16 number by tables: sigmoid and tanh as TensorFlow Lite has them, others interpolated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import round_half_away
from tinyc.ir.graph import Array
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct
from tinyc.kernel.site import Site
from tinyc.ops.gates import logistic_at, logistic_table, tanh_at
from tinyc.ops.tables import Table, need_scale

_INTERVALS = 512
_BEYOND = 4.0  # times the output's range: what is outside of that saturates all the same
_STEPS_OF_X = 3 * 4096.0  # places per unit of x, in TensorFlow Lite's tables


def is_s16(site: Site) -> bool:
    """int16 input and output, zero points 0, numerics other than onnx"""
    kinds = (site.x(0).dtype, site.y().dtype)
    if kinds != ("s16", "s16") or site.numerics is Numerics.ONNX:
        return False
    return site.scale_zero(site.x(0))[1] == 0 and site.scale_zero(site.y())[1] == 0


@dataclass(frozen=True, slots=True)
class Interpolated:
    """y = table[k] + (table[k + 1] - table[k]) * rest / 128, halves up; k and rest: of x + 32768 in 512 intervals."""

    table: npt.NDArray[np.int16]

    def run(self, x: Array) -> Array:
        wide = x.astype(np.int64)
        k = 256 + (wide >> 7)
        base = self.table[k].astype(np.int64)
        slope = self.table[k + 1].astype(np.int64) - base
        return np.asarray(base + ((slope * (wide & 127) + 64) >> 7)).astype(np.int16)


def interpolated(site: Site, function: Callable[[Array], Array]) -> Interpolated:
    """Of a function of float64 arrays over the input's range; entries are moved by half of what interpolation misses
    in the middle of their interval, as TensorFlow Lite's LUTPopulate does. What is not finite is the largest."""
    x_scale, _ = site.scale_zero(site.x(0))
    y_scale, _ = site.scale_zero(site.y())

    def steps(q: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        with np.errstate(all="ignore"):
            quotients = np.asarray(function(q * x_scale), np.float64) / y_scale
        most = _BEYOND * 32768
        return np.clip(np.nan_to_num(quotients, nan=most, posinf=most, neginf=-most), -most, most)

    starts = np.asarray(-32768 + 128 * np.arange(_INTERVALS + 1), np.float64)
    ends, middles = steps(starts), steps(starts[:-1] + 64)
    missed = round_half_away((ends[1:] + round_half_away(ends[:-1])) / 2) - round_half_away(middles)
    values = np.append(round_half_away(ends[:-1]) - round_half_away(missed / 2), round_half_away(ends[-1]))
    return Interpolated(np.clip(values, -32768, 32767).astype(np.int16))


def lower_interpolated(site: Site, p: Interpolated) -> Call:
    """tc_lut_s16: every element through the table."""
    table = Const(p.table, "[513] at every 128th int16", "lut")
    return Call((table, In(0), Out(), site.x(0).elements))


TABLE16_KERNEL = counted_kernel("tc_lut_s16", lower_interpolated, of_elements, when=(is_s16,), inplace=(0,))


@dataclass(frozen=True, slots=True)
class Logistic:
    """Sigmoid of int16, or tanh. place = (x * mult + 2^(shift - 1)) >> shift counts x in steps of 1 / (3 * 4096)."""

    mult: int
    shift: int
    is_tanh: bool

    def run(self, x: Array) -> Array:
        half = (1 << self.shift) >> 1
        place = (x.astype(np.int64) * self.mult + half) >> self.shift
        return (tanh_at(place) if self.is_tanh else logistic_at(place)).astype(np.int16)


def logistic(site: Site, *, is_tanh: bool) -> Logistic:
    """TinycError unless the output is quantized by 1/32768 and 0, and for what desktop LiteRT computes otherwise."""
    need_scale(site, 1 / 32768, 0)
    scale, _ = site.scale_zero(site.x(0))
    if site.numerics is Numerics.LITERT and scale in ((2.0**-12, 2.0**-11) if is_tanh else (2.0**-12,)):
        hint = "--numerics tflm gives the integers of TensorFlow Lite Micro"
        raise TinycError(f"LiteRT's {site.node.op} of int16 is not known for scale {scale}", site.node.where, hint)
    mult, shift = _multiplier(scale)
    if mult > 32767:
        raise TinycError(f"{site.node.op} of int16 takes a scale of {32767 / _STEPS_OF_X:.2f} at most", site.node.where)
    return Logistic(mult, shift, is_tanh)


def _multiplier(scale: float) -> tuple[int, int]:
    """(mult, shift): scale * 3 * 4096 is about mult / 2^shift, as TensorFlow Lite has it: 3 for 1/4096, where it only
    shifts."""
    if scale == 2.0**-12:
        return 3, 0
    factor, shift = scale * _STEPS_OF_X, 0
    while factor <= 32767 / 2 and shift <= 30:
        factor, shift = 2 * factor, shift + 1
    return int(factor), shift


def _lower_logistic(site: Site, p: Logistic) -> Call:
    """tc_sigmoid_s16 or tc_tanh_s16."""
    fields: dict[str, int | float | str | Const] = {
        "table": Const(logistic_table(), "[256] logistic(i / 24), Q0.16", "logistic"),
        "mult": p.mult,
        "shift": p.shift,
        "n": site.x(0).elements,
    }
    return Call((Params(), In(0), Out()), Struct(f"tc_{'tanh' if p.is_tanh else 'sigmoid'}_s16_t", fields))


def logistic_kernel(name: str) -> Kernel:
    """tc_<name>_s16."""
    return counted_kernel(f"tc_{name}_s16", _lower_logistic, of_elements, when=(is_s16,), inplace=(0,))


def look_up_wide(p: Table | Interpolated | Logistic, x: Array) -> tuple[Array, ...]:
    """int_ref of operators that are a table of bytes, or of int16."""
    return (p.lut[x.view(np.uint8)] if isinstance(p, Table) else p.run(x),)
