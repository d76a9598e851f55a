# SPDX-License-Identifier: Apache-2.0
"""extremum: the larger (or smaller) of two tensors with numpy broadcasting; all share one quantization."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Kernel, Struct
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.loops.expression import Element, Extreme
from tinyc.loops.lines import LoopLines
from tinyc.loops.written import LOOP_CORES, LoopCore, LoopFunction, loop_kernel
from tinyc.ops.binary import (
    arguments,
    broadcast_shape,
    few_loops,
    float_kernel,
    is_s8,
    lines_of,
    loop_fields,
    pair_kernel,
)
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait


@dataclass(frozen=True, slots=True)
class Extremum:
    largest: bool  # maximum; else minimum


def infer(a: Extremum, x0: Value, x1: Value) -> Sequence[Type]:
    return [Type(broadcast_shape(x0.shape, x1.shape), x0.dtype)]


def float_ref(a: Extremum, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (np.maximum(x0, x1) if a.largest else np.minimum(x0, x1),)


def exact_float(a: Extremum, x0: Array, x1: Array) -> tuple[Array, ...]:
    """As tc_max_f32 and tc_min_f32 compute it: the first where they are equal."""
    return (np.where(x1 > x0 if a.largest else x1 < x0, x1, x0),)


def is_maximum(site: Site) -> bool:
    """the larger of two"""
    return bool(site.attrs.largest)


def is_minimum(site: Site) -> bool:
    """the smaller of two"""
    return not site.attrs.largest


def prepare(site: Site) -> Extremum:
    need_one_quant(site)
    return Extremum(site.attrs.largest)


def lower(site: Site, p: Extremum) -> Call:
    """tc_extremum_s8: element by element."""
    return Call(arguments(site), Struct("tc_extremum_s8_t", {**loop_fields(site), "largest": int(p.largest)}))


def extreme_loop(core: str, largest: bool, root: Extreme, lines: LoopLines) -> LoopFunction:
    """The loop of a line. core: the ending of its name."""
    words = ("larger", "max") if largest else ("smaller", "min")
    name = f"tc_{words[1]}_s8_{core}{'_one' * lines.one}"
    x1 = "x1[0]" if lines.one else "x1[i]"
    says = f"y[i] = the {words[0]} of x0[i] and {x1}; y may be an input that does not repeat."
    return LoopFunction(name, says, root, "", (), lines)


def _loop(site: Site, p: Extremum, core: str) -> LoopFunction:
    lines, _ = lines_of(site)
    return extreme_loop(core, p.largest, Extreme(Element(0), Element(1, lines.one), p.largest), lines)


def lower_loop(site: Site, p: Extremum) -> Call:
    """The call of the loop."""
    _, x0, x1, y = arguments(site)
    lines, swaps = lines_of(site)
    return Call((lines.size, x1, x0, y) if swaps else (lines.size, x0, x1, y))


def _in_bytes(core: str, on: LoopCore) -> Kernel:
    return loop_kernel(
        f"tc_extremum_s8_{core}", on, lambda site, p: _loop(site, p, core), lower_loop, (is_s8, few_loops)
    )


OP = Op(
    name="extremum",
    attrs=Extremum,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(), SameAs(0)),
    quant_out=(SameAs(0),),
    kernels=(
        *(_in_bytes(ending, on) for ending, on in LOOP_CORES.items()),
        pair_kernel("tc_extremum_s8", lower, is_s8),
        float_kernel("max", is_maximum),
        float_kernel("min", is_minimum),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.BROADCASTS}),
    float32=Float32(exact_float),
)
