# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d: x[N,H,W,C] * w[KH,KW,C*M] + b[C*M] -> y[N,H',W',C*M]; output c*M+m reads input c."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.exact import along_rows
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import out_fields, pad_taps, paired_cost
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import (
    Call,
    Const,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    Scratch,
    Struct,
    Tiled,
    offered,
)
from tinyc.kernel.site import Act, Padding, Pair, Site, Type
from tinyc.kernel.types import is_s8
from tinyc.kernel.wide import IMAGE_KERNELS, Runtimes, WideParams, wide_params
from tinyc.kernel.windows import (
    ConvParams,
    Window,
    check_bias,
    check_image,
    conv_params,
    of_outputs,
    row_geometry,
    window_fields,
)
from tinyc.kernels import nibbles
from tinyc.kernels.depthwise import any_shape, direct
from tinyc.kernels.float32 import lane_rows, matrix
from tinyc.kernels.float32 import weighted as weighted_f32
from tinyc.kernels.mve import depthwise as mve_depthwise
from tinyc.kernels.mve import s16 as s16_mve
from tinyc.kernels.mve import window as mve_window
from tinyc.kernels.rows import columns as rows_columns
from tinyc.kernels.rows import depthwise as rows_depthwise
from tinyc.kernels.rows import sums as row_sums
from tinyc.kernels.rvv import depthwise as rvv_depthwise
from tinyc.kernels.scalar import depthwise as scalar_depthwise
from tinyc.kernels.scalar import rv32_columns, rv32_depthwise, rv32_taps
from tinyc.kernels.weighted import s16 as s16_dsp
from tinyc.ops.batched import Batched, Gradients, active, finished, images, picked, scattered
from tinyc.ops.op import Bias, Channels, Observed, Op, Trait, WeightRules


@dataclass(frozen=True, slots=True)
class DepthwiseConv2D:
    stride: Pair = Pair(1, 1)
    pad: Padding = Padding(0, 0, 0, 0)
    dilation: Pair = Pair(1, 1)
    act: Act = Act()


def infer(a: DepthwiseConv2D, x: Value, w: Value, b: Value | None = None) -> Sequence[Type]:
    check_image(x, "depthwise_conv2d")
    if len(w.shape) != 3 or w.shape[2] % x.shape[3]:
        raise TinycError(f"depthwise weights {list(w.shape)} ([KH,KW,C*M]) do not fit input {list(x.shape)}")
    k_h, k_w, out_c = w.shape
    check_bias(b, out_c)
    out = Window.of(a, k_h, k_w).output(x.shape)
    return [Type((x.shape[0], out.h, out.w, out_c), x.dtype)]


def _accumulate(a: DepthwiseConv2D, x: Array, w: Array, fill: float) -> Array:
    """Sums of products [N,H',W',C*M] in the arrays' own dtype."""
    k_h, k_w, out_c = w.shape
    parts = []
    for block in Window.of(a, k_h, k_w).blocks(x, fill):
        patches = np.repeat(block, out_c // x.shape[3], axis=-1)
        parts.append((patches * w).sum(axis=(3, 4), dtype=x.dtype))
    return np.concatenate(parts, axis=1)


def float_ref(a: DepthwiseConv2D, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    y = _accumulate(a, x, w, 0.0)
    if b is not None:
        y = y + b
    return (a.act.clip(y),)


RUNTIMES = Runtimes(long_bias=frozenset({Numerics.TFLM, Numerics.LITERT}))  # on int16


def prepare(site: Site) -> ConvParams | WideParams:
    if site.x(0).dtype == "s16":
        return wide_params(site, RUNTIMES)
    return conv_params(site, 2)


def int_ref(p: ConvParams | WideParams, x: Array, *_: Array | None) -> tuple[Array, ...]:
    sums = np.int64 if isinstance(p, WideParams) else np.int32
    acc = _accumulate(p.attrs, x.astype(sums), p.w.astype(sums), p.x_zero)
    return (p.finish(acc + p.bias),)


def macs(site: Site) -> int:
    """Output elements times taps, padding included."""
    k_h, k_w, _ = site.x(1).shape
    return site.y().elements * k_h * k_w


def lower_rows(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_s8: one output row from k_h input rows."""
    k_h, k_w, out_c = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    fields = {
        "w": Const(p.w, "[k_h][k_w][out_c]", "w"),
        **p.struct_fields(),
        "pad": Const(np.full(site.x(0).shape[3], p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        **window_fields(site, window),
        "out_c": out_c,
    }
    rows = row_geometry(site, window, p.x_zero)
    return Call((Params(), In(0), Out()), Struct("tc_depthwise_conv2d_s8_t", fields), rows)


def one_per_input(site: Site) -> bool:
    """as many output channels as input channels"""
    return site.x(1).shape[2] == site.x(0).shape[3]


def _pairs(p: ConvParams) -> int:
    k_h, k_w, _ = p.w.shape
    return -(-k_h * k_w // 2)


def _pack(p: ConvParams) -> npt.NDArray[np.int32]:
    """The words that tc_depthwise_conv2d_s8_dsp.h asks for, little endian."""
    out_c = p.w.shape[2]
    taps = np.zeros((2 * _pairs(p), out_c), np.int8)
    taps[: p.w.shape[0] * p.w.shape[1]] = p.w.reshape(-1, out_c)
    quads = out_c // 4
    blocks = taps[:, : 4 * quads].reshape(_pairs(p), 2, quads, 2, 2)  # [pair][s or t][quad][01 or 23][channel]
    rest = pad_taps(taps[:, 4 * quads :].T)
    packed = np.concatenate([blocks.transpose(2, 0, 3, 1, 4).ravel(), rest.ravel()])
    return packed.view("<i4").astype(np.int32)


def dsp_scratch(site: Site, p: ConvParams) -> int:
    """Pointers to the taps of one pixel, eight bytes each on the widest host."""
    return 2 * _pairs(p) * 8


def of_products(site: Site, p: ConvParams) -> Units:
    """Products, those of windows beside no other, whose places a compiler may know, and sums of them."""
    of_column = site.y().shape[2] == 1
    products = {"product": macs(site) * (not of_column), "product of a column": macs(site) * of_column}
    return {**products, **of_outputs(p, site.y().elements)}


def portable_rows(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """tc_depthwise_conv2d_rows_s8: one input row per call."""
    return row_sums.depthwise_rows(site, p, PORTABLE_COST(site, p))


PORTABLE_COST = CountedCost("tc_depthwise_conv2d_s8", of_products)


def of_dsp(site: Site, p: ConvParams) -> Units:
    """What tc_depthwise_conv2d_s8_dsp repeats: pairs of taps for four channels, fours of channels; taps of the other
    channels, and these; taps that are looked for where a window is at a side or the first between the sides; pixels."""
    (k_h, k_w, out_c), (_, out_h, out_w, _) = p.w.shape, site.y().shape
    pixels, fours, alone = out_h * out_w, out_c // 4, out_c % 4
    first = np.arange(out_w) * p.attrs.stride.w - p.attrs.pad.left
    inside = (first >= 0) & (first + (k_w - 1) * p.attrs.dilation.w < site.x(0).shape[2])
    sought = int((~inside).sum()) + bool(inside.any())
    return {
        "product": pixels * fours * _pairs(p),
        "four": pixels * fours,
        "product alone": pixels * alone * k_h * k_w,
        "channel alone": pixels * alone,
        "tap": out_h * sought * k_h * k_w,
        **of_outputs(p, site.y().elements),
        "pixel": pixels,
    }


def lower_rows_dsp(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_s8_dsp: one output row from k_h input rows."""
    k_h, k_w, out_c = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    outputs = out_fields(p, p.w.reshape(-1, out_c).T)
    fields = {
        **{f"out.{name}": value for name, value in outputs.items()},
        "w": Const(_pack(p), "[out_c][k_h][k_w] by quads and pairs (tc_depthwise_conv2d_s8_dsp.h)", "w"),
        "pad": Const(np.full(out_c, p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        **window_fields(site, window),
        "pairs": _pairs(p),
    }
    rows = row_geometry(site, window, p.x_zero)
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_depthwise_conv2d_s8_dsp_t", fields), rows)


_DSP = frozenset({"dsp"})
_AT_ONCE = 1 << 16  # elements whose products are added at once: they stay in the cache


def per_input(w: Array, channels: Array) -> npt.NDArray[np.float64]:
    """One number per input channel, as it broadcasts against w[KH,KW,C*M]: output channel c*M+m reads channel c."""
    return np.repeat(channels.astype(np.float64), w.shape[2] // len(channels))


def as_rows(w: Array, groups: int) -> Array:
    """Weights [C, M, KH*KW]."""
    k_h, k_w, out_c = w.shape
    return np.ascontiguousarray(w.reshape(k_h * k_w, groups, out_c // groups).transpose(1, 2, 0))


def from_rows(rows: Array, shape: tuple[int, ...]) -> Array:
    """The inverse of `as_rows`."""
    return np.ascontiguousarray(rows.transpose(2, 0, 1).reshape(shape))


def channels(a: DepthwiseConv2D, x: Value, y: Value) -> Channels:
    """M output channels of every input channel, one after the other."""
    return np.arange(y.channels) // (y.channels // x.channels)


def repeated(x: Array, out_c: int) -> Array:
    """Input channels as depthwise output channels read them."""
    return x if x.shape[-1] == out_c else np.repeat(x, out_c // x.shape[-1], axis=-1)


def windows(a: DepthwiseConv2D, w: Array, x: Array, at: npt.NDArray[np.int64] | None) -> Array:
    """`WeightRules.windows`."""
    view = Window.of(a, *w.shape[:2]).view(images(x), 0.0)
    taps = view.transpose(5, 0, 1, 2, 3, 4) if at is None else picked(view, at).transpose(3, 0, 1, 2)
    return taps.reshape(x.shape[-1], -1, w.shape[0] * w.shape[1])


def forward(a: DepthwiseConv2D, x: Array, w: Array, b: Array | None = None) -> Array:
    k_h, k_w, out_c = w.shape
    window = Window.of(a, k_h, k_w)
    y = np.zeros((len(x), *window.output(images(x).shape), out_c), np.float32)
    samples = max(1, _AT_ONCE // max(1, math.prod(y.shape[1:])))
    rows = max(1, _AT_ONCE // max(1, samples * math.prod(y.shape[2:])))
    products = np.empty(min(samples, len(x)) * rows * math.prod(y.shape[2:]), np.result_type(x, w))
    by_tap = [[along_rows(y, w[i, j]) for j in range(k_w)] for i in range(k_h)]
    for first in range(0, len(y), samples):
        view = repeated(window.view(images(x[first : first + samples]), 0.0), out_c)
        for top in range(0, y.shape[1], rows):
            part, own = view[:, top : top + rows], y[first : first + samples, top : top + rows]
            product = products[: own.size].reshape(own.shape)
            for i in range(k_h):
                for j in range(k_w):
                    own += np.multiply(part[:, :, :, i, j], by_tap[i][j], out=product)
            finished(a, own, b)
    return y[:, None]


def backward(a: DepthwiseConv2D, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    x, w = inputs[0], inputs[1]
    k_h, k_w, _ = w.shape
    d = images(active(a, y, dy))
    taps = np.empty((*d.shape[:3], k_h, k_w, x.shape[-1]), np.float32)
    for i in range(k_h):
        for j in range(k_w):
            taps[:, :, :, i, j] = (d * w[i, j]).reshape(*d.shape[:3], x.shape[-1], -1).sum(axis=-1)
    return (scattered(a, Pair(k_h, k_w), x, taps), *[None] * (len(inputs) - 1))


OP = Op(
    name="depthwise_conv2d",
    attrs=DepthwiseConv2D,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(axis=2, symmetric=True), Bias()),
    quant_out=(Observed(),),
    kernels=(
        mve_window.KERNEL,
        *mve_depthwise.KERNELS,
        *rvv_depthwise.KERNELS,
        Tiled("planes of int16, SMLAD", rows_depthwise.KERNELS),
        rows_columns.KERNEL,
        *direct.KERNELS,
        *any_shape.KERNELS,
        Kernel(
            "tc_depthwise_conv2d_s8_dsp",
            offered(
                lower_rows_dsp,
                scratch=dsp_scratch,
                cost=paired_cost("tc_depthwise_conv2d_s8_dsp", of_dsp, read="pixel"),
            ),
            isa=_DSP,
            when=(is_s8, one_per_input),
        ),
        *rv32_columns.KERNELS,
        *rv32_depthwise.KERNELS,
        *rv32_taps.KERNELS,
        *scalar_depthwise.KERNELS,
        Kernel(
            "tc_depthwise_conv2d_s8",
            offered(lower_rows, cost=PORTABLE_COST, row_forms=portable_rows),
            when=(is_s8,),
        ),
        *s16_mve.DEPTHWISE,
        *s16_dsp.DEPTHWISE,
        *scalar_depthwise.OFFSET_KERNELS,
        *IMAGE_KERNELS,
        Tiled("planes of int16, SMLAD, int4 weights", rows_depthwise.INT4_KERNELS),
        rows_columns.INT4_KERNEL,
        *scalar_depthwise.INT4_KERNELS,
        *nibbles.DEPTHWISE,
        lane_rows.DEPTHWISE_MVE,
        matrix.DEPTHWISE,
        weighted_f32.DEPTHWISE,
    ),
    macs=macs,
    weights=WeightRules(per_input, groups=lambda a, in_c: in_c, windows=windows, as_rows=as_rows, from_rows=from_rows),
    channels=channels,
    traits=frozenset({Trait.FUSES_CLIP, Trait.ANY_SCALES, Trait.INT16}),
    float32=Float32(weighted_f32.depthwise_ref),
    batched=Batched(forward, backward),
)
