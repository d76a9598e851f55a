# SPDX-License-Identifier: Apache-2.0
"""What the library of a model can be: cycles against flash against arena, over all kernels, forms and groups of layers.

A family is one way to lay out the arena: layer by layer, or by rows. Within a number of live bytes its cheapest cuts,
one for each number of grains of flash, are a table (`tables.py`), exact by the estimates of the costs. The tables of
the numbers of live bytes at which another form fits, some per cent apart, are the front. What lies on it does not
depend on what is asked for, so that a larger limit never leads to what is worth less.

What the arena of a cut takes beside its live bytes is known when it is placed, and what its library takes of flash
beside its layers, when it is lowered. So cuts are placed in the order of what they are worth at best, until one is
worth as much as the next could be (best first; Hart, Nilsson and Raphael, 1968).
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
from tinyc.plan.problem import Problem
from tinyc.plan.replay import InvalidPlanError
from tinyc.plan.rows.cuts import Measured
from tinyc.plan.tables import NEVER, CutTable, CutTables, undominated
from tinyc.plan.uses import Ints
from tinyc.plan.validate import validate
from tinyc.plan.worth import Floats, Limits, Worth

_NEAR = 0.01  # of corners in each figure: one of them says as much as both
_STEP = 1.01  # from one number of live bytes to the next, where there are many
_SHOWN = 1.05  # the same of those that are shown
_SHARING = 2  # the same of those for which it is looked at what code layers share
_ROUNDING = 4  # bytes that each row of a resident input may count for more than it takes
_PLACED = 24  # cuts that are placed for one question
_ROUNDS = 12  # of one table, for limits that only a placed library is known to keep
_LEAST_BESIDE = 16  # of a limit: what layers take less, because they share code
_SHARED = 50  # of a limit of flash one part of so many is what the sharing of code is known to

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
        self.measured, self._flash_bytes = measured, flash_bytes
        self.solver = CutTables(measured, flash_bytes) if shared is None else shared[0]
        self.ladder = tuple(_ladder(self.solver.needs(), _STEP) if shared is None else shared[1])
        self._tables: dict[int, CutTable | None] = {}
        self._plans = {} if plans is None else plans  # by id of the forms, which the plans keep alive

    def by_shared_code(self) -> list[Family]:
        """The same cuts, with the bytes of sets of functions that good ones share. Which do is looked at for some
        numbers of live bytes: with few, other forms are good."""
        ladders: dict[frozenset[Hashable], list[int]] = {}
        start = 0
        for live_bytes in _ladder(self.ladder, _SHARING):
            stop = self.ladder.index(live_bytes) + 1
            table = self.table(stop - 1)
            for shared in dict.fromkeys(table.shared_sets() if table is not None else ()):
                ladders.setdefault(shared, []).extend(self.ladder[start:stop])
            start = stop
        return [
            Family(
                self.measured,
                self._flash_bytes,
                self._place,
                self.problem,
                (CutTables(self.measured, self._flash_bytes, shared, self.solver.common), ladder),
                self._plans,
            )
            for shared, ladder in ladders.items()
        ]

    def table(self, rung: int) -> CutTable | None:
        """Of a number of live bytes of the ladder."""
        if rung not in self._tables:
            self._tables[rung] = self.solver.within(self.ladder[rung])
        return self._tables[rung]

    @property
    def tables(self) -> tuple[CutTable, ...]:
        """By live bytes, ascending."""
        shown = set(_ladder(self.ladder, _SHOWN))
        rungs = [rung for rung, live_bytes in enumerate(self.ladder) if live_bytes in shown]
        return tuple(table for rung in rungs if (table := self.table(rung)) is not None)

    def rungs_within(self, arena_bytes: int | None) -> int:
        """How many numbers of live bytes may be placed in an arena."""
        if arena_bytes is None:
            return len(self.ladder)
        rows = 0 if self.problem is None else sum(self.problem.tensors[name].rows for name in self.problem.inputs)
        return bisect_right(self.ladder, arena_bytes + _ROUNDING * rows)

    def plan(self, table: CutTable, state: int, effort: Effort = "quick") -> Plan:
        """The plan of a cut, placed; not yet validated."""
        cut = table.cut(state)
        key = (effort, *_identity(cut))
        if key not in self._plans:
            self._plans[key] = self._place(cut, effort)
        return self._plans[key]


def _identity(cut: Partition) -> tuple[int, ...]:
    """Equal of equal cuts: for several numbers of live bytes, and of code that layers share, one may be the best."""
    return (*map(id, cut.forms), *(group.start for group in cut.groups), *map(id, cut.groups))


FlashOf = Callable[[Family, Plan], int]


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
    """The answer to a question: the plan, validated; its family; and bytes of flash as a limit counts them."""

    plan: Plan
    family: Family
    flash_bytes: int


@dataclass(frozen=True, slots=True)
class _Rungs:
    """Numbers of live bytes [low, high] of a family's ladder."""

    family: Family
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _State:
    """A cut. tried: how often another one of its table was placed. fits, exceeds: states, the largest placed that is
    within the limit of flash, and the smallest that is not."""

    family: Family
    rung: int
    state: int
    tried: int = 0
    fits: int = -1
    exceeds: int = NEVER
    has_gaps: bool = False  # what exceeds is the arena

    def plan(self, effort: Effort = "quick") -> Plan:
        """Placed."""
        return self.family.plan(self.table, self.state, effort)

    @property
    def last(self) -> int:
        """The last state of the same cut, which so much more flash does not change."""
        cycles = self.table.cycles
        return int(np.searchsorted(-cycles, -cycles[self.state], side="right")) - 1

    @property
    def table(self) -> CutTable:
        table = self.family.table(self.rung)
        assert table is not None
        return table


@dataclass(frozen=True, slots=True)
class _Placed:
    """A cut with its plan."""

    cut: _State
    plan: Plan
    flash_bytes: int
    effort: Effort = "quick"


class Front:
    """All that families of cuts of one model offer."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = families

    def best(self, worth: Worth, limits: Limits | None = None, flash_of: FlashOf | None = None) -> Best | None:
        """The plan worth most within the limits, validated; None where none is found within them.

        flash_of: bytes of a plan's library, which are what a limit of flash counts; None: those of its forms.
        """
        return _Search(self.families, worth, limits or Limits(), flash_of).run()

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
    """Best first: rungs of ladders by the value that they have at best, cuts by that of their live bytes, plans by
    their own."""

    def __init__(self, families: Sequence[Family], worth: Worth, limits: Limits, flash_of: FlashOf | None) -> None:
        self.worth, self.limits, self.flash_of = worth, limits, flash_of
        # By id of the family: bytes of flash that its last library took beside what the table counts; before the first
        # one, the least that may be.
        self.beside = {id(family): -(limits.flash_bytes or 0) // _LEAST_BESIDE for family in families}
        self.refused: list[str] = []  # by the validator: faults of the planner
        self._queue: list[tuple[float, int, _Rungs | _State | _Placed]] = []
        self._looked_at: set[tuple[int, ...]] = set()  # cuts that have been placed
        self._flash: dict[int, int] = {}  # by id of the plan, which its family keeps: bytes of its library
        self._number = itertools.count()
        for family in families:
            self._offer(_Rungs(family, 0, family.rungs_within(limits.arena_bytes) - 1))

    def run(self) -> Best | None:
        left = _PLACED
        while self._queue:
            value, _, item = heapq.heappop(self._queue)
            if isinstance(item, _Rungs):
                middle = (item.low + item.high) // 2
                self._offer(replace(item, high=middle))
                self._offer(replace(item, low=middle + 1))
            elif isinstance(item, _State):
                if not item.tried and not self._is_current(item):
                    self._offer(_Rungs(item.family, item.rung, item.rung))
                    continue
                cut = _identity(item.table.cut(item.state))
                left -= cut not in self._looked_at
                self._looked_at.add(cut)
                if left >= 0 or not any(isinstance(other[2], _Placed) for other in self._queue):
                    self._place(item)
            elif item.effort == "quick" and item.plan.gap_bytes:
                self._push(value, replace(item, plan=self._smaller(item.cut, item.plan), effort="thorough"))
            elif self._is_valid(item.plan):
                return Best(replace(item.plan, refused=tuple(self.refused)), item.cut.family, item.flash_bytes)
            elif item.effort != "plain":
                plain = item.cut.plan("plain")
                if plain.arena_bytes <= (self.limits.arena_bytes or plain.arena_bytes):
                    self._push(value, replace(item, plan=plain, effort="plain"))
        return None

    def _push(self, value: float, item: _Rungs | _State | _Placed) -> None:
        heapq.heappush(self._queue, (value, next(self._number), item))

    def _offer(self, rungs: _Rungs) -> None:
        """Rungs, by the cuts of the last of them in the arena of the first."""
        best = self._best_of(rungs)
        if best is not None:
            single = rungs.low == rungs.high
            self._push(best[0], _State(rungs.family, rungs.low, best[1]) if single else rungs)

    def _offer_nearer(self, cut: _State) -> None:
        """Another cut of the table, nearer to the limit of flash: what is best by what is now known of flash, where it
        lies between the states that are known to fit and to exceed; and else, and every other time, the state in their
        middle. (What a table counts is rounded: a state that exceeds may seem to fit.)"""
        best = self._best_of(_Rungs(cut.family, cut.rung, cut.rung), cut.exceeds)
        if best is None or best[1] in (cut.state, cut.fits) or cut.tried == _ROUNDS:
            return
        value, state = best
        if cut.exceeds != NEVER and (state <= cut.fits or cut.has_gaps or cut.tried % 2):
            state = (cut.fits + cut.exceeds) // 2
        if cut.fits < state < cut.exceeds != NEVER or cut.fits < state == best[1]:
            self._push(value, replace(cut, state=state, tried=cut.tried + 1))

    def _offer_between(self, cut: _State) -> None:
        """The cut of the table in the middle between the states that are known to fit and to exceed the arena: with
        less flash other forms are taken, which may leave no gaps."""
        state = (cut.fits + cut.exceeds) // 2
        if cut.tried == _ROUNDS or not cut.fits < state:
            return
        table = cut.table
        if table.cycles[state] < NEVER:
            value = self.worth.of(table.cycles[state], table.flash_bytes[state], cut.family.ladder[cut.rung])
            self._push(value, replace(cut, state=state, tried=cut.tried + 1))

    def _best_of(self, rungs: _Rungs, exceeds: int = NEVER) -> tuple[float, int] | None:
        """The value of the best cut of the last of the rungs in the arena of the first, and its state, which is below
        one that exceeds the limit of flash."""
        table = rungs.family.table(rungs.high) if rungs.low <= rungs.high else None
        if table is None:
            return None
        return _best_state(
            table, self.worth, self.limits, self.beside[id(rungs.family)], rungs.family.ladder[rungs.low], exceeds
        )

    def _is_current(self, cut: _State) -> bool:
        """Whether the cut is what is best by what is now known of flash."""
        best = self._best_of(_Rungs(cut.family, cut.rung, cut.rung))
        return best is not None and best[1] == cut.state

    def _place(self, cut: _State) -> None:
        try:
            plan = cut.plan()
        except TooManyRowsError:
            return
        most = self.limits.arena_bytes
        if most is not None and plan.lower_bound_bytes <= most < plan.arena_bytes:
            plan = self._smaller(cut, plan)
        if most is not None and plan.arena_bytes > most:
            self._offer_between(replace(cut, exceeds=cut.state, has_gaps=True))
            return
        counted, limit = cut.family.solver.counted(plan.forms), self.limits.flash_bytes
        flash = plan.flash_bytes
        if limit is not None:
            if self.flash_of is not None:
                if id(plan) not in self._flash:
                    self._flash[id(plan)] = self.flash_of(cut.family, plan)
                flash = self._flash[id(plan)]
            beside = flash - counted
            if flash <= limit:  # more layers than said may share their code: what seems a little too large may fit, too
                beside -= limit // _SHARED
            self.beside[id(cut.family)] = beside
            fits, exceeds = (cut.last, cut.exceeds) if flash <= limit else (cut.fits, cut.state)
            self._offer_nearer(replace(cut, fits=fits, exceeds=exceeds))
        elif cut.exceeds != NEVER:
            self._offer_between(replace(cut, fits=cut.last))
        if limit is None or flash <= limit:
            value = self.worth.of(plan.cycles, plan.flash_bytes, plan.arena_bytes)
            self._push(value, _Placed(cut, plan, flash))

    def _smaller(self, cut: _State, plan: Plan) -> Plan:
        """The plan of a cut, placed with more effort."""
        return min(plan, cut.plan("thorough"), key=lambda one: one.arena_bytes)

    def _is_valid(self, plan: Plan) -> bool:
        try:
            validate(plan)
        except InvalidPlanError as error:
            self.refused.append(str(error))
            return False
        return True


def _best_state(
    table: CutTable, worth: Worth, limits: Limits, beside: int, arena_bytes: int, exceeds: int
) -> tuple[float, int] | None:
    """The value of the best cut of a table in an arena, and its state; None where none is within the limits. beside:
    bytes of flash that a library takes beside what the table counts. exceeds: a state; no greater one is allowed."""
    flash = table.flash_bytes
    allowed = table.cycles < (NEVER if limits.cycles is None else limits.cycles + 1)
    allowed[min(exceeds, len(allowed)) :] = False
    if limits.flash_bytes is not None:
        allowed &= flash <= limits.flash_bytes - beside
    if not allowed.any():
        return None
    values = np.where(allowed, worth.of_all(table.cycles, flash, arena_bytes), np.inf)
    state = int(values.argmin())
    return float(values[state]), state


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
