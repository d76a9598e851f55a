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
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, DType, Graph, Node, Quant, Value, read_only
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
    wide: bool = False,
) -> Graph:
    """A layer of random sizes where none are given, with a bias, scales per channel and a fused activation. wide: of
    int16."""
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
    x, y = (
        ((0.0001, int(rng.integers(-99, 99))), (0.0003, 7))
        if wide
        else ((0.03, int(rng.integers(-128, 128))), (0.05, 11))
    )
    dtype: DType = "s16" if wide else "s8"
    values = [
        Value("x", (1, in_h, in_w, in_c), dtype, Quant(*((own,) for own in x))),
        Value("w", shape, "s8", Quant(scales, (0,) * out_c, 0)),
        Value("b", (out_c,), "s64" if wide else "s32"),
        Value("y", (1, *size, out_c), dtype, Quant(*((own,) for own in y))),
    ]
    consts = {
        "w": read_only(rng.integers(-127, 128, shape).astype(np.int8)),
        "b": read_only(rng.integers(-5000, 5000, out_c).astype(np.int64 if wide else np.int32)),
    }
    attrs = TransposeConv2D(stride, cut, size, Act(-1.0, 2.0))
    node = Node("layer", "transpose_conv2d", ("x", "w", "b"), ("y",), attrs)
    graph = Graph("g", ("x",), ("y",), (node,), {value.name: value for value in values}, consts)
    check(graph, "test", all_ops())
    return graph


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.ONNX])
def test_same_integers(numerics: Numerics, wide: bool) -> None:
    rng, split, apart = np.random.default_rng(5), 0, 0
    for number in range(120):
        given = layer(rng, 2, wide=wide) if number % 5 else layer(rng, 2, (3, 3), Pair(2, 2), wide=wide)
        split_up = as_convolutions(given, apart=bool(number % 2))
        check(split_up, "phases", all_ops())
        split += split_up.nodes[0].op == "conv2d"
        apart += sum(node.op == "conv2d" for node in split_up.nodes) > 1
        value = given.values["x"]
        low, high = INT_RANGE[value.dtype]
        x = {"x": rng.integers(low, high, value.shape, endpoint=True).astype(NUMPY_DTYPE[value.dtype])}
        np.testing.assert_array_equal(run_int(split_up, x, numerics)["y"], run_int(given, x, numerics)["y"])
    assert split > 40
    assert apart > 4


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


@pytest.mark.parametrize("cut", [0, 1])
def test_phases_of_different_taps_are_convolutions_without_zeros(cut: int) -> None:
    """3x3 taps, stride 2: in one convolution their window is of 2x2."""
    graph = layer(np.random.default_rng(2), 2, (3, 3), Pair(2, 2), Pair(cut, cut))
    (old,) = weights_of(graph, "transpose_conv2d")
    joined, apart = (weights_of(as_convolutions(graph, apart=own), "conv2d") for own in (False, True))
    assert [array.shape[1:3] for array in joined] == [(2, 2)]
    assert sorted(array.shape[1:3] for array in apart) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert np.array_equal(np.sort(np.concatenate([array.ravel() for array in apart])), np.sort(old.ravel()))


PREFERENCES: tuple[Prefer, ...] = ("time", "flash")


def test_on_a_board(tmp_path: Path) -> None:
    """Faster by far than as it is, and proved; what takes least flash is found, too."""
    path = tmp_path / "model.tflite"
    path.write_bytes(model("same"))
    reports = {prefer: verify_model(path, Options("cortex-m4", prefer=prefer), Progress()) for prefer in PREFERENCES}
    assert all(report.passed for report in reports.values())
    assert reports["time"].layers[0].op == "conv2d"
    assert 2 * reports["time"].instructions < reports["flash"].instructions
    time, flash = (report.flash.code_bytes + report.flash.const_bytes for report in reports.values())
    assert flash < time
