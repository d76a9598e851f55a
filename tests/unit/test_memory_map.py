# SPDX-License-Identifier: Apache-2.0
"""The memory map says what the plan says, as values, as text and as a picture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.plan_problems import random_problem
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.explain.memory_map import Tenant, letters_held, make_map, map_legend, map_of, map_text, memory_report
from tinyc.explain.memory_plot import plot_map
from tinyc.pipeline.selftest import small_graph
from tinyc.plan import plan_graph, solve
from tinyc.verify.report import Holding

STEPS = [("a", "conv2d", None), ("b", "add", None), ("c", "softmax", None)]
TENANTS = [
    Tenant("x", "input", 0, 40, -1, 1),
    Tenant("t", "tensor", 20, 40, 0, 2),  # over the last 20 bytes of x
    Tenant("a", "scratch", 64, 36, 0, 1),
    Tenant("u", "tensor", 0, 20, 1, 3),
    Tenant("y", "output", 60, 20, 2, 3),
]


def test_bytes_held_twice_count_once() -> None:
    memory = make_map(100, 90, STEPS, TENANTS)
    assert [moment.live_bytes for moment in memory.moments] == [96, 60, 40]
    assert [moment.top_bytes for moment in memory.moments] == [100, 60, 80]
    assert memory.peak == (0,)


def test_every_cell_names_its_holder() -> None:
    memory = make_map(100, 90, STEPS, TENANTS)
    lines = map_text(memory, width=10)
    assert [line.split()[2] for line in lines[1:4]] == ["AAbbBB####", "CCBBBB....", "CC....DD.."]
    assert lines[1].endswith("<- peak")
    assert map_legend(memory, width=10).startswith("A cell is 10 bytes")
    assert ("D", "output", "20", "[60, 80)", "[2, 3)", "y") in list(letters_held(memory))


def test_a_report_has_the_most_of_each_share_of_the_time() -> None:
    memory = make_map(100, 90, STEPS, TENANTS)
    assert memory_report(memory).live == (96, 60, 40)
    assert memory_report(memory, most=2).live == (96, 60)  # the last two steps are one share
    assert memory_report(memory).holds[2] == Holding("a", "scratch", 64, 100, 0, 1)
    assert [held.born for held in memory_report(memory).holds] == [0, 0, 0, 1, 2]
    rows = make_map(100, 90, [(name, op, row) for row, (name, op, _) in enumerate(STEPS)], TENANTS)
    assert (memory_report(rows).moments, memory_report(rows).holds) == (3, ())
    assert memory_report(make_map(0, 0, [], [])).live == (0,)


@pytest.mark.parametrize("width", [1, 7, 64, 1000])
def test_all_lines_of_the_map_are_as_wide(width: int) -> None:
    bars = [line.split()[2] for line in map_text(make_map(100, 90, STEPS, TENANTS), width)[1:4]]
    assert len({len(bar) for bar in bars}) == 1
    assert len(bars[0]) <= min(width, 100)


def test_the_map_of_a_graph_is_its_plan() -> None:
    graph = small_graph()
    plan = plan_graph(graph, select(graph, frozenset({"dsp"}), Numerics.TFLM), slide=True)
    memory = map_of(graph, plan)
    assert memory.arena_bytes == plan.arena_bytes == max(moment.top_bytes for moment in memory.moments)
    assert [moment.node for moment in memory.moments] == [layer.node for layer in plan.layers]
    kinds = {tenant.name: tenant.kind for tenant in memory.tenants if tenant.kind != "scratch"}
    assert [name for name, kind in kinds.items() if kind == "input"] == list(graph.inputs)
    assert sum(kind == "output" for kind in kinds.values()) == len(graph.outputs)
    for tenant in memory.tenants:
        at = plan.scratch_offsets if tenant.kind == "scratch" else plan.row_offsets
        assert (tenant.at,) == at[tenant.name]


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_the_picture_is_the_same_every_time(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    memory = make_map(100, 90, STEPS, TENANTS)
    for name in ("one", "two"):
        plot_map(memory, tmp_path / f"{name}{suffix}", "three steps")
    one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
    assert one == two
    if suffix == ".svg":
        text = one.decode()
        for word in ("three steps", "0 conv2d", "peak: 100 bytes", "lower bound: 90", "output over used-up input"):
            assert word in text


def test_a_plan_of_many_steps_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    plan = solve(random_problem(3, 90))
    tenants = [Tenant(name, "tensor", at, 1, 0, 90) for name, (at,) in plan.row_offsets.items()]
    steps = [(layer.node, "op", None) for layer in plan.layers]
    plot_map(make_map(plan.arena_bytes, 0, steps, tenants), tmp_path / "m.svg", "")
    assert "steps" in (tmp_path / "m.svg").read_text()


def test_an_unknown_format_and_an_absent_folder_are_said(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra `plot`")
    memory = make_map(100, 90, STEPS, TENANTS)
    with pytest.raises(TinycError, match=r"no format for .\.gif."):
        plot_map(memory, tmp_path / "m.gif", "")
    with pytest.raises(TinycError, match="cannot be written"):
        plot_map(memory, tmp_path / "absent" / "m.svg", "")
