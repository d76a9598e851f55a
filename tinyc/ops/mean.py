# SPDX-License-Identifier: Apache-2.0
"""mean: average of x over `axes`, which are dropped from the shape or kept with size 1."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.float32 import Floats
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import float_factor, quantize_multiplier, requantize
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.counted import CountedCost, Units, counted
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import (
    Call,
    Condition,
    Const,
    Cost,
    In,
    Kernel,
    Out,
    Params,
    RowForm,
    SpecializedKernel,
    Struct,
    offered,
)
from tinyc.kernel.site import Site, s8_to_s8, s16_to_s16
from tinyc.kernel.types import in_float32
from tinyc.kernels import pool
from tinyc.kernels.float32 import pools
from tinyc.kernels.mve import pool as mve_pool
from tinyc.kernels.rows import sums as row_sums
from tinyc.kernels.rows.pool import global_pool_rows
from tinyc.ops.batched import Batched, Gradients
from tinyc.ops.op import Channels, Observed, Op, Trait, same_channels
from tinyc.ops.reductions import Reduction, infer, reduced_axes


@dataclass(frozen=True, slots=True)
class Mean(Reduction):
    """The axes; keep_dims: they stay, with size 1."""


@dataclass(frozen=True, slots=True)
class MeanParams:
    """Integers of y = clamp(requantize(sum(x) - n * x_zero, mult, shift) + y_zero); 1/n is in the multiplier.

    mult may lie below 2^30 (but not below 2^29): TensorFlow Lite divides the multiplier of the scales by n
    as an integer, with floor(log2(n)) bits of headroom. Rounding.FLOAT: the factor is a float32.
    offset: as XNNPACK has it, y = clamp(round(sum(x) * factor + offset)) in float32; both zeros are in it.
    """

    attrs: Reduction
    n: int
    mult: int
    shift: int
    x_zero: int
    y_zero: int
    rounding: Rounding
    offset: np.float32 | None = None


def float_ref(a: Mean, x: Array) -> tuple[Array, ...]:
    return (x.mean(axis=reduced_axes(a, x.ndim), keepdims=a.keep_dims, dtype=np.float32),)


def prepare(site: Site) -> MeanParams:
    """Raises TinycError if the sum could leave int32."""
    x, y = site.x(), site.y()
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(x), site.scale_zero(y)
    n = math.prod(x.shape[axis] for axis in reduced_axes(site.attrs, len(x.shape)))
    if n << (16 if x.dtype == "s16" else 8) >= 2**31:
        raise TinycError(f"mean over {n} elements can overflow its int32 sum", site.node.where)
    if site.numerics.scales_in_float and not is_own_s16(site):
        return in_float(site, n, np.float32(n))
    mult, shift = quantize_multiplier(x_scale / y_scale)
    spare = min(n.bit_length() - 1, 32, 31 + shift)
    rounding = site.builtin_rounding if is_own_s16(site) else site.rounding
    return MeanParams(site.attrs, n, (mult << spare) // n, shift - spare, x_zero, y_zero, rounding)


def in_float(site: Site, n: int, divisor: np.float32) -> MeanParams:
    """The integers of the sum of n elements over the divisor, with a float32 as the factor."""
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(site.x()), site.scale_zero(site.y())
    scales = np.float32(x_scale) / np.float32(y_scale)
    is_litert = site.numerics is Numerics.LITERT
    mult, shift = quantize_multiplier(float(scales * (1 / divisor) if is_litert else scales / divisor))
    offset = np.float32(y_zero) - np.float32(n * x_zero) * float_factor(mult, shift)
    return MeanParams(
        site.attrs, n, mult, shift, x_zero, y_zero, Rounding.FLOAT, np.float32(offset) if is_litert else None
    )


def is_own_s16(site: Site) -> bool:
    """int16 in desktop LiteRT, which does not hand it to XNNPACK"""
    return site.numerics is Numerics.LITERT and site.x().dtype == "s16"


def int_ref(p: MeanParams, x: Array) -> tuple[Array, ...]:
    total = x.sum(axis=reduced_axes(p.attrs, x.ndim), keepdims=p.attrs.keep_dims, dtype=np.int64)
    if p.offset is not None:
        y = np.rint(total.astype(np.float32) * float_factor(p.mult, p.shift) + p.offset)
    else:
        y = requantize(total - p.n * p.x_zero, p.mult, p.shift, p.rounding) + p.y_zero
    limits = np.iinfo(x.dtype)
    return (np.clip(y, limits.min, limits.max).astype(x.dtype),)


def adjacent(site: Site) -> bool:
    """neighbouring axes (those of size 1 aside)"""
    return split(site.attrs, site.x().shape) is not None


def split(a: Reduction, shape: Shape) -> tuple[int, int, int] | None:
    """The tensor as [outer][n][inner] with the mean over n; None if the axes are not neighbours."""
    axes = [axis for axis in reduced_axes(a, len(shape)) if shape[axis] != 1]
    if not axes:
        return math.prod(shape), 1, 1
    first, end = axes[0], axes[-1] + 1
    if any(shape[axis] != 1 and axis not in axes for axis in range(first, end)):
        return None
    return math.prod(shape[:first]), math.prod(shape[first:end]), math.prod(shape[end:])


def over_channels(site: Site) -> bool:
    """`Op.rowwise`: of the channels of each pixel of an image that stays one."""
    return len(site.x().shape) == len(site.y().shape) == 4 and reduced_axes(site.attrs, 4) == (3,)


def lower(site: Site, p: MeanParams) -> Call:
    """tc_mean_s8: the whole tensor."""
    parts = split(p.attrs, site.x().shape)
    assert parts is not None  # `adjacent` is a condition of the kernel
    fields: dict[str, int] = {
        "outer": parts[0],
        "n": parts[1],
        "inner": parts[2],
        "x_zero": p.x_zero if p.offset is None else 0,
        "mult": _factor(p)[0],
        "shift": _factor(p)[1],
        "y_zero": p.y_zero if p.offset is None else int(p.offset.view(np.int32)),
        "rounds": p.rounding.code,
        "zero_first": int(p.offset is not None),
    }
    return Call((Params(), In(0), Out()), Struct("tc_mean_s16_t" if s16_to_s16(site) else "tc_mean_s8_t", fields))


def _factor(p: MeanParams) -> tuple[int, int]:
    """mult and shift as tc_requantize takes them."""
    if p.rounding is Rounding.FLOAT:
        return int(float_factor(p.mult, p.shift).view(np.int32)), 0
    return p.mult, p.shift


def of_lines(site: Site, p: object) -> Units:
    """Elements that are taken together, those that are made, and the runs in which they lie."""
    outer, n, _ = split(site.attrs, site.x().shape) or (1, 1, 1)
    return {"taken": site.x().elements, "element": site.y().elements, "line": outer * n}


def by_rows(site: Site, p: MeanParams) -> tuple[RowForm, ...]:
    """tc_mean_rows_s8 and tc_mean_rows_s16: one input row per call."""
    if p.offset is not None:
        return ()
    mult, shift = _factor(p)
    fields: dict[str, int | float | str | Const] = {
        "x_zero": p.x_zero,
        "mult": mult,
        "shift": shift,
        "y_zero": p.y_zero,
        "rounds": p.rounding.code,
    }
    return row_sums.mean_rows(site, fields, CountedCost(f"tc_mean_{site.x().dtype}", of_lines)(site, p))


def over_pixels(site: Site) -> bool:
    """a mean over at most 255 places that come before all others in memory, rounded before y_zero is added"""
    parts = split(site.attrs, site.x().shape)
    is_litert = site.numerics is Numerics.LITERT
    return parts is not None and parts[0] == 1 and pool.sums_fit(parts[1]) and not is_litert


def float_kernel(name: str, *when: Condition) -> Kernel:
    """tc_<name>_f32 along neighbouring axes."""

    def lower(site: Site, p: Reduction) -> Call:
        parts = split(site.attrs, site.x().shape)
        assert parts is not None  # `adjacent` is a condition of the kernel
        fields: dict[str, int | float | str] = {
            "outer": parts[0],
            "n": parts[1],
            "inner": parts[2],
            "count": float(parts[1]),
        }
        return Call((Params(), In(0), Out()), Struct(f"tc_{name}_f32_t", fields))

    def rows(site: Site, p: Reduction) -> tuple[RowForm, ...]:
        parts = split(site.attrs, site.x().shape)
        assert parts is not None
        counts = {"mean": float(parts[1]), "sum": 1.0}
        return row_sums.mean_rows(site, {"count": counts[name]}, cost(site, p)) if name in counts else ()

    kernel = f"tc_{name}_f32"
    cost = CountedCost(kernel, of_lines)
    offer = offered(lower, cost=cost, row_forms=rows)
    return Kernel(kernel, offer, when=(in_float32, adjacent, *when))


def float_sum(a: Reduction, x: Array) -> Floats:
    """0 + the first element + the second ..., in their order in memory, over neighbouring axes."""
    outer, n, inner = split(a, x.shape) or (0, 0, 0)
    shape = tuple(1 if i in reduced_axes(a, x.ndim) else size for i, size in enumerate(x.shape))
    total = pools.running_sum(x.reshape(outer, n, inner), 1).reshape(shape)
    return total if a.keep_dims else total.squeeze(reduced_axes(a, x.ndim))


def exact_float(a: Mean, x: Array) -> tuple[Array, ...]:
    """As tc_mean_f32 computes it."""
    n = math.prod(x.shape[axis] for axis in reduced_axes(a, x.ndim))
    return (float_sum(a, x) / np.float32(n),)


_GLOBAL = "tc_mean_s8_asm"
_HELIUM = "tc_mean_s8_mve"


def _finish(p: MeanParams) -> str:
    text = f"""    sum = tc_requantize(sum - {p.n * p.x_zero}, {_factor(p)[0]}, {_factor(p)[1]}, {p.rounding.code});
    sum = tc_clamp(sum + {p.y_zero}, -128, 127);"""
    return text.replace("- -", "+ ").replace("+ -", "- ")


def specialize(site: Site, p: MeanParams) -> SpecializedKernel:
    """The function that averages the pixels of an image."""
    return pool.global_pool(_GLOBAL, p.n, site.x().elements // p.n, _finish(p), ("tc_dsp.h",), site.core)


def global_rows(site: Site, p: MeanParams) -> tuple[RowForm, ...]:
    """The average of the pixels of an image, a row per call."""
    shape = site.x().shape
    if len(shape) != 4 or shape[0] != 1 or p.n != shape[1] * shape[2]:
        return ()
    return global_pool_rows(_GLOBAL, shape[1:], _finish(p), ("tc_dsp.h",), site)


def lower_global(site: Site, p: MeanParams) -> Call:
    """tc_mean_s8_asm: the whole tensor."""
    return pool.global_pool_call()


def cost_global(site: Site, p: MeanParams) -> Cost:
    sums = pool.sums_of(p.n, site.x().elements // p.n, site.core)
    return sums.cost(counted("tc_mean_s8_asm", site, sums.units))


def specialize_helium(site: Site, p: MeanParams) -> SpecializedKernel:
    """The function that averages the pixels of an image, with Helium."""
    return mve_pool.global_pool(_HELIUM, p.n, site.x().elements // p.n, _finish(p))


def helium_rows(site: Site, p: MeanParams) -> tuple[RowForm, ...]:
    """The average of the pixels of an image, a row per call, with Helium."""
    shape = site.x().shape
    if len(shape) != 4 or shape[0] != 1 or p.n != shape[1] * shape[2]:
        return ()
    return mve_pool.global_pool_rows(_HELIUM, shape[1:], _finish(p), site)


def cost_helium(site: Site, p: MeanParams) -> Cost:
    sums = mve_pool.sums_of(p.n, site.x().elements // p.n)
    return sums.cost(counted("tc_mean_s8_mve", site, sums.units))


def channels(a: Reduction, x: Value, y: Value) -> Channels | None:
    """Each of its own, unless the channels are what is averaged."""
    return None if len(x.shape) - 1 in reduced_axes(a, len(x.shape)) else same_channels(a, x, y)


INTEGER_KERNELS = (
    Kernel(
        _HELIUM,
        offered(lower_global, cost=cost_helium, specialize=specialize_helium, row_forms=helium_rows),
        isa=frozenset({"mve"}),
        when=(s8_to_s8, over_pixels),
        written=True,
    ),
    Kernel(
        _GLOBAL,
        offered(lower_global, cost=cost_global, specialize=specialize, row_forms=global_rows),
        isa=frozenset({"dsp"}),
        when=(s8_to_s8, over_pixels),
        written=True,
    ),
    Kernel(
        "tc_mean_s8",
        offered(lower, cost=CountedCost("tc_mean_s8", of_lines), row_forms=by_rows),
        when=(s8_to_s8, adjacent),
    ),
    Kernel(
        "tc_mean_s16",
        offered(lower, cost=CountedCost("tc_mean_s16", of_lines), row_forms=by_rows),
        when=(s16_to_s16, adjacent),
    ),
)


def forward(a: Mean, x: Array) -> Array:
    axes = tuple(axis % (x.ndim - 1) + 1 for axis in a.axes)
    return np.asarray(x.mean(axis=axes, keepdims=a.keep_dims, dtype=np.float32))


def backward(a: Mean, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    (x,) = inputs
    axes = tuple(axis % (x.ndim - 1) + 1 for axis in a.axes)
    expanded = dy if a.keep_dims else np.expand_dims(dy, axes)
    count = np.prod([x.shape[axis] for axis in axes])
    return (np.broadcast_to(expanded / np.float32(count), x.shape),)


OP = Op(
    name="mean",
    attrs=Mean,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(Observed(),),
    kernels=(*INTEGER_KERNELS, float_kernel("mean")),
    rowwise=over_channels,
    channels=channels,
    scales=lambda a: True,
    traits=frozenset({Trait.REDUCES, Trait.MONOTONE, Trait.ANY_SCALES, Trait.INT16}),
    float32=Float32(exact_float),
    batched=Batched(forward, backward),
)
