# SPDX-License-Identifier: Apache-2.0
"""signal_energy: re^2 + im^2 of the bins [start, end) of a spectrum, 0 for the others.

x int16 [2 m], real and imaginary parts in turn -> uint32 [m]. TensorFlow Lite Micro leaves the other bins as they were
in its arena.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, no_reals


@dataclass(frozen=True, slots=True)
class SignalEnergy:
    start: int
    end: int


def infer(a: SignalEnergy, x: Value) -> Sequence[Type]:
    need(x, "the spectrum", "s16")
    if len(x.shape) != 1 or x.elements % 2:
        raise TinycError(f"a spectrum is real and imaginary parts in turn, not a tensor {list(x.shape)}")
    if not 0 <= a.start < a.end <= x.elements // 2:
        raise TinycError(f"the energy of bins {a.start} to {a.end} of a spectrum that has {x.elements // 2}")
    return [Type((x.elements // 2,), "u32")]


@dataclass(frozen=True, slots=True)
class EnergyParams:
    start: int
    end: int


def prepare(site: Site) -> EnergyParams:
    return EnergyParams(site.attrs.start, site.attrs.end)


def energies(x: Array, start: int, end: int) -> Array:
    """int16 [.., 2 m] -> uint32 [.., m]."""
    parts = x.astype(np.int32)
    squares = (parts * parts).view(np.uint32)  # of both -32768: 2^31, which int32 does not hold
    y: Array = squares[..., 0::2] + squares[..., 1::2]
    y[..., :start] = 0
    y[..., end:] = 0
    return y


def int_ref(p: EnergyParams, x: Array) -> tuple[Array, ...]:
    return (energies(x, p.start, p.end),)


def lower(site: Site, p: EnergyParams) -> Call:
    return Call((In(0), site.y().elements, p.start, p.end, Out()))


def macs(site: Site) -> int:
    return 2 * (site.attrs.end - site.attrs.start)


def cost(site: Site, p: EnergyParams) -> Cost:
    return Cost(7 * site.y().elements + 30, 60, 0)


def cost_dsp(site: Site, p: EnergyParams) -> Cost:
    return Cost(4 * site.y().elements + 30, 60, 0)


def cost_mve(site: Site, p: EnergyParams) -> Cost:
    outside = site.y().elements - (p.end - p.start)
    return Cost(3 * (p.end - p.start) // 2 + 3 * outside + 40, 100, 0)


OP = Op(
    name="signal_energy",
    attrs=SignalEnergy,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        Kernel(
            "tc_signal_energy_s16_mve",
            offered(lower, cost=cost_mve),
            isa=frozenset({"mve"}),
            inplace=(0,),
            shrinks=True,
        ),
        Kernel(
            "tc_signal_energy_s16_dsp",
            offered(lower, cost=cost_dsp),
            isa=frozenset({"dsp"}),
            inplace=(0,),
            shrinks=True,
        ),
        Kernel("tc_signal_energy_s16", offered(lower, cost=cost), inplace=(0,), shrinks=True),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
