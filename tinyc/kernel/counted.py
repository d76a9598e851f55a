# SPDX-License-Identifier: Apache-2.0
"""What kernels in C cost on each kind of core, as counted there: bench/counted.py runs them and writes counted.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.kernel.kernel import Call, Condition, Cost, Kernel, offered
from tinyc.kernel.site import Site

TABLE = Path(__file__).with_name("counted.json")
CALL, CODE = "call", "code"  # units that all kernels have: a call; bytes of code, once
# Costs are on one scale, that of ARMv7-M: so many of its instructions are one of another core's, in kernels that both
# have.
SCALE: Mapping[str, float] = MappingProxyType({"mve": 1.0, "dsp": 1.0, "thumb2": 1.0, "thumb1": 0.5, "rv32": 0.65})
_PER_BIAS = 12  # bytes: multipliers and shifts of the channel

Units = Mapping[str, int]


def kind_of(isa: frozenset[str]) -> str:
    """The kind of core, a key of SCALE, that compilers make one code for; of another instruction set as ARMv7-M."""
    other = "rv32" if "rv32m" in isa else "thumb2" if isa else "thumb1"
    return next((kind for kind in ("mve", "dsp", "thumb2") if kind in isa), other)


@dataclass(frozen=True, slots=True)
class CountedCost:
    """The cost of a kernel in C: `offered(lower, cost=CountedCost("tc_div_s8", of_pairs))`.

    units: what the kernel repeats at a site, and how often: `element`, `line`. Each takes what was counted; a kernel
    that was not counted on a kind of core cannot be asked (KeyError).
    """

    kernel: str
    units: Callable[[Site, Any], Units]
    data_bytes: int = 0  # of constants that are no inputs of the node

    def __call__(self, site: Site, params: Any) -> Cost:
        return counted(self.kernel, site, self.units(site, params), self.data_bytes)


def counted(kernel: str, site: Site, units: Units, data_bytes: int = 0) -> Cost:
    """What a call of the kernel at the site costs that repeats these. data_bytes: of constants beside the node's."""
    kind = kind_of(site.isa)
    each = counts()[kernel][kind]
    whole = each[CALL] + sum(each[unit] * count for unit, count in units.items())
    arrays = [site.const(i) for i in range(len(site.node.inputs)) if site.is_const(i)]
    consts = sum(array.nbytes + _PER_BIAS * (array.dtype == np.int32) * array.size for array in arrays)
    return Cost(round(SCALE[kind] * whole), consts + data_bytes, 0)


def counted_kernel(
    name: str,
    lower: Callable[[Site, Any], Call],
    units: Callable[[Site, Any], Units],
    when: tuple[Condition, ...],
    inplace: tuple[int, ...] = (),
) -> Kernel:
    """A kernel in C for all cores, with the cost that was counted."""
    return Kernel(name, offered(lower, cost=CountedCost(name, units)), when=when, inplace=inplace)


@cache
def counts() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """The table: kernel, kind of core, unit -> instructions."""
    table: Mapping[str, Mapping[str, Mapping[str, float]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def of_elements(site: Site, params: Any) -> Units:
    """What takes the same for each element of the output."""
    return {"element": site.y().elements}
