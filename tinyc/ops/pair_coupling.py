# SPDX-License-Identifier: Apache-2.0
"""pair_coupling: probabilities of C classes from what a support vector machine decides each pair of them by.

Sums x [1,C*(C-1)/2] of pairs (0,1), (0,2) .. (1,2) .., constants a and b [C*(C-1)/2] -> y [1,C]. The first of a pair
has the probability 1 / (1 + e^(a x + b)), kept 10^-7 away from 0 and 1 (Platt). y are the probabilities of the classes
that agree best with all of them. The iteration, its bound of 100 turns and where it stops are those of libsvm and ONNX
Runtime: T.-F. Wu, C.-J. Lin, R. C. Weng, "Probability Estimates for Multi-class Classification by Pairwise Coupling"
(2004), algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.float32 import Floats, clip, fma, sigmoid
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, In, Kernel, Out, Params, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.kernel.types import in_float32
from tinyc.ops.movement import tensor_argument
from tinyc.ops.op import Observed, Op
from tinyc.ops.pair_sums import pairs

_TURNS = 100
_STOP = 0.005  # over the number of classes: how far apart the conditions may stay
_USUAL_TURNS = 10
_LEAST, _MOST = np.float32(1e-7), np.float32(1) - np.float32(1e-7)


@dataclass(frozen=True, slots=True)
class PairCoupling:
    classes: int


def infer(a: PairCoupling, x: Value, slope: Value, bias: Value) -> Sequence[Type]:
    count = a.classes * (a.classes - 1) // 2
    if a.classes < 2 or x.shape != (1, count) or not slope.shape == bias.shape == (count,):
        raise TinycError(
            f"pair_coupling of {list(x.shape)} and {list(slope.shape)} for {a.classes} classes do not fit together"
        )
    return [Type((1, a.classes), x.dtype)]


def _products(a: PairCoupling, firsts: Array) -> Array:
    """The matrix of the quadratic form that the probabilities make least, from those of the first of each pair."""
    n = a.classes
    r = np.zeros((n, n), np.float32)
    for (i, j), first in zip(pairs(n), firsts, strict=True):
        r[i, j], r[j, i] = first, np.float32(1) - first
    q = -r.T * r
    for i in range(n):
        total: Floats = np.zeros((), np.float32)
        for j in range(n):
            if j != i:
                total = fma(r[j, i], r[j, i], total)
        q[i, i] = total
    return q


def exact_float(a: PairCoupling, x: Array, slope: Array, bias: Array) -> tuple[Array, ...]:
    """As tc_pair_coupling_f32 computes it."""
    firsts = clip(sigmoid(-fma(slope, x[0], bias)), float(_LEAST), float(_MOST))
    n, q, one = a.classes, _products(a, firsts), np.float32(1)
    p = np.full(n, one / np.float32(n), np.float32)
    for _ in range(_TURNS):
        products, total = np.zeros(n, np.float32), np.zeros((), np.float32)
        for j in range(n):
            products = fma(q[:, j], p[j], products)
        for i in range(n):
            total = fma(p[i], products[i], total)
        if not np.abs(products - total).max() >= np.float32(_STOP) / np.float32(n):
            break
        for i in range(n):
            step = (total - products[i]) / q[i, i]
            more = one + step
            p[i] += step
            total = fma(step, fma(step, q[i, i], products[i] + products[i]), total) / more / more
            products = fma(step, q[i], products) / more
            p = p / more
    return (p[None],)


def prepare(site: Site) -> None:
    """TinycError: there is no form in integers."""
    hint = "build the model with --precision float32"
    raise TinycError("pair_coupling is computed between float32 tensors only", site.node.where, hint)


def int_ref(p: None, *arrays: Array) -> tuple[Array, ...]:
    raise AssertionError("prepare() has refused it")


def scratch(site: Site, p: PairCoupling) -> int:
    """The matrix, and its product with the probabilities."""
    return 4 * p.classes * (p.classes + 1)


def lower(site: Site, p: PairCoupling) -> Call:
    """tc_pair_coupling_f32: all at once."""
    fields: dict[str, int | float | str] = {
        "classes": p.classes,
        "stop": float(np.float32(_STOP) / np.float32(p.classes)),
    }
    return Call(
        (Params(), In(0), tensor_argument(site, 1), tensor_argument(site, 2), Out(), Scratch()),
        Struct("tc_pair_coupling_f32_t", fields),
    )


def of_classes(site: Site, p: PairCoupling) -> Units:
    """Products of the matrix, in as many turns as are usual."""
    return {"product": _USUAL_TURNS * p.classes * p.classes}


OP = Op(
    name="pair_coupling",
    attrs=PairCoupling,
    infer=infer,
    float_ref=exact_float,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        Kernel(
            "tc_pair_coupling_f32",
            offered(lower, scratch=scratch, cost=CountedCost("tc_pair_coupling_f32", of_classes)),
            when=(in_float32,),
        ),
    ),
    float32=Float32(exact_float),
)
