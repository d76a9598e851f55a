# SPDX-License-Identifier: Apache-2.0
"""Loop and Scan of a number of steps that is known, and If on computed data, beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.load.onnx_models import build, imported, load, op, ops_of, rand
from tinyc import build as build_library
from tinyc.base.errors import TinycError

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def body(nodes: Sequence[NodeProto], inputs: dict[str, tuple[int, Sequence[int]]], outputs: str,
         **held: np.ndarray) -> GraphProto:  # fmt: skip
    ports = [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()]
    results = [helper.make_empty_tensor_value_info(name) for name in outputs.split()]
    return helper.make_graph(nodes, "body", ports, results, [numpy_helper.from_array(a, n) for n, a in held.items()])


COUNTED = {"i": (INT64, []), "go": (BOOL, []), "h": (FLOAT, [1, 4])}


def decaying(condition: Sequence[NodeProto], **held: np.ndarray) -> ModelProto:
    """h = tanh(h W + x) in each step; the last h, and all of them."""
    nodes = [
        *condition,
        op("MatMul", "h w", "p"),
        op("Add", "p x", "q"),
        op("Tanh", "q", "next"),
        op("Mul", "next two", "row"),
    ]
    inner = body(nodes, COUNTED, "more next row", two=np.float32([2]), **held)
    loop = helper.make_node("Loop", ["count", "", "zero"], ["last", "rows"], body=inner)
    nodes = [loop, op("ReduceSum", "rows", "s", keepdims=0), op("Add", "last s", "y")]
    constants = {"w": rand(1, 4, 4), "zero": np.zeros((1, 4), np.float32), "count": np.int64(5)}
    return build(nodes, {"x": [1, 4]}, ["y"], constants)


@pytest.mark.parametrize(("limit", "steps"), [(9, 5), (3, 3)])
def test_a_loop_runs_as_often_as_it_counts(limit: int, steps: int, tmp_path: Path) -> None:
    """By its number, and by a condition that its steps compute of their own number."""
    condition = [op("Add", "i one", "after"), op("Less", "after limit", "more")]
    model = decaying(condition, one=np.int64(1), limit=np.int64(limit))
    assert ops_of(imported(model, tmp_path)).count("tanh") == steps


def test_loops_in_loops_have_names_of_their_own(tmp_path: Path) -> None:
    inner = body(
        [op("Mul", "g half", "g2"), op("Add", "g2 h", "g3"), op("Identity", "go2", "more2")],
        {"j": (INT64, []), "go2": (BOOL, []), "g": (FLOAT, [1, 4])}, "more2 g3", half=np.float32([0.5]),
    )  # fmt: skip
    outer = body(
        [helper.make_node("Loop", ["two", "", "h"], ["deep"], body=inner), op("Identity", "go", "more"),
         op("Add", "deep x", "next")],
        COUNTED, "more next", two=np.int64(2),
    )  # fmt: skip
    nodes = [helper.make_node("Loop", ["count", "", "x"], ["y"], body=outer)]
    graph = imported(build(nodes, {"x": [1, 4]}, ["y"], {"count": np.int64(3)}), tmp_path)
    assert ops_of(graph).count("add") == 9


def scanned(direction: int, axis: int, out_axis: int) -> ModelProto:
    """A running sum with a gain, over an axis of the input, in either direction; scales of a constant beside it."""
    inner = body(
        [op("Mul", "slice scale", "scaled"), op("Add", "sum scaled", "next"), op("Relu", "next", "row")],
        {"sum": (FLOAT, [3]), "slice": (FLOAT, [3]), "scale": (FLOAT, [1])}, "next row",
    )  # fmt: skip
    node = helper.make_node(
        "Scan", ["start", "x", "scales"], ["total", "rows"], body=inner, num_scan_inputs=2,
        scan_input_axes=[axis, 0], scan_input_directions=[direction, 0], scan_output_axes=[out_axis],
        scan_output_directions=[direction],
    )  # fmt: skip
    nodes = [node, op("Neg", "total", "z"), op("Neg", "rows", "y")]
    shape = [6, 3] if axis == 0 else [3, 6]
    return build(nodes, {"x": shape}, ["y", "z"], {"start": rand(1, 3), "scales": rand(2, 6, 1)})


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize(("axis", "out_axis"), [(0, 0), (1, 1), (-1, 0)])
def test_a_scan_goes_over_slices(direction: int, axis: int, out_axis: int, tmp_path: Path) -> None:
    imported(scanned(direction, axis, out_axis), tmp_path)


def either() -> ModelProto:
    def branch(nodes: Sequence[NodeProto], name: str, **held: np.ndarray) -> GraphProto:
        return body(nodes, {}, f"{name} {name}2", **held)

    then = branch([op("Mul", "x k", "a"), op("Neg", "x", "a2")], "a", k=rand(1, 1, 4))
    other = branch([op("Tanh", "x", "b"), op("Identity", "h", "b2")], "b")
    nodes = [
        op("ReduceSum", "x axes", "s", keepdims=0),
        op("Greater", "s zero", "c"),
        helper.make_node("If", ["c"], ["p", "q"], then_branch=then, else_branch=other),
        op("Add", "p q", "y"),
    ]
    constants = {"h": rand(2, 1, 4), "axes": np.int64([0, 1]), "zero": np.float32(0)}
    return build(nodes, {"x": [1, 4]}, ["y"], constants)


def test_an_if_on_data_computes_both(tmp_path: Path) -> None:
    assert ops_of(imported(either(), tmp_path)).count("choose") == 2


@pytest.mark.parametrize("precision", ["float32", "integer"])
def test_libraries_are_proved(precision: str, tmp_path: Path) -> None:
    from onnx import save  # noqa: PLC0415

    for name, model in {"scan": scanned(1, 1, 1), "if": either()}.items():
        save(model, tmp_path / f"{name}.onnx")
        shape = (8, *(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim))
        np.savez(tmp_path / "data.npz", x=rand(3, *shape))
        given = {"inputs" if precision == "float32" else "calibration": tmp_path / "data.npz"}
        library = build_library(tmp_path / f"{name}.onnx", "host", out=tmp_path / name, precision=precision, **given)
        assert library.report.passed


ENDLESS = decaying([op("Identity", "go", "more")])
ENDLESS.graph.initializer[2].CopyFrom(numpy_helper.from_array(np.int64(1000), "count"))
OF_DATA = decaying([op("ReduceSum", "h", "t", keepdims=0), op("Less", "t two", "more")])
HIDING = decaying([op("Identity", "go", "more"), op("Neg", "h", "x")])
ERRORS = {"more than 256 steps": ENDLESS, "how often it runs is computed": OF_DATA, "'x' is made twice": HIDING}


@pytest.mark.parametrize("message", ERRORS)
def test_what_cannot_be_unrolled(message: str, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=message):
        load(ERRORS[message], tmp_path)
