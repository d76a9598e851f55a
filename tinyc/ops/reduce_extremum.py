# SPDX-License-Identifier: Apache-2.0
"""reduce_extremum: the largest (or smallest) element over `axes`, which are dropped or kept with size 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array
from tinyc.kernel.conditions import s8_to_s8
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site
from tinyc.kernels.float32 import pools
from tinyc.ops.mean import adjacent, float_kernel, over_channels, split
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait
from tinyc.ops.reductions import Reduction, infer, reduced_axes


@dataclass(frozen=True, slots=True)
class ReduceExtremum(Reduction):
    """The axes; keep_dims: they stay, with size 1. largest: the maximum, else the minimum."""

    largest: bool = True


def float_ref(a: ReduceExtremum, x: Array) -> tuple[Array, ...]:
    axes = reduced_axes(a, x.ndim)
    return (np.asarray(x.max(axes, keepdims=a.keep_dims) if a.largest else x.min(axes, keepdims=a.keep_dims)),)


def exact_float(a: ReduceExtremum, x: Array) -> tuple[Array, ...]:
    """As tc_reduce_max_f32 and tc_reduce_min_f32 compute it: the first that no other exceeds."""
    outer, n, inner = split(a, x.shape) or (0, 0, 0)
    axes = reduced_axes(a, x.ndim)
    extremes = pools.running_max(x.reshape(outer, n, inner), 1, 1 if a.largest else -1)
    kept = extremes.reshape(tuple(1 if i in axes else size for i, size in enumerate(x.shape)))
    return (kept if a.keep_dims else kept.squeeze(axes),)


def is_maximum(site: Site) -> bool:
    """the larger of two"""
    return bool(site.attrs.largest)


def is_minimum(site: Site) -> bool:
    """the smaller of two"""
    return not site.attrs.largest


def prepare(site: Site) -> ReduceExtremum:
    need_one_quant(site)
    attrs = site.attrs
    if not isinstance(attrs, ReduceExtremum):
        raise TinycError(f"reduce_extremum with attributes {attrs!r} cannot be compiled", site.node.where)
    return attrs


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
    kernels=(
        Kernel("tc_reduce_extremum_s8", offered(lower, cost=cost), when=(s8_to_s8, adjacent)),
        float_kernel("reduce_max", is_maximum),
        float_kernel("reduce_min", is_minimum),
    ),
    rowwise=over_channels,
    traits=frozenset({Trait.REDUCES, Trait.SELECTS}),
    float32=Float32(exact_float),
)
