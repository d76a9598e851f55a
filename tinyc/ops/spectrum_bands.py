# SPDX-License-Identifier: Apache-2.0
"""spectrum_bands: powers or magnitudes of bins summed up to bands: a matrix of few weights that are not 0.

x uint64 or uint32 [m], weights uint16 [C, m] -> uint64 [C]. With uint64, floor(sum of the lower words' products / 2^16)
+ 2^16 * sum of the upper words' products; with uint32, the sum of products. Modulo 2^64.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, no_reals

WEIGHT_BITS = 16
_MOST_BINS = 1 << 12  # so that sums of products are exact in float64, 16 bits at a time


@dataclass(frozen=True, slots=True)
class SpectrumBands:
    """No attributes."""


def infer(a: SpectrumBands, x: Value, w: Value) -> Sequence[Type]:
    need(x, "the input", "u64", "u32")
    need(w, "the weights", "s32")
    if len(w.shape) != 2 or w.shape[1] != x.elements or x.elements > _MOST_BINS:
        raise TinycError(f"weights {list(w.shape)} of {x.elements} bins: [bands, bins], at most {_MOST_BINS} bins")
    return [Type((w.shape[0],), "u64")]


@dataclass(frozen=True)
class BandsParams:
    """weights [C, m], in [0, 2^16)."""

    weights: Array

    @cached_property
    def reals(self) -> npt.NDArray[np.float64]:
        return self.weights.astype(np.float64)

    @cached_property
    def most_sum(self) -> int:
        """Of the weights of a band."""
        return int(self.weights.sum(axis=1, dtype=np.int64).max())

    def spans(self) -> list[tuple[int, int]]:
        """Of each band the first bin that it takes, and the first behind the last."""
        spans = []
        for row in self.weights:
            used = np.flatnonzero(row)
            spans.append((int(used[0]), int(used[-1]) + 1) if len(used) else (0, 0))
        return spans


def prepare(site: Site) -> BandsParams:
    """TinycError for weights that are computed, or beyond 16 bits."""
    if not site.is_const(1):
        raise TinycError("the weights of bands have to be constants", site.node.where)
    weights = site.const(1)
    if weights.min() < 0 or weights.max() >> WEIGHT_BITS:
        raise TinycError(f"weights of bands from {weights.min()} to {weights.max()}: 16 bits", site.node.where)
    return BandsParams(weights)


def banded(p: BandsParams, x: Array) -> Array:
    """uint64 or uint32 [m, lines] -> uint64 [C, lines]."""
    low = _sums(p, x & np.uint64(0xFFFFFFFF)) if x.dtype == np.uint64 else _sums(p, x)
    if x.dtype == np.uint32:
        return low
    low >>= np.uint64(16)
    low += _sums(p, x >> np.uint64(32)) << np.uint64(16)
    return low


def _sums(p: BandsParams, x: Array) -> Array:
    """Sums of products of numbers of 32 bits modulo 2^64: exact in float64 as long as they stay below 2^53, and of 16
    bits at a time where they do not."""
    if p.most_sum < 1 << (53 - 32):
        return np.asarray((p.reals @ x.astype(np.float64)).astype(np.uint64))
    low, high = x & x.dtype.type(0xFFFF), x >> x.dtype.type(16)
    sums = [(p.reals @ part.astype(np.float64)).astype(np.uint64) for part in (low, high)]
    return np.asarray(sums[0] + (sums[1] << np.uint64(16)))


def int_ref(p: BandsParams, x: Array, w: Array) -> tuple[Array, ...]:
    return (banded(p, x.reshape(-1, 1))[:, 0],)


def packed(p: BandsParams) -> tuple[Const, Const]:
    """(weights, spans): of each band the weights from the first to the last that is not 0."""
    spans = p.spans()
    weights = [row[first:end] for row, (first, end) in zip(p.weights, spans, strict=True)]
    taken = np.array([(first, end - first) for first, end in spans], np.uint16)
    return (
        Const(np.concatenate([*weights, np.zeros(1)]).astype(np.uint16), "[products]", "weights"),
        Const(taken, "[bands][2]: first bin, how many", "spans"),
    )


def lower(site: Site, p: BandsParams) -> Call:
    """tc_spectrum_bands_u64 or _u32."""
    weights, spans = packed(p)
    fields: dict[str, int | float | str | Const] = {"weights": weights, "spans": spans, "bands": len(p.weights)}
    return Call((Params(), In(0), Out()), Struct("tc_spectrum_bands_t", fields))


def is_wide(site: Site) -> bool:
    """uint64"""
    return site.x(0).dtype == "u64"


def is_narrow(site: Site) -> bool:
    """uint32"""
    return site.x(0).dtype == "u32"


def macs(site: Site) -> int:
    return sum(end - first for first, end in prepare(site).spans())


def of_products(site: Site, p: BandsParams) -> Units:
    """Weights of all bands, and bands."""
    return {"product": macs(site), "band": len(p.weights)}


def of_fours(site: Site, p: BandsParams) -> Units:
    """Vectors of four weights, and bands."""
    return {"four": sum(-(-(end - first) // 4) for first, end in p.spans()), "band": len(p.weights)}


def table_bytes(site: Site, p: BandsParams) -> int:
    return 2 * macs(site) + 4 * len(p.weights)


OP = Op(
    name="spectrum_bands",
    attrs=SpectrumBands,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(
            f"tc_spectrum_bands_{dtype}{core}",
            offered(lower, cost=CountedCost(f"tc_spectrum_bands_{dtype}{core}", units, flash=table_bytes)),
            isa=isa,
            when=(when,),
            header=f"tc_spectrum_bands{core}.h",
        )
        for core, units, isa in (("_mve", of_fours, frozenset({"mve"})), ("", of_products, frozenset[str]()))
        for dtype, when in (("u64", is_wide), ("u32", is_narrow))
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
