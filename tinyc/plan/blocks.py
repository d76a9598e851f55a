# SPDX-License-Identifier: Apache-2.0
"""Blocks of bytes, and which places two of them may not take together.

A block is what gets one address: a tensor or a row with all that lives in its bytes after it (in place), or the scratch
of a turn. Its members have their own lifetimes, and their own places in the block. Two members alive in the same turn
forbid an open interval of distances between their blocks; where the second uses up the first row by row, the interval
is shorter (`slide.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tinyc.plan.intervals import Interval, joined


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

    rivals: of each block the same as (j, low, high).
    """

    blocks: tuple[Block, ...]
    forbidden: tuple[Mapping[int, tuple[Interval, ...]], ...]
    rivals: tuple[tuple[tuple[int, int, int], ...], ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        found = (
            tuple((j, low, high) for j, intervals in others.items() for low, high in intervals)
            for others in self.forbidden
        )
        object.__setattr__(self, "rivals", tuple(found))


def conflicts(
    blocks: Sequence[Block], gaps: Mapping[tuple[str, str], tuple[Interval, ...]]
) -> tuple[Mapping[int, tuple[Interval, ...]], ...]:
    """`Layout.forbidden`: blocks alive together keep apart, the members (x, y) of `gaps` only that far."""
    found: list[dict[int, tuple[Interval, ...]]] = [{} for _ in blocks]
    current: list[int] = []  # blocks that are alive when the next one is born
    for j in sorted(range(len(blocks)), key=lambda i: (blocks[i].born, i)):
        current = [i for i in current if blocks[i].dies > blocks[j].born]
        for i in current:
            apart = _apart(blocks[i], blocks[j], gaps)
            if apart:
                found[j][i] = apart
                found[i][j] = tuple((-high, -low) for low, high in reversed(apart))
        current.append(j)
    return tuple(found)


def _apart(a: Block, b: Block, gaps: Mapping[tuple[str, str], tuple[Interval, ...]]) -> tuple[Interval, ...]:
    """Forbidden values of start of b - start of a."""
    if not gaps:
        return _disjoint(a, b)
    found: list[Interval] = []
    for m in a.members:
        for n in b.members:
            if m.born < n.dies and n.born < m.dies and m.size and n.size:
                shift = m.at - n.at
                found += [(low + shift, high + shift) for low, high in _between(m, n, gaps)]
    return tuple(joined(found))


def _disjoint(a: Block, b: Block) -> tuple[Interval, ...]:
    """`_apart` of blocks whose members do not share bytes."""
    if len(a.members) == len(b.members) == 1:
        (m,), (n,) = a.members, b.members
        return ((m.at - n.at - n.size, m.at - n.at + m.size),) if m.size and n.size else ()
    theirs = [
        (n.at, n.at + n.size, n.born, n.dies) for n in b.members if n.size and n.born < a.dies and a.born < n.dies
    ]
    found = [
        (m.at - end, m.at + m.size - at)
        for m in a.members
        if m.size and m.born < b.dies and b.born < m.dies
        for at, end, born, dies in theirs
        if m.born < dies and born < m.dies
    ]
    return tuple(joined(found))


def _between(m: Member, n: Member, gaps: Mapping[tuple[str, str], tuple[Interval, ...]]) -> tuple[Interval, ...]:
    """Forbidden values of start of n - start of m, for two members alive together."""
    if (m.name, n.name) in gaps:
        return gaps[m.name, n.name]
    if (n.name, m.name) in gaps:
        return tuple((-high, -low) for low, high in gaps[n.name, m.name])
    return ((-n.size, m.size),)
