# SPDX-License-Identifier: Apache-2.0
"""broadcast, pick and gather, and the TFLite operators that become them: the integers of TensorFlow Lite, kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.tflite_models import act, numbers, single
from tests.ops.harness import check_kernels, copying
from tests.ops.one_node import one_node, random_s8, tensor
from tests.ops.runtimes import run_litert, run_tflm
from tests.ops.tflite_builder import Operator, Tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.gather import Gather
from tinyc.ops.pick import Pick
from tinyc.reference.interpreter import run_int


@pytest.mark.parametrize(
    ("shape", "wide"), [((1, 1, 3), (5, 7, 3)), ((3, 1, 5, 1), (3, 2, 5, 7)), ((9,), (2, 3, 9)), ((1, 1), (1, 1))]
)
def test_broadcasts_are_numpys(shape, wide):
    graph, x = one_node("broadcast", Broadcast(wide), [tensor("x", shape, 0.1, 7)], 0.1, 7), random_s8(1, shape)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], np.broadcast_to(x, wide))
    assert check_kernels(graph, [{"x": x}]) == copying("tc_slice")


def test_a_broadcast_to_fewer_elements_is_an_error():
    with pytest.raises(TinycError, match="repeated"):
        one_node("broadcast", Broadcast((1, 3)), [tensor("x", (5, 3), 0.1, 7)], 0.1, 7)


@pytest.mark.parametrize(("shape", "axis"), [((5, 7), 0), ((2, 5, 3), 1), ((3, 9), -1)])
@pytest.mark.parametrize("dtype", ["s8", "s16"])
def test_picks_are_numpys(shape, axis, dtype):
    attrs = Pick(axis, (3, 0, 0, 4))
    graph = one_node("pick", attrs, [tensor("x", shape, 0.1, 0, dtype)], 0.1)
    x = random_s8(1, shape).astype(np.int8 if dtype == "s8" else np.int16)
    y = run_int(graph, {"x": x}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(y, np.take(x, attrs.indices, axis))
    assert check_kernels(graph, [{"x": x}]) == copying("tc_gather")


@pytest.mark.parametrize("constant", [False, True])
def test_gathers_are_numpys_and_stay_inside(constant):
    """Indices from the end, and outside on both sides."""
    table = random_s8(1, (3, 5, 7))
    at = np.array([[4, 0, -1], [-5, 99, -99]], np.int32)
    inputs = [tensor("x", table.shape, 0.1, 7), tensor("k", at.shape, dtype="s32")]
    graph = one_node("gather", Gather(1), inputs, 0.1, 7, {"x": table} if constant else None)
    sample = {"k": at} if constant else {"x": table, "k": at}
    expected = np.take(table, np.array([[4, 0, 4], [0, 4, 0]]), axis=1)
    np.testing.assert_array_equal(run_int(graph, sample, Numerics.TFLM)["y"], expected)
    assert check_kernels(graph, [sample]) == copying("tc_gather")


def loaded(folder: Path, operator: Operator, tensors: list[Tensor]) -> tuple[Graph, bytes]:
    content = single(operator, tensors)
    path = folder / "m.tflite"
    path.write_bytes(content)
    return load_model(path), content


def assert_theirs(folder: Path, operator: Operator, tensors: list[Tensor], run=run_tflm, **given: Array) -> Graph:
    graph, content = loaded(folder, operator, tensors)
    inputs = {name: given.get(name, random_s8(3, graph.values[name].shape)) for name in graph.inputs}
    (theirs,) = run(content, *inputs.values())
    (ours,) = run_int(graph, inputs, Numerics.TFLM).values()
    np.testing.assert_array_equal(ours, theirs)
    return graph


@pytest.mark.parametrize("run", [run_tflm, run_litert])
def test_broadcast_to_and_reverse_are_theirs(tmp_path, run):
    tensors = [act("x", 3, 1, 5), numbers("s", [2, 3, 7, 5]), act("y", 2, 3, 7, 5)]
    assert_theirs(tmp_path, Operator("BROADCAST_TO", ("x", "s"), ("y",), "BroadcastToOptions", version=2), tensors, run)
    tensors = [act("x", 3, 5, 2), numbers("axes", [1]), act("y", 3, 5, 2)]
    assert_theirs(tmp_path, Operator("REVERSE_V2", ("x", "axes"), ("y",), "ReverseV2Options"), tensors, run)


@pytest.mark.parametrize(("shape", "times"), [((3, 5), (2, 3)), ((1, 4, 1, 3), (2, 1, 5, 2)), ((7,), (1,))])
def test_tiles_are_theirs(tmp_path, shape, times):
    """TensorFlow Lite Micro has none."""
    y = act("y", *(n * k for n, k in zip(shape, times, strict=True)))
    operator = Operator("TILE", ("x", "times"), ("y",), "TileOptions")
    assert_theirs(tmp_path, operator, [act("x", *shape), numbers("times", times), y], run_litert)


@pytest.mark.parametrize("run", [run_tflm, run_litert])
@pytest.mark.parametrize(("picked", "op"), [([3, 1], "slice"), ([0, 4, 1, 1], "pick"), ([[2, 0], [4, 4]], "pick")])
def test_gathers_of_constant_indices_are_theirs(tmp_path, run, picked, op):
    shape = np.array(picked).shape
    tensors = [act("x", 2, 5, 3), numbers("k", picked), act("y", 2, *shape, 3)]
    operator = Operator("GATHER", ("x", "k"), ("y",), "GatherOptions", {"Axis": 1})
    graph = assert_theirs(tmp_path, operator, tensors, run)
    assert {node.op for node in graph.nodes} == {op, "reshape"}


def test_gathers_of_computed_indices_are_theirs(tmp_path):
    at = np.array([3, 0, 3, 4], np.int32)
    tensors = [act("x", 5, 3), Tensor("k", (4,), "s32"), act("y", 4, 3)]
    operator = Operator("GATHER", ("x", "k"), ("y",), "GatherOptions", {"Axis": 0})
    for run in (run_tflm, run_litert):
        assert_theirs(tmp_path, operator, tensors, run, k=at)
    table = Tensor("x", (5, 3), "s8", (0.05,), (-3,), data=random_s8(1, (5, 3)))
    embedding = Operator("EMBEDDING_LOOKUP", ("k", "x"), ("y",))
    graph, _ = loaded(tmp_path, embedding, [table, *tensors[1:]])
    np.testing.assert_array_equal(run_int(graph, {"k": at}, Numerics.TFLM)["y"], table.data[at])


def test_indices_outside_are_refused(tmp_path):
    tensors = [act("x", 2, 5, 3), numbers("k", [5]), act("y", 2, 1, 3)]
    with pytest.raises(TinycError, match="leave axis 1"):
        loaded(tmp_path, Operator("GATHER", ("x", "k"), ("y",), "GatherOptions", {"Axis": 1}), tensors)
