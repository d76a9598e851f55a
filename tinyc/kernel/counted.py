# SPDX-License-Identifier: Apache-2.0
"""What kernels in C cost on each kind of core, as counted there: bench/counted.py runs them and writes counted.json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Node
from tinyc.kernel.kernel import Call, Condition, Cost, Fetches, Kernel, offered
from tinyc.kernel.site import Site

TABLE = Path(__file__).with_name("counted.json")
CALL, CODE = "call", "code"  # units that all kernels have: a call; bytes of code, once
SIZE = "size"  # what is taken, of that, by code that is compiled for size; missing: as much
# A kind of core with this word has what units take in a library's only layer with the kernel, whose sizes a compiler
# puts into the code; missing: as much.
_ALONE = " alone"
# Costs are on one scale, that of ARMv7-M: so many of its instructions are one of another core's, in kernels that both
# have. rv32v: of kernels that need RISC-V's vectors.
SCALE: Mapping[str, float] = MappingProxyType(
    {"mve": 1.0, "dsp": 1.0, "thumb2": 1.0, "thumb1": 0.5, "rv32": 0.65, "rv32v": 0.65}
)
PACE = 1.5  # cycles of an instruction of compiled C, on a Cortex-M4
_PER_BIAS = 12  # bytes: multipliers and shifts of the channel
_LOOP_BYTES = 40  # of a loop over products

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
    flash: Callable[[Site, Any], int] | None = None  # bytes of constants; None: the node's, and data_bytes
    fetched: str = ""  # the unit for each of which a small loop fetches a word of these; empty: what is usual
    read: str = ""  # the unit for each of which all of these are read; empty: what is usual
    pace: float = PACE  # cycles of an instruction

    def __call__(self, site: Site, params: Any) -> Cost:
        units = self.units(site, params)
        whole = counted(self.kernel, site, units, self.data_bytes)
        if self.flash is not None:
            whole = replace(whole, flash_bytes=self.flash(site, params))
        if self.fetched and whole.flash_bytes:
            fetches = Fetches.around(4 * units[self.fetched], _LOOP_BYTES, whole.instructions)
            whole = replace(whole, fetches=fetches)
        if self.read:
            whole = replace(whole, fetches=Fetches(whole.flash_bytes * units[self.read]))
        return replace(whole, cycles=round(self.pace * whole.instructions))


def counted(kernel: str, site: Site, units: Units, data_bytes: int = 0) -> Cost:
    """What a call of the kernel at the site costs that repeats these. data_bytes: of constants beside the node's."""
    scale, each = _on(kernel, site)
    whole = each[CALL] + sum(each[unit] * count for unit, count in units.items())
    arrays = [site.const(i) for i in range(len(site.node.inputs)) if site.is_const(i)]
    consts = sum(array.nbytes + _PER_BIAS * (array.dtype == np.int32) * array.size for array in arrays)
    return Cost(round(scale * whole), consts + data_bytes, 0)


class CountedShares(NamedTuple):
    """Of a kernel at a site: instructions of the core for one that its cost says; what it takes where it is compiled
    for size, of what is said of it."""

    instructions: float
    for_size: float


def counted_at(kernel: str, site: Site) -> CountedShares | None:
    """None of a kernel whose cost is not counted."""
    if kernel not in counts():
        return None
    scale, each = _on(kernel, site)
    return CountedShares(1 / scale, each.get(SIZE, 1.0))


def is_alone(site: Site) -> bool:
    """Whether it is likely that no other layer has the kernel: the one layer of fewest outputs of its operator.
    Where layers have kernels of different speed, C that runs any shape is worth its time for that one."""
    sizes = {node.name: _outputs(site, node) for node in site.graph.nodes if node.op == site.node.op}
    own = sizes.pop(site.node.name)
    return all(own < size for size in sizes.values())


def _outputs(site: Site, node: Node) -> int:
    """Elements."""
    return math.prod(site.graph.values[node.outputs[0]].shape)


def counted_each(kernel: str, unit: str, site: Site) -> float:
    """Instructions of ARMv7-M that one of the units takes."""
    scale, each = _on(kernel, site)
    return scale * each[unit]


def _on(kernel: str, site: Site) -> tuple[float, Mapping[str, float]]:
    """The scale of the site's kind of core, and what was counted there, perhaps alone; of a kernel for few cores, on
    one of these."""
    own, kind = counts()[kernel], kind_of(site.isa)
    kind = kind if kind in own else next(iter(own))
    alone = alone_on(kind)
    return SCALE[kind], own[alone] if alone in own and is_alone(site) else own[kind]


def alone_on(kind: str) -> str:
    """The key of what a kernel takes alone in a library, on cores of a kind."""
    return kind + _ALONE


def counted_kernel(
    name: str,
    lower: Callable[[Site, Any], Call],
    units: Callable[[Site, Any], Units],
    when: tuple[Condition, ...],
    inplace: tuple[int, ...] = (),
) -> Kernel:
    """A kernel in C for all cores, with the cost that was counted."""
    return Kernel(name, offered(lower, cost=CountedCost(name, units)), when=when, inplace=inplace)


def counts() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """The table: kernel, kind of core, unit -> instructions."""
    table: Mapping[str, Mapping[str, Mapping[str, float]]] = measured_table(TABLE)
    return table


@cache
def measured_table(table: Path) -> Any:
    """What a file of the package has that a run of bench/ measured; it is read once."""
    return json.loads(table.read_text(encoding="utf-8"))


def of_elements(site: Site, params: Any) -> Units:
    """What takes the same for each element of the output."""
    return {"element": site.y().elements}


def of_last_axis(site: Site, params: Any) -> Units:
    """Elements, and the lines along the last axis in which they lie."""
    return {"element": site.x(0).elements, "line": site.x(0).elements // site.x(0).shape[-1]}
