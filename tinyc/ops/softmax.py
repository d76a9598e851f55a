# SPDX-License-Identifier: Apache-2.0
"""softmax over the last axis: y = exp(beta * x) / sum(exp(beta * x))."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tinyc.base import exact, fixedpoint
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import (
    quantize_multiplier,
    requantize,
    round_half_away,
    rounding_divide_by_pot,
    saturating_rounding_doubling_high_mul,
)
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, counted_kernel, of_last_axis
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
    In,
    Kernel,
    Out,
    Params,
    Struct,
    offered,
)
from tinyc.kernel.site import Site, Type, along_channels, s8_to_s8, s16_to_s16
from tinyc.kernels.float32 import pools
from tinyc.ops.batched import Batched, Gradients
from tinyc.ops.op import Fixed, Observed, Op, Trait
from tinyc.ops.softmax16 import KERNEL as WIDE_KERNEL
from tinyc.ops.softmax16 import WideSoftmax, prepare_wide
from tinyc.ops.tables import is_ours, need_scale

_TOLERANCE = 0.001  # of the output scale 1/256, as TensorFlow Lite has it
AT_OUTPUT = (1 / 255, -128)  # the whole of 1, which 1/256 cuts off at 255/256
_DIFF_BITS = 5  # integer bits of the scaled difference to the maximum
_SUM_BITS = 12  # integer bits of the sum of exponentials
_MANY_BYTES = 1024  # of a table of all exponentials
_MANY = 1024  # elements for which that is worth its flash
_FINEST_STEP = 22  # a share of 8 bits is rounded at e in Q0.31 by 2^22 or more
_MAX_DEPTH = 2**_SUM_BITS - 1  # that many exp(0) = 1 still fit the sum


@dataclass(frozen=True, slots=True)
class Softmax:
    """widened: of int8 the outputs are int16."""

    beta: float = 1.0
    widened: bool = False


def infer(a: Softmax, x: Value) -> Sequence[Type]:
    if not x.shape:
        raise TinycError(f"softmax takes a tensor with at least one axis, '{x.name}' is a scalar")
    return [Type(x.shape, "s16" if a.widened else x.dtype)]


def float_ref(a: Softmax, x: Array) -> tuple[Array, ...]:
    e = exact.exp((x - x.max(axis=-1, keepdims=True)) * np.float32(a.beta)).astype(np.float32)
    return ((e / e.sum(axis=-1, keepdims=True)).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class FixedSoftmax:
    """exps[d]: exp of the d-th step below the maximum, Q0.31. Beyond the table it counts as 0. bits: of the outputs.
    whole: 1 is 2^bits - 1 steps, not 2^bits."""

    exps: npt.NDArray[np.int32]
    bits: int = 8
    whole: bool = False

    def run(self, x: Array) -> Array:
        below = (x.max(axis=-1, keepdims=True).astype(np.int64) - x).astype(np.int64)
        exps = np.zeros(256, np.int64)
        exps[: len(self.exps)] = self.exps
        e = exps[below]
        total = rounding_divide_by_pot(e, _SUM_BITS).sum(axis=-1, keepdims=True)
        scale, bits = fixedpoint.reciprocal(total, _SUM_BITS)
        if self.whole:
            scale = scale - ((scale + (1 << (self.bits - 1))) >> self.bits)
        y = rounding_divide_by_pot(saturating_rounding_doubling_high_mul(scale, e), bits + 31 - self.bits)
        half = 1 << (self.bits - 1)
        return np.clip(y - half, -half, half - 1).astype(np.int8 if self.bits == 8 else np.int16)


@dataclass(frozen=True, slots=True)
class FloatSoftmax:
    """exps[d]: exp of the d-th step below the maximum, float32, 256 entries."""

    exps: npt.NDArray[np.float32]
    y_scale: np.float32
    y_zero: int

    def run(self, x: Array) -> Array:
        e = self.exps[x.max(axis=-1, keepdims=True).astype(np.int64) - x]
        total = np.add.accumulate(e, axis=-1, dtype=np.float32)[..., -1:]  # one after the other, as in C
        y = round_half_away(e * (np.float32(1) / (total * self.y_scale))) + self.y_zero
        return np.clip(y, -128, 127).astype(np.int8)


def prepare(site: Site) -> FixedSoftmax | FloatSoftmax | WideSoftmax:
    if s16_to_s16(site):
        return prepare_wide(site)
    scale, _ = site.scale_zero(site.x(0))
    bits = 16 if site.attrs.widened else 8
    if bits == 16 and not is_widened(site):
        raise TinycError("softmax from int8 to int16 is known for numerics tflm and single only", site.node.where)
    if is_float(site) and bits == 8:
        return _prepare_float(site, scale)
    whole = bits == 8 and is_ours(site.numerics, site.y(), AT_OUTPUT)
    if not whole:
        need_scale(site, 2.0**-bits, -(1 << (bits - 1)))
    if site.x(0).shape[-1] > _MAX_DEPTH:
        raise TinycError(f"softmax over {site.x(0).shape[-1]} elements; at most {_MAX_DEPTH}", site.node.where)
    return FixedSoftmax(fixed_exps(site.attrs.beta, scale, bits), bits, whole)


def fixed_exps(beta: float, scale: float, bits: int) -> npt.NDArray[np.int32]:
    """Table of FixedSoftmax, as TensorFlow Lite's softmax computes each difference; trailing no-ops cut."""
    factor = float(np.float32(beta)) * scale * 2.0 ** (31 - _DIFF_BITS)
    if factor <= 1:
        raise TinycError(f"softmax input scale {scale} times beta {beta} is too small for 5.26 fixed point")
    mult, shift = quantize_multiplier(min(factor, 2.0**31 - 1))
    largest = math.floor((2.0**_DIFF_BITS - 1) * 2.0 ** (31 - _DIFF_BITS) / 2.0**shift)  # more would overflow
    below = np.arange(min(largest, 255) + 1)
    scaled = requantize(-below, mult, shift, Rounding.DOUBLE)
    exps = fixedpoint.exp_on_negative_values(scaled, _DIFF_BITS)
    if bits > 8:
        return exps.astype(np.int32)
    # Below 2^11 an entry adds 0 to the sum and gives output 0, whatever the others are.
    return exps[: int(np.flatnonzero(exps >= 1 << (_SUM_BITS - 1))[-1]) + 1].astype(np.int32)


def _prepare_float(site: Site, scale: float) -> FloatSoftmax:
    y_scale, y_zero = site.scale_zero(site.y())
    step = -np.float32(scale) * np.float32(site.attrs.beta)
    exps = [math.exp(float(step * np.float32(below))) for below in range(256)]
    return FloatSoftmax(np.array(exps).astype(np.float32), np.float32(y_scale), y_zero)


def int_ref(p: FixedSoftmax | FloatSoftmax | WideSoftmax, x: Array) -> tuple[Array, ...]:
    return (p.run(x),)


def is_widened(site: Site) -> bool:
    """int8 input, int16 output, numerics tflm or single"""
    return (site.x(0).dtype, site.y().dtype) == ("s8", "s16") and not site.numerics.scales_in_float


def is_fixed(site: Site) -> bool:
    """numerics other than litert and onnx, output scale 1/256 and zero point -128"""
    return not is_float(site) and not is_whole(site)


def is_whole(site: Site) -> bool:
    """numerics single, output scale 1/255 and zero point -128"""
    return is_ours(site.numerics, site.y(), AT_OUTPUT)


def is_float(site: Site) -> bool:
    """numerics litert or onnx; with numerics single, an output scale other than 1/256 and 1/255 too"""
    if site.numerics is not Numerics.OURS:
        return site.numerics.scales_in_float
    scale, zero = site.scale_zero(site.y())
    return not is_whole(site) and (zero != -128 or abs(scale * 256 - 1) > _TOLERANCE)


def _sizes(site: Site) -> dict[str, int]:
    depth = site.x(0).shape[-1]
    return {"outer": site.x(0).elements // depth, "depth": depth}


def lower_fixed(site: Site, p: FixedSoftmax) -> Call:
    """tc_softmax_s8: fixed point."""
    fields: dict[str, int | float | str | Const] = {
        "exps": Const(p.exps, "[steps below the maximum] Q0.31", "exp"),
        "exp_count": len(p.exps),
        **_sizes(site),
    }
    return Call((Params(), In(0), Out()), Struct("tc_softmax_s8_t", fields))


def every_exp(p: FixedSoftmax) -> Const:
    """The table for every step below the maximum, which comes last: an element is its own place in it."""
    exps = np.zeros(256, np.int32)
    exps[256 - len(p.exps) :] = p.exps[::-1]
    return Const(exps, "[256] by 255 less the steps below the maximum, Q0.31", "exp")


def has_doubled(p: FixedSoftmax) -> bool:
    """Whether tc_attention_s8_dsp.h finds every share: where the reciprocal saturates, it adds 1/2 too much, which
    changes those of exponentials above 1/2 that are a multiple of the finest rounding step."""
    exps = p.exps.astype(np.int64)
    return not bool(((exps > 1 << 30) & (exps % (1 << _FINEST_STEP) == 0)).any())


def every_doubled_exp(p: FixedSoftmax) -> Const:
    """`every_exp`, each 2 * e - 2^31."""
    doubled = 2 * every_exp(p).data.astype(np.int64) - (1 << 31)
    return Const(doubled.astype(np.int32), "[256] by 255 less the steps below the maximum, 2 * e - 2^31", "exp")


def many_elements(site: Site) -> bool:
    """1,024 elements or more"""
    return site.x(0).elements >= _MANY


def lower_many(site: Site, p: FixedSoftmax) -> Call:
    """tc_softmax_many_s8: fixed point, a longer table."""
    return Call((Params(), In(0), Out()), Struct("tc_softmax_many_s8_t", {"exps": every_exp(p), **_sizes(site)}))


def _fixed_kernels(many: str, one: str, holds: Condition) -> Iterator[Kernel]:
    """Of many elements, with Helium and portable; of any number."""
    takes = (s8_to_s8, holds)
    for name, isa in ((f"{many}_mve", frozenset({"mve"})), (many, frozenset[str]())):
        cost = CountedCost(name, of_last_axis, _MANY_BYTES)
        yield Kernel(name, offered(lower_many, cost=cost), isa=isa, when=(*takes, many_elements), inplace=(0,))
    cost = CountedCost(one, of_last_axis, flash=lambda site, p: int(p.exps.nbytes))
    yield Kernel(one, offered(lower_fixed, cost=cost), when=takes, inplace=(0,))


def lower_float(site: Site, p: FloatSoftmax) -> Call:
    """tc_softmax_f32_s8: float32 inside."""
    fields: dict[str, int | float | str | Const] = {
        "exps": Const(p.exps, "[256] by steps below the maximum", "exp"),
        **_sizes(site),
        "y_scale": float(p.y_scale),
        "y_zero": p.y_zero,
    }
    return Call((Params(), In(0), Out()), Struct("tc_softmax_f32_s8_t", fields))


def backward(a: Softmax, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    inner = (dy * y).sum(axis=-1, keepdims=True)
    return (np.float32(a.beta) * y * (dy - inner),)


OP = Op(
    name="softmax",
    attrs=Softmax,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(Fixed(1 / 256, -128, at_output=AT_OUTPUT),),
    kernels=(
        *_fixed_kernels("tc_softmax_many_s8", "tc_softmax_s8", is_fixed),
        *_fixed_kernels("tc_softmax_many_whole_s8", "tc_softmax_whole_s8", is_whole),
        counted_kernel(
            "tc_softmax_f32_s8",
            lower_float,
            of_last_axis,
            when=(s8_to_s8, is_float),
            inplace=(0,),
        ),
        WIDE_KERNEL,
        counted_kernel("tc_softmax_s8_s16", lower_fixed, of_last_axis, when=(is_widened,)),
        pools.SOFTMAX,
    ),
    rowwise=along_channels,
    traits=frozenset({Trait.LAST_AXIS, Trait.ANY_SCALES, Trait.INT16, Trait.SHARES}),
    float32=Float32(pools.softmax_ref),
    batched=Batched(backward=backward),
)
