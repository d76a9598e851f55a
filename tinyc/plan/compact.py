# SPDX-License-Identifier: Apache-2.0
"""Placement with moves: where most rows have one size, and their places would leave gaps, rows move to close them.

Rows lie in slots of one size from the bottom of the arena; those of an input that arrives row by row in slots of their
own, counted from the top down; scratch between the two, or below what is left of an input that is there as a whole. A
row moves where it is in the way: that takes some hundred instructions, the scratch it makes way for saves thousands. So
an arena is large enough as soon as no turn has more bytes alive.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from tinyc.base.dataclass import dataclass
from tinyc.plan.blocks import Block, Interval, Layout, joined

_FEW = 4  # rows of another size that have places of their own
_LONG = 4  # blocks that live for a fourth of the turns lie below the slots

Places = Mapping[int, Sequence[tuple[int, int]]]  # of each block: (turn, offset from that turn on), ascending
Residences = dict[int, list[tuple[int, int]]]  # of each block: (turn, slot)


@dataclass(frozen=True, slots=True)
class Kinds:
    """What blocks are: scratch, no two alive together; tall: tensors whose rows die one by one; still: what may not
    move, because the caller knows its place."""

    scratch: frozenset[int]
    tall: frozenset[int]
    still: frozenset[int] = frozenset()


def place_with_moves(layout: Layout, kinds: Kinds, heights: range) -> Places | None:
    """Places in the smallest arena of the heights that is large enough; None if none is, or rows differ in size.

    Blocks that move in a turn do so before it, those of the larger size first.
    """
    early = max((-block.born for block in layout.blocks), default=0)  # turns before turn 0, or less than none
    best, arena = None, _Packing(_later(layout, early), kinds)
    first, last = 0, len(heights)
    while first < last:
        middle = (first + last) // 2
        places = arena.places(heights[middle])
        if places is None:
            first = middle + 1
        else:
            best, last = places, middle
    if best is None or early <= 0:
        return best
    return {i: [(max(turn - early, 0), at) for turn, at in own] for i, own in best.items()}


def _later(layout: Layout, turns: int) -> Layout:
    """The same layout, so many turns later."""
    if turns <= 0:
        return layout

    def later(block: Block) -> Block:
        members = (replace(m, born=m.born + turns, dies=m.dies + turns) for m in block.members)
        return replace(block, members=tuple(members))

    return replace(layout, blocks=tuple(map(later, layout.blocks)))


class _Packing:
    """An arena of some bytes. base: where slots begin; unit, little: their sizes, below and on top."""

    def __init__(self, layout: Layout, kinds: Kinds) -> None:
        self.layout, self.kinds = layout, kinds
        blocks = layout.blocks
        self.turns = max((block.dies for block in blocks), default=0)
        rest = [i for i in range(len(blocks)) if i not in kinds.scratch and i not in kinds.tall]
        sizes = Counter(blocks[i].size for i in rest)
        self.unit = sizes.most_common(1)[0][0] if sizes else 1
        self.rows = [i for i in rest if blocks[i].size == self.unit]
        small = [i for i in rest if blocks[i].size != self.unit]
        sizes = Counter(blocks[i].size for i in small)
        self.little = sizes.most_common(1)[0][0] if sizes and not kinds.tall else 0
        self.arriving = [i for i in small if blocks[i].size == self.little and sizes[self.little] > _FEW]
        others = [i for i in small if i not in self.arriving]
        self.fixed = [i for i in others if _LONG * (blocks[i].dies - blocks[i].born) >= self.turns]
        self.short = [i for i in others if i not in self.fixed]
        self.align = max((blocks[i].align for i in kinds.scratch), default=1)
        self.scratch, self.alive = self._scratch(), self._alive(self.rows)
        self.height = self.base = 0
        self.offsets: list[int] = []

    def places(self, height: int) -> Places | None:
        """Where everything lies in an arena of that height; None if it does not fit."""
        self.height, self.offsets = height, [-1] * len(self.layout.blocks)
        if not self._place_fixed():
            return None
        ceilings, scratch = self._ceilings(), self.scratch
        limits = [
            (ceilings[turn] - scratch[turn] - self.base - self.alive[turn] * self.unit) // max(self.little, 1)
            for turn in range(self.turns)
        ]
        if min(limits, default=0) < 0:
            return None
        arriving = self._in_slots(self.arriving, limits, limits)
        if arriving is None:
            return None
        before, after = self._extents(arriving)
        tops = [ceilings[turn] - after[turn] * self.little for turn in range(self.turns)]
        starts = [(tops[turn] - scratch[turn]) // self.align * self.align for turn in range(self.turns)]
        limits = [(start - self.base) // self.unit for start in starts]
        reached = [(ceilings[turn] - before[turn] * self.little - self.base) // self.unit for turn in range(self.turns)]
        rows = self._in_slots(self.rows, limits, reached)
        if rows is None:
            return None
        residences: dict[int, Sequence[tuple[int, int]]] = {}
        residences |= {i: [(0, at)] for i, at in enumerate(self.offsets) if at >= 0}
        residences |= {i: [(0, starts[self.layout.blocks[i].born])] for i in self.kinds.scratch}
        residences |= {i: [(turn, self.base + slot * self.unit) for turn, slot in own] for i, own in rows.items()}
        top = self.height
        residences |= {i: [(turn, top - (slot + 1) * self.little) for turn, slot in own] for i, own in arriving.items()}
        return residences if self._place_short(residences) else None

    def _place_short(self, places: dict[int, Sequence[tuple[int, int]]]) -> bool:
        """Adds what does not live long, where all others leave room; whether they do."""
        blocks = self.layout.blocks
        turns = sorted({turn for i in self.short for turn in range(blocks[i].born, blocks[i].dies)})
        held: dict[int, list[tuple[int, int]]] = {turn: [] for turn in turns}
        for i in (*places, *self.short) if turns else ():
            if i in self.short:
                near = sorted({gap for turn in range(blocks[i].born, blocks[i].dies) for gap in held[turn]})
                at = lowest([(low - blocks[i].size, high) for low, high in near], blocks[i].align)
                if at + blocks[i].size > self.height:
                    return False
                places[i] = [(0, at)]
            for (start, at), (end, _) in pairwise((*places[i], (self.turns, 0))):
                for member in blocks[i].members:
                    first = bisect_left(turns, max(start, member.born))
                    for turn in turns[first : bisect_left(turns, min(end, member.dies))]:
                        held[turn].append((at + member.at, at + member.at + member.size))
        return True

    def _place_fixed(self) -> bool:
        """Tall tensors as high as they can, what is small as low as it can; whether that leaves room for slots."""
        blocks = self.layout.blocks
        for i in sorted(self.kinds.tall, key=lambda i: blocks[i].born):
            self.offsets[i] = highest(
                taken(self.layout, self.offsets, i), self.height - blocks[i].size, blocks[i].align
            )
            if self.offsets[i] < 0:
                return False
        for i in sorted(self.fixed, key=lambda i: (blocks[i].born, -blocks[i].dies)):
            self.offsets[i] = lowest(taken(self.layout, self.offsets, i), blocks[i].align)
        align = max((blocks[i].align for i in (*self.rows, *self.arriving)), default=1)
        above = max((self.offsets[i] + blocks[i].size for i in self.fixed), default=0)
        self.base = -(-above // align) * align
        return self.unit % align == 0 and self.little % align == 0 and self.height % align == 0

    def _ceilings(self) -> list[int]:
        """The lowest byte of tall tensors in each turn."""
        ceilings = [self.height] * self.turns
        for i in self.kinds.tall:
            for member in self.layout.blocks[i].members:
                for turn in range(member.born, member.dies):
                    ceilings[turn] = min(ceilings[turn], self.offsets[i] + member.at)
        return ceilings

    def _scratch(self) -> list[int]:
        sizes = [0] * self.turns
        for i in self.kinds.scratch:
            sizes[self.layout.blocks[i].born] = self.layout.blocks[i].size
        return sizes

    def _alive(self, blocks: Collection[int]) -> list[int]:
        """How many of the blocks in each turn."""
        sizes = [0] * self.turns
        for i in blocks:
            for turn in range(self.layout.blocks[i].born, self.layout.blocks[i].dies):
                sizes[turn] += 1
        return sizes

    def _in_slots(self, blocks: Sequence[int], limits: Sequence[int], reached: Sequence[int]) -> Residences | None:
        """A slot below the limit of each turn for every block; None if there are too few. A block that moves goes to a
        slot below `reached`."""
        born: dict[int, list[int]] = {}
        dying: dict[int, list[int]] = {}
        for i in blocks:
            born.setdefault(self.layout.blocks[i].born, []).append(i)
            dying.setdefault(self.layout.blocks[i].dies, []).append(i)
        residences: Residences = {i: [] for i in blocks}
        held: dict[int, int] = {}  # slot -> block
        for turn in range(self.turns):
            limit = limits[turn]
            for i in dying.get(turn, ()):
                del held[residences[i][-1][1]]
            moving = [(slot, i) for slot, i in held.items() if slot >= limit]
            for slot, _ in moving:
                del held[slot]
            lows = {i: min(limits[turn : self.layout.blocks[i].dies]) for i in born.get(turn, [])}
            lows |= {i: min(limits[turn : self.layout.blocks[i].dies]) for _, i in moving}
            moved = {i for _, i in moving}
            for i in sorted(lows, key=lambda i: (i not in moved, lows[i])):
                most = min(limit, reached[turn]) if i in moved else limit
                if i in self.kinds.still:
                    most = min(most, lows[i])
                free = [slot for slot in range(most) if slot not in held]
                if not free:
                    return None
                slot = max((slot for slot in free if slot < lows[i]), default=free[-1])
                held[slot] = i
                residences[i].append((turn, slot))
        return residences

    def _extents(self, residences: Residences) -> tuple[list[int], list[int]]:
        """Slots up to the last one held in each turn: before blocks move, by those that were there, and after."""
        before, after = [0] * self.turns, [0] * self.turns
        for i, own in residences.items():
            ends = [turn for turn, _ in own[1:]] + [self.layout.blocks[i].dies]
            for (start, slot), end in zip(own, ends, strict=True):
                for turn in range(start, end):
                    after[turn] = max(after[turn], slot + 1)
                for turn in range(start + 1, min(end + 1, self.turns)):
                    before[turn] = max(before[turn], slot + 1)
        return before, after


def taken(layout: Layout, offsets: Sequence[int], i: int) -> list[Interval]:
    """The offsets that the blocks placed so far forbid a block, as open intervals that do not overlap, ascending.
    offsets: negative where a block has none."""
    return joined((offsets[j] + low, offsets[j] + high) for j, low, high in layout.rivals[i] if offsets[j] >= 0)


def highest(held: Sequence[Interval], most: int, step: int) -> int:
    """The largest multiple of step up to `most` that is in none of the intervals; negative: there is none."""
    at = most // step * step
    for low, high in reversed(held):
        if low < at < high:
            at = low // step * step
    return at


def lowest(held: Sequence[Interval], step: int) -> int:
    """The least multiple of step that is in none of the intervals."""
    at = 0
    for low, high in held:
        if low < at < high:
            at = -(-high // step) * step
    return at
