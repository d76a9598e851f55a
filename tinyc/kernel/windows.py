# SPDX-License-Identifier: Apache-2.0
"""Sliding windows over NHWC images, and the integers that convolution-like operators share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.limits import check_shape
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import float_factor, quantize_multipliers, requantize
from tinyc.ir.graph import INT_RANGE, Array, Shape, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Rows, Struct, offered
from tinyc.kernel.site import Act, Padding, Pair, Site, Type, s16_to_s16

Int64s = npt.NDArray[np.int64]
T = TypeVar("T")


class Sliding(Protocol):
    """What the attributes of every operator with a sliding window have."""

    @property
    def stride(self) -> Pair: ...
    @property
    def pad(self) -> Padding: ...
    @property
    def dilation(self) -> Pair: ...


_COPIED = 1 << 22  # elements of windows that are copied at once


class Window(NamedTuple):
    """A sliding window. Output (r, c) reads rows r*stride.h - pad.top + k*dilation.h, columns alike."""

    kernel: Pair
    stride: Pair
    pad: Padding
    dilation: Pair

    @classmethod
    def of(cls, a: Sliding, k_h: int, k_w: int) -> Window:
        """The window of k_h x k_w taps that operator attributes describe."""
        return cls(Pair(k_h, k_w), a.stride, a.pad, a.dilation)

    def within(self, x: Shape) -> Window:
        """The same window over the image [N,H,W,C] with no number that means nothing beyond it: a stride from its only
        place on, a dilation of one tap."""
        padded = (x[1] + self.pad.top + self.pad.bottom, x[2] + self.pad.left + self.pad.right)
        stride = Pair(*(min(step, size) for step, size in zip(self.stride, padded, strict=True)))
        dilation = Pair(*(1 if k == 1 else d for k, d in zip(self.kernel, self.dilation, strict=True)))
        return self._replace(stride=stride, dilation=dilation)

    @property
    def span(self) -> Pair:
        """Rows and columns from the first tap to the last."""
        return Pair(*((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)))

    def output(self, x: Shape) -> Pair:
        """Rows and columns of windows that fit the padded image [N,H,W,C]. TinycError if none does."""
        if min(*self.stride, *self.dilation, *self.kernel) < 1:
            sizes = f"kernel {tuple(self.kernel)}, stride {tuple(self.stride)}, dilation {tuple(self.dilation)}"
            raise TinycError(f"{sizes}: all must be positive")
        if min(self.pad) < 0:
            raise TinycError(f"padding {tuple(self.pad)} is negative")
        padded = (1, x[1] + self.pad.top + self.pad.bottom, x[2] + self.pad.left + self.pad.right, x[3])
        check_shape("the padded image", padded, None)
        out_h = (x[1] + self.pad.top + self.pad.bottom - self.span.h) // self.stride.h + 1
        out_w = (x[2] + self.pad.left + self.pad.right - self.span.w) // self.stride.w + 1
        if out_h < 1 or out_w < 1:
            raise TinycError(f"a {self.span.h}x{self.span.w} window does not fit the padded {x[1]}x{x[2]} input")
        return Pair(out_h, out_w)

    def view(self, x: Array, fill: float) -> Array:
        """[N,H,W,C] -> [N,H',W',KH,KW,C]: every window, with `fill` where it leaves the image."""
        padded = self._padded(x, np.array(fill, x.dtype))
        view = np.lib.stride_tricks.sliding_window_view(padded, self.span, axis=(1, 2))
        view = view[:, :: self.stride.h, :: self.stride.w, :, :: self.dilation.h, :: self.dilation.w]
        return view.transpose(0, 1, 2, 4, 5, 3)

    def _padded(self, x: Array, fill: Array) -> Array:
        """[N,H,W,C] -> with the padding around it. numpy.pad does the same, and takes several times as long for it."""
        top, left = self.pad.top, self.pad.left
        n, h, w, c = x.shape
        padded = np.empty((n, h + top + self.pad.bottom, w + left + self.pad.right, c), fill.dtype)
        padded[:, :top], padded[:, top + h :] = fill, fill
        padded[:, top : top + h, :left], padded[:, top : top + h, left + w :] = fill, fill
        padded[:, top : top + h, left : left + w] = x
        return padded

    def blocks(self, x: Array, fill: float) -> Iterator[Array]:
        """`view`, a few rows of windows at a time where all of them would take too much memory once they are copied."""
        view = self.view(x, fill)
        rows = max(1, _COPIED * view.shape[1] // max(view.size, 1))
        for first in range(0, view.shape[1], rows):
            yield view[:, first : first + rows]

    def taps_inside(self, x: Shape) -> tuple[Int64s, Int64s]:
        """How many taps lie inside [N,H,W,C]: per row of windows, and per column of windows."""
        before = (self.pad.top, self.pad.left)
        counts = []
        for axis, windows in enumerate(self.output(x)):
            start = np.arange(windows, dtype=np.int64) * self.stride[axis] - before[axis]
            # Taps below 0, and taps below the image's size: -(a // b) rounds up.
            outside, below = (-((start - size) // self.dilation[axis]) for size in (0, x[1 + axis]))
            counts.append(np.clip(below, 0, self.kernel[axis]) - np.clip(outside, 0, self.kernel[axis]))
        return counts[0], counts[1]


@dataclass(frozen=True, slots=True)
class Rescale:
    """How sums become outputs: y = clamp(requantize(sum, mult[o], shift[o]) + y_zero). mult, shift: int32[O]."""

    mult: npt.NDArray[np.int32]
    shift: npt.NDArray[np.int32]
    y_zero: int
    y_min: int
    y_max: int
    rounding: Rounding

    def of(self, channels: Int64s) -> Rescale:
        """Those of some channels."""
        return replace(self, mult=self.mult[channels], shift=self.shift[channels])


@dataclass(frozen=True, slots=True)
class ConvParams:
    """Integers of a weighted layer: y = clamp(requantize(bias[o] + sum x*w[o], mult[o], shift[o]) + y_zero).

    w: as the operator stores it, int8, or int16 where it had a zero point. bias: int32[O], -x_zero * sum(w[o]) folded
    in. mult, shift: int32[O].
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
    _memo: dict[Any, Any] = field(init=False, default_factory=dict, compare=False, repr=False)

    def once(self, work_out: Callable[[ConvParams], T]) -> T:
        """work_out(self): for the first kernel of the layer that asks; all others get what it found."""
        if work_out not in self._memo:
            self._memo[work_out] = work_out(self)
        worked_out: T = self._memo[work_out]
        return worked_out

    def once_at(self, site: Site, work_out: Callable[[Site, ConvParams], T]) -> T:
        """work_out(site, self), likewise, for the kernels that are asked at this site."""
        key = (work_out, id(site))
        if key not in self._memo:
            self._memo[key] = (site, work_out(site, self))  # with the site, whose id no other may get
        worked_out: T = self._memo[key][1]
        return worked_out

    @property
    def rescale(self) -> Rescale:
        """What of the layer has nothing to do with its weights."""
        return Rescale(self.mult, self.shift, self.y_zero, self.y_min, self.y_max, self.rounding)

    @property
    def is_clamped(self) -> int:
        """Whether outputs have bounds beside those of int8: 1 or 0."""
        return int((self.y_min, self.y_max) != (-128, 127))

    def finish(self, acc: Array) -> Array:
        """int8 outputs of accumulators whose last axis is the output channel."""
        y = requantize(acc, self.mult, self.shift, self.rounding) + self.y_zero
        return np.clip(y, self.y_min, self.y_max).astype(np.int8)

    def struct_fields(self) -> dict[str, int | float | str | Const]:
        """The fields that every portable weighted kernel's parameter struct has in common."""
        return {
            "bias": Const(self.bias, "[out_c]", "bias"),
            **self._factor_fields(),
            "y_zero": self.y_zero,
            "y_min": self.y_min,
            "y_max": self.y_max,
            "rounds": self.rounding.code,
        }

    def _factor_fields(self) -> dict[str, Const]:
        mult, shift, layout = self.mult, self.shift, "[out_c]"
        if self.rounding is Rounding.FLOAT:
            mult, shift = float_factor(mult, shift).view(np.int32), np.zeros_like(shift)
            layout = "[out_c] bits of float32"
        return {
            "mult": Const(mult, layout, "mult"),
            "shift": Const(shift.astype(np.int8), "[out_c]", "shift"),
        }


def conv_params(site: Site, out_axis: int) -> ConvParams:
    """The shared integers of `site` (inputs x, w, b?), whose weights have the output channel on `out_axis`.

    Raises TinycError if the weights have a zero point or an accumulator could leave int32.
    """
    w, y = site.const(1), site.y()
    _, x_zero = site.scale_zero(site.x(0))
    _, y_zero = site.scale_zero(y)
    out_c = w.shape[out_axis]
    taps, folded = accumulated(site, out_axis)
    rounding = Rounding.FLOAT if site.numerics.scales_in_float else site.rounding
    mult, shift = quantize_multipliers(np.broadcast_to(_factors(site), (out_c,)))
    if site.numerics is Numerics.ONNX and not _can_tie(taps, folded, mult, shift):
        rounding = Rounding.SINGLE
    _check_range(site, taps, folded, shift)
    lo, hi = site.attrs.act.range_of(y)
    return ConvParams(site.attrs, w, folded.astype(np.int32), mult, shift, x_zero, y_zero, lo, hi, rounding)


def of_outputs(p: ConvParams, outputs: int) -> Units:
    """What kernels repeat for so many outputs, by how they scale sums down, and for those with bounds beside int8's."""
    return {
        "output": outputs * (p.rounding is Rounding.DOUBLE),
        "output single": outputs * (p.rounding is Rounding.SINGLE),
        "output float": outputs * (p.rounding is Rounding.FLOAT),
        "clamped": outputs * p.is_clamped,
    }


def accumulated(site: Site, out_axis: int) -> tuple[Int64s, Int64s]:
    """Weights [O, K] of `site`, and what its accumulators start with, the input's zero point in it."""
    w = site.const(1)
    taps = np.moveaxis(w, out_axis, 0).reshape(w.shape[out_axis], -1).astype(np.int64)
    bias = site.const(2).astype(np.int64) if site.has(2) else np.zeros(len(taps), np.int64)
    _, x_zero = site.scale_zero(site.x(0))
    return taps, bias - x_zero * taps.sum(axis=1)


def _factors(site: Site) -> npt.NDArray[np.float64]:
    """x.scale * w.scale[o] / y.scale, length O or 1.

    TensorFlow Lite Micro computes it in float64 (its current version also for fully connected layers with
    one weight scale), XNNPACK and ONNX Runtime in float32 at every step.
    """
    x_scale, _ = site.scale_zero(site.x(0))
    y_scale, _ = site.scale_zero(site.y())
    w = site.x(1).quant
    if w is None or any(zero != 0 for zero in w.zero):
        raise TinycError(f"weights '{site.x(1).name}' need a symmetric quantization (zero point 0)", site.node.where)
    if site.numerics.scales_in_float:
        product = np.float32(x_scale) * np.asarray(w.scale, np.float32)
        return (product / np.float32(y_scale)).astype(np.float64)
    return np.float64(x_scale) * np.asarray(w.scale, np.float64) / np.float64(y_scale)


def _can_tie(taps: Int64s, bias: Int64s, mult: npt.NDArray[np.int32], shift: npt.NDArray[np.int32]) -> bool:
    """Whether some reachable accumulator lies exactly between two outputs, so that rounding to even is seen.

    acc * mult is an odd multiple of 2^(30 - shift) then, which asks for as many factors 2 as mult lacks. (Where none
    can, one product of integers is nearest to the reals; the float32 product of ONNX Runtime is that but for its own
    rounding, which decides differently for about one accumulator in 10^5.)
    """
    wide = mult.astype(np.int64)
    low, high = accumulator_bounds(taps, bias)
    twos = np.where(wide == 0, 62, 30 - shift - np.log2(np.maximum(wide & -wide, 1)).astype(np.int64))
    return bool((np.maximum(np.abs(low), np.abs(high)) >> np.clip(twos, 0, 62) > 0).any())


def accumulator_bounds(taps: Int64s, bias: Int64s) -> tuple[Int64s, Int64s]:
    """(least, greatest) accumulator of each output over all int8 inputs; taps [O,K], bias [O]. Exact."""
    positive, negative = np.maximum(taps, 0).sum(axis=1), np.minimum(taps, 0).sum(axis=1)
    return bias - 128 * positive + 127 * negative, bias + 127 * positive - 128 * negative


def _check_range(site: Site, taps: Int64s, bias: Int64s, shift: npt.NDArray[np.int32]) -> None:
    # Every partial sum lies within |bias| + sum|128 w|, whatever the order, so no kernel can overflow.
    worst = (np.abs(bias) + 128 * np.abs(taps).sum(axis=1)) << np.maximum(shift, 0)
    channel = int(np.argmax(worst))
    if worst[channel] > INT_RANGE["s32"][1]:
        raise TinycError(
            f"accumulator of output channel {channel} can reach {worst[channel]}, beyond int32",
            site.node.where,
            "the bias or the weight scales of this layer are out of proportion; quantize the model again",
        )


def row_geometry(site: Site, window: Window, x_zero: int | None) -> Rows:
    """How a row kernel walks the image of `site`, with a padding row of x_zero when any window leaves it.

    x_zero None: no padding row; rows outside are null pointers.
    """
    x, y = site.x(0), site.y()
    in_h, in_w, in_c = x.shape[1:]
    last = (y.shape[1] - 1) * window.stride.h - window.pad.top + window.span.h - 1
    row = None
    if x_zero is not None and (window.pad.top > 0 or last >= in_h):
        row = Const(np.full(in_w * in_c, x_zero, np.int8), "[in_w][in_c] of x_zero", "pad")
    return Rows(
        in_h=in_h,
        out_h=y.shape[1],
        k_h=window.kernel.h,
        stride=window.stride.h,
        pad_top=window.pad.top,
        dilation=window.dilation.h,
        in_row_bytes=row_bytes(x),
        out_row_bytes=row_bytes(y),
        pad=row,
    )


def widths(site: Site) -> tuple[int, int]:
    """Columns of the image of `site`, and of its output."""
    return site.x(0).shape[2], site.y().shape[2]


def window_fields(site: Site, window: Window) -> dict[str, int]:
    """The horizontal geometry, as every portable row kernel's parameter struct has it."""
    return {
        "in_w": site.x(0).shape[2],
        "in_c": site.x(0).shape[3],
        "out_w": site.y().shape[2],
        "k_h": window.kernel.h,
        "k_w": window.kernel.w,
        "stride_w": window.stride.w,
        "pad_left": window.pad.left,
        "dilation_w": window.dilation.w,
    }


def is_3x3(site: Site) -> bool:
    """constant 3x3 weights, stride 1, no dilation, one group"""
    return _is_3x3(site, 1)


def is_3x3_by_two(site: Site) -> bool:
    """constant 3x3 weights, stride 2, no dilation, one group"""
    return _is_3x3(site, 2)


def _is_3x3(site: Site, stride: int) -> bool:
    """Of conv2d."""
    a, (_, k_h, k_w, _) = site.attrs, site.x(1).shape
    square = (k_h, k_w) == (3, 3) and a.stride == (stride, stride) and a.dilation == (1, 1) and a.groups == 1
    return bool(square and site.is_const(1))


def is_column(site: Site) -> bool:
    """windows of one column"""
    return site.x(1).shape[1] == 1  # of depthwise_conv2d


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


class Pool(Sliding, Protocol):
    """What the attributes of average and max pooling have in common."""

    @property
    def kernel(self) -> Pair: ...
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
    window = Window.of(a, *a.kernel)
    out = window.output(x.shape)
    if min(counts.min() for counts in window.taps_inside(x.shape)) < 1:
        raise TinycError(f"{what}: a {a.kernel.h}x{a.kernel.w} window with padding {tuple(a.pad)} misses the image")
    return [Type((x.shape[0], out.h, out.w, x.shape[3]), x.dtype)]


def pool_params(site: Site) -> PoolParams:
    """The integers of a pooling `site`. TinycError if input and output are quantized differently."""
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(site.x()), site.scale_zero(site.y())
    if x_zero != y_zero or abs(x_scale - y_scale) > 1e-6:  # TensorFlow Lite's own tolerance
        raise TinycError(
            f"{site.node.op} keeps the quantization, but '{site.x().name}' has scale {x_scale:g}, zero point "
            f"{x_zero} and '{site.y().name}' scale {y_scale:g}, zero point {y_zero}",
            site.node.where,
            "requantize the output in an operator of its own",
        )
    lo, hi = site.attrs.act.range_of(site.y())
    return PoolParams(site.attrs, x_zero, lo, hi)


def _lower_pool_s16(average: bool, site: Site, p: PoolParams) -> Call:
    """tc_pool2d_s16: the whole tensor, average or maximum."""
    window = Window.of(p.attrs, *p.attrs.kernel)
    (_, in_h, in_w, in_c), (_, out_h, out_w, _) = site.x().shape, site.y().shape
    fields = {
        **{"in_h": in_h, "in_w": in_w, "in_c": in_c, "out_h": out_h, "out_w": out_w},
        **{"k_h": window.kernel.h, "k_w": window.kernel.w},
        **{"stride_h": window.stride.h, "stride_w": window.stride.w},
        **{"pad_top": window.pad.top, "pad_left": window.pad.left},
        **{"dilation_h": window.dilation.h, "dilation_w": window.dilation.w},
        "average": int(average),
        "count_pad": int(getattr(p.attrs, "count_pad", False)),
        **{"x_zero": p.x_zero, "y_min": p.y_min, "y_max": p.y_max},
    }
    return Call((Params(), In(0), Out()), Struct("tc_pool2d_s16_t", fields))


def of_windows(site: Site, p: PoolParams) -> Units:
    """Elements, the taps of all pixels, and what these take of each channel."""
    taps = math.prod(site.attrs.kernel) * site.y().elements
    return {"element": site.y().elements, "tap": taps // site.y().shape[-1], "compared": taps}


def pool_s16(average: bool) -> Kernel:
    """The kernel of average, or maximum, pooling on int16."""
    return Kernel(
        "tc_pool2d_s16",
        offered(partial(_lower_pool_s16, average), cost=CountedCost("tc_pool2d_s16", of_windows)),
        when=(s16_to_s16,),
    )


def lower_pool(site: Site, p: PoolParams, ctype: str, extra: Mapping[str, int]) -> Call:
    """A pooling row kernel: one output row from the input rows of its windows, null where there is none."""
    window = Window.of(p.attrs, *p.attrs.kernel)
    fields = {**window_fields(site, window), "y_min": p.y_min, "y_max": p.y_max, **extra}
    return Call((Params(), In(0), Out()), Struct(ctype, fields), row_geometry(site, window, None))
