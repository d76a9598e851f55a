# SPDX-License-Identifier: Apache-2.0
"""batch_matmul: x [..., M, K] times y [..., K, N] -> [..., M, N]; both may be computed, leading axes broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.exact import dot
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import float_factor, quantize_multiplier, requantize
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.counted import CountedCost, Units, counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, Cost, Kernel, Offer, Once, Refused, Scratch, Struct, offered
from tinyc.kernel.site import Site, Type
from tinyc.kernel.types import in_float32
from tinyc.kernels import matmul
from tinyc.kernels.float32 import weighted as weighted_f32
from tinyc.kernels.mve import matmul as vectors
from tinyc.ops.binary import Loop, arguments, broadcast_shape, is_s8, is_s16, loops
from tinyc.ops.op import Observed, Op, Trait

_BATCH_LOOPS = 2
_LARGEST = 255 * 255  # of one product of centred int8
_ASKS_VECTORS = f"{matmul.ASKS}; {vectors.FAR}"
_MOST_WIDE = 2**17  # products of int16 whose sum is below 2^47


@dataclass(frozen=True, slots=True)
class BatchMatmul:
    """adj_x, adj_y: the last two axes of x, of y, lie the other way round."""

    adj_x: bool = False
    adj_y: bool = False


def _turned(shape: Shape, adjoint: bool) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2]) if adjoint else shape


def infer(a: BatchMatmul, x: Value, y: Value) -> Sequence[Type]:
    if len(x.shape) < 2 or len(y.shape) < 2:
        raise TinycError(f"a product of {list(x.shape)} and {list(y.shape)}: both must be matrices")
    left, right = _turned(x.shape, a.adj_x), _turned(y.shape, a.adj_y)
    if left[-1] != right[-2]:
        raise TinycError(f"matrices {list(left[-2:])} and {list(right[-2:])} do not fit")
    return [Type((*broadcast_shape(left[:-2], right[:-2]), left[-2], right[-1]), x.dtype)]


def _product(a: BatchMatmul, x: Array, y: Array) -> Array:
    left = np.swapaxes(x, -1, -2) if a.adj_x else x
    right = np.swapaxes(y, -1, -2) if a.adj_y else y
    return dot(left, right)


def float_ref(a: BatchMatmul, x: Array, y: Array) -> tuple[Array, ...]:
    return (_product(a, x, y).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class MatmulParams:
    """out = clamp(requantize(sum over k of (x - x_zero) * (y - y_zero), mult, shift) + out_zero, -128, 127)."""

    attrs: BatchMatmul
    x_zero: int
    y_zero: int
    mult: int
    shift: int
    out_zero: int
    rounding: Rounding


@dataclass(frozen=True, slots=True)
class WideMatmulParams:
    """Of int16 with zero points 0: out = clamp(floor(sum over k of x * y * mult / 2^(15 - shift) + 1/2)).

    That is how TensorFlow Lite scales sums of 64 bits; mult has 16.
    """

    attrs: BatchMatmul
    mult: int
    shift: int

    def run(self, x: Array, y: Array) -> Array:
        acc, total = _product(self.attrs, x.astype(np.int64), y.astype(np.int64)), 15 - self.shift
        return np.clip((acc * self.mult + (1 << (total - 1))) >> total, -32768, 32767).astype(np.int16)


def prepare(site: Site) -> MatmulParams | WideMatmulParams:
    """TinycError where an accumulator could leave int32, or the values are neither int8 nor int16 of zero points 0."""
    return _prepare_wide(site) if is_s16(site) else prepare_s8(site)


def prepare_s8(site: Site) -> MatmulParams:
    """Of int8. TinycError as `prepare` raises it."""
    if not is_s8(site):
        kinds = f"{site.x(0).dtype} and {site.x(1).dtype} to {site.y().dtype}"
        raise TinycError(f"batch_matmul of {kinds}: the integer operator takes int8", site.node.where)
    (x_scale, x_zero), (y_scale, y_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    out_scale, out_zero = site.scale_zero(site.y())
    rounding = site.builtin_rounding
    if site.numerics is Numerics.ONNX:
        rounding = Rounding.FLOAT
        factor = float(np.float32(x_scale) * np.float32(y_scale) / np.float32(out_scale))
    else:
        factor = x_scale * y_scale / out_scale
    mult, shift = quantize_multiplier(factor)
    depth = _turned(site.x(0).shape, site.attrs.adj_x)[-1]
    if (depth * _LARGEST) << max(shift, 0) >= 2**31:
        raise TinycError(f"a sum of {depth} products, scaled by {factor:g}, can leave int32", site.node.where)
    return MatmulParams(site.attrs, x_zero, y_zero, mult, shift, out_zero, rounding)


def _prepare_wide(site: Site) -> WideMatmulParams:
    (x_scale, _), (y_scale, _), (out_scale, _) = (site.scale_zero(v) for v in (site.x(0), site.x(1), site.y()))
    mult, shift = quantize_multiplier(x_scale * y_scale / out_scale)
    depth = _turned(site.x(0).shape, site.attrs.adj_x)[-1]
    if depth >= _MOST_WIDE or not -31 <= shift <= 7:
        raise TinycError(
            f"batch_matmul of int16 over {depth} numbers, scaled by 2^{shift} cannot be compiled", site.node.where
        )
    sixteen = min((mult + (1 << 15)) >> 16, 32767)
    return WideMatmulParams(site.attrs, sixteen, shift)


def int_ref(p: MatmulParams | WideMatmulParams, x: Array, y: Array) -> tuple[Array, ...]:
    if isinstance(p, WideMatmulParams):
        return (p.run(x, y),)
    # Sums of int8 products are exact in float64, whose matmul is fast.
    acc = _product(p.attrs, x.astype(np.float64) - p.x_zero, y.astype(np.float64) - p.y_zero)
    out = requantize(acc.astype(np.int64), p.mult, p.shift, p.rounding) + p.out_zero
    return (np.clip(out, -128, 127).astype(np.int8),)


def macs(site: Site) -> int:
    """Elements of the output times the products of each."""
    return site.y().elements * _turned(site.x(0).shape, site.attrs.adj_x)[-1]


def _batches(site: Site) -> tuple[Loop, ...]:
    return loops(site.x(0).shape[:-2], site.x(1).shape[:-2])


def few_batches(site: Site) -> bool:
    """leading axes whose repeats form at most 2 groups"""
    return len(_batches(site)) <= _BATCH_LOOPS


def _geometry(site: Site, a: BatchMatmul) -> dict[str, int | float | str | Const]:
    """The loops over matrices, and the steps within them."""
    (*_, x_h, x_w), (*_, y_h, y_w) = site.x(0).shape, site.x(1).shape
    batches = _batches(site)
    fields: dict[str, int | float | str | Const] = {}
    for k, loop in enumerate((Loop(1, 0, 0),) * (_BATCH_LOOPS - len(batches)) + batches):
        fields |= {f"n{k}": loop.size, f"a{k}": loop.step0 * x_h * x_w, f"b{k}": loop.step1 * y_h * y_w}
    return fields | {
        "rows": site.y().shape[-2],
        "cols": site.y().shape[-1],
        "depth": x_h if a.adj_x else x_w,
        "x_row": 1 if a.adj_x else x_w,
        "x_next": x_w if a.adj_x else 1,
        "y_col": y_w if a.adj_y else 1,
        "y_next": 1 if a.adj_y else y_w,
    }


def lower(site: Site, p: MatmulParams) -> Call:
    """tc_batch_matmul_s8: all matrices."""
    as_float = p.rounding is Rounding.FLOAT
    fields = _geometry(site, p.attrs) | {
        "x_zero": p.x_zero,
        "y_zero": p.y_zero,
        "mult": int(float_factor(p.mult, p.shift).view(np.int32)) if as_float else p.mult,
        "shift": 0 if as_float else p.shift,
        "rounds": p.rounding.code,
        "out_zero": p.out_zero,
    }
    return Call(arguments(site), Struct("tc_batch_matmul_s8_t", fields))


def scaling(site: Site, p: MatmulParams) -> matmul.ProductScaling:
    """From sums to outputs."""
    depth = _turned(site.x(0).shape, p.attrs.adj_x)[-1]
    return matmul.ProductScaling(depth, p.x_zero, p.y_zero, p.mult, p.shift, p.rounding, p.out_zero)


def offer_dsp(site: Site, p: MatmulParams) -> Offer | Refused:
    """tc_batch_matmul_s8_dsp: all matrices, the right side of one widened to int16 at a time."""
    requant = matmul.requantization_of(scaling(site, p))
    if requant is None:
        return Refused(matmul.ASKS)
    cost = _cost_dsp(site, p, requant)
    return Offer(cost.scratch_bytes, cost, Once(lambda: _lower_dsp(site, p, requant)))


def _lower_dsp(site: Site, p: MatmulParams, requant: matmul.ProductRequantization) -> Call:
    zeros = {"x_zero": p.x_zero, "y_zero": p.y_zero}
    fields = _geometry(site, p.attrs) | zeros | requant.fields("requant")
    return Call((*arguments(site), Scratch()), Struct("tc_batch_matmul_s8_dsp_t", fields))


def _cost_dsp(site: Site, p: MatmulParams, requant: matmul.ProductRequantization) -> Cost:
    rows, columns = site.y().shape[-2:]
    depth = _turned(site.x(0).shape, p.attrs.adj_x)[-1]
    count = site.y().elements // (rows * columns)
    widening = matmul.widening_instructions(rows, columns, depth)
    executed = int(count * (widening + matmul.product_instructions(rows, columns, depth, requant)))
    scratch = 4 * (matmul.row_words(depth) + matmul.widened_words(depth, columns))
    return Cost(executed, 1600, scratch, executed * 3 // 2)


def offer_mve(site: Site, p: MatmulParams) -> Offer | Refused:
    """tc_batch_matmul_s8_mve: all matrices, the right side of one widened to int16 at a time."""
    requant = matmul.requantization_of(scaling(site, p))
    geometry = _geometry(site, p.attrs)
    if requant is None or not vectors.reaches(site.x(0).shape[-1], site.x(1).shape[-1]):
        return Refused(_ASKS_VECTORS)
    rows, columns = site.y().shape[-2:]
    depth = _turned(site.x(0).shape, p.attrs.adj_x)[-1]
    whole = site.y().elements // (rows * columns) * vectors.work(rows, columns, depth, requant)
    scratch = vectors.row_bytes(depth) + vectors.side_bytes(depth, columns)
    fields = geometry | {"x_zero": p.x_zero, "y_zero": p.y_zero} | vectors.requant_fields("requant", requant)
    call = Once(lambda: Call((*arguments(site), Scratch()), Struct("tc_batch_matmul_s8_mve_t", fields)))
    return Offer(scratch, Cost(whole.instructions, 1000, scratch, whole.cycles), call)


def lower_wide(site: Site, p: WideMatmulParams) -> Call:
    """tc_batch_matmul_s16: all matrices."""
    fields = _geometry(site, p.attrs) | {"mult": p.mult, "shift": p.shift}
    return Call(arguments(site), Struct("tc_batch_matmul_s16_t", fields))


def lower_float(site: Site, p: BatchMatmul) -> Call:
    """tc_batch_matmul_f32: all matrices."""
    return Call(arguments(site), Struct("tc_batch_matmul_f32_t", _geometry(site, p)))


def of_products(site: Site, p: object) -> Units:
    """Products, and sums of them."""
    return {"product": macs(site), "element": site.y().elements}


OP = Op(
    name="batch_matmul",
    attrs=BatchMatmul,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        Kernel(
            "tc_batch_matmul_s8_mve",
            offer_mve,
            isa=frozenset({"mve"}),
            when=(is_s8, few_batches),
            asks=_ASKS_VECTORS,
        ),
        Kernel(
            "tc_batch_matmul_s8_dsp",
            offer_dsp,
            isa=frozenset({"dsp"}),
            when=(is_s8, few_batches),
            asks=matmul.ASKS,
        ),
        # gcc joins the loads and stores of four columns.
        Kernel(
            "tc_batch_matmul_s8",
            offered(lower, cost=CountedCost("tc_batch_matmul_s8", of_products)),
            when=(is_s8, few_batches),
            anywhere=True,
        ),
        counted_kernel("tc_batch_matmul_s16", lower_wide, of_products, when=(is_s16, few_batches)),
        counted_kernel("tc_batch_matmul_f32", lower_float, of_products, when=(in_float32, few_batches)),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_SCALES, Trait.ALL_AT_ONCE, Trait.INT16}),
    float32=Float32(weighted_f32.matmul_ref),
)
