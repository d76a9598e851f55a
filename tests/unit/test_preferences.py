# SPDX-License-Identifier: Apache-2.0
"""What one preference finds within limits, no other one misses, on boards whose flash is slow and others."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.stream_cases import integer_graph
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.emit.in_ram import cycles_beside_copies
from tinyc.options.build import Options, Prefer
from tinyc.pipeline.choosing import WORTH
from tinyc.pipeline.integers import IntegerModel, make_integers
from tinyc.pipeline.lowering import Lowered, lower_offers, offers_of, value_beside_copies
from tinyc.pipeline.progress import Progress

SLOW = ("nucleo-l4r5zi", "raspberry-pi-pico2")
QUIET = Progress()
_ROUNDING = 1e-9  # of values


@cache
def _model(seed: int) -> IntegerModel:
    return IntegerModel(Path(f"n{seed}.onnx"), "0" * 64, integer_graph(seed))


def _kws(models_dir: Path, board: str) -> IntegerModel:
    file = models_dir / "mlperf_tiny" / "kws_int8.tflite"
    return make_integers(file, load_board(board), Options(board), QUIET)


def _lowered(model: IntegerModel, board: str, prefer: Prefer, **limits: Any) -> Lowered | None:
    """None where it is refused."""
    options, target = Options(board, prefer=prefer, **limits), load_board(board)
    offers = offers_of(model, target, options, QUIET)
    try:
        return lower_offers(offers, model, target, options, QUIET)
    except TinycError as error:
        if error.exit_code != 1:
            raise
        return None


def _by_preference(model: IntegerModel, board: str, **limits: Any) -> Mapping[Prefer, Lowered]:
    """Of each preference; none where it is refused for each. What is refused for some is a fault."""
    every = {prefer: _lowered(model, board, prefer, **limits) for prefer in WORTH}
    libraries = {prefer: own for prefer, own in every.items() if own is not None}
    assert len(libraries) in (0, len(WORTH)), f"{limits} on {board}: only {', '.join(libraries)}"
    return libraries


def _cycles(lowered: Lowered, board: str) -> int:
    timing = load_board(board).flash_timing
    return lowered.plan.cycles if timing is None else cycles_beside_copies(lowered.program, timing)


def _figures(lowered: Lowered, board: str) -> tuple[int, int, int]:
    """Cycles, flash, and RAM with its copies."""
    copies = 0 if lowered.program.in_ram is None else lowered.program.in_ram.size
    return _cycles(lowered, board), lowered.plan.flash_bytes, lowered.plan.arena_bytes + copies


def _limits(figures: np.ndarray, rng: np.random.Generator) -> Mapping[str, Any]:
    """One to three of them, near what libraries without limits take."""
    low, high = np.log(0.9 * figures.min(axis=0)), np.log(1.05 * figures.max(axis=0))
    cycles, flash, ram = (int(value) for value in np.exp(rng.uniform(low, high)))
    every = {"time": str(cycles), "flash": flash, "ram": ram}
    some = rng.permutation(list(every))[: int(rng.integers(1, 4))]
    return {name: every[name] for name in some}


@pytest.mark.parametrize("board", [*SLOW, "cortex-m4"])
@pytest.mark.parametrize("seed", [1, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 4, 5, 6, 7))])
def test_no_preference_misses_what_another_one_finds(seed: int, board: str) -> None:
    check_preferences(_model(seed), board, seed, draws=2)


@pytest.mark.slow
@pytest.mark.parametrize("board", [*SLOW, "esp32-c3", "cortex-m4"])
def test_no_preference_of_a_network_misses_what_another_one_finds(models_dir: Path, board: str) -> None:
    check_preferences(_kws(models_dir, board), board, 0, draws=6)


def check_preferences(model: IntegerModel, board: str, seed: int, draws: int) -> None:
    """Asserts, for random limits, that all preferences are refused or none, that limits are kept, and, where flash is
    slow, that none is better served by the library of another one, but where limits ask for no other than the usual."""
    rng = np.random.default_rng([seed, 5])
    usual = _by_preference(model, board)
    figures = np.array([_figures(own, board) for own in usual.values()])
    refused = 0
    for _ in range(draws):
        limits = _limits(figures, rng)
        libraries = _by_preference(model, board, **limits)
        refused += not libraries
        for prefer, own in libraries.items():
            cycles, flash, ram = _figures(own, board)
            assert cycles <= int(limits.get("time", cycles))
            assert flash <= limits.get("flash", flash) * 1.05  # more is refused; compilers say what fits
            if own.plan.arena_bytes <= limits.get("ram", ram):
                assert ram <= limits.get("ram", ram)
            if board in SLOW and _figures(own, board) != _figures(usual[prefer], board):
                _check_worth_most(prefer, libraries, model, board, limits)
    assert refused < draws or draws < 3


def _check_worth_most(
    prefer: Prefer, libraries: Mapping[Prefer, Lowered], model: IntegerModel, board: str, limits: Mapping[str, Any]
) -> None:
    options, target = Options(board, prefer=prefer, **limits), load_board(board)
    copies = offers_of(model, target, options, QUIET).copies
    assert copies is not None
    values = {other: value_beside_copies(own, target, options, copies.price) for other, own in libraries.items()}
    assert values[prefer] <= min(values.values()) + _ROUNDING, f"{limits}: {values}"


def test_little_ram_is_preferred_within_a_time_that_copies_reach(models_dir: Path) -> None:
    """Copies are dear where RAM is preferred: without them the time was said not to be had."""
    model = _kws(models_dir, "nucleo-l4r5zi")
    lowered = _lowered(model, "nucleo-l4r5zi", "ram", time="3359040")
    assert lowered is not None
    assert _cycles(lowered, "nucleo-l4r5zi") <= 3_359_040
    assert lowered.plan.arena_bytes <= 3_740


def test_small_code_is_preferred_within_a_time_that_code_for_speed_reaches(models_dir: Path) -> None:
    model = _kws(models_dir, "cortex-m4")
    fast = _lowered(model, "cortex-m4", "time")
    assert fast is not None
    small = _lowered(model, "cortex-m4", "flash", time=str(fast.plan.cycles))
    assert small is not None
    assert small.plan.cycles <= fast.plan.cycles


def test_a_limit_of_flash_is_not_kept_by_slow_kernels_where_small_code_keeps_it(models_dir: Path) -> None:
    """The smallest kernels in C at -O3 took 19.1 million cycles; at -Os there is room for others."""
    lowered = _lowered(_kws(models_dir, "cortex-m4"), "cortex-m4", "balanced", flash=32_947)
    assert lowered is not None
    assert lowered.program.optimize == "size"
    assert lowered.plan.cycles < 5_000_000
