# SPDX-License-Identifier: Apache-2.0
"""conv2d on cores without DSP instructions: three pixels in two words (tc_scalar.h says how)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import Fields, out_fields, with_spare
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
from tinyc.kernel.types import is_s8
from tinyc.kernel.windows import ConvParams, Window, accumulated, of_outputs, row_geometry, window_fields

_SUM_LIMIT = 2**20  # a dot product of one segment stays below, so that 21 bits hold it
_ACC_LIMIT = 2**28  # of what tc_scalar_scale takes
_LANES = 8  # channels beside each other
_PIXELS = 3
CHANNEL_BYTES = 16  # of constants for an output channel


def small_sums(site: Site) -> bool:
    """constant weights, one group, and accumulators within 2^28"""
    return site.is_const(1) and int(getattr(site.attrs, "groups", 1)) == 1 and small_sums_of(site, 0)


def small_sums_of(site: Site, out_axis: int) -> bool:
    """Whether the accumulators of a layer with its output channels on the given axis stay below 2^28."""
    return greatest_sum(*accumulated(site, out_axis)) < _ACC_LIMIT


def greatest_sum(taps: Array, bias: Array) -> int:
    """A bound of every accumulator's absolute value, for weights taps[O, K]."""
    worst = np.abs(bias.astype(np.int64)) + 128 * np.abs(taps.astype(np.int64)).sum(axis=1)
    return int(worst.max(initial=0))


def scale_fields(p: ConvParams, taps: Array, family: str) -> Fields:
    """Fields of the tc_scalar_out_t called `out`, for weights taps[O, K], and `store`: the function of the given family
    that makes bytes of accumulators."""
    fields = out_fields(p, taps)
    scale = fields.pop("scale")
    assert isinstance(scale, Const)
    mult, _, shift = scale.data.T  # the constant between them follows from the shift
    own = {
        "bias": fields.pop("bias"),
        "mult": Const(np.ascontiguousarray(mult), "[out_c]", "mult"),
        "shift": Const(shift.clip(-128, 127).astype(np.int8), "[out_c]", "shift"),
    }
    requant = f"{fields['finish']}{'c' if fields['finish'] and fields['clamp'] else ''}"
    return {f"out.{name}": value for name, value in (own | fields).items()} | {"store": f"{family}_{requant}"}


def segment_of(taps: npt.NDArray[np.int8]) -> int:
    """The greatest even number of taps for which no dot product of int8 inputs with a segment of taps[O, K], K even,
    reaches 2^20. At least 62 (or K), whatever the weights."""
    sums = np.zeros((taps.shape[0], taps.shape[1] + 1), np.int64)
    np.cumsum(128 * np.abs(taps.astype(np.int64)), axis=1, out=sums[:, 1:])
    segment = int(taps.shape[1])
    while segment > 2 and _worst_segment(sums, segment) >= _SUM_LIMIT:
        segment -= 2
    return segment


def _worst_segment(sums: npt.NDArray[np.int64], segment: int) -> int:
    starts = np.arange(0, sums.shape[1] - 1, segment)
    stops = np.minimum(starts + segment, sums.shape[1] - 1)
    worst: int = (sums[:, stops] - sums[:, starts]).max(initial=0).item()
    return worst


def even_taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [O, K], K rounded up to an even number."""
    taps = p.w.reshape(p.w.shape[0], -1).astype(np.int8)
    return with_spare(taps, taps.shape[1] % 2)


def by_lanes(taps: npt.NDArray[np.int8], lanes: int) -> npt.NDArray[np.int8]:
    """[O, K] -> [ceil(O / lanes)][K][lanes]."""
    padded = np.pad(taps, ((0, -len(taps) % lanes), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, lanes, taps.shape[1]).transpose(0, 2, 1))


def ends(w: Array) -> tuple[int, int]:
    """The least and the greatest weight, or 0, which tops up rows of taps."""
    return int(w.min(initial=0)), int(w.max(initial=0))


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


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Of 1x1 layers, beside single rows."""
    return band_forms(site, lower(site, p), COST(site, p), scratch(site, p), "tc_conv2d_s8_scalar")


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


def lower(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_scalar: one output row from k_h input rows, or all pixels at once."""
    taps = even_taps(p)
    sizes, rows, flow = geometry(site, p, _PIXELS)
    fields = {
        "w": Const(by_lanes(taps, _LANES), "[out_c / 8][k_h][k_w][in_c][8]", "w"),
        **scale_fields(p, p.w.reshape(len(p.bias), -1), "tc_scalar_pixels"),
        **sizes,
        "taps": taps.shape[1],
        "segment": segment_of(taps),
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_scalar_t", fields), rows, flow)


def scratch(site: Site, p: ConvParams) -> int:
    """Two words for each tap."""
    return 8 * int(even_taps(p).shape[1])


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    return by_lanes(even_taps(p), _LANES).nbytes + CHANNEL_BYTES * len(p.bias)


def of_triples(site: Site, p: ConvParams) -> Units:
    """What layers repeat that make three pixels at a time: groups of these, runs of their taps that are read at once,
    taps; products with four channels, segments of them beyond the first, outputs."""
    (out_c, k_h, _, _), (_, _, out_w, _) = p.w.shape, site.y().shape
    groups, taps = groups_of(site), even_taps(p).shape[1]
    runs = k_h * (groups if is_whole(site) else _runs(site, p) * (groups // -(-out_w // _PIXELS)))
    fours = groups * -(-out_c // 4)
    return {
        "product": fours * taps,
        "four": fours,
        "segment": fours * (-(-taps // segment_of(even_taps(p))) - 1),
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


COST = CountedCost("tc_conv2d_s8_scalar", of_triples, flash=flash_bytes)


KERNELS = (
    Kernel(
        "tc_conv2d_s8_scalar",
        offered(lower, scratch=scratch, cost=COST, row_forms=row_forms),
        when=(is_s8, small_sums),
        includes=("tc_scalar.h",),
    ),
)
