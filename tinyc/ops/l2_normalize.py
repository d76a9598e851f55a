# SPDX-License-Identifier: Apache-2.0
"""l2_normalize over the last axis: y = x / sqrt(sum(x^2)). Output scale 1/128, zero point 0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.fixedpoint import inverse_root
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import requantize
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel, of_last_axis
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, In, Out, Params, Struct
from tinyc.kernel.site import Site, Type, s8_to_s8
from tinyc.kernel.types import in_float32
from tinyc.ops.op import Fixed, Observed, Op, Trait
from tinyc.ops.tables import need_scale

_MAX_DEPTH = 2**15  # squares below 2^16 whose sum stays in int32
_BITS = 7  # of the fraction of the output


@dataclass(frozen=True, slots=True)
class L2Normalize:
    """epsilon: the least norm that x is divided by; so small that no integer tensor but zeros comes below."""

    epsilon: float = 1e-6


def infer(a: L2Normalize, x: Value) -> Sequence[Type]:
    if not x.shape:
        raise TinycError(f"l2_normalize takes a tensor with at least one axis, '{x.name}' is a scalar")
    return [Type(x.shape, x.dtype)]


def float_ref(a: L2Normalize, x: Array) -> tuple[Array, ...]:
    norm = np.sqrt(np.square(x).sum(axis=-1, keepdims=True))
    return ((x / np.maximum(norm, np.float32(a.epsilon))).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class Normalized:
    """y = clamp(requantize(x - x_zero, m, 7 - s)), m * 2^(-31 - s) the inverse root of the sum of squares."""

    x_zero: int

    def run(self, x: Array) -> Array:
        far = x.astype(np.int64) - self.x_zero
        rows = far.reshape(-1, x.shape[-1])
        y = np.empty_like(rows)
        for k, row in enumerate(rows):
            mult, down = inverse_root(int(np.square(row).sum()))
            y[k] = requantize(row, mult, _BITS - down, Rounding.DOUBLE)
        return np.clip(y, -128, 127).astype(np.int8).reshape(x.shape)


def exact_float(a: L2Normalize, x: Array) -> tuple[Array, ...]:
    """As tc_l2_normalize_f32 computes it: a chain of fused multiply-adds."""
    total = np.zeros(x.shape[:-1], np.float32)
    for k in range(x.shape[-1]):
        total = float32.fma(x[..., k], x[..., k], total)
    norm, least = float32.sqrt(total)[..., None], np.float32(a.epsilon)
    with np.errstate(all="ignore"):
        return (x / np.where(norm > least, norm, least),)


def lower_float(site: Site, p: L2Normalize) -> Call:
    """tc_l2_normalize_f32."""
    depth = site.x(0).shape[-1]
    fields: dict[str, int | float | str] = {"outer": site.x(0).elements // depth, "depth": depth, "epsilon": p.epsilon}
    return Call((Params(), In(0), Out()), Struct("tc_l2_normalize_f32_t", fields))


def prepare(site: Site) -> Normalized:
    if (site.x(0).dtype, site.y().dtype) != ("s8", "s8"):
        raise TinycError(f"l2_normalize of {site.x(0).dtype}: the integer operator takes int8", site.node.where)
    need_scale(site, 1 / 128, 0)
    if site.x(0).shape[-1] > _MAX_DEPTH:
        raise TinycError(f"l2_normalize over {site.x(0).shape[-1]} elements; at most {_MAX_DEPTH}", site.node.where)
    return Normalized(site.scale_zero(site.x(0))[1])


def int_ref(p: Normalized, x: Array) -> tuple[Array, ...]:
    return (p.run(x),)


def lower(site: Site, p: Normalized) -> Call:
    """tc_l2_normalize_s8: a sum of squares, its inverse root, a product per element."""
    depth = site.x(0).shape[-1]
    fields: dict[str, int | float | str] = {
        "outer": site.x(0).elements // depth,
        "depth": depth,
        "x_zero": p.x_zero,
    }
    return Call((Params(), In(0), Out()), Struct("tc_l2_normalize_s8_t", fields))


OP = Op(
    name="l2_normalize",
    attrs=L2Normalize,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(Fixed(1 / 128, 0),),
    kernels=(
        counted_kernel("tc_l2_normalize_s8", lower, of_last_axis, when=(s8_to_s8,), inplace=(0,)),
        counted_kernel("tc_l2_normalize_f32", lower_float, of_last_axis, when=(in_float32,), inplace=(0,)),
    ),
    traits=frozenset({Trait.LAST_AXIS}),
    float32=Float32(exact_float),
)
