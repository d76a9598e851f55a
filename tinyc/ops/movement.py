# SPDX-License-Identifier: Apache-2.0
"""What the operators that only move elements (pad, concat, transpose) share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Value
from tinyc.kernel.kernel import Arg, Const, In
from tinyc.kernel.site import Site


def element_bytes(value: Value) -> int:
    """Bytes of one element of the tensor in the arena."""
    return value.size_bytes // value.elements if value.elements else 1


CopyLoop = tuple[int, int]
"""Size, and step in what is copied."""


def joined(loops: Iterable[CopyLoop]) -> list[CopyLoop]:
    """Loops, outermost first, without those of size 1; neighbours that go on where the other ends are one."""
    nest: list[CopyLoop] = []
    for size, step in loops:
        if size == 1:
            continue
        if nest and nest[-1][1] == size * step:
            nest[-1] = (nest[-1][0] * size, step)
        else:
            nest.append((size, step))
    return nest


def copied_runs(loops: Iterable[CopyLoop], width: int) -> tuple[list[CopyLoop], int]:
    """(those `joined` that go from run to run, bytes of a run), of loops with steps in bytes over elements of `width`
    bytes."""
    nest = joined(loops)
    return (nest[:-1], width * nest[-1][0]) if nest and nest[-1][1] == width else (nest, width)


def need_one_quant(site: Site, names: Sequence[str] | None = None) -> None:
    """Raise TinycError unless every input (or those of these names) has the output's dtype and quantization."""
    y = site.y()
    for name in site.node.inputs if names is None else names:
        x = site.graph.values[name]
        if x.dtype != y.dtype or x.quant != y.quant:
            raise TinycError(
                f"{site.node.op}: '{x.name}' and '{y.name}' differ in dtype or quantization",
                site.node.where,
                "the operator moves bytes; a requantize before it makes the inputs alike",
            )


def tensor_argument(site: Site, index: int) -> Arg:
    """Input `index` as an argument of a kernel call, whether it is computed or constant; truth values as bytes."""
    if not site.is_const(index):
        return In(index)
    shape, array = ",".join(map(str, site.x(index).shape)), site.const(index)
    return Const(array.astype(np.uint8) if array.dtype == np.bool_ else array, f"[{shape}]", "x")


def normal_axis(axis: int, rank: int, op: str) -> int:
    """The axis counted from the front; TinycError if it lies outside the rank."""
    if not -rank <= axis < rank:
        raise TinycError(f"{op} along axis {axis} of a tensor of rank {rank} is not possible")
    return axis % rank
