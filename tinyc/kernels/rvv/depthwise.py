# SPDX-License-Identifier: Apache-2.0
"""depthwise_conv2d with RISC-V's vectors: lanes are channels (tc_depthwise_conv2d_s8_rvv.h)."""

from __future__ import annotations

import numpy as np

from tinyc.kernel.dsp import Fields
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, Params, Struct, offered, only_if
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, Window, row_geometry, window_fields
from tinyc.kernels.requantize import Int64s
from tinyc.kernels.rvv import ISA
from tinyc.kernels.rvv.costs import LANES, Vectors, vectors_cost
from tinyc.kernels.rvv.finish import INSTRUCTIONS, PROVED, VectorFinish, vector_finish
from tinyc.kernels.stream import depthwise_matrix_of

_MOST_TAPS = 32  # TC_RVV_MOST_TAPS
_NINE = 9  # taps that are held in registers
_HELD_SEGMENTS = (3, 2)


def takes(site: Site) -> bool:
    """constant weights, at most 32 taps, one output per input channel"""
    k_h, k_w, out_c = site.x(1).shape
    return site.is_const(1) and out_c == site.x(0).shape[3] and k_h * k_w <= _MOST_TAPS


def segment_of(taps: Int64s, segments: tuple[int, ...]) -> int:
    """The first of `segments` such that no sum of products with so many taps of taps[O, K], from the first one on,
    leaves int16, whatever the int8 inputs are; 1 if none is."""
    return next((segment for segment in segments if _fits(taps, segment)), 1)


def _fits(taps: Int64s, segment: int) -> bool:
    padded = np.pad(taps, ((0, 0), (0, -taps.shape[1] % segment))).reshape(len(taps), -1, segment)
    above, below = np.maximum(padded, 0).sum(axis=2), np.maximum(-padded, 0).sum(axis=2)
    greatest, least = 127 * above + 128 * below, -(128 * above + 127 * below)
    return int(greatest.max(initial=0)) < 2**15 and int(least.min(initial=0)) >= -(2**15)


def _finish_of(site: Site, p: ConvParams) -> VectorFinish:
    finish = depthwise_matrix_of(p).once(vector_finish)
    if finish is None:
        raise ValueError(f"{site.node.name}: no requantization is proved")
    return finish


def _is_proved(site: Site, p: ConvParams) -> bool:
    return depthwise_matrix_of(p).once(vector_finish) is not None


def walk(p: ConvParams) -> tuple[int, bool]:
    """(taps of a segment, whether weights are held)."""
    taps = depthwise_matrix_of(p).taps
    if taps.shape[1] == _NINE and (segment := segment_of(taps, _HELD_SEGMENTS)) > 1:
        return segment, True
    return segment_of(taps, tuple(range(taps.shape[1], 0, -1))), False


def _inside(site: Site, p: ConvParams) -> int:
    """Pixels of a row whose windows are wholly inside."""
    k_w, window = p.w.shape[1], Window.of(p.attrs, *p.w.shape[:2])
    reach = (k_w - 1) * window.dilation.w
    firsts = range(-window.pad.left, site.y().shape[2] * window.stride.w - window.pad.left, window.stride.w)
    return sum(first >= 0 and first + reach < site.x(0).shape[2] for first in firsts)


def together_of(site: Site, p: ConvParams) -> int:
    """Neighbouring pixels that are made as one of so many times the channels: those of few channels, with stride 1."""
    together = LANES // len(p.bias)
    return together if together > 1 and p.attrs.stride.w == 1 and _inside(site, p) >= together else 1


def lower(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_s8_rvv: one output row from k_h input rows."""
    window = Window.of(p.attrs, *p.w.shape[:2])
    pad = Const(np.full(len(p.bias), p.x_zero, np.int8), "[in_c] of x_zero", "pad")
    sizes: Fields = {f"window.{name}": value for name, value in window_fields(site, window).items()}
    (segment, held), together = walk(p), together_of(site, p)
    layout = "[k_h][k_w][out_c]" if together == 1 else f"[k_h][k_w][{together}][out_c]"
    fields = {
        **_finish_of(site, p).fields(depthwise_matrix_of(p).taps[: len(p.bias)], layout, together),
        **sizes,
        "window.pad": pad,
        **{"segment": segment, "held": int(held), "together": together},
    }
    struct = Struct("tc_depthwise_conv2d_s8_rvv_t", fields)
    return Call((Params(), In(0), Out()), struct, row_geometry(site, window, p.x_zero))


def cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, from counts on the emulated core."""
    (k_h, k_w, channels), (_, out_h, out_w, _) = p.w.shape, site.y().shape
    taps, (segment, held) = k_h * k_w, walk(p)
    flushes = -(-taps // segment)
    pixel = INSTRUCTIONS[_finish_of(site, p).way] + 20 + (3 * taps + 3 * flushes if held else 8 * taps + 9 * flushes)
    inside, together = _inside(site, p), together_of(site, p)
    runs = out_h * (out_w - inside + 1)
    each = out_h * (out_w - inside + -(-inside // together)) * pixel + runs * (40 if held else 12)
    flash = together * (p.w.size + int(_finish_of(site, p).constants.shape[0]) * 4 * channels)
    return vectors_cost(Vectors(channels, each, runs * (9 * taps + 60)), flash, 0)


KERNELS = (
    Kernel(
        "tc_depthwise_conv2d_s8_rvv",
        only_if(_is_proved, PROVED, offered(lower, cost=cost)),
        isa=ISA,
        when=(is_s8, takes),
        asks=PROVED,
        includes=("tc_rvv.h",),
    ),
)
