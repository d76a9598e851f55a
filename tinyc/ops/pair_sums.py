# SPDX-License-Identifier: Apache-2.0
"""pair_sums: what a support vector machine of C classes decides each pair of them by.

Input x [1,V]: the kernel function of each support vector, those of class 0 first. Constants: w [V,C-1], the weights of
a vector in the pairs of its class with each other class, in order; b [C*(C-1)/2], where the sums begin. y
[1,C*(C-1)/2]: of pairs (0,1), (0,2) .. (1,2) ..: the sum over the vectors of both classes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type
from tinyc.kernel.types import in_float32
from tinyc.ops.movement import tensor_argument
from tinyc.ops.op import Observed, Op


@dataclass(frozen=True, slots=True)
class PairSums:
    """counts: support vectors of each class."""

    counts: tuple[int, ...]


def pairs(classes: int) -> list[tuple[int, int]]:
    """All pairs of classes in their order."""
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


def infer(a: PairSums, x: Value, w: Value, b: Value) -> Sequence[Type]:
    classes, vectors = len(a.counts), sum(a.counts)
    count = classes * (classes - 1) // 2
    fits = x.shape == (1, vectors) and w.shape == (vectors, classes - 1) and b.shape == (count,)
    if classes < 2 or min(a.counts) < 0 or not fits:
        raise TinycError(
            f"pair_sums of {list(a.counts)} vectors: {list(x.shape)}, {list(w.shape)} and {list(b.shape)} do not fit"
        )
    return [Type((1, count), x.dtype)]


def _places(a: PairSums) -> list[npt.NDArray[np.int64]]:
    """For every vector the C-1 pairs that it counts in."""
    order = {pair: k for k, pair in enumerate(pairs(len(a.counts)))}
    places = []
    for own, count in enumerate(a.counts):
        others = [other for other in range(len(a.counts)) if other != own]
        places += [np.array([order[min(own, other), max(own, other)] for other in others])] * count
    return places


def float_ref(a: PairSums, x: Array, w: Array, b: Array) -> tuple[Array, ...]:
    y = b.astype(np.float64)
    for k, places in enumerate(_places(a)):
        y[places] += x[0, k].astype(np.float64) * w[k]
    return (y.astype(np.float32)[None],)


def exact_float(a: PairSums, x: Array, w: Array, b: Array) -> tuple[Array, ...]:
    """As tc_pair_sums_f32 computes it: vector after vector."""
    y = b.copy()
    for k, places in enumerate(_places(a)):
        y[places] = float32.fma(x[0, k], w[k], y[places])
    return (y[None],)


def prepare(site: Site) -> None:
    """TinycError: there is no form in integers."""
    hint = "build the model with --precision float32"
    raise TinycError("pair_sums is computed between float32 tensors only", site.node.where, hint)


def int_ref(p: None, *arrays: Array) -> tuple[Array, ...]:
    raise AssertionError("prepare() has refused it")


def macs(site: Site) -> int:
    """Weights."""
    return site.x(1).elements


def lower(site: Site, p: PairSums) -> Call:
    """tc_pair_sums_f32: all at once."""
    fields: dict[str, int | float | str | Const] = {
        "counts": Const(np.array(p.counts, np.int32), "[classes]", "counts"),
        "classes": len(p.counts),
    }
    return Call(
        (Params(), In(0), tensor_argument(site, 1), tensor_argument(site, 2), Out()),
        Struct("tc_pair_sums_f32_t", fields),
    )


def of_weights(site: Site, p: PairSums) -> Units:
    """Weights, and vectors that they are for."""
    return {"product": macs(site), "vector": site.x(0).elements}


OP = Op(
    name="pair_sums",
    attrs=PairSums,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(counted_kernel("tc_pair_sums_f32", lower, of_weights, when=(in_float32,)),),
    macs=macs,
    float32=Float32(exact_float),
)
