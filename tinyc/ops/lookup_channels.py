# SPDX-License-Identifier: Apache-2.0
"""lookup_channels: y[.., c] = table[c][x[.., c]], a function of one 8-bit input for each channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.kernel import Call, Const, Cost, In, Kernel, Out, offered
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.ops.op import Kept, Op
from tinyc.ops.signals import no_reals
from tinyc.ops.tables import Table, is_byte_to_byte, need_bytes


@dataclass(frozen=True, slots=True)
class LookupChannels:
    """No attributes: the tables are the second input, [C,256] by the input's unsigned byte."""


def infer(a: LookupChannels, x: Value, table: Value) -> Sequence[Type]:
    if not x.shape or table.shape != (x.shape[-1], 256):
        raise TinycError(f"lookup_channels: '{table.name}' {list(table.shape)} is no table for each channel")
    return [Type(x.shape, table.dtype)]


def prepare(site: Site) -> Table:
    need_bytes(site)
    if not site.is_const(1):
        raise TinycError("the tables of lookup_channels must be a constant", site.node.where)
    return Table(site.const(1))


def int_ref(p: Table, x: Array, *_: Array) -> tuple[Array, ...]:
    return (p.lut[np.arange(x.shape[-1]), x.view(np.uint8)],)


def lower(site: Site, p: Table) -> Call:
    table = Const(p.lut, "[channels][256] by the input's unsigned byte", "lut")
    x = site.x(0)
    return Call((table, In(0), Out(), x.elements // x.shape[-1], x.shape[-1]))


def cost(site: Site, p: Table) -> Cost:
    """An estimate: by elements."""
    return Cost(6 * site.x(0).elements + 20, p.lut.nbytes + 60, 0)


OP = Op(
    name="lookup_channels",
    attrs=LookupChannels,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Kept(), Kept()),
    quant_out=(Kept(),),
    kernels=(Kernel("tc_lut_channels_s8", offered(lower, cost=cost), when=(is_byte_to_byte,), inplace=(0,)),),
    rowwise=elementwise,
)
