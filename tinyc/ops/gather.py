# SPDX-License-Identifier: Apache-2.0
"""gather: parts of x along one axis, in the order that computed indices say; an embedding if x is constant.

y = x[..., indices, ...]: the axis is replaced by the axes of the indices (int32). An index counts from the end where it
is negative; one outside of the axis is taken as the nearest inside, as a microcontroller has nobody to tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.kernel import Arg, Call, Out, Params, Struct
from tinyc.kernel.site import Site, Type
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import element_bytes, normal_axis, tensor_argument
from tinyc.ops.op import Observed, Op, SameAs, Trait, Unquantized


@dataclass(frozen=True, slots=True)
class Gather:
    axis: int = 0


def infer(a: Gather, x: Value, indices: Value) -> Sequence[Type]:
    axis = normal_axis(a.axis, len(x.shape), "gather")
    if indices.dtype != "s32":
        raise TinycError(f"indices '{indices.name}' are {indices.dtype}; they must be int32")
    return [Type((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)]


def float_ref(a: Gather, x: Array, indices: Array) -> tuple[Array, ...]:
    size = x.shape[a.axis]
    at = np.where(indices < 0, indices + size, indices)
    return (np.take(x, np.clip(at, 0, size - 1), axis=a.axis),)


def prepare(site: Site) -> Gather:
    x, y = site.x(0), site.y()
    if (x.dtype, x.quant) != (y.dtype, y.quant):
        raise TinycError(
            f"gather: '{x.name}' and '{y.name}' differ in dtype or quantization",
            site.node.where,
            "the operator moves bytes; a requantize before it makes the two alike",
        )
    return Gather(normal_axis(site.attrs.axis, len(x.shape), "gather"))


def gather_call(site: Site, axis: int, count: int, indices: Arg) -> Call:
    """tc_gather of input 0: `count` parts along the axis."""
    shape = site.x(0).shape
    fields: dict[str, int | float | str] = {
        "outer": math.prod(shape[:axis]),
        "size": shape[axis],
        "count": count,
        "unit": math.prod(shape[axis + 1 :]) * element_bytes(site.x(0)),
    }
    return Call((Params(), tensor_argument(site, 0), indices, Out()), Struct("tc_gather_t", fields))


GATHERS = ("const {}_t *p", "const void *x", "const int32_t *indices", "void *y")


def parts(site: Site, p: Any) -> Mapping[int, int]:
    """Those that are copied."""
    size = math.prod(site.x(0).shape[p.axis + 1 :])
    return {size * element_bytes(site.x(0)): site.y().elements // size}


def of_parts(site: Site, p: Any) -> Units:
    """Parts that are copied, and their bytes."""
    y = site.y()
    return {"run": y.elements // math.prod(site.x(0).shape[p.axis + 1 :]), "byte": y.size_bytes}


def lower(site: Site, p: Gather) -> Call:
    """tc_gather: a run of bytes per index."""
    return gather_call(site, p.axis, site.x(1).elements, tensor_argument(site, 1))


OP = Op(
    name="gather",
    attrs=Gather,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(), Unquantized()),
    quant_out=(SameAs(0),),
    kernels=with_loops(counted_kernel("tc_gather", lower, of_parts, when=()), parts, GATHERS),
    traits=frozenset({Trait.ANY_TYPE}),
)
