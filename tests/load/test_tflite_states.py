# SPDX-License-Identifier: Apache-2.0
"""Variables of TFLite files: resource variables, their first values, and what cannot be imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.ops.one_node import random_s8
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.export.tflite_file import Subgraph
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.reference.interpreter import prepare_int

BEGIN = random_s8(1, (1, 2, 3))


def act(name: str, *shape: int, scale: float = 0.1, data: Array | None = None) -> Tensor:
    return Tensor(name, shape, "s8", (scale,), (7,), data=data)


def handle(name: str) -> Tensor:
    return Tensor(name, (), "resource")


def var(output: str, name: str = "past") -> Operator:
    return Operator("VAR_HANDLE", (), (output,), "VarHandleOptions", {"Container": "", "SharedName": name})


def assign(to: str, value: str) -> Operator:
    return Operator("ASSIGN_VARIABLE", (to, value), (), "AssignVariableOptions")


def read(of: str, output: str) -> Operator:
    return Operator("READ_VARIABLE", (of,), (output,), "ReadVariableOptions")


ONCE = Operator("CALL_ONCE", (), (), "CallOnceOptions", {"InitSubgraphIndex": 1})
INIT = Subgraph([handle("h"), act("begin", 1, 2, 3, data=BEGIN)], [var("h"), assign("h", "begin")])
ADD = Operator("ADD", ("x", "old"), ("y",), "AddOptions", {"FusedActivationFunction": 0})
TENSORS = [handle("v"), act("x", 1, 2, 3), act("old", 1, 2, 3), act("again", 1, 2, 3), act("y", 1, 2, 3)]


def model(
    operators: Sequence[Operator], tensors: Sequence[Tensor] = TENSORS, init: Subgraph = INIT, output: str = "y"
) -> bytes:
    return build_model(tensors, operators, ("x",), (output,), others=[init])


def load(content: bytes, folder: Path) -> Graph:
    path = folder / "model.tflite"
    path.write_bytes(content)
    return load_model(path)


def assert_runs_as_tflm(content: bytes, folder: Path) -> Graph:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="needs `tflite-micro`")
    graph = load(content, folder)
    theirs = runtime.Interpreter.from_bytes(content, arena_size=100_000)
    samples = [random_s8(k, (1, 2, 3)) for k in range(5)]
    for x, ours in zip(samples, prepare_int(graph, Numerics.TFLM).sequence({"x": x} for x in samples), strict=True):
        theirs.set_input(x, 0)
        theirs.invoke()
        np.testing.assert_array_equal(ours[graph.outputs[0]], theirs.get_output(0))
    return graph


def test_a_sum_over_time(tmp_path: Path) -> None:
    graph = assert_runs_as_tflm(model([ONCE, var("v"), read("v", "old"), ADD, assign("v", "y")]), tmp_path)
    (state,) = graph.states
    assert (state.name, state.after, state.initial) == ("old", "y", BEGIN.tobytes())


def test_the_last_input_is_copied(tmp_path: Path) -> None:
    """What a variable becomes is an input: a node has to store it."""
    graph = assert_runs_as_tflm(model([ONCE, var("v"), read("v", "old"), ADD, assign("v", "x")]), tmp_path)
    assert [node.op for node in graph.nodes] == ["add", "slice"]


def test_what_is_read_after_an_assignment_is_what_was_assigned(tmp_path: Path) -> None:
    twice = Operator("ADD", ("y", "again"), ("z",), "AddOptions", {"FusedActivationFunction": 0})
    operators = [ONCE, var("v"), read("v", "old"), ADD, assign("v", "y"), read("v", "again"), twice]
    graph = assert_runs_as_tflm(model(operators, [*TENSORS, act("z", 1, 2, 3)], output="z"), tmp_path)
    assert graph.nodes[-1].inputs == ("y", "y")


def test_a_variable_that_is_never_assigned_keeps_its_beginning(tmp_path: Path) -> None:
    assert_runs_as_tflm(model([ONCE, var("v"), read("v", "old"), ADD]), tmp_path)


OTHER = Subgraph([act("a", 1, 2, 3), act("b", 1, 2, 3)], [Operator("RELU", ("a",), ("b",))])
ERRORS = {
    "nothing says what it begins with": model([var("v"), read("v", "old"), ADD, assign("v", "y")]),
    "which the file does not have": model(
        [Operator("CALL_ONCE", (), (), "CallOnceOptions", {"InitSubgraphIndex": 9}), var("v"), read("v", "old"), ADD]
    ),
    "CALL_ONCE runs RELU": model([ONCE, var("v"), read("v", "old"), ADD], init=OTHER),
    "begin with constants": model(
        [ONCE, var("v"), read("v", "old"), ADD],
        init=Subgraph([handle("h"), act("begin", 1, 2, 3)], [var("h"), assign("h", "begin")]),
    ),
    "another shape or scale": model(
        [ONCE, var("v"), read("v", "old"), ADD, assign("v", "other")],
        [*TENSORS, act("other", 1, 2, 3, data=BEGIN, scale=0.2)],
    ),
    "is no handle": model([ONCE, read("x", "old"), ADD]),
    "begins with 3 bytes": model(
        [ONCE, var("v"), read("v", "old"), ADD],
        init=Subgraph([handle("h"), act("begin", 3, data=BEGIN[0, 0])], [var("h"), assign("h", "begin")]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", ERRORS)
def test_what_cannot_be_imported(tmp_path: Path, message: str) -> None:
    with pytest.raises(TinycError, match=message):
        load(ERRORS[message], tmp_path)


def test_variables_that_two_operators_share_are_refused(tmp_path: Path) -> None:
    s16 = np.ones((2, 3), np.int16)
    tensors = [
        Tensor("x", (1, 4), "s8", (0.1,), (0,)),
        Tensor("w", (2, 4), "s8", (0.1,), (0,), data=random_s8(1, (2, 4))),
        Tensor("t", (2, 3), "s16", (0.001,), (0,), data=s16),
        Tensor("s", (1, 6), "s16", (0.01,), (0,), variable=True),
        *(Tensor(name, (1, 2), "s8", (0.1,), (-128,)) for name in "ab"),
    ]
    fields = {"Rank": 1, "FusedActivationFunction": 1}
    operators = [Operator("SVDF", ("x", "w", "t", "", "s"), (name,), "SVDFOptions", fields) for name in "ab"]
    with pytest.raises(TinycError, match="two operators"):
        load(build_model(tensors, operators, ("x",), ("a", "b")), tmp_path)


def test_float_models_with_state_are_refused_with_a_hint(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", (1, 4), "f32"),
        Tensor("w", (2, 4), "f32", data=np.ones((2, 4), np.float32)),
        Tensor("t", (2, 3), "f32", data=np.ones((2, 3), np.float32)),
        Tensor("s", (1, 6), "f32", variable=True),
        Tensor("y", (1, 2), "f32"),
    ]
    svdf = Operator("SVDF", ("x", "w", "t", "", "s"), ("y",), "SVDFOptions", {"Rank": 1})
    graph = load(build_model(tensors, [svdf], ("x",), ("y",)), tmp_path)
    runs = prepare_int(graph, Numerics.TFLM).sequence({"x": np.full((1, 4), k, np.float32)} for k in (1, 2))
    assert [run["y"].tolist() for run in runs] == [[[4, 4]], [[12, 12]]]
