# SPDX-License-Identifier: Apache-2.0
"""Placement from both ends: scratch ends at the top of the arena, rows are stacked from the bottom.

Scratch has any size, rows mostly have one. Where first fit stacks rows on scratch they come to lie at many distances,
and what a dead row leaves fits none of the next; with scratch at the other end, rows take each other's places.
"""

from __future__ import annotations

from collections.abc import Collection

from tinyc.plan.blocks import Layout
from tinyc.plan.ceiling import CeilingFit

_STEP = 128  # parts of the lower bound: heights closer than that are not told apart


def place_from_ends(
    layout: Layout, top: Collection[int], lower_bound: int, below: int, work: int
) -> tuple[int, ...] | None:
    """An offset for every block, with a height less than `below`; None if none is found. Deterministic.

    top: blocks that end at the height, no two of which are alive together. Heights are tried by bisection, then from
    `lower_bound` up. work: pairs of blocks looked at, at most about that many.
    """
    search = CeilingFit(layout, top, work)

    def within(height: int) -> list[int] | None:
        blocks = layout.blocks
        return search.within(height, {i: (height - blocks[i].size) // blocks[i].align * blocks[i].align for i in top})

    best = within(below - 1) if search.rest and top else None
    if best is None:
        return None
    step = max(lower_bound // _STEP, 1)
    low, high = lower_bound, below - 1
    while high - low > step and search.work > 0:
        middle = (low + high) // 2
        offsets = within(middle)
        low, high, best = (middle + 1, high, best) if offsets is None else (low, middle, offsets)
    for limit in range(lower_bound, high, step):  # orders may serve a height and not a larger one
        offsets = within(limit) if search.work > 0 else None
        if offsets is not None:
            return tuple(offsets)
    return tuple(best)
