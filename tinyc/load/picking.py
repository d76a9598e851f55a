# SPDX-License-Identifier: Apache-2.0
"""Gather with constant indices, and Tile, as what they move: shared by both loaders."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tinyc.ir.graph import Shape
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.pick import Pick
from tinyc.ops.slice import Slice, whole


def picked(shape: Shape, axis: int, indices: Sequence[int]) -> Slice | Pick:
    """What takes these indices of the axis: a slice where they are in step, else a pick.

    Indices count from the end where they are negative. ValueError if there are none, or one lies outside.
    """
    size = shape[axis]
    at = [k + (size if k < 0 else 0) for k in indices]
    if not at or min(at) < 0 or max(at) >= size:
        raise ValueError(f"indices {list(indices[:8])} leave axis {axis} of {list(shape)}")
    steps = {b - a for a, b in itertools.pairwise(at)}
    if len(at) == 1 or (len(steps) == 1 and 0 not in steps):
        return whole(shape, axis, at[0], len(at), steps.pop() if steps else 1)
    return Pick(axis, tuple(at))


def tiled(shape: Shape, times: Sequence[int]) -> tuple[Shape, Broadcast]:
    """(the shape with an axis of size 1 before each that is repeated, the broadcast of that) whose elements are x's,
    repeated `times` along each axis. ValueError if the counts do not fit."""
    if len(times) != len(shape) or min(times, default=1) < 1:
        raise ValueError(f"{list(shape)} repeated {list(times)} times")
    narrow: list[int] = []
    wide: list[int] = []
    for size, count in zip(shape, times, strict=True):
        if count > 1 and size > 1:
            narrow.append(1)
            wide.append(count)
        narrow.append(size)
        wide.append(size if size > 1 else count)
    return tuple(narrow), Broadcast(tuple(wide))
