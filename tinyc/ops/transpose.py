"""transpose: axes in another order, y axis k is x axis perm[k]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernels import Call, In, Kernel, Out, Params, Struct
from tinyc.ops.base import Observed, Op, SameAs, Site, Type
from tinyc.ops.movement import element_bytes, need_one_quant

_LOOPS = 4


@dataclass(frozen=True, slots=True)
class Transpose:
    perm: tuple[int, ...]


def infer(a: Transpose, x: Value) -> Sequence[Type]:
    if sorted(a.perm) != list(range(len(x.shape))):
        raise TinycError(f"permutation {list(a.perm)} does not fit a tensor of rank {len(x.shape)}")
    return [Type(tuple(x.shape[k] for k in a.perm), x.dtype)]


def float_ref(a: Transpose, x: Array) -> tuple[Array, ...]:
    return (np.ascontiguousarray(np.transpose(x, a.perm)),)


def prepare(site: Site) -> Transpose:
    need_one_quant(site)
    return Transpose(site.attrs.perm)


def strided_loops(shape: Shape, perm: Sequence[int]) -> list[tuple[int, int]]:
    """(size, step in x) of each loop over y, outermost first, in elements.

    Axes of size 1 are left out and neighbours that stay neighbours are one loop, so an order that
    moves nothing gives a single loop with step 1.
    """
    loops: list[tuple[int, int]] = []
    for axis in perm:
        size, step = shape[axis], math.prod(shape[axis + 1 :])
        if size == 1:
            continue
        if loops and loops[-1][1] == size * step:
            loops[-1] = (loops[-1][0] * size, step)
        else:
            loops.append((size, step))
    return loops or [(1, 1)]


def byte_loops(site: Site) -> tuple[list[tuple[int, int]], int]:
    """Loops of `strided_loops` with steps in bytes, and the bytes that each innermost step moves."""
    width = element_bytes(site.x(0))
    loops = strided_loops(site.x(0).shape, site.attrs.perm)
    unit = width
    if loops[-1][1] == 1:
        unit *= loops.pop()[0]
    return [(size, step * width) for size, step in loops], unit


def few_loops(site: Site) -> bool:
    """at most 4 groups of axes that move separately, beside a contiguous last one"""
    return len(byte_loops(site)[0]) <= _LOOPS


def lower_transpose(site: Site, p: Transpose) -> Call:
    """tc_transpose: four nested loops that copy runs of bytes."""
    found, unit = byte_loops(site)
    loops = [(1, 0)] * (_LOOPS - len(found)) + found
    fields: dict[str, int | float | str] = {"unit": unit}
    for i, (size, step) in enumerate(loops):
        fields |= {f"n{i}": size, f"step{i}": step}
    return Call((Params(), In(0), Out()), Struct("tc_transpose_t", fields))


OP = Op(
    name="transpose",
    attrs=Transpose,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(Kernel("tc_transpose", lower_transpose, when=(few_loops,)),),
)
