# SPDX-License-Identifier: Apache-2.0
"""Placement stretch by stretch: what lies before a step with one block alive need not know of what lies behind it.

A network of hundreds of layers is mostly a chain of such stretches, a few layers each: between two residual blocks one
tensor is alive. Each is placed under a common ceiling, with the tensor that comes from the stretch before at
the place that it has there, and the one that goes on at the bottom, at the top or where it comes to lie. Stretches of
equal sizes and distances are placed once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.plan.blocks import Layout
from tinyc.plan.ceiling import CeilingFit

FEWEST = 64  # blocks of a layout worth to be cut; fewer are placed as well as a whole
_OF_ONE = 6  # blocks of a stretch, if a cut is found behind them
_MOST = 48  # blocks of the largest stretch
_STEP = 128  # parts of the lower bound: heights closer than that are not told apart
_WORK = 200_000  # pairs of blocks looked at for one stretch between two places
_STATES = 4  # places of the block that goes on, from one stretch to the next

Offsets = tuple[int, ...]


def place_by_stretches(layout: Layout, lower_bound: int, initial: Offsets, reached: int) -> Offsets | None:
    """An offset for every block, as low as found: `initial`, whose height is `reached`, or lower. None: the layout does
    not fall into stretches. Deterministic."""
    spans = _spans(layout)
    if len(spans) < 2 or max(len(here) for here, _, _ in spans) > _MOST:
        return None
    shapes: dict[object, _Shape] = {}
    cut = [_stretch(layout, span, shapes) for span in spans]
    step = max(lower_bound // _STEP, 1)
    least = _within(cut, lower_bound, len(layout.blocks))
    if least is not None:
        return least
    low, high, best = lower_bound + 1, reached, initial
    while high - low > step:
        middle = (low + high) // 2
        offsets = _within(cut, middle, len(layout.blocks))
        low, high, best = (middle + 1, high, best) if offsets is None else (low, middle, offsets)
    return best


@dataclass
class _Shape:
    """Stretches that differ in nothing but names: their blocks, and what has been found for them."""

    layout: Layout
    left: int | None  # the block that comes from the stretch before, and the one that goes on
    right: int | None
    memo: dict[tuple[int, int, int | None], Offsets | None] = field(default_factory=dict)

    def placed(self, height: int, left: int, right: int | None) -> Offsets | None:
        """left, right: where those two lie; right None: anywhere."""
        key = height, left, right
        if key not in self.memo:
            self.memo[key] = self._placed(height, left, right)
        return self.memo[key]

    def _placed(self, height: int, left: int, right: int | None) -> Offsets | None:
        fixed = {} if self.left is None else {self.left: left}
        if self.right is not None and right is not None:
            if fixed.get(self.right, right) != right:
                return None
            fixed[self.right] = right
        if not self._fit_together(fixed, height):
            return None
        offsets = CeilingFit(self.layout, fixed, _WORK).within(height, fixed)
        return None if offsets is None else tuple(offsets)

    def _fit_together(self, fixed: dict[int, int], height: int) -> bool:
        clash = (
            low < fixed[i] - fixed[j] < high for i in fixed for j, low, high in self.layout.rivals[i] if j in fixed
        )
        inside = (0 <= at <= height - self.layout.blocks[i].size for i, at in fixed.items())
        return all(inside) and not any(clash)

    def ends(self, height: int) -> Iterator[int | None]:
        """Places to try for the block that goes on."""
        if self.right is None:
            yield None
            return
        block = self.layout.blocks[self.right]
        yield from (0, (height - block.size) // block.align * block.align, None)


@dataclass(frozen=True)
class _Stretch:
    """blocks: which of the layout's, in the order of the shape's."""

    blocks: tuple[int, ...]
    shape: _Shape


def _within(cut: Sequence[_Stretch], height: int, count: int) -> Offsets | None:
    """Offsets of all `count` blocks for an arena of that height, going through the stretches once."""
    reached: list[dict[int, tuple[int, Offsets]]] = []  # of each: place of the block that goes on -> (before, offsets)
    starts = [0]
    for stretch in cut:
        after: dict[int, tuple[int, Offsets]] = {}
        for left in starts:
            for right in stretch.shape.ends(height):
                placed = stretch.shape.placed(height, left, right) if len(after) < _STATES else None
                if placed is not None:
                    end = 0 if stretch.shape.right is None else placed[stretch.shape.right]
                    after.setdefault(end, (left, placed))
        if not after:
            return None
        reached.append(after)
        starts = list(after)
    offsets, end = [0] * count, starts[0]
    for stretch, after in zip(reversed(cut), reversed(reached), strict=True):
        end, placed = after[end]
        for block, at in zip(stretch.blocks, placed, strict=True):
            offsets[block] = at
    return tuple(offsets)


_Span = tuple[tuple[int, ...], int | None, int | None]  # blocks, the one from the span before, the one that goes on


def _spans(layout: Layout) -> list[_Span]:
    """The layout's blocks in stretches, in order of time; one if it is narrow nowhere."""
    blocks = layout.blocks
    first, last = min(b.born for b in blocks), max(b.dies for b in blocks)
    born: list[list[int]] = [[] for _ in range(last - first + 1)]
    for i, block in enumerate(blocks):
        born[block.born - first].append(i)
    spans, here, left = list[_Span](), list[int](), None
    for time in range(first + 1, last + 1):
        here += born[time - 1 - first]
        crossing = [i for i in here if blocks[i].dies > time]
        if time == last or (len(crossing) <= 1 and len(here) >= _OF_ONE):
            right = crossing[0] if crossing else None
            spans.append((tuple(here), left, right))
            here, left = crossing, right
    return spans


def _stretch(layout: Layout, span: _Span, shapes: dict[object, _Shape]) -> _Stretch:
    here, left, right = span
    local = {block: number for number, block in enumerate(here)}
    forbidden = tuple({local[j]: intervals for j, intervals in layout.forbidden[i].items() if j in local} for i in here)
    ends = _local(local, left), _local(local, right)
    sizes = tuple((layout.blocks[i].size, layout.blocks[i].align) for i in here)
    key = sizes, ends, tuple(tuple(sorted(others.items())) for others in forbidden), _order_of_time(layout, here)
    if key not in shapes:
        shapes[key] = _Shape(Layout(tuple(layout.blocks[i] for i in here), forbidden), ends[0], ends[1])
    return _Stretch(here, shapes[key])


def _local(local: Mapping[int, int], block: int | None) -> int | None:
    return None if block is None else local[block]


def _order_of_time(layout: Layout, here: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Births and ends, from the first step on: searches go by them."""
    first = min(layout.blocks[i].born for i in here)
    return tuple((layout.blocks[i].born - first, layout.blocks[i].dies - first) for i in here)
