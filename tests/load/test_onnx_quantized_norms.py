# SPDX-License-Identifier: Apache-2.0
"""Sums, norms, choices and repetitions between DequantizeLinear and QuantizeLinear: ONNX Runtime's integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto

from tests.load.onnx_models import build, load, op, rand
from tests.load.onnx_quantized import run_unoptimized
from tests.load.test_onnx_moves import ints
from tests.ops.one_node import random_s8
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import Graph
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

F = np.float32
SHAPE = [3, 8]


def island(nodes: list[NodeProto], constants: dict[str, Any], scale: float, zero: int) -> onnx.ModelProto:
    """x int8 -> reals `r` -> nodes -> `f` -> y int8."""
    return build(
        [op("DequantizeLinear", "x s z", "r"), *nodes, op("QuantizeLinear", "f s1 z1", "y")],
        {"x": SHAPE},
        ["y"],
        {"s": F(0.1), "z": np.int8(7), "s1": F(scale), "z1": np.int8(zero), **constants},
        elem_type=TensorProto.INT8,
    )


MASK = np.arange(8) % 3 > 0
# nodes, their constants, scale and zero point of the output, the operators that are left, steps that may differ
ISLANDS: dict[str, tuple[list[NodeProto], dict[str, Any], float, int, set[str], int]] = {
    "sum": ([op("ReduceSum", "r a", "f")], {"a": ints(1)}, 0.7, -3, {"sum"}, 0),
    "tile": ([op("Tile", "r t", "f")], {"t": ints(1, 2)}, 0.1, 7, {"broadcast", "reshape"}, 0),
    "gather": ([op("Gather", "r k", "f", axis=1)], {"k": ints(7, 0, 0, 3)}, 0.1, 7, {"pick"}, 0),
    "where": ([op("Where", "m r k", "f")], {"m": MASK, "k": F(-1.3)}, 0.1, 7, {"choose"}, 0),
    "where, turned": ([op("Where", "m k r", "f")], {"m": MASK, "k": F(2)}, 0.1, 7, {"choose"}, 0),
    "threshold": (
        [op("Greater", "r t", "c"), op("Where", "c r t", "f")],
        {"t": F(1)},
        0.1,
        7,
        {"choose", "compare"},
        0,
    ),
    "l2": ([op("LpNormalization", "r", "f")], {}, 1 / 100, -3, {"l2_normalize", "requantize"}, 1),
    "log_softmax": ([op("LogSoftmax", "r", "f")], {}, 0.06, 127, {"log_softmax", "requantize"}, 1),
}


def bytes_of(graph: Graph, x: np.ndarray) -> np.ndarray:
    return run_int(graph, {"x": x}, Numerics.ONNX)["y"].astype(np.int64)


@pytest.mark.parametrize("name", ISLANDS)
def test_islands_equal_onnxruntime(tmp_path: Path, name: str) -> None:
    nodes, constants, scale, zero, left, steps = ISLANDS[name]
    model = island(nodes, constants, scale, zero)
    graph = normalize(load(model, tmp_path))
    assert {node.op for node in graph.nodes} == left
    for seed in range(5):
        x = random_s8(seed, tuple(SHAPE))
        theirs = run_unoptimized(model, {"x": x}).astype(np.int64)
        assert np.abs(bytes_of(graph, x) - theirs).max() <= steps


@pytest.mark.parametrize("name", ["LogSoftmax", "LpNormalization"])
def test_the_last_operator_gets_its_own_scale(tmp_path: Path, name: str) -> None:
    nodes = [op("DequantizeLinear", "x s z", "r"), op(name, "r", "y")]
    model = build(nodes, {"x": SHAPE}, ["y"], {"s": F(0.1), "z": np.int8(7)}, elem_type=TensorProto.INT8)
    graph = load(model, tmp_path)
    quant = graph.values["y"].quant
    assert quant is not None
    x = random_s8(1, tuple(SHAPE))
    real = quant.dequantize(bytes_of(graph, x).astype(np.int8))
    theirs = run_unoptimized(model, {"x": x})
    least = -255 * quant.scale[0] if name == "LogSoftmax" else -1
    np.testing.assert_allclose(real, np.maximum(theirs, least), atol=1.01 * quant.scale[0])


IMAGE = [1, 4, 6, 6]
NUMBERS = rand(3, 4, 1, 1)
FINER: dict[str, tuple[NodeProto, dict[str, Any], list[int]]] = {
    "average": (op("AveragePool", "r", "f", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), {}, IMAGE),
    "resize": (op("Resize", "r - k", "f", mode="linear"), {"k": F([1, 1, 2, 2])}, IMAGE),
    "norm": (op("LpNormalization", "r", "f"), {}, SHAPE),
    "product": (op("Mul", "r k", "f"), {"k": NUMBERS}, IMAGE),
    "sum": (op("Add", "r k", "f"), {"k": NUMBERS}, IMAGE),
}


@pytest.mark.parametrize("name", FINER)
def test_nothing_is_rounded_before_the_last_quantization(tmp_path: Path, name: str) -> None:
    """An output with finer steps than the input, which were the input's before: many were one number."""
    node, constants, shape = FINER[name]
    nodes = [op("DequantizeLinear", "x s z", "r"), node, op("QuantizeLinear", "f s1 z1", "y")]
    scales = {"s": F(0.1), "z": np.int8(5), "s1": F(1 / 256 if name != "norm" else 1 / 300), "z1": np.int8(-9)}
    model = build(nodes, {"x": shape}, ["y"], {**scales, **constants}, elem_type=TensorProto.INT8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    integers = make_integers(tmp_path / "m.onnx", load_board("host"), Options("host"), Progress())
    for seed in range(3):
        x = random_s8(seed, tuple(shape))
        given = x.transpose(integers.perms["x"]) if "x" in integers.perms else x
        np.testing.assert_array_equal(bytes_of(integers.graph, given), run_unoptimized(model, {"x": x}))


def test_numbers_that_integers_hold_stay_integers(tmp_path: Path) -> None:
    model = island([op("Mul", "r k", "f")], {"k": F([0.5, -2, 1, 0, 0.25, 3, 1.5, -0.75])}, 0.2, 3)
    graph = normalize(load(model, tmp_path))
    assert [node.op for node in graph.nodes] == ["mul"]
    x = random_s8(1, tuple(SHAPE))
    np.testing.assert_array_equal(bytes_of(graph, x), run_unoptimized(model, {"x": x}))


def test_a_table_is_looked_up_in_integers(tmp_path: Path) -> None:
    table = rand(1, 8, 5)
    steps = np.clip(np.rint(table / F(0.02)), -128, 127).astype(np.int8)
    nodes = [
        op("DequantizeLinear", "x s z", "r"),
        op("ArgMax", "r", "i", axis=1, keepdims=0),
        op("DequantizeLinear", "t s1 z", "d"),
        op("Gather", "d i", "g", axis=0),
        op("QuantizeLinear", "g s1 z", "y"),
    ]
    constants = {"s": F(0.1), "z": np.int8(0), "s1": F(0.02), "t": steps}
    model = build(nodes, {"x": SHAPE}, ["y"], constants, elem_type=TensorProto.INT8)
    graph = normalize(load(model, tmp_path))
    assert [node.op for node in graph.nodes] == ["argmax", "gather"]
    x = random_s8(1, tuple(SHAPE))
    np.testing.assert_array_equal(bytes_of(graph, x), run_unoptimized(model, {"x": x}))


def test_a_log_softmax_beyond_its_range_stays_in_float(tmp_path: Path) -> None:
    model = island([op("LogSoftmax", "r", "f")], {}, 0.1, 127)
    graph = load(model, tmp_path)
    assert [node.op for node in graph.nodes] == ["dequantize", "log_softmax", "quantize"]
    x = random_s8(3, tuple(SHAPE))
    np.testing.assert_array_equal(bytes_of(graph, x), run_unoptimized(model, {"x": x}))
