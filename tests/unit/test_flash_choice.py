# SPDX-License-Identifier: Apache-2.0
"""Flash as a cost: functions that layers share, and what a limit leaves."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tinyc.board import load_board
from tinyc.choose.select import layers_of
from tinyc.explain.estimate import estimate
from tinyc.kernel.kernel import Cost, WrittenCode
from tinyc.ops import all_ops
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.lowering import lower_integers, lower_offers, offers_of
from tinyc.pipeline.progress import Progress
from tinyc.plan.answer import Plan

M4 = load_board("cortex-m4")


def test_code_of_two_layers_is_counted_in_halves() -> None:
    shared, own = Cost(10, 1000, 0, code=WrittenCode("f", 400)), Cost(10, 700, 0, code=WrittenCode("g", 300))
    layers = layers_of([[shared, own], [shared, shared], [Cost(1, 50, 0)]])
    assert layers == {"f": 2, "g": 1}
    assert (shared.shared(layers).flash_bytes, own.shared(layers).flash_bytes) == (800, 700)
    assert shared.shared(layers).shared(layers) == shared.shared(layers)  # once is enough
    assert Cost(1, 50, 0).shared(layers) == Cost(1, 50, 0)


@pytest.mark.parametrize("model", ["ad", "kws", "sww", pytest.param("vww", marks=pytest.mark.slow)])
def test_more_ram_takes_no_more_time(models_dir: Path, model: str) -> None:
    """By the compiler's own figures, of the limits that a plan was found for, where time is all that is wanted."""
    integers = make_integers(models_dir / "mlperf_tiny" / f"{model}_int8.tflite", M4, Options("cortex-m4"), Progress())
    offers = offers_of(integers, M4, Options("cortex-m4", prefer="time"), Progress())

    def planned(ram: int | None) -> Plan:
        return lower_offers(offers, integers, M4, Options("cortex-m4", ram=ram, prefer="time"), Progress()).plan

    usual = planned(None).arena_bytes
    budgets = [usual * percent // 100 for percent in (80, 95, 100, 110, 125, 200)]
    fitting = [plan for ram in budgets if (plan := planned(ram)).arena_bytes <= ram]
    assert len(fitting) >= 4
    assert all(more.cycles <= less.cycles for less, more in itertools.pairwise(fitting))


def test_a_limit_of_flash_leaves_rows(models_dir: Path) -> None:
    """What the widest weights would not leave room for, narrower ones do."""
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    compiled = compile_model(file, M4, Options("cortex-m4", flash=40_000, ram=8_000), Progress())
    assert compiled.plan.runs_by_rows
    assert compiled.plan.arena_bytes <= 8_000
    assert estimate("kws", compiled.program, M4).flash_bytes <= 40_000


@pytest.mark.parametrize("board", ["cortex-m3", "cortex-m0plus"])
@pytest.mark.parametrize("model", ["person_detect", "mobilenet96"])
def test_a_model_of_half_the_flash_is_as_fast_per_product_as_a_small_one(
    models_dir: Path, board: str, model: str
) -> None:
    """The flash of these boards is 512 KiB. Kernels of 0.4 % more flash were once given up for ten times the time."""
    target = load_board(board)
    per_mac = []
    for file in ("mlperf_tiny/kws_int8.tflite", f"zoo/{model}_int8.tflite"):
        integers = make_integers(models_dir / file, target, Options(board), Progress())
        plan = lower_integers(integers, target, Options(board), Progress()).plan
        macs = sum(all_ops()[choice.site.node.op].macs(choice.site) for choice in plan.choices.values())
        per_mac.append(plan.cycles / macs)
    assert per_mac[1] < 2 * per_mac[0]
