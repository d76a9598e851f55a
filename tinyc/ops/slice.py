# SPDX-License-Identifier: Apache-2.0
"""slice: a rectangular part of a tensor, every axis from `begin` on in steps; one index per output element."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.counted import counted
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, Params, RowForm, Rows, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.batched import Batched
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import CopyLoop, copied_runs, element_bytes, need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait

MOST_LOOPS = 4


@dataclass(frozen=True, slots=True)
class Slice:
    """y[i] = x[begin + i * step] along every axis; `size` is y's shape. Steps may be negative, never 0."""

    begin: tuple[int, ...]
    size: tuple[int, ...]
    step: tuple[int, ...]


def whole(shape: Shape, axis: int, begin: int, size: int, step: int = 1) -> Slice:
    """The Slice that takes `size` indices of one axis, and all of the others."""
    rank = len(shape)
    return Slice(
        tuple(begin if k == axis else 0 for k in range(rank)),
        tuple(size if k == axis else n for k, n in enumerate(shape)),
        tuple(step if k == axis else 1 for k in range(rank)),
    )


def infer(a: Slice, x: Value) -> Sequence[Type]:
    if not len(a.begin) == len(a.size) == len(a.step) == len(x.shape):
        raise TinycError(f"slice of {len(a.size)} axes does not fit a tensor of rank {len(x.shape)}")
    for begin, size, step, n in zip(a.begin, a.size, a.step, x.shape, strict=True):
        if size < 1 or step == 0 or not (0 <= begin < n and 0 <= begin + (size - 1) * step < n):
            raise TinycError(
                f"slice begin {list(a.begin)}, size {list(a.size)}, step {list(a.step)} leaves {list(x.shape)}"
            )
    return [Type(a.size, x.dtype)]


def float_ref(a: Slice, x: Array) -> tuple[Array, ...]:
    index = [begin + step * np.arange(size) for begin, size, step in zip(a.begin, a.size, a.step, strict=True)]
    return (np.ascontiguousarray(x[np.ix_(*index)]) if index else x,)


def forward(a: Slice, x: Array) -> Array:
    ends = [begin + step * size for begin, size, step in zip(a.begin, a.size, a.step, strict=True)]
    each = zip(a.begin, ends, a.step, strict=True)
    index = [slice(begin, end if end >= 0 else None, step) for begin, end, step in each]
    return np.ascontiguousarray(x[:, *index])


def prepare(site: Site) -> Slice:
    need_one_quant(site)
    return Slice(site.attrs.begin, site.attrs.size, site.attrs.step)


def byte_loops(site: Site) -> tuple[int, list[tuple[int, int]], int]:
    """(offset in bytes, (size, step in bytes) of each loop outermost first, bytes that each innermost step copies)."""
    return loops_of(site.attrs, site.x(0).shape, element_bytes(site.x(0)))


def loops_of(a: Slice, shape: Shape, width: int) -> tuple[int, list[tuple[int, int]], int]:
    """`byte_loops` of a tensor of that shape, whose elements have `width` bytes."""
    strides = [math.prod(shape[axis + 1 :]) * width for axis in range(len(shape))]
    offset = sum(begin * stride for begin, stride in zip(a.begin, strides, strict=True))
    steps = (step * stride for step, stride in zip(a.step, strides, strict=True))
    return offset, *copied_runs(zip(a.size, steps, strict=True), width)


def part(site: Site) -> int | None:
    """`Op.part`: whether nothing is left out between the first element and the last."""
    offset, loops, _ = byte_loops(site)
    return None if loops else offset


def few_loops(site: Site) -> bool:
    """at most 4 groups of axes that are cut separately, beside a contiguous last one"""
    return len(byte_loops(site)[1]) <= MOST_LOOPS


def lower_slice(site: Site, p: Slice) -> Call:
    """tc_slice: four nested loops that copy runs of bytes."""
    return slice_call(*byte_loops(site))


def slice_call(offset: int, nest: list[CopyLoop], unit: int, rows: Rows | None = None) -> Call:
    """tc_slice: runs of `unit` bytes from byte `offset` on."""
    fields: dict[str, int | float | str] = {"offset": offset, "unit": unit}
    for i, (size, step) in enumerate([(1, 0)] * (MOST_LOOPS - len(nest)) + nest):
        fields |= {f"n{i}": size, f"step{i}": step}
    return Call((Params(), In(0), Out()), Struct("tc_slice_t", fields), rows)


def runs(site: Site, p: Slice) -> Mapping[int, int]:
    """One for each of the innermost steps."""
    _, loops, unit = byte_loops(site)
    return {unit: math.prod(size for size, _ in loops)}


def cost(site: Site, p: Slice) -> Cost:
    """A run for each of the innermost steps."""
    _, loops, _ = byte_loops(site)
    return counted("tc_slice", site, {"run": math.prod(size for size, _ in loops), "byte": site.y().size_bytes})


def row_forms(site: Site, p: Slice) -> tuple[RowForm, ...]:
    """Rows of an image, or parts of them, each by a call of tc_slice."""
    x, y, a = site.x(0), site.y(), site.attrs
    if len(x.shape) != 4 or x.shape[0] != 1 or a.step[1] < 1:
        return ()
    part = Slice((0, 0, *a.begin[2:]), (1, 1, *a.size[2:]), (1, 1, *a.step[2:]))
    offset, nest, unit = loops_of(part, (1, 1, *x.shape[2:]), element_bytes(x))
    runs, out_h = math.prod(size for size, _ in nest), y.shape[1]
    rows = Rows(
        *(x.shape[1], out_h, 1, a.step[1], -a.begin[1], 1, x.size_bytes // x.shape[1], y.size_bytes // out_h, None)
    )
    one = counted("tc_slice", site, {"run": runs, "byte": rows.out_row_bytes})
    cost = Cost(one.instructions * out_h, one.flash_bytes, 0)
    return (RowForm(slice_call(offset, nest, unit, rows), 0, cost, direct=True),)


OP = Op(
    name="slice",
    attrs=Slice,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=with_loops(
        Kernel("tc_slice", offered(lower_slice, cost=cost, row_forms=row_forms), when=(few_loops,), anywhere=True), runs
    ),
    part=part,
    traits=frozenset({Trait.MOVES, Trait.INT16, Trait.ANY_TYPE}),
    batched=Batched(forward),
)
