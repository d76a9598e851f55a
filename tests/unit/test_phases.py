# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as convolutions: the same integers, at every stride, cut and size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_tflm
from tests.ops.test_transpose_conv2d import LAYERS, model
from tinyc.base.numerics import Numerics
from tinyc.ir.check import check
from tinyc.ir.graph import Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import Act, Pair
from tinyc.load.tflite import load_tflite
from tinyc.ops import all_ops
from tinyc.ops.transpose_conv2d import TransposeConv2D
from tinyc.passes.phases import as_convolutions
from tinyc.pipeline import Options, Progress, verify_model
from tinyc.reference.interpreter import run_int


def layer(rng: np.random.Generator, cut_at_most: int) -> Graph:
    """A layer of random sizes, with a bias, scales per channel and a fused activation."""
    in_h, in_w, in_c = (int(n) for n in rng.integers(1, 7, 3))
    out_c, k_h, k_w = (int(n) for n in rng.integers(1, 6, 3))
    stride = Pair(*(int(n) for n in rng.integers(1, 5, 2)))
    cut = Pair(*(int(n) for n in rng.integers(0, cut_at_most + 1, 2)))
    full = ((in_h - 1) * stride.h + k_h, (in_w - 1) * stride.w + k_w)
    size = Pair(*(max(1, n - c - int(rng.integers(-2, 4))) for n, c in zip(full, cut, strict=True)))
    scales = tuple(map(float, rng.uniform(0.002, 0.02, out_c)))
    shape = (out_c, k_h, k_w, in_c)
    values = [
        Value("x", (1, in_h, in_w, in_c), "s8", Quant((0.03,), (int(rng.integers(-128, 128)),))),
        Value("w", shape, "s8", Quant(scales, (0,) * out_c, 0)),
        Value("b", (out_c,), "s32"),
        Value("y", (1, *size, out_c), "s8", Quant((0.05,), (11,))),
    ]
    consts = {
        "w": read_only(rng.integers(-127, 128, shape).astype(np.int8)),
        "b": read_only(rng.integers(-5000, 5000, out_c).astype(np.int32)),
    }
    attrs = TransposeConv2D(stride, cut, size, Act(-1.0, 2.0))
    node = Node("layer", "transpose_conv2d", ("x", "w", "b"), ("y",), attrs)
    graph = Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values}, consts)
    check(graph, "test", all_ops())
    return graph


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.ONNX])
def test_same_integers(numerics: Numerics) -> None:
    rng, split = np.random.default_rng(5), 0
    for _ in range(250):
        graph = layer(rng, 2)
        found = as_convolutions(graph)
        check(found, "phases", all_ops())
        split += found.nodes[0].op == "conv2d"
        x = {"x": random_s8(int(rng.integers(1000)), graph.values["x"].shape)}
        np.testing.assert_array_equal(run_int(found, x, numerics)["y"], run_int(graph, x, numerics)["y"])
    assert split > 100


@pytest.mark.parametrize("name", LAYERS)
def test_equals_tflm(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(model(name))
    graph = as_convolutions(load_tflite(path))
    assert "transpose_conv2d" not in {node.op for node in graph.nodes}
    x = random_s8(2, LAYERS[name][0])
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], run_tflm(model(name), x)[0])


def test_weights_grow_by_nothing_but_zeros(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(model("same"))  # 3x3 taps, stride 2: windows of 2x2 for four phases
    graph = load_tflite(path)
    (before,) = (node.inputs[1] for node in graph.nodes if node.op == "transpose_conv2d")
    found = as_convolutions(graph)
    (after,) = (node.inputs[1] for node in found.nodes if node.op == "conv2d")
    old, new = graph.consts[before], found.consts[after]
    assert new.shape == (4 * 7, 2, 2, 3)
    assert np.array_equal(np.sort(new[new != 0]), np.sort(old[old != 0]))
    assert as_convolutions(graph, grow=False) is graph


def test_on_a_board(tmp_path: Path) -> None:
    """Faster by far than as it was, and proved; with --optimize size it stays as it was where weights would grow."""
    path = tmp_path / "model.tflite"
    path.write_bytes(model("same"))
    made = {size: verify_model(path, Options("cortex-m4", optimize=size), Progress()) for size in ("speed", "size")}
    assert all(report.passed for report in made.values())
    assert made["speed"].layers[0].op == "conv2d"
    assert [layer.op for layer in made["size"].layers] == ["transpose_conv2d"]
    assert 2 * made["speed"].instructions < made["size"].instructions
