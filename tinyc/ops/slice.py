"""slice: a rectangular part of a tensor, every axis from `begin` on in steps; one index per output element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernels import Call, Const, Cost, In, Kernel, Out, Params, RowForm, Rows, Struct
from tinyc.ops.base import Observed, Op, SameAs, Site, Type
from tinyc.ops.movement import element_bytes, need_one_quant

_LOOPS = 4
_ROW_INSTRUCTIONS, _BYTE_INSTRUCTIONS, _ROW_FLASH = 60, 5, 150  # of a row that is copied


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


def prepare(site: Site) -> Slice:
    need_one_quant(site)
    return Slice(site.attrs.begin, site.attrs.size, site.attrs.step)


def byte_loops(site: Site) -> tuple[int, list[tuple[int, int]], int]:
    """(offset in bytes, (size, step in bytes) of each loop outermost first, bytes that each innermost step copies)."""
    a, width = site.attrs, element_bytes(site.x(0))
    offset = 0
    loops: list[tuple[int, int]] = []
    for axis, n in enumerate(site.x(0).shape):
        stride = math.prod(site.x(0).shape[axis + 1 :]) * width
        offset += a.begin[axis] * stride
        if a.size[axis] == 1:
            continue
        size, step = a.size[axis], a.step[axis] * stride
        if loops and loops[-1][1] == size * step and n == size:
            loops[-1] = (loops[-1][0] * size, step)
        else:
            loops.append((size, step))
    unit = width
    if loops and loops[-1][1] == width:
        unit *= loops.pop()[0]
    return offset, loops, unit


def few_loops(site: Site) -> bool:
    """at most 4 groups of axes that are cut separately, beside a contiguous last one"""
    return len(byte_loops(site)[1]) <= _LOOPS


def lower_slice(site: Site, p: Slice) -> Call:
    """tc_slice: four nested loops that copy runs of bytes."""
    offset, found, unit = byte_loops(site)
    fields: dict[str, int | float | str] = {"offset": offset, "unit": unit}
    for i, (size, step) in enumerate([(1, 0)] * (_LOOPS - len(found)) + found):
        fields |= {f"n{i}": size, f"step{i}": step}
    return Call((Params(), In(0), Out()), Struct("tc_slice_t", fields))


def row_forms(site: Site, p: Slice) -> tuple[RowForm, ...]:
    """Rows of an image that are taken as they are, each by a call of tc_slice."""
    x, y, a = site.x(0), site.y(), site.attrs
    if len(x.shape) != 4 or x.shape[0] != 1 or a.step[1] < 1 or x.shape[2:] != y.shape[2:] or a.step[2:] != (1, 1):
        return ()
    row = math.prod(y.shape[2:]) * element_bytes(x)
    fields: dict[str, int | float | str | Const] = {"offset": 0, "unit": row}
    for i in range(_LOOPS):
        fields |= {f"n{i}": 1, f"step{i}": 0}
    rows = Rows(x.shape[1], y.shape[1], 1, a.step[1], -a.begin[1], 1, row, row, None)
    call = Call((Params(), In(0), Out()), Struct("tc_slice_t", fields), rows)
    cost = Cost((_ROW_INSTRUCTIONS + _BYTE_INSTRUCTIONS * row) * y.shape[1], _ROW_FLASH, 0)
    return (RowForm(call, 0, cost, direct=True),)


OP = Op(
    name="slice",
    attrs=Slice,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(Kernel("tc_slice", lower_slice, when=(few_loops,), row_forms=row_forms),),
)
