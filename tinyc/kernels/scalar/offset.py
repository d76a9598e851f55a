# SPDX-License-Identifier: Apache-2.0
"""Weights with a zero point on cores without DSP instructions, in 8 bits; of fully_connected also those without, with
inputs on the stack.

Without its zero point a weight of uint8 may leave int8, as all of a layer together leave it by one offset: it is
w + offset, w of int8. What the offset adds to an output is a multiple of the sum of its inputs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import with_spare
from tinyc.kernel.kernel import Call, Const, Kernel, Scratch, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import has_wide_weights, is_s8_or_w16
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.scalar import conv, dense, depthwise, taps
from tinyc.kernels.scalar.conv import ends, scale_fields, segment_of

_MOST_TAPS = 1 << 16  # a sum of so many products of int8, and a multiple of the sum of the inputs, fit int32
_HELD, _HELD_SUMS = 64, 64  # inputs and sums on the stack


def one_offset(site: Site) -> bool:
    """weights that one offset brings to int8"""
    if not site.is_const(1):
        return False
    least, greatest = ends(site.const(1))
    return greatest - least < 256 and site.const(1).size // site.y().channels < _MOST_TAPS


def _offset(p: ConvParams) -> int:
    return 0 if p.w.dtype == np.int8 else ends(p.w)[0] + 128


def _stored(p: ConvParams) -> ConvParams:
    """The layer with the weights that are stored."""
    return replace(p, w=(p.w - _offset(p)).astype(np.int8))


def _with_offset(call: Call, p: ConvParams, fields: dict[str, int | float | str | Const]) -> Call:
    """The call of a layer with stored weights, with other fields and the offset."""
    assert call.params is not None
    params = replace(call.params, fields={**call.params.fields, **fields})
    return replace(call, args=(*call.args, _offset(p)), params=params)


def _segment(p: ConvParams) -> int:
    rows = p.w.reshape(len(p.w), -1)
    return segment_of(with_spare(rows, rows.shape[1] % 2))


def lower_conv(site: Site, p: ConvParams) -> Call:
    """tc_conv2d_s8_offset_scalar: one output row from k_h input rows, or all pixels at once."""
    outputs = scale_fields(p, p.w.reshape(len(p.w), -1), "tc_scalar_pixels")
    return _with_offset(conv.lower(site, _stored(p)), p, {**outputs, "segment": _segment(p)})


def conv_scratch(site: Site, p: ConvParams) -> int:
    """Two words for each tap, and for each segment."""
    whole = conv.scratch(site, _stored(p))
    return whole + 8 * -(-whole // (8 * _segment(p)))


def conv_bytes(site: Site, p: ConvParams) -> int:
    return conv.flash_bytes(site, _stored(p))


def of_triples(site: Site, p: ConvParams) -> Units:
    """As of weights without a zero point, in other segments."""
    own = conv.of_triples(site, _stored(p))
    segments = -(-conv.even_taps(_stored(p)).shape[1] // _segment(p))
    return {**own, "segment": own["four"] * (segments - 1)}


def lower_dense(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_held_scalar: the whole tensor."""
    call = _with_offset(dense.lower(site, _stored(p)), p, {**scale_fields(p, p.w, "tc_scalar_dense")})
    once = p.w.shape[1] <= _HELD or p.w.shape[0] <= _HELD_SUMS
    args = tuple(arg for arg in call.args if not isinstance(arg, Scratch))
    return replace(call, args=args, flow=call.flow if once else None)


def dense_bytes(site: Site, p: ConvParams) -> int:
    return dense.flash_bytes(site, _stored(p))


def of_dense(site: Site, p: ConvParams) -> Units:
    """As of inputs in scratch; inputs that are widened, and sums of four outputs to which others are added."""
    own = dense.of_fours(site, _stored(p))
    (out_c, in_c), batch = p.w.shape, own["row"]
    parts = -(-in_c // _HELD)
    groups = -(-out_c // _HELD_SUMS) if parts > 1 else 1
    again = own["four"] * (parts - 1)
    return {**own, "input": batch * in_c * groups, "again": again, "part": batch * parts * groups}


def _stored_taps(p: ConvParams) -> npt.NDArray[np.int8]:
    """Depthwise weights [C, K], K a multiple of 4, less the offset: also those that top a row up."""
    rows = p.w.reshape(-1, p.w.shape[2]).T
    return np.ascontiguousarray((with_spare(rows, -rows.shape[1] % 4) - _offset(p)).astype(np.int8))


def lower_depthwise(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_s8_offset_taps: one output row from k_h input rows."""
    outputs = scale_fields(p, p.w.reshape(-1, p.w.shape[2]).T, "tc_scalar_dense")
    stored = Const(_stored_taps(p), "[out_c][k_h][k_w]", "w")
    return _with_offset(taps.lower(site, _stored(p)), p, {**outputs, "w": stored})


def depthwise_scratch(site: Site, p: ConvParams) -> int:
    """Pointers to the taps of a pixel."""
    return taps.scratch(site, _stored(p))


def of_taps(site: Site, p: ConvParams) -> Units:
    return taps.of_taps(site, _stored(p))


def taps_bytes(site: Site, p: ConvParams) -> int:
    return taps.weight_bytes(site, _stored(p))


def lower_3x3(site: Site, p: ConvParams) -> Call:
    """tc_depthwise_conv2d_3x3_s8_offset_scalar: one output row from three input rows."""
    outputs = scale_fields(p, p.w.reshape(9, -1).T, "tc_scalar_row")
    return _with_offset(depthwise.lower(site, _stored(p)), p, {**outputs})


def scratch_3x3(site: Site, p: ConvParams) -> int:
    """A word for each column, and one for each running sum."""
    return 2 * depthwise.scratch(site, p) + 4


_INCLUDES = ("tc_scalar.h",)
CONV = Kernel(
    "tc_conv2d_s8_offset_scalar",
    offered(
        lower_conv,
        scratch=conv_scratch,
        cost=CountedCost("tc_conv2d_s8_offset_scalar", of_triples, flash=conv_bytes),
    ),
    when=(has_wide_weights, one_offset, conv.small_sums),
    header="tc_conv2d_s8_scalar.h",
    includes=_INCLUDES,
)
DENSE = Kernel(
    "tc_fully_connected_s8_held_scalar",
    offered(lower_dense, cost=CountedCost("tc_fully_connected_s8_held_scalar", of_dense, flash=dense_bytes)),
    when=(is_s8_or_w16, one_offset, dense.takes),
    header="tc_fully_connected_s8_scalar.h",
    includes=_INCLUDES,
)
DEPTHWISE_3X3 = Kernel(
    "tc_depthwise_conv2d_3x3_s8_offset_scalar",
    offered(
        lower_3x3,
        scratch=scratch_3x3,
        cost=CountedCost("tc_depthwise_conv2d_3x3_s8_offset_scalar", depthwise.of_columns, flash=depthwise.flash_bytes),
    ),
    when=(has_wide_weights, one_offset, depthwise.takes),
    header="tc_depthwise_conv2d_3x3_s8_scalar.h",
    includes=_INCLUDES,
)
DEPTHWISE = Kernel(
    "tc_depthwise_conv2d_s8_offset_taps",
    offered(
        lower_depthwise,
        scratch=depthwise_scratch,
        cost=CountedCost("tc_depthwise_conv2d_s8_offset_taps", of_taps, flash=taps_bytes),
    ),
    when=(has_wide_weights, one_offset, taps.takes),
    header=taps.HEADER,
    includes=_INCLUDES,
)
