"""depthwise_conv2d: x[N,H,W,C] * w[KH,KW,C*M] + b[C*M] -> y[N,H',W',C*M]; output c*M+m reads input c."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernels import Call, Const, In, Kernel, Out, Params, Struct
from tinyc.ops.base import Act, Bias, Observed, Op, Padding, Pair, Site, Type
from tinyc.ops.windows import (
    ConvParams,
    Window,
    check_bias,
    check_image,
    conv_params,
    is_s8,
    row_geometry,
    window_fields,
)


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
    patches = Window.of(a, k_h, k_w).view(x, fill)
    patches = np.repeat(patches, out_c // x.shape[3], axis=-1)
    return np.asarray((patches * w).sum(axis=(3, 4), dtype=x.dtype))


def float_ref(a: DepthwiseConv2D, x: Array, w: Array, b: Array | None = None) -> tuple[Array, ...]:
    y = _accumulate(a, x, w, 0.0)
    if b is not None:
        y = y + b
    return (a.act.clip(y),)


def prepare(site: Site) -> ConvParams:
    return conv_params(site, 2)


def int_ref(p: ConvParams, x: Array, *_: Array | None) -> tuple[Array, ...]:
    acc = _accumulate(p.attrs, x.astype(np.int32), p.w.astype(np.int32), p.x_zero)
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


OP = Op(
    name="depthwise_conv2d",
    attrs=DepthwiseConv2D,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(axis=2, symmetric=True), Bias()),
    quant_out=(Observed(),),
    kernels=(Kernel("tc_depthwise_conv2d_s8", lower_rows, when=(is_s8,)),),
    macs=macs,
)
