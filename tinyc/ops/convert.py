# SPDX-License-Identifier: Apache-2.0
"""convert: numbers as another type: reals to int32 towards zero and saturated (NaN: the least), integers to float32."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.kernel import Call, In, Kernel, Out, SpecializedKernel, offered
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.kernels import plain
from tinyc.ops.op import Kept, Op, Trait
from tinyc.ops.signals import COUNT

_TO_INT32 = "p >= 2147483648.0f ? 2147483647 : p > -2147483648.0f ? (int32_t)p : (-2147483647 - 1)"


@dataclass(frozen=True, slots=True)
class Convert:
    """dtype: of the output; one of input and output is f32."""

    dtype: DType


def infer(a: Convert, x: Value) -> Sequence[Type]:
    known = x.dtype in plain.CTYPES and a.dtype in ("f32", "s32", "bool")
    if not known or (x.dtype == "f32") == (a.dtype == "f32"):
        raise TinycError(f"numbers of {x.dtype} do not become {a.dtype}")
    return [Type(x.shape, a.dtype)]


def float_ref(a: Convert, x: Array) -> tuple[Array, ...]:
    if a.dtype != "s32":
        return (x.astype(NUMPY_DTYPE[a.dtype]),)
    lo, hi = INT_RANGE["s32"]
    return (np.clip(np.nan_to_num(np.trunc(x.astype(np.float64)), nan=lo), lo, hi).astype(np.int32),)


def prepare(site: Site) -> Convert:
    if site.x(0).quant not in (None, COUNT):
        raise TinycError(
            "convert: integers of a scale stand for other numbers", site.node.where, "build it with --precision float32"
        )
    return Convert(site.attrs.dtype)


def specialize(site: Site, p: Convert) -> SpecializedKernel:
    types = (site.x(0).dtype, p.dtype)
    expression = {"s32": _TO_INT32, "bool": "p != 0.0f", "f32": "p"}[p.dtype]
    return plain.each("tc_convert", f"{types[0]} to {types[1]}", types, site.x(0).elements, expression)


def lower(site: Site, p: Convert) -> Call:
    """The function written for the layer."""
    return Call((In(0), Out()))


OP = Op(
    name="convert",
    attrs=Convert,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Kept(),),
    quant_out=(Kept(own=True),),
    kernels=(
        Kernel(
            "tc_convert",
            offered(lower, cost=lambda site, p: plain.pairwise_cost(site.y().elements), specialize=specialize),
            written=True,
        ),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ANY_TYPE}),
)
