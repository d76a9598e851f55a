# SPDX-License-Identifier: Apache-2.0
"""First fit as a structure that can be changed a little: blocks in an order, each as low as those before it allow.

Moving one block in the order changes the offsets of few others; only those are computed again, and
the change can be taken back.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tinyc.plan.blocks import Layout
from tinyc.plan.lowest import lowest_of

Undo = list[tuple[int, int]]  # (block, offset that it had)


class FirstFit:
    """Offsets that follow from an order. `work` counts pairs of blocks looked at, as a clock that every
    machine reads alike."""

    def __init__(self, layout: Layout, order: Sequence[int]) -> None:
        """Place the blocks (indices of layout.blocks) in `order`."""
        self.work = 0
        self.sizes = [block.size for block in layout.blocks]
        self._aligns = [block.align for block in layout.blocks]
        self._apart = layout.rivals
        self.order = list(order)
        self.rank = [0] * len(self.order)
        for rank, block in enumerate(self.order):
            self.rank[block] = rank
        self.offsets = [0] * len(self.order)
        for block in self.order:
            self.offsets[block] = self._lowest(block)

    @property
    def height(self) -> int:
        """One past the highest byte in use."""
        return max((at + size for at, size in zip(self.offsets, self.sizes, strict=True)), default=0)

    def above(self, limit: int) -> list[int]:
        """Blocks that end above `limit`, ascending."""
        return [i for i, at in enumerate(self.offsets) if at + self.sizes[i] > limit]

    def earlier(self, block: int) -> list[int]:
        """Ranks before its own that would change where `block` may go."""
        own = self.rank[block]
        return [self.rank[j] for j, _, _ in self._apart[block] if self.rank[j] < own]

    def supports(self, block: int) -> list[int]:
        """The blocks that keep `block` from going any lower: it rests on them."""
        at, align, own = self.offsets[block], self._aligns[block], self.rank[block]
        return [
            j for j, _, high in self._apart[block] if 0 <= at - self.offsets[j] - high < align and self.rank[j] < own
        ]

    def advance(self, block: int, rank: int) -> Undo:
        """Move a block forward to `rank`; returns what `take_back` needs."""
        before = self.rank[block]
        self._reorder(before, rank)
        pending = {block} | {j for j, _, _ in self._apart[block] if rank < self.rank[j] <= before}
        heap = [(self.rank[j], j) for j in pending]
        heapq.heapify(heap)
        changed: Undo = []
        while heap:
            here, i = heapq.heappop(heap)
            pending.discard(i)
            lowest = self._lowest(i)
            if lowest == self.offsets[i]:
                continue
            changed.append((i, self.offsets[i]))
            self.offsets[i] = lowest
            for j, _, _ in self._apart[i]:
                if self.rank[j] > here and j not in pending:
                    pending.add(j)
                    heapq.heappush(heap, (self.rank[j], j))
        return changed

    def take_back(self, block: int, rank: int, changed: Undo) -> None:
        """Undo `advance`: the block goes back to `rank`."""
        for i, offset in changed:
            self.offsets[i] = offset
        self._reorder(self.rank[block], rank)

    def _reorder(self, before: int, after: int) -> None:
        self.order.insert(after, self.order.pop(before))
        for rank in range(min(before, after), max(before, after) + 1):
            self.rank[self.order[rank]] = rank

    def _lowest(self, block: int) -> int:
        """The least aligned offset that no block of lower rank forbids."""
        offsets, rank, own, align = self.offsets, self.rank, self.rank[block], self._aligns[block]
        self.work += len(self._apart[block]) + 1
        return lowest_of(
            [(offsets[j] + low, offsets[j] + high) for j, low, high in self._apart[block] if rank[j] < own], align
        )
