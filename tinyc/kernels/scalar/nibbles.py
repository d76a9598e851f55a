# SPDX-License-Identifier: Apache-2.0
"""Layers with int4 weights on cores without DSP instructions: the kernels of `scalar/`, weights two per byte."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import pad_taps
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_w4
from tinyc.kernel.windows import ConvParams, accumulated, of_outputs
from tinyc.kernels.nibbles import pack_nibbles
from tinyc.kernels.scalar import conv as scalar
from tinyc.kernels.scalar import dense as scalar_dense
from tinyc.kernels.scalar import depthwise as scalar_depthwise
from tinyc.kernels.scalar.conv import CHANNEL_BYTES, by_lanes, greatest_sum, scale_fields

_LANES = 4
_SUM_LIMIT = 2**20  # a dot product stays below, so that 21 bits hold it
# Bits of a word from which on it holds the weight of channel 0 .. 3, for its first and second tap.
_PLACES = np.array([[28, 24, 12, 8], [20, 16, 4, 0]])
_DENSE_PLACES = np.array([[0, 4, 8, 12], [16, 20, 24, 28]])


def _words(taps: npt.NDArray[np.int8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[O, K], K even -> [ceil(O / 4)][K / 2] words."""
    lanes = by_lanes(taps, _LANES)
    pairs = lanes.reshape(len(lanes), -1, 2, _LANES).astype(np.int64) & 15
    return np.asarray((pairs << places).sum(axis=(2, 3)).astype(np.uint32).view(np.int32))


def takes_conv2d(site: Site) -> bool:
    """constant weights, one group, and sums of products within 2^20"""
    if not site.is_const(1) or int(site.attrs.groups) != 1 or not scalar.small_sums_of(site, 0):
        return False
    taps, bias = accumulated(site, 0)
    return greatest_sum(taps, bias) - int(np.abs(bias).min(initial=0)) < _SUM_LIMIT


def _conv_taps(p: ConvParams) -> npt.NDArray[np.int8]:
    return pad_taps(p.w.reshape(p.w.shape[0], -1))


def lower_conv2d(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_w4_scalar: one output row from k_h input rows, or all pixels at once."""
    call = scalar.lower(site, p)
    if call.params is None:
        raise ValueError("the kernel takes a struct")
    taps = _conv_taps(p)
    unused = ("w", "segment")
    layer = {f"layer.{name}": value for name, value in call.params.fields.items() if name not in unused}
    layout = "[out_c / 4][k_h][k_w][in_c] by two taps of four channels, int4"
    fields = {"nibbles": Const(_words(taps, _PLACES), layout, "w"), **layer, "layer.taps": taps.shape[1]}
    return Call(call.args, Struct("tc_conv2d_s8_w4_scalar_t", fields), call.rows, call.flow)


def conv2d_scratch(site: Site, p: ConvParams) -> int:
    """Two words for each tap."""
    return 8 * int(_conv_taps(p).shape[1])


def of_conv2d(site: Site, p: ConvParams) -> Units:
    """Groups of three pixels, places and taps of their windows, products with four channels, and outputs."""
    (out_c, k_h, k_w, _), taps, groups = p.w.shape, _conv_taps(p).shape[1], scalar.groups_of(site)
    products = groups * -(-out_c // _LANES) * taps
    places = {"group": groups, "place": groups * k_h * k_w, "tap": groups * taps}
    return {"product": products, **of_outputs(p, site.y().elements), **places}


def conv2d_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return 4 * _words(_conv_taps(p), _PLACES).size + CHANNEL_BYTES * len(p.bias)


def lower_depthwise(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_3x3_s8_w4_scalar: one output row from three input rows."""
    call = scalar_depthwise.lower(site, p)
    if call.params is None:
        raise ValueError("the kernel takes a struct")
    taps = np.pad(p.w.reshape(9, -1).T, ((0, 0), (0, 1)))
    weights = Const(pack_nibbles(taps).view(np.int8), "[out_c][5], two int4 in a byte, low half first", "w")
    return Call(call.args, Struct(call.params.ctype, {**call.params.fields, "w": weights}), call.rows)


def depthwise_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return (5 + CHANNEL_BYTES) * p.w.shape[2]


def lower_dense(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_w4_scalar: the whole tensor."""
    out_c, in_c = p.w.shape
    batch = site.y().elements // out_c
    even = np.pad(p.w, ((0, 0), (0, in_c % 2)))
    fields = {
        "w": Const(_words(even, _DENSE_PLACES), "[out_c / 4][in_c / 2] of four outputs, int4", "w"),
        **scale_fields(p, p.w, "tc_scalar_dense"),
        "batch": batch,
        "in_c": in_c,
    }
    struct = Struct("tc_fully_connected_s8_w4_scalar_t", fields)
    return Call((Params(), In(0), Out()), struct)


def of_dense(site: Site, p: ConvParams) -> Units:
    """Words of two inputs for four outputs, odd inputs of these, and outputs."""
    out_c, in_c = p.w.shape
    elements = site.y().elements
    quads = elements // out_c * -(-out_c // _LANES)
    return {"word": quads * (in_c // 2), "odd": quads * (in_c % 2), "quad": quads, **of_outputs(p, elements)}


def dense_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    out_c, in_c = p.w.shape
    return -(-out_c // _LANES) * 2 * in_c + CHANNEL_BYTES * out_c


CONV2D = (
    Kernel(
        "tc_conv2d_s8_w4_scalar",
        offered(
            lower_conv2d,
            scratch=conv2d_scratch,
            cost=CountedCost("tc_conv2d_s8_w4_scalar", of_conv2d, flash=conv2d_bytes),
        ),
        when=(is_s8_w4, takes_conv2d),
        includes=("tc_scalar.h", "tc_conv2d_s8_scalar.h"),
    ),
)
DEPTHWISE = (
    Kernel(
        "tc_depthwise_conv2d_3x3_s8_w4_scalar",
        offered(
            lower_depthwise,
            scratch=scalar_depthwise.scratch,
            cost=CountedCost(
                "tc_depthwise_conv2d_3x3_s8_w4_scalar", scalar_depthwise.of_columns, flash=depthwise_bytes
            ),
        ),
        when=(is_s8_w4, scalar_depthwise.takes),
        header="tc_depthwise_conv2d_3x3_s8_scalar.h",
        includes=("tc_scalar.h",),
    ),
)
DENSE = (
    Kernel(
        "tc_fully_connected_s8_w4_scalar",
        offered(lower_dense, cost=CountedCost("tc_fully_connected_s8_w4_scalar", of_dense, flash=dense_bytes)),
        when=(is_s8_w4, scalar_dense.takes),
        includes=("tc_scalar.h",),
    ),
)
