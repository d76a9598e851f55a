# SPDX-License-Identifier: Apache-2.0
"""reference.py: samples in, samples out, and what it says to wrong inputs. The operators have their own tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tinyc.base.errors import Loc, TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.fully_connected import FullyConnected
from tinyc.reference.interpreter import prepare_float, prepare_int, run_float, run_int

W = np.array([[1, -2, 3], [-4, 5, -6]], np.int8)
X = np.array([[[10, 20, 30]], [[-128, 127, 0]], [[-3, -3, -3]], [[1, 1, 1]]], np.int8)


def graph() -> Graph:
    """x [1,3] -> fully_connected -> h [1,2] -> clip at 0 -> y; all scales are powers of two, so exact."""
    q = Quant((0.5,), (-3,))
    values = [
        Value("x", (1, 3), "s8", q),
        Value("w", (2, 3), "s8", Quant((0.25, 0.5), (0, 0), 0)),
        Value("h", (1, 2), "s8", Quant((2.0,), (1,))),
        Value("y", (1, 2), "s8", Quant((2.0,), (1,))),
    ]
    nodes = (
        Node("fc", "fully_connected", ("x", "w"), ("h",), FullyConnected(), (Loc("m.tflite", 7, "fc"),)),
        Node("act", "clip", ("h",), ("y",), Clip(RELU)),
    )
    return Graph("m", ("x",), ("y",), nodes, {v.name: v for v in values}, {"w": read_only(W)})


def expected(x: Array) -> Array:
    """What the graph means, in real numbers: exact here but for the last rounding."""
    real = 0.5 * (x.astype(float) + 3) @ (W * np.array([[0.25], [0.5]])).T
    return np.clip(np.floor(real / 2 + 0.5) + 1, 1, 127).astype(np.int8)


def test_one_sample_and_what_is_kept() -> None:
    values = run_int(graph(), {"x": X[0]}, Numerics.OURS)
    assert list(values) == ["y"]
    assert values["y"].shape == (1, 2)
    np.testing.assert_array_equal(values["y"], expected(X[0]))
    assert list(run_int(graph(), {"x": X[0]}, Numerics.OURS, keep=["h"])) == ["y", "h"]
    assert list(run_int(graph(), {"x": X[0]}, Numerics.OURS, keep="all")) == ["x", "h", "y"]


def test_many_samples() -> None:
    program = prepare_int(graph(), Numerics.OURS)
    stacked = program({"x": X}, keep="all")
    assert {name: a.shape for name, a in stacked.items()} == {"x": (4, 1, 3), "h": (4, 1, 2), "y": (4, 1, 2)}
    flat = program({"x": X[:, 0]})
    assert flat["y"].shape == (4, 2)
    for i, x in enumerate(X):
        np.testing.assert_array_equal(stacked["y"][i], program({"x": x})["y"])
        np.testing.assert_array_equal(flat["y"][i : i + 1], program({"x": x})["y"])


def test_a_run_leaves_its_inputs_alone() -> None:
    x = X.copy()
    prepare_int(graph(), Numerics.TFLM)({"x": x}, keep="all")
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "takes inputs"),
        ({"z": X[0]}, "takes inputs"),
        ({"x": X[0], "z": X[0]}, "takes inputs"),
        ({"x": X[0, 0]}, "has shape [3], expected [1, 3]"),
        ({"x": X[None]}, "expected [1, 3]"),
        ({"x": X[:0]}, "expected [1, 3]"),
        ({"x": np.int8(3)}, "expected [1, 3]"),
        ({"x": X[0].astype(np.float32)}, "is float32, expected int8"),
        ({"x": X[0].astype(np.int32) + 500}, "values outside int8"),
    ],
)
def test_wrong_inputs(inputs: dict[str, Array], message: str) -> None:
    with pytest.raises(TinycError) as caught:
        run_int(graph(), inputs, Numerics.TFLM)
    assert message in str(caught.value)


def test_inputs_with_different_counts() -> None:
    q = Quant((1.0,), (0,))
    values = {name: Value(name, (1, 2), "s8", q) for name in "aby"}
    g = Graph("m", ("a", "b"), ("y",), (Node("add", "add", ("a", "b"), ("y",), Add()),), values)
    two, three = np.zeros((2, 1, 2), np.int8), np.zeros((3, 1, 2), np.int8)
    with pytest.raises(TinycError, match="different numbers of samples"):
        run_int(g, {"a": two, "b": three}, Numerics.TFLM)


def test_wider_integers_that_fit_are_taken() -> None:
    y = run_int(graph(), {"x": X[1].astype(np.int64)}, Numerics.OURS)["y"]
    np.testing.assert_array_equal(y, expected(X[1]))


def test_an_operator_that_cannot_be_prepared_is_named() -> None:
    g = graph()
    bad = replace(g.values["w"], quant=Quant((0.25, 0.5), (0, 1), 0))
    with pytest.raises(TinycError) as caught:
        prepare_int(replace(g, values={**g.values, "w": bad}), Numerics.TFLM)
    assert str(caught.value.where) == "m.tflite: node 7 'fc'"


def test_the_integer_graph_in_float() -> None:
    """Constants become reals; inputs and outputs are reals."""
    x = np.array([[1.0, -2.0, 0.5]], np.float32)
    w = W * np.array([[0.25], [0.5]])
    np.testing.assert_allclose(run_float(graph(), {"x": x})["y"], np.maximum(x @ w.T, 0))
    np.testing.assert_allclose(run_float(graph(), {"x": x}, keep=["h"])["h"], x @ w.T)
    assert prepare_float(graph())({"x": np.stack([x, x])})["y"].shape == (2, 1, 2)


def test_float_islands_run_in_float() -> None:
    """int8 -> dequantize -> add (float32) -> y: the add has no integers to compute in."""
    values = {
        "x": Value("x", (1, 3), "s8", Quant((0.5,), (-3,))),
        "r": Value("r", (1, 3), "f32"),
        "c": Value("c", (1, 3), "f32"),
        "y": Value("y", (1, 3), "f32"),
    }
    nodes = (
        Node("dq", "dequantize", ("x",), ("r",), Dequantize()),
        Node("add", "add", ("r", "c"), ("y",), Add()),
    )
    c = np.array([[0.125, 0.25, -1.0]], np.float32)
    g = Graph("m", ("x",), ("y",), nodes, values, {"c": read_only(c)})
    y = run_int(g, {"x": X[0]}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(y, 0.5 * (X[0].astype(np.float32) + 3) + c)


def test_an_unknown_operator_is_named() -> None:
    g = graph()
    odd = replace(g, nodes=(replace(g.nodes[0], op="warp"), g.nodes[1]))
    for prepare in (lambda: prepare_int(odd, Numerics.TFLM), lambda: prepare_float(odd)):
        with pytest.raises(TinycError, match="no operator 'warp'"):
            prepare()
