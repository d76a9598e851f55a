# SPDX-License-Identifier: Apache-2.0
"""units: the same integers in other units, which may differ from index to index of an axis. A view: no kernel runs.

An output with one scale is too coarse for its small quantities. Before the units all quantities are about as large, so
that the integers tell all of them well; the units say what the integers of each quantity mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Quant, Shape, Value
from tinyc.kernel.site import Site, Type
from tinyc.ops.batched import Batched
from tinyc.ops.op import Channels, InUnits, Observed, Op, Trait


@dataclass(frozen=True, slots=True)
class ChannelUnits:
    """y = x * factors, one for each index of an axis, which is counted from the last one as -1."""

    factors: tuple[float, ...]
    axis: int = -1

    def along(self, rank: int) -> Array:
        """The factors as they broadcast against a tensor of so many axes; float32."""
        shape = [1] * rank
        shape[self.axis] = -1
        return np.array(self.factors, np.float32).reshape(shape)

    def quant_of(self, x: Quant) -> Quant:
        """What the integers of an input with one scale mean in the output."""
        scale, zero = x.per_tensor
        scales = tuple(float(np.float32(scale * factor)) for factor in self.factors)
        return Quant(scales, (zero,) * len(scales), self.axis)


def infer(a: ChannelUnits, x: Value) -> Sequence[Type]:
    return [Type(x.shape, x.dtype)]


def float_ref(a: ChannelUnits, x: Array) -> tuple[Array, ...]:
    return (x * a.along(x.ndim),)


def prepare(site: Site) -> Shape:
    x, y = site.x(0), site.y()
    if x.quant is None or y.quant != site.attrs.quant_of(x.quant):
        raise TinycError(f"'{y.name}' is not '{x.name}' in other units", site.node.where)
    return y.shape


def int_ref(p: Shape, x: Array) -> tuple[Array, ...]:
    return (x,)


def channels(a: ChannelUnits, x: Value, y: Value) -> Channels:
    return np.arange(y.channels)


OP = Op(
    name="units",
    attrs=ChannelUnits,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Observed(),),
    quant_out=(InUnits(),),
    kernels=(),
    view=True,
    channels=channels,
    traits=frozenset({Trait.MONOTONE, Trait.INT16, Trait.ANY_TYPE}),
    batched=Batched(lambda a, x: x * a.along(x.ndim - 1), lambda a, inputs, y, dy: (dy * a.along(y.ndim - 1),)),
)
