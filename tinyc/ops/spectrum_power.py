# SPDX-License-Identifier: Apache-2.0
"""spectrum_power: re^2 + im^2 of the bins [start, end) of a spectrum.

x int32 [2 m], real and imaginary parts in turn -> uint64 [end - start].
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import CountedCost, of_elements
from tinyc.kernel.kernel import Call, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import need, no_reals


@dataclass(frozen=True, slots=True)
class SpectrumPower:
    start: int
    end: int


def infer(a: SpectrumPower, x: Value) -> Sequence[Type]:
    need(x, "the spectrum", "s32")
    if len(x.shape) != 1 or not 0 <= a.start < a.end <= x.elements // 2:
        raise TinycError(f"the power of bins {a.start} to {a.end} of a spectrum {list(x.shape)} is not possible")
    return [Type((a.end - a.start,), "u64")]


@dataclass(frozen=True, slots=True)
class PowerParams:
    start: int
    end: int


def prepare(site: Site) -> PowerParams:
    return PowerParams(site.attrs.start, site.attrs.end)


def powers(bins: Array, start: int, end: int) -> Array:
    """Real and imaginary parts int64 [2, m, lines] -> uint64 [end - start, lines]."""
    re, im = bins[:, start:end]
    y: Array = re * re
    y += im * im
    return y.view(np.uint64)


def int_ref(p: PowerParams, x: Array) -> tuple[Array, ...]:
    return (powers(x.astype(np.int64).reshape(-1, 2, 1).swapaxes(0, 1), p.start, p.end)[:, 0],)


def lower(site: Site, p: PowerParams) -> Call:
    return Call((In(0), p.start, p.end, Out()))


def macs(site: Site) -> int:
    return 2 * (site.attrs.end - site.attrs.start)


OP = Op(
    name="spectrum_power",
    attrs=SpectrumPower,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(),),
    quant_out=(Unquantized(),),
    kernels=(
        Kernel(
            "tc_spectrum_power",
            offered(lower, cost=CountedCost("tc_spectrum_power", of_elements)),
            inplace=(0,),
            shrinks=True,
        ),
    ),
    macs=macs,
    traits=frozenset({Trait.ANY_TYPE}),
)
