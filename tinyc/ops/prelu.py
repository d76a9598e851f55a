# SPDX-License-Identifier: Apache-2.0
"""prelu: y = x where x >= 0, x * slope elsewhere, with numpy broadcasting of the slope; on int8."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Rounding
from tinyc.base.requantize import quantize_multiplier, requantize
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel
from tinyc.kernel.float32 import Float32
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, Params, Struct, planned
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.loops.expression import AddProduct, Element, Negative, Param, Plus, Saturate
from tinyc.loops.written import WORD_CORES, LoopCore, LoopFunction
from tinyc.ops.binary import arguments, broadcast_shape, few_loops, float_kernel, is_s8, lines_of, loop_fields, of_pairs
from tinyc.ops.op import Observed, Op

_ASKS = "slopes and scales of which a form with one shift gives every output"
_BITS = 21  # of a factor: nine bits more of a value, and its sums stay within int32
_MOST_SHIFT, _SHIFTS = 22, 3  # the largest, and how many are tried
_NEAR = np.arange(-4, 5)  # what is tried beside the rounded real factors


@dataclass(frozen=True, slots=True)
class Prelu:
    """No attributes: the slope is the second input."""


def infer(a: Prelu, x: Value, slope: Value) -> Sequence[Type]:
    if broadcast_shape(x.shape, slope.shape) != x.shape:
        raise TinycError(f"slopes {list(slope.shape)} do not fit input {list(x.shape)}")
    return [Type(x.shape, x.dtype)]


def float_ref(a: Prelu, x: Array, slope: Array) -> tuple[Array, ...]:
    return (np.where(x >= 0, x, x * slope).astype(np.float32),)


@dataclass(frozen=True, slots=True)
class Slopes:
    """With v = x - x_zero: y = clamp(requantize(v, mult, shift) + y_zero) where v >= 0, else
    clamp(requantize(v * (slope - slope_zero), low_mult, low_shift) + y_zero)."""

    x_zero: int
    slope_zero: int
    mult: int
    shift: int
    low_mult: int
    low_shift: int
    rounding: Rounding
    y_zero: int

    def run(self, x: Array, slope: Array) -> Array:
        v = x.astype(np.int64) - self.x_zero
        high = requantize(v, self.mult, self.shift, self.rounding)
        low = requantize(v * (slope.astype(np.int64) - self.slope_zero), self.low_mult, self.low_shift, self.rounding)
        return np.asarray(np.clip(np.where(v >= 0, high, low) + self.y_zero, -128, 127).astype(np.int8))


def prepare(site: Site) -> Slopes:
    """TinycError unless all are int8, or where a value, scaled up, could leave int32."""
    if not is_s8(site):
        raise TinycError(f"prelu of {site.x(0).dtype}: the integer operator takes int8", site.node.where)
    (x_scale, x_zero), (slope_scale, slope_zero) = site.scale_zero(site.x(0)), site.scale_zero(site.x(1))
    y_scale, y_zero = site.scale_zero(site.y())
    factors = x_scale / y_scale, x_scale * slope_scale / y_scale
    if factors[0] >= 2.0**22 or factors[1] >= 2.0**14:
        raise TinycError(f"prelu scales by {factors[0]:g} and {factors[1]:g}, beyond int32", site.node.where)
    high, low = (quantize_multiplier(factor) for factor in factors)
    return Slopes(x_zero, slope_zero, *high, *low, site.builtin_rounding, y_zero)


def int_ref(p: Slopes, x: Array, slope: Array) -> tuple[Array, ...]:
    return (p.run(x, slope),)


@dataclass(frozen=True, slots=True)
class SlopeForm:
    """With v = x - x_zero: y = saturate((v * factor + c) >> shift), factor = a where v >= 0, else a + more.

    more: by 128 + the slope, of those that there are.
    """

    a: int
    c: int
    shift: int
    more: Array


def slope_form(p: Slopes, slopes: Array) -> SlopeForm | None:
    """A SlopeForm with the same outputs for all inputs and these slopes, None where none is near the real factors."""
    x = np.arange(-128, 128)
    own = np.unique(slopes)
    target = p.run(x[:, None].astype(np.int8), own[None, :]).astype(np.int64)
    v = x - p.x_zero
    high = p.mult * 2.0 ** (p.shift - 31)
    low = p.low_mult * 2.0 ** (p.low_shift - 31) * (own.astype(np.int64) - p.slope_zero)
    most = max(high, float(np.abs(low).max()), 2.0**-_MOST_SHIFT)
    largest = min(_MOST_SHIFT, int(np.floor(_BITS - np.log2(most))))
    for shift in range(largest, max(largest - _SHIFTS, 0), -1):
        factors = [np.rint(real * 2.0**shift).astype(np.int64)[..., None] + _NEAR for real in (np.array([high]), low)]
        up, down = v >= 0, v < 0
        sides = ((v[up], target[up, :1], factors[0]), (v[down], target[down], factors[1]))
        least, greatest = (
            np.concatenate(ends) for ends in zip(*(_offsets(*side, shift) for side in sides), strict=True)
        )
        common = np.zeros(least.shape, np.int64)  # of each factor's least c: how many of all have a factor for it
        for own_least, own_greatest in zip(least, greatest, strict=True):
            common += ((own_least <= least[..., None]) & (least[..., None] <= own_greatest)).any(axis=-1)
        c = int(least.flat[common.argmax()])
        if common.max() == len(least) and abs(c) < 2**30:
            firsts = ((least <= c) & (c <= greatest)).argmax(axis=1)
            a, *lows = np.take_along_axis(np.concatenate(factors), firsts[:, None], axis=1)[:, 0]
            more = np.zeros(256, np.int32)
            more[own.astype(np.int64) + 128] = np.array(lows) - a
            return SlopeForm(int(a), c, shift, more)
    return None


def _offsets(v: Array, target: Array, factors: Array, shift: int) -> tuple[Array, Array]:
    """From where to where c may lie, [slopes, factors], for v [n] to give the target [n, slopes]."""
    base = v[:, None, None] * factors
    t = target[:, :, None]
    least = np.where(t > -128, (t << shift) - base, -(2**31)).max(axis=0, initial=-(2**31))
    greatest = np.where(t < 127, (t + 1 << shift) - 1 - base, 2**31).min(axis=0, initial=2**31)
    return least, greatest


def plan_loop(site: Site, p: Slopes) -> SlopeForm | None:
    """The SlopeForm of constant slopes that repeat in no other way than from line to line."""
    return slope_form(p, site.const(1)) if site.is_const(1) else None


def _loop(form: SlopeForm, site: Site, core: str) -> LoopFunction:
    lines, _ = lines_of(site)
    v, more = Plus(Element(0), Param("less")), Element(1, lines.one, "int32_t")
    root = Saturate(AddProduct(AddProduct(Param("c"), Negative(v), more), v, Param("a")), form.shift)
    slope = "x1[0]" if lines.one else "x1[i]"
    says = f"y[i] = saturate((v * (v < 0 ? a + {slope} : a) + c) >> {form.shift}), v = x0[i] + less; y may be x0."
    name = f"tc_prelu_s8_{core}{'_one' * lines.one}_{form.shift}"
    fields = ("less", "c", "a")
    return LoopFunction(name, says, root, "tc_prelu_words_t", fields, lines, 4 * site.x(1).elements)


def lower_loop(form: SlopeForm, site: Site, p: Slopes) -> Call:
    """The call of the loop; slopes become what they add to the factor."""
    slopes = site.const(1)
    more = Const(form.more[slopes.astype(np.int64) + 128], f"[{slopes.size}] beside a", "slopes")
    fields = {"n": lines_of(site)[0].size, "less": -p.x_zero, "c": form.c, "a": form.a}
    return Call((Params(), In(0), more, Out()), Struct("tc_prelu_words_t", fields))


def _in_words(core: str, on: LoopCore) -> Kernel:
    offer = planned(
        plan_loop,
        _ASKS,
        call=lower_loop,
        cost=lambda form, site, p: _loop(form, site, core).cost(on, site.core),
        special=lambda form, site, p: _loop(form, site, core).written(on, site.core),
    )
    when = (is_s8, few_loops)
    return Kernel(f"tc_prelu_s8_{core}", offer, isa=on.isa, when=when, asks=_ASKS, inplace=(0,), written=True)


def lower(site: Site, p: Slopes) -> Call:
    """tc_prelu_s8: element by element."""
    names = ("x_zero", "slope_zero", "mult", "shift", "low_mult", "low_shift", "y_zero")
    fields = {**loop_fields(site), **{name: getattr(p, name) for name in names}, "rounds": p.rounding.code}
    return Call(arguments(site), Struct("tc_prelu_s8_t", fields))


OP = Op(
    name="prelu",
    attrs=Prelu,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(), Observed()),
    quant_out=(Observed(),),
    kernels=(
        *(_in_words(ending, on) for ending, on in WORD_CORES.items()),
        counted_kernel("tc_prelu_s8", lower, of_pairs, when=(is_s8, few_loops), inplace=(0,)),
        float_kernel("prelu"),
    ),
    rowwise=elementwise,
    float32=Float32(float_ref),
)
