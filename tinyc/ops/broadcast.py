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
from tinyc.kernel.kernel import Call, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.binary import broadcast_shape
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import element_bytes, need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait

_LOOPS = 4


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
    loops: list[tuple[int, int]] = []
    for axis, size in enumerate(y):
        step = 0 if x[axis] == 1 else math.prod(x[axis + 1 :]) * width
        if size == 1:
            continue
        if loops and loops[-1][1] == size * step:
            loops[-1] = (loops[-1][0] * size, step)
        else:
            loops.append((size, step))
    unit = width
    if loops and loops[-1][1] == width:
        unit *= loops.pop()[0]
    return loops, unit


def few_loops(site: Site) -> bool:
    """at most 4 groups of axes that repeat or advance together, beside a contiguous last one"""
    return len(byte_loops(site)[0]) <= _LOOPS


def lower(site: Site, p: Broadcast) -> Call:
    """tc_slice with steps of 0 where x repeats."""
    nest, unit = byte_loops(site)
    fields: dict[str, int | float | str] = {"offset": 0, "unit": unit}
    for i, (size, step) in enumerate([(1, 0)] * (_LOOPS - len(nest)) + nest):
        fields |= {f"n{i}": size, f"step{i}": step}
    return Call((Params(), In(0), Out()), Struct("tc_slice_t", fields))


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
