# SPDX-License-Identifier: Apache-2.0
"""dequantize: integers -> float32, y = scale * (x - zero)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel, of_elements
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.kernels.plain import CTYPES
from tinyc.loops.expression import Element, Node, Number, Plus, Real, Scaled
from tinyc.loops.lines import LoopLines
from tinyc.loops.written import HELIUM_FLOAT, LoopFunction, loop_kernel
from tinyc.ops.op import Op, Trait, Unquantized


@dataclass(frozen=True, slots=True)
class Dequantize:
    """No attributes."""


def infer(a: Dequantize, x: Value) -> Sequence[Type]:
    return [Type(x.shape, "f32")]


def float_ref(a: Dequantize, x: Array) -> tuple[Array, ...]:
    return (np.asarray(x, np.float32),)


@dataclass(frozen=True, slots=True)
class DequantizeParams:
    scale: np.float32
    zero: int


def prepare(site: Site) -> DequantizeParams:
    scale, zero = site.scale_zero(site.x(0))
    return DequantizeParams(np.float32(scale), zero)


def int_ref(p: DequantizeParams, x: Array) -> tuple[Array, ...]:
    return (p.scale * (x.astype(np.int64) - p.zero).astype(np.float32),)


def is_s8_to_f32(site: Site) -> bool:
    """int8 input, float32 output"""
    return (site.x(0).dtype, site.y().dtype) == ("s8", "f32")


def lower_dequantize(site: Site, p: DequantizeParams) -> Call:
    """tc_dequantize_s8_f32, tc_dequantize_s16_f32 and tc_dequantize_s32_f32."""
    fields: dict[str, int | float | str] = {"n": site.x(0).elements, "scale": float(p.scale), "zero": p.zero}
    return Call((Params(), In(0), Out()), Struct(f"tc_dequantize_{site.x(0).dtype}_f32_t", fields))


def is_s16_to_f32(site: Site) -> bool:
    """int16 input, float32 output"""
    return (site.x(0).dtype, site.y().dtype) == ("s16", "f32")


def is_s32_to_f32(site: Site) -> bool:
    """int32 input, float32 output"""
    return (site.x(0).dtype, site.y().dtype) == ("s32", "f32")


def is_normal(site: Site) -> bool:
    """int8, int16 or int32 input, float32 output; a scale that is no subnormal number"""
    return site.x(0).dtype in ("s8", "s16", "s32") and bool(prepare(site).scale >= np.finfo(np.float32).tiny)


def _loop(site: Site, p: DequantizeParams) -> LoopFunction:
    x: Node = Element(0, ctype=CTYPES[site.x(0).dtype])
    root = Scaled(Plus(x, Number(-p.zero)) if p.zero else x, Real(float(p.scale)))
    says = f"y[i] = scale * (x0[i] - {p.zero}), {site.x(0).dtype} to float32; y may not overlap x0."
    return LoopFunction("tc_dequantize_f32_mve", says, root, "", (), LoopLines((), site.x(0).elements))


def lower_loop(site: Site, p: DequantizeParams) -> Call:
    """The call of the loop."""
    return Call((site.x(0).elements, In(0), Out()))


OP = Op(
    name="dequantize",
    attrs=Dequantize,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        loop_kernel("tc_dequantize_f32_mve", HELIUM_FLOAT, _loop, lower_loop, (is_normal,), inplace=()),
        counted_kernel(
            "tc_dequantize_s8_f32",
            lower_dequantize,
            of_elements,
            when=(is_s8_to_f32,),
        ),
        counted_kernel(
            "tc_dequantize_s16_f32",
            lower_dequantize,
            of_elements,
            when=(is_s16_to_f32,),
        ),
        counted_kernel(
            "tc_dequantize_s32_f32",
            lower_dequantize,
            of_elements,
            when=(is_s32_to_f32,),
        ),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ANY_TYPE}),  # elementwise, but what moves bytes belongs before it: then it moves a quarter
)
