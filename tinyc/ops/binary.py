# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators with two inputs: broadcasting, and the loops that their kernels run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.counted import Units, counted_kernel
from tinyc.kernel.float32 import act_fields
from tinyc.kernel.kernel import Arg, Call, Condition, Const, In, Kernel, Out, Params, Struct
from tinyc.kernel.site import Act, Site, Type
from tinyc.kernel.types import in_float32
from tinyc.loops.lines import LoopLines
from tinyc.ops.movement import tensor_argument
from tinyc.ops.tables import table_kernels

LOOPS = 4


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop over the output: `size` steps, each moving `step0` and `step1` elements in the inputs."""

    size: int
    step0: int
    step1: int


@dataclass(frozen=True, slots=True)
class Binary:
    """Attributes of add, sub and mul: the fused activation."""

    act: Act = Act()


def broadcast_shape(x0: Shape, x1: Shape) -> Shape:
    """The common shape by numpy's rule: axes meet from the back, a size of 1 repeats. TinycError if none."""
    rank = max(len(x0), len(x1))
    wide0, wide1 = (1,) * (rank - len(x0)) + x0, (1,) * (rank - len(x1)) + x1
    if any(a != b and 1 not in (a, b) for a, b in zip(wide0, wide1, strict=True)):
        raise TinycError(f"shapes {list(x0)} and {list(x1)} do not broadcast")
    return tuple(b if a == 1 else a for a, b in zip(wide0, wide1, strict=True))


def infer(a: Binary, x0: Value, x1: Value) -> Sequence[Type]:
    return [Type(broadcast_shape(x0.shape, x1.shape), x0.dtype)]


def loops(x0: Shape, x1: Shape) -> tuple[Loop, ...]:
    """Loops over the broadcast output, outermost first. Equal shapes give a single loop.

    Neighbouring axes in which the same inputs advance are one loop; axes of size 1 give none.
    """
    y = broadcast_shape(x0, x1)
    wide0, wide1 = (1,) * (len(y) - len(x0)) + x0, (1,) * (len(y) - len(x1)) + x1
    merged: list[tuple[int, bool, bool]] = []  # size, whether x0 advances, whether x1 does
    for size, n0, n1 in zip(y, wide0, wide1, strict=True):
        moves = (n0 == size, n1 == size)
        if size == 1:
            continue
        if merged and merged[-1][1:] == moves:
            merged[-1] = (merged[-1][0] * size, *moves)
        else:
            merged.append((size, *moves))
    nest = []
    for k, (size, moves0, moves1) in enumerate(merged):
        inner = merged[k + 1 :]
        step0 = math.prod(n for n, moving, _ in inner if moving) if moves0 else 0
        step1 = math.prod(n for n, _, moving in inner if moving) if moves1 else 0
        nest.append(Loop(size, step0, step1))
    return tuple(nest) or (Loop(1, 0, 0),)


def lines_of(site: Site) -> tuple[LoopLines, bool]:
    """The lines of the output, and whether x0 and x1 change places, so that the first one moves in a line."""
    *outer, inner = loops(site.x(0).shape, site.x(1).shape)
    swaps = inner.step0 < inner.step1
    steps = [(loop.size, *((loop.step1, loop.step0) if swaps else (loop.step0, loop.step1))) for loop in outer]
    return LoopLines(tuple(steps), inner.size, inner.step0 != inner.step1), swaps


def loop_fields(site: Site) -> dict[str, int | float | str | Const]:
    """Struct fields n0..n3 (sizes, outermost first), a0..a3 and b0..b3 (steps in the inputs)."""
    nest = loops(site.x(0).shape, site.x(1).shape)
    fields: dict[str, int | float | str | Const] = {}
    for k, loop in enumerate((Loop(1, 0, 0),) * (LOOPS - len(nest)) + nest):
        fields |= {f"n{k}": loop.size, f"a{k}": loop.step0, f"b{k}": loop.step1}
    return fields


def arguments(site: Site) -> tuple[Arg, ...]:
    """(parameters, input 0, input 1, output); a constant input is passed as such."""
    return (Params(), tensor_argument(site, 0), tensor_argument(site, 1), Out())


def of_pairs(site: Site, params: Any) -> Units:
    """What a kernel in C repeats that goes through `loop_fields`."""
    lines = math.prod(loop.size for loop in loops(site.x(0).shape, site.x(1).shape)[:-1])
    return {"element": site.y().elements, "line": lines}


def is_s8(site: Site) -> bool:
    """int8 inputs and output"""
    return (site.x(0).dtype, site.x(1).dtype, site.y().dtype) == ("s8", "s8", "s8")


def is_any_s16(site: Site) -> bool:
    """int16 inputs and output"""
    return (site.x(0).dtype, site.x(1).dtype, site.y().dtype) == ("s16", "s16", "s16")


def is_s16(site: Site) -> bool:
    """int16 inputs and output, zero points 0"""
    return is_any_s16(site) and all(site.scale_zero(v)[1] == 0 for v in (site.x(0), site.x(1), site.y()))


def few_loops(site: Site) -> bool:
    """inputs whose repeated axes form at most 4 groups"""
    return len(loops(site.x(0).shape, site.x(1).shape)) <= LOOPS


def one_byte_input(site: Site) -> bool:
    """one 8-bit input and one constant that is a single number"""
    return is_s8(site) and moving_input(site) is not None


def moving_input(site: Site) -> int | None:
    """Which input is not the constant single number, if the other is one."""
    for k in (0, 1):
        if site.is_const(1 - k) and site.x(1 - k).elements == 1 and not site.is_const(k):
            return k
    return None


def pair_kernel(name: str, lower: Callable[[Site, Any], Call], integers: Condition, *when: Condition) -> Kernel:
    """A kernel in C for every pair of elements. integers: which types it takes."""
    return counted_kernel(name, lower, of_pairs, when=(integers, few_loops, *when), inplace=(0, 1))


def float_kernel(name: str, *when: Condition) -> Kernel:
    """tc_<name>_f32 for every pair of elements of float32 tensors."""

    def lower(site: Site, p: object) -> Call:
        act = getattr(site.attrs, "act", Act())
        return Call(arguments(site), Struct(f"tc_{name}_f32_t", {**loop_fields(site), **act_fields(act)}))

    return pair_kernel(f"tc_{name}_f32", lower, in_float32, *when)


class PreparedBinary(Protocol):
    """What `prepare` of add, sub and mul returns."""

    def run(self, x0: Array, x1: Array) -> Array:
        """int8 outputs of int8 inputs that broadcast."""


def lower_table(site: Site, p: PreparedBinary) -> Call:
    """tc_lut_s8: with one constant number the operator is a function of one byte."""
    index = moving_input(site)
    if index is None:
        raise TinycError(f"{site.node.op} of two tensors is no table", site.node.where)
    order = np.arange(256, dtype=np.uint8).view(np.int8)
    number = site.const(1 - index).reshape(())
    table = p.run(order, number) if index == 0 else p.run(number, order)
    lut = Const(table, "[256] by the input's unsigned byte", "lut")
    return Call((lut, In(index), Out(), site.y().elements))


NUMBER_KERNELS = table_kernels(lower_table, one_byte_input, (0, 1))
