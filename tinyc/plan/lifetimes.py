# SPDX-License-Identifier: Apache-2.0
"""From an order of steps to blocks of bytes, and which places two blocks may not take together.

A block is what gets one address: a tensor with all tensors that live in its bytes after it (in place),
or the scratch of a step. Its members have their own lifetimes, and their own places in the block.
Two members alive in the same step forbid an open interval of distances between their blocks;
where the second uses up the first row by row, the interval is shorter (`slide.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tinyc.plan.problem import Layer, Problem
from tinyc.plan.slide import slide_of

Interval = tuple[int, int]  # open: (low, high) without its ends


@dataclass(frozen=True, slots=True)
class Member:
    """A tensor, or the scratch of node `name`: `size` bytes at byte `at` of its block, alive [born, dies)."""

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


def lifetimes(problem: Problem, order: Sequence[int]) -> dict[str, tuple[int, int]]:
    """[born, dies) of every tensor, in steps of the order."""
    born = dict.fromkeys(problem.inputs, -1)
    dies = dict.fromkeys(problem.inputs, 0)
    for step, index in enumerate(order):
        task = problem.layers[index]
        for name in task.writes:
            born[name] = step
        for name in task.reads + task.writes:
            dies[name] = step + 1
    for name in problem.outputs:
        dies[name] = len(order)
    joins = list(problem.joins.items())
    for name, parts in (*joins, *reversed(joins)):  # bytes that they share; a join may be part of another
        end = max(dies[name], *(dies[part.name] for part in parts))
        dies |= dict.fromkeys((name, *(part.name for part in parts)), end)
    return {name: (born[name], dies[name]) for name in problem.tensors}


def layout(problem: Problem, order: Sequence[int], merge: bool = True) -> Layout:
    """Blocks of an order and the distances that they forbid each other.

    With `merge`, every step that may work in place does, and its input and output are one block. Without,
    they are two that may start together: more freedom, harder to place well.
    """
    alive = lifetimes(problem, order)
    hosts: dict[str, str] = {}  # tensor -> the tensor at whose start it lives
    gaps: dict[tuple[str, str], tuple[Interval, ...]] = {}  # (x, y) -> forbidden start of y - start of x
    kept = {leaf for name in problem.outputs for leaf in problem.leaves(name)}
    joined = {part.name: (name, part.offset) for name, parts in problem.joins.items() for part in parts}
    for step, index in enumerate(order):
        task = problem.layers[index]
        dying = [name for name in task.reads if alive[name][1] == step + 1 and kept.isdisjoint(problem.leaves(name))]
        inplace = [name for name in task.whole.inplace if name in dying]
        if inplace and merge and task.writes[0] not in joined:
            hosts[task.writes[0]] = inplace[0]
            continue
        for name in dying:
            if (intervals := _handover(problem, task, name)) is not None:
                gaps[name, task.writes[0]] = intervals
    blocks = _blocks(problem, order, alive, {name: (host, 0) for name, host in hosts.items()} | joined)
    return Layout(blocks, conflicts(blocks, gaps))


def _handover(problem: Problem, task: Layer, name: str) -> tuple[Interval, ...] | None:
    """Forbidden distances of the output from the dying input `name`; None: no more than any two tensors."""
    x, y = problem.tensors[name].size, problem.tensors[task.writes[0]].size if task.writes else 0
    if name in task.whole.inplace:
        return (-y, 0), (0, x)
    if (sliding := task.whole.sliding) is not None and name == sliding.tensor:
        return slide_of(sliding.rows, sliding.forward).forbidden
    return None


def _blocks(
    problem: Problem, order: Sequence[int], alive: Mapping[str, tuple[int, int]], hosts: Mapping[str, tuple[str, int]]
) -> tuple[Block, ...]:
    members: dict[str, list[Member]] = {}
    known: dict[str, tuple[str, int]] = {}
    for name in sorted(problem.tensors, key=lambda n: alive[n][0]):
        root, at = _root(name, hosts, known)
        members.setdefault(root, []).append(Member(name, at, problem.tensors[name].size, *alive[name]))
    tensors = [Block(tuple(found), problem.unit) for found in members.values()]
    tasks = [problem.layers[index] for index in order]
    scratch = [
        Member(task.node, 0, task.whole.scratch_bytes, step, step + 1)
        for step, task in enumerate(tasks)
        if task.whole.scratch_bytes
    ]
    return tuple(tensors + [Block((member,), problem.scratch_unit, scratch=True) for member in scratch])


def _root(name: str, hosts: Mapping[str, tuple[str, int]], known: dict[str, tuple[str, int]]) -> tuple[str, int]:
    """The tensor at the end of the chain of hosts, and how far into it `name` starts; `known` remembers for the rest
    of the chain."""
    chain = []
    while name in hosts and name not in known:
        chain.append(name)
        name = hosts[name][0]
    root, at = known.get(name, (name, 0))
    for member in reversed(chain):
        at += hosts[member][1]
        known[member] = root, at
    return root, at


def conflicts(
    blocks: Sequence[Block], gaps: Mapping[tuple[str, str], tuple[Interval, ...]]
) -> tuple[Mapping[int, tuple[Interval, ...]], ...]:
    """`Layout.forbidden`: blocks alive together keep apart, the tensors (x, y) of `gaps` only that far."""
    found: list[dict[int, tuple[Interval, ...]]] = [{} for _ in blocks]
    current: list[int] = []  # blocks that are alive when the next one is born
    for j in sorted(range(len(blocks)), key=lambda i: (blocks[i].born, i)):
        current = [i for i in current if blocks[i].dies > blocks[j].born]
        for i in current:
            scratch = blocks[i].scratch or blocks[j].scratch  # its name is a node's, maybe also a tensor's
            apart = _apart(blocks[i], blocks[j], {} if scratch else gaps)
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
    return _union(found)


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
    return _union(found)


def _between(m: Member, n: Member, gaps: Mapping[tuple[str, str], tuple[Interval, ...]]) -> tuple[Interval, ...]:
    """Forbidden values of start of n - start of m, for two members alive together."""
    if (m.name, n.name) in gaps:
        return gaps[m.name, n.name]
    if (n.name, m.name) in gaps:
        return tuple((-high, -low) for low, high in gaps[n.name, m.name])
    return ((-n.size, m.size),)


def _union(intervals: list[Interval]) -> tuple[Interval, ...]:
    """The same numbers as fewest open intervals, ascending. Touching ends stay apart: the end is allowed."""
    merged: list[Interval] = []
    for low, high in sorted(i for i in intervals if i[0] < i[1]):
        if merged and low < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)
