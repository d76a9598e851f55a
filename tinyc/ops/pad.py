# SPDX-License-Identifier: Apache-2.0
"""pad: a tensor with constant elements added before and after each axis."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.requantize import quantize_array
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Shape, Value
from tinyc.kernel.counted import counted
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, Params, RowForm, Rows, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.batched import Batched, Gradients
from tinyc.ops.copies import with_loops
from tinyc.ops.movement import element_bytes, need_one_quant
from tinyc.ops.op import Channels, Observed, Op, SameAs, Trait, same_channels

_LOOPS = 4


@dataclass(frozen=True, slots=True)
class Pad:
    """Elements before and after each axis; all of them are `value`, a real number."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float = 0.0


def infer(a: Pad, x: Value) -> Sequence[Type]:
    if not len(a.before) == len(a.after) == len(x.shape):
        raise TinycError(f"pad {a.before}, {a.after} does not fit a tensor of rank {len(x.shape)}")
    if min((*a.before, *a.after), default=0) < 0:
        raise TinycError(f"pad {a.before}, {a.after} is negative", hint="cropping is a slice, not a pad")
    return [Type(tuple(b + n + e for b, n, e in zip(a.before, x.shape, a.after, strict=True)), x.dtype)]


def float_ref(a: Pad, x: Array) -> tuple[Array, ...]:
    widths = list(zip(a.before, a.after, strict=True))
    return (np.pad(x, widths, constant_values=np.float32(a.value)),)


@dataclass(frozen=True, slots=True)
class PadParams:
    """`fill`: the padding element, a 0-d array of the tensor's dtype."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    fill: Array


def prepare(site: Site) -> PadParams:
    need_one_quant(site)
    y = site.y()
    value = site.attrs.value
    if y.dtype != "f32":
        value = int(quantize_array(value, *site.scale_zero(y), *INT_RANGE[y.dtype]))
    return PadParams(site.attrs.before, site.attrs.after, np.array(value, NUMPY_DTYPE[y.dtype]))


def int_ref(p: PadParams, x: Array) -> tuple[Array, ...]:
    return (np.pad(x, list(zip(p.before, p.after, strict=True)), constant_values=p.fill),)


def padded_loops(site: Site) -> list[tuple[int, int, int]]:
    """(before, size, after) of each loop, outermost first; an unpadded axis joins the loop outside it."""
    return loops_of(site.attrs, site.x(0).shape)


def loops_of(a: Pad | PadParams, shape: Shape) -> list[tuple[int, int, int]]:
    """`padded_loops` of a tensor of that shape."""
    loops = [(0, 1, 0)]
    for before, size, after in zip(a.before, shape, a.after, strict=True):
        outer = loops[-1]
        if before == after == 0:
            loops[-1] = (outer[0] * size, outer[1] * size, outer[2] * size)
        elif outer == (0, 1, 0):
            loops[-1] = (before, size, after)
        else:
            loops.append((before, size, after))
    return loops


def few_loops(site: Site) -> bool:
    """at most 4 separately padded groups of axes"""
    return len(padded_loops(site)) <= _LOOPS


def lower_pad(site: Site, p: PadParams) -> Call:
    """tc_pad: four nested loops; sizes of the innermost are bytes."""
    return _call(p, padded_loops(site), element_bytes(site.x(0)))


def _call(p: PadParams, nest: list[tuple[int, int, int]], width: int, rows: Rows | None = None) -> Call:
    loops = [(0, 1, 0)] * (_LOOPS - len(nest)) + nest
    loops[-1] = (loops[-1][0] * width, loops[-1][1] * width, loops[-1][2] * width)
    fields: dict[str, int | float | str | Const] = {
        "fill": Const(p.fill.reshape(1), "[1] the padding element", "fill"),
        "fill_bytes": width,
    }
    for i, (before, size, after) in enumerate(loops):
        fields |= {f"before{i}": before, f"n{i}": size, f"after{i}": after}
    return Call((Params(), In(0), Out()), Struct("tc_pad_t", fields), rows)


def runs(site: Site, p: PadParams) -> Mapping[int, int]:
    """One for each of the innermost loops."""
    *outer, (_, inner, _) = padded_loops(site)
    return {inner * element_bytes(site.x(0)): math.prod(size for _, size, _ in outer)}


def cost(site: Site, p: PadParams) -> Cost:
    """A run for each of the innermost loops, and what is filled."""
    x, y = site.x(0), site.y()
    return _cost(site, padded_loops(site), x.size_bytes, y.size_bytes)


def _cost(site: Site, nest: list[tuple[int, int, int]], x_bytes: int, y_bytes: int) -> Cost:
    runs = math.prod(size for _, size, _ in nest[:-1])
    return counted("tc_pad", site, {"run": runs, "byte": x_bytes, "filled": y_bytes - x_bytes})


def row_forms(site: Site, p: PadParams) -> tuple[RowForm, ...]:
    """Rows of an image with columns and channels added; rows above and below are rows of padding elements."""
    x, y = site.x(0), site.y()
    if len(x.shape) != 4 or x.shape[0] != 1 or y.shape[0] != 1:
        return ()
    (_, in_h, *inner), out_h, row = x.shape, y.shape[1], x.size_bytes // x.shape[1]
    pad = None
    if in_h != out_h:
        fill = np.full(math.prod(inner), p.fill, p.fill.dtype).view(np.int8)
        pad = Const(fill, "[in_w][in_c] of the padding element", "pad" if p.fill.nbytes == 1 else "row")
    rows = Rows(in_h, out_h, 1, 1, p.before[1], 1, row, y.size_bytes // out_h, pad)
    within = PadParams((0, 0, *p.before[2:]), (0, 0, *p.after[2:]), p.fill)
    loops = loops_of(within, (1, 1, *inner))
    one = _cost(site, loops, row, rows.out_row_bytes)
    form_cost = Cost(one.instructions * out_h, one.flash_bytes + (pad.data.nbytes if pad else 0), 0)
    return (RowForm(_call(p, loops, element_bytes(x), rows), 0, form_cost, direct=True),)


def channels(a: Pad, x: Value, y: Value) -> Channels | None:
    """Each of its own, unless some are added."""
    return None if a.before[-1] or a.after[-1] else same_channels(a, x, y)


def forward(a: Pad, x: Array) -> Array:
    widths = ((0, 0), *zip(a.before, a.after, strict=True))
    return np.pad(x, widths, constant_values=np.float32(a.value))


def backward(a: Pad, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    inside = tuple(slice(b, b + n) for b, n in zip(a.before, inputs[0].shape[1:], strict=True))
    return (dy[(slice(None), *inside)],)


OP = Op(
    name="pad",
    attrs=Pad,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=with_loops(
        Kernel("tc_pad", offered(lower_pad, cost=cost, row_forms=row_forms), when=(few_loops,), anywhere=True), runs
    ),
    channels=channels,
    scales=lambda a: a.value == 0,
    traits=frozenset({Trait.MOVES, Trait.MONOTONE, Trait.INT16, Trait.ANY_TYPE}),
    batched=Batched(forward, backward),
)
