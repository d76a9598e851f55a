# SPDX-License-Identifier: Apache-2.0
"""What the compiler does grows with the layers of a model and not with their square: calls are counted, not seconds."""

from __future__ import annotations

import cProfile
import gc
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.load.onnx_models import build, op
from tinyc.board import load_board
from tinyc.explain.memory_map import Tenant, make_map
from tinyc.ops import sums
from tinyc.options.build import Options
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

FEW, MANY = 40, 160


def _chain(layers: int, first: str) -> onnx.ModelProto:
    """Sums of the value before and the input x, one after the other. first: what x is added to; where that is x, too, a
    table of one byte does them all."""
    nodes = [op("Add", f"{f't{i - 1}' if i else first} x", f"t{i}") for i in range(layers)]
    return build(nodes, dict.fromkeys(("x", first), (1, 3)), (f"t{layers - 1}",))


def _compiled(folder: Path, layers: int, board: str, first: str = "y") -> None:
    file = folder / f"{layers}{first}.onnx"
    onnx.save(_chain(layers, first), file)
    compile_model(file, load_board(board), Options(board=board), Progress())


def _calls(folder: Path, layers: int, board: str, first: str) -> int:
    """Calls of Python and of C functions, counted by the profiler in C. Garbage is left: what collecting calls
    depends on the tests before, and with a profiler it crashed Python 3.11.2 once."""
    sums.linear_form.cache_clear()
    gc.disable()
    calls = cProfile.Profile()
    try:
        calls.runcall(_compiled, folder, layers, board, first)
    finally:
        gc.enable()
    return sum(function.callcount for function in calls.getstats())


@pytest.mark.parametrize(
    ("board", "first"), [pytest.param("host", "y", marks=pytest.mark.slow), ("cortex-m4", "y"), ("cortex-m4", "x")]
)
def test_calls_grow_with_the_layers(tmp_path: Path, board: str, first: str) -> None:
    _compiled(tmp_path, 2, board, first)  # what is imported or made once
    few, many = _calls(tmp_path, FEW, board, first), _calls(tmp_path, MANY, board, first)
    assert many < few * MANY / FEW * 1.15


def test_the_exact_form_of_a_sum_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []

    def search(p: sums.Sum, *args: Any) -> sums.Linear | None:
        searched.append(p)
        return own_search(p, *args)

    own_search = sums._search
    monkeypatch.setattr(sums, "_search", search)
    sums.linear_form.cache_clear()
    _compiled(tmp_path, 270, "cortex-m4")  # more than a cache of 256 holds
    assert len(set(searched)) > 256
    tries = len(sums._REACHES) * sums._SHIFTS
    assert max(map(searched.count, searched)) <= tries


TENANTS = st.builds(
    lambda at, size, born, lives: Tenant("t", "tensor", at, size, born, born + lives),
    st.integers(0, 40),
    st.integers(1, 20),
    st.integers(-1, 12),
    st.integers(0, 9),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(TENANTS, max_size=12), st.integers(0, 14))
def test_the_map_of_a_step_shows_what_is_alive_in_it(tenants: list[Tenant], steps: int) -> None:
    memory = make_map(100, 0, [("n", "add", None)] * steps, tenants)
    for step, moment in enumerate(memory.moments):
        held = {byte for tenant in memory.at(step) for byte in range(tenant.at, tenant.end)}
        assert moment.live_bytes == len(held)
        assert moment.top_bytes == max(held, default=-1) + 1
