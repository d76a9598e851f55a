"""Offsets for the blocks of a layout: first fit in several orders, then hill climbing.

First fit gives one block after the other the lowest place that the blocks placed so far leave. Any layout can
be reached by some order of the blocks, so the search is over orders: a few that are known to
be good (largest first, longest-lived first ...), then small changes of the best one around the blocks that
make it high. It stops at the lower bound, or when its work is used up; work is counted, not timed, so
the result is the same on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from tinyc.plan.lifetimes import Block, Layout
from tinyc.plan.live import round_up

WORK = 3_000_000  # pairs of blocks looked at: some seconds


def place(layout: Layout, lower_bound: int, work: int = WORK) -> tuple[int, ...]:
    """An offset for every block: aligned, from 0 up, no distance forbidden. Deterministic.

    Aims at the least height; at `lower_bound` it stops at once.
    """
    best: tuple[int, ...] | None = None
    best_order: list[int] = []
    for order in _orders(layout.blocks):
        offsets = first_fit(layout, order)
        if best is None or height(layout, offsets) < height(layout, best):
            best, best_order = offsets, order
        if height(layout, best) <= lower_bound:
            return best
    assert best is not None
    cost = len(layout.blocks) + sum(len(others) for others in layout.forbidden)
    return _climb(layout, best_order, best, lower_bound, work // max(cost, 1))


def height(layout: Layout, offsets: Sequence[int]) -> int:
    """One past the highest byte in use."""
    return max((offset + block.size for offset, block in zip(offsets, layout.blocks, strict=True)), default=0)


def first_fit(layout: Layout, order: Sequence[int]) -> tuple[int, ...]:
    """Offsets when blocks are placed in `order` (indices), each as low as those before it allow."""
    offsets: list[int | None] = [None] * len(layout.blocks)
    for i in order:
        taken = []
        for j, intervals in layout.forbidden[i].items():
            base = offsets[j]
            if base is not None:
                taken += [(base + low, base + high) for low, high in intervals]
        taken.sort()
        offsets[i] = _lowest(taken, layout.blocks[i].align)
    return tuple(offset for offset in offsets if offset is not None)


def _lowest(taken: Sequence[tuple[int, int]], align: int) -> int:
    """The least multiple of `align` in none of the open intervals, which are sorted."""
    at = 0
    for low, high in taken:
        if at <= low:
            return at
        if at < high:
            at = round_up(high, align)
    return at


def _orders(blocks: Sequence[Block]) -> Iterator[list[int]]:
    """Orders worth trying first; ties break on birth, then on place in the list."""
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


def _climb(
    layout: Layout, order: list[int], offsets: tuple[int, ...], lower_bound: int, rounds: int
) -> tuple[int, ...]:
    """Swap blocks that hold up the highest one with earlier ones, keeping what does no harm."""
    rng = random.Random(0)
    best = offsets
    current_height = height(layout, offsets)
    for _ in range(rounds):
        if height(layout, best) <= lower_bound:
            break
        culprits = _culprits(layout, offsets)
        trial = list(order)
        a = trial.index(rng.choice(culprits))
        b = rng.randrange(len(trial)) if rng.random() < 0.3 else rng.randrange(a + 1)
        block = trial.pop(a)
        trial.insert(b, block)
        tried = first_fit(layout, trial)
        tried_height = height(layout, tried)
        if tried_height <= current_height:
            order, offsets, current_height = trial, tried, tried_height
            if tried_height < height(layout, best):
                best = tried
    return best


def _culprits(layout: Layout, offsets: Sequence[int]) -> list[int]:
    """The blocks that end highest, and all that they stand on, directly or not."""
    top = height(layout, offsets)
    found = [i for i, block in enumerate(layout.blocks) if offsets[i] + block.size == top]
    for i in found:  # grows while it runs
        for j, intervals in layout.forbidden[i].items():
            above = offsets[i] - offsets[j]
            rests = any(0 <= above - high < layout.blocks[i].align for _, high in intervals)
            if rests and j not in found:
                found.append(j)
    return found
