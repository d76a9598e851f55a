# SPDX-License-Identifier: Apache-2.0
"""argmax: int32 index of the largest (or smallest) element along one axis, which is dropped; the first of equals."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type
from tinyc.ops.movement import normal_axis
from tinyc.ops.op import Observed, Op, Trait, Unquantized


@dataclass(frozen=True, slots=True)
class ArgMax:
    """keep_dims: the axis stays, with size 1."""

    axis: int
    largest: bool = True
    keep_dims: bool = False


def infer(a: ArgMax, x: Value) -> Sequence[Type]:
    axis = normal_axis(a.axis, len(x.shape), "argmax")
    reduced_axis = (1,) if a.keep_dims else ()
    return [Type((*x.shape[:axis], *reduced_axis, *x.shape[axis + 1 :]), "s32")]


def float_ref(a: ArgMax, x: Array) -> tuple[Array, ...]:
    places = x.argmax(a.axis, keepdims=a.keep_dims) if a.largest else x.argmin(a.axis, keepdims=a.keep_dims)
    return (np.asarray(places, np.int32),)


def prepare(site: Site) -> ArgMax:
    return ArgMax(site.attrs.axis, site.attrs.largest, site.attrs.keep_dims)


def is_s8(site: Site) -> bool:
    """int8 input"""
    return site.x(0).dtype == "s8"


def is_f32(site: Site) -> bool:
    """float32 input"""
    return site.x(0).dtype == "f32"


def is_s32(site: Site) -> bool:
    """int32 input"""
    return site.x(0).dtype == "s32"


def lower(site: Site, p: ArgMax) -> Call:
    """tc_argmax_s8, tc_argmax_s32 and tc_argmax_f32: the whole tensor."""
    shape = site.x(0).shape
    axis = normal_axis(p.axis, len(shape), "argmax")
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    fields: dict[str, int] = {"outer": outer, "n": shape[axis], "inner": inner, "largest": int(p.largest)}
    return Call((Params(), In(0), Out()), Struct(f"tc_argmax_{site.x(0).dtype}_t", fields))


def of_axis(site: Site, p: ArgMax) -> Units:
    """Elements that are compared, and indices."""
    return {"taken": site.x(0).elements, "element": site.y().elements}


def over_channels(site: Site) -> bool:
    """`Op.rowwise`: the index of a channel, for each pixel of an image that stays one."""
    rank = len(site.x(0).shape)
    return rank == len(site.y().shape) == 4 and site.attrs.axis % rank == 3


OP = Op(
    name="argmax",
    attrs=ArgMax,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(Unquantized(own=True),),
    kernels=(
        counted_kernel("tc_argmax_s8", lower, of_axis, when=(is_s8,)),
        counted_kernel("tc_argmax_f32", lower, of_axis, when=(is_f32,)),
        counted_kernel("tc_argmax_s32", lower, of_axis, when=(is_s32,)),
    ),
    rowwise=over_channels,
    traits=frozenset({Trait.ANY_TYPE}),
)
