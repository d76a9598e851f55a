# SPDX-License-Identifier: Apache-2.0
"""distance: of rows x [B,F] from each row of a table w [N,F] -> y [B,N]: the sum of the squares, or sizes, of x - w.

What radial kernels of support vector machines and nearest neighbours are made of.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type
from tinyc.kernel.types import in_float32
from tinyc.ops.movement import tensor_argument
from tinyc.ops.op import Observed, Op


@dataclass(frozen=True, slots=True)
class Distance:
    """squared: the sum of (x - w)^2, else of |x - w|."""

    squared: bool = True


def infer(a: Distance, x: Value, w: Value) -> Sequence[Type]:
    if len(w.shape) != 2 or len(x.shape) != 2 or x.channels != w.channels:
        raise TinycError(f"distance of {list(x.shape)} from {list(w.shape)}: rows of as many numbers")
    return [Type((x.shape[0], w.shape[0]), x.dtype)]


def float_ref(a: Distance, x: Array, w: Array) -> tuple[Array, ...]:
    apart = x[:, None].astype(np.float64) - w
    return ((np.square(apart) if a.squared else np.abs(apart)).sum(-1).astype(np.float32),)


def exact_float(a: Distance, x: Array, w: Array) -> tuple[Array, ...]:
    """As tc_distance_f32 computes it: one chain of sums for each row of the table."""
    y = np.zeros((len(x), len(w)), np.float32)
    for k in range(w.shape[1]):
        apart = x[:, k, None] - w[None, :, k]
        y = float32.fma(apart, apart, y) if a.squared else y + np.abs(apart)
    return (y,)


def prepare(site: Site) -> None:
    """TinycError: there is no form in integers."""
    hint = "build the model with --precision float32"
    raise TinycError("distance is computed between float32 tensors only", site.node.where, hint)


def int_ref(p: None, *arrays: Array) -> tuple[Array, ...]:
    raise AssertionError("prepare() has refused it")


def macs(site: Site) -> int:
    """Numbers of the table, for each row."""
    return site.y().elements * site.x(0).channels


def lower(site: Site, p: Distance) -> Call:
    """tc_distance_f32: the whole tensor."""
    rows, count = site.y().shape
    fields: dict[str, int] = {"rows": rows, "count": count, "n": site.x(0).channels, "squared": int(p.squared)}
    return Call((Params(), In(0), tensor_argument(site, 1), Out()), Struct("tc_distance_f32_t", fields))


def of_differences(site: Site, p: Distance) -> Units:
    """Differences, and sums of them."""
    return {"product": macs(site), "element": site.y().elements}


OP = Op(
    name="distance",
    attrs=Distance,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(counted_kernel("tc_distance_f32", lower, of_differences, when=(in_float32,)),),
    macs=macs,
    float32=Float32(exact_float),
)
