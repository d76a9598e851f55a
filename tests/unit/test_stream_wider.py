# SPDX-License-Identifier: Apache-2.0
"""Layers that make two rows per call: which rows a call makes, plans that run, the search for them, rows in slots."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import load
from tests.unit.networks import Network
from tests.unit.stream_cases import NUMERICS, Machine, by_cycles, random_sample
from tinyc.choose.select import candidates
from tinyc.ir.graph import Graph
from tinyc.machine.cores import ABOUT_M4
from tinyc.passes import normalize
from tinyc.passes.inputs import take_inputs_as_computed
from tinyc.plan import validate
from tinyc.plan.answer import Group, Partition, Plan
from tinyc.plan.builder import problem_of
from tinyc.plan.liveness import Liveness, Load
from tinyc.plan.placement import plan_of
from tinyc.plan.problem import Form, Problem, Walk
from tinyc.plan.rows.cuts import cheapest, measure, mixture, without_worse
from tinyc.plan.rows.wider import widened
from tinyc.plan.tables import CutTables
from tinyc.plan.turns import Orders, lazy_slots
from tinyc.plan.uses import Ints, uses_of
from tinyc.quantize import UNPROVEN, Calibration, quantize_model

DSP = frozenset({"dsp"})


@cache
def network() -> Graph:
    """3x3 convolutions of 8 channels on 9x9 pixels, a residual block, stride 2, in integers."""
    net = Network(4)
    net.input_shape = net.shape = (1, 4, 9, 9)
    net.conv(8)
    net.relu()
    net.conv(8)
    net.residual()
    net.relu()
    net.conv(8, stride=2)
    net.head()
    with tempfile.TemporaryDirectory() as folder:
        graph = normalize(load(net.model(), Path(folder)))
    inputs = {
        name: np.random.default_rng(3).standard_normal((4, 1, 4, 9, 9)).astype(np.float32) for name in graph.inputs
    }
    inputs = {name: x.reshape(4, *graph.values[name].shape) for name, x in inputs.items()}
    data = Calibration(inputs, "synthetic", False)
    return take_inputs_as_computed(normalize(quantize_model(graph, data, UNPROVEN))).graph


@cache
def problem() -> Problem:
    return problem_of(network(), candidates(network(), DSP, NUMERICS, core=ABOUT_M4))  # of more forms than by cycles


def check(plan: Plan) -> None:
    validate(plan)
    assert Machine(network(), plan, NUMERICS, random_sample(network(), 3)).run() == []


@pytest.mark.parametrize("out_h", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("phase", [0, 1])
@pytest.mark.parametrize("first", [0, 3])
def test_every_row_is_made_once(out_h: int, phase: int, first: int) -> None:
    calls = -(-(out_h + phase) // 2)
    walk = Walk(((),) * calls, first=first, rows=2, phase=phase, out_h=out_h)
    rows_of_turns = [walk.output_rows(turn) for turn in range(calls)]
    assert [row for rows in rows_of_turns for row in rows] == list(range(first, first + out_h))
    for rows in range(first + out_h + 1):
        turns = walk.turns_for(rows)
        available = {row for rows_of_turn in rows_of_turns[:turns] for row in rows_of_turn} | set(range(first))
        assert set(range(rows)) <= available
        assert turns == 0 or rows - 1 in rows_of_turns[turns - 1]


@pytest.mark.parametrize("phases", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("held", [False, True])
def test_plans_of_two_rows_per_call_run(phases: tuple[int, int], held: bool) -> None:
    """Every layer that can makes two rows; phases change from layer to layer. held: in place where that may be."""
    whole = problem()
    layers = list(whole.layers)
    wide = [i for i, layer in enumerate(layers) if layer.wider]
    assert len(wide) >= 2
    for number, i in enumerate(wide):
        layers[i] = layers[i].with_walk(2, phases[number % 2])
    stop = next(i for i, layer in enumerate(layers) if layer.walk is None or layer.walk.turns == 1)
    uses = uses_of(replace(whole, layers=tuple(layers)))
    groups = [Group(0, stop, lazy_slots(uses, 0, stop).turns)]
    groups += [Group(i, i + 1, ((i, -1),)) for i in range(stop, len(layers))]
    forms: list[Form] = []
    for i, layer in enumerate(layers):
        own = layer.row_forms if i < stop else layer.whole_forms
        forms.append(next((form for form in own if held == bool(form.inplace)), own[0]))
    plan = plan_of(whole, Partition(tuple(groups), tuple(forms), 0))
    assert any(form.row and form.row.call.rows and form.row.call.rows.out_rows == 2 for form in plan.forms)
    if held:
        tensors = [one for one in plan.allocations if one.kind == "tensor"]
        starts = [one.offset for one in tensors if one.what == layers[wide[1]].reads[0]]
        assert any(one.offset in starts for one in tensors if one.what == layers[wide[1]].writes[0])
    check(plan)


def test_less_scratch_in_tight_turns() -> None:
    """A layer runs as two forms: in the fullest turns as the one with less scratch."""
    whole = problem()
    uses = uses_of(whole)
    slots = Orders(uses).eager(0, 2)
    load = Liveness(whole, uses, 0, 2, slots.whole).loads(slots, 0, 2)[1]
    forms = [form for form in whole.layers[1].row_forms if not form.inplace and form.scratch_bytes]
    fast, *others = [form for form in forms if mixture(form, form, (0,), 2) is not None]
    spare = min(others, key=lambda form: form.scratch_bytes)
    limit = max(load.turns) + fast.scratch_bytes - 1
    above = load.turns_above(fast, limit)
    assert max(load.turns) in [load.turns[turn] for turn in above]
    assert [live + fast.scratch_bytes > limit for live in load.turns] == [
        turn in above for turn in range(len(load.turns))
    ]
    mixed = mixture(fast, spare, (2, 4), len(load.turns))
    assert mixed is not None
    assert [mixed.scratch_at(turn) for turn in (1, 2, 3, 4)] == [
        form.scratch_bytes for form in (fast, spare, fast, spare)
    ]
    assert fast.cycles < mixed.cycles < spare.cycles
    groups = (Group(0, 2, slots.turns), *(Group(i, i + 1, ((i, -1),)) for i in range(2, len(whole.layers))))
    rest = tuple(layer.whole_forms[0] for layer in whole.layers[2:])
    check(plan_of(whole, Partition(groups, (whole.layers[0].row_forms[0], mixed, *rest), 0)))


def test_the_search_never_loses() -> None:
    """With wider calls nothing is slower in the same bytes, and something is faster."""
    whole = problem()
    plain = by_cycles(measure(whole))
    wider = by_cycles(widened(whole, measure(whole)))
    needs = sorted({option.need for one in plain for options in one.options for option in options})
    pairs = [(cheapest(plain, limit), cheapest(wider, limit)) for limit in needs]
    cycles = [(one.cycles, other.cycles) for one, other in pairs if one and other]
    assert cycles
    assert all(other <= one for one, other in cycles)
    assert any(other < one for one, other in cycles)


def test_groups_that_leave_nowhere_more_room_than_others_change_no_table() -> None:
    """Of the same layers and walks: with so many bytes more, and with fewer in one turn of one layer."""
    every = widened(problem(), measure(problem()))
    heavier = [replace(one, loads=tuple(map(with_more, one.loads))) for one in every if not one.is_whole]
    assert without_worse((*every, *heavier)) == every
    assert without_worse((*every, *every)) == every
    for one in heavier:
        other = replace(one, loads=(with_more(one.loads[0], turn=0, more=-1_000_000), *one.loads[1:]))
        assert other in without_worse((one, other))
        two = replace(other, loads=(*other.loads[:-1], with_more(other.loads[-1])))
        assert len(one.loads) == 1 or without_worse((one, two)) == (one, two)
    needs = CutTables(every).needs()
    whole, reduced = CutTables((*every, *heavier)), CutTables(every)
    for live in needs[:: max(len(needs) // 40, 1)]:
        tables = whole.within(live), reduced.within(live)
        assert (tables[0] is None) == (tables[1] is None)
        if tables[0] is not None and tables[1] is not None:
            np.testing.assert_array_equal(tables[0].cycles, tables[1].cycles)


def with_more(load: Load, turn: int | slice = slice(None), more: int = 64) -> Load:
    """The load with more live bytes."""

    def beside(turns: Ints) -> Ints:
        own = turns.copy()
        own[turn] += more
        return own

    turns, inplace = beside(load.turns), {names: beside(own) for names, own in load.inplace.items()}
    fullest = {names: int(inplace.get(names, turns).max()) for names in load.fullest}
    return Load(turns, inplace, fullest)
