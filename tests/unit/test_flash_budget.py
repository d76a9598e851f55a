# SPDX-License-Identifier: Apache-2.0
"""A budget of flash holds for the library that a compiler makes, not for what kernels are said to take."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import tinyc
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.explain.estimate import library_flash
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.flash_budget import Tried, in_flash
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.proving import check_flash_budget
from tinyc.toolchain.size import LibrarySize

M4 = load_board("cortex-m4")
KWS = Path(__file__).parents[2] / "examples" / "kws" / "kws.onnx"
ALL = ((10, 14), (20, 19), (30, 36), (40, 41), (44, 52), (60, 70))  # bytes that kernels are said to take, and take


def _attempts(tried: list[int], choices: tuple[tuple[int, int], ...]) -> Callable[[int], Tried[int]]:
    """Choices of kernels that are the better the more they are said to take."""

    def attempt(budget: int) -> Tried[int]:
        tried.append(budget)
        index = max((i for i, (said, _) in enumerate(choices) if said * 1000 <= budget), default=0)
        said, taken = choices[index]
        return Tried(index, said * 1000, taken * 1000)

    return attempt


@pytest.mark.parametrize(
    ("asked", "best"),
    [(14, 0), (18, 0), (19, 1), (35, 1), (36, 2), (40, 2), (41, 3), (51, 3), (52, 4), (69, 4), (70, 5), (10_000, 5)],
)
def test_the_best_that_fits_is_found(asked: int, best: int) -> None:
    tried: list[int] = []
    found = in_flash(_attempts(tried, ALL), asked * 1000)
    assert found.made == best
    assert found.taken <= asked * 1000
    assert len(tried) <= 8


def test_where_nothing_fits_the_smallest_is_found() -> None:
    tried: list[int] = []
    assert in_flash(_attempts(tried, ALL), 5_000).taken == 14_000
    assert in_flash(_attempts(tried, ((10, 14), (12, 13))), 12_500).taken == 13_000


def test_a_budget_that_holds_is_planned_once() -> None:
    tried: list[int] = []
    assert in_flash(_attempts(tried, ((50, 50),)), 50_100).made == 0
    assert tried == [50_100]


@pytest.mark.parametrize("share", [0.87, 0.95])
def test_a_library_keeps_the_budget_by_the_estimate_of_all_its_code(models_dir: Path, share: float) -> None:
    """Not by the sum of what kernels are said to take, which is another."""
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    free = library_flash(compile_model(file, M4, Options("cortex-m4", memory="speed"), Progress()).program, M4)
    assert free is not None
    budget = int(free.total * share)
    made = compile_model(file, M4, Options("cortex-m4", flash_budget=budget), Progress())
    taken = library_flash(made.program, M4)
    assert taken is not None
    assert 0.88 * budget < taken.total <= budget


def test_the_last_bytes_are_not_bought_with_all_time(models_dir: Path) -> None:
    """Where the kernels of `--optimize size` fit, a budget gives no slower ones."""
    file = models_dir / "mlperf_tiny" / "sww_int8.tflite"
    small = compile_model(file, M4, Options("cortex-m4", optimize="size"), Progress())
    taken = library_flash(small.program, M4)
    assert taken is not None
    for more in (1.02, 1.05, 1.1):
        made = compile_model(file, M4, Options("cortex-m4", flash_budget=int(taken.total * more) + 1000), Progress())
        assert made.plan.time <= small.plan.time


def test_a_budget_for_slow_kernels_alone_is_warned_of(models_dir: Path) -> None:
    file, said = models_dir / "mlperf_tiny" / "sww_int8.tflite", list[str]()
    compile_model(file, M4, Options("cortex-m4", flash_budget=58 * 1024), Progress(on_warning=said.append))
    assert any("--optimize size" in warning for warning in said)
    said.clear()
    compile_model(file, M4, Options("cortex-m4", flash_budget=74 * 1024), Progress(on_warning=said.append))
    assert not said


def test_what_is_tried_warns_once(models_dir: Path) -> None:
    """However many times kernels are chosen."""
    file, said = models_dir / "mlperf_tiny" / "kws_int8.tflite", list[str]()
    options = Options("cortex-m4", flash_budget=42_000, stream_weights=64)
    compile_model(file, M4, options, Progress(on_warning=said.append))
    assert len([warning for warning in said if "--stream-weights" in warning]) == 1


def test_a_compiled_library_over_its_budget_is_an_error(models_dir: Path) -> None:
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    options = Options("cortex-m4", flash_budget=42_000)
    made = compile_model(file, M4, options, Progress())
    check_flash_budget(made, LibrarySize(10_000, 32_000), options)
    check_flash_budget(made, LibrarySize(10_000, 99_000), Options("cortex-m4"))
    with pytest.raises(TinycError, match="takes 43,000 bytes of flash, the budget is 42,000: 1,000 too few") as caught:
        check_flash_budget(made, LibrarySize(10_000, 33_000), options)
    assert caught.value.exit_code == 1
    assert "`--optimize size` with the same budget takes less" in str(caught.value)
    with pytest.raises(TinycError, match="`--optimize size` without --flash-budget"):
        check_flash_budget(made, LibrarySize(10_000, 33_000), replace(options, optimize="size"))


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_what_the_hint_says_builds(tmp_path: Path, weights: Literal["int8", "int4"]) -> None:
    """And takes no more than was said. How well the weights are rounded has no say in it."""
    data, out = tmp_path / "few.npz", tmp_path / "out"
    np.savez(data, **{name: samples[:8] for name, samples in np.load(KWS.parent / "kws.calib.npz").items()})
    recipe = Recipe("minmax", equalize=False, rounding="nearest", weights=weights)
    build = partial(tinyc.build, KWS, "cortex-m4", out=out, calibration=data, recipe=recipe, proof=False)
    with pytest.raises(TinycError, match="the smallest library found takes about") as caught:
        build(flash_budget=10_000)
    budget = int(re.findall(r"`--optimize size --flash-budget (\d+)`", str(caught.value))[0])
    flash = build(flash_budget=budget, optimize="size").report.flash
    assert flash is not None
    assert flash.code_bytes + flash.const_bytes <= budget


def test_a_build_keeps_its_budget_or_fails(models_dir: Path, tmp_path: Path) -> None:
    """What a gate in continuous integration relies on."""
    file, out = models_dir / "mlperf_tiny" / "kws_int8.tflite", tmp_path / "out"
    flash = tinyc.build(file, "cortex-m4", out=out, flash_budget=44_000, samples=1).report.flash
    assert 40_000 < flash.code_bytes + flash.const_bytes <= 44_000
    with pytest.raises(TinycError, match="too few") as caught:
        tinyc.build(file, "cortex-m4", out=tmp_path / "none", flash_budget=20_000, samples=1)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "none").exists()
