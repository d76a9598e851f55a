# SPDX-License-Identifier: Apache-2.0
"""compare: x0 == x1, x0 < x1 and the like, element by element with numpy broadcasting; the output is bool."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, counted_kernel
from tinyc.kernel.kernel import Call, Kernel, Out, SpecializedKernel, Struct, offered
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.kernels import plain
from tinyc.ops.binary import arguments, broadcast_shape, few_loops, loop_fields, loops, of_pairs
from tinyc.ops.movement import tensor_argument
from tinyc.ops.op import Observed, Op, Trait, Unquantized
from tinyc.ops.signals import COUNT

_LEFT = 8  # bits that the centred inputs are shifted up before they are scaled

# The order is the code that the C kernel takes.
KINDS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        "equal": np.equal,
        "not_equal": np.not_equal,
        "less": np.less,
        "less_equal": np.less_equal,
        "greater": np.greater,
        "greater_equal": np.greater_equal,
    }
)
_SIGNS = dict(zip(KINDS, ("==", "!=", "<", "<=", ">", ">="), strict=True))


@dataclass(frozen=True, slots=True)
class Compare:
    """kind: a key of KINDS."""

    kind: str


def infer(a: Compare, x0: Value, x1: Value) -> Sequence[Type]:
    if a.kind not in KINDS:
        raise TinycError(f"comparison '{a.kind}' cannot be compiled")
    return [Type(broadcast_shape(x0.shape, x1.shape), "bool")]


def float_ref(a: Compare, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (np.asarray(KINDS[a.kind](x0, x1)),)


@dataclass(frozen=True, slots=True)
class Compared:
    """requantize((x0 - x0_zero) << 8, mult0, shift0) against the same of x1, as TensorFlow Lite Micro has it; there of
    the scales themselves, so that reals count in 1/256, else of the scales over the larger one."""

    kind: str
    x0_zero: int
    x1_zero: int
    mult0: int
    shift0: int
    mult1: int
    shift1: int

    def run(self, x0: Array, x1: Array) -> Array:
        left = requantize((x0.astype(np.int64) - self.x0_zero) << _LEFT, self.mult0, self.shift0, Rounding.DOUBLE)
        right = requantize((x1.astype(np.int64) - self.x1_zero) << _LEFT, self.mult1, self.shift1, Rounding.DOUBLE)
        return np.asarray(KINDS[self.kind](left, right))


@dataclass(frozen=True, slots=True)
class Plain:
    """Numbers of one type and one meaning are compared as they are."""

    kind: str

    def run(self, x0: Array, x1: Array) -> Array:
        return np.asarray(KINDS[self.kind](x0, x1))


def prepare(site: Site) -> Compared | Plain:
    """TinycError unless both inputs are int8, or int16, or mean the same as they lie there, or where a scale is too
    large for 8 more bits in int32."""
    if is_plain(site):
        return Plain(site.attrs.kind)
    if not is_s8(site) and not is_s16(site):
        raise TinycError(
            f"compare of {site.x(0).dtype} and {site.x(1).dtype}: the integer operator takes two int8, or two int16",
            site.node.where,
        )
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    one = 1.0 if site.numerics in (Numerics.TFLM, Numerics.LITERT) else max(scale0, scale1)
    if max(scale0, scale1) / one >= 2.0 ** (14 if is_s8(site) else 6):
        raise TinycError(f"compare of scales {scale0:g} and {scale1:g} cannot be compiled", site.node.where)
    (mult0, shift0), (mult1, shift1) = quantize_multiplier(scale0 / one), quantize_multiplier(scale1 / one)
    return Compared(site.attrs.kind, zero0, zero1, mult0, shift0, mult1, shift1)


def int_ref(p: Compared | Plain, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (p.run(x0, x1),)


def is_plain(site: Site) -> bool:
    """numbers of one type that are compared as they are"""
    x0, x1 = site.x(0), site.x(1)
    counts = all(x.quant is None or x.quant == COUNT for x in (x0, x1))
    return counts and x0.dtype == x1.dtype and x0.dtype in plain.CTYPES


def is_s8(site: Site) -> bool:
    """quantized int8 inputs"""
    return (site.x(0).dtype, site.x(1).dtype) == ("s8", "s8") and not is_plain(site)


def is_s16(site: Site) -> bool:
    """quantized int16 inputs"""
    return (site.x(0).dtype, site.x(1).dtype) == ("s16", "s16") and not is_plain(site)


def is_whole(site: Site) -> bool:
    """integers or truth values of one type, not quantized"""
    return is_plain(site) and site.x(0).dtype != "f32"


def any_loops(site: Site) -> bool:
    """inputs whose repeated axes form at most 6 groups"""
    return len(loops(site.x(0).shape, site.x(1).shape)) <= plain.LOOPS


def specialize(site: Site, p: Plain) -> SpecializedKernel:
    """The function of a layer of plain numbers."""
    nested = [(loop.size, loop.step0, loop.step1) for loop in loops(site.x(0).shape, site.x(1).shape)]
    types = (site.x(0).dtype, site.x(1).dtype, site.y().dtype)
    return plain.pairwise(f"tc_compare_{p.kind}", f"{p.kind} of {types[0]}", types, nested, f"p {_SIGNS[p.kind]} q")


def lower_plain(site: Site, p: Plain) -> Call:
    """The function written for the layer."""
    return Call((tensor_argument(site, 0), tensor_argument(site, 1), Out()))


def is_f32(site: Site) -> bool:
    """float32 inputs"""
    return (site.x(0).dtype, site.x(1).dtype) == ("f32", "f32")


def lower_float(site: Site, p: Plain) -> Call:
    """tc_compare_f32: element by element."""
    fields = {**loop_fields(site), "kind": list(KINDS).index(p.kind)}
    return Call(arguments(site), Struct("tc_compare_f32_t", fields))


def lower(site: Site, p: Compared) -> Call:
    """tc_compare_s8 and tc_compare_s16: element by element."""
    names = ("x0_zero", "x1_zero", "mult0", "shift0", "mult1", "shift1")
    fields = {**loop_fields(site), "kind": list(KINDS).index(p.kind), **{name: getattr(p, name) for name in names}}
    return Call(arguments(site), Struct(f"tc_compare_{site.x(0).dtype}_t", fields))


OP = Op(
    name="compare",
    attrs=Compare,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Unquantized(own=True),),
    kernels=(
        counted_kernel(
            "tc_compare_s8",
            lower,
            of_pairs,
            when=(is_s8, few_loops),
            inplace=(0, 1),
        ),
        counted_kernel("tc_compare_s16", lower, of_pairs, when=(is_s16, few_loops)),
        counted_kernel("tc_compare_f32", lower_float, of_pairs, when=(is_f32, few_loops)),
        Kernel(
            "tc_compare_plain",
            offered(lower_plain, cost=CountedCost("tc_compare_plain", of_pairs), specialize=specialize),
            when=(is_whole, any_loops),
            written=True,
        ),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.BROADCASTS, Trait.INT16, Trait.ANY_TYPE}),
)
