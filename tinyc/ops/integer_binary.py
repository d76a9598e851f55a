# SPDX-License-Identifier: Apache-2.0
"""integer_binary: y = f(x0, x1) of integers that stand for themselves, or of truth values, with numpy broadcasting.

Results are the low bits of the exact ones, as machines have it. `div` rounds towards zero, `floor` down, `mod` has the
divisor's sign and `rest` the dividend's; a division by 0 gives 0. Of another type than the inputs: a conversion, which
keeps low bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import NUMPY_DTYPE, Array, DType, Value
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, Kernel, Out, SpecializedKernel, offered
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.kernels import plain
from tinyc.ops.binary import broadcast_shape, loops
from tinyc.ops.movement import tensor_argument
from tinyc.ops.op import Op, Trait, Unquantized

PLAIN: tuple[DType, ...] = ("s8", "u8", "s16", "s32", "u16", "u32", "bool")
_UNSIGNED = ("u8", "u16", "u32", "bool")


@dataclass(frozen=True, slots=True)
class IntegerBinary:
    """kind: a key of KINDS. dtype: of the output."""

    kind: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class _Kind:
    """numpy: of int64. c: an expression of p and q; signed: another one where they have a sign."""

    numpy: Callable[[Array, Array], Array]
    c: str
    signed: str = ""


def _divided(a: Array, b: Array) -> Array:
    safe = np.where(b == 0, 1, b)
    return np.where(b == 0, 0, np.sign(a) * np.sign(safe) * (np.abs(a) // np.abs(safe)))


def _floored(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, a // np.where(b == 0, 1, b))


def _rest(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, a - _divided(a, b) * b)


def _mod(a: Array, b: Array) -> Array:
    return np.where(b == 0, 0, a % np.where(b == 0, 1, b))


def _beyond(b: Array) -> Array:
    """Where no shift by so much is defined: everything falls out, to the right all but the sign."""
    return np.asarray((b < 0) | (b > 31))


KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "add": _Kind(lambda a, b: a + b, "(uint32_t)p + (uint32_t)q"),
        "sub": _Kind(lambda a, b: a - b, "(uint32_t)p - (uint32_t)q"),
        "mul": _Kind(lambda a, b: a * b, "(uint32_t)p * (uint32_t)q"),
        "div": _Kind(_divided, "q == 0 ? 0 : p / q", "q == 0 ? 0 : q == -1 ? (int32_t)(0u - (uint32_t)p) : p / q"),
        "floor": _Kind(
            _floored,
            "q == 0 ? 0 : p / q",
            "q == 0 ? 0 : q == -1 ? (int32_t)(0u - (uint32_t)p) : p / q - (p % q != 0 && (p % q < 0) != (q < 0))",
        ),
        "rest": _Kind(_rest, "q == 0 ? 0 : p % q", "q == 0 || q == -1 ? 0 : p % q"),
        "mod": _Kind(
            _mod,
            "q == 0 ? 0 : p % q",
            "q == 0 || q == -1 ? 0 : p % q != 0 && (p % q < 0) != (q < 0) ? p % q + q : p % q",
        ),
        "min": _Kind(np.minimum, "p < q ? p : q"),
        "max": _Kind(np.maximum, "p > q ? p : q"),
        "and": _Kind(lambda a, b: a & b, "p & q"),
        "or": _Kind(lambda a, b: a | b, "p | q"),
        "xor": _Kind(lambda a, b: a ^ b, "p ^ q"),
        "shift_left": _Kind(
            lambda a, b: np.where(_beyond(b), 0, a << np.where(_beyond(b), 0, b)),
            "q > 31 ? 0 : (uint32_t)p << q",
            "(uint32_t)q > 31u ? 0 : (uint32_t)p << q",
        ),
        "shift_right": _Kind(
            lambda a, b: a >> np.where(_beyond(b), 63, b),
            "q > 31 ? 0 : (uint32_t)p >> q",
            "p >> ((uint32_t)q > 31u ? 31 : q)",
        ),
    }
)


def infer(a: IntegerBinary, x0: Value, x1: Value) -> Sequence[Type]:
    if a.kind not in KINDS or a.dtype not in PLAIN or x0.dtype not in PLAIN or x0.dtype != x1.dtype:
        raise TinycError(f"'{a.kind}' of {x0.dtype} and {x1.dtype} to {a.dtype} cannot be compiled")
    return [Type(broadcast_shape(x0.shape, x1.shape), a.dtype)]


def float_ref(a: IntegerBinary, x0: Array, x1: Array) -> tuple[Array, ...]:
    y = KINDS[a.kind].numpy(x0.astype(np.int64), x1.astype(np.int64))
    return (np.asarray(y).astype(NUMPY_DTYPE[a.dtype]),)


def prepare(site: Site) -> IntegerBinary:
    return IntegerBinary(site.attrs.kind, site.attrs.dtype)


def few_loops(site: Site) -> bool:
    """inputs whose repeated axes form at most 6 groups"""
    return len(loops(site.x(0).shape, site.x(1).shape)) <= plain.LOOPS


def specialize(site: Site, p: IntegerBinary) -> SpecializedKernel:
    kind, signed = KINDS[p.kind], site.x(0).dtype not in _UNSIGNED
    nested = [(loop.size, loop.step0, loop.step1) for loop in loops(site.x(0).shape, site.x(1).shape)]
    types = (site.x(0).dtype, site.x(1).dtype, p.dtype)
    expression = kind.signed if signed and kind.signed else kind.c
    return plain.pairwise(f"tc_integer_{p.kind}", f"{p.kind} of {types[0]}", types, nested, expression)


def of_pairs(site: Site, p: IntegerBinary) -> Units:
    """Elements, by what is done with them, and lines."""
    nested = loops(site.x(0).shape, site.x(1).shape)
    return {p.kind: site.y().elements, "line": site.y().elements // (nested[-1].size if nested else 1)}


def lower(site: Site, p: IntegerBinary) -> Call:
    """The function written for the layer."""
    return Call((tensor_argument(site, 0), tensor_argument(site, 1), Out()))


OP = Op(
    name="integer_binary",
    attrs=IntegerBinary,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(own=True),),
    kernels=(
        Kernel(
            "tc_integer_binary",
            offered(lower, cost=CountedCost("tc_integer_binary", of_pairs), specialize=specialize),
            when=(few_loops,),
            written=True,
        ),
    ),
    rowwise=elementwise,
    traits=frozenset({Trait.ANY_TYPE}),
)
