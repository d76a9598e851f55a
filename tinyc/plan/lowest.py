# SPDX-License-Identifier: Apache-2.0
"""The lowest place that a block may take beside those that have theirs: what all first fits ask, often."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tinyc.plan.blocks import Ints, Layout

_NOWHERE = -(2**48)  # the place of a block that has none: below all others, so that it is in nobody's way


class Places:
    """Offsets of the blocks of a layout, -1 where they have none, as they are given and taken away."""

    def __init__(self, layout: Layout, fixed: Mapping[int, int]) -> None:
        """fixed: offsets that some blocks have from the start."""
        self.offsets = [-1] * len(layout.blocks)
        self._at = np.full(len(layout.blocks), _NOWHERE, np.int64)
        self._layout, self._align = layout, [block.align for block in layout.blocks]
        for block, offset in fixed.items():
            self.put(block, offset)

    def put(self, block: int, offset: int) -> None:
        self.offsets[block] = self._at[block] = offset

    def clear(self, block: int) -> None:
        self.offsets[block], self._at[block] = -1, _NOWHERE

    def lowest(self, block: int) -> int:
        """The least aligned offset that no block with a place forbids."""
        many, at = self._layout.many[block], self.offsets
        if many is None:
            rivals = self._layout.rivals[block]
            return lowest_of([(at[j] + low, at[j] + high) for j, low, high in rivals if at[j] >= 0], self._align[block])
        others, low, high = many
        there = self._at[others]
        return lowest_of_many(there + low, there + high, self._align[block])


def lowest_of(taken: list[tuple[int, int]], align: int) -> int:
    """The least multiple of `align`, from 0 up, within none of the open intervals."""
    at = 0
    for low, high in sorted(taken):
        if at <= low:
            break
        if at < high:
            at = -(-high // align) * align
    return at


def lowest_of_many(low: Ints, high: Ints, align: int) -> int:
    """The same, of the intervals' ends as arrays."""
    order = low.argsort()
    reached = np.maximum.accumulate(-(-high[order] // align) * align)
    np.maximum(reached, 0, out=reached)
    # Where the next interval begins at or above what is reached, there is room. Before the first one that is 0.
    low = low[order]
    if low[0] >= 0:
        return 0
    free = reached[:-1] <= low[1:]
    return int(reached[free.argmax()]) if free.any() else int(reached[-1])
