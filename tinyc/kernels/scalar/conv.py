# SPDX-License-Identifier: Apache-2.0
"""conv2d on cores without DSP instructions: three pixels in two words (tc_scalar.h says how). Weights of int8, of int4,
and with a zero point."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import Fields, with_spare
from tinyc.kernel.kernel import (
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    Rows,
    Scratch,
    Struct,
    buffered_flow,
    offered,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import has_wide_weights, is_s8, is_s8_w4
from tinyc.kernel.windows import ConvParams, Window, accumulated, of_outputs, row_geometry, window_fields
from tinyc.kernels.scalar.layer import (
    CHANNEL_BYTES,
    SUM_LIMIT,
    by_lanes,
    greatest_sum,
    has_offset,
    is_int4,
    one_offset,
    row_call,
    scale_fields,
    segment_of,
    small_sums_of,
    stored,
    words_of_int4,
)

_LANES = 8  # channels beside each other
_PIXELS = 3
# Bits of a word from which on it holds the int4 weight of channel 0 .. 3, for its first and second tap.
_PLACES = np.array([[28, 24, 12, 8], [20, 16, 4, 0]])


def small_sums(site: Site) -> bool:
    """constant weights, one group, and accumulators within 2^28"""
    return site.is_const(1) and int(getattr(site.attrs, "groups", 1)) == 1 and small_sums_of(site, 0)


def short_sums(site: Site) -> bool:
    """constant weights, one group, and sums of products within 2^20"""
    if not small_sums(site):
        return False
    taps, bias = accumulated(site, 0)
    return greatest_sum(taps, bias) - int(np.abs(bias).min(initial=0)) < SUM_LIMIT


def is_whole(site: Site) -> bool:
    """Whether all pixels may be taken as one row."""
    a = site.attrs
    return site.x(1).shape[1:3] == (1, 1) and a.stride == (1, 1) and not any(a.pad)


def groups_of(site: Site, pixels: int = _PIXELS) -> int:
    """How many groups of up to so many pixels are made: of all pixels, or row by row."""
    batch, out_h, out_w, _ = site.y().shape
    if is_whole(site):
        return -(-batch * out_h * out_w // pixels)
    return batch * out_h * -(-out_w // pixels)


def geometry(site: Site, p: ConvParams, at_a_time: int, prefix: str = "") -> tuple[Fields, Rows, Rows | None]:
    """Fields of a window, their names behind the prefix, and how the call walks: all pixels as one row if it can.
    at_a_time: pixels that are read before they are written."""
    x, y = site.x(0), site.y()
    window = Window.of(p.attrs, *p.w.shape[1:3])
    sizes = window_fields(site, window)
    rows, flow = row_geometry(site, window, p.x_zero), None
    if is_whole(site):
        pixels = x.shape[1] * x.shape[2]
        sizes |= {"in_w": pixels, "out_w": pixels}
        rows = Rows(1, 1, 1, 1, 0, 1, x.size_bytes, y.size_bytes, None)
        flow = buffered_flow(pixels, at_a_time, x.shape[3], y.shape[3])
    pad = Const(np.full(x.shape[3], p.x_zero, np.int8), "[in_c] of x_zero", "pad")
    fields: Fields = {"pad": pad, **sizes}
    return {f"{prefix}{name}": value for name, value in fields.items()}, rows, flow


def _rows(w: Array, multiple: int) -> Array:
    """Weights as [O, K], K rounded up."""
    rows = w.reshape(len(w), -1)
    return with_spare(rows, -rows.shape[1] % multiple)


def _taps(site: Site, p: ConvParams) -> npt.NDArray[np.int8]:
    """[O, K] as they are stored."""
    return np.asarray(_rows(stored(p), 4 if is_int4(site) else 2), np.int8)


def _segment(site: Site, p: ConvParams) -> int:
    """Taps of one."""
    return segment_of(_rows(p.w, 2))


def lower(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8[_w4 or _offset]_scalar: one output row from k_h input rows, or all pixels at once."""
    taps = _taps(site, p)
    sizes, rows, flow = geometry(site, p, _PIXELS, "window.")
    layer = {**scale_fields(p, _rows(p.w, 1), "tc_scalar_pixels"), **sizes, "taps": taps.shape[1]}
    if is_int4(site):
        layout = "[out_c / 4][k_h][k_w][in_c] by two taps of four channels, int4"
        words = Const(words_of_int4(taps, _PLACES), layout, "w")
        struct = Struct(
            "tc_conv2d_s8_w4_scalar_t", {"nibbles": words, **{f"layer.{name}": value for name, value in layer.items()}}
        )
    else:
        weights = Const(by_lanes(taps, _LANES), "[out_c / 8][k_h][k_w][in_c][8]", "w")
        struct = Struct("tc_conv2d_s8_scalar_t", {"w": weights, **layer, "segment": _segment(site, p)})
    return row_call(struct, p, rows, flow)


def scratch(site: Site, p: ConvParams) -> int:
    """Two words for each tap, and with an offset for each segment."""
    taps = _taps(site, p).shape[1]
    return 8 * (taps + (-(-taps // _segment(site, p)) if has_offset(p) else 0))


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    out_c, taps = _taps(site, p).shape
    weights = -(-out_c // 4) * 2 * taps if is_int4(site) else -(-out_c // _LANES) * _LANES * taps
    return weights + CHANNEL_BYTES * out_c


def of_triples(site: Site, p: ConvParams) -> Units:
    """What layers repeat that make three pixels at a time: groups of these, runs of their taps that are read at once,
    taps; products with four channels, segments of them beyond the first, outputs."""
    (out_c, k_h, _, _), (_, _, out_w, _) = p.w.shape, site.y().shape
    groups, taps = groups_of(site), _taps(site, p).shape[1]
    runs = k_h * (groups if is_whole(site) else _runs(site, p) * (groups // -(-out_w // _PIXELS)))
    fours = groups * -(-out_c // 4)
    return {
        "product": fours * taps,
        "four": fours,
        "segment": fours * (-(-taps // _segment(site, p)) - 1),
        "tap": groups * taps,
        "run": runs,
        "group": groups,
        **of_outputs(p, site.y().elements),
    }


def _runs(site: Site, p: ConvParams) -> int:
    """Of taps of a row of the window, over a row of groups: one where three windows are inside, else one each tap."""
    a, k_w, out_w = p.attrs, p.w.shape[2], site.y().shape[2]
    first = np.arange(0, out_w, _PIXELS) * a.stride.w - a.pad.left
    inside = (first >= 0) & (first + 2 * a.stride.w + k_w <= site.x(0).shape[2]) & (a.dilation.w == 1)
    inside &= np.arange(_PIXELS, out_w + _PIXELS, _PIXELS) <= out_w
    return int(np.where(inside, 1, k_w).sum())


def of_places(site: Site, p: ConvParams) -> Units:
    """Of int4 weights: groups of three pixels, places and taps of their windows, products with four channels, and
    outputs."""
    (out_c, k_h, k_w, _), taps, groups = p.w.shape, _taps(site, p).shape[1], groups_of(site)
    products = groups * -(-out_c // 4) * taps
    places = {"group": groups, "place": groups * k_h * k_w, "tap": groups * taps}
    return {"product": products, **of_outputs(p, site.y().elements), **places}


def band_forms(site: Site, call: Call, whole: Cost, own_scratch: int, kernel: str) -> tuple[RowForm, ...]:
    """Three rows of 1x1 taps per call, which are whole groups of pixels; none where a single row is too.

    call, whole, own_scratch: of the kernel of that name, for all pixels; beside it is the function that makes rows.
    """
    _, out_h, out_w, out_c = site.y().shape
    if not is_whole(site) or out_h < _PIXELS or out_w % _PIXELS == 0 or call.params is None:
        return ()
    x_bytes, y_bytes = site.x(0).shape[2] * site.x(0).shape[3], out_w * out_c
    rows = Rows(out_h, out_h, 1, 1, 0, 1, x_bytes, y_bytes, None, out_rows=_PIXELS)
    needed = own_scratch + 3 * out_c
    sizes = {name: out_w for name in call.params.fields if name.rsplit(".", 1)[-1] in ("in_w", "out_w")}
    params = Struct(call.params.ctype, {**call.params.fields, **sizes})
    return (
        RowForm(
            call=Call((Params(), In(0), Out(), Scratch(), _PIXELS), params, rows),
            scratch_bytes=needed,
            cost=whole,
            inplace=(0,) if x_bytes == y_bytes else (),
            function=f"{kernel}_rows",
            includes=(f"{kernel}.h",),
        ),
    )


COST = CountedCost("tc_conv2d_s8_scalar", of_triples, flash=flash_bytes)
_OFFSET = CountedCost("tc_conv2d_s8_offset_scalar", of_triples, flash=flash_bytes)
_INT4 = CountedCost("tc_conv2d_s8_w4_scalar", of_places, flash=flash_bytes)


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Of 1x1 layers of int8 weights, beside single rows."""
    return band_forms(site, lower(site, p), COST(site, p), scratch(site, p), "tc_conv2d_s8_scalar")


KERNELS = (
    Kernel(
        "tc_conv2d_s8_scalar",
        offered(lower, scratch=scratch, cost=COST, row_forms=row_forms),
        when=(is_s8, small_sums),
        includes=("tc_scalar.h",),
    ),
    Kernel(
        "tc_conv2d_s8_offset_scalar",
        offered(lower, scratch=scratch, cost=_OFFSET),
        when=(has_wide_weights, one_offset, small_sums),
        header="tc_conv2d_s8_scalar.h",
        includes=("tc_scalar.h",),
    ),
    Kernel(
        "tc_conv2d_s8_w4_scalar",
        offered(lower, scratch=scratch, cost=_INT4),
        when=(is_s8_w4, short_sums),
        includes=("tc_scalar.h", "tc_conv2d_s8_scalar.h"),
    ),
)
