# SPDX-License-Identifier: Apache-2.0
"""256-byte tables: any function of one 8-bit input is computed at compile time, for every value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize, round_half_away
from tinyc.ir.graph import INT_RANGE, Array, Value
from tinyc.kernel.counted import CountedCost, of_elements
from tinyc.kernel.kernel import Call, Condition, Const, Cost, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type

XNN_MIN_RATIO, XNN_MAX_RATIO = 2.0**-8, 2.0**7  # factors that `xnn_scale` is used for
_TABLE_BYTES = 256
_BYTE = {"s8": np.int8, "u8": np.uint8}


@dataclass(frozen=True, slots=True)
class Table:
    """y = lut[x as an unsigned byte], 256 entries of the output's dtype (int8 or uint8)."""

    lut: Array


def make_table(x: Value, y: Value, function: Callable[[npt.NDArray[np.int64]], npt.ArrayLike]) -> Table:
    """The Table of `function`, which maps all 256 integers of x to integers of y; clamped to y's range."""
    order = np.arange(256, dtype=np.uint8).view(_BYTE[x.dtype])
    lo, hi = INT_RANGE[y.dtype]
    return Table(np.clip(function(order.astype(np.int64)), lo, hi).astype(_BYTE[y.dtype]))


def look_up(p: Table, x: Array) -> tuple[Array, ...]:
    """int_ref of every operator that is a table."""
    return (p.lut[x.view(np.uint8)],)


def is_byte_to_byte(site: Site) -> bool:
    """8-bit input and output"""
    return site.x(0).dtype in _BYTE and site.y().dtype in _BYTE


def lower_table(site: Site, p: Table) -> Call:
    """tc_lut_s8: every element through the table."""
    return Call((Const(p.lut, "[256] by the input's unsigned byte", "lut"), In(0), Out(), site.x(0).elements))


def vector_cost(site: Site, p: object) -> Cost:
    """Of tc_lut_s8_mve: 4 instructions for 16 bytes; a gather is taken to need a cycle for each."""
    vectors = -(-site.y().elements // 16)
    return Cost(4 * vectors + 10, _TABLE_BYTES, 0, 21 * vectors + 15)


def table_kernels(lower: Callable[[Site, Any], Call], when: Condition, inplace: tuple[int, ...]) -> tuple[Kernel, ...]:
    """The kernels of an operator that is a table; lower: a call of tc_lut_s8."""
    vectors = offered(lower, cost=vector_cost)
    plain = offered(lower, cost=CountedCost("tc_lut_s8", of_elements, _TABLE_BYTES))
    return (
        Kernel("tc_lut_s8_mve", vectors, isa=frozenset({"mve"}), when=(when,), inplace=inplace),
        Kernel(
            "tc_lut_s8",
            plain,
            when=(when,),
            inplace=inplace,
        ),
    )


TABLE_KERNELS = table_kernels(lower_table, is_byte_to_byte, (0,))


def same_type(attrs: object, x: Value) -> list[Type]:
    """infer of elementwise operators with one input: the output looks like the input."""
    return [Type(x.shape, x.dtype)]


def need_bytes(site: Site) -> None:
    """Raise TinycError unless input and output are 8-bit integers."""
    if not is_byte_to_byte(site):
        raise TinycError(
            f"{site.node.op} from {site.x(0).dtype} to {site.y().dtype}: the integer operator takes 8 bits",
            site.node.where,
        )


def need_scale(site: Site, scale: float, zero: int) -> None:
    """Raise TinycError unless the output is quantized by `scale` (to a thousandth) and `zero`."""
    scale_zero = site.scale_zero(site.y())
    if abs(scale_zero[0] - scale) > 0.001 * scale or scale_zero[1] != zero:
        raise TinycError(
            f"{site.node.op} needs output scale 1/{round(1 / scale)} and zero point {zero}, "
            f"'{site.y().name}' has {scale_zero[0]:.6g} and {scale_zero[1]}",
            site.node.where,
        )


def is_ours(numerics: Numerics, y: Value, quant: tuple[float, int]) -> bool:
    """Whether tinyc quantized the model, and `y` by this scale (to 1e-6) and zero point."""
    if numerics is not Numerics.OURS or y.quant is None or len(y.quant.scale) != 1:
        return False
    scale, zero = y.quant.per_tensor
    return zero == quant[1] and abs(scale / quant[0] - 1) < 1e-6


def rescale(
    q: npt.NDArray[np.int64], x: tuple[float, int], y: tuple[float, int], rounding: Rounding
) -> npt.NDArray[np.int64]:
    """Integers of quantization x (scale, zero) as integers of quantization y, not yet clamped."""
    mult, shift = quantize_multiplier(np.float64(x[0]) / np.float64(y[0]))
    return requantize(q - x[1], mult, shift, rounding) + y[1]


def saturating_q4(
    q: npt.NDArray[np.int64], scale: float, zero: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """(x in Q4.27, too low, too high) of integers q, as TensorFlow Lite's int8 logistic and tanh scale them.

    Where an input is too low or too high for Q4.27 the first array holds 0.
    """
    mult, shift = quantize_multiplier(min(scale * 2.0**27, 2.0**31 - 1))  # from 16 on every input saturates
    radius = math.floor(15 * 2.0**27 / 2.0**shift)
    centred = q - zero
    low, high = centred <= -radius, centred >= radius
    return requantize(np.where(low | high, 0, centred), mult, shift, Rounding.DOUBLE), low, high


def float_table(site: Site, function: Callable[[float], float]) -> Table:
    """The Table that desktop LiteRT makes: float32 dequantize, function, divide by the scale, round."""
    x, y = site.x(0), site.y()
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(x), site.scale_zero(y)

    def integers(q: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        real = np.float32(x_scale) * (q - x_zero).astype(np.float32)
        result = np.array([function(float(v)) for v in real]).astype(np.float32)
        return (round_half_away(result * (np.float32(1) / np.float32(y_scale))) + y_zero).astype(np.int64)

    return make_table(x, y, integers)


def real_table(site: Site, function: Callable[[Array], Array]) -> Table:
    """The Table of DequantizeLinear, a function of float32 arrays and QuantizeLinear: `Numerics.ONNX`."""
    x, y = site.x(0), site.y()
    return make_table(x, y, lambda q: quantize_linear(function(dequantize_linear(q, x)), y))


def dequantize_linear(q: npt.NDArray[np.int64], x: Value) -> npt.NDArray[np.float32]:
    """ONNX DequantizeLinear of integers in x's one scale and zero point, in float32."""
    scale, zero = _per_tensor(x)
    return (q - zero).astype(np.float32) * np.float32(scale)


def quantize_linear(real: Array, y: Value, by_inverse: bool = False) -> npt.NDArray[np.int64]:
    """ONNX QuantizeLinear to y's one scale and zero point: halves to even, clamped; NaN gives the least integer.
    by_inverse: as XNNPACK, which multiplies by 1/scale; NaN gives the largest."""
    (scale, zero), (lo, hi) = _per_tensor(y), INT_RANGE[y.dtype]
    nan = hi if by_inverse else lo
    with np.errstate(over="ignore", invalid="ignore"):
        step, held = np.float32(scale), np.asarray(real, np.float32)
        steps = np.rint(held * (np.float32(1) / step) if by_inverse else held / step) + np.float32(zero)
    return np.clip(np.nan_to_num(steps, nan=nan, posinf=hi, neginf=lo), lo, hi).astype(np.int64)


def _per_tensor(value: Value) -> tuple[float, int]:
    if value.quant is None or len(value.quant.scale) != 1:
        raise TinycError(f"'{value.name}' ({value.dtype}) needs one scale and one zero point", value.loc)
    return value.quant.per_tensor


def xnn_scale(centred: npt.NDArray[np.int64], factor: np.float32) -> npt.NDArray[np.int64]:
    """centred * factor as XNNPACK's qs8 vcvt and vlrelu compute it: the factor in steps of 1/256."""
    return (centred * int(np.rint(np.float32(256) * factor)) + 128) >> 8
