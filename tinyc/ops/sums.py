# SPDX-License-Identifier: Apache-2.0
"""The integers of add and sub: y = clamp(rescaled x0 +- rescaled x1), and their exact linear form.

TensorFlow Lite rescales both inputs to a common scale with 20 more bits, adds, and rescales the sum.
XNNPACK computes y = (a*x0 + b*x1 + c) >> s. That form is by far the cheaper one, and nearly every sum of
the first kind equals some (a, b, c, s) for all 65,536 pairs of inputs; `linear_form` searches for it
and proves it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics, Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array
from tinyc.kernel.kernel import Call, Const, Cost, Kernel, Struct, offered
from tinyc.kernel.site import Site
from tinyc.loops import dsp, helium
from tinyc.loops.expression import AddProduct, Element, Node, Param, Saturate
from tinyc.loops.lines import LoopLines
from tinyc.loops.written import DSP, HELIUM, VECTORS, LoopFunction, loop_kernel
from tinyc.machine.thumb import Work
from tinyc.ops.binary import (
    NUMBER_KERNELS,
    arguments,
    few_loops,
    is_any_s16,
    is_s8,
    is_s16,
    lines_of,
    loop_fields,
    loops,
    pair_kernel,
)

_LEFT_SHIFT = 20  # of TensorFlow Lite's 8-bit add and sub
_LEFT_SHIFT_16 = 15  # of its 16-bit ones
_WIDE_BITS = 30  # of the larger coefficient of a sum of int16
_XNN_MIN_RATIO, _XNN_MAX_RATIO = 2.0**-10, 2.0**8  # of an input scale to the output scale
_REACHES = (1, 4, 16)  # how far from the rounded real coefficients the search looks, nearest first
_FREE = 2**60  # no bound
_SHIFTS = 4  # how many shifts it tries, from the largest that fits int32


@dataclass(frozen=True, slots=True)
class Linear:
    """y = clamp(((a*x0 + b*x1 + c) >> shift) + y_zero, y_min, y_max); the sum fits int32 for int8 inputs."""

    a: int
    b: int
    c: int
    shift: int
    y_zero: int
    y_min: int
    y_max: int

    def run(self, x0: Array, x1: Array) -> Array:
        acc = self.a * x0.astype(np.int64) + self.b * x1.astype(np.int64) + self.c
        y: Array = np.clip((acc >> self.shift) + self.y_zero, self.y_min, self.y_max).astype(np.int8)
        return y


@dataclass(frozen=True, slots=True)
class Rescaled:
    """y = clamp(requantize(t0 + sign * t1, mult, shift) + y_zero, y_min, y_max).

    t<k> = requantize((x<k> - x<k>_zero) << left, x<k>_mult, x<k>_shift), all by the same rounding. left is 20
    for int8, 15 for int16.
    """

    x0_zero: int
    x1_zero: int
    x0_mult: int
    x0_shift: int
    x1_mult: int
    x1_shift: int
    sign: int
    mult: int
    shift: int
    y_zero: int
    y_min: int
    y_max: int
    rounding: Rounding
    left: int = _LEFT_SHIFT

    def run(self, x0: Array, x1: Array) -> Array:
        t0 = self._term(x0, self.x0_zero, self.x0_mult, self.x0_shift)
        t1 = self._term(x1, self.x1_zero, self.x1_mult, self.x1_shift)
        total = requantize(t0 + self.sign * t1, self.mult, self.shift, self.rounding) + self.y_zero
        y: Array = np.clip(total, self.y_min, self.y_max).astype(np.int8 if self.left == _LEFT_SHIFT else np.int16)
        return y

    def _term(self, x: Array, zero: int, mult: int, shift: int) -> npt.NDArray[np.int64]:
        return requantize((x.astype(np.int64) - zero) << self.left, mult, shift, self.rounding)


@dataclass(frozen=True, slots=True)
class Even:
    """y = clamp(round((a*x0 + b*x1 + c) / 2^shift) + y_zero, y_min, y_max), halves to even.

    `Numerics.ONNX`: a and b are the ratios of the scales with as many bits as there is room for. The sum fits
    int32 for int8 (`wide` False), int64 for int16.
    """

    a: int
    b: int
    c: int
    shift: int
    y_zero: int
    y_min: int
    y_max: int
    wide: bool = False

    def run(self, x0: Array, x1: Array) -> Array:
        acc = self.a * x0.astype(np.int64) + self.b * x1.astype(np.int64) + self.c
        total = (acc + (1 << (self.shift - 1)) - 1 + ((acc >> self.shift) & 1)) >> self.shift
        y: Array = np.clip(total + self.y_zero, self.y_min, self.y_max).astype(np.int16 if self.wide else np.int8)
        return y


Sum = Linear | Rescaled | Even


def prepare_sum(site: Site, sign: int) -> Sum:
    """The integers of x0 + sign * x1 under the site's numerics."""
    if site.numerics is Numerics.ONNX and is_any_s16(site):
        return _prepare_even(site, sign)
    if is_s16(site):
        return _prepare_rescaled(site, sign, _LEFT_SHIFT_16)
    if not is_s8(site):
        raise TinycError(
            f"{site.node.op} of {site.x(0).dtype} and {site.x(1).dtype}: the integer operator takes int8, or int16 "
            "with zero points 0",
            site.node.where,
        )
    if site.numerics is Numerics.LITERT:
        ratios = [site.scale_zero(site.x(k))[0] / site.scale_zero(site.y())[0] for k in (0, 1)]
        if all(_XNN_MIN_RATIO <= ratio < _XNN_MAX_RATIO for ratio in ratios):
            return _prepare_xnn(site, sign)
    if site.numerics is Numerics.ONNX:
        return _prepare_even(site, sign)
    return _prepare_rescaled(site, sign)


def _prepare_xnn(site: Site, sign: int) -> Linear:
    """XNNPACK's qs8 vadd: coefficients of 21 bits at most, the larger with exactly 21."""
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    ratio0, ratio1 = np.float32(scale0) / np.float32(y_scale), np.float32(scale1) / np.float32(y_scale)
    exponent = int(np.frexp(max(ratio0, ratio1))[1]) - 1
    shift = 20 - exponent
    a = int(np.rint(np.float64(ratio0) * 2.0**shift))
    b = sign * int(np.rint(np.float64(ratio1) * 2.0**shift))
    lo, hi = site.attrs.act.range_of(site.y())
    return Linear(a, b, (1 << (shift - 1)) - a * zero0 - b * zero1, shift, y_zero, lo, hi)


def _prepare_even(site: Site, sign: int) -> Even:
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    ratios = [float(np.float32(scale) / np.float32(y_scale)) for scale in (scale0, scale1)]
    wide = is_any_s16(site)
    shift = _largest_shift(y_zero, *ratios) if not wide else _WIDE_BITS - math.ceil(math.log2(max(ratios)))
    if not 1 <= shift <= 60:
        raise TinycError(
            f"{site.node.op}: output scale {y_scale:g} is too small beside the input scales {scale0:g} and {scale1:g}",
            site.node.where,
        )
    a, b = (round(ratio * 2.0**shift) for ratio in ratios)
    lo, hi = site.attrs.act.range_of(site.y())
    return Even(a, sign * b, -a * zero0 - sign * b * zero1, shift, y_zero, lo, hi, wide)


def _prepare_rescaled(site: Site, sign: int, left: int = _LEFT_SHIFT) -> Rescaled:
    (scale0, zero0), (scale1, zero1) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    common = 2 * max(scale0, scale1)
    factors = (scale0 / common, scale1 / common, common / (2.0**left * y_scale))
    if factors[2] >= 1:
        raise TinycError(
            f"{site.node.op}: output scale {y_scale:g} is too small beside input scale {common / 2:g}",
            site.node.where,
        )
    (m0, s0), (m1, s1), (m, s) = map(quantize_multiplier, factors)
    lo, hi = site.attrs.act.range_of(site.y())
    return Rescaled(zero0, zero1, m0, s0, m1, s1, sign, m, s, y_zero, lo, hi, site.builtin_rounding, left)


def int_ref(p: Sum, x0: Array, x1: Array) -> tuple[Array, ...]:
    return (p.run(x0, x1),)


@lru_cache(maxsize=1 << 14)  # every sum of a large model: selection, planner and lowering ask one after the other
def linear_form(p: Sum) -> Linear | None:
    """A Linear with the same output for all 65,536 pairs of int8 inputs, or None if the search finds none.

    Its y_zero is 0 wherever that is possible: always, but for a Linear p that allows no other.
    The coefficients lie near the real ratios; for each shift a window of them is tried against the
    pairs that come closest to a step of the output, and the survivor is checked against every pair.
    """
    folded = _with_zero_folded(p) if isinstance(p, Linear) else None
    if folded is not None:
        return folded
    x = np.arange(-128, 128)
    target = p.run(x[:, None], x[None, :]).astype(np.int64)
    ratios = _real_ratios(p)
    largest = _largest_shift(p.y_zero, *ratios)
    bounds = cache(lambda shift: _bounds(p, target, ratios, shift))
    for reach in _REACHES:
        for shift in range(largest, max(largest - _SHIFTS, 0), -1):
            linear = _search(p, target, bounds(shift), reach)
            if linear is not None:
                return linear
    return p if isinstance(p, Linear) else None


def _with_zero_folded(p: Linear) -> Linear | None:
    """p with y_zero in c, unless that leaves int32."""
    c = p.c + (p.y_zero << p.shift)
    fits = (abs(p.a) + abs(p.b)) * 128 + abs(c) < 2**31
    return replace(p, c=c, y_zero=0) if fits else None


def _real_ratios(p: Sum) -> tuple[float, float]:
    """Coefficients of x0 and x1 in the real function that p approximates."""
    if isinstance(p, Linear | Even):
        return p.a / 2.0**p.shift, p.b / 2.0**p.shift
    out = p.mult * 2.0 ** (p.shift - 31 + _LEFT_SHIFT)
    return (
        p.x0_mult * 2.0 ** (p.x0_shift - 31) * out,
        p.sign * p.x1_mult * 2.0 ** (p.x1_shift - 31) * out,
    )


def _largest_shift(y_zero: int, real0: float, real1: float) -> int:
    """The most fraction bits with which every sum surely stays below 2^31, whatever the inputs."""
    most = (abs(real0) + abs(real1)) * 256 + abs(y_zero) + 2
    return min(30, math.floor(31 - math.log2(most)))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The rounded real coefficients for a shift, and between which values [256, 256] c must lie beside them."""

    a: int
    b: int
    shift: int
    least: npt.NDArray[np.int64]
    most: npt.NDArray[np.int64]


def _bounds(p: Sum, target: npt.NDArray[np.int64], ratios: tuple[float, float], shift: int) -> _Bounds:
    """target*one <= a*x0 + b*x1 + c < (target+1)*one wherever the clamp leaves the value alone."""
    x = np.arange(-128, 128)
    one = 1 << shift
    a, b = (round(real * one) for real in ratios)
    base = a * x[:, None] + b * x[None, :]
    least = np.where(target > p.y_min, target * one - base, -_FREE)
    most = np.where(target < p.y_max, (target + 1) * one - 1 - base, _FREE)
    return _Bounds(a, b, shift, least, most)


def _search(p: Sum, target: npt.NDArray[np.int64], near: _Bounds, reach: int) -> Linear | None:
    """The best (a, b, c) for this shift with a and b at most `reach` from the rounded real ones, or None."""
    x = np.arange(-128, 128)
    slack = 2 * 2 * 128 * reach  # twice what the neighbourhood can move a sum
    close = (near.least >= near.least.max() - slack) | (near.most <= near.most.min() + slack)
    i1, i0 = np.nonzero(close.T)  # pairs with the same x1 side by side: b moves their bounds alike
    least, most, x0 = near.least[i0, i1], near.most[i0, i1], x[i0]
    first = np.flatnonzero(np.diff(i1, prepend=-1))
    x1 = x[i1[first]]

    def bounds_of(da: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(least, most) for each x1, with a moved by da."""
        return np.maximum.reduceat(least - da * x0, first), np.minimum.reduceat(most - da * x0, first)

    room, da, db = max(_room(*bounds_of(da), x1, da, reach) for da in range(-reach, reach + 1))
    if room < 0:
        return None
    a, b = near.a + da, near.b + db
    bound = 2**31 - 1 - (abs(a) + abs(b)) * 128  # on |c|, so that no sum leaves int32
    lowest, highest = bounds_of(da)
    low = max(int((lowest - db * x1).max()), -bound)
    high = min(int((highest - db * x1).min()), bound)
    linear = Linear(a, b, (low + high) // 2, near.shift, 0, p.y_min, p.y_max)
    return linear if low <= high and np.array_equal(linear.run(x[:, None], x[None, :]), target) else None


def _room(
    least: npt.NDArray[np.int64], most: npt.NDArray[np.int64], x1: npt.NDArray[np.int64], da: int, reach: int
) -> tuple[int, int, int]:
    """(how many further values c may take, da, db) for the best db, of equals the largest; negative: none."""
    near = np.arange(-reach, reach + 1)
    moves = near[:, None] * x1
    rooms = (most - moves).min(axis=1) - (least - moves).max(axis=1)
    best = len(near) - 1 - int(np.argmax(rooms[::-1]))
    return int(rooms[best]), da, int(near[best])


def has_linear_form(site: Site) -> bool:
    """scales for which (a*x0 + b*x1 + c) >> s is exact"""
    return is_s8(site) and linear_form(_prepare(site)) is not None


def _prepare(site: Site) -> Sum:
    return prepare_sum(site, -1 if site.node.op == "sub" else 1)


def lower_linear(site: Site, p: Sum) -> Call:
    """tc_add_linear_s8: two multiplications, a shift and a clamp per element."""
    form = linear_form(p)
    if form is None:
        raise TinycError("no exact linear form", site.node.where)
    fields = {
        **loop_fields(site),
        "a": form.a,
        "b": form.b,
        "c": form.c,
        "shift": form.shift,
        "y_zero": form.y_zero,
        "y_min": form.y_min,
        "y_max": form.y_max,
    }
    return Call(arguments(site), Struct("tc_add_linear_s8_t", fields))


def lower_even(site: Site, p: Sum) -> Call:
    """tc_add_even_s8: one sum of products, rounded to even."""
    if not isinstance(p, Even):
        raise TinycError("only sums of ONNX numerics round to even", site.node.where)
    names = ("a", "b", "c", "shift", "y_zero", "y_min", "y_max")
    fields = {**loop_fields(site), **{name: getattr(p, name) for name in names}}
    return Call(arguments(site), Struct("tc_add_even_s8_t", fields))


def lower_rescaled(site: Site, p: Sum) -> Call:
    """tc_add_s8: both inputs and the sum rescaled."""
    if not isinstance(p, Rescaled):
        raise TinycError("a linear sum has its own kernel", site.node.where)
    names = ("x0_zero", "x1_zero", "x0_mult", "x0_shift", "x1_mult", "x1_shift", "sign", "mult", "shift")
    fields = {
        **loop_fields(site),
        **{name: getattr(p, name) for name in (*names, "y_zero", "y_min", "y_max")},
        "rounds": 2 if p.rounding is Rounding.DOUBLE else 1,
    }
    return Call(arguments(site), Struct("tc_add_s16_t" if is_s16(site) else "tc_add_s8_t", fields))


def _rescaled(site: Site, p: Sum) -> Rescaled:
    if not isinstance(p, Rescaled):
        raise TinycError("a linear sum has its own kernel", site.node.where)
    return p


def lower_rescaled_vectors(site: Site, p: Sum) -> Call:
    """tc_add_s8_mve, tc_add_s16_mve: both inputs and the sum rescaled, four elements at a time."""
    r = _rescaled(site, p)
    wide, times = is_s16(site), "twice" if r.rounding is Rounding.DOUBLE else "once"
    fields: dict[str, int | float | str | Const] = {"of": f"tc_add_mve_{times}_{16 if wide else 8}"}
    terms = ((r.x0_zero, r.x0_mult, r.x0_shift), (r.x1_zero, r.x1_mult, r.x1_shift))
    for k, (zero, mult, shift) in enumerate(terms):
        scaling = {"start": -zero << r.left, "mult": mult, "shifts": int(shift < 0), "shift": shift}
        fields |= {f"line.x{k}_{name}": value for name, value in scaling.items()}
    names = ("sign", "mult", "shift", "y_zero", "y_min", "y_max")
    fields |= {f"line.{name}": getattr(r, name) for name in names} | {"line.power": 1 << r.left}
    return Call(arguments(site), Struct("tc_add_mve_t", loop_fields(site) | fields))


def cost_rescaled_vectors(site: Site, p: Sum) -> Cost:
    """Counted from the assembly, and what C around it takes as measured; to 10 %."""
    twice = _rescaled(site, p).rounding is Rounding.DOUBLE
    inner = loops(site.x(0).shape, site.x(1).shape)[-1]
    lines, fours = site.y().elements // inner.size, -(-inner.size // 4)
    repeats = 0 if inner.step0 and inner.step1 else min(inner.size, 64) * 2 // 5
    calls = -(-inner.size // 64) if repeats else 1
    line = Work(5, 8) + repeats * Work(1, 1) + calls * Work(26, 55)
    whole = lines * (fours * (Work(22, 43) if twice else Work(16, 31)) + line) + Work(40, 50)
    return Cost(whole.instructions, 500, 0, whole.cycles)


def scales_down(site: Site) -> bool:
    """a scale of the sum below a quarter of its step"""
    p = _prepare(site)
    return isinstance(p, Rescaled) and p.shift <= -2


def is_plain(site: Site) -> bool:
    """scales with an exact linear form, no clamp inside the int8 range"""
    form = linear_form(_prepare(site)) if is_s8(site) else None
    return form is not None and (form.y_zero, form.y_min, form.y_max) == (0, -128, 127)


def _form(p: Sum) -> Linear:
    form = linear_form(p)
    assert form is not None  # `is_plain` has asked
    return form


_FINISH = ("shift", "y_zero", "y_min", "y_max")
_FIELDS = ("a", "b", "c")
_STRUCT = "tc_sum_s8_t"


def _sum(site: Site) -> tuple[LoopLines, Node]:
    """LoopLines, and c + a * x0 + b * x1, what is one number in a line first."""
    lines, _ = lines_of(site)
    first, other = (Element(0), Param("a")), (Element(1, lines.one), Param("b"))
    total: Node = Param("c")
    for x, factor in (other, first) if lines.one else (first, other):
        total = AddProduct(total, x, factor)
    return lines, total


def _loop(site: Site, p: Sum, name: str) -> LoopFunction:
    """The loop for every layer with this shift."""
    (lines, total), shift = _sum(site), _form(p).shift
    x1 = "x1[0]" if lines.one else "x1[i]"
    says = f"y[i] = saturate((a * x0[i] + b * {x1} + c) >> {shift}) to int8; y may be x0 or x1."
    own = f"{name}{'_one' * lines.one}_{shift}"
    return LoopFunction(own, says, Saturate(total, shift), _STRUCT, _FIELDS, lines)


def dsp_loop(site: Site, p: Sum) -> LoopFunction:
    return _loop(site, p, "tc_add_linear_s8_asm")


def helium_loop(site: Site, p: Sum) -> LoopFunction:
    return _loop(site, p, "tc_add_linear_s8_mve")


def vectors_loop(site: Site, p: Sum) -> LoopFunction:
    """The loop of all layers: every number is a field."""
    lines, total = _sum(site)
    root = Saturate(total, *(Param(name) for name in _FINISH))
    name, fields = f"tc_add_linear_s8_rvv{'_one' * lines.one}", (*_FIELDS, *_FINISH)
    says = "y[i] = clamp(((a * x0[i] + b * x1[i] + c) >> shift) + y_zero, y_min, y_max); y may be x0 or x1."
    return LoopFunction(name, says, root, "tc_sum_clamped_s8_t", fields, lines)


def _lower_loop(site: Site, p: Sum, struct: str, names: tuple[str, ...]) -> Call:
    """The call of a line's function, or of the one that calls it."""
    form, (lines, swaps) = _form(p), lines_of(site)
    if swaps:
        form = replace(form, a=form.b, b=form.a)
    params, x0, x1, y = arguments(site)
    fields = {"n": lines.size, **{name: getattr(form, name) for name in names}}
    return Call((params, x1, x0, y) if swaps else (params, x0, x1, y), Struct(struct, fields))


def lower_loop(site: Site, p: Sum) -> Call:
    """tc_add_linear_s8_asm and tc_add_linear_s8_mve: the shift is in the function."""
    return _lower_loop(site, p, _STRUCT, _FIELDS)


def leaves_room(site: Site) -> bool:
    """a shift of at most 24, and room in int32 for half a step of the output"""
    form = linear_form(_prepare(site))
    if form is None or form.shift not in helium.SHIFTS:
        return False
    return 128 * (abs(form.a) + abs(form.b)) + abs(form.c) + helium.offset(form.shift) < 2**31


def lower_vectors(site: Site, p: Sum) -> Call:
    """tc_add_linear_s8_rvv: a vector at a time."""
    return _lower_loop(site, p, "tc_sum_clamped_s8_t", (*_FIELDS, *_FINISH))


def is_rescaled(site: Site) -> bool:
    """a sum that is not linear by definition"""
    return is_s8(site) and isinstance(_prepare(site), Rescaled)


def lower_even_wide(site: Site, p: Sum) -> Call:
    """tc_add_even_s16: a 64-bit sum of products, rounded to even."""
    if not isinstance(p, Even):
        raise TinycError("only sums of ONNX numerics round to even", site.node.where)
    names = ("a", "b", "shift", "y_zero", "y_min", "y_max")
    fields: dict[str, int | float | str | Const] = {
        **loop_fields(site),
        **{name: getattr(p, name) for name in names},
        "c": Const(np.array([p.c], np.int64), "[1] the offset", "c"),
    }
    return Call(arguments(site), Struct("tc_add_even_s16_t", fields))


def is_wide_even(site: Site) -> bool:
    """int16 inputs and output, numerics onnx"""
    return site.numerics is Numerics.ONNX and is_any_s16(site)


def is_wide_rescaled(site: Site) -> bool:
    """int16 inputs and output, zero points 0, numerics other than onnx"""
    return site.numerics is not Numerics.ONNX and is_s16(site)


def is_even(site: Site) -> bool:
    """a sum that rounds halves to even, as ONNX says"""
    return is_s8(site) and isinstance(_prepare(site), Even)


def has_short_factors(site: Site) -> bool:
    """factors of the exact linear form below 2^23"""
    form = linear_form(_prepare(site))
    return form is not None and max(abs(form.a), abs(form.b)) < dsp.FACTORS


_VECTORS = offered(lower_rescaled_vectors, cost=cost_rescaled_vectors)
KERNELS = (
    *NUMBER_KERNELS,
    loop_kernel("tc_add_linear_s8_mve", HELIUM, helium_loop, lower_loop, (is_s8, few_loops, is_plain, leaves_room)),
    loop_kernel("tc_add_linear_s8_asm", DSP, dsp_loop, lower_loop, (is_s8, few_loops, is_plain, has_short_factors)),
    loop_kernel("tc_add_linear_s8_rvv", VECTORS, vectors_loop, lower_vectors, (is_s8, few_loops, has_linear_form)),
    pair_kernel("tc_add_linear_s8", lower_linear, is_s8, has_linear_form),
    Kernel("tc_add_s8_mve", _VECTORS, isa=frozenset({"mve"}), when=(is_s8, few_loops, scales_down), inplace=(0, 1)),
    pair_kernel("tc_add_s8", lower_rescaled, is_s8, is_rescaled),
    Kernel(
        "tc_add_s16_mve",
        _VECTORS,
        isa=frozenset({"mve"}),
        when=(is_wide_rescaled, few_loops, scales_down),
        inplace=(0, 1),
    ),
    pair_kernel("tc_add_s16", lower_rescaled, is_wide_rescaled),
    pair_kernel("tc_add_even_s16", lower_even_wide, is_wide_even),
    pair_kernel("tc_add_even_s8", lower_even, is_s8, is_even),
)
