# SPDX-License-Identifier: Apache-2.0
"""impute: x[1,N] with a number of its own for each feature, or one for all, in the place of NaN; before trees only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.kernel.site import Site, Type
from tinyc.ops.op import Kept, Op


@dataclass(frozen=True, slots=True)
class Impute:
    values: tuple[float, ...]


def infer(a: Impute, x: Value) -> Sequence[Type]:
    if x.dtype != "f32" or len(a.values) not in (1, x.channels):
        raise TinycError(f"impute of {x.dtype} {list(x.shape)} with {len(a.values)} values is not possible")
    return [Type(x.shape, "f32")]


def float_ref(a: Impute, x: Array) -> tuple[Array, ...]:
    return (np.where(np.isnan(x), np.array(a.values, np.float32), x),)


def prepare(site: Site) -> Impute:
    raise TinycError(
        "impute: missing values are known to trees alone, integers have none",
        site.node.where,
        "put the numbers in the place of missing values before the model runs",
    )


def int_ref(p: Impute, x: Array) -> tuple[Array, ...]:
    return float_ref(p, x)


OP = Op(
    name="impute",
    attrs=Impute,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Kept(),),
    quant_out=(Kept(),),
    kernels=(),
)
