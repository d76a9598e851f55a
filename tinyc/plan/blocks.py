# SPDX-License-Identifier: Apache-2.0
"""Blocks of bytes, and which places two of them may not take together.

A block is what gets one address: a tensor or a row with all that lives in its bytes after it (in place), or the scratch
of a turn. Its members have their own lifetimes, and their own places in the block. Two members alive in the same turn
forbid an open interval of distances between their blocks; where the second uses up the first row by row, the interval
is shorter (`slide.py`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass

Interval = tuple[int, int]  # (low, high); of what is forbidden without its ends, of bytes half-open


def joined(intervals: Iterable[Interval], touching: bool = False) -> list[Interval]:
    """The same numbers as fewest intervals, ascending; empty ones are left out.

    Those that only touch are one with `touching`, as bytes are; distances stay apart, since the one between two that
    are forbidden is allowed.
    """
    spans: list[Interval] = []
    for low, high in sorted(intervals):
        if low >= high:
            continue
        if spans and low < spans[-1][1] + touching:
            spans[-1] = (spans[-1][0], max(spans[-1][1], high))
        else:
            spans.append((low, high))
    return spans


Ints = npt.NDArray[np.int64]

_MANY = 96  # rivals of a block, from which on arrays of them are faster than lists
_MOST_PAIRS = 250_000  # of rows alive together: 100 megabytes, and a second or two


@dataclass(frozen=True, slots=True)
class Member:
    """A tensor, a row, or scratch: `size` bytes at byte `at` of its block, alive [born, dies). name: like no other."""

    name: str
    at: int
    size: int
    born: int
    dies: int


@dataclass(frozen=True, slots=True)
class Block:
    """Members with one address. Where two share bytes, the later one is made in place of the earlier.

    size: up to the last byte of any; alive [born, dies), from the first member's birth to the last one's end.
    """

    members: tuple[Member, ...]
    align: int
    scratch: bool = False
    size: int = field(init=False, compare=False)
    born: int = field(init=False, compare=False)
    dies: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", max(m.at + m.size for m in self.members))
        object.__setattr__(self, "born", min(m.born for m in self.members))
        object.__setattr__(self, "dies", max(m.dies for m in self.members))


@dataclass(frozen=True, slots=True)
class Layout:
    """What `arena.place` solves: forbidden[i][j] are the values that offset[i] - offset[j] may not take.

    rivals: of each block the same as (j, low, high); many: as three arrays, where there are many.
    """

    blocks: tuple[Block, ...]
    forbidden: tuple[Mapping[int, tuple[Interval, ...]], ...] = field(compare=False)
    rivals: tuple[tuple[tuple[int, int, int], ...], ...] = field(init=False)
    many: tuple[tuple[Ints, Ints, Ints] | None, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        order = (
            tuple((j, low, high) for j, intervals in others.items() for low, high in intervals)
            for others in self.forbidden
        )
        object.__setattr__(self, "rivals", tuple(order))
        object.__setattr__(self, "many", tuple(_as_arrays(one) if len(one) >= _MANY else None for one in self.rivals))

    @property
    def scratch(self) -> list[int]:
        """The blocks that are scratch, no two of them alive together."""
        return [number for number, block in enumerate(self.blocks) if block.scratch]


def _as_arrays(rivals: Sequence[tuple[int, int, int]]) -> tuple[Ints, Ints, Ints]:
    others, low, high = np.array(rivals, np.int64).T.copy()
    return others, low, high


class TooManyRowsError(Exception):
    """So many rows are alive together that no place is looked for: a signal of thousands of samples, row by row."""


def check_rows(blocks: Sequence[Block]) -> None:
    """TooManyRowsError where the pairs of blocks that are alive together are too many."""
    dies = np.sort([block.dies for block in blocks])
    over = np.searchsorted(dies, [block.born for block in blocks], side="right")  # when each one is born
    if len(blocks) * (len(blocks) - 1) // 2 - int(over.sum()) > _MOST_PAIRS:
        raise TooManyRowsError


def conflicts(
    blocks: Sequence[Block], gaps: Mapping[tuple[str, str], tuple[Interval, ...]]
) -> tuple[Mapping[int, tuple[Interval, ...]], ...]:
    """`Layout.forbidden`: blocks alive together keep apart, the members (x, y) of `gaps` only that far."""
    by_block: list[dict[int, tuple[Interval, ...]]] = [{} for _ in blocks]
    by_birth = [] if gaps else [_ByBirth.of(block) for block in blocks]
    current: list[int] = []  # blocks that are alive when the next one is born
    for j in sorted(range(len(blocks)), key=lambda i: (blocks[i].born, i)):
        current = [i for i in current if blocks[i].dies > blocks[j].born]
        for i in current:
            apart = _apart(blocks[i], blocks[j], gaps) if gaps else by_birth[i].apart(by_birth[j])
            if apart:
                by_block[j][i] = apart
                by_block[i][j] = tuple((-high, -low) for low, high in reversed(apart))
        current.append(j)
    return tuple(by_block)


def _apart(a: Block, b: Block, gaps: Mapping[tuple[str, str], tuple[Interval, ...]]) -> tuple[Interval, ...]:
    """Forbidden values of start of b - start of a."""
    distances: list[Interval] = []
    for m in a.members:
        for n in b.members:
            if m.born < n.dies and n.born < m.dies and m.size and n.size:
                shift = m.at - n.at
                distances += [(low + shift, high + shift) for low, high in _between(m, n, gaps)]
    return tuple(joined(distances))


@dataclass(frozen=True, slots=True)
class _ByBirth:
    """A block's members that have bytes, (at, end, born, dies), by birth: those alive together with a member of another
    block, which shares no bytes, are found without looking at all. until: when the last of the first ones ends."""

    members: tuple[tuple[int, int, int, int], ...]
    born: tuple[int, ...]
    until: tuple[int, ...]

    @classmethod
    def of(cls, block: Block) -> _ByBirth:
        """The block's own."""
        members = tuple(sorted(_stretches(block), key=lambda one: one[2]))
        born = tuple(one[2] for one in members)
        return cls(members, born, tuple(accumulate((one[3] for one in members), max)))

    def apart(self, other: _ByBirth) -> tuple[Interval, ...]:
        """Forbidden values of start of the other block - start of this one."""
        if len(self.members) == len(other.members) == 1:
            (m,), (n,) = self.members, other.members
            return ((m[0] - n[1], m[1] - n[0]),)
        distances = {
            (at - their_end, end - their_at)
            for at, end, born, dies in self.members
            for their_at, their_end, _, their_dies in other.members[
                bisect_right(other.until, born) : bisect_left(other.born, dies)
            ]
            if born < their_dies
        }
        return tuple(joined(distances)) if len(distances) > 1 else tuple(distances)


def _stretches(block: Block) -> list[tuple[int, int, int, int]]:
    """(at, end, born, dies) of the members; those that follow one another and live equally long are one, as all rows of
    a tensor do where layers run whole. That forbids the same distances."""
    stretches: list[tuple[int, int, int, int]] = []
    for m in block.members:
        if stretches and stretches[-1][1:] == (m.at, m.born, m.dies):
            stretches[-1] = (stretches[-1][0], m.at + m.size, m.born, m.dies)
        elif m.size:
            stretches.append((m.at, m.at + m.size, m.born, m.dies))
    return stretches


def _between(m: Member, n: Member, gaps: Mapping[tuple[str, str], tuple[Interval, ...]]) -> tuple[Interval, ...]:
    """Forbidden values of start of n - start of m, for two members alive together."""
    if (m.name, n.name) in gaps:
        return gaps[m.name, n.name]
    if (n.name, m.name) in gaps:
        return tuple((-high, -low) for low, high in gaps[n.name, m.name])
    return ((-n.size, m.size),)
