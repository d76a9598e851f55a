# SPDX-License-Identifier: Apache-2.0
"""Weighted layers with int4 weights: how they lie in flash, and the portable kernels.

A graph holds the weights as `s4` constants, an int8 array of -8 .. 7; here they become two per byte, in the order of
use.
A layer with int4 weights is only run by kernels that keep them so: flash is why they are int4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_w4
from tinyc.kernel.windows import ConvParams, Window, of_outputs, row_geometry, window_fields

_LAYOUT = "two in a byte, low half first"


def pack_nibbles(w: Array) -> npt.NDArray[np.uint8]:
    """int8 of -8 .. 7, any shape -> bytes, flat: element 2i in the low half of byte i, element 2i + 1 in the high one.

    ValueError for other numbers.
    """
    if w.size and (w.min() < -8 or w.max() > 7):
        raise ValueError(f"numbers from {w.min()} to {w.max()} do not fit int4")
    flat = np.pad(w.reshape(-1), (0, w.size % 2)).astype(np.uint8) & 15
    return np.asarray(flat[0::2] | flat[1::2] << 4, np.uint8)


def _shared(p: ConvParams, layout: str) -> dict[str, int | float | str | Const]:
    return {"w": Const(pack_nibbles(p.w), f"{layout} int4, {_LAYOUT}", "w"), **p.struct_fields()}


def _image_fields(site: Site, p: ConvParams, window: Window, layout: str) -> dict[str, int | float | str | Const]:
    return {
        **_shared(p, layout),
        "pad": Const(np.full(site.x(0).shape[3], p.x_zero, np.int8), "[in_c] of x_zero", "pad"),
        **window_fields(site, window),
        "out_c": len(p.bias),
    }


def lower_conv2d(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_w4: one output row from k_h input rows."""
    window = Window.of(p.attrs, *p.w.shape[1:3])
    fields = _image_fields(site, p, window, "[out_c][k_h][k_w][in_c/groups]") | {"groups": p.attrs.groups}
    return Call((Params(), In(0), Out()), Struct("tc_conv2d_s8_w4_t", fields), row_geometry(site, window, p.x_zero))


def lower_depthwise(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_s8_w4: one output row from k_h input rows."""
    window = Window.of(p.attrs, *p.w.shape[:2])
    struct = Struct("tc_depthwise_conv2d_s8_w4_t", _image_fields(site, p, window, "[k_h][k_w][out_c]"))
    return Call((Params(), In(0), Out()), struct, row_geometry(site, window, p.x_zero))


def lower_dense(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_w4: the whole tensor."""
    out_c, in_c = p.w.shape
    sizes = {"batch": site.y().elements // out_c, "in_c": in_c, "out_c": out_c}
    struct = Struct("tc_fully_connected_s8_w4_t", _shared(p, "[out_c][in_c]") | sizes)
    return Call((Params(), In(0), Out()), struct)


def of_products(site: Site, p: ConvParams) -> Units:
    """Products, and sums of them."""
    outputs = site.y().elements
    return {"product": outputs * (p.w.size // len(p.bias)), **of_outputs(p, outputs)}


def weight_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return -(-p.w.size // 2) + 9 * len(p.bias)


def _kernel(name: str, lower: Callable[[Site, ConvParams], Call]) -> Kernel:
    offer = offered(lower, cost=CountedCost(name, of_products, flash=weight_bytes))
    return Kernel(name, offer, when=(is_s8_w4,), includes=("tc_nibbles.h",))


CONV2D = (_kernel("tc_conv2d_s8_w4", lower_conv2d),)
DEPTHWISE = (_kernel("tc_depthwise_conv2d_s8_w4", lower_depthwise),)
DENSE = (_kernel("tc_fully_connected_s8_w4", lower_dense),)
