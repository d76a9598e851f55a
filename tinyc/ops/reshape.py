# SPDX-License-Identifier: Apache-2.0
"""reshape: the same elements in the same order under another shape. A view: no kernel runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Shape, Value
from tinyc.kernel.site import Site, Type
from tinyc.ops.batched import Batched
from tinyc.ops.op import Channels, Observed, Op, SameAs, Trait


@dataclass(frozen=True, slots=True)
class Reshape:
    shape: Shape  # every size known: the loaders resolve -1 and 0


def infer(a: Reshape, x: Value) -> Sequence[Type]:
    if min(a.shape, default=1) < 0 or math.prod(a.shape) != x.elements:
        raise TinycError(f"cannot reshape {list(x.shape)} ({x.elements} elements) to {list(a.shape)}")
    return [Type(a.shape, x.dtype)]


def float_ref(a: Reshape, x: Array) -> tuple[Array, ...]:
    return (x.reshape(a.shape),)


def prepare(site: Site) -> Reshape:
    if site.x(0).quant != site.y().quant:
        raise TinycError("reshape cannot change the quantization of its tensor", site.node.where)
    return Reshape(site.y().shape)


def channels(a: Reshape, x: Value, y: Value) -> Channels | None:
    """A flattened image repeats its channels."""
    return np.arange(y.channels) % x.channels if y.channels % x.channels == 0 else None


OP = Op(
    name="reshape",
    attrs=Reshape,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=float_ref,
    quant_in=(Observed(),),
    quant_out=(SameAs(0),),
    kernels=(),
    view=True,
    channels=channels,
    scales=lambda a: True,
    traits=frozenset({Trait.MOVES, Trait.MONOTONE, Trait.INT16, Trait.ANY_TYPE}),
    batched=Batched(lambda a, x: x.reshape(len(x), *a.shape), lambda a, inputs, y, dy: (dy.reshape(inputs[0].shape),)),
)
