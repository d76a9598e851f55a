# SPDX-License-Identifier: Apache-2.0
"""From a graph and its kernels to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tests.unit.plan_problems import random_problem
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.choose.select import Choice, select
from tinyc.ir.graph import DType, Graph, Node, Shape, Value, read_only
from tinyc.kernel.kernel import Call, Cost, In, Kernel, Offer, Once, Out, Rows
from tinyc.kernel.site import Site
from tinyc.load import load_model
from tinyc.plan import Freedom, Plan, plan_graph, solve, whole_problem


def picked(
    inplace: tuple[int, ...] = (), scratch: int = 0, rows: Rows | None = None, flow: Rows | None = None
) -> Choice:
    """A kernel choice that needs no operator to work."""
    call = Call((In(0), Out()), rows=rows, flow=flow)
    offer = Offer(scratch, None, Once(lambda: call))
    kernel = Kernel("tc_test", lambda site, params: offer, inplace=inplace)
    return Choice(cast(Site, None), None, kernel, offer, Cost(0, 0, scratch))


def graph(nodes: list[tuple[str, str, list[str], str]], shapes: Mapping[str, Shape], **dtypes: DType) -> Graph:
    """Nodes (name, op, inputs, output); values that no node makes and that start with c are constants."""
    outputs = {output for *_, output in nodes}
    consts = {name: read_only(np.zeros(shape, np.int8)) for name, shape in shapes.items() if name[0] == "c"}
    return Graph(
        "g",
        tuple(name for name in shapes if name not in outputs and name not in consts),
        (nodes[-1][3],),
        tuple(Node(name, op, tuple(inputs), (output,), None) for name, op, inputs, output in nodes),
        {name: Value(name, shape, dtypes.get(name, "s8")) for name, shape in shapes.items()},
        consts,
    )


CHAIN = graph(
    [
        ("first", "conv2d", ["x", "c_w"], "a"),
        ("flatten", "reshape", ["a"], "b"),
        ("again", "reshape", ["b"], "c2"),
        ("act", "sigmoid", ["c2"], "d"),
        ("last", "fully_connected", ["d", "c_v"], "y"),
    ],
    {"x": (1, 4, 4, 2), "c_w": (9,), "c_v": (5,), "a": (1, 4, 4, 3), "b": (1, 48), "c2": (48,), "d": (48,), "y": (5,)},
)
CHAIN = replace(CHAIN, consts={k: v for k, v in CHAIN.consts.items() if k != "c2"})
CHOICES = {"first": picked(scratch=10), "act": picked(inplace=(0,)), "last": picked()}


def test_a_chain_with_views_and_in_place() -> None:
    plan = plan_graph(CHAIN, CHOICES)
    assert [layer.node for layer in plan.layers] == ["first", "act", "last"]
    assert not plan.bottom_up
    assert not plan.runs_by_rows
    assert plan.offset("a") == plan.offset("b") == plan.offset("c2") == plan.offset("d")
    assert (plan.arena_bytes, plan.lower_bound_bytes, plan.gap_bytes, plan.optimal) == (90, 90, 0, True)
    assert plan.arena_align == 16
    assert plan.scratch_offsets["first"][0] % 16 == 0
    lives = {(one.what, one.kind): (one.size, one.born, one.dies) for one in plan.allocations}
    assert lives == {
        ("x", "tensor"): (32, 0, 1),
        ("a", "tensor"): (48, 0, 2),
        ("d", "tensor"): (48, 1, 3),
        ("y", "tensor"): (5, 2, 3),
        ("first", "scratch"): (10, 0, 1),
    }
    for name in ("c_w", "c_v"):
        with pytest.raises(KeyError):
            plan.offset(name)


def test_the_bytes_of_an_input_are_used_again_and_those_of_an_output_are_not() -> None:
    g = graph([("a", "tanh", ["x"], "y"), ("b", "tanh", ["y"], "z")], {"x": (40,), "y": (40,), "z": (40,)})
    choices = {"a": picked(inplace=(0,)), "b": picked(inplace=(0,))}
    assert plan_graph(g, choices).arena_bytes == 40
    assert plan_graph(replace(g, outputs=("z", "y")), choices).arena_bytes == 80
    assert plan_graph(replace(g, outputs=("z", "x", "y")), choices).arena_bytes == 120


@pytest.mark.parametrize(
    ("shapes", "dtypes", "allowed"),
    [
        ({"p": (8, 4), "q": (8, 4), "y": (8, 4)}, {}, ("p", "q")),
        ({"p": (8, 4), "q": (4,), "y": (8, 4)}, {}, ("p",)),  # q is broadcast: read again after it is overwritten
        ({"p": (8, 1), "q": (1, 4), "y": (8, 4)}, {}, ()),
        ({"p": (8, 4), "q": (8, 4), "y": (8, 4)}, {"p": "f32"}, ("p", "q")),  # narrower output
        ({"p": (8, 4), "q": (8, 4), "y": (8, 4)}, {"y": "s16"}, ()),  # wider output
        ({"p": (8, 4), "cq": (8, 4), "y": (8, 4)}, {}, ("p",)),
        ({"p": (1, 8, 4), "q": (4, 8), "y": (8, 4)}, {}, ("p",)),
    ],
)
def test_which_inputs_the_output_may_replace(shapes: Any, dtypes: Any, allowed: tuple[str, ...]) -> None:
    names = [name for name in shapes if name != "y"]
    g = graph([("add", "add", names, "y")], shapes, **dtypes)
    (task,) = whole_problem(g, {"add": picked(inplace=(0, 1))}).layers
    assert task.whole.inplace == allowed


def test_a_tensor_read_twice_is_replaced_only_if_both_reads_allow_it() -> None:
    g = graph([("v", "reshape", ["x"], "v"), ("add", "add", ["x", "v"], "y")], {"x": (4,), "v": (4,), "y": (4,)})
    for inplace, allowed in (((0, 1), ("x",)), ((0,), ()), ((1,), ())):
        (task,) = whole_problem(g, {"add": picked(inplace=inplace)}).layers
        assert (task.node, task.reads, task.writes, task.whole.inplace) == ("add", ("x",), ("y",), allowed)


def test_rows_slide_only_when_asked() -> None:
    rows = Rows(5, 5, 3, 1, 1, 1, 16, 16, None)
    g = graph([("conv", "conv2d", ["x", "c_w"], "y")], {"x": (1, 5, 4, 4), "c_w": (9,), "y": (1, 5, 4, 4)})
    choices = {"conv": picked(rows=rows)}
    assert plan_graph(g, choices).arena_bytes == 160
    plan = plan_graph(g, choices, slide=True)
    assert plan.arena_bytes == plan.lower_bound_bytes == 112
    assert plan.offset("y") - plan.offset("x") == (32 if plan.bottom_up else -32)


def test_directions_alternate() -> None:
    rows = Rows(5, 5, 3, 1, 1, 1, 16, 16, None)
    names = ["x", "a", "b", "y"]
    g = graph(
        [(f"conv_{to}", "conv2d", [of], to) for of, to in pairwise(names)],
        dict.fromkeys(names, (1, 5, 4, 4)),
    )
    plan = plan_graph(g, {node.name: picked(rows=rows) for node in g.nodes}, slide=True)
    assert plan.arena_bytes == plan.lower_bound_bytes == 112
    assert plan.bottom_up in ({1}, {0, 2})


def test_a_kernel_that_walks_by_itself_goes_forward() -> None:
    flow = Rows(10, 10, 1, 1, 0, 1, 4, 4, None, 2, buffered=True)
    g = graph([("a", "conv2d", ["x"], "a"), ("b", "conv2d", ["a"], "y")], dict.fromkeys("xay", (1, 10, 1, 4)))
    plan = plan_graph(g, {"a": picked(flow=flow), "b": picked(flow=flow)}, slide=True)
    assert plan.arena_bytes == 40
    assert not plan.bottom_up


def test_rows_that_do_not_cover_the_tensors_do_not_slide() -> None:
    rows = Rows(4, 5, 3, 1, 1, 1, 16, 16, None)
    g = graph([("conv", "conv2d", ["x", "c_w"], "y")], {"x": (1, 5, 4, 4), "c_w": (9,), "y": (1, 5, 4, 4)})
    assert plan_graph(g, {"conv": picked(rows=rows)}, slide=True).arena_bytes == 160


def test_rows_do_not_slide_over_an_input_that_is_read_twice() -> None:
    rows = Rows(5, 5, 3, 1, 1, 1, 16, 16, None)
    g = graph([("conv", "conv2d", ["x", "x"], "y")], {"x": (1, 5, 4, 4), "y": (1, 5, 4, 4)})
    assert plan_graph(g, {"conv": picked(rows=rows)}, slide=True).arena_bytes == 160


@pytest.mark.parametrize("output", ["c_k", "v"])
def test_a_constant_output_is_refused(output: str) -> None:
    shapes = {"x": (4,), "c_k": (4,), "v": (4,), "y": (4,)}
    g = graph([("v", "reshape", ["c_k"], "v"), ("a", "tanh", ["x"], "y")], shapes)
    with pytest.raises(TinycError, match=f"output '{output}' of the model is a constant"):
        plan_graph(replace(g, outputs=("y", output)), {"a": picked()})


def test_an_input_that_nobody_reads_has_a_place_of_its_own_before_the_run() -> None:
    g = graph([("a", "tanh", ["x"], "y")], {"x": (8,), "unused": (20,), "y": (24,)})
    plan = plan_graph(g, {"a": picked()})
    assert plan.arena_bytes == plan.lower_bound_bytes == 32


def test_a_model_that_only_reshapes() -> None:
    g = graph([("v", "reshape", ["x"], "y")], {"x": (2, 4), "y": (8,)})
    plan = plan_graph(g, {})
    assert (plan.turns, plan.arena_bytes, plan.offset("y")) == ((), 8, 0)


@pytest.mark.parametrize("align", [1, 4, 8, 16])
def test_alignment(align: int) -> None:
    g = graph([("a", "tanh", ["x", "z"], "y")], {"x": (3,), "z": (5,), "y": (7,)})
    plan = solve(whole_problem(g, {"a": picked(scratch=9)}, Freedom(unit=align, scratch_unit=32)))
    assert all(plan.offset(name) % align == 0 for name in "xyz")
    assert plan.scratch_offsets["a"][0] % 32 == 0
    assert plan.arena_align == 32


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("seed", range(20))
def test_same_plan_every_time(seed: int) -> None:
    problem = random_problem(seed, 12, width=5)
    assert solve(problem) == solve(problem)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "gap"), [(4, 0.02), (20, 0.05)])
def test_a_thousand_nodes(width: int, gap: float) -> None:
    plan = solve(random_problem(1, 1000, width, largest=400))
    assert plan.gap_bytes <= gap * plan.lower_bound_bytes


MLPERF = {"kws": (16000, 8640), "vww": (55296, 37248), "ic": (49152, 33792), "ad": (768, 768), "sww": (6656, 3712)}


def mlperf_plan(models: Path, name: str, slide: bool, isa: frozenset[str] = frozenset()) -> Plan:
    loaded = load_model(models / "mlperf_tiny" / f"{name}_int8.tflite")
    # The portable kernels of these need no scratch.
    weighted = ("conv2d", "depthwise_conv2d", "fully_connected")
    nodes = [node for node in loaded.nodes if node.op in weighted and not isa]
    portable = {node.name: f"tc_{node.op}_s8" for node in nodes}
    return plan_graph(loaded, select(loaded, isa, Numerics.TFLM, portable), slide=slide)


@pytest.mark.parametrize("slide", [False, True])
@pytest.mark.parametrize("name", MLPERF)
def test_mlperf_models_take_what_was_proved_to_be_the_least(models_dir: Path, name: str, slide: bool) -> None:
    """Without scratch: layer by layer, and with input and output of a layer overlapping by rows."""
    plan = mlperf_plan(models_dir, name, slide)
    assert plan.arena_bytes == plan.lower_bound_bytes == MLPERF[name][slide]
    assert plan.optimal


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", MLPERF)
def test_mlperf_models_on_a_dsp_core_come_near_their_lower_bound(models_dir: Path, name: str) -> None:
    """With the scratch of the DSP kernels, whose places are aligned to 16."""
    plan = mlperf_plan(models_dir, name, True, frozenset({"dsp"}))
    assert plan.gap_bytes <= 0.02 * plan.lower_bound_bytes
