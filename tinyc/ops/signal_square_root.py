# SPDX-License-Identifier: Apache-2.0
"""signal_square_root: the nearest integer to the root of each sum of a filter bank, then >> s, the scale of the FFT.

x uint64 [C], s int32 [] -> uint32 [C]. Roots that would round up to 2^16 stay below while x < 2^32, and those that
would round up to 2^32 stay below it, as in TensorFlow Lite Micro.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, of_elements
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, need_length, no_reals

_LOW = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True, slots=True)
class SignalSquareRoot:
    """No attributes."""


def infer(a: SignalSquareRoot, x: Value, shift: Value) -> Sequence[Type]:
    need(x, "the input", "u64")
    need(shift, "the number of bits", "s32")
    need_length(shift, "the number of bits", 1)
    return [Type(x.shape, "u32")]


@dataclass(frozen=True, slots=True)
class RootParams:
    """Nothing is prepared."""


def prepare(site: Site) -> RootParams:
    return RootParams()


def roots(x: Array) -> Array:
    """uint64 -> uint64: the nearest integers."""
    estimate = np.minimum(np.sqrt(x.astype(np.float64)), 2.0**32 - 1).astype(np.uint64)  # one too many, or too few
    estimate -= estimate * estimate > x
    estimate += (estimate < _LOW) & (x - estimate * estimate > 2 * estimate)
    top = np.where(x <= _LOW, np.uint64(0xFFFF), _LOW)
    rounded: Array = estimate + ((x - estimate * estimate > estimate) & (estimate != top))
    return rounded


def int_ref(p: RootParams, x: Array, shift: Array) -> tuple[Array, ...]:
    return ((roots(x) >> np.uint64(int(shift.reshape(())) & 31)).astype(np.uint32),)


def lower(site: Site, p: RootParams) -> Call:
    shift = Const(site.const(1).reshape(-1), "[1]", "shift") if site.is_const(1) else In(1)
    return Call((In(0), shift, site.y().elements, Out()))


OP = Op(
    name="signal_square_root",
    attrs=SignalSquareRoot,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(name, offered(lower, cost=CountedCost(name, of_elements)), isa=isa, inplace=(0,), shrinks=True)
        for name, isa in (
            ("tc_signal_square_root_u64_dsp", frozenset({"dsp"})),
            ("tc_signal_square_root_u64", frozenset[str]()),
        )
    ),
    traits=frozenset({Trait.ANY_TYPE}),
)
