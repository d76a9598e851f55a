# SPDX-License-Identifier: Apache-2.0
"""transpose_conv2d: every x[N,H,W,I] pixel adds w[O,KH,KW,I] * x to a window of y[N,H',W',O], plus b[O]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.exact import dot
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import (
    Arg,
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    RowIndex,
    Rows,
    Struct,
    offered,
)
from tinyc.kernel.site import Act, Pair, Site, Type
from tinyc.kernel.types import is_s8, is_s16
from tinyc.kernel.wide import Runtimes, WideParams, scaling_fields, wide_params
from tinyc.kernel.wide import weight_bytes as wide_bytes
from tinyc.kernel.windows import ConvParams, check_bias, check_image, conv_params, row_bytes
from tinyc.kernels.float32 import weighted as weighted_f32
from tinyc.ops.op import Bias, Observed, Op, Trait


@dataclass(frozen=True, slots=True)
class TransposeConv2D:
    """Input (r, c) adds to output rows r*stride.h - pad.h + k, columns alike; `size` is the output's."""

    stride: Pair
    pad: Pair  # rows above and columns left that are cut off
    size: Pair
    act: Act = Act()


def infer(a: TransposeConv2D, x: Value, w: Value, b: Value | None = None) -> Sequence[Type]:
    check_image(x, "transpose_conv2d")
    if len(w.shape) != 4 or w.shape[3] != x.shape[3]:
        raise TinycError(f"transpose_conv2d weights {list(w.shape)} ([O,KH,KW,I]) do not fit input {list(x.shape)}")
    if min(*a.stride, *a.size) < 1 or min(a.pad) < 0:
        raise TinycError(
            f"transpose_conv2d: stride {tuple(a.stride)}, padding {tuple(a.pad)}, size {tuple(a.size)} do not fit"
        )
    check_bias(b, w.shape[0])
    return [Type((1, *a.size, w.shape[0]), x.dtype)]


def _accumulate(a: TransposeConv2D, x: Array, w: Array) -> Array:
    """Sums of products [1,H',W',O] in the arrays' own dtype."""
    _, in_h, in_w, _ = x.shape
    out_c, k_h, k_w, _ = w.shape
    room_h = max((in_h - 1) * a.stride.h + k_h, a.pad.h + a.size.h)
    room_w = max((in_w - 1) * a.stride.w + k_w, a.pad.w + a.size.w)
    full = np.zeros((1, room_h, room_w, out_c), x.dtype)
    for ky in range(k_h):
        for kx in range(k_w):
            rows = slice(ky, ky + (in_h - 1) * a.stride.h + 1, a.stride.h)
            columns = slice(kx, kx + (in_w - 1) * a.stride.w + 1, a.stride.w)
            full[:, rows, columns] += dot(x, w[:, ky, kx].T)
    return full[:, a.pad.h : a.pad.h + a.size.h, a.pad.w : a.pad.w + a.size.w]


def float_ref(a: TransposeConv2D, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    y = _accumulate(a, x, w)
    return (a.act.clip(y if b is None else y + b),)


RUNTIMES = Runtimes(long_bias=frozenset({Numerics.TFLM, Numerics.LITERT}))  # on int16


def prepare(site: Site) -> ConvParams | WideParams:
    """As of a convolution, but with the bias as the model has it: no zero point is folded in."""
    out_c = site.x(1).shape[0]
    bias = site.const(2) if site.has(2) else np.zeros(out_c, np.int32)
    if site.x(0).dtype == "s16":
        return replace(wide_params(site, RUNTIMES), bias=bias.astype(np.int64))
    return replace(conv_params(site, 0), bias=bias.astype(np.int32))


def int_ref(p: ConvParams | WideParams, x: Array, *_: Array | None) -> tuple[Array, ...]:
    # float64 products and sums of int8 are exact (below 2^53) and use BLAS, int64 matmul does not.
    acc = _accumulate(p.attrs, x.astype(np.float64) - p.x_zero, p.w.astype(np.float64))
    return (p.finish(acc.astype(np.int64) + p.bias),)


def macs(site: Site) -> int:
    """Input elements times taps of each, those that fall off the border included."""
    return site.x(0).elements * site.x(1).elements // site.x(0).shape[3]


def lower(site: Site, p: ConvParams | WideParams) -> Call:
    """tc_transpose_conv2d_s8 and tc_transpose_conv2d_s16: the whole tensor."""
    return _call(site, p, (Params(), In(0), Out()))


def _call(site: Site, p: ConvParams | WideParams, args: tuple[Arg, ...], rows: Rows | None = None) -> Call:
    a: TransposeConv2D = site.attrs
    out_c, k_h, k_w, in_c = p.w.shape
    fields: dict[str, int | float | str | Const] = {
        "w": Const(p.w.astype(np.int8), "[out_c][k_h][k_w][in_c]", "w"),
        **_output_fields(p),
        **dict(zip(("in_h", "in_w"), site.x(0).shape[1:3], strict=True)),
        **{"in_c": in_c, "out_h": a.size.h, "out_w": a.size.w, "out_c": out_c, "k_h": k_h, "k_w": k_w},
        **{"stride_h": a.stride.h, "stride_w": a.stride.w, "pad_top": a.pad.h, "pad_left": a.pad.w},
        "x_zero": p.x_zero,
    }
    return Call(args, Struct(f"tc_transpose_conv2d_{_kind(p)}_t", fields), rows)


def of_taps(site: Site, p: ConvParams | WideParams) -> Units:
    """Outputs, rows of taps that meet the image, taps of these that do, and products."""
    a, (out_c, k_h, k_w, in_c), (_, in_h, in_w, _) = site.attrs, p.w.shape, site.x(0).shape
    rows = _met(range(a.pad.h, a.pad.h + a.size.h), k_h, a.stride.h, in_h)
    columns = _met(range(a.pad.w, a.pad.w + a.size.w), k_w, a.stride.w, in_w)
    taps = rows * columns * out_c
    runs = rows * a.size.w * out_c
    return {"element": site.y().elements, "run": runs, "tap": taps, "product": taps * in_c}


def _met(places: range, taps: int, stride: int, size: int) -> int:
    """How often a tap of a place meets one of `size` inputs, which are `stride` places apart."""
    starts = range(0, size * stride, stride)
    return sum(place - tap in starts for place in places for tap in range(taps))


def weight_bytes(site: Site, p: ConvParams | WideParams) -> int:
    """Of weights, biases and factors."""
    return wide_bytes(site, p) if isinstance(p, WideParams) else p.w.size + 9 * len(p.w)


def row_forms(site: Site, p: ConvParams | WideParams) -> tuple[RowForm, ...]:
    """tc_transpose_conv2d_row_s8 and _s16: each row is made of the input rows whose taps meet it."""
    a: TransposeConv2D = site.attrs
    count = -(-p.w.shape[1] // a.stride.h)
    newest = (np.arange(a.size.h) + a.pad.h) // a.stride.h
    starts = Const((newest - count + 1).astype(np.int16), "[out_h] the uppermost of its rows", "starts")
    in_h, in_row, out_row = site.x(0).shape[1], row_bytes(site.x(0)), row_bytes(site.y())
    rows = Rows(in_h, a.size.h, count, 1, 0, 1, in_row, out_row, None, starts=starts)
    kind = _kind(p)
    name, whole = f"tc_transpose_conv2d_row_{kind}", COSTS[kind](site, p)
    return (
        RowForm(
            _call(site, p, (Params(), In(0), RowIndex(), Out()), rows),
            scratch_bytes=0,
            cost=Cost(whole.instructions, whole.flash_bytes + starts.data.nbytes, 0),
            function=name,
            includes=(f"{name}.h",),
        ),
    )


def _kind(p: ConvParams | WideParams) -> str:
    return "s16" if isinstance(p, WideParams) else "s8"


COSTS = {kind: CountedCost(f"tc_transpose_conv2d_{kind}", of_taps, flash=weight_bytes) for kind in ("s8", "s16")}


def _output_fields(p: ConvParams | WideParams) -> dict[str, int | float | str | Const]:
    if isinstance(p, ConvParams):
        return p.struct_fields()
    return scaling_fields(p)


OP = Op(
    name="transpose_conv2d",
    attrs=TransposeConv2D,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(axis=0, symmetric=True), Bias()),
    quant_out=(Observed(),),
    kernels=(
        Kernel("tc_transpose_conv2d_s8", offered(lower, cost=COSTS["s8"], row_forms=row_forms), when=(is_s8,)),
        Kernel("tc_transpose_conv2d_s16", offered(lower, cost=COSTS["s16"], row_forms=row_forms), when=(is_s16,)),
        weighted_f32.TRANSPOSED,
    ),
    macs=macs,
    traits=frozenset({Trait.FUSES_CLIP, Trait.ANY_SCALES, Trait.INT16}),
    float32=Float32(weighted_f32.transposed_ref),
)
