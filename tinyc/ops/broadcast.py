# SPDX-License-Identifier: Apache-2.0
"""broadcast: a tensor repeated along its axes of size 1, to a larger shape."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Kernel, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.binary import broadcast_shape
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import copied_runs, element_bytes, need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait
from tinyc.ops.slice import MOST_LOOPS, slice_call


@dataclass(frozen=True, slots=True)
class Broadcast:
    shape: Shape  # of the output: every axis the input's size, or any where that is 1


def infer(a: Broadcast, x: Value) -> Sequence[Type]:
    if broadcast_shape(x.shape, a.shape) != tuple(a.shape):
        raise TinycError(f"{list(x.shape)} cannot be repeated to {list(a.shape)}")
    return [Type(a.shape, x.dtype)]


def float_ref(a: Broadcast, x: Array) -> tuple[Array, ...]:
    return (np.broadcast_to(x, a.shape).copy(),)


def prepare(site: Site) -> Broadcast:
    need_one_quant(site)
    return Broadcast(site.y().shape)


def byte_loops(site: Site) -> tuple[list[tuple[int, int]], int]:
    """((size, step in bytes) of each loop, outermost first, 0 where x repeats; bytes that an innermost step copies)."""
    y, width = site.y().shape, element_bytes(site.x(0))
    x = (1,) * (len(y) - len(site.x(0).shape)) + site.x(0).shape
    steps = (0 if n == 1 else math.prod(x[axis + 1 :]) * width for axis, n in enumerate(x))
    return copied_runs(zip(y, steps, strict=True), width)


def few_loops(site: Site) -> bool:
    """at most 4 groups of axes that repeat or advance together, beside a contiguous last one"""
    return len(byte_loops(site)[0]) <= MOST_LOOPS


def lower(site: Site, p: Broadcast) -> Call:
    """tc_slice with steps of 0 where x repeats."""
    return slice_call(0, *byte_loops(site))


def of_runs(site: Site, p: Broadcast) -> Units:
    """Runs that are copied, and their bytes."""
    nest, _ = byte_loops(site)
    return {"run": math.prod(size for size, _ in nest), "byte": site.y().size_bytes}


def runs(site: Site, p: Broadcast) -> Mapping[int, int]:
    """One for each of the innermost steps."""
    nest, unit = byte_loops(site)
    return {unit: math.prod(size for size, _ in nest)}


OP = Op(
    name="broadcast",
    attrs=Broadcast,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=with_loops(
        Kernel("tc_slice", offered(lower, cost=CountedCost("tc_slice", of_runs)), when=(few_loops,), anywhere=True),
        runs,
    ),
    traits=frozenset({Trait.MOVES, Trait.INT16, Trait.ANY_TYPE}),
)
