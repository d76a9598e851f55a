# SPDX-License-Identifier: Apache-2.0
"""Addresses: every buffer is placed where those alive with it leave room, whether layers run whole or by rows.

What places them is `arena.place`, or `ends.py` where that finds less, or `exact.py` where it is asked for; of rows also
`compact.py`, where moving from turn to turn makes the arena smaller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from tinyc.base.dataclass import dataclass
from tinyc.plan.answer import Allocation, Group, Move, Partition, Plan
from tinyc.plan.arena import WORK, height, place
from tinyc.plan.blocks import Layout
from tinyc.plan.buffers import Buffers, Key, Running, accumulator_key, buffers_of, scratch_key
from tinyc.plan.compact import Kinds, Places, place_with_moves
from tinyc.plan.ends import place_from_ends
from tinyc.plan.exact import prove
from tinyc.plan.live import lower_bound, lower_bound_of, round_up
from tinyc.plan.liveness import lifetimes
from tinyc.plan.problem import WHOLE, Problem, Turn
from tinyc.plan.slide import slide_of
from tinyc.plan.turns import slots_of, whole_turn
from tinyc.plan.uses import uses_of

QUICK_WORK = 150_000  # of `place`, where several plans by rows are compared
FULL_WORK = 2_000_000  # for the one that is taken
_ALIGN = 16  # of the arena itself


def plan_order(problem: Problem, order: Sequence[int], exact: bool = False, work: int = WORK) -> Plan:
    """The plan of layers that all run whole, in this order, not yet validated: in place wherever that is allowed; where
    it wastes bytes, where it helps. exact: a plan above its lower bound goes to an exact solver."""
    draft = _Draft(running_of(problem, in_order(problem, order)))
    bound = lower_bound(problem, order)
    merged = buffers_of(draft.running)
    plan = draft.plan(merged, _starts(merged.layout, bound, bound, work), bound)
    if not plan.gap_bytes:
        return plan
    free = buffers_of(draft.running, merge=False)
    if len(free.layout.blocks) > len(merged.layout.blocks):
        other = draft.plan(free, _starts(free.layout, bound, bound, work), bound)
        plan = other if other.arena_bytes < plan.arena_bytes else plan
    if not plan.gap_bytes or not exact:
        return plan
    proof = prove(free.layout, bound, _starts_in(plan, free))
    return draft.plan(free, proof.offsets, proof.lower_bound)


def plan_of(problem: Problem, cut: Partition, work: int = QUICK_WORK, moves: bool = True) -> Plan:
    """The plan of a cut: an address for every row and all scratch. Not yet validated. moves: rows may move, if that
    makes the arena smaller."""
    draft = _Draft(running_of(problem.for_forms(cut.forms), cut))
    buffers = buffers_of(draft.running)
    layout, unit = buffers.layout, problem.unit
    least = lower_bound_of(layout.blocks, len(draft.running.turns), unit)
    bound = least if draft.is_whole else round_up(least, unit)
    starts = _starts(layout, bound, _enough(bound), work)
    reached = height(layout, starts)
    if moves and reached > _enough(bound) and not problem.hop:
        kinds = Kinds(frozenset(layout.scratch), buffers.tall, buffers.still(problem))
        moved = place_with_moves(layout, kinds, range(round_up(bound, unit), reached, unit))
        if moved is not None:
            return draft.moving_plan(buffers, moved, bound)
    return draft.plan(buffers, starts, bound)


def in_order(problem: Problem, order: Sequence[int]) -> Partition:
    """All layers whole, one after another."""
    groups = tuple(Group(index, index + 1, whole_turn(index)) for index in order)
    return Partition(groups, tuple(layer.whole for layer in problem.layers), 0)


def running_of(problem: Problem, cut: Partition) -> Running:
    """The problem with the turns and forms of a cut, and when everything is alive."""
    uses = uses_of(problem)
    slots = slots_of([turn for group in cut.groups for turn in group.turns])
    return Running(problem, cut, uses, lifetimes(problem, slots, 0, len(problem.layers), uses))


def _starts_in(plan: Plan, buffers: Buffers) -> list[int]:
    """Where the blocks lie in a plan of layers that run whole."""
    starts = [0] * len(buffers.layout.blocks)
    for (kind, name, number), (block, inside) in buffers.where.items():
        if block >= 0:
            offsets = plan.row_offsets if kind == "tensor" else plan.scratch_offsets
            starts[block] = offsets[name][number] - inside
    return starts


def _starts(layout: Layout, bound: int, enough: int, work: int) -> Sequence[int]:
    """An offset for every block; a height of `enough` bytes ends the search."""
    starts = place(layout, enough, work)
    reached = height(layout, starts)
    if not layout.scratch or reached <= enough:
        return starts
    return place_from_ends(layout, layout.scratch, bound, reached, min(work, FULL_WORK)) or starts


def _enough(bound: int) -> int:
    """Less than 1/256 above the lower bound is not worth a search, of the many plans by rows."""
    return bound + bound // 256


@dataclass(frozen=True)
class _Draft:
    """What becomes a plan as soon as its buffers have places."""

    running: Running

    @cached_property
    def turns(self) -> tuple[Turn, ...]:
        return self.running.turns

    @property
    def is_whole(self) -> bool:
        """Whether no layer runs by rows; rows make of the arena whole units."""
        return all(group.is_whole for group in self.running.cut.groups)

    def plan(self, buffers: Buffers, starts: Sequence[int], bound: int) -> Plan:
        """With one place for each block."""
        return self.moving_plan(buffers, {i: [(0, at)] for i, at in enumerate(starts)}, bound)

    def moving_plan(self, buffers: Buffers, places: Places, bound: int) -> Plan:
        """With places from turn to turn."""
        problem, cut, lives = self.running.problem, self.running.cut, self.running.lives
        blocks, at = buffers.layout.blocks, _At(buffers.where, places)
        reached = max((start + blocks[i].size for i, own in places.items() for _, start in own), default=0)
        offsets = {
            name: tuple(at.of(("tensor", name, row), int(born)) for row, born in enumerate(lives[name][0]))
            for name in problem.tensors
        }
        return Plan(
            problem=problem,
            groups=cut.groups,
            forms=cut.forms,
            row_offsets=offsets,
            scratch_offsets=self._scratch_offsets(at),
            accumulator_offsets={
                problem.layers[index].node: at.of(key)
                for index, _ in self.turns
                if (key := accumulator_key(problem, index)) in at
            },
            allocations=tuple(self._allocations(at)),
            arena_bytes=reached if self.is_whole else round_up(reached, problem.unit),
            lower_bound_bytes=bound,
            arena_align=max(_ALIGN, problem.unit, problem.scratch_unit),
            moves=tuple(self._moves(at)),
            bottom_up=frozenset(group.start for group in cut.groups if self._runs_bottom_up(group, offsets)),
        )

    def _scratch_offsets(self, at: _At) -> dict[str, tuple[int, ...]]:
        problem, offsets = self.running.problem, dict[str, tuple[int, ...]]()
        for turn in self.turns:
            if self.running.cut.forms[turn[0]].scratch_bytes:
                node = problem.layers[turn[0]].node
                offsets[node] = (*offsets.get(node, ()), at.of(scratch_key(problem, turn)))  # a turn may have none
        return offsets

    def _moves(self, at: _At) -> list[Move]:
        """In the order in which they are made: larger rows before others."""
        moves = []
        for name, tensor in self.running.problem.tensors.items():
            for row, born, dies in self.running.rows_of(name):
                stays = at.stays(("tensor", name, row), born, dies)
                for (_, source), (turn, target) in pairwise(stays):
                    moves.append(Move(turn, name, row, source, target, tensor.row_bytes))
        return sorted(moves, key=lambda move: (move.turn, -move.size))

    def _runs_bottom_up(self, group: Group, offsets: Mapping[str, Sequence[int]]) -> bool:
        """Rows of a whole call run top-down, but where the output reaches into its input from above."""
        layer, form = self.running.problem.layers[group.start], self.running.cut.forms[group.start]
        sliding = form.sliding
        if not group.is_whole or sliding is None or sliding.forward or sliding.tensor in form.inplace:
            return False
        distance = offsets[layer.writes[0]][0] - offsets[sliding.tensor][0]
        return slide_of(sliding.rows).low < distance < self.running.problem.tensors[sliding.tensor].size

    def _allocations(self, at: _At) -> Iterator[Allocation]:
        """Of tensors by birth, then of scratch and sums."""
        problem = self.running.problem
        rows = [(name, *life) for name in problem.tensors for life in self.running.rows_of(name)]
        for name, row, born, dies in sorted(rows, key=lambda one: one[2]):
            stays = at.stays(("tensor", name, row), born, dies)
            ends = [*(since for since, _ in stays[1:]), dies]
            for (since, offset), end in zip(stays, ends, strict=True):
                yield Allocation(name, row, offset, problem.tensors[name].row_bytes, since, end)
        spans: dict[int, tuple[int, int]] = {}
        for number, (index, row) in enumerate(self.turns):
            if size := self.running.cut.forms[index].scratch_at(row):
                node, key = problem.layers[index].node, scratch_key(problem, (index, row))
                yield Allocation(node, max(row, 0), at.of(key), size, number, number + 1, "scratch")
            if row != WHOLE and accumulator_key(problem, index) in at:
                spans[index] = (spans.get(index, (number,))[0], number + 1)
        for index, (born, dies) in spans.items():
            layer, offset = problem.layers[index], at.of(accumulator_key(problem, index))
            assert layer.walk is not None
            yield Allocation(layer.node, 0, offset, layer.walk.accumulator_bytes, born, dies, "accumulator")


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
        own = self.blocks.get(self.where.get(key, (-1, 0))[0], ())
        return [(born, self.of(key, born)), *((t, self.of(key, t)) for t, _ in own if born < t < dies)]
