# SPDX-License-Identifier: Apache-2.0
"""What the library of a model can be: cycles against flash against arena, over all kernels, forms and groups of layers.

A family is one way to lay out the arena: layer by layer, or by rows. Within a number of live bytes its cheapest cuts,
one for each number of grains of flash, are a table (`tables.py`), exact by the estimates of the costs. The tables of
the numbers of live bytes at which another form fits, some per cent apart, are the front. What lies on it does not
depend on what is asked for. What the arena of a cut takes beside its live bytes is known when it is placed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tinyc.choose.select import Choice
from tinyc.ir.graph import Graph
from tinyc.plan.answer import Partition, Plan
from tinyc.plan.builder import problem_of
from tinyc.plan.liveness import Load
from tinyc.plan.needs import Needs
from tinyc.plan.placement import plan_of
from tinyc.plan.planner import draft_plan
from tinyc.plan.problem import Form, Layer, Problem
from tinyc.plan.row_forms import Candidates
from tinyc.plan.rows.choose import ROW_ADDRESSES, UNITS
from tinyc.plan.rows.cuts import Measured, measure
from tinyc.plan.rows.wider import widened
from tinyc.plan.tables import NEVER, CutTable, CutTables, undominated
from tinyc.plan.turns import slots_of, whole_turn
from tinyc.plan.uses import Ints

Floats = npt.NDArray[np.float64]
_NEAR = 0.01  # of corners in each figure: one of them says as much as both
_STEP = 1.02  # from one number of live bytes to the next, where there are many


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
    """The cuts of one way to lay out the arena."""

    def __init__(
        self, measured: Sequence[Measured], flash_bytes: int | None, place: Callable[[Partition], Plan]
    ) -> None:
        self._place = place
        self.solver = CutTables(measured, flash_bytes)
        self._plans: dict[tuple[int, ...], Plan] = {}  # by id of the forms, which the plans keep alive

    @cached_property
    def tables(self) -> tuple[CutTable, ...]:
        """By live bytes, ascending; of numbers that lead to the same cuts the first."""
        tables = (self.solver.within(live) for live in _ladder(self.solver.needs()))
        return tuple(table for table in tables if table is not None)

    def plan(self, corner: Corner) -> Plan:
        """The plan of a corner's cut, placed; not yet validated."""
        cut = corner.table.cut(corner.state)
        key = (*map(id, cut.forms), *(group.start for group in cut.groups), *map(id, cut.groups))
        if key not in self._plans:
            self._plans[key] = self._place(cut)
        return self._plans[key]


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


class Front:
    """All that families of cuts of one model offer."""

    def __init__(self, families: Sequence[Family]) -> None:
        self.families = families

    @cached_property
    def corners(self) -> tuple[Corner, ...]:
        """What no other cut beats in cycles, flash and live bytes together, by live bytes and then by flash."""
        corners: list[Corner] = []
        stairs = _Stairs()  # of the corners, which need no more live bytes than what comes
        tables = sorted(
            ((table, family) for family in self.families for table in family.tables), key=lambda one: one[0].live_bytes
        )
        for live_bytes, own in itertools.groupby(tables, key=lambda one: one[0].live_bytes):
            steps = [
                Corner(int(table.cycles[state]), int(table.flash_bytes[state]), live_bytes, family, table, state)
                for table, family in own
                for state in np.flatnonzero(np.diff(table.cycles, prepend=NEVER) < 0).tolist()
            ]
            flash = np.array([step.flash_bytes for step in steps], np.int64)
            cycles = np.array([step.cycles for step in steps], np.int64)
            best = undominated(flash, cycles)
            best = best[stairs.below(flash[best], cycles[best])]
            stairs = stairs.with_steps(flash[best], cycles[best])
            corners += [steps[place] for place in best.tolist()]
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


def _distances(figures: Floats, place: int) -> Floats:
    """How much worse one corner is than each of all in the figure where it is worst; in logarithms."""
    worse: Floats = (figures[place] - figures).max(axis=1)
    return worse


def front_of(graph: Graph, choices: Candidates, *, flash_bytes: int | None = None) -> Front:
    """The front of an integer graph whose nodes these kernels may run. One with states runs layer by layer: what lasts
    has a place that no row of another tensor takes."""
    families = [_whole(graph, choices, flash_bytes)]
    problem = None if graph.states else problem_of(graph, choices)
    if problem is not None and any(layer.walk for layer in problem.layers):
        families.append(_by_rows(problem, flash_bytes))
    return Front(families)


def _by_rows(problem: Problem, flash_bytes: int | None) -> Family:
    def place(cut: Partition) -> Plan:
        plan = plan_of(problem, cut)
        if plan.arena_bytes < problem.unit * ROW_ADDRESSES:
            return plan
        return plan_of(replace(problem, unit=UNITS[-1], scratch_unit=UNITS[-1]), cut)

    return Family(widened(problem, measure(problem)), flash_bytes, place)


def _whole(graph: Graph, choices: Candidates, flash_bytes: int | None) -> Family:
    """Layer by layer, in the order that the fastest kernels are best in."""
    fastest = {node: min(own, key=lambda choice: choice.cost.cycles) for node, own in choices.items()}
    draft = draft_plan(graph, fastest, slide=True)
    needs = Needs(graph, fastest, [layer.node for layer in draft.layers], draft.is_fused)
    measured = [_step(number, layer, choices[layer.node], needs) for number, layer in enumerate(draft.layers)]

    def place(cut: Partition) -> Plan:
        picked: Mapping[str, Choice] = {form.choice.site.node.name: form.choice for form in cut.forms}
        return draft_plan(graph, picked, slide=True, fuse=draft.is_fused)

    return Family(measured, flash_bytes, place)


@dataclass(frozen=True, slots=True, eq=False)
class _Whole(Load):
    """Of a layer that runs whole. needs: by id of the choice."""

    needs: Mapping[int, int]

    def need(self, form: Form) -> int:
        return self.needs[id(form.choice)]


def _step(number: int, layer: Layer, choices: Sequence[Choice], needs: Needs) -> Measured:
    forms = tuple(Form(choice, None, choice.cost.in_scratch(choice.scratch_bytes)) for choice in choices)
    by_choice = {id(choice): max(needs.of(layer.node, choice), needs.floor) for choice in choices}
    least = min(by_choice.values())
    own = Layer(layer.node, layer.reads, layer.writes, None, (), forms)
    load = _Whole(np.array([least]), {}, {(): least}, by_choice)
    return Measured(number, number + 1, slots_of(whole_turn(number)), (own,), (load,), least)


def _ladder(needs: Sequence[int]) -> Iterator[int]:
    """Of ascending numbers of bytes those that are apart."""
    last = 0.0
    for need in needs:
        if need >= last * _STEP or need == needs[-1]:
            yield need
            last = need
