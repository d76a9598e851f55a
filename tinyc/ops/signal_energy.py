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
from tinyc.kernel.counted import CountedCost, Units
from tinyc.kernel.kernel import Call, In, Kernel, Out, offered
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


def of_bins(site: Site, p: EnergyParams) -> Units:
    """Bins that count, those that are 0, and all of which it is asked."""
    bins, inside = site.y().elements, p.end - p.start
    return {"bin": inside, "zero": bins - inside, "asked": bins if inside < bins else 0}


OP = Op(
    name="signal_energy",
    attrs=SignalEnergy,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=tuple(
        Kernel(name, offered(lower, cost=CountedCost(name, of_bins)), isa=isa, inplace=(0,), shrinks=True)
        for name, isa in (
            ("tc_signal_energy_s16_mve", frozenset({"mve"})),
            ("tc_signal_energy_s16_dsp", frozenset({"dsp"})),
            ("tc_signal_energy_s16", frozenset[str]()),
        )
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
