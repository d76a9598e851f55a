# SPDX-License-Identifier: Apache-2.0
"""pick: the parts of a tensor along one axis that constant indices say, in their order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel
from tinyc.kernel.kernel import Call, Const
from tinyc.kernel.site import Site, Type
from tinyc.ops.copies import with_loops
from tinyc.ops.gather import GATHERS, gather_call, of_parts, parts
from tinyc.ops.movement import need_one_quant, normal_axis
from tinyc.ops.op import Observed, Op, SameAs, Trait


@dataclass(frozen=True, slots=True)
class Pick:
    """indices: each in [0, size of the axis)."""

    axis: int
    indices: tuple[int, ...]


def infer(a: Pick, x: Value) -> Sequence[Type]:
    axis = normal_axis(a.axis, len(x.shape), "pick")
    if not a.indices or min(a.indices) < 0 or max(a.indices) >= x.shape[axis]:
        raise TinycError(f"pick takes indices outside axis {axis} of {list(x.shape)}")
    return [Type((*x.shape[:axis], len(a.indices), *x.shape[axis + 1 :]), x.dtype)]


def float_ref(a: Pick, x: Array) -> tuple[Array, ...]:
    return (np.take(x, a.indices, axis=a.axis),)


def prepare(site: Site) -> Pick:
    need_one_quant(site)
    return Pick(normal_axis(site.attrs.axis, len(site.x(0).shape), "pick"), site.attrs.indices)


def lower(site: Site, p: Pick) -> Call:
    """tc_gather: a run of bytes per index."""
    indices = Const(np.array(p.indices, np.int32), "[count]", "indices")
    return gather_call(site, p.axis, len(p.indices), indices)


OP = Op(
    name="pick",
    attrs=Pick,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=with_loops(counted_kernel("tc_gather", lower, of_parts, when=()), parts, GATHERS),
    traits=frozenset({Trait.MOVES, Trait.INT16, Trait.ANY_TYPE}),
)
