# SPDX-License-Identifier: Apache-2.0
"""The front of cycles, flash and arena, against all combinations in small problems and what options lead to."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op, rand
from tests.unit.stream_cases import NUMERICS, integer_graph
from tinyc import api
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.choose.compiled_code import compiled_code
from tinyc.choose.select import Choice, as_compiled, candidates
from tinyc.options.build import Options
from tinyc.pipeline.choosing import WORTH, worth_of
from tinyc.pipeline.fronting import MOST_POINTS, bound_of, front_of_model
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import Lowered, lower_integers, lower_offers, offers_of
from tinyc.pipeline.progress import Progress
from tinyc.plan import Freedom, Needs, plan_graph, whole_problem
from tinyc.plan.answer import Plan
from tinyc.plan.blocks import Block, conflicts
from tinyc.plan.builder import problem_of
from tinyc.plan.families import families_of
from tinyc.plan.front import Front
from tinyc.plan.live import lower_bound
from tinyc.plan.polygon import PRICES
from tinyc.plan.problem import Form
from tinyc.plan.rows.cuts import Measured, measure
from tinyc.plan.tables import NEVER, CutTables, undominated
from tinyc.plan.validate import validate
from tinyc.plan.worth import Limits, Worth

M4 = load_board("cortex-m4")
LAYERS = 3
COMBINATIONS = 100
NOISE = 0.0


@pytest.mark.parametrize("seed", [0, 1, 3])  # of those whose layers may share code
def test_a_table_has_the_cheapest_of_all_combinations(seed: int) -> None:
    """Of every group of the first layers: by all combinations of their forms, in one arena after another."""
    graph = integer_graph(seed)
    compiled = compiled_code(M4.core, M4.isa, "speed")
    problem = problem_of(graph, as_compiled(candidates(graph, M4.isa, NUMERICS), compiled))
    measured = [one for one in measure(problem) if one.stop <= LAYERS]
    parts = CutTables(measured)
    layers = {id(layer): layer for one in measured for layer in one.layers}.values()
    forms_of = [(*layer.whole_forms, *layer.row_forms) for layer in layers]
    users = Counter(key for forms in forms_of for key in {code.key for form in forms for code in form.cost.codes})
    several = frozenset(key for key, count in users.items() if count > 1)
    assert several
    sets = list(dict.fromkeys([None, frozenset(), several, *parts.shared_sets(2**30)]))
    for shared in sets:
        tables = parts if shared is None else CutTables(measured, None, shared, parts.common)
        slack = tables.grain * 2 * LAYERS  # a sum of forms, and a group, are rounded to the grain
        for live in (2**30, *tables.needs()[:: max(len(tables.needs()) // 6, 1)]):
            cuts = list(_all_cuts(measured, 0, LAYERS, live))
            table = tables.within(live)
            _below_all([(_cycles(forms), _flash_bytes(forms, measured, shared)) for forms in cuts], tables, live)
            if not cuts and table is None:
                continue
            assert table is not None  # mixtures of forms fit where one of them does
            assert shared is not None or not cuts or _bounds_all(cuts, tables, live)
            for forms in cuts:
                flash = _flash_bytes(forms, measured, shared)
                assert table.cycles[min(_state(tables, flash + slack), tables.states - 1)] <= _cycles(forms)
            for state in np.flatnonzero(np.diff(table.cycles, prepend=NEVER) < 0).tolist():
                cut = table.cut(state)
                assert _cycles(cut.forms) == cut.weight == table.cycles[state]
                flash = _flash_bytes(cut.forms, measured, shared)
                if shared is not None or not any(form.spare for form in cut.forms):
                    assert flash <= table.flash_bytes[state] + slack
                assert table.flash_bytes[state] <= flash + slack  # of both forms of a mixture a part may be one
                assert shared is None or cut.flash_bytes <= table.flash_bytes[state] + slack
                loaded = _loaded(measured, cut.groups, cut.forms)
                assert all(load.need(form) <= live or form.spare for form, load in loaded)


def _below_all(figures: Sequence[tuple[int, int]], tables: CutTables, live_bytes: int) -> None:
    """No cut is worth more than the corners of the polygon, within limits too. figures: cycles and flash of cuts."""
    polygon, table = tables.polygon(live_bytes), tables.within(live_bytes)
    assert (polygon is None) == (table is None)
    if polygon is None:
        assert not figures
        return
    cycles, flash = map(np.array, zip(*figures, strict=True)) if figures else (np.zeros(0), np.zeros(0))
    costs = cycles + flash * PRICES[:, None]
    assert (costs.min(axis=1, initial=np.inf) * (1 + 1e-12) >= polygon.costs).all()
    for worth in WORTH.values():
        for most_cycles, most_flash in [(None, None), *zip(cycles[::50], flash[::50], strict=True)]:
            limits = Limits(most_flash, None, most_cycles)
            values = [worth.of(own, taken, live_bytes) for own, taken in figures if _within(own, taken, limits)]
            least = polygon.value(worth, limits, live_bytes, 0)
            assert least is not None if values else True
            assert least is None or least <= min(values, default=np.inf) + 1e-9


def _bounds_all(cuts: Sequence[Sequence[Form]], tables: CutTables, live_bytes: int) -> bool:
    """Whether none is worth more than the polygon says, where what its layers share counts once."""
    polygon = tables.polygon(live_bytes)
    assert polygon is not None
    figures = [(_cycles(forms), _flash_once(forms)) for forms in cuts]
    least = {worth: polygon.value(worth, Limits(), live_bytes, 0) for worth in WORTH.values()}
    return all(
        value is not None and value <= worth.of(cycles, flash, live_bytes) + 1e-9
        for worth, value in least.items()
        for cycles, flash in figures
    )


def _flash_once(forms: Sequence[Form]) -> int:
    """Bytes of forms together; each function counts once."""
    sizes = {code.key: code.size for form in forms for code in form.cost.codes}
    return sum(form.cost.own_bytes for form in forms) + sum(sizes.values())


def _within(cycles: int, flash_bytes: int, limits: Limits) -> bool:
    return (limits.cycles is None or cycles <= limits.cycles) and (
        limits.flash_bytes is None or flash_bytes <= limits.flash_bytes
    )


def test_a_table_is_the_same_whatever_was_asked_before() -> None:
    """What fits of a group is known for ranges of live bytes, which tables of other shared code have filled."""
    graph = integer_graph(0)
    measured = measure(problem_of(graph, candidates(graph, M4.isa, NUMERICS)))
    up, down = CutTables(measured), CutTables(measured)
    beside = CutTables(measured, None, frozenset(), down.common)
    needs = up.needs()[::5]
    upwards = {live: up.within(live) for live in needs}
    assert sum(table is not None for table in upwards.values()) > 5
    for live in reversed(needs):
        beside.within(live + 1)
        table, other = upwards[live], down.within(live)
        assert (table is None) == (other is None)
        if table is not None and other is not None:
            np.testing.assert_array_equal(table.cycles, other.cycles)


@pytest.mark.parametrize("seed", range(20))
def test_what_no_other_one_beats(seed: int) -> None:
    """Of equal ones the first, by flash."""
    rng = np.random.default_rng(seed)
    flash, cycles = rng.integers(0, 8, (2, seed))
    pairs = list(zip(flash.tolist(), cycles.tolist(), strict=True))
    first = {pair: pairs.index(pair) for pair in pairs}
    best = [pair for pair in first if not any(a <= pair[0] and b <= pair[1] and (a, b) != pair for a, b in first)]
    assert undominated(flash, cycles).tolist() == [first[pair] for pair in sorted(best)]


def _cycles(forms: Sequence[Form]) -> int:
    return sum(form.cost.cycles for form in forms)


def _flash_bytes(forms: Sequence[Form], measured: Sequence[Measured], shared: frozenset[Hashable] | None) -> int:
    """Of forms together; all of the shared code counts once, whether they have it or not."""
    layers = {id(layer): layer for one in measured for layer in one.layers}.values()
    every = [form for layer in layers for form in (*layer.whole_forms, *layer.row_forms)]
    if shared is None:  # parts, for all layers that may have the code whole or by rows
        own = [{code.key for form in (*one.whole_forms, *one.row_forms) for code in form.cost.codes} for one in layers]
        users = Counter[Hashable](key for keys in own for key in keys)
        codes = [{code.key: code for code in form.cost.codes}.values() for form in forms]
        parts = sum(min(code.size // users[code.key], code.alone_bytes) for one in codes for code in one)
        return sum(form.cost.own_bytes for form in forms) + parts
    once = Counter[Hashable]()
    for code in (code for form in every for code in form.cost.codes if code.key in shared):
        once[code.key] = max(code.size, once[code.key])  # of padding the longest row
    alone = sum(code.alone_bytes for form in forms for code in form.cost.codes if code.key not in shared)
    return sum(form.cost.own_bytes for form in forms) + alone + once.total()


def _state(tables: CutTables, flash: int) -> int:
    return max((flash - tables.least_bytes) // tables.grain, 0)


def _loaded(measured: Sequence[Measured], groups: Sequence[object], forms: Sequence[Form]) -> Iterator[tuple]:
    by_group = {id(one.group): one for one in measured}
    loads = [load for group in groups for load in by_group[id(group)].loads]
    return zip(forms, loads, strict=True)


def _all_cuts(measured: Sequence[Measured], start: int, stop: int, live: int) -> Iterator[tuple[Form, ...]]:
    """The forms of every choice of groups and forms that fit for layers [start, stop)."""
    if start == stop:
        yield ()
    for own in [one for one in measured if one.start == start]:
        fits = [
            [form for form in (layer.whole_forms if own.is_whole else layer.row_forms) if load.need(form) <= live]
            for layer, load in zip(own.layers, own.loads, strict=True)
        ]
        for after in _all_cuts(measured, own.stop, stop, live):
            for forms in itertools.product(*fits):
                yield *forms, *after


@pytest.mark.parametrize("seed", range(2))
def test_corners_are_plans_that_no_other_one_beats(seed: int) -> None:
    graph = integer_graph(seed)
    front = Front(families_of(graph, candidates(graph, M4.isa, NUMERICS)))
    figures = [(own.cycles, own.flash_bytes, own.live_bytes) for own in front.corners]
    assert figures
    for one, other in itertools.permutations(figures, 2):
        assert any(a < b for a, b in zip(one, other, strict=True))
    apart, some = front.some(6)
    assert len(some) <= max(6, 3)
    for own in some:
        plan = own.family.plan(own.table.cut(own.state))
        validate(plan)
        assert plan.cycles == own.cycles
    for cycles, flash, live in figures:
        near = [(one.cycles / cycles, one.flash_bytes / flash, one.live_bytes / max(live, 1)) for one in some]
        assert min(map(max, near)) <= 1 + apart + 1e-9


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("seed", range(6))
def test_no_combination_of_kernels_is_worth_more(seed: int) -> None:
    """Layer by layer: of all combinations of few kernels of each node, in the order of steps that is planned for each.
    The front plans one order; what another would save is little."""
    graph = integer_graph(seed)
    few, combinations = dict[str, list[Choice]](), 1
    for node, own in candidates(graph, M4.isa, NUMERICS).items():
        ranked = sorted(own, key=lambda choice: choice.cost.cycles)
        few[node] = ranked[: min(3, COMBINATIONS // combinations)]
        combinations *= len(few[node])
    front = Front(families_of(graph, few, up_to=0))
    picked = [dict(zip(few, own, strict=True)) for own in itertools.product(*few.values())]
    plans = [plan_graph(graph, own, slide=True, work=2_000) for own in picked]
    for worth in WORTH.values():
        values = [worth.of(plan.cycles, plan.flash_bytes, plan.arena_bytes) for plan in plans]
        best = front.best(worth)
        assert best is not None
        value = worth.of(best.plan.cycles, best.plan.flash_bytes, best.plan.arena_bytes)
        assert value <= min(values) + 0.002 * (1 + worth.flash + worth.arena)  # flash is rounded to grains
        bound = front.bound(worth)
        assert bound is not None
        assert bound <= min(values) + 1e-9  # an arena need not end at a multiple of 4


@pytest.mark.parametrize("seed", [3, 24])
def test_no_plan_is_worth_more_than_the_bound(seed: int) -> None:
    """Where a function is shared by layers that run whole and by rows, and where rows of whole tensors are no words
    (24)."""
    graph = integer_graph(seed)
    choices = as_compiled(candidates(graph, M4.isa, NUMERICS), compiled_code(M4.core, M4.isa, "speed"))
    front = Front(families_of(graph, choices))
    for worth in WORTH.values():
        best, bound = front.best(worth), front.bound(worth)
        assert best is not None
        assert bound is not None
        assert bound <= worth.of(best.plan.cycles, best.plan.flash_bytes, best.plan.arena_bytes) + 1e-9


@pytest.mark.parametrize("seed", range(6))
def test_the_needs_of_the_steps_are_the_lower_bound(seed: int) -> None:
    graph = integer_graph(seed)
    every = candidates(graph, M4.isa, NUMERICS)
    ranked = {node: sorted(own, key=lambda choice: choice.cost.cycles)[:3] for node, own in every.items()}
    order = [node.name for node in graph.nodes if node.name in ranked]
    needs = Needs(graph, {node: own[0] for node, own in ranked.items()}, order)
    for which in (0, 1, -1):
        picked = {node: own[min(which, len(own) - 1)] for node, own in ranked.items()}
        problem = whole_problem(graph, picked, Freedom(slide=True))
        bound = lower_bound(problem, range(len(problem.layers)))
        most = max(needs.floor, *(needs.of(node, choice) for node, choice in picked.items()))
        assert bound <= most < bound + problem.unit


@pytest.mark.parametrize(
    "model",
    ["kws", "sww", "ad", pytest.param("vww", marks=pytest.mark.slow), pytest.param("ic", marks=pytest.mark.slow)],
)
def test_a_larger_limit_is_never_worth_less(models_dir: Path, model: str) -> None:
    """64 pairs of limits of flash and of RAM, from the least that there is to more than anything takes."""
    options = Options("cortex-m4")
    integers = make_integers(models_dir / "mlperf_tiny" / f"{model}_int8.tflite", M4, options, Progress())
    front = offers_of(integers, M4, options, Progress()).front
    figures = np.array([(own.flash_bytes, own.live_bytes) for own in front.corners])
    limits = [np.geomspace(low, 1.1 * high, 8) for low, high in zip(figures.min(0), figures.max(0), strict=True)]
    for prefer in ("balanced", "time"):
        check_worth(front, WORTH[prefer], *limits)


def check_worth(front: Front, worth: Worth, flashes: np.ndarray, arenas: np.ndarray) -> None:
    """Asserts that the best within limits keeps them, and is worth no less than the best within smaller ones."""
    values = np.full((len(flashes), len(arenas)), np.inf)
    for i, j in itertools.product(range(len(flashes)), range(len(arenas))):
        limits = Limits(int(flashes[i]), int(arenas[j]))
        best, bound = front.best(worth, limits), front.bound(worth, limits)
        if best is not None:
            plan = best.plan
            assert bound is not None
            assert bound <= worth.of(plan.cycles, plan.flash_bytes, plan.arena_bytes) + 1e-9
            assert plan.flash_bytes <= flashes[i]
            assert plan.arena_bytes <= arenas[j]
            values[i, j] = worth.of(plan.cycles, plan.flash_bytes, plan.arena_bytes)
    assert np.isfinite(values).sum() >= 40
    better = np.minimum.accumulate(np.minimum.accumulate(values, axis=0), axis=1)
    there = np.isfinite(better)
    assert np.exp(values[there] - better[there]).max() <= 1.0 + NOISE


def test_limits_are_kept_and_time_is_one_of_them(models_dir: Path) -> None:
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    integers = make_integers(file, M4, Options("cortex-m4"), Progress())
    offers = offers_of(integers, M4, Options("cortex-m4"), Progress())

    def planned(**words: Any) -> Plan:
        return lower_offers(offers, integers, M4, Options("cortex-m4", **words), Progress()).plan

    usual = planned()
    limit = usual.cycles * 99 // 100
    fast = planned(time=str(limit))
    assert fast.cycles <= limit
    assert fast.arena_bytes > usual.arena_bytes
    assert planned(time=f"{limit / 100e3:.3f}ms").cycles <= limit + 100  # at 100 MHz, to 100 cycles
    with pytest.raises(TinycError, match="--time 'soon' is no time"):
        planned(time="soon")
    with pytest.raises(TinycError, match="no library of this model takes 1,000 cycles"):
        planned(time="1K")


def test_a_model_of_which_nothing_runs_is_a_library(tmp_path: Path) -> None:
    """Rows that follow each other, taken out: the output is a place in the input."""
    model = build(
        [op("Compress", "x taken", "y", axis=0)], {"x": [3, 2]}, ["y"], {"taken": np.array([False, True, True])}
    )
    onnx.save(model, tmp_path / "m.onnx")
    options = Options("host", precision="float32")
    integers = make_integers(tmp_path / "m.onnx", load_board("host"), options, Progress())
    lowered = lower_integers(integers, load_board("host"), options, Progress())
    assert not lowered.program.steps
    assert lowered.plan.arena_bytes >= 6 * 4


def test_the_front_of_a_model_says_what_is_built(models_dir: Path) -> None:
    front = front_of_model(models_dir / "mlperf_tiny" / "kws_int8.tflite", Options("cortex-m4"), Progress())
    (built,) = [point for point in front.points if point.built]
    assert not any(point.beaten for point in front.points if not point.built)
    assert 10 < len(front.points) <= MOST_POINTS + 1
    for one, other in itertools.permutations(front.points, 2):
        assert other.built or not one.beats(other)
    assert (built.arena_bytes, built.by_rows) == (3_740, True)
    fast = min(front.points, key=lambda point: point.cycles)
    assert fast.cycles < 0.99 * built.cycles
    assert fast.milliseconds == pytest.approx(1000 * fast.cycles / 100e6, rel=0.01)
    assert front.gap is not None
    assert 0 <= front.gap < 0.02


def test_libraries_that_are_called_for_each_row_have_no_front(models_dir: Path) -> None:
    with pytest.raises(TinycError, match="take their input whole"):
        front_of_model(models_dir / "mlperf_tiny" / "kws_int8.tflite", Options("host", input_rows=True), Progress())


def test_a_model_with_state_runs_layer_by_layer(models_dir: Path) -> None:
    front = front_of_model(models_dir / "zoo" / "streaming_vad_int8.tflite", Options("cortex-m4"), Progress())
    (built,) = [point for point in front.points if point.built]
    assert len(front.points) > 3
    assert not any(point.by_rows for point in front.points)
    assert min(point.arena_bytes for point in front.points) <= built.arena_bytes


def test_a_signal_of_thousands_of_samples_is_planned_in_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sample by sample, each is a row: pairs of rows that are alive together took minutes, and 13 GB."""
    counts = []

    def counted(blocks: Sequence[Block], gaps: Any) -> Any:
        pairs = conflicts(blocks, gaps)
        counts.append(sum(map(len, pairs)) // 2)
        return pairs

    monkeypatch.setattr("tinyc.plan.buffers.conflicts", counted)
    nodes = []
    weights = {}
    for layer, (x, y) in enumerate(pairwise("xabcy")):
        nodes.append(op("Conv", f"{x} w{layer}", y, pads=[4, 4], strides=[2]))
        weights[f"w{layer}"] = rand(layer, 8, 8 if layer else 1, 9)
    path = tmp_path / "m.onnx"
    path.write_bytes(build(nodes, {"x": [1, 1, 2048]}, ["y"], weights).SerializeToString())
    by_prefer = {prefer: api.estimate(path, "cortex-m4", prefer=prefer).arena_bytes for prefer in ("time", "ram")}
    assert by_prefer["ram"] < 0.7 * by_prefer["time"]
    assert max(counts) <= 250_000


def test_a_limit_below_what_is_compiled_for_speed_is_compiled_for_size(models_dir: Path) -> None:
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    integers = make_integers(file, M4, Options("cortex-m4"), Progress())
    offers = offers_of(integers, M4, Options("cortex-m4"), Progress())

    def lowered(**words: Any) -> Lowered:
        return lower_offers(offers, integers, M4, Options("cortex-m4", **words), Progress())

    assert lowered(flash=40_000).program.optimize == "speed"
    least = lowered(flash=31_800)
    assert least.program.optimize == "size"
    assert least.plan.flash_bytes <= 31_800
    within = Options("cortex-m4", flash=31_800)
    bound, plan = bound_of(offers, M4, within), least.plan
    assert bound is not None
    assert bound <= worth_of(within).of(plan.cycles, plan.flash_bytes, plan.arena_bytes)
    assert lowered(flash=31_800, flash_reserve=500).plan.flash_bytes <= 31_300
    with pytest.raises(TinycError, match="the smallest library found takes about"):
        lowered(flash=20_000)
