# SPDX-License-Identifier: Apache-2.0
"""fully_connected on cores without DSP instructions: two products in one multiplication of weights of 8 bits
(tc_scalar_pairs.h says how), also of those with a zero point.

A segment's dot product must fit 16 bits. Of a weight that is too large for that a part is taken off and added to the
sums on its own (`Fitted.fixes`); how long segments are is a trade of such fixes for the work of a segment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import (
    Call,
    Const,
    In,
    Kernel,
    Out,
    Params,
    Scratch,
    Struct,
    buffered_flow,
    offered,
    writing,
)
from tinyc.kernel.site import Site
from tinyc.kernel.types import is_s8_or_w16
from tinyc.kernel.windows import ConvParams, of_outputs
from tinyc.kernels.requantize import Int64s
from tinyc.kernels.scalar.layer import CHANNEL_BYTES, ends, scale_fields, small_sums_of
from tinyc.kernels.scalar.loops.costs import executed

_LANES = 8  # outputs of a call
_SEGMENTS = (4, 2)  # words of four taps
_LEAST, _GREATEST = -(2**15), 2**15 - 1  # of a segment's dot product
_LARGEST = 2**14  # outputs and inputs, whose places fit int16
_FIX = 23  # instructions on ARMv7-M, where segments are chosen
_HELD, _SUMS = 32, 64  # words of taps, and outputs, on the stack


@dataclass(frozen=True, slots=True)
class Fitted:
    """Weights whose dot products with int8 inputs fit 16 bits over every segment, and what they lack.

    taps: int64[O, K], K a multiple of the segment. fixes: int64[n, 3] of (output, input, weight), by outputs.
    """

    taps: Int64s
    fixes: Int64s
    segment: int

    @property
    def words(self) -> int:
        return self.taps.shape[1] // 4

    def executed(self, isa: frozenset[str]) -> float:
        """Instructions of all outputs for one input vector, without the requantization, on ARMv7-M's scale. isa: of the
        core."""
        name, calls = f"tc_scalar_pairs_{self.segment}", -(-len(self.taps) // _LANES)
        return calls * executed(name, isa, segment=self.words // self.segment) + _FIX * len(self.fixes)


def fitted(w: npt.NDArray[np.signedinteger[Any]], segment: int) -> Fitted:
    """Weights w[O, K] for segments of that many words; what is too much is taken from the largest weights first."""
    out_c, in_c = w.shape
    size = 4 * segment
    parts = np.pad(w.astype(np.int64), ((0, 0), (0, -in_c % size))).reshape(-1, size)
    taken = np.zeros_like(parts)
    while len(over := np.flatnonzero((excess := _excess(parts)) > 0)):
        at = np.abs(parts[over]).argmax(axis=1)
        largest = parts[over, at]
        off = np.sign(largest) * np.minimum(np.abs(largest), -(-excess[over] // 127))
        parts[over, at] -= off
        taken[over, at] += off
    rest = taken.reshape(out_c, -1)
    outputs, inputs = np.nonzero(rest)
    return Fitted(parts.reshape(out_c, -1), np.stack([outputs, inputs, rest[outputs, inputs]], axis=1), segment)


def _excess(parts: Int64s) -> Int64s:
    """By how much the dot products of parts[n, taps] with int8 inputs leave 16 bits; less than 1: by nothing."""
    greatest = np.maximum(127 * parts, -128 * parts).sum(axis=1)
    least = np.minimum(127 * parts, -128 * parts).sum(axis=1)
    return np.asarray(np.maximum(greatest - _GREATEST, _LEAST - least))


def best_fit(w: Array, isa: frozenset[str]) -> Fitted:
    """The weights w[O, K] in the segments that take the fewest instructions on a core with these features."""
    return writing(_best_fit, w.astype(np.int16).tobytes(), len(w), isa)


def _best_fit(data: bytes, out_c: int, isa: frozenset[str]) -> Fitted:
    w = np.frombuffer(data, np.int16).reshape(out_c, -1)
    return min((fitted(w, segment) for segment in _SEGMENTS), key=lambda fit: fit.executed(isa))


def takes(site: Site) -> bool:
    """constant weights of at most 256 neighbouring values, accumulators within 2^28, and at most 16384 inputs and
    outputs"""
    if not site.is_const(1) or max(site.x(1).shape) > _LARGEST or not small_sums_of(site, 0):
        return False
    least, greatest = ends(site.const(1))
    return greatest - least < 256


def zero_of(w: Array) -> int:
    """What weights are more in their bytes."""
    return 128 if w.dtype == np.int8 else -ends(w)[0]


def _words(fit: Fitted, zero: int) -> Const:
    """[O / 4][words][4] int32: bytes of weights plus `zero`."""
    out_c = len(fit.taps)
    taps = np.pad(fit.taps, ((0, -out_c % _LANES), (0, 0)))
    words = ((taps + zero).reshape(len(taps), -1, 4) << 8 * np.arange(4)).sum(axis=2)
    fours = words.reshape(-1, 4, fit.words).transpose(0, 2, 1)
    data = np.ascontiguousarray(fours).astype(np.uint32).view(np.int32)
    return Const(data, f"[out_c / 4][in_c / 4][4] of four weights plus {zero}", "w")


def _fixes(fit: Fitted, by_parts: bool = False) -> Const:
    """[n + 1][output, place of the input, weight] int16, the last with an output beyond all. by_parts: in the order in
    which parts of the inputs and of the outputs are used."""
    outputs, inputs, weights = fit.fixes.T
    if by_parts:
        order = np.lexsort((outputs, inputs // (4 * _HELD), outputs // _SUMS))
        outputs, inputs, weights = fit.fixes[order].T
    segments, words = np.divmod(inputs // 4, fit.segment)
    factors = segments * (1 + 2 * fit.segment) + 1 + 2 * words + inputs % 2
    places = 2 * factors + (inputs % 4 < 2)  # taps 0 and 1 of a word are upper halves
    rows = np.stack([outputs, places, weights], axis=1)
    data = np.concatenate([rows, [[2**15 - 1, 0, 0]]]).astype(np.int16)
    return Const(data, "[output, place of the input, weight], then the end", "fixes")


def _parts(fit: Fitted, zero: int) -> Const:
    """The same for one part of the inputs after the other."""
    words = _words(fit, zero).data
    parts = [words[:, at : at + _HELD].ravel() for at in range(0, fit.words, _HELD)]
    return Const(np.concatenate(parts), f"[in_c / 128][out_c / 4][32][4] of four weights plus {zero}", "w")


def lower(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_pairs: the whole tensor."""
    out_c, in_c = p.w.shape
    flow = buffered_flow(site.y().elements // out_c, 1, in_c, out_c)
    struct = _struct(site, p, best_fit(p.w, site.isa), held=False)
    return Call((Params(), In(0), Out(), Scratch(), zero_of(p.w)), struct, flow=flow)


def lower_held(site: Site, p: ConvParams) -> Call:
    """tc_fully_connected_s8_pairs_held: the whole tensor."""
    out_c, in_c = p.w.shape
    fit = best_fit(p.w, site.isa)
    once = fit.words <= _HELD or out_c <= _SUMS
    flow = buffered_flow(site.y().elements // out_c, 1, in_c, out_c) if once else None
    return Call((Params(), In(0), Out(), zero_of(p.w)), _struct(site, p, fit, held=True), flow=flow)


def _struct(site: Site, p: ConvParams, fit: Fitted, held: bool) -> Struct:
    out_c, in_c = p.w.shape
    batch = site.y().elements // out_c
    fields = {
        "w": (_parts if held else _words)(fit, zero_of(p.w)),
        "fixes": _fixes(fit, held),
        **scale_fields(p, p.w, "tc_scalar_dense"),
        "batch": batch,
        "in_c": in_c,
        "words": fit.words,
        "segment": fit.segment,
    }
    return Struct("tc_scalar_pairs_t", fields)


def scratch(site: Site, p: ConvParams) -> int:
    """Two factors for each word, and a word for each segment."""
    fit = best_fit(p.w, site.isa)
    return 4 * (2 * fit.words + fit.words // fit.segment)


def of_words(site: Site, p: ConvParams) -> Units:
    """Words of four inputs and segments of them for eight outputs, fixes, outputs, words of the inputs, and eights of
    outputs."""
    fit, out_c = best_fit(p.w, site.isa), len(p.bias)
    batch = site.y().elements // out_c
    eights = batch * -(-out_c // _LANES)
    return {
        "word": eights * fit.words,
        "segment": eights * fit.words // fit.segment,
        "fix": batch * len(fit.fixes),
        **of_outputs(p, batch * out_c),
        "input": batch * fit.words,
        "eight": eights,
    }


def flash_bytes(site: Site, p: ConvParams) -> int:
    """Of weights, fixes, biases and factors."""
    fit, out_c = best_fit(p.w, site.isa), len(p.bias)
    lanes = -(-out_c // _LANES) * _LANES
    return 4 * fit.words * lanes + 6 * len(fit.fixes) + CHANNEL_BYTES * out_c


def of_held(site: Site, p: ConvParams) -> Units:
    """The same; parts of the inputs, the words of all of which are made for every group of sums, and eights of outputs
    to which other parts are added."""
    own, words, out_c = of_words(site, p), best_fit(p.w, site.isa).words, len(p.bias)
    parts = -(-words // _HELD)
    groups = -(-out_c // _SUMS) if parts > 1 else 1
    again, rows = own["eight"] * (parts - 1), site.y().elements // out_c
    return {**own, "input": own["input"] * groups, "again": again, "part": rows * parts * groups}


KERNELS = (
    Kernel(
        "tc_fully_connected_s8_pairs",
        offered(lower, scratch=scratch, cost=CountedCost("tc_fully_connected_s8_pairs", of_words, flash=flash_bytes)),
        when=(is_s8_or_w16, takes),
        includes=("tc_scalar.h", "tc_scalar_pairs.h"),
        sized_by_values=True,
        beaten_with=frozenset({"dsp"}),
    ),
    Kernel(
        "tc_fully_connected_s8_pairs_held",
        offered(lower_held, cost=CountedCost("tc_fully_connected_s8_pairs_held", of_held, flash=flash_bytes)),
        when=(is_s8_or_w16, takes),
        includes=("tc_scalar.h", "tc_scalar_pairs.h"),
        sized_by_values=True,
        beaten_with=frozenset({"dsp"}),
    ),
)
