"""batch_norm: y = gamma * (x - mean) / sqrt(variance + epsilon) + beta, per last axis. Float only.

Passes fold it into the layer before or after; an integer graph has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tinyc.errors import TinycError
from tinyc.ir.graph import Array, Value
from tinyc.ops.base import Kept, Op, Site, Type


@dataclass(frozen=True, slots=True)
class BatchNorm:
    epsilon: float = 1e-5


def infer(a: BatchNorm, x: Value, gamma: Value, beta: Value, mean: Value, variance: Value) -> Sequence[Type]:
    for value in (gamma, beta, mean, variance):
        if value.shape != x.shape[-1:]:
            raise TinycError(f"batch_norm of {list(x.shape)}: '{value.name}' has shape {list(value.shape)}")
    return [Type(x.shape, x.dtype)]


def float_ref(a: BatchNorm, x: Array, gamma: Array, beta: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
    factor = gamma / np.sqrt(variance + np.float32(a.epsilon))
    return (((x - mean) * factor + beta).astype(np.float32),)


def prepare(site: Site) -> None:
    raise TinycError(
        "batch_norm has no integer form",
        site.node.where,
        "it is folded into the convolution before or after it; here there is none that could take it",
    )


def int_ref(p: None, *arrays: Array) -> tuple[Array, ...]:
    raise TinycError("batch_norm has no integer form")


OP = Op(
    name="batch_norm",
    attrs=BatchNorm,
    infer=infer,
    float_ref=float_ref,
    prepare=prepare,
    int_ref=int_ref,
    quant_in=(Kept(),) * 5,
    quant_out=(Kept(),),
    kernels=(),
)
