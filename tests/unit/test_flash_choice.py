# SPDX-License-Identifier: Apache-2.0
"""Flash as a cost: functions that layers share, forms of rows within a budget of flash, and the default's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pytest

from tests.unit.stream_cases import NUMERICS, integer_graph
from tinyc.board import load_board
from tinyc.choose.select import Goal, candidates, choose, layers_of, least_flash
from tinyc.explain.estimate import library_flash
from tinyc.kernel.kernel import Cost, WrittenCode
from tinyc.ops import all_ops
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.kernel_budgets import INTERPRETER_BYTES, interpreted_bytes, within_flash
from tinyc.pipeline.lowering import lower_integers
from tinyc.pipeline.progress import Progress
from tinyc.plan.answer import Plan
from tinyc.plan.builder import problem_of
from tinyc.plan.layout import Aim, Kernels, plan_memory
from tinyc.plan.problem import Form
from tinyc.plan.rows.cuts import Measured, measure
from tinyc.plan.rows.flash import GRAIN, InFlash

M4 = load_board("cortex-m4")


def test_code_of_two_layers_is_counted_in_halves() -> None:
    shared, own = Cost(10, 1000, 0, code=WrittenCode("f", 400)), Cost(10, 700, 0, code=WrittenCode("g", 300))
    layers = layers_of([[shared, own], [shared, shared], [Cost(1, 50, 0)]])
    assert layers == {"f": 2, "g": 1}
    assert (shared.shared(layers).flash_bytes, own.shared(layers).flash_bytes) == (800, 700)
    assert shared.shared(layers).shared(layers) == shared.shared(layers)  # once is enough
    assert Cost(1, 50, 0).shared(layers) == Cost(1, 50, 0)


@pytest.mark.parametrize("seed", range(3))
def test_forms_within_a_budget_are_the_cheapest_of_all_combinations(seed: int) -> None:
    """Of every group of three layers: by all combinations of their forms, in one arena after another."""
    problem = problem_of(graph := integer_graph(seed), candidates(graph, M4.isa, NUMERICS))
    measured = [one for one in measure(problem) if one.stop <= 3]
    for arena in (2**30, max(one.need for one in measured), min(one.need for one in measured if one.stop == 3)):
        cuts = list(_all_cuts(measured, 0, 3, arena))
        least = min((sum(_grains(form) for form in cut) for cut in cuts), default=10) * GRAIN
        for budget in (least - GRAIN, least, least + 1_000, least + 8_000, 2**20):
            fits = [cut for cut in cuts if sum(_grains(form) for form in cut) <= budget // GRAIN]
            found = InFlash(measured, lambda form: form.time, budget).cheapest(arena)
            assert (found is not None) == bool(fits)
            if found is not None:
                assert found.flash_bytes <= budget
                assert found.weight == found.time == min(sum(form.time for form in cut) for cut in fits)


def _grains(form: Form) -> int:
    return -(-form.flash_bytes // GRAIN)


def _all_cuts(measured: Sequence[Measured], start: int, stop: int, arena: int) -> Iterator[tuple[Form, ...]]:
    """Every choice of groups and forms for layers [start, stop), the dearest forms of a layer left out."""
    if start == stop:
        yield ()
    for own in [one for one in measured if one.start == start]:
        fits = [
            [form for form in (layer.whole_forms if own.is_whole else layer.row_forms) if load.need(form) <= arena]
            for layer, load in zip(own.layers, own.loads, strict=True)
        ]
        for rest in _all_cuts(measured, own.stop, stop, arena):
            yield from ((*forms, *rest) for forms in itertools.product(*fits))


@pytest.mark.slow
def test_a_looser_budget_never_gives_a_worse_library(models_dir: Path) -> None:
    """By the compiler's own figures. Of flash: no plan of less flash has both a smaller arena and less time. Of RAM
    within one budget of flash: none of less RAM takes less time."""
    made = make_integers(models_dir / "mlperf_tiny" / "ic_int8.tflite", M4, Options("cortex-m4"), Progress())

    def planned(flash: int | None, ram: int | None = None, by_rows: bool = False) -> Plan:
        options = Options("cortex-m4", flash_budget=flash, ram_budget=ram, input_rows=by_rows)
        lowered = lower_integers(made, M4, options, Progress())
        found = library_flash(lowered.program, M4)
        assert found is not None
        assert flash is None or found.total <= flash
        return lowered.plan

    plans = [planned(flash) for flash in (110_000, 140_000, 160_000, 220_000)]
    for tight, loose in itertools.combinations(plans, 2):
        assert loose.time <= tight.time or loose.arena_bytes < tight.arena_bytes
        assert loose.arena_bytes <= tight.arena_bytes or loose.time < tight.time
    plans = [planned(157_000, ram) for ram in (10_000, 11_000, 12_000, 14_000, 20_000)]
    assert all(loose.time <= tight.time for tight, loose in itertools.pairwise(plans))
    usual, by_rows = planned(None), planned(None, by_rows=True)
    assert max(usual.flash_bytes, by_rows.flash_bytes) <= interpreted_bytes(made.graph)
    assert by_rows.arena_bytes < usual.arena_bytes
    assert by_rows.time < 1.1 * usual.time


@pytest.mark.parametrize("model", ["ad", "kws", "sww", pytest.param("vww", marks=pytest.mark.slow)])
def test_more_ram_takes_no_more_time(models_dir: Path, model: str) -> None:
    """By the compiler's own figures, of the budgets that a plan was found for."""
    made = make_integers(models_dir / "mlperf_tiny" / f"{model}_int8.tflite", M4, Options("cortex-m4"), Progress())

    def planned(ram: int | None) -> Plan:
        return lower_integers(made, M4, Options("cortex-m4", ram_budget=ram), Progress()).plan

    usual = planned(None).arena_bytes
    budgets = [usual * percent // 100 for percent in (80, 95, 100, 110, 125, 200)]
    fitting = [plan for ram in budgets if (plan := planned(ram)).arena_bytes <= ram]
    assert len(fitting) >= 4
    assert all(more.time <= less.time for less, more in itertools.pairwise(fitting))


def test_a_budget_of_flash_leaves_rows(models_dir: Path) -> None:
    """What the widest weights would not leave room for, narrower ones do."""
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    wide = compile_model(file, M4, Options("cortex-m4", memory="min"), Progress())
    kernels = {node: list(choices) for node, choices in wide.choices.items()}
    small = choose(kernels, Goal("size")).values()
    budget = sum(choice.cost.flash_bytes for choice in small) * 5 // 4
    aim = Aim(flash_bytes=budget, ram_bytes=2**20)
    plan = plan_memory(wide.graph, Kernels(kernels, choose(kernels, Goal("speed", budget))), aim)
    assert plan.runs_by_rows
    assert plan.flash_bytes <= budget
    assert plan.arena_bytes < 8_000
    # For size: not twice as slow for the last bytes.
    least = [min(choices, key=lambda choice: choice.cost.flash_bytes) for choices in kernels.values()]
    assert budget < 1.05 * least_flash(kernels) * 5 / 4
    assert 2 * sum(choice.cost.time for choice in small) < sum(choice.cost.time for choice in least)


def test_the_default_takes_no_more_flash_than_an_interpreter(models_dir: Path) -> None:
    """`--memory speed` may take more."""
    file = models_dir / "mlperf_tiny" / "sww_int8.tflite"
    memories: tuple[Literal["balanced", "speed"], ...] = ("balanced", "speed")
    usual, fast = (compile_model(file, M4, Options("cortex-m4", memory=memory), Progress()) for memory in memories)
    sizes = [sum(step.const_bytes for step in made.program.steps) for made in (usual, fast)]
    own = sum(array.nbytes for array in usual.graph.consts.values())
    assert own < sizes[0] < sizes[1]
    assert sizes[0] < own + INTERPRETER_BYTES


@pytest.mark.parametrize("model", ["mlperf_tiny/kws", "mlperf_tiny/ic", "mlperf_tiny/ad", "zoo/mobilenet96"])
def test_what_an_interpreter_takes_is_its_code_and_the_file(models_dir: Path, model: str) -> None:
    """Of files with many channels and with few, from 54 to 589 KB."""
    file = models_dir / f"{model}_int8.tflite"
    graph = make_integers(file, M4, Options("cortex-m4"), Progress()).graph
    assert interpreted_bytes(graph) == pytest.approx(file.stat().st_size + INTERPRETER_BYTES, rel=0.07)


@pytest.mark.parametrize("board", ["cortex-m3", "cortex-m0plus"])
@pytest.mark.parametrize("model", ["person_detect", "mobilenet96"])
def test_a_model_of_half_the_flash_is_as_fast_per_product_as_a_small_one(
    models_dir: Path, board: str, model: str
) -> None:
    """The flash of these boards is 512 KiB. Kernels of 0.4 % more flash were once given up for ten times the time."""
    target = load_board(board)
    per_mac = []
    for file in ("mlperf_tiny/kws_int8.tflite", f"zoo/{model}_int8.tflite"):
        made = make_integers(models_dir / file, target, Options(board), Progress())
        found = candidates(made.graph, target.isa, made.numerics)
        chosen = next(iter(within_flash(made.graph, found, target, Options(board))))[0]
        macs = sum(all_ops()[choice.site.node.op].macs(choice.site) for choice in chosen.values())
        per_mac.append(sum(choice.cost.time for choice in chosen.values()) / macs)
    assert per_mac[1] < 2 * per_mac[0]
