"""Sliding windows over NHWC images, and the integers that convolution-like operators share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tinyc.errors import TinycError
from tinyc.ir.graph import INT_RANGE, Array, Shape, Value
from tinyc.kernels import Call, Const, In, Out, Params, Rows, Struct
from tinyc.numerics import Rounding, quantize_multipliers, requantize
from tinyc.ops.base import Act, Padding, Pair, Site, Type


def window_output(x: Shape, kernel: Pair, stride: Pair, pad: Padding, dilation: Pair) -> Pair:
    """Rows and columns of windows that fit a padded [N,H,W,C] image. TinycError if none does."""
    if min(*stride, *dilation, *kernel) < 1:
        raise TinycError(
            f"kernel {tuple(kernel)}, stride {tuple(stride)} and dilation {tuple(dilation)} must be positive"
        )
    if min(pad) < 0:
        raise TinycError(f"padding {tuple(pad)} is negative")
    out_h = (x[1] + pad.top + pad.bottom - (kernel.h - 1) * dilation.h - 1) // stride.h + 1
    out_w = (x[2] + pad.left + pad.right - (kernel.w - 1) * dilation.w - 1) // stride.w + 1
    if out_h < 1 or out_w < 1:
        raise TinycError(f"a {kernel.h}x{kernel.w} window does not fit the padded input {x[1]}x{x[2]}")
    return Pair(out_h, out_w)


def windows(x: Array, kernel: Pair, stride: Pair, pad: Padding, dilation: Pair, fill: float) -> Array:
    """[N,H,W,C] -> [N,H',W',KH,KW,C]: every window, with `fill` where it leaves the image. A view."""
    padded = np.pad(
        x, ((0, 0), (pad.top, pad.bottom), (pad.left, pad.right), (0, 0)), constant_values=np.array(fill, x.dtype)
    )
    span = ((kernel.h - 1) * dilation.h + 1, (kernel.w - 1) * dilation.w + 1)
    view = np.lib.stride_tricks.sliding_window_view(padded, span, axis=(1, 2))
    view = view[:, :: stride.h, :: stride.w, :, :: dilation.h, :: dilation.w]
    return view.transpose(0, 1, 2, 4, 5, 3)


@dataclass(frozen=True, slots=True)
class ConvParams:
    """Integers of a weighted layer: y = clamp(requantize(bias[o] + sum x*w[o], mult[o], shift[o]) + y_zero).

    w: int8 as the operator stores it. bias: int32[O], -x_zero * sum(w[o]) folded in. mult, shift: int32[O].
    """

    attrs: Any
    w: Array
    bias: npt.NDArray[np.int32]
    mult: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]
    x_zero: int
    y_zero: int
    y_min: int
    y_max: int
    rounding: Rounding

    def finish(self, acc: Array) -> Array:
        """int8 outputs of accumulators whose last axis is the output channel."""
        y = requantize(acc, self.mult, self.shift, self.rounding) + self.y_zero
        return np.clip(y, self.y_min, self.y_max).astype(np.int8)

    def struct_fields(self) -> dict[str, int | float | str | Const]:
        """The fields that every weighted kernel's parameter struct has in common."""
        return {
            "bias": Const(self.bias, "[out_c]", "bias"),
            "mult": Const(self.mult, "[out_c]", "mult"),
            "shift": Const(self.shift.astype(np.int8), "[out_c]", "shift"),
            "y_zero": self.y_zero,
            "y_min": self.y_min,
            "y_max": self.y_max,
            "rounds": 2 if self.rounding is Rounding.DOUBLE else 1,
        }


def conv_params(site: Site, out_axis: int, factors: npt.NDArray[np.float64], act: Act) -> ConvParams:
    """The shared integers of `site` (inputs x, w, b?), whose weights have the output channel on `out_axis`.

    `factors`: x.scale * w.scale[o] / y.scale as float64[O], by the caller because runtimes differ in
    the precision of the product. Raises TinycError if an accumulator could leave int32.
    """
    x, w, y = site.x(0), site.const(1), site.y()
    _, x_zero = site.scale_zero(x)
    _, y_zero = site.scale_zero(y)
    out_c = w.shape[out_axis]
    taps = np.moveaxis(w, out_axis, 0).reshape(out_c, -1).astype(np.int64)
    bias = site.const(2).astype(np.int64) if site.has(2) else np.zeros(out_c, np.int64)
    folded = bias - x_zero * taps.sum(axis=1)
    mult, shift = quantize_multipliers(np.broadcast_to(factors, (out_c,)))
    _check_range(site, taps, folded, shift)
    lo, hi = act.range_of(y)
    return ConvParams(
        site.attrs, w, folded.astype(np.int32), mult, shift, x_zero, y_zero, lo, hi, site.rounding
    )


def channel_factors(site: Site) -> npt.NDArray[np.float64]:
    """x.scale * w.scale[o] / y.scale in float64, as TFLite's convolutions compute it. Length O or 1."""
    x_scale, _ = site.scale_zero(site.x(0))
    y_scale, _ = site.scale_zero(site.y())
    w = site.x(1).quant
    if w is None or any(zero != 0 for zero in w.zero):
        raise TinycError(f"weights '{site.x(1).name}' need a symmetric quantization", site.node.where)
    return np.float64(x_scale) * np.asarray(w.scale, np.float64) / np.float64(y_scale)


def accumulator_bounds(
    taps: npt.NDArray[np.int64], bias: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(least, greatest) accumulator of each output over all int8 inputs; taps [O,K], bias [O]. Exact."""
    positive, negative = np.maximum(taps, 0).sum(axis=1), np.minimum(taps, 0).sum(axis=1)
    return bias - 128 * positive + 127 * negative, bias + 127 * positive - 128 * negative


def _check_range(
    site: Site, taps: npt.NDArray[np.int64], bias: npt.NDArray[np.int64], shift: npt.NDArray[np.int32]
) -> None:
    # Every partial sum lies within |bias| + sum|128 w|, whatever the order, so no kernel can overflow.
    worst = (np.abs(bias) + 128 * np.abs(taps).sum(axis=1)) << np.maximum(shift, 0)
    channel = int(np.argmax(worst))
    if worst[channel] > INT_RANGE["s32"][1]:
        raise TinycError(
            f"accumulator of output channel {channel} can reach {worst[channel]}, beyond int32",
            site.node.where,
            "the bias or the weight scales of this layer are out of proportion; quantize the model again",
        )


def row_geometry(
    site: Site, kernel: Pair, stride: Pair, pad: Padding, dilation: Pair, x_zero: int | None
) -> Rows:
    """How a row kernel walks the image of `site`, with a padding row of x_zero when any window leaves it.

    x_zero None: no padding row; rows outside are null pointers.
    """
    x, y = site.x(0), site.y()
    in_h, in_w, in_c = x.shape[1:]
    last = (y.shape[1] - 1) * stride.h - pad.top + (kernel.h - 1) * dilation.h
    row = None
    if x_zero is not None and (pad.top > 0 or last >= in_h):
        row = Const(np.full(in_w * in_c, x_zero, np.int8), "[in_w][in_c] of x_zero", "pad")
    return Rows(
        in_h=in_h,
        out_h=y.shape[1],
        k_h=kernel.h,
        stride=stride.h,
        pad_top=pad.top,
        dilation=dilation.h,
        in_row_bytes=row_bytes(x),
        out_row_bytes=row_bytes(y),
        pad=row,
    )


def row_bytes(value: Value) -> int:
    """Bytes of one row [W,C] of an image [1,H,W,C]."""
    return value.size_bytes // value.shape[1]


def check_image(value: Value, what: str) -> None:
    """Raise TinycError unless the value is one NHWC image: rank 4, batch 1."""
    if len(value.shape) != 4 or value.shape[0] != 1:
        raise TinycError(f"{what} takes one image [1,H,W,C], '{value.name}' has shape {list(value.shape)}")


def check_bias(bias: Value | None, out_c: int) -> None:
    """Raise TinycError unless the bias is absent or has one value per output channel."""
    if bias is not None and bias.shape != (out_c,):
        raise TinycError(f"bias '{bias.name}' has shape {list(bias.shape)}, expected [{out_c}]")


def is_s8(site: Site) -> bool:
    """int8 input, weights and output"""
    return (site.x(0).dtype, site.x(1).dtype, site.y().dtype) == ("s8", "s8", "s8")


class Pool(Protocol):
    """What the attributes of average and max pooling have in common."""

    @property
    def kernel(self) -> Pair: ...
    @property
    def stride(self) -> Pair: ...
    @property
    def pad(self) -> Padding: ...
    @property
    def dilation(self) -> Pair: ...
    @property
    def act(self) -> Act: ...


@dataclass(frozen=True, slots=True)
class PoolParams:
    """Integers of a pooling layer: input and output share scale and zero point x_zero, then a clamp."""

    attrs: Any
    x_zero: int
    y_min: int
    y_max: int


def infer_pool(what: str, a: Pool, x: Value) -> list[Type]:
    """The output of a pooling operator. TinycError if a window has no tap inside the image."""
    check_image(x, what)
    out = window_output(x.shape, a.kernel, a.stride, a.pad, a.dilation)
    rows, columns = taps_inside(a, x.shape)
    if min(rows.min(), columns.min()) < 1:
        raise TinycError(
            f"{what}: a {a.kernel.h}x{a.kernel.w} window with padding {tuple(a.pad)} has no tap in the image"
        )
    return [Type((x.shape[0], out.h, out.w, x.shape[3]), x.dtype)]


def taps_inside(a: Pool, x: Shape) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How many taps of each window lie inside [N,H,W,C]: per output row, and per output column."""
    out = window_output(x, a.kernel, a.stride, a.pad, a.dilation)

    def count(size: int, windows: int, taps: int, stride: int, pad: int, dilation: int) -> Array:
        at = np.arange(windows)[:, None] * stride - pad + np.arange(taps) * dilation
        return ((at >= 0) & (at < size)).sum(axis=1)

    return (
        count(x[1], out.h, a.kernel.h, a.stride.h, a.pad.top, a.dilation.h),
        count(x[2], out.w, a.kernel.w, a.stride.w, a.pad.left, a.dilation.w),
    )


def pool_params(site: Site) -> PoolParams:
    """The integers of a pooling `site`. TinycError if input and output are quantized differently."""
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(site.x()), site.scale_zero(site.y())
    if x_zero != y_zero or abs(x_scale - y_scale) > 1e-6:  # TensorFlow Lite's own tolerance
        raise TinycError(
            f"{site.node.op} keeps the quantization, but '{site.x().name}' has scale {x_scale:g} and zero point "
            f"{x_zero}, '{site.y().name}' {y_scale:g} and {y_zero}",
            site.node.where,
            "requantize the output in an operator of its own",
        )
    lo, hi = site.attrs.act.range_of(site.y())
    return PoolParams(site.attrs, x_zero, lo, hi)


def pool_is_s8(site: Site) -> bool:
    """int8 input and output"""
    return (site.x().dtype, site.y().dtype) == ("s8", "s8")


def lower_pool(site: Site, p: PoolParams, ctype: str, extra: Mapping[str, int]) -> Call:
    """A pooling row kernel: one output row from the input rows of its windows, null where there is none."""
    a: Pool = p.attrs
    fields = {
        "in_w": site.x().shape[2],
        "in_c": site.x().shape[3],
        "out_w": site.y().shape[2],
        "k_h": a.kernel.h,
        "k_w": a.kernel.w,
        "stride_w": a.stride.w,
        "pad_left": a.pad.left,
        "dilation_w": a.dilation.w,
        "y_min": p.y_min,
        "y_max": p.y_max,
        **extra,
    }
    rows = row_geometry(site, a.kernel, a.stride, a.pad, a.dilation, None)
    return Call((Params(), In(0), Out()), Struct(ctype, fields), rows)
