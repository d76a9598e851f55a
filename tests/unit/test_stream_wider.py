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
from tests.unit.stream_cases import ANY, NUMERICS, Machine, random_sample
from tests.unit.test_stream_ends import bound_of, streamed
from tinyc.choose.select import candidates
from tinyc.ir.graph import Graph
from tinyc.machine.cores import ABOUT_M4
from tinyc.passes import normalize
from tinyc.passes.inputs import take_inputs_as_computed
from tinyc.plan import validate
from tinyc.plan.answer import Group, Partition, Plan
from tinyc.plan.builder import problem_of
from tinyc.plan.liveness import loads_of
from tinyc.plan.placement import plan_of
from tinyc.plan.problem import Form, Problem, Walk
from tinyc.plan.rows.choose import plan_problem
from tinyc.plan.rows.cuts import cheapest, measure, mixture, smallest, weigh_all
from tinyc.plan.rows.slot_forms import cuts_in_slots, others_in_slots
from tinyc.plan.rows.wider import with_wider
from tinyc.plan.slots import place_in_slots
from tinyc.plan.turns import Orders, lazy_slots
from tinyc.plan.uses import uses_of
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
    made = [walk.made(turn) for turn in range(calls)]
    assert [row for rows in made for row in rows] == list(range(first, first + out_h))
    for rows in range(first + out_h + 1):
        turns = walk.turns_for(rows)
        known = {row for found in made[:turns] for row in found} | set(range(first))
        assert set(range(rows)) <= known
        assert turns == 0 or rows - 1 in made[turns - 1]


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
    load = loads_of(whole, slots, 0, 2, uses)[1]
    fast, *others = [form for form in whole.layers[1].row_forms if not form.inplace and form.scratch_bytes]
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
    assert fast.time < mixed.time < spare.time
    groups = (Group(0, 2, slots.turns), *(Group(i, i + 1, ((i, -1),)) for i in range(2, len(whole.layers))))
    rest = tuple(layer.whole_forms[0] for layer in whole.layers[2:])
    check(plan_of(whole, Partition(groups, (whole.layers[0].row_forms[0], mixed, *rest), 0)))


def test_the_search_never_loses_and_finds_rows_in_slots() -> None:
    """With wider calls nothing is slower in the same bytes, and something is faster."""
    whole = problem()
    plain = weigh_all(measure(whole), lambda form: form.time)
    fewest = smallest(plain, lambda cut: True)
    assert fewest is not None
    ram = 2 * fewest[0]
    wider = weigh_all(with_wider(whole, measure(whole), lambda cut: False, ram), lambda form: form.time)
    pairs = [(cheapest(plain, limit), cheapest(wider, limit)) for limit in range(ram // 2, ram, 50)]
    times = [(one.time, other.time) for one, other in pairs if one and other]
    assert times
    assert all(other <= one for one, other in times)
    assert any(other < one for one, other in times)
    for cut in cuts_in_slots(whole, wider, ram, lambda cut: True)[:3]:
        check(plan_of(whole, cut, room=ram))
        for other in others_in_slots(whole, cut, ram, lambda cut: True, 3):
            assert other.groups == cut.groups
            check(plan_of(whole, other, room=ram))
    plan = plan_problem(whole, "speed", ANY)
    assert plan is not None
    check(plan)


@pytest.mark.parametrize("seed", range(4))
def test_rows_in_slots_do_not_overlap(seed: int) -> None:
    layout, scratch = streamed(seed)
    bound = bound_of(layout)
    starts = place_in_slots(layout, scratch, 2 * bound)
    assert starts is not None
    blocks = layout.blocks
    assert max(at + block.size for at, block in zip(starts, blocks, strict=True)) <= 2 * bound
    for i, a in enumerate(blocks):
        assert starts[i] >= 0
        assert starts[i] % a.align == 0
        for j, b in enumerate(blocks[:i]):
            if a.born < b.dies and b.born < a.dies:
                assert starts[i] + a.size <= starts[j] or starts[j] + b.size <= starts[i]
    assert place_in_slots(layout, scratch, bound // 2) is None
