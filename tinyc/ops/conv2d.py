# SPDX-License-Identifier: Apache-2.0
"""conv2d: x[N,H,W,I] * w[O,KH,KW,I/groups] + b[O] -> y[N,H',W',O], with a fused activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.exact import dot, weighted
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.dsp import (
    matrix_fields,
    narrow_weights,
    of_pairs,
    one_group,
    pad_taps,
    paired_cost,
    pixels_kernel,
)
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, Tiled, offered
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
from tinyc.kernels.fast import one_row, winograd
from tinyc.kernels.float32 import matrix
from tinyc.kernels.float32 import weighted as weighted_f32
from tinyc.kernels.mve import conv as mve_conv
from tinyc.kernels.mve import s16 as s16_mve
from tinyc.kernels.rows import conv as rows_conv
from tinyc.kernels.rvv import conv as rvv_conv
from tinyc.kernels.rvv import planes as rvv_planes
from tinyc.kernels.scalar import conv as scalar
from tinyc.kernels.scalar import rows as scalar_rows
from tinyc.kernels.scalar import rv32_conv, rv32_dense
from tinyc.kernels.weighted import s16 as s16_dsp
from tinyc.ops.batched import Batched, Gradients, active, finished, images, picked, scattered
from tinyc.ops.op import Bias, Observed, Op, Trait, WeightRules

_AT_ONCE = 2**18  # taps of windows that are multiplied at once


@dataclass(frozen=True, slots=True)
class Conv2D:
    stride: Pair = Pair(1, 1)
    pad: Padding = Padding(0, 0, 0, 0)
    dilation: Pair = Pair(1, 1)
    groups: int = 1
    act: Act = Act()


def infer(a: Conv2D, x: Value, w: Value, b: Value | None = None) -> Sequence[Type]:
    check_image(x, "conv2d")
    if len(w.shape) != 4:
        raise TinycError(f"conv2d weights are [O,KH,KW,I/groups], found shape {list(w.shape)}")
    out_c, k_h, k_w, group_in = w.shape
    if a.groups < 1 or out_c % a.groups or group_in * a.groups != x.shape[3]:
        raise TinycError(f"weights {list(w.shape)} with {a.groups} groups do not fit input {list(x.shape)}")
    check_bias(b, out_c)
    out = Window.of(a, k_h, k_w).output(x.shape)
    return [Type((x.shape[0], out.h, out.w, out_c), x.dtype)]


def _accumulate(a: Conv2D, x: Array, w: Array, fill: float) -> Array:
    """Sums of products [N,H',W',O] in the arrays' own dtype."""
    blocks = Window.of(a, *w.shape[1:3]).blocks(x, fill)
    return np.concatenate([_products(a, patches, w) for patches in blocks], axis=1)


def _products(a: Conv2D, patches: Array, w: Array) -> Array:
    """The sums of some rows of windows."""
    per_group, group_in = len(w) // a.groups, w.shape[3]
    parts = []
    for g in range(a.groups):
        taps = w[g * per_group : (g + 1) * per_group].reshape(per_group, -1)
        part = patches[..., g * group_in : (g + 1) * group_in]
        parts.append(dot(part.reshape(*part.shape[:3], -1), taps.T))
    return np.concatenate(parts, axis=-1)


def float_ref(a: Conv2D, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    y = _accumulate(a, x, w, 0.0)
    if b is not None:
        y = y + b
    return (a.act.clip(y),)


RUNTIMES = Runtimes(long_bias=frozenset({Numerics.LITERT}))  # on int16


def prepare(site: Site) -> ConvParams | WideParams:
    if site.x(0).dtype == "s16":
        return wide_params(site, RUNTIMES)
    return conv_params(site, 0)


def int_ref(p: ConvParams | WideParams, x: Array, *_: Array | None) -> tuple[Array, ...]:
    # float64 products and sums of int8 are exact (below 2^53) and use BLAS, int64 matmul does not.
    acc = _accumulate(p.attrs, x.astype(np.float64), p.w.astype(np.float64), p.x_zero)
    return (p.finish(acc.astype(np.int64) + p.bias),)


def macs(site: Site) -> int:
    """Output elements times taps, padding included."""
    return site.y().elements * site.x(1).elements // site.x(1).shape[0]


def lower_rows(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8: one output row from k_h input rows."""
    out_c, k_h, k_w, _ = p.w.shape
    in_c = site.x(0).shape[3]
    window = Window.of(p.attrs, k_h, k_w)
    fields = {
        "w": Const(p.w, "[out_c][k_h][k_w][in_c/groups]", "w"),
        **p.struct_fields(),
        "pad": Const(np.full(in_c, p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        **window_fields(site, window),
        "out_c": out_c,
        "groups": p.attrs.groups,
    }
    return Call((Params(), In(0), Out()), Struct("tc_conv2d_s8_t", fields), row_geometry(site, window, p.x_zero))


def is_pointwise(site: Site) -> bool:
    """1x1 weights, stride 1, no padding"""
    a: Conv2D = site.attrs
    return site.x(1).shape[1:3] == (1, 1) and a.stride == (1, 1) and a.pad == (0, 0, 0, 0)


def is_rowwise(site: Site) -> bool:
    """weights of one row, vertical stride 1, no vertical padding"""
    a: Conv2D = site.attrs
    return site.x(1).shape[1] == 1 and a.stride.h == 1 and a.pad.top == a.pad.bottom == 0


def _dsp_taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [O, K], each kernel row padded to a multiple of 4 taps."""
    out_c, k_h, k_w, in_c = p.w.shape
    return pad_taps(p.w.reshape(out_c, k_h, k_w * in_c)).reshape(out_c, -1)


def dsp_scratch(site: Site, p: ConvParams) -> int:
    """Taps of two pixels as int16, and two kernel rows of int8."""
    _, _, k_w, in_c = p.w.shape
    return 4 * int(_dsp_taps(p).shape[1]) + 2 * k_w * in_c


def of_dsp(site: Site, p: ConvParams) -> Units:
    """What tc_conv2d_s8_dsp repeats."""
    (_, k_h, k_w, in_c), (_, out_h, out_w, _) = p.w.shape, site.y().shape
    first = np.arange(out_w) * p.attrs.stride.w - p.attrs.pad.left
    inside = (first >= 0) & (first + k_w <= site.x(0).shape[2]) & (p.attrs.dilation.w == 1)
    units, outside = of_pairs(p, _dsp_taps(p), out_h, out_w), int((~inside).sum()) * out_h * k_h
    runs = units["pair"] * k_h
    return {
        **units,
        "tail": runs * (k_w * in_c % 4),
        "column": outside * k_w,
        "gathered": outside * k_w * in_c,
    }


def lower_rows_dsp(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_dsp: one output row from k_h input rows."""
    _, k_h, k_w, _ = p.w.shape
    window = Window.of(p.attrs, k_h, k_w)
    fields = {
        **matrix_fields(p, _dsp_taps(p), "[out_c][k_h][k_w][in_c]"),
        **window_fields(site, window),
        "x_zero": p.x_zero,
    }
    rows = row_geometry(site, window, p.x_zero)
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_dsp_t", fields), rows)


def per_input(w: Array, channels: Array) -> npt.NDArray[np.float64]:
    """One number per input channel, as it broadcasts against w[O,KH,KW,I/groups]."""
    out_c, _, _, group_in = w.shape
    groups = len(channels) // group_in
    return np.repeat(channels.astype(np.float64).reshape(groups, 1, 1, group_in), out_c // groups, axis=0)


def _windows(a: Conv2D, x: Array, w: Array) -> Array:
    """The taps of every window of an ungrouped convolution, a view [samples, H', W', KH, KW, I], or of its pixels where
    they are the windows."""
    return images(x) if takes_pixels(a, w) else Window.of(a, *w.shape[1:3]).view(images(x), 0.0)


def taps_of_windows(a: Conv2D, x: Array, w: Array, at: npt.NDArray[np.int64] | None = None) -> Array:
    """The same as rows: [samples * H' * W', KH * KW * I], or those at the places `at`."""
    return picked(_windows(a, x, w), at).reshape(-1, w[0].size)


def takes_pixels(a: Conv2D, w: Array) -> bool:
    """Whether every window is one pixel, and every pixel a window."""
    return w.shape[1:3] == (1, 1) and tuple(a.stride) == (1, 1) and not any(a.pad)


def windows(a: Conv2D, w: Array, x: Array, at: npt.NDArray[np.int64] | None) -> Array:
    """`WeightRules.windows`."""
    group_in = w.shape[3]
    return np.stack([taps_of_windows(a, x[..., g * group_in : (g + 1) * group_in], w, at) for g in range(a.groups)])


def forward(a: Conv2D, x: Array, w: Array, b: Array | None = None) -> Array:
    return in_steps(a, x, w, b)


def in_steps(
    a: Conv2D,
    x: Array,
    w: Array,
    b: Array | None,
    steps: tuple[float, float] | None = None,
    w_steps: npt.NDArray[np.float64] | None = None,
) -> Array:
    """`Batched.in_steps`."""
    parts = x.shape[2] if steps is not None and takes_pixels(a, w) else 1  # rows of large pictures stay in the cache
    rows = x.reshape(len(x) * parts, 1, x.shape[2] // parts, *x.shape[3:])
    y = weighted(lambda x, w: _sums(a, x, w), rows, w, steps, w_steps, lambda y: finished(a, y, b))
    return y.reshape(len(x), 1, y.shape[2] * parts, *y.shape[3:])


def _sums(a: Conv2D, x: Array, w: Array) -> Array:
    """Sums of products [samples, 1, H', W', O] in the arrays' own type, some samples at a time: their windows stay in
    the cache."""
    out = Window.of(a, *w.shape[1:3]).output(images(x).shape)
    per_group, group_in = len(w) // a.groups, w.shape[3]
    y = np.empty((len(x), out.h * out.w, len(w)), x.dtype)
    at_once = max(1, _AT_ONCE // max(1, out.h * out.w * w[0].size))
    for g in range(a.groups):
        rows = slice(g * per_group, (g + 1) * per_group)
        view = _windows(a, x[..., g * group_in : (g + 1) * group_in], w)
        taps = np.ascontiguousarray(w[rows].reshape(per_group, -1).T)
        for first in range(0, len(x), at_once):
            part = view[first : first + at_once]
            into = y[first : first + at_once, :, rows]
            if a.groups == 1:  # whole rows of y: without a copy of them
                np.matmul(part.reshape(-1, len(taps)), taps, out=into.reshape(-1, per_group))
            else:
                into[:] = (part.reshape(-1, len(taps)) @ taps).reshape(into.shape)
    return y.reshape(len(x), 1, out.h, out.w, len(w))


def backward(a: Conv2D, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    x, w = inputs[0], inputs[1]
    flat = active(a, y, dy).reshape(-1, len(w))
    per_group, group_in = len(w) // a.groups, w.shape[3]
    dx = np.zeros_like(x)
    for g in range(a.groups):
        out, into = slice(g * per_group, (g + 1) * per_group), slice(g * group_in, (g + 1) * group_in)
        part, by_tap = x[..., into], dot(flat[:, out], w[out].reshape(per_group, -1))
        if takes_pixels(a, w):
            dx[..., into] = by_tap.reshape(part.shape)
        else:
            spread = by_tap.reshape(len(x), *y.shape[2:4], *w.shape[1:])
            dx[..., into] = scattered(a, Pair(*w.shape[1:3]), part, spread)
    return (dx, *[None] * (len(inputs) - 1))


_DSP = frozenset({"dsp"})


def of_products(site: Site, p: ConvParams) -> Units:
    """Products, runs of them, of a tap of an output, and sums that become outputs."""
    run = site.x(1).shape[3]
    return {"product": macs(site), "run": macs(site) // run, **of_outputs(p, site.y().elements)}


OP = Op(
    name="conv2d",
    attrs=Conv2D,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(axis=0, symmetric=True), Bias()),
    quant_out=(Observed(),),
    kernels=(
        *mve_conv.CONV_KERNELS,
        Tiled("vectors of channels, or of pixels over planes", (*rvv_conv.CONV2D, *rvv_planes.KERNELS)),
        Tiled("register tiles of SMLAD", rows_conv.KERNELS),
        Tiled("exact fast forms, SMLAD", (*one_row.KERNELS, *winograd.KERNELS)),
        pixels_kernel(one_group, is_pointwise),
        Kernel(
            "tc_conv2d_s8_dsp",
            offered(
                lower_rows_dsp,
                scratch=dsp_scratch,
                cost=paired_cost("tc_conv2d_s8_dsp", of_dsp),
            ),
            isa=_DSP,
            when=(is_s8, one_group, narrow_weights),
        ),
        Tiled("register tiles of RV32IM", (*rv32_dense.CONV2D, *scalar_rows.RV32, *rv32_conv.INT4_CONV2D)),
        Tiled("exact fast forms, products by pairs of weights in a word", scalar_rows.FAST),
        Tiled("three pixels in two words", scalar.KERNELS),
        counted_kernel("tc_conv2d_s8", lower_rows, of_products, when=(is_s8,)),
        *s16_mve.CONV2D,
        *s16_dsp.CONV2D,
        *IMAGE_KERNELS,
        Tiled("register tiles of SMLAD, int4 weights", rows_conv.INT4_KERNELS),
        *nibbles.CONV2D,
        matrix.CONV_MVE,
        matrix.CONV,
        weighted_f32.CONV,
    ),
    macs=macs,
    rowwise=is_rowwise,
    weights=WeightRules(
        per_input,
        groups=lambda a, in_c: int(a.groups),
        windows=windows,
        as_rows=lambda w, groups: w.reshape(groups, len(w) // groups, -1),
        from_rows=lambda rows, shape: rows.reshape(shape),
    ),
    traits=frozenset({Trait.FUSES_CLIP, Trait.ANY_SCALES, Trait.INT16}),
    float32=Float32(weighted_f32.conv_ref),
    batched=Batched(forward, backward, in_steps),
)
