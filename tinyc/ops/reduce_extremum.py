# SPDX-License-Identifier: Apache-2.0
"""reduce_extremum: the largest (or smallest) element over `axes`, which are dropped or kept with size 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array
from tinyc.kernel.counted import counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, Params, SpecializedKernel, Struct, offered
from tinyc.kernel.site import Site, s8_to_s8
from tinyc.kernels.float32 import pools
from tinyc.loops.expression import Element, Extreme
from tinyc.loops.lines import LoopLines
from tinyc.loops.written import LOOP_CORES, LoopCore, LoopFunction
from tinyc.ops.extremum import extreme_loop
from tinyc.ops.mean import adjacent, float_kernel, of_lines, over_channels, split
from tinyc.ops.movement import need_one_quant
from tinyc.ops.op import Observed, Op, SameAs, Trait
from tinyc.ops.reductions import Reduction, infer, reduced_axes

_COPY = 5  # instructions around a copy


@dataclass(frozen=True, slots=True)
class ReduceExtremum(Reduction):
    """The axes; keep_dims: they stay, with size 1. largest: the maximum, else the minimum."""

    largest: bool = True


def float_ref(a: ReduceExtremum, x: Array) -> tuple[Array, ...]:
    axes = reduced_axes(a, x.ndim)
    return (np.asarray(x.max(axes, keepdims=a.keep_dims) if a.largest else x.min(axes, keepdims=a.keep_dims)),)


def exact_float(a: ReduceExtremum, x: Array) -> tuple[Array, ...]:
    """As tc_reduce_max_f32 and tc_reduce_min_f32 compute it: the first that no other exceeds."""
    outer, n, inner = split(a, x.shape) or (0, 0, 0)
    axes = reduced_axes(a, x.ndim)
    extremes = pools.running_max(x.reshape(outer, n, inner), 1, 1 if a.largest else -1)
    y = extremes.reshape(tuple(1 if i in axes else size for i, size in enumerate(x.shape)))
    return (y if a.keep_dims else y.squeeze(axes),)


def is_maximum(site: Site) -> bool:
    """the larger of two"""
    return bool(site.attrs.largest)


def is_minimum(site: Site) -> bool:
    """the smaller of two"""
    return not site.attrs.largest


def prepare(site: Site) -> ReduceExtremum:
    need_one_quant(site)
    attrs = site.attrs
    if not isinstance(attrs, ReduceExtremum):
        raise TinycError(f"reduce_extremum with attributes {attrs!r} cannot be compiled", site.node.where)
    return attrs


def lower(site: Site, p: ReduceExtremum) -> Call:
    """tc_reduce_extremum_s8: the whole tensor."""
    parts = split(p, site.x().shape)
    assert parts is not None  # `adjacent` is a condition of the kernel
    fields: dict[str, int] = {"outer": parts[0], "n": parts[1], "inner": parts[2], "largest": int(p.largest)}
    return Call((Params(), In(0), Out()), Struct("tc_reduce_extremum_s8_t", fields))


def has_lines(site: Site) -> bool:
    """an axis behind those that are reduced"""
    parts = split(site.attrs, site.x().shape)
    return parts is not None and parts[1] > 1 and parts[2] > 1


def _in_lines(core: str, on: LoopCore) -> Kernel:
    """The kernel that keeps the extremes of a line in the output, and goes over it line by line."""

    def loop(site: Site, p: ReduceExtremum) -> tuple[LoopFunction, tuple[int, int, int]]:
        parts = split(p, site.x().shape)
        assert parts is not None  # `has_lines` has asked
        outer, n, inner = parts
        root = Extreme(Element(0), Element(1), p.largest)
        lines = LoopLines(((outer * (n - 1), 0, 0),), inner)
        return extreme_loop(core, p.largest, root, lines), parts

    def special(site: Site, p: ReduceExtremum) -> SpecializedKernel:
        function, (outer, n, inner) = loop(site, p)
        line = function.line(on, site.core)
        name = f"tc_reduce_{line.name.removeprefix('tc_')}_of_{outer}x{n}x{inner}"
        text = f"""/* x [{outer}][{n}][{inner}] -> y [{outer}][{inner}], which may not overlap x. */
static void {name}(int32_t n, const int8_t *x, int8_t *y)
{{
    for (int32_t o = 0; o < {outer}; o++) {{
        tc_copy(y, x, {inner});
        for (int32_t k = 1; k < {n}; k++) {{
            {line.name}(n, y, x + {inner} * k, y);
        }}
        x += {n * inner};
        y += {inner};
    }}
}}"""
        return SpecializedKernel(name, text, (*line.includes, "tc_copy.h"), (*line.parts, line))

    def call(site: Site, p: ReduceExtremum) -> Call:
        _, (_, _, inner) = loop(site, p)
        return Call((inner, In(0), Out()))

    def cost_of(site: Site, p: ReduceExtremum) -> Cost:
        function, (outer, _, inner) = loop(site, p)
        whole = function.cost(on, site.core)
        copies = outer * (_COPY + inner // 3)
        return replace(whole, instructions=whole.instructions + copies, cycles=whole.cycles + 2 * copies)

    offering = offered(call, cost=cost_of, specialize=special)
    name = f"tc_reduce_extremum_s8_{core}"
    return Kernel(name, offering, isa=on.isa, when=(s8_to_s8, adjacent, has_lines), written=True)


OP = Op(
    name="reduce_extremum",
    attrs=ReduceExtremum,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(
        *(_in_lines(ending, on) for ending, on in LOOP_CORES.items()),
        counted_kernel("tc_reduce_extremum_s8", lower, of_lines, when=(s8_to_s8, adjacent)),
        float_kernel("reduce_max", is_maximum),
        float_kernel("reduce_min", is_minimum),
    ),
    rowwise=over_channels,
    traits=frozenset({Trait.REDUCES, Trait.SELECTS}),
    float32=Float32(exact_float),
)
