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
from tinyc.kernel.kernel import Call, Const, Kernel, Offer, Once, Refused, Struct
from tinyc.kernel.site import Site, elementwise
from tinyc.kernels import matmul
from tinyc.loops.expression import AddProduct, Centred, Element, HighSum, Node, OneLess, Param, Saturate
from tinyc.loops.written import DSP, HELIUM, VECTORS, LoopCore, LoopFunction
from tinyc.ops.batched import Batched, Gradients, active, reduced
from tinyc.ops.binary import (
    NUMBER_KERNELS,
    Binary,
    arguments,
    few_loops,
    float_kernel,
    infer,
    is_any_s16,
    is_s8,
    is_s16,
    lines_of,
    loop_fields,
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


_FIELDS = ("x0_minus", "x1_minus", "start", "mult", "add")
_STRUCT = "tc_product_s8_t"


def _loop(site: Site, requant: matmul.ProductRequantization, ending: str) -> LoopFunction:
    (lines, _), c = lines_of(site), requant.constants
    twice, shift = c.sign, int(c.shift[0])
    minus0, minus1, start, mult, add = map(Param, _FIELDS)
    x0, x1 = Element(0), Centred(Element(1, lines.one), minus1)
    if lines.one:  # what it gives to all elements comes first
        total: Node = AddProduct(AddProduct(start, x1, minus0), x0, x1)
    else:
        total = AddProduct(start, Centred(x0, minus0), x1)
    root = Saturate(HighSum(total, mult, OneLess(add, total) if twice else add, twice), shift)
    product = f"(x0[i] + x0_minus) * (x1[{'0' if lines.one else 'i'}] + x1_minus) + start"
    says = f"y[i] = saturate((({product}) * mult >> 32) + add >> {shift}) to int8; y may be x0 or x1."
    if twice:
        says = f"As without `twice`, of 2 * sum, rounded, and 1 less below 0: >> {shift}. y may be x0 or x1."
    name = f"tc_mul_s8_{ending}{'_one' * lines.one}{'_twice' * twice}_{shift}"
    return LoopFunction(name, says, root, _STRUCT, _FIELDS, lines)


def _lower_loop(site: Site, p: Product, requant: matmul.ProductRequantization) -> Call:
    """The call of a line's function, or of the one that calls it."""
    lines, swaps = lines_of(site)
    params, x0, x1, y = arguments(site)
    minus = (-p.x1_zero, -p.x0_zero) if swaps else (-p.x0_zero, -p.x1_zero)
    numbers = {"x0_minus": minus[0], "x1_minus": minus[1], **requant.numbers}
    fields = {"n": lines.size, **{name: numbers[name] for name in _FIELDS}}
    return Call((params, x1, x0, y) if swaps else (params, x0, x1, y), Struct(_STRUCT, fields))


def _loop_kernel(on: LoopCore, ending: str) -> Kernel:
    """A loop for every layer with the same shift, in the instructions of a kind of core."""

    def offer(site: Site, p: Product) -> Offer | Refused:
        requant = _requantization(p)
        if requant is None:
            return Refused(_ASKS)
        loop = _loop(site, requant, ending)
        call, special = Once(lambda: _lower_loop(site, p, requant)), Once(lambda: loop.written(on, site.core))
        return Offer(0, loop.cost(on, site.core), call, special)

    return Kernel(
        f"tc_mul_s8_{ending}",
        offer,
        isa=on.isa,
        when=(is_s8, few_loops),
        asks=_ASKS,
        inplace=(0, 1),
        written=True,
    )


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
        _loop_kernel(HELIUM, "mve"),
        _loop_kernel(DSP, "dsp"),
        _loop_kernel(VECTORS, "rvv"),
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
