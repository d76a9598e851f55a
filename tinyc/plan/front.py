# SPDX-License-Identifier: Apache-2.0
"""What the library of a model can be: cycles against flash against arena, over all kernels, forms and groups of layers.

A family is one way to lay out the arena: layer by layer, or by rows. Within a number of live bytes its cheapest cuts,
one for each number of grains of flash, are a table (`tables.py`), exact by the estimates of the costs. The tables of
the numbers of live bytes at which another form fits, some per cent apart, are the front. What lies on it does not
depend on what is asked for, so that a larger limit never leads to what is worth less.

What the arena of a cut takes beside its live bytes is known when it is placed. So cuts are placed in the order of what
they are worth at best, until one is worth as much as the next could be (best first; Hart, Nilsson and Raphael, 1968).
One question needs a few of the tables: what the others have at best, polygons say (`polygon.py`).
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.plan.answer import Partition, Plan
from tinyc.plan.blocks import TooManyRowsError
from tinyc.plan.live import round_up
from tinyc.plan.polygon import Polygon
from tinyc.plan.problem import Problem
from tinyc.plan.replay import InvalidPlanError
from tinyc.plan.rows.cuts import Measured
from tinyc.plan.tables import NEVER, CutTable, CutTables, undominated
from tinyc.plan.uses import Ints, uses_of
from tinyc.plan.validate import validate
from tinyc.plan.worth import Floats, Limits, Worth

_NEAR = 0.01  # of corners in each figure: one of them says as much as both
_STEP = 1.01  # from one number of live bytes to the next, where there are many
_SHOWN = 1.05  # the same of those that are shown
_SHARING = 2  # the same of those for which it is looked at what code layers share
_LAST = 7  # bytes that live bytes may count behind the highest of an arena: places are multiples of 4, of scratch of 8
_ROUNDING = 4  # bytes that each row of a resident input may count for more than it takes
_PLACED = 24  # ways to place all values that are tried for one question, if any keeps the limits
_ROUNDED = 4  # grains by which a cut may take less flash than a table says

Effort = Literal["quick", "thorough", "plain"]  # plain: nothing moves or is fused, which is harder to get wrong
Place = Callable[[Partition, Effort], Plan]


@dataclass(frozen=True, slots=True)
class Corner:
    """A cut that no other one of the front beats: its cycles, flash, and live bytes."""

    cycles: int
    flash_bytes: int
    live_bytes: int
    family: Family
    table: CutTable
    state: int


class Family:
    """The cuts of one way to lay out the arena. problem: of layers that run by rows; None: they all run whole. place:
    the plan of a cut, placed with an effort."""

    def __init__(
        self,
        measured: Sequence[Measured],
        flash_bytes: int | None,
        place: Place,
        problem: Problem | None = None,
        shared: tuple[CutTables, Sequence[int]] | None = None,
        plans: dict[tuple[object, ...], Plan] | None = None,
    ) -> None:
        """shared: tables that count what layers share, and the numbers of live bytes that they are good for. plans:
        those of other families of these cuts, which may have the same ones."""
        self._place, self.problem = place, problem
        self.base: Family = self  # of the same cuts, where each layer counts its part of the code that layers share
        self.measured, self._flash_bytes = measured, flash_bytes
        self.solver = CutTables(measured, flash_bytes) if shared is None else shared[0]
        self.ladder = tuple(_ladder(self.solver.needs(), _STEP) if shared is None else shared[1])
        self._tables: dict[int, CutTable | None] = {}
        self._polygons: dict[int, Polygon | None] = {}
        self._plans = {} if plans is None else plans  # by id of the forms, which the plans keep alive

    def by_shared_code(self) -> list[Family]:
        """The same cuts, with the bytes of sets of functions that good ones share. Which do is looked at for some
        numbers of live bytes: with few, other forms are good."""
        ladders: dict[frozenset[Hashable], list[int]] = {}
        start = 0
        for live_bytes in _ladder(self.ladder, _SHARING):
            stop = self.ladder.index(live_bytes) + 1
            for shared in dict.fromkeys(self.solver.shared_sets(live_bytes)):
                ladders.setdefault(shared, []).extend(self.ladder[start:stop])
            start = stop
        return [self._counting(shared, ladder) for shared, ladder in ladders.items()]

    def _counting(self, shared: frozenset[Hashable], ladder: Sequence[int]) -> Family:
        """The same cuts, with the bytes of these functions once."""
        tables = CutTables(self.measured, self._flash_bytes, shared, self.solver.common)
        family = Family(self.measured, self._flash_bytes, self._place, self.problem, (tables, ladder), self._plans)
        family.base = self
        return family

    def table(self, rung: int) -> CutTable | None:
        """Of a number of live bytes of the ladder."""
        if rung not in self._tables:
            self._tables[rung] = self.solver.within(self.ladder[rung])
        return self._tables[rung]

    def polygon(self, rung: int) -> Polygon | None:
        """What no cut within a number of live bytes of the ladder is below."""
        if rung not in self._polygons:
            self._polygons[rung] = self.solver.polygon(self.ladder[rung])
        return self._polygons[rung]

    @property
    def tables(self) -> tuple[CutTable, ...]:
        """By live bytes, ascending."""
        shown = set(_ladder(self.ladder, _SHOWN))
        rungs = [rung for rung, live_bytes in enumerate(self.ladder) if live_bytes in shown]
        return tuple(table for rung in rungs if (table := self.table(rung)) is not None)

    def rungs_within(self, arena_bytes: int | None) -> int:
        """How many numbers of live bytes may be placed in an arena."""
        return len(self.ladder) if arena_bytes is None else bisect_right(self.ladder, arena_bytes + self.rounding)

    @cached_property
    def rounding(self) -> int:
        """Bytes by which an arena may be smaller than the live bytes of its cut: each row counts rounded up, but in a
        tensor that is there as a whole they lie one behind the other."""
        problem = self.problem
        if problem is None:
            return _LAST
        uses = uses_of(problem)
        changes = np.zeros(len(problem.layers) + 2, np.int64)
        for name, tensor in problem.tensors.items():
            if name not in problem.inputs:
                more = tensor.rows * (round_up(tensor.row_bytes, problem.unit) - tensor.row_bytes)
                changes[max(uses.maker[name], 0)] += more
                changes[min(uses.last[name], len(problem.layers)) + 1] -= more
        of_inputs = _ROUNDING * sum(problem.tensors[name].rows for name in problem.inputs)
        return _LAST + of_inputs + int(changes.cumsum().max())

    def plan(self, cut: Partition, effort: Effort = "quick") -> Plan:
        """The plan of a cut, placed; not yet validated. What is placed with more effort takes no larger arena."""
        key = (effort, *_identity(cut))
        if key not in self._plans:
            plan = self._place(cut, effort)
            if effort == "thorough":
                plan = min(self.plan(cut), plan, key=lambda one: one.arena_bytes)
            self._plans[key] = plan
        return self._plans[key]


def _identity(cut: Partition) -> tuple[int, ...]:
    """Equal of equal cuts: for several numbers of live bytes, and of code that layers share, one may be the best."""
    return (*map(id, cut.forms), *(group.start for group in cut.groups), *map(id, cut.groups))


class _Stairs:
    """The fewest cycles in so much flash: flash ascending, cycles descending."""

    def __init__(self, flash: Ints | None = None, cycles: Ints | None = None) -> None:
        self._flash = np.zeros(1, np.int64) if flash is None else flash
        self._cycles = np.full(1, NEVER, np.int64) if cycles is None else cycles

    def below(self, flash: Ints, cycles: Ints) -> npt.NDArray[np.bool_]:
        """Which take fewer cycles than what takes no more flash."""
        lower: npt.NDArray[np.bool_] = cycles < self._cycles[np.searchsorted(self._flash, flash, side="right") - 1]
        return lower

    def with_steps(self, flash: Ints, cycles: Ints) -> _Stairs:
        """The stairs, and below them these."""
        every, least = np.concatenate((self._flash, flash)), np.concatenate((self._cycles, cycles))
        order = np.lexsort((least, every))
        return _Stairs(every[order], np.minimum.accumulate(least[order]))


@dataclass(frozen=True, slots=True)
class Best:
    """The answer to a question: the plan, validated, and its family."""

    plan: Plan
    family: Family


@dataclass(frozen=True, slots=True)
class _Rungs:
    """Numbers of live bytes [low, high] of a family's ladder."""

    family: Family
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _State:
    """One state of a table: the first of those in `order`, which are left, by what they are worth at best."""

    family: Family
    rung: int
    order: Ints
    values: Floats

    @property
    def table(self) -> CutTable:
        table = self.family.table(self.rung)
        assert table is not None
        return table


@dataclass(frozen=True, slots=True)
class _Cut:
    """A cut whose cycles and flash are known, not yet placed."""

    family: Family
    cut: Partition
    flash_bytes: int


@dataclass(frozen=True, slots=True)
class _Placed:
    """A cut with its plan."""

    cut: _Cut
    plan: Plan
    effort: Effort = "quick"


class Front:
    """All that families of cuts of one model offer."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = families

    def best(self, worth: Worth, limits: Limits | None = None) -> Best | None:
        """The plan worth most within the limits, validated; None where none is found within them."""
        return _Search(self.families, worth, limits or Limits()).run()

    def bound(self, worth: Worth, limits: Limits | None = None) -> float | None:
        """What none of all cuts is worth less than, placed without a wasted byte, whatever code layers share: where
        several may have a function, each counts as if all had it. None where nothing is within the limits."""
        limits = limits or Limits()
        queue: list[tuple[float, int, Family, list[int]]] = []

        def offer(family: Family, needs: list[int]) -> None:
            polygon = family.solver.polygon(needs[-1]) if needs else None
            if polygon is None:
                return
            value = polygon.value(worth, limits, max(needs[0] - family.rounding, 0), 0)
            if value is not None:
                heapq.heappush(queue, (value, next(number), family, needs))

        number = itertools.count()
        for family in {id(own.base): own.base for own in self.families}.values():
            most = np.inf if limits.arena_bytes is None else limits.arena_bytes + family.rounding
            offer(family, [need for need in family.solver.needs() if need <= most])
        while queue:
            value, _, family, needs = heapq.heappop(queue)
            if len(needs) == 1:
                return value
            offer(family, needs[: len(needs) // 2])
            offer(family, needs[len(needs) // 2 :])
        return None

    @cached_property
    def corners(self) -> tuple[Corner, ...]:
        """What no other cut beats in cycles, flash and live bytes together, by live bytes and then by flash."""
        corners: list[Corner] = []
        stairs = _Stairs()  # of the corners, which need no more live bytes than what comes
        tables = sorted(
            ((table, family) for family in self.families for table in family.tables), key=lambda one: one[0].live_bytes
        )
        for live_bytes, own in itertools.groupby(tables, key=lambda one: one[0].live_bytes):
            of_bytes = list(own)
            steps = [np.flatnonzero(np.diff(table.cycles, prepend=NEVER) < 0) for table, _ in of_bytes]
            cycles, flash = (
                np.concatenate([figures[states] for figures, states in zip(each, steps, strict=True)])
                for each in zip(*((table.cycles, table.flash_bytes) for table, _ in of_bytes), strict=True)
            )
            places = [(number, state) for number, states in enumerate(steps) for state in states.tolist()]
            best = undominated(flash, cycles)
            best = best[stairs.below(flash[best], cycles[best])]
            stairs = stairs.with_steps(flash[best], cycles[best])
            for place in best.tolist():
                number, state = places[place]
                table, family = of_bytes[number]
                corners.append(Corner(int(cycles[place]), int(flash[place]), live_bytes, family, table, state))
        return tuple(corners)

    def some(self, count: int) -> tuple[float, tuple[Corner, ...]]:
        """At most so many corners that say most of all, and how far others are from them: each other corner is beaten
        by one of these but for such a share in each figure. First the ends, then always the one that is furthest off
        (Gonzalez, 1985)."""
        figures = np.log([(max(own.cycles, 1), own.flash_bytes, max(own.live_bytes, 1)) for own in self.corners])
        ends = [int(figures[:, i].argmin()) for i in range(3)]
        chosen = list(dict.fromkeys(ends))
        far = np.min([_distances(figures, end) for end in chosen], axis=0)
        while len(chosen) < count and far.max() > _NEAR:
            chosen.append(int(far.argmax()))
            far = np.minimum(far, _distances(figures, chosen[-1]))
        return float(np.expm1(far.max())), tuple(self.corners[i] for i in sorted(chosen))


class _Search:
    """Best first: rungs of ladders and states of tables by the value that they have at best, cuts by that of their live
    bytes, plans by their own. Limits only leave out: what is looked at in what order does not depend on them, so that
    a larger one leads to what is worth less only where `_PLACED` ends the search."""

    def __init__(self, families: Sequence[Family], worth: Worth, limits: Limits) -> None:
        self.worth, self.limits = worth, limits
        self.refused: list[str] = []  # by the validator: faults of the planner
        self._queue: list[tuple[float, int, _Rungs | _State | _Cut | _Placed]] = []
        self._looked_at: set[tuple[int, ...]] = set()  # cuts
        self._placed: set[int] = set()  # by id, which families keep: different places of all values
        self._number = itertools.count()
        for family in families:
            self._offer(_Rungs(family, 0, family.rungs_within(limits.arena_bytes) - 1))

    def run(self) -> Best | None:
        while self._queue:
            _, _, item = heapq.heappop(self._queue)
            if isinstance(item, _Rungs) and item.low < item.high:
                middle = (item.low + item.high) // 2
                self._offer(replace(item, high=middle))
                self._offer(replace(item, low=middle + 1))
            elif isinstance(item, _Rungs):
                self._open(item.family, item.low)
            elif isinstance(item, _State):
                self._look_at(item)
            elif isinstance(item, _Cut):
                self._place(item)
            elif item.effort == "quick" and item.plan.gap_bytes:
                self._push_plan(item.cut, item.cut.family.plan(item.cut.cut, "thorough"), "thorough")
            elif self._is_valid(item.plan):
                return Best(replace(item.plan, refused=tuple(self.refused)), item.cut.family)
            elif item.effort != "plain":
                self._push_plan(item.cut, item.cut.family.plan(item.cut.cut, "plain"), "plain")
        return None

    def _push(self, value: float, item: _Rungs | _State | _Cut | _Placed) -> None:
        heapq.heappush(self._queue, (value, next(self._number), item))

    def _offer(self, rungs: _Rungs) -> None:
        """Rungs, by the polygon of the last of them in the arena of the first."""
        polygon = rungs.family.polygon(rungs.high) if rungs.low <= rungs.high else None
        if polygon is None:
            return
        spare_bytes = _ROUNDED * rungs.family.solver.grain
        value = polygon.value(self.worth, self.limits, rungs.family.ladder[rungs.low], spare_bytes)
        if value is not None:
            self._push(value, rungs)

    def _open(self, family: Family, rung: int) -> None:
        """The states of a rung."""
        table = family.table(rung)
        if table is None:
            return
        states, values = self._states(table, family.ladder[rung])
        if len(states):
            order = np.argsort(values, kind="stable")
            self._push(float(values[order[0]]), _State(family, rung, states[order], values[order]))

    def _states(self, table: CutTable, arena_bytes: int) -> tuple[Ints, Floats]:
        """States of a table that may be within the limits, and what they are worth at best in an arena: cuts take some
        grains more or less than the table says, which rounds."""
        least = table.flash_bytes - _ROUNDED * table.solver.grain
        allowed = np.diff(table.cycles, prepend=NEVER) < 0
        if self.limits.cycles is not None:
            allowed &= table.cycles <= self.limits.cycles
        if self.limits.flash_bytes is not None:
            allowed &= least <= self.limits.flash_bytes
        states = np.flatnonzero(allowed)
        return states, self.worth.of_all(table.cycles[states], np.maximum(least[states], 0), arena_bytes)

    def _look_at(self, item: _State) -> None:
        """The cut of the state, if it is within the limits; then the next state."""
        if len(item.order) > 1:
            self._push(float(item.values[1]), replace(item, order=item.order[1:], values=item.values[1:]))
        cut = item.table.cut(int(item.order[0]))
        key = _identity(cut)
        if key in self._looked_at:
            return
        self._looked_at.add(key)
        flash = cut.flash_bytes
        if self.limits.flash_bytes is None or flash <= self.limits.flash_bytes:
            value = self.worth.of(cut.weight, flash, item.family.ladder[item.rung])
            self._push(value, _Cut(item.family, cut, flash))

    def _place(self, item: _Cut) -> None:
        if len(self._placed) >= _PLACED and any(isinstance(other[2], _Placed) for other in self._queue):
            return
        try:
            plan = item.family.plan(item.cut)
        except TooManyRowsError:
            return
        self._placed.add(id(plan.allocations))
        most = self.limits.arena_bytes
        if most is not None and plan.lower_bound_bytes <= most < plan.arena_bytes:
            self._push_plan(item, item.family.plan(item.cut, "thorough"), "thorough")
        else:
            self._push_plan(item, plan, "quick")

    def _push_plan(self, item: _Cut, plan: Plan, effort: Effort) -> None:
        """A plan, if it is within the limit of RAM."""
        if self.limits.arena_bytes is None or plan.arena_bytes <= self.limits.arena_bytes:
            value = self.worth.of(plan.cycles, item.flash_bytes, plan.arena_bytes)
            self._push(value, _Placed(item, plan, effort))

    def _is_valid(self, plan: Plan) -> bool:
        try:
            validate(plan)
        except InvalidPlanError as error:
            self.refused.append(str(error))
            return False
        return True


def _distances(figures: Floats, place: int) -> Floats:
    """How much worse one corner is than each of all in the figure where it is worst; in logarithms."""
    worse: Floats = (figures[place] - figures).max(axis=1)
    return worse


def _ladder(needs: Sequence[int], step: float) -> Iterator[int]:
    """Of ascending numbers of bytes those that are apart."""
    last = 0.0
    for need in needs:
        if need >= last * step or need == needs[-1]:
            yield need
            last = need
