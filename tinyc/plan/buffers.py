# SPDX-License-Identifier: Apache-2.0
"""What of a plan needs places: tensors, rows, sums and scratch, as blocks of bytes that live for some turns.

Every row is a member of a block. Those of a contiguous tensor have one block together, each with its own lifetime; what
is made in place of something else, and the parts of a join, lie in the block of that. A tensor of layers that run whole
is contiguous, with as many rows as it may have: mostly one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Literal

from tinyc.base.dataclass import dataclass
from tinyc.plan.answer import Group, Partition
from tinyc.plan.blocks import Block, Interval, Layout, Member, check_rows, conflicts
from tinyc.plan.liveness import Lives, dying_rows
from tinyc.plan.problem import WHOLE, Form, Layer, Problem, Turn
from tinyc.plan.slide import slide_of
from tinyc.plan.uses import Uses

# Of a tensor: its name and a row. Else the name of a node, and which of its calls; sums have but one place.
Key = tuple[Literal["tensor", "scratch", "accumulator"], str, int]


@dataclass(frozen=True, slots=True)
class Buffers:
    """layout: the blocks, and how far they must be apart. where: block of each key, and the byte in it; of what never
    lives, or has no bytes, the block is -1. tall: blocks whose rows lie one after another."""

    layout: Layout
    where: Mapping[Key, tuple[int, int]]
    tall: frozenset[int]

    def still(self, problem: Problem) -> frozenset[int]:
        """The blocks that hold what the caller writes before all turns or reads after them."""
        seen = {*(name for name in problem.inputs if problem.is_resident(name)), *problem.outputs}
        return frozenset(
            block for (kind, name, _), (block, _) in self.where.items() if kind == "tensor" and name in seen
        )


@dataclass(frozen=True, slots=True)
class Running:
    """A problem with the forms and turns that were chosen for it. uses: who makes and reads what. lives: when."""

    problem: Problem
    cut: Partition
    uses: Uses
    lives: Lives

    @property
    def turns(self) -> tuple[Turn, ...]:
        return tuple(turn for group in self.cut.groups for turn in group.turns)

    def dying(self, layer: Layer, number: int) -> list[str]:
        """The tensors of which a layer that runs whole in this turn is the last to want anything."""
        outputs = {leaf for name in self.problem.outputs for leaf in self.problem.leaves(name)}
        ends = [name for name in layer.reads if int(self.lives[name][1].max()) == number + 1]
        return [name for name in ends if outputs.isdisjoint(self.problem.leaves(name))]

    def held(self, name: str) -> list[tuple[int, int]]:
        """[born, dies) of the place of each row of a tensor.

        What the caller writes has its place before turn 0, in a turn of its own, where all layers run whole: of an
        input that nobody reads, turn 0 may have the bytes. By rows the places of turns are looked up in arrays, which
        have nothing before the first.
        """
        lives = [(born, dies) for born, dies in zip(*(own.tolist() for own in self.lives[name]), strict=True)]
        if not self.problem.is_resident(name) or not all(group.is_whole for group in self.cut.groups):
            return lives
        joined = any(part.name == name for parts in self.problem.joins.values() for part in parts)
        is_used = name in self.problem.outputs or self.uses.readers[name] or joined
        return [(-1, dies if is_used else 0) for _, dies in lives]

    def rows_of(self, name: str) -> list[tuple[int, int, int]]:
        """(row, born, dies) of the tensor's rows that are ever there."""
        born, dies = (own.tolist() for own in self.lives[name])
        return [(row, *life) for row, life in enumerate(zip(born, dies, strict=True)) if life[0] < life[1]]


def buffers_of(running: Running, merge: bool = True) -> Buffers:
    """The blocks of a plan.

    With `merge`, every layer that may work in place does, and what it reads and writes is one block. Without, what
    layers that run whole read and write are two that may start together: more freedom, harder to place well.
    TooManyRowsError where layers run by rows and too many of these are alive together.
    """
    pool = _Pool()
    problem, parts = running.problem, _parts(running.problem)
    hosts = {row: (host, 0) for row, host in in_place(running, merge)}
    _add_tensors(pool, running, hosts | parts)
    _add_scratch(pool, problem, running.cut.forms, running.turns)
    used = {i: number for number, i in enumerate(i for i, members in enumerate(pool.members) if members)}
    blocks = tuple(Block(tuple(pool.members[i]), pool.aligns[i], i in pool.scratch) for i in used)
    if not all(group.is_whole for group in running.cut.groups):
        check_rows(blocks)
    return Buffers(
        Layout(blocks, conflicts(blocks, dict(_gaps(running, hosts)))),
        {key: (used.get(i, -1), at) for key, (i, at) in pool.where.items()},
        frozenset(used[i] for i in pool.tall if i in used),
    )


@dataclass
class _Pool:
    """Blocks under construction: the members of each, and which block and offset every key has."""

    members: list[list[Member]] = field(default_factory=list)
    aligns: list[int] = field(default_factory=list)
    where: dict[Key, tuple[int, int]] = field(default_factory=dict)  # (block, offset in it)
    scratch: set[int] = field(default_factory=set)  # blocks
    tall: set[int] = field(default_factory=set)  # blocks

    def open(self, align: int) -> int:
        """A block of its own."""
        self.members.append([])
        self.aligns.append(align)
        return len(self.members) - 1

    def put(self, key: Key, block: int, at: int, size: int, life: tuple[int, int]) -> None:
        """Bytes [at, at + size) of a block, alive in turns [born, dies). Those of a row that is never alive, or has
        none, are not kept."""
        self.where[key] = (block, at)
        if life[0] < life[1] and size:
            self.members[block].append(Member(_label(key), at, size, *life))


def _label(key: Key) -> str:
    kind, name, number = key
    return f"{name} {number}" if kind == "tensor" else f"{name} {number} {kind}"


def contiguous(problem: Problem, groups: Sequence[Group]) -> frozenset[str]:
    """The tensors whose rows must lie one after another: for the caller, or for a whole call."""
    whole = [problem.layers[group.start] for group in groups if group.is_whole]
    given = {name for name in problem.inputs if problem.is_resident(name)}
    return frozenset(given.union(problem.outputs, *(layer.reads + layer.writes for layer in whole)))


def in_place(running: Running, merge: bool = True) -> Iterator[tuple[Key, Key]]:
    """(row, the row or tensor in whose place it is made); whole tensors by their row 0, and only with `merge`."""
    problem, uses, lives, number = running.problem, running.uses, running.lives, 0
    joined = {part.name for parts in problem.joins.values() for part in parts}
    for group in running.cut.groups:
        for turn in group.turns:
            layer, form = problem.layers[turn[0]], running.cut.forms[turn[0]]
            if turn[1] == WHOLE and merge:
                dying = running.dying(layer, number) if form.inplace else ()
                name = next((name for name in form.inplace if name in dying), None)
                if name is not None and layer.writes[0] not in joined:
                    yield ("tensor", layer.writes[0], 0), ("tensor", name, 0)
            for name in form.inplace if turn[1] != WHOLE else ():
                if all(uses.is_inside(tensor, group.start, group.stop) for tensor in (name, layer.writes[0])):
                    rows = dying_rows(problem, turn, problem.tensors[name].row_bytes, lives[name][1], number)
                    if rows:
                        assert layer.walk is not None
                        for row, host in zip(layer.walk.output_rows(turn[1]), rows, strict=False):
                            yield ("tensor", layer.writes[0], row), ("tensor", name, host)
                        break
            number += 1


def _parts(problem: Problem) -> dict[Key, tuple[Key, int]]:
    """Where the parts of joins lie."""
    return {
        ("tensor", part.name, 0): (("tensor", name, 0), part.offset)
        for name, parts in problem.joins.items()
        for part in parts
    }


def _gaps(running: Running, hosts: Mapping[Key, object]) -> Iterator[tuple[tuple[str, str], tuple[Interval, ...]]]:
    """((input, output), the distances between their starts that are forbidden), where a whole call may write its output
    over an input that dies, and the two are not one block already."""
    number = 0
    for group in running.cut.groups:
        layer, form = running.problem.layers[group.start], running.cut.forms[group.start]
        free = form.inplace or form.sliding is not None
        if group.is_whole and layer.writes and free and ("tensor", layer.writes[0], 0) not in hosts:
            y: Key = ("tensor", layer.writes[0], 0)
            for name in running.dying(layer, number):
                if (intervals := _handover(running.problem, layer, form, name)) is not None:
                    yield (_label(("tensor", name, 0)), _label(y)), intervals
        number += len(group.turns)


def _handover(problem: Problem, layer: Layer, form: Form, name: str) -> tuple[Interval, ...] | None:
    """Forbidden distances of the output from the dying input `name`; None: no more than any two tensors."""
    x, y = problem.tensors[name].size, problem.tensors[layer.writes[0]].size
    if name in form.inplace:
        return (-y, 0), (0, x)
    if form.sliding is not None and name == form.sliding.tensor:
        return slide_of(form.sliding.rows, form.sliding.forward).forbidden
    return None


def _add_tensors(pool: _Pool, running: Running, hosts: Mapping[Key, tuple[Key, int]]) -> None:
    """Makers before readers, so that the host of a row is there before the row."""
    problem, cut = running.problem, running.cut
    layers = (index for group in cut.groups for index in range(group.start, group.stop))
    ranks = {-1: -1} | {index: rank for rank, index in enumerate(layers)}
    pending: list[tuple[int, int, str, int]] = []
    together = contiguous(problem, cut.groups)
    blocks, roots = dict[Key, int](), dict[Key, tuple[Key, int]]()
    for name in sorted(problem.tensors, key=lambda tensor: ranks[running.uses.maker[tensor]]):
        if name not in together:
            pending += [(born, dies, name, row) for row, born, dies in running.rows_of(name)]
            continue
        root, at = _root(("tensor", name, 0), hosts, roots)
        if root not in blocks:
            blocks[root] = pool.open(problem.unit)
        _add_contiguous(pool, running, name, blocks[root], at)
    for born, dies, name, row in sorted(pending, key=lambda one: one[0]):
        key: Key = ("tensor", name, row)
        host = hosts.get(key)
        block, at = pool.where[host[0]] if host is not None else (pool.open(problem.unit), 0)
        pool.put(key, block, at, problem.tensors[name].row_bytes, (born, dies))


def _root(key: Key, hosts: Mapping[Key, tuple[Key, int]], roots: dict[Key, tuple[Key, int]]) -> tuple[Key, int]:
    """What lies at the end of the chain of hosts, and how far into it the key's bytes begin; `roots` remembers for the
    rest of the chain."""
    chain = []
    while key in hosts and key not in roots:
        chain.append(key)
        key = hosts[key][0]
    root, at = roots.get(key, (key, 0))
    for member in reversed(chain):
        at += hosts[member][1]
        roots[member] = root, at
    return root, at


def _add_contiguous(pool: _Pool, running: Running, name: str, block: int, at: int) -> None:
    tensor = running.problem.tensors[name]
    if tensor.rows > 1:
        pool.tall.add(block)
    for row, life in enumerate(running.held(name)):
        pool.put(("tensor", name, row), block, at + row * tensor.row_bytes, tensor.row_bytes, life)


def _add_scratch(pool: _Pool, problem: Problem, forms: Sequence[Form], turns: Sequence[Turn]) -> None:
    spans: dict[int, list[int]] = {}
    for number, (index, row) in enumerate(turns):
        if size := forms[index].scratch_at(row):
            block = pool.open(problem.scratch_unit)
            pool.put(scratch_key(problem, (index, row)), block, 0, size, (number, number + 1))
            pool.scratch.add(block)
        if row != WHOLE:
            spans.setdefault(index, []).append(number)
    for index, numbers in spans.items():
        walk = problem.layers[index].walk
        if walk is not None and walk.accumulates:
            key = accumulator_key(problem, index)
            pool.put(key, pool.open(problem.unit), 0, walk.accumulator_bytes, (numbers[0], numbers[-1] + 1))


def scratch_key(problem: Problem, turn: Turn) -> Key:
    """The scratch of a turn."""
    return "scratch", problem.layers[turn[0]].node, max(turn[1], 0)


def accumulator_key(problem: Problem, layer: int) -> Key:
    """The sums of a layer."""
    return "accumulator", problem.layers[layer].node, 0
