# SPDX-License-Identifier: Apache-2.0
"""Addresses: every row is a block of its own, placed where the blocks alive with it leave room.

The rows of a contiguous tensor are members of one block, each with its own lifetime; so is a row that is made in place
of another. What places them is the planner's own `arena.place`, or `ends.py` where that finds less, or `slots.py` where
forms were chosen for it; or `compact.py`, where moving rows from turn to turn makes the arena smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from tinyc.plan.answer import Allocation, Group, Move, Partition, Plan
from tinyc.plan.arena import height, place
from tinyc.plan.compact import Kinds, Places, place_with_moves
from tinyc.plan.ends import place_from_ends
from tinyc.plan.lifetimes import Block, Layout, Member, conflicts
from tinyc.plan.live import round_up
from tinyc.plan.liveness import Lives, dying_rows, lifetimes
from tinyc.plan.problem import WHOLE, Form, Problem, Turn
from tinyc.plan.slots import place_in_slots
from tinyc.plan.turns import slots_of
from tinyc.plan.uses import Uses, uses_of

WORK = 150_000  # of `place`, where several plans are compared
FULL_WORK = 2_000_000  # for the one that is taken

Key = tuple[str, int]  # (tensor, row), ("scratch of <node>", turn), ("accumulator of <node>", 0)


@dataclass
class _Pool:
    """Blocks under construction: the members of each, and which block and offset every key has."""

    members: list[list[Member]] = field(default_factory=list)
    aligns: list[int] = field(default_factory=list)
    where: dict[Key, tuple[int, int]] = field(default_factory=dict)  # (block, offset in it)
    scratch: set[int] = field(default_factory=set)  # blocks
    tall: set[int] = field(default_factory=set)  # blocks whose rows lie one after another

    def add(self, key: Key, size: int, born: int, dies: int, align: int) -> None:
        """A block of its own, alive in turns [born, dies)."""
        self.members.append([])
        self.aligns.append(align)
        self.put(key, len(self.members) - 1, 0, size, born, dies)

    def put(self, key: Key, block: int, at: int, size: int, born: int, dies: int) -> None:
        """Bytes [at, at + size) of a block. Those of a row that is never alive, or has none, are not kept."""
        self.where[key] = (block, at)
        if born < dies and size:
            self.members[block].append(Member(f"{key[0]} {key[1]}", at, size, born, dies))


def plan_of(problem: Problem, cut: Partition, work: int = WORK, room: int = 0, moves: bool = True) -> Plan:
    """The plan of a cut: an address for every row and all scratch. Not yet validated. room: bytes in which rows may
    have slots, which is tried first; 0: they have not. moves: rows may move, if that makes the arena smaller."""
    problem = problem.for_forms(cut.forms)
    turns = tuple(turn for group in cut.groups for turn in group.turns)
    uses = uses_of(problem)
    lives = lifetimes(problem, slots_of(turns), 0, len(problem.layers), uses)
    pool = _Pool()
    _add_tensors(pool, problem, cut, lives, uses)
    _add_scratch(pool, problem, cut.forms, turns)
    used = [i for i, members in enumerate(pool.members) if members]
    blocks = tuple(Block(tuple(pool.members[i]), pool.aligns[i]) for i in used)
    layout = Layout(blocks, conflicts(blocks, {}))
    bound = _lower_bound(blocks, len(turns), problem.unit)
    scratch = [number for number, i in enumerate(used) if i in pool.scratch]
    starts = (place_in_slots(layout, scratch, room) if room else None) or _starts(layout, scratch, bound, work)
    reached = height(layout, starts)
    found: Places = {i: [(0, at)] for i, at in enumerate(starts)}
    if moves and reached > _enough(bound) and not problem.hop:
        kinds = Kinds(frozenset(scratch), frozenset(number for number, i in enumerate(used) if i in pool.tall))
        moved = place_with_moves(layout, kinds, range(round_up(bound, problem.unit), reached, problem.unit))
        found = moved or found
        reached = max(at + blocks[i].size for i, own in found.items() for _, at in own)
    at = _At(pool.where, {i: found[number] for number, i in enumerate(used)})
    return Plan(
        problem=problem,
        groups=cut.groups,
        forms=cut.forms,
        row_offsets={
            name: tuple(at.of((name, row), int(born)) for row, born in enumerate(lives[name][0]))
            for name in problem.tensors
        },
        scratch_offsets=_scratch_offsets(problem, cut.forms, turns, at),
        accumulator_offsets={
            problem.layers[turn[0]].node: at.of(key) for turn in turns if (key := _accumulator(problem, turn)) in at
        },
        allocations=tuple(_allocations(problem, cut.forms, turns, lives, at)),
        arena_bytes=round_up(reached, problem.unit),
        lower_bound_bytes=bound,
        arena_align=16,
        moves=tuple(_moves(problem, lives, at)),
    )


@dataclass(frozen=True, slots=True)
class _At:
    """Where every row and all scratch lies: blocks, and bytes in them."""

    where: Mapping[Key, tuple[int, int]]
    blocks: Places

    def __contains__(self, key: Key) -> bool:
        return key in self.where

    def of(self, key: Key, turn: int = 0) -> int:
        """In a turn; 0: nothing is ever there."""
        block, inside = self.where.get(key, (-1, 0))
        starts = [start for since, start in self.blocks.get(block, ()) if since <= turn]
        return starts[-1] + inside if starts else 0

    def stays(self, key: Key, born: int, dies: int) -> list[tuple[int, int]]:
        """(turn, offset) where the bytes begin to be in a place."""
        own = self.blocks.get(self.where[key][0], ())
        return [(born, self.of(key, born)), *((t, self.of(key, t)) for t, _ in own if born < t < dies)]


def _moves(problem: Problem, lives: Lives, at: _At) -> list[Move]:
    """In the order in which they are made: larger rows before others."""
    found = []
    for name, tensor in problem.tensors.items():
        for row, born, dies in _rows_of(lives, name):
            stays = at.stays((name, row), born, dies)
            for (_, source), (turn, target) in pairwise(stays):
                found.append(Move(turn, name, row, source, target, tensor.row_bytes))
    return sorted(found, key=lambda move: (move.turn, -move.size))


def _starts(layout: Layout, scratch: Sequence[int], bound: int, work: int) -> tuple[int, ...]:
    """An offset for every block."""
    starts = place(layout, _enough(bound), work)
    reached = height(layout, starts)
    if reached <= _enough(bound):
        return starts
    return place_from_ends(layout, scratch, bound, reached, work) or starts


def _enough(bound: int) -> int:
    """Less than 1/256 above the lower bound is not worth a search."""
    return bound + bound // 256


def _scratch(problem: Problem, layer: int) -> str:
    return f"scratch of {problem.layers[layer].node}"


def _accumulator(problem: Problem, turn: Turn) -> Key:
    return f"accumulator of {problem.layers[turn[0]].node}", 0


def is_contiguous(problem: Problem, groups: Sequence[Group], name: str) -> bool:
    """Whether the rows of a tensor must lie one after another: for the caller, or for a whole call."""
    whole = [problem.layers[group.start] for group in groups if group.is_whole]
    return (
        problem.is_resident(name)
        or name in problem.outputs
        or any(name in layer.reads + layer.writes for layer in whole)
    )


def in_place_rows(problem: Problem, cut: Partition, lives: Lives, uses: Uses) -> Iterator[tuple[Key, Key]]:
    """(row, the row or tensor in whose place it is made); whole tensors by their row 0."""
    number = 0
    for group in cut.groups:
        for turn in group.turns:
            layer, form = problem.layers[turn[0]], cut.forms[turn[0]]
            for name in form.inplace:
                if turn[1] == WHOLE:
                    if uses.last[name] == turn[0]:
                        yield (layer.writes[0], 0), (name, 0)
                        break
                elif all(uses.is_inside(tensor, group.start, group.stop) for tensor in (name, layer.writes[0])):
                    dying = dying_rows(problem, turn, name, lives, number)
                    if dying:
                        assert layer.walk is not None
                        for row, host in zip(layer.walk.made(turn[1]), dying, strict=False):
                            yield (layer.writes[0], row), (name, host)
                        break
            number += 1


def _rows_of(lives: Lives, name: str) -> list[tuple[int, int, int]]:
    """(row, born, dies) of the tensor's rows that are ever there."""
    born, dies = (own.tolist() for own in lives[name])
    return [(row, *life) for row, life in enumerate(zip(born, dies, strict=True)) if life[0] < life[1]]


def _add_tensors(pool: _Pool, problem: Problem, cut: Partition, lives: Lives, uses: Uses) -> None:
    """Makers before readers, so that the host of a row is there before the row."""
    hosts = dict(in_place_rows(problem, cut, lives, uses))
    pending: list[tuple[int, int, str, int]] = []
    for name in sorted(problem.tensors, key=lambda tensor: uses.maker[tensor]):
        if is_contiguous(problem, cut.groups, name):
            _add_contiguous(pool, problem, name, lives, hosts.get((name, 0)))
        else:
            pending += [(born, dies, name, row) for row, born, dies in _rows_of(lives, name)]
    for born, dies, name, row in sorted(pending, key=lambda one: one[0]):
        host = hosts.get((name, row))
        size = problem.tensors[name].row_bytes
        if host is not None:
            pool.put((name, row), *pool.where[host], size, born, dies)
        else:
            pool.add((name, row), size, born, dies, problem.unit)


def _add_contiguous(pool: _Pool, problem: Problem, name: str, lives: Lives, host: Key | None) -> None:
    tensor = problem.tensors[name]
    if host is None:
        pool.members.append([])
        pool.aligns.append(problem.unit)
    block, at = pool.where[host] if host else (len(pool.members) - 1, 0)
    if tensor.rows > 1:
        pool.tall.add(block)
    born, dies = (own.tolist() for own in lives[name])
    for row in range(tensor.rows):
        pool.put((name, row), block, at + row * tensor.row_bytes, tensor.row_bytes, born[row], dies[row])


def _add_scratch(pool: _Pool, problem: Problem, forms: Sequence[Form], turns: Sequence[Turn]) -> None:
    spans: dict[int, list[int]] = {}
    for number, (index, row) in enumerate(turns):
        if size := forms[index].scratch_at(row):
            key = (_scratch(problem, index), max(row, 0))
            pool.add(key, size, number, number + 1, problem.scratch_unit)
            pool.scratch.add(len(pool.members) - 1)
        if row != WHOLE:
            spans.setdefault(index, []).append(number)
    for index, numbers in spans.items():
        walk = problem.layers[index].walk
        if walk is not None and walk.accumulates:
            key = _accumulator(problem, (index, 0))
            pool.add(key, walk.accumulator_bytes, numbers[0], numbers[-1] + 1, problem.unit)


def _scratch_offsets(
    problem: Problem, forms: Sequence[Form], turns: Sequence[Turn], at: _At
) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for index, row in turns:
        if forms[index].scratch_bytes:
            node = problem.layers[index].node
            place = at.of((_scratch(problem, index), max(row, 0)))  # a turn may have none
            found[node] = (*found.get(node, ()), place)
    return found


def _lower_bound(blocks: Sequence[Block], turns: int, unit: int) -> int:
    """Most live bytes in any turn: bytes that two members of a block share count once. Every start is a multiple of
    `unit`; the topmost block of a turn may end between."""
    changes, slack = [0] * (turns + 1), 0
    for block in blocks:
        times = sorted({time for m in block.members for time in (m.born, m.dies)})
        for born, dies in pairwise(times):
            for low, high in _merged((m.at, m.at + m.size) for m in block.members if m.born <= born < m.dies):
                # Bytes that begin between two units: another block may end there, and has that unit in its own count.
                size = max(0, round_up(high, unit) - round_up(low, unit))
                changes[born] += size
                changes[dies] -= size
                slack = max(slack, round_up(high, unit) - high)
    return max(accumulate(changes)) - slack


def _merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same bytes in intervals apart from each other."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _allocations(
    problem: Problem,
    forms: Sequence[Form],
    turns: Sequence[Turn],
    lives: Lives,
    at: _At,
) -> Iterator[Allocation]:
    for name, tensor in problem.tensors.items():
        for row, born, dies in _rows_of(lives, name):
            stays = at.stays((name, row), born, dies)
            ends = [*(since for since, _ in stays[1:]), dies]
            for (since, offset), end in zip(stays, ends, strict=True):
                yield Allocation(name, row, offset, tensor.row_bytes, since, end)
    spans: dict[int, tuple[int, int]] = {}
    for number, turn in enumerate(turns):
        index, row = turn
        if size := forms[index].scratch_at(row):
            key = (_scratch(problem, index), max(row, 0))
            node = problem.layers[index].node
            yield Allocation(node, max(row, 0), at.of(key), size, number, number + 1, "scratch")
        if row != WHOLE and _accumulator(problem, turn) in at:
            spans[index] = (spans.get(index, (number,))[0], number + 1)
    for index, (born, dies) in spans.items():
        layer, place = problem.layers[index], at.of(_accumulator(problem, (index, 0)))
        assert layer.walk is not None
        yield Allocation(layer.node, 0, place, layer.walk.accumulator_bytes, born, dies, "accumulator")
