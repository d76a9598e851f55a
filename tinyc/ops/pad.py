"""pad: a tensor with constant elements added before and after each axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.errors import TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Value
from tinyc.kernels import Call, Const, In, Kernel, Out, Params, Struct
from tinyc.numerics import quantize_array
from tinyc.ops.base import Observed, Op, SameAs, Site, Type
from tinyc.ops.movement import element_bytes, need_one_quant

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
    a: Pad = site.attrs
    loops = [(0, 1, 0)]
    for before, size, after in zip(a.before, site.x(0).shape, a.after, strict=True):
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
    width = element_bytes(site.x(0))
    loops = [(0, 1, 0)] * (_LOOPS - len(padded_loops(site))) + padded_loops(site)
    loops[-1] = (loops[-1][0] * width, loops[-1][1] * width, loops[-1][2] * width)
    fields: dict[str, int | float | str | Const] = {
        "fill": Const(p.fill.reshape(1), "[1] the padding element", "fill"),
        "fill_bytes": width,
    }
    for i, (before, size, after) in enumerate(loops):
        fields |= {f"before{i}": before, f"n{i}": size, f"after{i}": after}
    return Call((Params(), In(0), Out()), Struct("tc_pad_t", fields))


OP = Op(
    name="pad",
    attrs=Pad,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(Kernel("tc_pad", lower_pad, when=(few_loops,)),),
)
