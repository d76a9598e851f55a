# SPDX-License-Identifier: Apache-2.0
"""Weighted layers on int16 with Helium (MVE): eight products to an instruction, sums in int32.

The integers are those of the kernels for cores with DSP (weighted/s16.py); only where their fast way to int16 is proved
is there one in vectors, and the stream is in another order (tc_s16_mve.h).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.kernel.kernel import (
    STREAM,
    Call,
    Condition,
    Const,
    Cost,
    Kernel,
    Offering,
    RowForm,
    offered,
    only_if,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s16
from tinyc.kernel.wide import WideParams, taps_of
from tinyc.kernel.windows import Window
from tinyc.kernels.weighted.s16 import (
    Fields,
    Prepared,
    at_once,
    depthwise_call,
    depthwise_scratch,
    fits_int32,
    geometry,
    one_group,
    one_per_input,
    prepared,
    row_call,
)
from tinyc.machine.thumb import Work

_STEP, _LANES = 8, 4  # taps of a vector, channels at a time
_MVE = frozenset({"mve"})
_ASKS = "a scaling that is one product of 32 bits and a shift, no zero point of the output"
# Instructions and cycles by beats: of two pixels by four channels, one pixel by four, eight channels of a depthwise
# layer; each first of a step, then of what is around the steps.
_PAIR, _PAIR_ENDS = Work(15, 29), Work(40, 65)
_ALONE, _ALONE_ENDS = Work(10, 19), Work(25, 40)
_TAP, _TAP_ENDS = Work(10, 17), Work(33, 60)
_RUN, _RUN_STEP, _POINTER = Work(26, 34), Work(3, 6), Work(11, 14)
_PIXEL = Work(50, 65)


def _words(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[.., even number] int16 as words, the first in the low half."""
    return np.ascontiguousarray(numbers.astype("<i2")).view("<i4").astype(np.int32)


def _matrix_words(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[out_c][taps] -> [groups of 4][words], eight taps of one channel after the other."""
    padded = np.pad(taps, ((0, -len(taps) % _LANES), (0, -taps.shape[1] % _STEP)))
    groups = padded.reshape(len(padded) // _LANES, _LANES, -1, _STEP).transpose(0, 2, 1, 3)
    return _words(groups.reshape(len(groups), -1))


def _depthwise_words(taps: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[c][taps] -> [groups of 8][words], eight channels of one tap after the other."""
    padded = np.pad(taps, ((0, -len(taps) % _STEP), (0, 0)))
    groups = padded.reshape(len(padded) // _STEP, _STEP, -1).transpose(0, 2, 1)
    return _words(groups.reshape(len(groups), -1))


def _stream(layer: Prepared, words: npt.NDArray[np.int32], order: tuple[int, ...]) -> Const:
    """The stream of tc_s16_mve.h; words: the weights of each group; order: of the channels whose constants they are."""
    groups = len(words)
    rows = np.concatenate([layer.bias[:, None], layer.scale * [1, 1, -1]], axis=1)
    padded = np.pad(rows, ((0, groups * len(order) - len(rows)), (0, 0)))
    constants = padded.reshape(groups, len(order), 4)[:, order, :].transpose(0, 2, 1)
    whole = np.concatenate([words, constants.reshape(groups, -1)], axis=1)
    return Const(whole.astype(np.int32), "stream of tc_s16_mve.h", STREAM)


def _fields(p: WideParams, constants: Prepared, steps: int) -> Fields:
    """A tc_s16_mve_t."""
    return {"out.steps": steps, "out.out_c": len(constants.bias), "out.y_min": p.y_min, "out.y_max": p.y_max}


def _is_fast(site: Site, p: WideParams) -> bool:
    return prepared(site, p).requant != 0


# ---- convolutions and matrix products ----


def _steps(p: WideParams) -> int:
    return -(-taps_of(p.w).shape[1] // _STEP)


def scratch(site: Site, p: WideParams) -> int:
    """The taps of two pixels."""
    return 4 * _STEP * _steps(p)


def lower(site: Site, p: WideParams, by_rows: bool = False) -> Call:
    """tc_conv2d_s16_mve: one output row; all of it where that is a row as well."""
    constants = prepared(site, p)
    stream = _stream(constants, _matrix_words(constants.taps), (0, 1, 2, 3))
    return row_call(site, p, by_rows, "tc_conv2d_s16_mve_t", {**_fields(p, constants, _steps(p)), "stream": stream})


def cost(site: Site, p: WideParams) -> Cost:
    """Counted from the assembly, and what C around it takes as measured; to 10 %."""
    window, in_w, _, out_w, _ = geometry(site, p, True)
    fours, steps = -(-len(p.bias) // _LANES), _steps(p)
    rows = site.y().elements // (out_w * len(p.bias))
    pairs = out_w // 2 * (fours * (steps * _PAIR + _PAIR_ENDS))
    last = out_w % 2 * (fours * (steps * _ALONE + _ALONE_ENDS))
    gathered = out_w * (_PIXEL + steps * _RUN_STEP) + window.kernel.h * _runs(window, in_w, out_w) * _RUN
    whole = rows * (pairs + last + gathered)
    flash = fours * (2 * _LANES * _STEP * steps + 64)
    return Cost(whole.instructions, flash, scratch(site, p), whole.cycles)


def _runs(window: Window, in_w: int, out_w: int) -> int:
    """Pieces of a kernel row that are copied, of all pixels of an output row: windows at a border go tap by tap."""
    starts = [ox * window.stride.w - window.pad.left for ox in range(out_w)]
    inside = [left >= 0 and left + window.kernel.w <= in_w and window.dilation.w == 1 for left in starts]
    return sum(1 if whole else window.kernel.w for whole in inside)


def row_forms(site: Site, p: WideParams) -> tuple[RowForm, ...]:
    """One row of the image per call, where the call for the whole layer makes more at once."""
    return (RowForm(lower(site, p, by_rows=True), scratch(site, p), cost(site, p)),) if at_once(site, p) else ()


# ---- depthwise convolutions ----


def lower_depthwise(site: Site, p: WideParams) -> Call:
    """tc_depthwise_conv2d_s16_mve: one output row from k_h input rows."""
    constants = prepared(site, p)
    stream = _stream(constants, _depthwise_words(constants.taps), (0, 2, 4, 6, 1, 3, 5, 7))
    fields: Fields = {**_fields(p, constants, constants.taps.shape[1]), "stream": stream}
    return depthwise_call(site, p, "tc_depthwise_conv2d_s16_mve_t", fields)


def depthwise_cost(site: Site, p: WideParams) -> Cost:
    """Counted from the assembly, and what C around it takes as measured; to 10 %."""
    k_h, k_w, out_c = p.w.shape
    taps, eights = k_h * k_w, -(-out_c // _STEP)
    pixel = eights * (taps * _TAP + _TAP_ENDS) + taps * _POINTER + _PIXEL
    whole = site.y().elements // out_c * pixel
    return Cost(whole.instructions, eights * (16 * taps + 128), depthwise_scratch(site, p), whole.cycles)


def _kernel(name: str, offering: Offering, *takes: Condition) -> Kernel:
    return Kernel(name, only_if(_is_fast, _ASKS, offering), isa=_MVE, when=(is_s16, *takes), asks=_ASKS)


_DOTS = offered(lower, scratch=scratch, cost=cost, row_forms=row_forms)
_CHANNELS = offered(lower_depthwise, scratch=depthwise_scratch, cost=depthwise_cost)
CONV2D = (_kernel("tc_conv2d_s16_mve", _DOTS, one_group, fits_int32),)
DENSE = (_kernel("tc_conv2d_s16_mve", _DOTS, fits_int32),)
DEPTHWISE = (_kernel("tc_depthwise_conv2d_s16_mve", _CHANNELS, one_per_input, fits_int32),)
