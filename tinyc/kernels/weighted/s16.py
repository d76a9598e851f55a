# SPDX-License-Identifier: Apache-2.0
"""Weighted layers on int16 for cores with DSP: weights widened to int16, two taps per SMLAD, sums in int32.

Sums may wrap on the way, so all that has to be proved is that every accumulator fits int32 in the end. The way to int16
is the layer's own rounding; single rounding and that of 64-bit accumulators are one multiplication and a shift.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Rounding
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
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
from tinyc.kernel.types import is_s16
from tinyc.kernel.wide import WIDE_ROUNDS, WideParams, largest_sum, taps_of
from tinyc.kernel.windows import Window, row_geometry, widths
from tinyc.kernels.form.row_walk import POINT, walk

Fields = dict[str, int | float | str | Const]

_DSP = frozenset({"dsp"})
_LARGEST = 32768  # of an int16's magnitude


def fits_int32(site: Site) -> bool:
    """accumulators that are proved to fit int32"""
    return largest_sum(site) < 2**31


def one_group(site: Site) -> bool:
    """one group"""
    return int(getattr(site.attrs, "groups", 1)) == 1


def one_per_input(site: Site) -> bool:
    """as many output channels as input channels"""
    return site.x(1).shape[2] == site.x(0).shape[3]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the kernels' structs say of a layer. taps: weights [out_c][taps]. scale: [out_c][mult, add, shift]. requant,
    rounds: of tc_s16.h."""

    taps: npt.NDArray[np.int64]
    bias: npt.NDArray[np.int64]
    scale: npt.NDArray[np.int64]
    requant: int
    rounds: int

    def fields(self, p: WideParams) -> Fields:
        """A tc_s16_out_t."""
        return {
            "out.out_c": len(self.bias),
            "out.finish": self.requant,
            "out.rounds": self.rounds,
            **{f"out.{name}": getattr(p, name) for name in ("y_zero", "y_min", "y_max")},
        }

    def stream(self, words: npt.NDArray[np.int32]) -> Const:
        """The stream of tc_s16.h; words: the weights of each four channels."""
        bias = np.pad(self.bias, (0, -len(self.bias) % 4)).reshape(-1, 4)
        scales = np.pad(self.scale, ((0, -len(self.scale) % 4), (0, 0))).reshape(-1, 12)
        whole = np.concatenate([bias, words.reshape(len(bias), -1), scales], axis=1)
        return Const(whole.astype(np.int32), "stream of tc_s16.h: int16 weights by fours of channels", "w")


def prepared(site: Site, p: WideParams) -> Prepared:
    """The layer's integers, for the fast requant where it is proved.

    That is floor(acc * mult / 2^(31 - shift) + 1/2) as the high word of a product, in which a half is whole if shift is
    at most -2. Channels that are scaled down by less have their weights and bias raised by as many bits, for which
    int16 and int32 must have room.
    """
    taps, mult, shift = taps_of(p.w), p.mult.astype(np.int64), p.shift.astype(np.int64)
    raised = np.maximum(shift + 2, 0)
    worst = (np.abs(p.bias) + _LARGEST * np.abs(taps).sum(axis=1)) << np.minimum(raised, 31)
    room = bool((worst < 2**31).all()) and int((np.abs(taps).max(axis=1) << np.minimum(raised, 31)).max()) < _LARGEST
    if p.rounding is Rounding.DOUBLE or not room:
        rounds = WIDE_ROUNDS if p.rounding is None else p.rounding.code
        return Prepared(taps, p.bias, np.stack([mult, np.zeros_like(mult), shift], axis=1), 0, rounds)
    right = raised - 1 - shift
    mult = mult << 16 if p.rounding is None else mult
    scale = np.stack([mult, np.int64(1) << (right - 1), right], axis=1)
    requant = {(-32768, 32767): 1, (0, 32767): 2}.get((p.y_min, p.y_max), 3) if p.y_zero == 0 else 0
    return Prepared(taps << raised[:, None], p.bias << raised, scale, requant, 0)


def _words(halves: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[..., 2] int16 as words, the first in the low half."""
    return np.ascontiguousarray(halves.astype("<i2")).view("<i4")[..., 0].astype(np.int32)


def matrix_words(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[out_c][taps] -> [groups of 4][steps of 2 taps][4], zeros beyond the last."""
    out_c, count = taps.shape
    padded = np.pad(taps, ((0, -out_c % 4), (0, -count % 4)))
    return _words(padded.reshape(len(padded) // 4, 4, -1, 2).transpose(0, 2, 1, 3))


def depthwise_words(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[c][taps] -> [groups of 4][taps][2], zeros beyond the last channel."""
    padded = np.pad(taps, ((0, -len(taps) % 4), (0, 0)))
    return _words(padded.reshape(len(padded) // 4, 2, 2, -1).transpose(0, 3, 1, 2))


# ---- convolutions and matrix products ----


def geometry(site: Site, p: WideParams, by_rows: bool) -> tuple[Window, int, int, int, Rows]:
    """(window, input columns and channels, output columns, rows) of the calls."""
    if not site.has_window:
        in_c = p.w.shape[1]
        pixels = site.y().elements // len(p.w)
        rows = Rows(1, 1, 1, 1, 0, 1, site.x(0).size_bytes, site.y().size_bytes, None)
        return POINT, pixels, in_c, pixels, rows
    window = Window.of(p.attrs, *p.w.shape[1:3])
    window, in_w, out_w, rows = walk(window, *widths(site), row_geometry(site, window, 0), by_rows)
    return window, in_w, site.x(0).shape[3], out_w, with_pad(rows, p)


def row_fields(window: Window, in_w: int, in_c: int, out_w: int) -> Fields:
    """What the kernels' structs say of an image's rows and the windows in them."""
    return {
        **{"in_w": in_w, "in_c": in_c, "out_w": out_w, "k_h": window.kernel.h, "k_w": window.kernel.w},
        **{"stride_w": window.stride.w, "pad_left": window.pad.left, "dilation_w": window.dilation.w},
    }


def with_pad(rows: Rows, p: WideParams) -> Rows:
    """With a row of padding in int16, where there is one; as bytes, since that is what pointers to rows point to."""
    if rows.pad is None:
        return rows
    row = np.full(rows.in_row_bytes // 2, p.x_zero, "<i2").view(np.int8)
    return replace(rows, pad=Const(row, "bytes of int16 [in_w][in_c] of x_zero", "pad"))


def scratch(site: Site, p: WideParams) -> int:
    """The taps of two pixels."""
    return 16 * -(-taps_of(p.w).shape[1] // 4)


def row_call(site: Site, p: WideParams, by_rows: bool, struct: str, constants: Fields) -> Call:
    """Of a kernel that makes one output row; all of them where they are one row as well. constants: the fields of its
    struct that the image says nothing about."""
    window, in_w, in_c, out_w, rows = geometry(site, p, by_rows)
    fields: Fields = {**constants, **row_fields(window, in_w, in_c, out_w), "x_zero": p.x_zero}
    flow = buffered_flow(out_w, 2, 2 * in_c, 2 * len(p.w)) if window == POINT and rows.out_h == 1 else None
    return Call((Params(), In(0), Out(), Scratch()), Struct(struct, fields), rows, flow)


def lower(site: Site, p: WideParams, by_rows: bool = False) -> Call:
    """tc_conv2d_s16_dsp: one output row; all of it where that is a row as well."""
    constants = prepared(site, p)
    stream = constants.stream(matrix_words(constants.taps))
    fields: Fields = {**constants.fields(p), "stream": stream, "halves": scratch(site, p) // 16}
    return row_call(site, p, by_rows, "tc_conv2d_s16_dsp_t", fields)


def of_fours(site: Site, p: WideParams) -> Units:
    """Fours of channels of two pixels, and of one, with their taps; taps that are gathered for a pixel, and the runs in
    which they lie; and `_of_outputs`."""
    window, in_w, _, out_w, _ = geometry(site, p, True)
    left = np.arange(out_w) * window.stride.w - window.pad.left
    whole = (left >= 0) & (left + window.kernel.w <= in_w) & (window.dilation.w == 1)
    runs = window.kernel.h * int(np.where(whole, 1, window.kernel.w).sum())
    taps, fours, pixels = 4 * (scratch(site, p) // 16), -(-len(p.bias) // 4), site.y().elements // len(p.bias)
    pairs, lone = (pixels // out_w * count * fours for count in divmod(out_w, 2))
    return {
        **{"pair": pairs, "tap of a pair": pairs * taps, "pixel": lone, "tap of a pixel": lone * taps},
        **{"gathered": pixels * taps, "run": pixels // out_w * runs},
        **_of_outputs(site, p, taps),
    }


def _of_outputs(site: Site, p: WideParams, taps: int) -> Units:
    """Outputs that are made in C, with their taps, and those whose bounds saturation does not keep."""
    requant, outputs = prepared(site, p).requant, site.y().elements
    slow = outputs if requant == 0 else outputs // len(p.bias) * (len(p.bias) % 4)
    return {"slow": slow, "tap of a slow one": slow * taps, "clamped": outputs * (requant == 3)}


def _stream_bytes(p: WideParams, taps: int) -> int:
    return -(-len(p.bias) // 4) * (8 * taps + 64)


cost = CountedCost("tc_conv2d_s16_dsp", of_fours, flash=lambda site, p: _stream_bytes(p, 4 * (scratch(site, p) // 16)))


def row_forms(site: Site, p: WideParams) -> tuple[RowForm, ...]:
    """One row of the image per call, where the call for the whole layer makes more at once."""
    if not at_once(site, p):
        return ()
    size = scratch(site, p)
    return (RowForm(lower(site, p, by_rows=True), size, cost(site, p).in_scratch(size)),)


def at_once(site: Site, p: WideParams) -> bool:
    """Whether the call for the whole layer makes several rows of its image."""
    return site.has_window and geometry(site, p, by_rows=False)[-1].out_h == 1 and site.y().shape[1] > 1


# ---- depthwise convolutions ----


def depthwise_scratch(site: Site, p: WideParams) -> int:
    """Pointers to the taps of one pixel, eight bytes each on the widest host."""
    return 8 * p.w.shape[0] * p.w.shape[1]


def depthwise_call(site: Site, p: WideParams, struct: str, constants: Fields) -> Call:
    """Of a kernel that makes one output row from k_h input rows. constants: as of `row_call`."""
    window = Window.of(p.attrs, *p.w.shape[:2])
    in_w, in_c = site.x(0).shape[2:]
    fields: Fields = {
        **constants,
        "pad": Const(np.full(in_c, p.x_zero, np.int16), "[in_c] of x_zero", "pad"),
        **row_fields(window, in_w, in_c, site.y().shape[2]),
    }
    rows = with_pad(row_geometry(site, window, 0), p)
    return Call((Params(), In(0), Out(), Scratch()), Struct(struct, fields), rows)


def lower_depthwise(site: Site, p: WideParams) -> Call:
    """tc_depthwise_conv2d_s16_dsp: one output row from k_h input rows."""
    constants = prepared(site, p)
    fields: Fields = {**constants.fields(p), "stream": constants.stream(depthwise_words(constants.taps))}
    return depthwise_call(site, p, "tc_depthwise_conv2d_s16_dsp_t", fields)


def of_channels(site: Site, p: WideParams) -> Units:
    """Fours of channels of a pixel with their taps, pointers to a pixel's taps, pixels, and `_of_outputs`."""
    taps, fours, pixels = p.w.shape[0] * p.w.shape[1], -(-len(p.bias) // 4), site.y().elements // len(p.bias)
    return {
        **{"four": pixels * fours, "tap of a four": pixels * fours * taps, "pointer": pixels * taps, "pixel": pixels},
        **_of_outputs(site, p, taps),
    }


depthwise_cost = CountedCost(
    "tc_depthwise_conv2d_s16_dsp",
    of_channels,
    flash=lambda _, p: _stream_bytes(p, p.w.shape[0] * p.w.shape[1]),
)


def _matrix_kernel(takes: tuple[Condition, ...], forms: Callable[[Site, WideParams], tuple[RowForm, ...]]) -> Kernel:
    return Kernel(
        "tc_conv2d_s16_dsp",
        offered(lower, scratch=scratch, cost=cost, row_forms=forms),
        isa=_DSP,
        when=(is_s16, *takes),
    )


CONV2D = (_matrix_kernel((one_group, fits_int32), row_forms),)
DENSE = (_matrix_kernel((fits_int32,), row_forms),)
DEPTHWISE = (
    Kernel(
        "tc_depthwise_conv2d_s16_dsp",
        offered(lower_depthwise, scratch=depthwise_scratch, cost=depthwise_cost),
        isa=_DSP,
        when=(is_s16, one_per_input, fits_int32),
    ),
)
