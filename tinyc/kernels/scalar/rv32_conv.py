# SPDX-License-Identifier: Apache-2.0
"""conv2d and fully_connected on RV32IM, int8 and int4 weights, eight channels at a time (runtime_c/tc_rv32.h)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.kernel.dsp import Fields
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
    only_if,
)
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, Window, is_s8, row_geometry, window_fields
from tinyc.kernels.finish import Finish, finish_wide
from tinyc.kernels.matrix import Matrix
from tinyc.kernels.nibbles import is_s8_w4
from tinyc.kernels.requantize import steps_of, without_add
from tinyc.kernels.scalar.conv import band_forms, by_lanes, groups_of, segment_of, shared_code
from tinyc.kernels.stream import matrix_of

ISA = frozenset({"rv32m"})
_LANES = 8  # channels beside each other
_PIXELS = 3
_SUM_LIMIT = 2**20  # a dot product stays below, so that 21 bits hold it
# log2 of the factor on sums before they are scaled; a larger one is more exact. The first is that of tc_rv32_block.h.
_SCALES = (11, 10, 6, 3)
_CODE_BYTES, _DENSE_BYTES = 1900, 600  # of a kernel, shared by the layers
ARMV7M_SHARE = 0.65  # instructions of ARMv7-M for one of RV32, in kernels that both have


def scaled_finish(matrix: Matrix) -> tuple[Finish, int] | None:
    """(how sums times 2^scale are requantized, scale), with one scale for all channels; None if none is proved."""
    found: tuple[Finish, int] | None = None
    for scale in _SCALES:
        every = np.full(len(matrix.taps), scale)
        finish = finish_wide(matrix, scale, lambda steps, every=every: every)  # type: ignore[misc]
        if finish is not None and (found is None or not finish.requant.sign):
            found = finish, scale
        if found is not None and not found[0].requant.sign:
            break
    return None if found is None else (_without_add(matrix, found[0]), found[1])


def _without_add(matrix: Matrix, finish: Finish) -> Finish:
    """The same with an instruction less, where that is proved."""
    if finish.requant.sign:
        return finish
    steps = steps_of(matrix.p, matrix.taps).without_dead()
    scaling = without_add(finish.scaling, steps, len(matrix.p.w))
    if scaling is None:
        return finish
    return replace(finish, scaling=replace(scaling, add=scaling.add * 0))  # nobody has the channels that were added


def is_plain(finish: Finish, scale: int) -> bool:
    """Whether tc_rv32_block.h takes the way to int8: the first scale, neither sign nor add."""
    return scale == _SCALES[0] and not finish.requant.sign and not finish.scaling.add.any()


def channel_text(finish: Finish) -> str:
    """C text of the tc_rv32_channel_t whose words are at `channels`, with literals for what channels have in common."""
    add = "channels[2]" if finish.scaling.add.any() else "0"
    shift = "channels[3]" if finish.requant.shifts is None else str(finish.requant.shifts[0])
    return f"{{channels[0], channels[1], {add}, {shift}}}"


def channel_constants(finish: Finish, bias: npt.NDArray[np.int32]) -> Const:
    """The tc_rv32_channel_t of every output channel, whose biases these are."""
    # The multiplier of a channel whose output is always the same is 0, so its weights may stay.
    padded = np.pad(bias.astype(np.int64), (0, len(finish.live) - len(bias)))
    start = finish.start_values(padded)
    columns = (start, finish.scaling.mult, finish.scaling.add, finish.scaling.shift)
    channels = np.stack([column[: len(bias)] for column in columns], axis=1).astype(np.int32)
    return Const(channels, "[out_c][start, mult, add, shift]", "channels")


def out_fields(matrix: Matrix, bias: npt.NDArray[np.int32]) -> Fields:
    """Fields of the tc_rv32_out_t called `out`. ValueError where `scaled_finish` finds none."""
    found = matrix.once(scaled_finish)
    if found is None:
        raise ValueError("no requantization is proved")
    finish, scale = found
    low, high = finish.requant.clamp or (-128, 127)
    fields = {"out_c": len(bias), "scale": scale, "sign": int(finish.requant.sign), "y_min": low, "y_max": high}
    fields["plain"] = int(is_plain(finish, scale))
    channels = channel_constants(finish, bias)
    return {"out.channels": channels, **{f"out.{name}": value for name, value in fields.items()}}


def _taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Weights as [O, K], K rounded up to a multiple of 4."""
    taps = p.w.reshape(p.w.shape[0], -1).astype(np.int8)
    return np.pad(taps, ((0, 0), (0, -taps.shape[1] % 4)))


def nibble_words(taps: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """[O, K] of -8 .. 7 -> [ceil(O / 8)][K]: a word for a tap of eight channels, the last one's weight on top, the
    others plus 8 below."""
    lanes = by_lanes(taps, _LANES).astype(np.int64) + 8
    lanes[..., -1] -= 8
    words = (lanes << 4 * np.arange(_LANES)).sum(axis=2)
    return np.asarray(words, np.int32)


def takes(site: Site) -> bool:
    """constant weights, one group"""
    return site.is_const(1) and int(site.attrs.groups) == 1


def _is_proved(site: Site, p: ConvParams) -> bool:
    return matrix_of(p).once(scaled_finish) is not None


def _fits_int4(site: Site, p: ConvParams) -> bool:
    sums = np.abs(_taps(p).astype(np.int64)).sum(axis=1)
    return 128 * int(sums.max(initial=0)) < _SUM_LIMIT and _is_proved(site, p)


def geometry(site: Site, p: ConvParams) -> tuple[Fields, Rows, Rows | None]:
    """Fields of the tc_rv32_window_t or tc_rvv_window_t called `window`, and how the call walks: all pixels as one row
    if it can."""
    x, y = site.x(0), site.y()
    window = Window.of(p.attrs, *p.w.shape[1:3])
    sizes = window_fields(site, window)
    rows, flow = row_geometry(site, window, p.x_zero), None
    if p.w.shape[1:3] == (1, 1) and p.attrs.stride == (1, 1) and not any(p.attrs.pad):
        pixels = x.shape[1] * x.shape[2]
        sizes |= {"in_w": pixels, "out_w": pixels}
        rows = Rows(1, 1, 1, 1, 0, 1, x.size_bytes, y.size_bytes, None)
        flow = buffered_flow(pixels, _PIXELS, x.shape[3], y.shape[3])
    pad = Const(np.full(x.shape[3], p.x_zero, np.int8), "[in_c] of x_zero", "pad")
    return {"window.pad": pad, **{f"window.{name}": value for name, value in sizes.items()}}, rows, flow


def lower(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_rv32: one output row from k_h input rows, or all pixels at once."""
    taps = _taps(p)
    sizes, rows, flow = geometry(site, p)
    fields = {
        "w": Const(by_lanes(taps, _LANES), "[out_c / 8][k_h][k_w][in_c][8]", "w"),
        **out_fields(matrix_of(p), p.bias),
        **sizes,
        "taps": taps.shape[1],
        "segment": _segment(taps),
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_rv32_t", fields), rows, flow)


def _segment(taps: npt.NDArray[np.int8]) -> int:
    """Taps of a segment, a multiple of 4 (or all)."""
    segment = segment_of(taps)
    return segment if segment == taps.shape[1] else segment // 4 * 4


def lower_int4(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_w4_rv32: one output row from k_h input rows, or all pixels at once."""
    taps = _taps(p)
    sizes, rows, flow = geometry(site, p)
    fields = {
        "w": Const(nibble_words(taps), "[out_c / 8][k_h][k_w][in_c] of eight channels, int4", "w"),
        **out_fields(matrix_of(p), p.bias),
        **sizes,
        "taps": taps.shape[1],
    }
    return Call((Params(), In(0), Out(), Scratch()), Struct("tc_conv2d_s8_w4_rv32_t", fields), rows, flow)


def scratch(site: Site, p: ConvParams) -> int:
    """Two words for each tap."""
    return 8 * int(_taps(p).shape[1])


def cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, from counts on the emulated core; on the scale of scalar/conv.py, ARMv7-M's."""
    out_c, taps = len(p.bias), _taps(p).shape[1]
    groups = groups_of(site)
    lanes = -(-out_c // _LANES) * _LANES
    executed = groups * (10 * taps + lanes * (5.35 * taps + 12) + 45 * out_c) * ARMV7M_SHARE
    bits = 4 if site.x(1).dtype == "s4" else 8
    flash = lanes * taps * bits // 8 + 16 * out_c + _CODE_BYTES
    code = shared_code(("tc_conv2d_rv32", bits), _CODE_BYTES)
    return Cost(int(executed), flash, scratch(site, p), code=code)


def row_forms(site: Site, p: ConvParams) -> tuple[RowForm, ...]:
    """Of 1x1 layers, beside single rows."""
    return band_forms(site, p, lower(site, p), cost(site, p), "tc_conv2d_s8_rv32")


PROVED = "a requantization that is proved"
_INT4 = f"{PROVED}, and sums of int4 weights within 2^20"
CONV2D = (
    Kernel(
        "tc_conv2d_s8_rv32",
        only_if(_is_proved, PROVED, offered(lower, scratch=scratch, cost=cost, row_forms=row_forms)),
        isa=ISA,
        when=(is_s8, takes),
        asks=PROVED,
        includes=("tc_rv32.h", "tc_rv32_block.h"),
    ),
    Kernel(
        "tc_conv2d_s8_w4_rv32",
        only_if(_fits_int4, _INT4, offered(lower_int4, scratch=scratch, cost=cost)),
        isa=ISA,
        when=(is_s8_w4, takes),
        asks=_INT4,
        includes=("tc_rv32.h",),
    ),
)


def takes_dense(site: Site) -> bool:
    """constant weights"""
    return site.is_const(1)


def lower_dense(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8[_w4]_rv32: the whole tensor."""
    out_c, in_c = p.w.shape
    weights, ctype = Const(by_lanes(p.w, _LANES), "[out_c / 8][in_c][8]", "w"), "tc_fully_connected_s8_rv32_t"
    if site.x(1).dtype == "s4":
        weights = Const(nibble_words(p.w), "[out_c / 8][in_c] of eight outputs, int4", "w")
        ctype = "tc_fully_connected_s8_w4_rv32_t"
    sizes = {"batch": site.y().elements // out_c, "in_c": in_c}
    fields = {"w": weights, **out_fields(matrix_of(p), p.bias), **sizes}
    return Call((Params(), In(0), Out()), Struct(ctype, fields))


def dense_cost(site: Site, p: ConvParams) -> Cost:
    """Estimate, on the scale of `cost`."""
    out_c, in_c = p.w.shape
    lanes = -(-out_c // _LANES) * _LANES
    executed = site.y().elements // out_c * lanes * (3.2 * in_c + 20) * ARMV7M_SHARE
    bits = 4 if site.x(1).dtype == "s4" else 8
    return Cost(int(executed), lanes * in_c * bits // 8 + 16 * out_c + _DENSE_BYTES, 0)


_DENSE_INCLUDES = ("tc_rv32.h", "tc_rv32_dense.h")
DENSE = (
    Kernel(
        "tc_fully_connected_s8_rv32",
        only_if(_is_proved, PROVED, offered(lower_dense, cost=dense_cost)),
        isa=ISA,
        when=(is_s8, takes_dense),
        asks=PROVED,
        includes=_DENSE_INCLUDES,
    ),
    Kernel(
        "tc_fully_connected_s8_w4_rv32",
        only_if(_is_proved, PROVED, offered(lower_dense, cost=dense_cost)),
        isa=ISA,
        when=(is_s8_w4, takes_dense),
        asks=PROVED,
        includes=_DENSE_INCLUDES,
    ),
)
