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
from tinyc.options.build import Options, Prefer
from tinyc.passes.phases import as_convolutions
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int


def layer(
    rng: np.random.Generator,
    cut_at_most: int,
    kernel: tuple[int, int] | None = None,
    stride: Pair | None = None,
    cut: Pair | None = None,
    channels: int | None = None,
) -> Graph:
    """A layer of random sizes where none are given, with a bias, scales per channel and a fused activation."""
    in_h, in_w, in_c = (int(n) for n in rng.integers(1, 7, 3))
    in_c = channels or in_c
    out_c, k_h, k_w = (int(n) for n in rng.integers(1, 6, 3))
    k_h, k_w = kernel or (k_h, k_w)
    stride = stride or Pair(*(int(n) for n in rng.integers(1, 5, 2)))
    cut = cut or Pair(*(int(n) for n in rng.integers(0, cut_at_most + 1, 2)))
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
    rng, split, apart = np.random.default_rng(5), 0, 0
    for number in range(300):
        graph = layer(rng, 2) if number % 5 else layer(rng, 2, (3, 3), Pair(2, 2), channels=16)
        split_up = as_convolutions(graph)
        check(split_up, "phases", all_ops())
        split += split_up.nodes[0].op == "conv2d"
        apart += sum(node.op == "conv2d" for node in split_up.nodes) > 1
        x = {"x": random_s8(int(rng.integers(1000)), graph.values["x"].shape)}
        np.testing.assert_array_equal(run_int(split_up, x, numerics)["y"], run_int(graph, x, numerics)["y"])
    assert split > 100
    assert apart > 12


@pytest.mark.parametrize("name", LAYERS)
def test_equals_tflm(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(model(name))
    graph = as_convolutions(load_tflite(path))
    assert "transpose_conv2d" not in {node.op for node in graph.nodes}
    x = random_s8(2, LAYERS[name][0])
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], run_tflm(model(name), x)[0])


def weights_of(graph: Graph, op: str) -> list[np.ndarray]:
    return [graph.consts[node.inputs[1]] for node in graph.nodes if node.op == op]


def test_phases_of_as_many_taps_are_one_convolution() -> None:
    """4x4 taps, stride 2, one output cut off: a window of 3x3 for four phases; the weights grow by zeros alone."""
    rng = np.random.default_rng(2)
    graph = layer(rng, 2, (4, 4), Pair(2, 2), Pair(1, 1))
    split_up = as_convolutions(graph)
    (old,), (new,) = weights_of(graph, "transpose_conv2d"), weights_of(split_up, "conv2d")
    assert new.shape == (4 * old.shape[0], 3, 3, old.shape[3])
    assert np.array_equal(np.sort(new[new != 0]), np.sort(old[old != 0]))
    assert as_convolutions(graph, grow=False) is graph


@pytest.mark.parametrize("cut", [0, 1])
def test_phases_of_different_taps_are_convolutions_without_zeros(cut: int) -> None:
    """3x3 taps, stride 2. Of fewer channels they are one convolution."""
    given = (3, 3), Pair(2, 2), Pair(cut, cut)
    graph = layer(np.random.default_rng(2), 2, *given, channels=16)
    few = as_convolutions(layer(np.random.default_rng(2), 2, *given, channels=15))
    assert [array.shape[1:3] for array in weights_of(few, "conv2d")] == [(2, 2)]
    (old,), new = weights_of(graph, "transpose_conv2d"), weights_of(as_convolutions(graph), "conv2d")
    assert sorted(array.shape[1:3] for array in new) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert np.array_equal(np.sort(np.concatenate([array.ravel() for array in new])), np.sort(old.ravel()))
    assert as_convolutions(graph, grow=False) is graph


PREFERENCES: tuple[Prefer, ...] = ("time", "flash")


def test_on_a_board(tmp_path: Path) -> None:
    """Faster by far than as it was, and proved; with --prefer flash it stays as it was where weights would grow."""
    path = tmp_path / "model.tflite"
    path.write_bytes(model("same"))
    reports = {prefer: verify_model(path, Options("cortex-m4", prefer=prefer), Progress()) for prefer in PREFERENCES}
    assert all(report.passed for report in reports.values())
    assert reports["time"].layers[0].op == "conv2d"
    assert [layer.op for layer in reports["flash"].layers] == ["transpose_conv2d"]
    assert 2 * reports["time"].instructions < reports["flash"].instructions
