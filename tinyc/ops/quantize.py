# SPDX-License-Identifier: Apache-2.0
"""quantize: float32 -> integers, y = clamp(round(x / scale) + zero)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import round_half_away
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Graph, Value
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.loops.expression import Element, Nearest, Number, Real, Saturate, Scaled
from tinyc.loops.lines import LoopLines
from tinyc.loops.written import HELIUM_FLOAT, LoopFunction, loop_kernel
from tinyc.ops.op import Op, Trait, Unquantized


@dataclass(frozen=True, slots=True)
class Quantize:
    """How tables that are made of it round, as QuantizeParams has it. (Nodes round as the numerics say.)

    after_float: what has no weights is computed in float before it, as in the file.
    """

    dtype: DType = "s8"  # of the output
    half_even: bool = False
    by_inverse: bool = False
    after_float: bool = False


def infer(a: Quantize, x: Value) -> Sequence[Type]:
    return [Type(x.shape, a.dtype)]


def float_ref(a: Quantize, x: Array) -> tuple[Array, ...]:
    return (x,)


@dataclass(frozen=True, slots=True)
class QuantizeParams:
    """half_even: round halves to even, else away from zero. by_inverse: multiply by 1/scale, else divide.

    LiteRT does both, ONNX Runtime the first, TensorFlow Lite's reference neither.
    """

    scale: np.float32
    zero: int
    dtype: DType
    half_even: bool
    by_inverse: bool


def prepare(site: Site) -> QuantizeParams:
    """The params that make the node's output of float32."""
    scale, zero = site.scale_zero(site.y())
    is_litert = site.numerics is Numerics.LITERT
    return QuantizeParams(np.float32(scale), zero, site.y().dtype, site.numerics.scales_in_float, is_litert)


def int_ref(p: QuantizeParams, x: Array) -> tuple[Array, ...]:
    lo, hi = INT_RANGE[p.dtype]
    with np.errstate(over="ignore"):  # too large is infinite, and saturates
        real = x * (np.float32(1) / p.scale) if p.by_inverse else x / p.scale
    # NaN compares false with everything, so it ends at the lower bound, as in C.
    bounded = np.where(real > lo - p.zero, np.minimum(real, np.float32(hi - p.zero)), np.float32(lo - p.zero))
    steps = np.rint(bounded) if p.half_even else round_half_away(bounded)
    return ((steps.astype(np.int64) + p.zero).astype(NUMPY_DTYPE[p.dtype]),)


def as_litert(graph: Graph) -> Graph:
    """The graph of a TFLite file, with what stands between its dequantizations and quantizations in float, and tables
    of it rounded, as desktop LiteRT does."""
    own = {"half_even": True, "by_inverse": True, "after_float": True}
    nodes = (replace(node, attrs=replace(node.attrs, **own)) if node.op == "quantize" else node for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def is_f32_to_s8(site: Site) -> bool:
    """float32 input, int8 output"""
    return (site.x(0).dtype, site.y().dtype) == ("f32", "s8")


def lower_quantize(site: Site, p: QuantizeParams) -> Call:
    """tc_quantize_f32_s8 and tc_quantize_f32_s16."""
    fields: dict[str, int | float | str] = {
        "n": site.x(0).elements,
        "scale": float(np.float32(1) / p.scale if p.by_inverse else p.scale),
        "zero": p.zero,
        "half_even": int(p.half_even),
        "by_inverse": int(p.by_inverse),
    }
    return Call((Params(), In(0), Out()), Struct(f"tc_quantize_f32_{site.y().dtype}_t", fields))


def is_f32_to_s16(site: Site) -> bool:
    """float32 input, int16 output"""
    return (site.x(0).dtype, site.y().dtype) == ("f32", "s16")


def is_by_inverse(site: Site) -> bool:
    """float32 input, int8 output, numerics that multiply by the inverse of a scale above 2^-100"""
    return is_f32_to_s8(site) and site.numerics is Numerics.LITERT and bool(prepare(site).scale > 2.0**-100)


def _loop(site: Site, p: QuantizeParams) -> LoopFunction:
    inverse, lo = Real(float(np.float32(1) / p.scale)), float(INT_RANGE[p.dtype][0] - p.zero)
    root = Saturate(Nearest(Scaled(Element(0, ctype="float"), inverse), Real(lo)), 0, Number(p.zero))
    says = f"y[i] = saturate(round(x0[i] / scale) + {p.zero}), halves to even; y may not overlap x0."
    return LoopFunction("tc_quantize_f32_s8_mve", says, root, "", (), LoopLines((), site.x(0).elements))


def lower_loop(site: Site, p: QuantizeParams) -> Call:
    """The call of the loop."""
    return Call((site.x(0).elements, In(0), Out()))


OP = Op(
    name="quantize",
    attrs=Quantize,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        loop_kernel("tc_quantize_f32_s8_mve", HELIUM_FLOAT, _loop, lower_loop, (is_by_inverse,), inplace=()),
        counted_kernel(
            "tc_quantize_f32_s8",
            lower_quantize,
            of_elements,
            when=(is_f32_to_s8,),
        ),
        counted_kernel(
            "tc_quantize_f32_s16",
            lower_quantize,
            of_elements,
            when=(is_f32_to_s16,),
        ),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE, Trait.ANY_TYPE}),
)
