# SPDX-License-Identifier: Apache-2.0
"""axes_scale: samples of several axes, scaled to a model's integers.

x int16 [n], factor int32 [A], offset int32 [A] -> int8 or int16 [n], where sample i is of axis i mod A.

    q = factor * x + offset * 2^(bits - 12),  y = clamp(q / 2^bits, least, most)

rounded to nearest, halves up, or with `cuts` towards zero as a cast in C does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.counted import CountedCost, of_elements
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, need_between, need_length, no_reals

OFFSET_BITS = 12  # of an offset behind the point
MOST_SHIFT = 42  # so that an offset stays within 61 bits

Reals = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AxesScale:
    bits: int
    least: int = -128
    most: int = 127
    cuts: bool = False
    dtype: DType = "s8"  # of the output


def infer(a: AxesScale, x: Value, factor: Value, offset: Value) -> Sequence[Type]:
    need(x, "the input", "s16")
    need(factor, "the factors", "s32")
    need(offset, "the offsets", "s32")
    if a.dtype not in ("s8", "s16"):
        raise TinycError(f"samples are scaled to int8 or int16, not to {a.dtype}")
    low, high = INT_RANGE[a.dtype]
    need_between("the number of bits", a.bits, OFFSET_BITS, MOST_SHIFT)
    need_between("the least result", a.least, low, a.most)
    need_between("the largest result", a.most, a.least, high)
    if len(x.shape) != 1 or len(factor.shape) != 1 or x.elements % max(factor.elements, 1):
        raise TinycError(f"factors {list(factor.shape)} of samples {list(x.shape)}: one for each axis")
    need_length(offset, "the offsets", factor.elements)
    return [Type(x.shape, a.dtype)]


@dataclass(frozen=True, slots=True)
class AxesParams:
    """What the operator is told, and its constants."""

    of: AxesScale
    factor: Array
    offset: Array


def prepare(site: Site) -> AxesParams:
    """TinycError for factors or offsets that are computed."""
    if not site.is_const(1) or not site.is_const(2):
        raise TinycError("factors and offsets have to be constants", site.node.where)
    return AxesParams(site.attrs, site.const(1), site.const(2))


def scaled(a: AxesScale, x: Array, factor: Array, offset: Array) -> Array:
    """int16 [.., A] -> int8 or int16 [.., A]."""
    q = x.astype(np.int64) * factor + (offset.astype(np.int64) << (a.bits - OFFSET_BITS))
    whole = np.sign(q) * (np.abs(q) >> a.bits) if a.cuts else (q + (1 << (a.bits - 1))) >> a.bits
    return np.clip(whole, a.least, a.most).astype(NUMPY_DTYPE[a.dtype])


def int_ref(p: AxesParams, x: Array, factor: Array, offset: Array) -> tuple[Array, ...]:
    return (scaled(p.of, x.reshape(-1, factor.size), factor, offset).reshape(-1),)


def fixed_point(factor: Reals, offset: Reals) -> tuple[int, Array, Array]:
    """(bits, factors int32, offsets int32) of y = factor * x + offset, as the operator has them. TinycError where the
    numbers leave their bits."""
    bits = min(30 - math.ceil(math.log2(np.abs(factor).max())), MOST_SHIFT)
    if bits < OFFSET_BITS or np.abs(offset).max() >= 1 << (31 - OFFSET_BITS):
        raise TinycError("samples times these factors leave the integers that they are computed in")
    return bits, np.round(factor * 2.0**bits).astype(np.int32), np.round(offset * (1 << OFFSET_BITS)).astype(np.int32)


def lower(site: Site, p: AxesParams) -> Call:
    """tc_axes_scale_s8, _s16."""
    fields: dict[str, int | float | str | Const] = {
        "factor": Const(p.factor, "[axes]", "factor"),
        "offset": Const(p.offset, "[axes]", "offset"),
        "n": site.x(0).elements,
        "axes": p.factor.size,
        "bits": p.of.bits,
        "least": p.of.least,
        "most": p.of.most,
        "cuts": int(p.of.cuts),
    }
    return Call((Params(), In(0), Out()), Struct(f"tc_axes_scale_{p.of.dtype}_t", fields))


def is_byte(site: Site) -> bool:
    """int8"""
    return site.attrs.dtype == "s8"


def is_wide(site: Site) -> bool:
    """int16"""
    return site.attrs.dtype == "s16"


def table_bytes(site: Site, p: AxesParams) -> int:
    return 8 * p.factor.size


OP = Op(
    name="axes_scale",
    attrs=AxesScale,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(own=True),),
    kernels=(
        *(
            Kernel(name, offered(lower, cost=CountedCost(name, of_elements, flash=table_bytes)), when=(has_type,))
            for name, has_type in (("tc_axes_scale_s8", is_byte), ("tc_axes_scale_s16", is_wide))
        ),
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
