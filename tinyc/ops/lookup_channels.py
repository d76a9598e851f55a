# SPDX-License-Identifier: Apache-2.0
"""lookup_channels: y[.., c] = table[c][x[.., c]], a function of one 8-bit input for each channel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.counted import counted_kernel, of_last_axis
from tinyc.kernel.kernel import Call, Const, In, Kernel, Out
from tinyc.kernel.site import Site, Type, elementwise
from tinyc.loops.expression import Element, TableEntry
from tinyc.loops.lines import LoopLines
from tinyc.loops.written import WORD_CORES, LoopCore, LoopFunction, loop_kernel
from tinyc.ops.op import Op, Unquantized
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


def is_s8_to_s8(site: Site) -> bool:
    """int8 input and output"""
    return (site.x(0).dtype, site.y().dtype) == ("s8", "s8")


def _loop(site: Site, p: Table, core: str) -> LoopFunction:
    """The loop of a pixel."""
    x = site.x(0)
    pixels, channels = x.elements // x.shape[-1], x.shape[-1]
    root = TableEntry(Element(1), Element(0))
    says = "y[i] = entry 128 + x0[i] of table i, 256 bytes each, from x1 on; y may be x0."
    lines = LoopLines(((pixels, channels, 0),) if pixels > 1 else (), channels)
    return LoopFunction(f"tc_lut_channels_s8_{core}", says, root, "", (), lines, p.lut.nbytes)


def lower_loop(site: Site, p: Table) -> Call:
    """The call of the loop."""
    table = Const(np.roll(p.lut, 128, axis=1), "[channels][256] by the input + 128", "lut")
    return Call((site.x(0).shape[-1], In(0), table, Out()))


def _in_words(core: str, on: LoopCore) -> Kernel:
    return loop_kernel(
        f"tc_lut_channels_s8_{core}",
        on,
        lambda site, p: _loop(site, p, core),
        lower_loop,
        (is_s8_to_s8,),
        inplace=(0,),
    )


OP = Op(
    name="lookup_channels",
    attrs=LookupChannels,
    infer=infer,
    float_ref=no_reals,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Unquantized(), Unquantized()),
    quant_out=(Unquantized(),),
    kernels=(
        *(_in_words(ending, on) for ending, on in WORD_CORES.items()),
        counted_kernel("tc_lut_channels_s8", lower, of_last_axis, when=(is_byte_to_byte,), inplace=(0,)),
    ),
    rowwise=elementwise,
)
