# SPDX-License-Identifier: Apache-2.0
"""fully_connected on cores without DSP instructions: one product in each multiplication, four outputs at a time. Inputs
as words, in scratch or a few at a time on the stack, there also of weights with a zero point; or as bytes, with int4
weights."""

from __future__ import annotations

import numpy as np

from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.dsp import pad_taps
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Scratch, Struct, buffered_flow, offered
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8, is_s8_or_w16, is_s8_w4
from tinyc.kernel.windows import ConvParams, of_outputs
from tinyc.kernels.scalar.layer import (
    CHANNEL_BYTES,
    by_lanes,
    is_int4,
    offset_of,
    one_offset,
    scale_fields,
    small_sums_of,
    stored,
    words_of_int4,
)

_LANES = 4
_HELD, _HELD_SUMS = 64, 64  # inputs and sums on the stack
_PLACES = np.array([[0, 4, 8, 12], [16, 20, 24, 28]])  # in a word of int4 weights, of two inputs for four outputs


def takes(site: Site) -> bool:
    """constant weights, and accumulators within 2^28"""
    return site.is_const(1) and small_sums_of(site, 0)


def _batch(site: Site, p: ConvParams) -> int:
    return site.y().elements // len(p.bias)


def lower(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_scalar: the whole tensor."""
    (out_c, in_c), batch = p.w.shape, _batch(site, p)
    flow = buffered_flow(batch, 1, in_c, out_c)
    return Call((Params(), In(0), Out(), Scratch()), _struct(site, p), flow=flow)


def lower_held(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_held_scalar: the whole tensor."""
    (out_c, in_c), batch = p.w.shape, _batch(site, p)
    once = in_c <= _HELD or out_c <= _HELD_SUMS
    flow = buffered_flow(batch, 1, in_c, out_c) if once else None
    return Call((Params(), In(0), Out(), offset_of(p)), _struct(site, p), flow=flow)


def _struct(site: Site, p: ConvParams) -> Struct:
    taps = pad_taps(stored(p))
    fields = {
        "w": Const(by_lanes(taps, _LANES), "[out_c / 4][in_c][4]", "w"),
        **scale_fields(p, p.w, "tc_scalar_dense"),
        "batch": _batch(site, p),
        "in_c": p.w.shape[1],
        "taps": taps.shape[1],
    }
    return Struct("tc_fully_connected_s8_scalar_t", fields)


def lower_int4(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_w4_scalar: the whole tensor."""
    in_c = p.w.shape[1]
    even = np.pad(p.w, ((0, 0), (0, in_c % 2)))
    fields = {
        "w": Const(words_of_int4(even, _PLACES), "[out_c / 4][in_c / 2] of four outputs, int4", "w"),
        **scale_fields(p, p.w, "tc_scalar_dense"),
        "batch": _batch(site, p),
        "in_c": in_c,
    }
    return Call((Params(), In(0), Out()), Struct("tc_fully_connected_s8_w4_scalar_t", fields))


def scratch(site: Site, p: ConvParams) -> int:
    """The inputs as words."""
    return 4 * -(-p.w.shape[1] // 4) * 4


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, biases and factors."""
    out_c, in_c = p.w.shape
    weights = 2 * in_c if is_int4(site) else _LANES * -(-in_c // 4) * 4
    return -(-out_c // _LANES) * weights + CHANNEL_BYTES * out_c


def of_fours(site: Site, p: ConvParams) -> Units:
    """Products of four inputs with four outputs, these, inputs, outputs, and rows."""
    (out_c, in_c), batch = p.w.shape, _batch(site, p)
    fours, words = batch * -(-out_c // _LANES), -(-in_c // 4)
    return {
        "word": fours * words,
        "four": fours,
        "input": batch * 4 * words,
        **of_outputs(p, batch * out_c),
        "row": batch,
    }


def of_held(site: Site, p: ConvParams) -> Units:
    """As of inputs in scratch; inputs that are widened, and sums of four outputs to which others are added."""
    own = of_fours(site, p)
    (out_c, in_c), batch = p.w.shape, own["row"]
    parts = -(-in_c // _HELD)
    groups = -(-out_c // _HELD_SUMS) if parts > 1 else 1
    again = own["four"] * (parts - 1)
    return {**own, "input": batch * in_c * groups, "again": again, "part": batch * parts * groups}


def of_words(site: Site, p: ConvParams) -> Units:
    """Of int4 weights: words of two inputs for four outputs, odd inputs of these, and outputs."""
    out_c, in_c = p.w.shape
    quads = _batch(site, p) * -(-out_c // _LANES)
    outputs = of_outputs(p, site.y().elements)
    return {"word": quads * (in_c // 2), "odd": quads * (in_c % 2), "quad": quads, **outputs}


KERNELS = (
    Kernel(
        "tc_fully_connected_s8_scalar",
        offered(lower, scratch=scratch, cost=CountedCost("tc_fully_connected_s8_scalar", of_fours, flash=flash_bytes)),
        when=(is_s8, takes),
        includes=("tc_scalar.h",),
    ),
    Kernel(
        "tc_fully_connected_s8_held_scalar",
        offered(lower_held, cost=CountedCost("tc_fully_connected_s8_held_scalar", of_held, flash=flash_bytes)),
        when=(is_s8_or_w16, one_offset, takes),
        header="tc_fully_connected_s8_scalar.h",
        includes=("tc_scalar.h",),
    ),
)
INT4_KERNEL = Kernel(
    "tc_fully_connected_s8_w4_scalar",
    offered(lower_int4, cost=CountedCost("tc_fully_connected_s8_w4_scalar", of_words, flash=flash_bytes)),
    when=(is_s8_w4, takes),
    header="tc_fully_connected_s8_scalar.h",
    includes=("tc_scalar.h",),
)
