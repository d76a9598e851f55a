# SPDX-License-Identifier: Apache-2.0
"""Weighted layers beyond int8: int16 activations with 64-bit accumulators, and int16 weights on int8.

One kernel for each of the two serves convolution, depthwise convolution and matrix product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multipliers, requantize
from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Padding, Pair, Site
from tinyc.kernel.types import has_wide_weights, is_s16
from tinyc.kernel.windows import ConvParams, Window

_MOST = 1 << 47  # of an accumulator: its product with 16 bits stays within int64
_LARGEST = 32768  # of an int16's magnitude
WIDE_ROUNDS = 4  # `rounds` of tc_conv2d_s16


@dataclass(frozen=True, slots=True)
class WideParams:
    """y = clamp(scaled(bias[o] + sum x*w[o]) + y_zero, y_min, y_max), int16.

    rounding None: mult has 16 bits and scaled is floor(acc * mult / 2^(15 - shift) + 1/2), as TensorFlow Lite
    does with a 64-bit bias. Otherwise `requantize`; the accumulator fits int32 then.
    """

    attrs: Any
    w: Array
    bias: npt.NDArray[np.int64]
    mult: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]
    x_zero: int
    y_zero: int
    y_min: int
    y_max: int
    rounding: Rounding | None

    def finish(self, acc: Array) -> Array:
        """int16 outputs of accumulators whose last axis is the output channel."""
        if self.rounding is None:
            total = 15 - self.shift.astype(np.int64)
            y = (acc * self.mult.astype(np.int64) + (np.int64(1) << (total - 1))) >> total
        else:
            y = requantize(acc, self.mult, self.shift, self.rounding)
        return np.clip(y + self.y_zero, self.y_min, self.y_max).astype(np.int16)


@dataclass(frozen=True, slots=True)
class Runtimes:
    """What runtimes make of an operator on int16, each in its own way. long_bias: those that take every bias for one of
    int64. short_sums: desktop LiteRT scales its sums as those of 32 bits, whatever the bias has, and by a factor in
    float32 where there is one for all outputs."""

    long_bias: frozenset[Numerics] = frozenset()
    short_sums: bool = False


def wide_params(site: Site, runtimes: Runtimes) -> WideParams:
    """The integers of a weighted layer on int16. TinycError if an accumulator could leave 2^47."""
    if not is_s16(site):
        raise TinycError(
            f"{site.node.op} of {site.x(0).dtype} and {site.x(1).dtype} to {site.y().dtype}: with int16 inputs the "
            "output is int16 and the weights are int8",
            site.node.where,
        )
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.y())
    quant = site.x(1).quant
    if quant is None or any(quant.zero):
        raise TinycError(f"weights '{site.x(1).name}' need a symmetric quantization (zero point 0)", site.node.where)
    folded = _folded_bias(site)
    products = np.float64(x_scale) * np.asarray(quant.scale, np.float64)
    if site.numerics is Numerics.LITERT and runtimes.short_sums and len(quant.scale) == 1:
        products = products.astype(np.float32).astype(np.float64)
    factors = products / np.float64(y_scale)
    mult, shift = quantize_multipliers(np.broadcast_to(factors, folded.shape))
    worst = largest_sum(site)
    lo, hi = site.attrs.act.range_of(site.y())
    rounding = _rounding(site, runtimes, worst << max(int(shift.max()), 0))
    if rounding is None:
        if worst >= _MOST or int(shift.max()) > 7:
            raise TinycError(f"an accumulator can reach {worst}, or is scaled up by 2^{shift.max()}", site.node.where)
        mult = np.where(mult < 0x7FFF0000, (mult.astype(np.int64) + (1 << 15)) >> 16, 0x7FFF).astype(np.int32)
    return WideParams(site.attrs, site.const(1), folded, mult, shift, x_zero, y_zero, lo, hi, rounding)


def taps_of(w: Array) -> npt.NDArray[np.int64]:
    """[output channels][taps] of weights that begin with the output channels, or of depthwise [k_h][k_w][channels]."""
    rows = w.reshape(-1, w.shape[2]).T if w.ndim == 3 else w.reshape(len(w), -1)
    return rows.astype(np.int64)


def _folded_bias(site: Site) -> npt.NDArray[np.int64]:
    """[output channels], with what the zero point of the input adds."""
    sums = taps_of(site.const(1)).sum(axis=1)
    bias = site.const(2).astype(np.int64) if site.has(2) else np.zeros(len(sums), np.int64)
    return bias - site.scale_zero(site.x(0))[1] * sums


def largest_sum(site: Site) -> int:
    """The largest magnitude that an accumulator of the layer can reach."""
    return int((np.abs(_folded_bias(site)) + _LARGEST * np.abs(taps_of(site.const(1))).sum(axis=1)).max())


def _rounding(site: Site, runtimes: Runtimes, worst: int) -> Rounding | None:
    """The width of the bias decides in TensorFlow Lite, whether 32 bits are enough elsewhere."""
    fits = worst < 2**31
    if site.numerics not in (Numerics.TFLM, Numerics.LITERT):
        return Rounding.SINGLE if fits else None
    is_narrow = site.has(2) and site.x(2).dtype == "s32"
    if is_narrow and site.numerics in runtimes.long_bias:
        raise TinycError(
            f"{site.node.op} of int16 with an int32 bias: {site.numerics.value} reads the bias as int64",
            site.node.where,
            "convert the model again: layers of int16x8 models have an int64 bias",
        )
    if not is_narrow and (site.numerics is Numerics.TFLM or not runtimes.short_sums):
        return None
    if not site.has(2):
        raise TinycError(
            f"{site.node.op} of int16 without a bias: its rounding in desktop LiteRT is not known",
            site.node.where,
            "build with --numerics tflm, or give the layer a bias of zeros",
        )
    if not fits:
        raise TinycError(f"an accumulator can reach {worst}, beyond int32", site.node.where)
    return Rounding.DOUBLE


@dataclass(frozen=True, slots=True)
class Shape16:
    """The layer as tc_conv2d_s16 sees it: w [out_c][k_h][k_w][group_in]."""

    w: Array
    in_h: int
    in_w: int
    in_c: int
    out_h: int
    out_w: int
    groups: int
    stride: Pair = Pair(1, 1)
    pad: Padding = Padding(0, 0, 0, 0)
    dilation: Pair = Pair(1, 1)


def wide_call(p: WideParams | ConvParams, s: Shape16) -> Call:
    """tc_conv2d_s16, or for int16 weights tc_conv2d_s8_w16, for the layer."""
    if isinstance(p, ConvParams):
        weights, kind, scaling = s.w.astype(np.int16), "s8_w16", p.struct_fields()
    else:
        weights, kind, scaling = s.w.astype(np.int8), "s16", scaling_fields(p)
    out_c, k_h, k_w, group_in = s.w.shape
    fields: dict[str, int | float | str | Const] = {
        "w": Const(weights, "[out_c][k_h][k_w][in_c/groups]", "w"),
        **scaling,
        **{name: getattr(s, name) for name in ("in_h", "in_w", "in_c", "out_h", "out_w")},
        "out_c": out_c,
        "k_h": k_h,
        "k_w": k_w,
        "group_in": group_in,
        "group_out": out_c // s.groups,
        "stride_h": s.stride.h,
        "stride_w": s.stride.w,
        "pad_top": s.pad.top,
        "pad_left": s.pad.left,
        "dilation_h": s.dilation.h,
        "dilation_w": s.dilation.w,
        "x_zero": p.x_zero,
    }
    return Call((Params(), In(0), Out()), Struct(f"tc_conv2d_{kind}_t", fields))


def scaling_fields(p: WideParams) -> dict[str, int | float | str | Const]:
    """Bias, factors, zero point and clamp, as the int16 kernels' parameter structs have them."""
    return {
        "bias": Const(p.bias, "[out_c]", "bias"),
        "mult": Const(p.mult, "[out_c]", "mult"),
        "shift": Const(p.shift.astype(np.int8), "[out_c]", "shift"),
        **{name: getattr(p, name) for name in ("y_zero", "y_min", "y_max")},
        "rounds": WIDE_ROUNDS if p.rounding is None else p.rounding.code,
    }


def lower_image(site: Site, p: WideParams | ConvParams) -> Call:
    """conv2d and depthwise_conv2d: the whole tensor."""
    a = site.attrs
    depthwise = p.w.ndim == 3
    w = p.w.transpose(2, 0, 1)[..., None] if depthwise else p.w
    (_, in_h, in_w, in_c), (_, out_h, out_w, _) = site.x(0).shape, site.y().shape
    groups = in_c if depthwise else a.groups
    return wide_call(p, Shape16(w, in_h, in_w, in_c, out_h, out_w, groups, a.stride, a.pad, a.dilation))


def lower_matrix(site: Site, p: WideParams | ConvParams) -> Call:
    """fully_connected, the whole tensor: one pixel per row of the input."""
    out_c, in_c = p.w.shape
    rows = site.y().elements // out_c
    return wide_call(p, Shape16(p.w[:, None, None, :], 1, rows, in_c, 1, rows, 1))


def of_products(site: Site, p: WideParams | ConvParams) -> Units:
    """Products, the taps of windows that they lie in, taps without products, and outputs. Where the zero point is 0,
    taps outside of the image have none."""
    outputs, window = site.y().elements, p.w.shape[:2] if p.w.ndim == 3 else p.w.shape[1:3] if p.w.ndim > 2 else (1, 1)
    every = inside = outputs * math.prod(window)
    if p.w.ndim > 2 and p.x_zero == 0:
        counts = Window.of(site.attrs, *window).taps_inside(site.x(0).shape)
        inside = site.x(0).shape[0] * len(p.bias) * math.prod(int(own.sum()) for own in counts)
    each = p.w.size // len(p.bias) // math.prod(window)
    return {"product": inside * each, "tap": inside, "tap outside": every - inside, "output": outputs}


def weight_bytes(site: Site, p: WideParams | ConvParams) -> int:
    """Of weights, biases, multipliers and shifts."""
    return (p.w.nbytes if isinstance(p, ConvParams) else p.w.size) + 13 * len(p.bias)


def _kernels(lowered: Callable[[Site, WideParams | ConvParams], Call]) -> tuple[Kernel, ...]:
    return tuple(
        Kernel(name, offered(lowered, cost=CountedCost(name, of_products, flash=weight_bytes)), when=(has_width,))
        for name, has_width in (("tc_conv2d_s16", is_s16), ("tc_conv2d_s8_w16", has_wide_weights))
    )


IMAGE_KERNELS = _kernels(lower_image)
MATRIX_KERNELS = _kernels(lower_matrix)
