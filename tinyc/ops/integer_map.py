# SPDX-License-Identifier: Apache-2.0
"""integer_map: int32 arithmetic with constants, element by element: what stands between counts of a signal and int8.

x any integer type of at most 32 bits -> y of the same shape. The steps are done in int32, which wraps; `div` rounds
towards zero, `shr` down. The last conversion keeps the low bits, as a cast in C does.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.counted import counted
from tinyc.kernel.kernel import Call, In, Kernel, Offer, Once, Out, SpecializedKernel
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, no_reals

KINDS: tuple[DType, ...] = ("s8", "s16", "s32", "u32")
_CTYPE = {"s8": "int8_t", "s16": "int16_t", "s32": "int32_t", "u32": "uint32_t"}


@dataclass(frozen=True, slots=True)
class IntegerMap:
    """steps: (add, mul, div, shr, min or max, constant), in order. No steps: a conversion."""

    steps: tuple[tuple[str, int], ...]
    dtype: DType


@dataclass(frozen=True, slots=True)
class _Step:
    """numpy: of int64 that hold int32, wrapped afterwards. c: of `v`, with the constant as `{c}`."""

    numpy: Callable[[Array, int], Array]
    c: str


STEPS: Mapping[str, _Step] = MappingProxyType(
    {
        "add": _Step(lambda v, c: v + c, "(int32_t)((uint32_t)v + (uint32_t){c})"),
        "mul": _Step(lambda v, c: v * c, "(int32_t)((uint32_t)v * (uint32_t){c})"),
        "div": _Step(lambda v, c: np.sign(v) * np.sign(c) * (np.abs(v) // abs(c)), "v / {c}"),
        "shr": _Step(lambda v, c: v >> c, "v >> {c}"),
        "min": _Step(np.minimum, "v < {c} ? v : {c}"),
        "max": _Step(np.maximum, "v > {c} ? v : {c}"),
    }
)


def infer(a: IntegerMap, x: Value) -> Sequence[Type]:
    need(x, "the input", *KINDS)
    if a.dtype not in KINDS:
        raise TinycError(f"integers are not converted to {a.dtype}")
    lo, hi = INT_RANGE["s32"]
    for name, constant in a.steps:
        if name not in STEPS or not lo <= constant <= hi:
            raise TinycError(f"no step '{name}' with {constant} in int32")
        if name == "shr" and not 0 <= constant <= 31:
            raise TinycError(f"a shift by {constant} bits is not possible")
        if name == "div" and constant in (0, -1):
            raise TinycError(
                f"a division by {constant} cannot be compiled", hint="-1 would take the least int32 out of its range"
            )
    return [Type(x.shape, a.dtype)]


def prepare(site: Site) -> IntegerMap:
    return IntegerMap(site.attrs.steps, site.attrs.dtype)


def _wrapped(v: Array) -> Array:
    return v.astype(np.int32).astype(np.int64)


def mapped(p: IntegerMap, x: Array) -> Array:
    """Every step on all elements."""
    v = _wrapped(x.astype(np.int64))
    for name, constant in p.steps:
        v = _wrapped(STEPS[name].numpy(v, constant))
    return v.astype(NUMPY_DTYPE[p.dtype])


def int_ref(p: IntegerMap, x: Array) -> tuple[Array, ...]:
    return (mapped(p, x),)


def special(site: Site, p: IntegerMap) -> SpecializedKernel:
    """tc_integer_map_*: a loop with all constants in it."""
    kind, steps = site.x().dtype, p.steps
    text = ", ".join(f"{name} {constant}" for name, constant in steps) or "a conversion"
    name = f"tc_integer_map_{kind}_{p.dtype}"
    if steps:
        name += f"_{zlib.crc32(repr(steps).encode()):08x}"
    lines = [
        f"/* {kind} -> {p.dtype}, n elements, in place or not: {text} */",
        f"static void {name}(const {_CTYPE[kind]} *x, int32_t n, {_CTYPE[p.dtype]} *y)",
        "{",
        "    for (int32_t i = 0; i < n; i++) {",
        "        int32_t v = (int32_t)x[i];",
        *(f"        v = {STEPS[step].c.format(c=_literal(constant))};" for step, constant in steps),
        f"        y[i] = ({_CTYPE[p.dtype]})v;",
        "    }",
        "}",
    ]
    return SpecializedKernel(name, "\n".join(lines), ("tc_math.h",))


def _literal(constant: int) -> str:
    if constant == INT_RANGE["s32"][0]:
        return "(-2147483647 - 1)"
    return f"({constant})" if constant < 0 else str(constant)


def offer(site: Site, p: IntegerMap) -> Offer:
    """A loop, and what its steps cost."""
    n = site.x().elements
    units = {"element": n, **{name: n * sum(own == name for own, _ in p.steps) for name in STEPS}}
    call = Once(lambda: Call((In(0), n, Out())))
    return Offer(0, counted("tc_integer_map", site, units), call, Once(lambda: special(site, p)))


OP = Op(
    name="integer_map",
    attrs=IntegerMap,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(Kernel("tc_integer_map", offer, inplace=(0,), written=True),),
    traits=frozenset({Trait.ANY_TYPE}),
)
