# SPDX-License-Identifier: Apache-2.0
"""reduce_extremum: the largest (or smallest) element over `axes`, which are dropped or kept with size 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.mean import Mean, adjacent, over_channels, reduced_axes, split
from tinyc.ops.mean import infer as infer_mean
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait


@dataclass(frozen=True, slots=True)
class ReduceExtremum(Mean):
    """The axes; keep_dims: they stay, with size 1. largest: the maximum, else the minimum."""

    largest: bool = True


def infer(a: ReduceExtremum, x: Value) -> Sequence[Type]:
    return infer_mean(a, x)


def float_ref(a: ReduceExtremum, x: Array) -> tuple[Array, ...]:
    axes = reduced_axes(a, x.ndim)
    return (np.asarray(x.max(axes, keepdims=a.keep_dims) if a.largest else x.min(axes, keepdims=a.keep_dims)),)


def prepare(site: Site) -> ReduceExtremum:
    need_one_quant(site)
    attrs = site.attrs
    if not isinstance(attrs, ReduceExtremum):
        raise TinycError(f"reduce_extremum with attributes {attrs!r}", site.node.where)
    return attrs


def is_s8(site: Site) -> bool:
    """int8 input and output"""
    return (site.x().dtype, site.y().dtype) == ("s8", "s8")


def lower(site: Site, p: ReduceExtremum) -> Call:
    """tc_reduce_extremum_s8: the whole tensor."""
    parts = split(p, site.x().shape)
    assert parts is not None  # `adjacent` is a condition of the kernel
    fields: dict[str, int] = {"outer": parts[0], "n": parts[1], "inner": parts[2], "largest": int(p.largest)}
    return Call((Params(), In(0), Out()), Struct("tc_reduce_extremum_s8_t", fields))


def cost(site: Site, p: ReduceExtremum) -> Cost:
    """An estimate: per element and per output."""
    return Cost(5 * site.x().elements + 12 * site.y().elements, 120, 0)


OP = Op(
    name="reduce_extremum",
    attrs=ReduceExtremum,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(Kernel("tc_reduce_extremum_s8", offered(lower, cost=cost), when=(is_s8, adjacent)),),
    rowwise=over_channels,
    traits=frozenset({Trait.REDUCES, Trait.SELECTS}),
)
