# SPDX-License-Identifier: Apache-2.0
"""mul: y = x0 * x1 with numpy broadcasting and a fused activation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base import float32
from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import NUMPY_DTYPE, Array, DType
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, Cost, Kernel, Offer, Once, Refused, Struct
from tinyc.kernel.site import Site, elementwise
from tinyc.kernels import matmul
from tinyc.kernels.mve import mul as mve
from tinyc.ops.batched import Batched, Gradients, active, reduced
from tinyc.ops.binary import (
    LOOPS,
    NUMBER_KERNELS,
    Binary,
    arguments,
    few_loops,
    float_kernel,
    infer,
    is_any_s16,
    is_s8,
    is_s16,
    loop_fields,
    loops,
    pair_kernel,
)
from tinyc.ops.op import Observed, Op, SomeNodes, Trait, same_channels

_ASKS = "no activation narrower than int8, a scaling of products that one product of 32 bits gives"
_XNN_MIN_SCALE, _XNN_MAX_SCALE = 2.0**-16, 2.0**8  # x0.scale * x1.scale / y.scale


@dataclass(frozen=True, slots=True)
class Mul(Binary):
    """The fused activation `act`."""


SQUARE = SomeNodes(Mul, lambda node: node.inputs[0] == node.inputs[1])  # of a value by itself


def float_ref(a: Mul, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (np.clip(x0 * x1, np.float32(a.act.lo), np.float32(a.act.hi)).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class Product:
    """y = clamp(scaled((x0 - x0_zero) * (x1 - x1_zero)) + y_zero, y_min, y_max).

    `factor` None: scaled is requantize(product, mult, shift). Otherwise it is float32 product *
    factor, rounded to nearest, halves to even.
    """

    x0_zero: int
    x1_zero: int
    mult: int
    shift: int
    rounding: Rounding
    y_zero: int
    y_min: int
    y_max: int
    factor: np.float32 | None = None
    dtype: DType = "s8"
    is_wide: bool = False  # 64-bit products: mult has 24 bits, scaled is floor(product * mult / 2^(31 - shift) + 1/2)

    def run(self, x0: Array, x1: Array) -> Array:
        product = (x0.astype(np.int64) - self.x0_zero) * (x1.astype(np.int64) - self.x1_zero)
        y: Array = np.clip(self.scaled(product) + self.y_zero, self.y_min, self.y_max).astype(NUMPY_DTYPE[self.dtype])
        return y

    def scaled(self, product: Array) -> Array:
        if self.factor is not None:
            rounded: Array = np.rint(product.astype(np.float32) * self.factor)
            return rounded.astype(np.int64)
        if self.is_wide:
            total = 31 - self.shift
            return np.asarray((product * self.mult + (1 << (total - 1))) >> total)
        return requantize(product, self.mult, self.shift, self.rounding)


def prepare(site: Site) -> Product:
    if site.numerics is Numerics.ONNX and is_any_s16(site):
        return _prepare_wide(site)
    wide = is_s16(site)
    if not is_s8(site) and not wide:
        raise TinycError(
            f"mul of {site.x(0).dtype} and {site.x(1).dtype}: the integer operator takes int8, or int16 with zero "
            "points 0",
            site.node.where,
        )
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    factor = scale0 * scale1 / y_scale
    if site.numerics is Numerics.LITERT:  # whose own kernels, where XNNPACK has none, scale by a quotient in float32
        factor = float(np.float32(scale0) * np.float32(scale1) / np.float32(y_scale))
    most = 1 if wide else 2.0**14
    if factor >= most:
        raise TinycError(f"mul scales its products by {factor:g}; only less than {most:g} fits int32", site.node.where)
    mult, shift = quantize_multiplier(factor)
    lo, hi = site.attrs.act.range_of(site.y())
    by_float = None
    if site.numerics.scales_in_float and not wide:
        single = np.float32(scale0) * np.float32(scale1) / np.float32(y_scale)
        least = _XNN_MIN_SCALE if site.numerics is Numerics.LITERT else 0
        by_float = single if least <= single < _XNN_MAX_SCALE else None
    return Product(zero0, zero1, mult, shift, site.builtin_rounding, y_zero, lo, hi, by_float, site.y().dtype)


def _prepare_wide(site: Site) -> Product:
    """int16 with any zero points: the float32 factor's 24 bits, products of 64 bits."""
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    mult, shift = quantize_multiplier(float(np.float32(scale0) * np.float32(scale1) / np.float32(y_scale)))
    if shift > 0:
        raise TinycError("mul of int16 scales its products by 1 or more", site.node.where)
    lo, hi = site.attrs.act.range_of(site.y())
    rounding = site.builtin_rounding
    return Product(zero0, zero1, mult >> 7, shift + 7, rounding, y_zero, lo, hi, None, "s16", is_wide=True)


def int_ref(p: Product, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (p.run(x0, x1),)


def is_integer(site: Site) -> bool:
    """products scaled by an integer multiplier"""
    return is_s8(site) and prepare(site).factor is None


def is_narrow_s16(site: Site) -> bool:
    """int16 inputs and output, zero points 0, numerics other than onnx"""
    return is_s16(site) and site.numerics is not Numerics.ONNX


def is_wide_s16(site: Site) -> bool:
    """int16 inputs and output, numerics onnx"""
    return is_any_s16(site) and site.numerics is Numerics.ONNX


def is_float(site: Site) -> bool:
    """products scaled in float32, as desktop LiteRT and ONNX Runtime do"""
    return is_s8(site) and not is_integer(site)


def _common_fields(site: Site, p: Product) -> dict[str, int | float | str | Const]:
    names = ("x0_zero", "x1_zero", "y_zero", "y_min", "y_max")
    return {**loop_fields(site), **{name: getattr(p, name) for name in names}}


def lower_integer(site: Site, p: Product) -> Call:
    """tc_mul_s8."""
    fields = {
        **_common_fields(site, p),
        "mult": p.mult,
        "shift": p.shift,
        "rounds": 2 if p.rounding is Rounding.DOUBLE else 1,
    }
    return Call(arguments(site), Struct("tc_mul_s16_t" if is_s16(site) else "tc_mul_s8_t", fields))


def lower_wide(site: Site, p: Product) -> Call:
    """tc_mul_wide_s16: 64-bit products."""
    fields = {**_common_fields(site, p), "mult": p.mult, "total": 31 - p.shift}
    return Call(arguments(site), Struct("tc_mul_wide_s16_t", fields))


def lower_float(site: Site, p: Product) -> Call:
    """tc_mul_f32_s8: the scaling in float32."""
    fields = {**_common_fields(site, p), "factor": float(p.factor or 0.0)}
    return Call(arguments(site), Struct("tc_mul_f32_s8_t", fields))


def _requantization(p: Product) -> matmul.ProductRequantization | None:
    """From a product to int8 by one product of 32 bits; None where none is proved, or the activation is narrower."""
    mult, shift, rounding = p.mult, p.shift, p.rounding
    if p.factor is not None:
        (mult, shift), rounding = quantize_multiplier(float(p.factor)), Rounding.FLOAT
    if (p.y_min, p.y_max) != (-128, 127):
        return None
    return matmul.requantization_of(matmul.ProductScaling(1, p.x0_zero, p.x1_zero, mult, shift, rounding, p.y_zero))


def offer_mve(site: Site, p: Product) -> Offer | Refused:
    """tc_mul_s8_mve: a function for each shift."""
    requant = _requantization(p)
    if requant is None:
        return Refused(_ASKS)
    nest, swapped = loops(site.x(0).shape, site.x(1).shape), _swaps(site)
    size, c = nest[-1].size, requant.constants
    line = mve.MulLine(int(c.shift[0]), bool(c.sign), swapped or nest[-1].step1 == 0)
    cost = mve.cost(line, size, site.y().elements // size)
    return Offer(0, cost, Once(lambda: _lower_vectors(site, p, requant, swapped)[0]), Once(lambda: mve.special(line)))


def offer_dsp(site: Site, p: Product) -> Offer | Refused:
    """tc_mul_s8_dsp: four elements at a time."""
    requant = _requantization(p)
    if requant is None:
        return Refused(_ASKS)
    nest, swapped = loops(site.x(0).shape, site.x(1).shape), _swaps(site)
    per_element = 5.1 if nest[-1].step1 == 0 or swapped else 6.1
    if requant.constants.sign:
        per_element *= 1.25
    size = nest[-1].size
    executed = (per_element * (size & ~3) + 12 * (size & 3) + 52) * (site.y().elements // size)
    return Offer(0, Cost(round(executed), 600, 0), Once(lambda: _lower_dsp(site, p, requant, swapped)))


def _swaps(site: Site) -> bool:
    """Whether x0 repeats along the lines: the input that does comes second."""
    return loops(site.x(0).shape, site.x(1).shape)[-1].step0 == 0


def _lower_dsp(site: Site, p: Product, requant: matmul.ProductRequantization, swapped: bool) -> Call:
    call, lines = _lower_vectors(site, p, requant, swapped)
    assert call.params is not None
    fields = requant.fields_with("line", f"tc_mul_{lines}")
    return Call(call.args, Struct(call.params.ctype, {**call.params.fields, "line": fields["line"]}))


def _lower_vectors(site: Site, p: Product, requant: matmul.ProductRequantization, swapped: bool) -> tuple[Call, str]:
    """The call with all fields but `line`, and what its lines are."""
    fields = loop_fields(site)
    first, second = ("b", "a") if swapped else ("a", "b")
    steps = {f"{to}{k}": fields[f"{of}{k}"] for k in range(LOOPS) for to, of in (("a", first), ("b", second))}
    sizes = {f"n{k}": fields[f"n{k}"] for k in range(LOOPS)}
    zeros = {"x0_zero": p.x1_zero, "x1_zero": p.x0_zero} if swapped else {"x0_zero": p.x0_zero, "x1_zero": p.x1_zero}
    steps.pop("a3")
    lines = "number" if steps.pop("b3") == 0 else "pairs"
    params, x0, x1, y = arguments(site)
    args = (params, x1, x0, y) if swapped else (params, x0, x1, y)
    numbers = requant.fields_with("line", "")
    numbers.pop("line")
    return Call(args, Struct("tc_mul_s8_dsp_t", sizes | steps | zeros | numbers)), lines


def backward(a: Mul, inputs: Sequence[Array], y: Array, dy: Array) -> Gradients:
    d = active(a, y, dy)
    return (reduced(d * inputs[1], inputs[0]), reduced(d * inputs[0], inputs[1]))


OP = Op(
    name="mul",
    attrs=Mul,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        *NUMBER_KERNELS,
        Kernel(
            mve.NAME,
            offer_mve,
            isa=frozenset({"mve"}),
            when=(is_s8, few_loops),
            asks=_ASKS,
            inplace=(0, 1),
            written=True,
        ),
        Kernel(
            "tc_mul_s8_dsp",
            offer_dsp,
            isa=frozenset({"dsp"}),
            when=(is_s8, few_loops),
            asks=_ASKS,
            inplace=(0, 1),
            header="tc_mul_lines.h",
        ),
        pair_kernel("tc_mul_s8", lower_integer, is_s8, is_integer),
        pair_kernel("tc_mul_s16", lower_integer, is_narrow_s16),
        pair_kernel("tc_mul_wide_s16", lower_wide, is_wide_s16),
        pair_kernel("tc_mul_f32_s8", lower_float, is_s8, is_float),
        float_kernel("mul"),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.BROADCASTS, Trait.FUSES_CLIP, Trait.ANY_SCALES, Trait.INT16}),
    channels=same_channels,
    float32=Float32(lambda a, x0, x1: (float32.clip(x0 * x1, a.act.lo, a.act.hi),)),
    batched=Batched(backward=backward),
)
