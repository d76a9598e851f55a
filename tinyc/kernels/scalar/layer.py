# SPDX-License-Identifier: Apache-2.0
"""What layers have in common that functions in C run on cores without DSP instructions (runtime_c/scalar/): how weights
are stored, and how sums become bytes.

Without its zero point a weight of uint8 may leave int8, as all of a layer together leave it by one offset: it is
w + offset, w of int8. What the offset adds to an output is a multiple of the sum of its inputs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array
from tinyc.kernel.dsp import Fields, out_fields
from tinyc.kernel.kernel import Call, Const, In, Out, Params, Rows, Scratch, Struct
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams, accumulated

SUM_LIMIT = 2**20  # a dot product of one segment stays below, so that 21 bits hold it
ACC_LIMIT = 2**28  # of what tc_scalar_scale takes
CHANNEL_BYTES = 16  # of constants for an output channel
_MOST_TAPS = 1 << 16  # a sum of so many products of int8, and a multiple of the sum of the inputs, fit int32


# ---- weights ----


def one_offset(site: Site) -> bool:
    """weights that one offset brings to int8"""
    if not site.is_const(1):
        return False
    least, greatest = ends(site.const(1))
    return greatest - least < 256 and site.const(1).size // site.y().channels < _MOST_TAPS


def has_offset(p: ConvParams) -> bool:
    """Whether weights have a zero point."""
    return bool(p.w.dtype != np.int8)


def offset_of(p: ConvParams) -> int:
    """What weights are more than what is stored of them."""
    return ends(p.w)[0] + 128 if has_offset(p) else 0


def stored(p: ConvParams) -> npt.NDArray[np.int8]:
    """The weights less the offset."""
    return (p.w - offset_of(p)).astype(np.int8)


def is_int4(site: Site) -> bool:
    """Whether weights are stored two in a byte."""
    return site.x(1).dtype == "s4"


def ends(w: Array) -> tuple[int, int]:
    """The least and the greatest weight, or 0, which tops up rows of taps."""
    return int(w.min(initial=0)), int(w.max(initial=0))


def by_lanes(taps: npt.NDArray[np.int8], lanes: int) -> npt.NDArray[np.int8]:
    """[O, K] -> [ceil(O / lanes)][K][lanes]."""
    padded = np.pad(taps, ((0, -len(taps) % lanes), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, lanes, taps.shape[1]).transpose(0, 2, 1))


def words_of_int4(taps: npt.NDArray[np.int8], places: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """[O, K], K even -> [ceil(O / 4)][K / 2] words; places: bits from which on these hold a weight, of two taps of four
    channels."""
    lanes = by_lanes(taps, 4)
    pairs = lanes.reshape(len(lanes), -1, 2, 4).astype(np.int64) & 15
    return np.asarray((pairs << places).sum(axis=(2, 3)).astype(np.uint32).view(np.int32))


def nibble_words(taps: npt.NDArray[np.int8]) -> npt.NDArray[np.int32]:
    """[O, K] of -8 .. 7 -> [ceil(O / 8)][K]: a word for a tap of eight channels, the last one's weight on top, the
    others plus 8 below."""
    lanes = by_lanes(taps, 8).astype(np.int64) + 8
    lanes[..., -1] -= 8
    words = (lanes << 4 * np.arange(8)).sum(axis=2)
    return np.asarray(words, np.int32)


# ---- sums, and bytes made of them ----


def small_sums_of(site: Site, out_axis: int) -> bool:
    """Whether the accumulators of a layer with its output channels on the given axis stay below 2^28."""
    return greatest_sum(*accumulated(site, out_axis)) < ACC_LIMIT


def greatest_sum(taps: Array, bias: Array) -> int:
    """A bound of every accumulator's absolute value, for weights taps[O, K]."""
    worst = np.abs(bias.astype(np.int64)) + 128 * np.abs(taps.astype(np.int64)).sum(axis=1)
    return int(worst.max(initial=0))


def segment_of(taps: Array) -> int:
    """The greatest even number of taps for which no dot product of int8 inputs with a segment of taps[O, K], K even,
    reaches 2^20. At least 62 (or K), whatever the weights."""
    sums = np.zeros((taps.shape[0], taps.shape[1] + 1), np.int64)
    np.cumsum(128 * np.abs(taps.astype(np.int64)), axis=1, out=sums[:, 1:])
    segment = int(taps.shape[1])
    while segment > 2 and _worst_segment(sums, segment) >= SUM_LIMIT:
        segment -= 2
    return segment


def _worst_segment(sums: npt.NDArray[np.int64], segment: int) -> int:
    starts = np.arange(0, sums.shape[1] - 1, segment)
    stops = np.minimum(starts + segment, sums.shape[1] - 1)
    worst: int = (sums[:, stops] - sums[:, starts]).max(initial=0).item()
    return worst


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


def row_call(struct: Struct, p: ConvParams, rows: Rows, flow: Rows | None = None) -> Call:
    """A row from rows of the input; the offset of weights is the last argument."""
    offset = (offset_of(p),) if has_offset(p) else ()
    return Call((Params(), In(0), Out(), Scratch(), *offset), struct, rows, flow)
