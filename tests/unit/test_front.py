# SPDX-License-Identifier: Apache-2.0
"""The front of cycles, flash and arena, against all combinations in small problems and what options lead to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.stream_cases import NUMERICS, integer_graph
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.choose.select import candidates
from tinyc.options.build import Options
from tinyc.pipeline.fronting import MOST_POINTS, front_of_model, fronts_of
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import forms_of, lower_integers
from tinyc.pipeline.progress import Progress
from tinyc.plan.builder import problem_of
from tinyc.plan.front import front_of
from tinyc.plan.problem import Form
from tinyc.plan.rows.cuts import Measured, measure
from tinyc.plan.tables import NEVER, CutTables
from tinyc.plan.validate import validate

M4 = load_board("cortex-m4")
LAYERS = 3


@pytest.mark.parametrize("seed", range(3))
def test_a_table_has_the_cheapest_of_all_combinations(seed: int) -> None:
    """Of every group of the first layers: by all combinations of their forms, in one arena after another."""
    graph = integer_graph(seed)
    problem = problem_of(graph, candidates(graph, M4.isa, NUMERICS))
    measured = [one for one in measure(problem) if one.stop <= LAYERS]
    tables = CutTables(measured)
    slack = tables.grain * 2 * LAYERS  # a sum of forms, and a group, are rounded to the grain
    for live in (2**30, *tables.needs()[:: max(len(tables.needs()) // 6, 1)]):
        cuts = list(_all_cuts(measured, 0, LAYERS, live))
        table = tables.within(live)
        if not cuts and table is None:
            continue
        assert table is not None  # mixtures of forms fit where one of them does
        for flash, cycles in cuts:
            assert table.cycles[min(_state(tables, flash + slack), tables.states - 1)] <= cycles
        for state in np.flatnonzero(np.diff(table.cycles, prepend=NEVER) < 0).tolist():
            cut = table.cut(state)
            assert sum(form.cost.cycles for form in cut.forms) == cut.weight == table.cycles[state]
            assert abs(cut.flash_bytes - table.flash_bytes[state]) <= slack
            assert all(load.need(form) <= live or form.spare for form, load in _loaded(measured, cut.groups, cut.forms))


def _state(tables: CutTables, flash: int) -> int:
    return max((flash - tables.least_bytes) // tables.grain, 0)


def _loaded(measured: Sequence[Measured], groups: Sequence[object], forms: Sequence[Form]) -> Iterator[tuple]:
    by_group = {id(one.group): one for one in measured}
    loads = [load for group in groups for load in by_group[id(group)].loads]
    return zip(forms, loads, strict=True)


def _all_cuts(measured: Sequence[Measured], start: int, stop: int, live: int) -> Iterator[tuple[int, int]]:
    """(flash, cycles) of every choice of groups and forms that fit for layers [start, stop)."""
    if start == stop:
        yield 0, 0
    for own in [one for one in measured if one.start == start]:
        fits = [
            [form for form in (layer.whole_forms if own.is_whole else layer.row_forms) if load.need(form) <= live]
            for layer, load in zip(own.layers, own.loads, strict=True)
        ]
        for flash, cycles in _all_cuts(measured, own.stop, stop, live):
            for forms in itertools.product(*fits):
                yield flash + sum(f.flash_bytes for f in forms), cycles + sum(f.cost.cycles for f in forms)


@pytest.mark.parametrize("seed", range(2))
def test_corners_are_plans_that_no_other_one_beats(seed: int) -> None:
    graph = integer_graph(seed)
    front = front_of(graph, candidates(graph, M4.isa, NUMERICS))
    figures = [(own.cycles, own.flash_bytes, own.live_bytes) for own in front.corners]
    assert figures
    for one, other in itertools.permutations(figures, 2):
        assert any(a < b for a, b in zip(one, other, strict=True))
    apart, some = front.some(6)
    assert len(some) <= max(6, 3)
    for own in some:
        plan = own.family.plan(own)
        validate(plan)
        assert plan.cycles == own.cycles
    for cycles, flash, live in figures:
        near = [(one.cycles / cycles, one.flash_bytes / flash, one.live_bytes / max(live, 1)) for one in some]
        assert min(map(max, near)) <= 1 + apart + 1e-9


@pytest.mark.parametrize(
    ("model", "words"),
    [("kws", {}), ("ad", {"memory": "speed"}), ("sww", {"optimize": "size"})],
    ids=["kws", "ad-speed", "sww-size"],
)
def test_the_front_has_what_options_lead_to(models_dir: Path, model: str, words: dict[str, str]) -> None:
    """In no more flash and arena no more cycles, but for the grain of the tables."""
    options = replace(Options("cortex-m4"), **words)  # type: ignore[arg-type]
    made = make_integers(models_dir / "mlperf_tiny" / f"{model}_int8.tflite", M4, options, Progress())
    plan = lower_integers(made, M4, options, Progress()).plan
    best = NEVER
    for _, front in fronts_of(forms_of(made, M4, options, Progress()), M4, options):
        for family in front.families:
            # Rows of an input that lies in one piece are counted one by one, each rounded up.
            table = family.solver.within(plan.arena_bytes + plan.arena_bytes // 32)
            if table is not None:
                fits = table.flash_bytes <= plan.flash_bytes + 2 * family.solver.grain
                best = min(best, *table.cycles[fits].tolist())
    assert best <= plan.cycles


def test_the_front_of_a_model_says_what_is_built(models_dir: Path) -> None:
    front = front_of_model(models_dir / "mlperf_tiny" / "kws_int8.tflite", M4, Options("cortex-m4"), Progress())
    (built,) = [point for point in front.points if point.built]
    assert not any(point.beaten for point in front.points if not point.built)
    assert 10 < len(front.points) <= MOST_POINTS + 1
    for one, other in itertools.permutations(front.points, 2):
        assert other.built or not one.beats(other)
    assert (built.arena_bytes, built.by_rows) == (3_440, True)
    fast = min(front.points, key=lambda point: point.cycles)
    assert fast.cycles < 0.95 * built.cycles
    assert fast.milliseconds == pytest.approx(1000 * fast.cycles / 100e6, rel=0.01)


def test_libraries_that_are_called_for_each_row_have_no_front(models_dir: Path) -> None:
    with pytest.raises(TinycError, match="take their input whole"):
        front_of_model(models_dir / "mlperf_tiny" / "kws_int8.tflite", M4, Options("host", input_rows=True), Progress())


def test_a_model_with_state_runs_layer_by_layer(models_dir: Path) -> None:
    front = front_of_model(models_dir / "zoo" / "streaming_vad_int8.tflite", M4, Options("cortex-m4"), Progress())
    (built,) = [point for point in front.points if point.built]
    assert len(front.points) > 3
    assert not any(point.by_rows for point in front.points)
    assert min(point.arena_bytes for point in front.points) <= built.arena_bytes
