# SPDX-License-Identifier: Apache-2.0
"""Features as integers of the same order, and what of that order a forest needs.

A key orders float32 numbers as integers: it is their bits, with all but the sign turned where that is set. -0 and 0
differ by 1, and no cut lies between them. The cuts of one feature, sorted, give it ranks: how many of them it exceeds.
`key > cut k` is `rank > k`, and a rank is a byte where there are at most 255 cuts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import NUMPY_DTYPE, Array, DType
from tinyc.kernel.counted import Units
from tinyc.kernel.kernel import Const
from tinyc.kernel.site import Site
from tinyc.kernels.trees.forest import Forest, Node

MOST_CUTS = {"u8": 255, "s16": 32767}  # of a feature
NO_NUMBER = 2**31 - 1  # the key of NaN that exceeds every cut


def keys_of(x: Array) -> npt.NDArray[np.int32]:
    """Keys of float32 numbers, in their order; int32 numbers are their own keys. NaN has none."""
    if x.dtype != np.float32:
        return x.astype(np.int32)
    bits = x.view(np.int32)
    return np.where(bits < 0, bits ^ np.int32(0x7FFFFFFF), bits)


def reals_of(keys: Array) -> npt.NDArray[np.float32]:
    """The float32 numbers of keys."""
    held = np.ascontiguousarray(keys, np.int32)
    return np.where(held < 0, held ^ np.int32(0x7FFFFFFF), held).view(np.float32)


@dataclass(frozen=True, slots=True)
class Codes:
    """A forest whose features are codes: ranks (u8, s16), or the keys themselves (s32). nodes compare codes. cuts [n]
    of the codes one after the other, counts of each; empty where codes are keys."""

    dtype: DType
    nodes: tuple[Node, ...]
    cuts: npt.NDArray[np.int32]
    counts: npt.NDArray[np.int64]

    @property
    def bytes_each(self) -> int:
        return np.dtype(NUMPY_DTYPE[self.dtype]).itemsize


def codes(p: Forest, dtype: DType) -> Codes | None:
    """The forest in codes of that type; None if it has too many cuts, or too many codes for a byte's table."""
    if dtype == "s32":
        return Codes(dtype, p.nodes, np.zeros(0, np.int32), np.zeros(len(p.features), np.int64))
    own: list[set[int]] = [set() for _ in p.features]
    for code, cut, _, _ in p.nodes:
        own[code].add(cut)
    if max(map(len, own)) > MOST_CUTS[dtype] or (dtype == "u8" and len(own) > 256):
        return None
    ascending = [sorted(cuts) for cuts in own]
    ranks = [{cut: k for k, cut in enumerate(cuts)} for cuts in ascending]
    nodes = tuple((code, ranks[code][cut], below, above) for code, cut, below, above in p.nodes)
    flat = np.array([cut for cuts in ascending for cut in cuts], np.int32)
    return Codes(dtype, nodes, flat, np.array([len(cuts) for cuts in ascending]))


def asks(dtype: str) -> str:
    """What `codes` refuses, as the end of a sentence."""
    if dtype not in MOST_CUTS:
        return ""
    few = "at most 256 features, " if dtype == "u8" else ""
    return f"; {few}at most {MOST_CUTS[dtype]:,} thresholds of each feature"


def codes_of(p: Forest, dtype: DType) -> Codes:
    """`codes` of a forest that has them."""
    forest_codes = codes(p, dtype)
    assert forest_codes is not None
    return forest_codes


def fields(site: Site, p: Forest, codes: Codes) -> dict[str, int | float | str | Const]:
    """Those of the struct tc_feature_codes_t."""
    index, nan_key = p.features.T
    is_float = site.x(0).dtype == "f32"
    entries: dict[str, int | float | str | Const] = {
        "n": len(index),
        "is_float": int(is_float),
        "feature": Const(index.astype(np.uint16), "[n]", "features"),
    }
    if is_float and (nan_key != NO_NUMBER).any():
        entries["nan_key"] = Const(nan_key.astype(np.int32), "[n]", "nan_keys")
    if len(codes.cuts):
        entries["count"] = Const(codes.counts.astype(np.uint16), "[n]", "counts")
        entries["cuts"] = Const(codes.cuts, "of all codes, each in rising order", "cuts")
    return {f"codes.{name}": field for name, field in entries.items()}


def of_codes(p: Forest, codes: Codes) -> Units:
    """Features, and halvings of their cuts until the code is there."""
    return {"feature": len(p.features), "halving": int(np.ceil(np.log2(codes.counts + 1)).sum())}


def code_bytes(p: Forest, codes: Codes) -> int:
    """Of what codes are made by."""
    per_code = 2 if codes.dtype == "s32" else 4
    data = per_code * len(p.features) + codes.cuts.nbytes
    data += 4 * len(p.features) if (p.features[:, 1] != NO_NUMBER).any() else 0
    return data


@dataclass(frozen=True, slots=True)
class KeySteps:
    """A forest whose cuts are base + (number << shift) of features as they lie. nodes compare features with numbers."""

    nodes: tuple[Node, ...]
    base: int
    shift: int


def bits_fit(p: Forest) -> bool:
    """Whether features can be compared as they lie: NaN of each goes one way alone."""
    return len(set(p.features[:, 0])) == len(p.features)


def bits_of(p: Forest) -> tuple[Node, ...]:
    """The nodes with features in the place of codes."""
    return tuple((int(p.features[code, 0]), cut, below, above) for code, cut, below, above in p.nodes)


def bits_count(p: Forest) -> int:
    """All features up to the last."""
    return int(p.features[:, 0].max()) + 1


def bits_scratch(site: Site, p: Forest) -> int:
    """A copy of the features, for the case that one is NaN."""
    return 4 * bits_count(p) if site.x(0).dtype == "f32" else 0


def bits_fields(site: Site, p: Forest) -> dict[str, int | float | str | Const]:
    """Those of the struct tc_feature_codes_t."""
    count, is_float = bits_count(p), site.x(0).dtype == "f32"
    fields: dict[str, int | float | str | Const] = {"codes.n": count, "codes.is_float": int(is_float)}
    if is_float:
        fields["codes.not_negative"] = int(_not_negative(p))
    if (p.features[:, 1] != NO_NUMBER).any():
        filled = np.full(count, NO_NUMBER, np.int32)
        filled[p.features[:, 0]] = p.features[:, 1]
        fields["codes.nan_key"] = Const(filled, "[n]", "nan_keys")
    return fields


def of_bits(site: Site, p: Forest) -> Units:
    """Features among which a NaN is looked for."""
    return {"feature": bits_count(p)} if site.x(0).dtype == "f32" else {}


def _not_negative(p: Forest) -> bool:
    """Whether neither a cut nor what stands for NaN is less than 0. Then a positive NaN exceeds all cuts as it is."""
    return min(cut for _, cut, _, _ in p.nodes) >= 0 and bool((p.features[:, 1] == NO_NUMBER).all())


def steps(site: Site, p: Forest, bits: int) -> KeySteps | None:
    """The forest with cuts of so many bits; None if they have no such step, or a float's is less than 0."""
    cuts = {cut for _, cut, _, _ in p.nodes}
    if not bits_fit(p) or (site.x(0).dtype == "f32" and min(cuts) < 0):
        return None
    for base in (0, min(cuts)):
        step = int(np.gcd.reduce([cut - base for cut in cuts]))
        shift = (step & -step).bit_length() - 1 if step else 0
        span = max(cuts) - base
        if min(cuts) >= base and span < 2**31 and span >> shift < 1 << bits:  # the kernels add in int32
            nodes = tuple((code, (cut - base) >> shift, below, above) for code, cut, below, above in bits_of(p))
            return KeySteps(nodes, base, shift)
    return None
