# SPDX-License-Identifier: Apache-2.0
"""Orders of the turns of groups, lifetimes of rows in them, and forms to choose from, against plain definitions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.test_stream_wider import problem
from tinyc.plan.liveness import lifetimes, reads_of, writes_of
from tinyc.plan.problem import Form, Problem, Turn
from tinyc.plan.rows.cuts import Weighing, measure
from tinyc.plan.turns import Orders, lazy_slots, slots_of
from tinyc.plan.uses import uses_of


def groups(problem: Problem) -> Iterator[tuple[int, int]]:
    """Ends of all groups of layers by rows."""
    for stop in range(1, len(problem.layers) + 1):
        for start in range(stop - 1, -1, -1):
            if problem.layers[start].walk is None:
                break
            yield start, stop


def deepest_ready(problem: Problem, start: int, stop: int) -> tuple[Turn, ...]:
    """Always the last layer of which the next turn has its rows."""
    makers = {name: i for i in range(start, stop) for name in problem.layers[i].writes}
    available: set[tuple[str, int]] = set()
    counts, turns = dict.fromkeys(range(start, stop), 0), []
    while True:
        for i in reversed(range(start, stop)):
            walk = problem.layers[i].walk
            assert walk is not None
            if counts[i] < walk.turns:
                needs = [(t.name, row) for t, rows in reads_of(problem, (i, counts[i])) for row in rows]
                if all(row in available or row[0] not in makers for row in needs):
                    break
        else:
            return tuple(turns)
        turns.append((i, counts[i]))
        available |= {(t.name, row) for t, rows in writes_of(problem, (i, counts[i])) for row in rows}
        counts[i] += 1


def test_the_deepest_layer_that_is_ready_runs() -> None:
    whole = problem()
    uses = uses_of(whole)
    ends = list(groups(whole))
    assert any(stop - start > 3 for start, stop in ends)
    for start, stop in ends:
        assert Orders(uses).eager(start, stop).turns == deepest_ready(whole, start, stop)


def test_orders_are_those_that_differ() -> None:
    whole = problem()
    uses = uses_of(whole)
    for start, stop in groups(whole):
        eager, lazy = Orders(uses).eager(start, stop).turns, lazy_slots(uses, start, stop).turns
        assert [slots.turns for slots in Orders(uses).of(start, stop)] == list(dict.fromkeys((eager, lazy)))
        assert {index: own.tolist() for index, own in slots_of(lazy).of.items()} == {
            index: own.tolist() for index, own in lazy_slots(uses, start, stop).of.items()
        }


def test_rows_live_from_the_turn_that_makes_them_to_the_last_that_reads_them() -> None:
    whole = problem()
    uses = uses_of(whole)
    for start, stop in groups(whole):
        slots = Orders(uses).eager(start, stop)
        lives = lifetimes(whole, slots, start, stop, uses)
        makers_of_rows = {
            (t.name, row): number
            for number, turn in enumerate(slots.turns)
            for t, rows in writes_of(whole, turn)
            for row in rows
        }
        read = {
            (t.name, row): number
            for number, turn in enumerate(slots.turns)
            for t, rows in reads_of(whole, turn)
            for row in rows
        }
        assert lives.keys() >= {name for name, _ in makers_of_rows.keys() | read.keys()}
        for name, (born, dies) in lives.items():
            for row in range(whole.tensors[name].rows):
                first = makers_of_rows.get((name, row), 0)
                last = read.get((name, row), first if (name, row) in makers_of_rows else -1)
                end = slots.count if uses.last[name] >= stop else last + 1
                if start == 0 and whole.is_resident(name):
                    end = max(end, 1)
                assert (born[row], dies[row]) == ((first, end) if first < end else (0, 0)), (start, stop, name, row)


@pytest.mark.parametrize("by_scratch", [0, 100])
def test_options_are_the_forms_that_no_cheaper_one_beats(by_scratch: int) -> None:
    def weigh(form: Form) -> int:
        return form.cycles // 1000 + by_scratch * form.scratch_bytes

    measured = measure(problem())
    weighed = tuple(map(Weighing(weigh).candidate, measured))
    assert [Weighing(weigh).candidate(one).options for one in measured] == [one.options for one in weighed]
    for one, candidate in zip(measured, weighed, strict=True):
        for layer, load, options in zip(one.layers, one.loads, candidate.options, strict=True):
            forms = layer.whole_forms if one.is_whole else layer.row_forms
            ranked = sorted((weigh(form), load.need(form), rank) for rank, form in enumerate(forms))
            least = np.minimum.accumulate([need for _, need, _ in ranked]).tolist()
            undominated = [i for i in range(len(ranked)) if i == 0 or ranked[i][1] < least[i - 1]]
            assert [(o.weight, o.need, o.form) for o in options] == [
                (*ranked[i][:2], forms[ranked[i][2]]) for i in undominated
            ]
