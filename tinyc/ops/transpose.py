# SPDX-License-Identifier: Apache-2.0
"""transpose: axes in another order, y axis k is x axis perm[k]."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.counted import counted
from tinyc.kernel.kernel import (
    Arg,
    Call,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    RowIndex,
    Rows,
    Struct,
    offered,
)
from tinyc.kernel.site import Site, Type
from tinyc.ops.batched import Batched, Gradients
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import copied_runs, element_bytes, joined, need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait

_LOOPS = 5


@dataclass(frozen=True, slots=True)
class Transpose:
    perm: tuple[int, ...]


def infer(a: Transpose, x: Value) -> Sequence[Type]:
    if sorted(a.perm) != list(range(len(x.shape))):
        raise TinycError(f"permutation {list(a.perm)} does not fit a tensor of rank {len(x.shape)}")
    return [Type(tuple(x.shape[k] for k in a.perm), x.dtype)]


def float_ref(a: Transpose, x: Array) -> tuple[Array, ...]:
    return (np.transpose(x, a.perm).copy(),)


def prepare(site: Site) -> Transpose:
    need_one_quant(site)
    return Transpose(site.attrs.perm)


def strided_loops(shape: Shape, perm: Sequence[int], part: Shape | None = None) -> list[tuple[int, int]]:
    """(size, step in x) of each loop over y, outermost first, in elements. part: of the tensor, with so many indices of
    each axis.

    Axes of size 1 are left out and neighbours that stay neighbours are one loop, so an order that
    moves nothing gives a single loop with step 1.
    """
    return joined(((part or shape)[axis], math.prod(shape[axis + 1 :])) for axis in perm) or [(1, 1)]


def byte_loops(site: Site, part: Shape | None = None) -> tuple[list[tuple[int, int]], int]:
    """Loops of `strided_loops` with steps in bytes, and the bytes that each innermost step moves."""
    width = element_bytes(site.x(0))
    loops = strided_loops(site.x(0).shape, site.attrs.perm, part)
    return copied_runs(((size, step * width) for size, step in loops), width)


def few_loops(site: Site) -> bool:
    """at most 5 groups of axes that move separately, beside a contiguous last one"""
    return len(byte_loops(site)[0]) <= _LOOPS


def lower_transpose(site: Site, p: Transpose) -> Call:
    """tc_transpose: five nested loops that copy runs of bytes."""
    return _call(*byte_loops(site), (Params(), In(0), Out()))


def _call(nest: list[tuple[int, int]], unit: int, args: tuple[Arg, ...], rows: Rows | None = None) -> Call:
    loops = [(1, 0)] * (_LOOPS - len(nest)) + nest
    fields: dict[str, int | float | str] = {"unit": unit}
    for i, (size, step) in enumerate(loops):
        fields |= {f"n{i}": size, f"step{i}": step}
    return Call(args, Struct("tc_transpose_t", fields), rows)


def runs(site: Site, p: Transpose) -> Mapping[int, int]:
    """One for each of the innermost steps; single bytes go in a loop of their own."""
    loops, unit = byte_loops(site)
    return {} if unit == 1 else {unit: math.prod(size for size, _ in loops)}


def cost(site: Site, p: Transpose) -> Cost:
    """A run for each of the innermost steps."""
    loops, unit = byte_loops(site)
    return _moved_cost(site, loops, unit, site.y().size_bytes)


def _moved_cost(site: Site, loops: list[tuple[int, int]], unit: int, size_bytes: int) -> Cost:
    """Single bytes go in a loop of their own."""
    if unit == 1:
        return counted("tc_transpose", site, {"single": size_bytes})
    return counted("tc_transpose", site, {"run": math.prod(n for n, _ in loops), "byte": size_bytes})


def row_forms(site: Site, p: Transpose) -> tuple[RowForm, ...]:
    """Rows that stay rows: what moves are elements within each. Or rows that become several, an axis of the row being
    moved out of it (as in depth to space): then y's rows are those of its next axis too."""
    x, perm = site.x(0), p.perm
    if len(perm) < 4 or x.shape[0] != 1 or perm[:2] != (0, 1) or x.shape[1] < 2:
        return ()
    forms = (_row_form(site, parts) for parts in dict.fromkeys((1, site.y().shape[2])))
    return tuple(form for form in forms if form is not None)


def _row_form(site: Site, parts: int) -> RowForm | None:
    """The form that makes `parts` rows of each row of x: 1, or as many as y's axis 2 has indices."""
    x, y, perm = site.x(0), site.y(), site.attrs.perm
    height, out_h = x.shape[1], x.shape[1] * parts
    part = [1, 1, *x.shape[2:]]
    if parts > 1:
        part[perm[2]] = 1
    loops, unit = byte_loops(site, tuple(part))
    if len(loops) > _LOOPS:
        return None
    one = _moved_cost(site, loops, unit, y.size_bytes // out_h)
    whole = Cost(one.instructions * out_h, one.flash_bytes, 0)
    rows = Rows(height, out_h, 1, 1, 0, 1, x.size_bytes // height, y.size_bytes // out_h, None)
    if parts == 1:
        return RowForm(_call(loops, unit, (Params(), In(0), Out()), rows), 0, whole, direct=True)
    starts = Const((np.arange(out_h) // parts).astype(np.int16), "[out_h] the row that it is of", "starts")
    step = math.prod(x.shape[perm[2] + 1 :]) * element_bytes(x)
    args = (Params(), In(0), RowIndex(), parts, step, Out())
    return RowForm(
        call=_call(loops, unit, args, replace(rows, starts=starts)),
        scratch_bytes=0,
        cost=replace(whole, flash_bytes=whole.flash_bytes + starts.data.nbytes),
        direct=True,
        function="tc_transpose_row",
        includes=("tc_transpose_row.h",),
    )


def forward(a: Transpose, x: Array) -> Array:
    return np.ascontiguousarray(np.transpose(x, (0, *(p + 1 for p in a.perm))))


def backward(a: Transpose, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    return (np.transpose(dy, (0, *(1 + np.argsort(a.perm)))),)


OP = Op(
    name="transpose",
    attrs=Transpose,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=with_loops(
        Kernel("tc_transpose", offered(lower_transpose, cost=cost, row_forms=row_forms), when=(few_loops,)), runs
    ),
    traits=frozenset({Trait.MOVES, Trait.INT16, Trait.ANY_TYPE}),
    batched=Batched(forward, backward),
)
