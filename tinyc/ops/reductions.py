# SPDX-License-Identifier: Apache-2.0
"""What operators share that make one element of all along some axes (`Trait.REDUCES`)."""

from __future__ import annotations

from collections.abc import Sequence

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.site import Type


@dataclass(frozen=True, slots=True)
class Reduction:
    """The axes; keep_dims: they stay, with size 1."""

    axes: tuple[int, ...]
    keep_dims: bool = False


def reduced_axes(a: Reduction, rank: int) -> tuple[int, ...]:
    """The axes as sorted numbers in [0, rank). TinycError if one is outside."""
    if any(not -rank <= axis < rank for axis in a.axes):
        raise TinycError(
            f"{type(a).__name__.lower()} over axes {list(a.axes)} of a tensor of rank {rank} is not possible"
        )
    return tuple(sorted({axis % rank for axis in a.axes}))


def infer(a: Reduction, x: Value) -> Sequence[Type]:
    """The output's type."""
    axes = reduced_axes(a, len(x.shape))
    if a.keep_dims:
        return [Type(tuple(1 if i in axes else size for i, size in enumerate(x.shape)), x.dtype)]
    return [Type(tuple(size for i, size in enumerate(x.shape) if i not in axes), x.dtype)]
