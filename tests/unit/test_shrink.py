# SPDX-License-Identifier: Apache-2.0
"""Smaller arenas by other kernels: no combination of kernels does better, and real models stay within the time."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path

import pytest

from tests.unit.stream_cases import NUMERICS, integer_graph
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import Choice, Goal, candidates, choose
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.plan import Freedom, Needs, plan_graph, whole_problem
from tinyc.plan.live import lower_bound
from tinyc.plan.shrink import MEMORY_PRICE, Budget, shrink, time_of

M4 = load_board("cortex-m4")
COMBINATIONS = 100
# Bytes that `--memory speed` takes at most on the Cortex-M4, layer by layer.
LEAST = {"kws": 9_000, "vww": 38_400, "ic": 37_600, "ad": 800, "sww": 3_800}


def instructions(choices: Mapping[str, Choice]) -> int:
    return sum(choice.cost.instructions for choice in choices.values())


def few_candidates(graph: Graph) -> dict[str, list[Choice]]:
    """Of every node the fastest, and others as long as all can be tried."""
    found = candidates(graph, M4.isa, NUMERICS)
    kept, combinations = {}, 1
    for node, options in found.items():
        ranked = sorted(options, key=lambda choice: choice.cost.time)
        count = min(len(ranked), 3, COMBINATIONS // combinations)
        kept[node] = ranked[:count]
        combinations *= count
    return kept


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("seed", range(6))
def test_no_combination_of_kernels_is_smaller(seed: int) -> None:
    graph = integer_graph(seed)
    found = few_candidates(graph)
    chosen = {node: options[0] for node, options in found.items()}
    for price in (0.01, 0.3):
        _, plan = shrink(graph, found, chosen, Budget(price, None, 1 << 30))
        arenas = []
        for combination in product(*found.values()):
            picked = dict(zip(found, combination, strict=True))
            slow = time_of(picked) > time_of(chosen) * (1 + price)
            if not slow and instructions(picked) <= instructions(chosen) * (1 + max(price, 0.05)):
                arenas.append(plan_graph(graph, picked, slide=True, work=2_000).arena_bytes)
        assert plan.arena_bytes <= min(arenas)


@pytest.mark.parametrize("seed", range(6))
def test_the_needs_of_the_steps_are_the_lower_bound(seed: int) -> None:
    graph = integer_graph(seed)
    found = few_candidates(graph)
    chosen = {node: options[0] for node, options in found.items()}
    order = [node.name for node in graph.nodes if node.name in found]
    needs = Needs(graph, chosen, order)
    for which in (0, 1, -1):
        picked = {node: options[min(which, len(options) - 1)] for node, options in found.items()}
        problem = whole_problem(graph, picked, Freedom(slide=True))
        bound = lower_bound(problem, range(len(problem.layers)))
        most = max(needs.floor, *(needs.of(node, choice) for node, choice in picked.items()))
        assert bound <= most < bound + problem.unit


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in ("vww", "ic", "ad") else []) for n in LEAST]
)
def test_speed_spends_no_bytes_for_a_hundredth_of_the_time(models_dir: Path, name: str) -> None:
    graph = normalize(load_model(models_dir / "mlperf_tiny" / f"{name}_int8.tflite"))
    graph = drop_dead_channels(graph, Numerics.TFLM)
    found = candidates(graph, M4.isa, Numerics.TFLM)
    assert M4.flash_bytes is not None
    fastest = choose(found, Goal("speed", M4.flash_bytes // 2))
    picked, plan = shrink(graph, found, fastest, Budget(MEMORY_PRICE["speed"], None, M4.flash_bytes))
    assert plan.arena_bytes <= LEAST[name]
    assert time_of(picked) <= 1.01 * time_of(fastest)
    assert instructions(picked) <= 1.05 * instructions(fastest)
    _, tight = shrink(graph, found, fastest, Budget(MEMORY_PRICE["speed"], plan.arena_bytes, M4.flash_bytes))
    assert tight.arena_bytes == plan.arena_bytes
