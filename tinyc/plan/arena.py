# SPDX-License-Identifier: Apache-2.0
"""Offsets for the blocks of a layout: first fit in several orders, then annealing over orders.

A long network falls into stretches, which are placed one by one (`stretches.py`). Else:

First fit gives one block after the other the lowest place that the blocks placed so far leave. Some order of
the blocks gives a smallest layout (nearly always: blocks that may start together but not overlap
otherwise can be an exception), so the search is over orders: a few that are known to be good (largest
first, longest-lived first ...), then small changes of the best one around the blocks that make it high.
It stops at the lower bound, or when its work is used up; work is counted, not timed, so the result is the same on every
machine.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from tinyc.plan.blocks import Block, Layout
from tinyc.plan.lowest import lowest_of
from tinyc.plan.stretches import FEWEST, place_by_stretches

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


WORK = 3_000_000  # pairs of blocks looked at: a second or two
THOROUGH = 10 * WORK
TEMPERATURES = (0.06, 0.03, 0.01)  # a rise of this part of the height is accepted with probability 1/e


@lru_cache(maxsize=64)  # a budget of flash tries choices of kernels, of which many ask for the same blocks
def place(layout: Layout, lower_bound: int, work: int = WORK) -> tuple[int, ...]:
    """An offset for every block: aligned, from 0 up, no distance forbidden. Deterministic.

    Aims at the least height; at `lower_bound` it stops at once.
    """
    best: FirstFit | None = None
    for order in _orders(layout.blocks):
        first_fit = FirstFit(layout, order)
        if best is None or first_fit.height < best.height:
            best = first_fit
        if best.height <= lower_bound:
            return tuple(best.offsets)
    assert best is not None
    offsets, order = tuple(best.offsets), list(best.order)
    if len(layout.blocks) >= FEWEST:
        by_stretches = place_by_stretches(layout, lower_bound, offsets, best.height)
        if by_stretches is not None:
            return by_stretches
    most = 300 * len(order) * best.work

    def worthwhile(reached: int) -> int:
        """Less work where there is little to gain (all of it from 5 % on) or little to try."""
        gain = min(1.0, 20 * (reached - lower_bound) / reached)
        return min(int(gain * work), most) // len(TEMPERATURES)

    for seed, temperature in enumerate(TEMPERATURES):
        fit = FirstFit(layout, order)
        for better in _anneal(fit, seed, temperature, lower_bound, worthwhile):
            offsets, order = better, list(fit.order)
    return offsets


def height(layout: Layout, offsets: Sequence[int]) -> int:
    """One past the highest byte in use."""
    return max((at + block.size for at, block in zip(offsets, layout.blocks, strict=True)), default=0)


def greedy_by_size(layout: Layout) -> tuple[int, ...]:
    """The usual planner, to compare with: largest first, each as low as it goes."""
    return tuple(FirstFit(layout, next(_orders(layout.blocks))).offsets)


def _orders(blocks: Sequence[Block]) -> Iterator[list[int]]:
    """Orders worth trying first, largest first among them; ties break on birth, then on place in the list."""
    keys: tuple[Callable[[Block], tuple[int, ...]], ...] = (
        lambda b: (-b.size, b.born),
        lambda b: (-b.size * (b.dies - b.born), b.born),
        lambda b: (b.born - b.dies, -b.size),
        lambda b: (b.born, -b.size),
        lambda b: (-b.dies, -b.size),
    )
    for key in keys:
        yield sorted(range(len(blocks)), key=lambda i: key(blocks[i]))
    yield _busiest_first(blocks)


def _busiest_first(blocks: Sequence[Block]) -> list[int]:
    """The blocks of the step with most live bytes first, largest first, then of the next one ..."""
    load: dict[int, int] = {}
    for block in blocks:
        for step in range(block.born, block.dies):
            load[step] = load.get(step, 0) + block.size
    worst = [max((load[s] for s in range(b.born, b.dies)), default=0) for b in blocks]
    return sorted(range(len(blocks)), key=lambda i: (-worst[i], -blocks[i].size, blocks[i].born))


def _anneal(
    fit: FirstFit, seed: int, temperature: float, lower_bound: int, worthwhile: Callable[[int], int]
) -> Iterator[tuple[int, ...]]:
    """Ever lower offsets, until `lower_bound`, or until its work is what a height as reached is worth.

    The aim is to bring every block below the height reached so far; what is minimised is the sum of how
    far blocks stick out. A move takes a block that sticks out, or one that it rests on, and places it
    before one of its rivals.
    """
    rng = random.Random(seed)
    heat = temperature * fit.height
    limit = fit.height - 1
    too_high = fit.above(limit)
    worth = worthwhile(fit.height)
    while too_high and limit >= lower_bound and fit.work < worth:
        block = rng.choice(too_high)
        while rng.random() < 0.5 and (below := fit.supports(block)):
            block = rng.choice(below)
        ranks = fit.earlier(block)
        fit.work += len(ranks) + 1
        if not ranks:
            continue
        rank = fit.rank[block]
        changed = fit.advance(block, rng.choice(ranks))
        worse = sum(
            max(0, fit.offsets[i] + fit.sizes[i] - limit) - max(0, old + fit.sizes[i] - limit) for i, old in changed
        )
        if worse > 0 and rng.random() >= math.exp(-worse / heat):
            fit.take_back(block, rank, changed)
        elif changed:
            too_high = fit.above(limit)
            if not too_high:
                yield tuple(fit.offsets)
                limit = fit.height - 1
                too_high = fit.above(limit)
                worth = worthwhile(fit.height)
