# SPDX-License-Identifier: Apache-2.0
"""lookup: y = table[x], any function of one 8-bit input; 256 entries by the input's unsigned byte.

What a chain of float operators between DequantizeLinear and QuantizeLinear becomes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.ops.op import Op, Trait, Unquantized
from tinyc.ops.signals import no_reals
from tinyc.ops.tables import TABLE_KERNELS, Table, look_up, need_bytes


@dataclass(frozen=True, slots=True)
class Lookup:
    """No attributes: the table is the second input."""


def infer(a: Lookup, x: Value, table: Value) -> Sequence[Type]:
    if table.shape != (256,):
        raise TinycError(f"a lookup table has 256 entries, '{table.name}' has shape {list(table.shape)}")
    return [Type(x.shape, table.dtype)]


def prepare(site: Site) -> Table:
    need_bytes(site)
    if not site.is_const(1):
        raise TinycError("the table of a lookup must be a constant", site.node.where)
    return Table(site.const(1))


def int_ref(p: Table, x: Array, *_: Array) -> tuple[Array, ...]:
    return look_up(p, x)


OP = Op(
    name="lookup",
    attrs=Lookup,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(), Unquantized()),
    quant_out=(Unquantized(),),
    kernels=TABLE_KERNELS,
    rowwise=elementwise,
    traits=frozenset({Trait.ELEMENTWISE}),
)


def of_bytes(entries: Array) -> Array:
    """Entries for x = 0..127, -128..-1 from those for x = -128..127."""
    return np.roll(entries, -128)
