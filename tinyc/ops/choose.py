# SPDX-License-Identifier: Apache-2.0
"""choose: y = x0 where the condition (bool) holds, else x1, with numpy broadcasting; all share one quantization."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.kernel import Call, Kernel, Out, Params, Struct
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.loops.expression import Element, Where
from tinyc.loops.lines import LoopLines
from tinyc.loops.written import LOOP_CORES, LoopCore, LoopFunction, loop_kernel
from tinyc.ops.binary import broadcast_shape
from tinyc.ops.movement import element_bytes, tensor_argument
from tinyc.ops.op import Observed, Op, SameAs, Trait, Unquantized

HIDDEN = 1e3  # a constant x1 so far below 0 stands for minus infinity, not for a number that needs a place in the scale
_LOOPS = 4
_BYTE, _WORD = 8, 15  # instructions of an element in C


@dataclass(frozen=True, slots=True)
class Choose:
    """No attributes."""


def infer(a: Choose, condition: Value, x0: Value, x1: Value) -> Sequence[Type]:
    if condition.dtype != "bool":
        raise TinycError(f"the condition '{condition.name}' is {condition.dtype}, not bool")
    return [Type(broadcast_shape(condition.shape, broadcast_shape(x0.shape, x1.shape)), x0.dtype)]


def float_ref(a: Choose, condition: Array, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (np.where(condition, x0, x1),)


def prepare(site: Site) -> Choose:
    y = site.y()
    for x in (site.x(1), site.x(2)):
        if x.dtype != y.dtype or x.quant != y.quant:
            raise TinycError(
                f"choose: '{x.name}' and '{y.name}' differ in dtype or quantization",
                site.node.where,
                "the operator moves bytes; a requantize before it makes them alike",
            )
    return Choose()


def loops(y: Shape, xs: Sequence[Shape]) -> list[tuple[int, tuple[int, ...]]]:
    """(size, steps in elements of each input) of each loop over y, outermost first; a step is 0 where one repeats."""
    wide = [(1,) * (len(y) - len(x)) + x for x in xs]
    nest: list[tuple[int, tuple[int, ...]]] = []
    for axis, size in enumerate(y):
        if size == 1:
            continue
        steps = tuple(0 if x[axis] == 1 else math.prod(x[axis + 1 :]) for x in wide)
        if nest and nest[-1][1] == tuple(size * step for step in steps):
            nest[-1] = (nest[-1][0] * size, steps)
        else:
            nest.append((size, steps))
    return nest or [(1, (0,) * len(xs))]


def _loops(site: Site) -> list[tuple[int, tuple[int, ...]]]:
    return loops(site.y().shape, [site.x(k).shape for k in range(3)])


def few_loops(site: Site) -> bool:
    """inputs whose repeated axes form at most 4 groups"""
    return len(_loops(site)) <= _LOOPS


def lower(site: Site, p: Choose) -> Call:
    """tc_choose: a copy of one element after the other."""
    nest, width = _loops(site), element_bytes(site.y())
    fields: dict[str, int | float | str] = {"unit": width}
    for k, (size, (c, a, b)) in enumerate([(1, (0, 0, 0))] * (_LOOPS - len(nest)) + nest):
        fields |= {f"n{k}": size, f"c{k}": c, f"a{k}": a * width, f"b{k}": b * width}
    inputs = (tensor_argument(site, k) for k in range(3))
    return Call((Params(), *inputs, Out()), Struct("tc_choose_t", fields))


def is_alike(site: Site) -> bool:
    """int8 output, and inputs of its shape"""
    return site.y().dtype == "s8" and all(site.x(k).shape == site.y().shape for k in range(3))


def _loop(site: Site, core: str) -> LoopFunction:
    """The loop over bytes. core: the ending of its name."""
    root, lines = Where(Element(0, ctype="void"), Element(1), Element(2)), LoopLines((), site.y().elements)
    says = "y[i] = x0[i] ? x1[i] : x2[i], in bytes; y may be x1 or x2."
    return LoopFunction(f"tc_choose_s8_{core}", says, root, "", (), lines)


def lower_loop(site: Site, p: Choose) -> Call:
    """The call of the loop."""
    inputs = (tensor_argument(site, k) for k in range(3))
    return Call((site.y().elements, *inputs, Out()))


def of_copies(site: Site, p: Choose) -> Units:
    """Elements, their bytes, and runs of them."""
    y = site.y()
    return {"element": y.elements, "byte": y.size_bytes, "line": math.prod(size for size, _ in _loops(site)[:-1])}


def _in_bytes(core: str, on: LoopCore) -> Kernel:
    return loop_kernel(
        f"tc_choose_s8_{core}", on, lambda site, p: _loop(site, core), lower_loop, (is_alike,), inplace=(1, 2)
    )


OP = Op(
    name="choose",
    attrs=Choose,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Unquantized(), Observed(), SameAs(1)),
    quant_out=(SameAs(1),),
    kernels=(
        *(_in_bytes(ending, on) for ending, on in LOOP_CORES.items()),
        counted_kernel("tc_choose", lower, of_copies, when=(few_loops,)),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.BROADCASTS, Trait.ANY_TYPE}),
)
