# SPDX-License-Identifier: Apache-2.0
"""uint8 TFLite: held as int8, uint8 at the ports, desktop LiteRT's bytes also with zero points of the weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.ops.runtimes import run_litert
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array
from tinyc.load.tflite import load_tflite
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_int

WINDOW = {"Padding": 0, "DilationHFactor": 1, "DilationWFactor": 1, "FusedActivationFunction": 1}


def u8(name: str, shape: tuple[int, ...], scale: float, zero: int, data: Array | None = None) -> Tensor:
    return Tensor(name, shape, "u8", (scale,), (zero,), data=data)


def network(seed: int) -> bytes:
    """A convolution, a depthwise one, a dense layer, softmax; weights over all of uint8."""
    rng = np.random.default_rng(seed)

    def weights(name: str, shape: tuple[int, ...], scale: float, zero: int) -> Tensor:
        return u8(name, shape, scale, zero, rng.integers(0, 256, shape).astype(np.uint8))

    bias = Tensor("b", (8,), "s32", (0.0002,), (0,), data=rng.integers(-3000, 3000, 8).astype(np.int32))
    tensors = [
        u8("x", (1, 9, 9, 4), 0.02, 120),
        weights("w", (8, 3, 3, 4), 0.01, 113),
        bias,
        u8("c", (1, 9, 9, 8), 0.05, 20),
        weights("dw", (1, 3, 3, 8), 0.004, 140),
        u8("d", (1, 5, 5, 8), 0.04, 90),
        weights("fw", (5, 200), 0.001, 121),
        u8("f", (1, 5), 0.02, 131),
        u8("y", (1, 5), 1 / 256, 0),
    ]
    operators = [
        Operator("CONV_2D", ("x", "w", "b"), ("c",), "Conv2DOptions", {**WINDOW, "StrideH": 1, "StrideW": 1}, 3),
        Operator(
            "DEPTHWISE_CONV_2D",
            ("c", "dw", "b"),
            ("d",),
            "DepthwiseConv2DOptions",
            {**WINDOW, "StrideH": 2, "StrideW": 2, "DepthMultiplier": 1},
            3,
        ),
        Operator("FULLY_CONNECTED", ("d", "fw", ""), ("f",), "FullyConnectedOptions", {}, 4),
        Operator("SOFTMAX", ("f",), ("y",), "SoftmaxOptions", {"Beta": 1.0}, 2),
    ]
    return build_model(tensors, operators, ["x"], ["y", "d"])


@pytest.mark.parametrize("seed", range(3))
def test_network_equals_litert(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(network(seed))
    graph = normalize(load_tflite(path))
    assert {graph.values[name].dtype for name in (*graph.inputs, *graph.outputs)} == {"u8"}
    assert [node.op for node in graph.nodes].count("requantize") == 3  # one bit at each port
    x = np.random.default_rng(seed + 100).integers(0, 256, (1, 9, 9, 4)).astype(np.uint8)
    outputs = run_int(graph, {"x": x}, Numerics.LITERT)
    for name, theirs in zip(("y", "d"), run_litert(path.read_bytes(), x), strict=True):
        np.testing.assert_array_equal(outputs[name], theirs)
    assert len(np.unique(outputs["d"])) > 20
    w = next(node for node in graph.nodes if node.op == "conv2d").inputs[1]
    assert graph.values[w].dtype == "s16"


def test_weights_that_fit_int8_stay_small(tmp_path: Path) -> None:
    data = np.array([[1, 128, 255], [100, 90, 200]], np.uint8)
    tensors = [u8("x", (1, 3), 0.1, 7), u8("w", (2, 3), 0.02, 128, data), u8("y", (1, 2), 0.3, 3)]
    operator = Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions", {}, 4)
    path = tmp_path / "model.tflite"
    path.write_bytes(build_model(tensors, [operator], ["x"], ["y"]))
    graph = load_tflite(path)
    assert graph.values["w"].dtype == "s8"
    np.testing.assert_array_equal(graph.consts["w"], data.astype(int) - 128)


POOLS = {  # rows, columns, window, stride, SAME or VALID
    "2x2": (8, 8, 2, 2, 1),
    "3x3, edges of 4 and 6 taps": (7, 7, 3, 2, 0),
    "the whole image": (4, 4, 4, 4, 1),
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("act", [0, 1])
def test_average_pools_equal_litert(tmp_path: Path, name: str, act: int) -> None:
    """Halves go up, below the zero point too, where int8 averages go away from zero."""
    high, wide, window, stride, padding = POOLS[name]
    options = {"FilterHeight": window, "FilterWidth": window, "StrideH": stride, "StrideW": stride}
    size = (high - window) // stride + 1 if padding else -(-high // stride)
    tensors = [u8("x", (1, high, wide, 64), 0.05, 100), u8("y", (1, size, size, 64), 0.05, 100)]
    more = {"Padding": padding, "FusedActivationFunction": act}
    pool = Operator("AVERAGE_POOL_2D", ("x",), ("y",), "Pool2DOptions", {**options, **more})
    path = tmp_path / "model.tflite"
    path.write_bytes(build_model(tensors, [pool], ["x"], ["y"]))
    x = np.random.default_rng(1).integers(0, 256, (1, high, wide, 64)).astype(np.uint8)
    (theirs,) = run_litert(path.read_bytes(), x)
    for numerics in (Numerics.LITERT, Numerics.TFLM):
        np.testing.assert_array_equal(run_int(normalize(load_tflite(path)), {"x": x}, numerics)["y"], theirs)


@pytest.mark.parametrize("scale", [(), (1.0,)])
def test_pixels_become_floats(tmp_path: Path, scale: tuple[float, ...]) -> None:
    """As files begin whose input is a camera's picture: uint8 that stands for itself, CAST, and a quantization."""
    tensors = [
        Tensor("x", (1, 4, 4, 3), "u8", scale, (0,) * len(scale)),
        Tensor("f", (1, 4, 4, 3), "f32"),
        Tensor("y", (1, 4, 4, 3), "s8", (1.7,), (-70,)),
    ]
    operators = [Operator("CAST", ("x",), ("f",), "CastOptions"), Operator("QUANTIZE", ("f",), ("y",))]
    content = build_model(tensors, operators, ["x"], ["y"])
    path = tmp_path / "model.tflite"
    path.write_bytes(content)
    x = np.random.default_rng(5).integers(0, 256, (1, 4, 4, 3)).astype(np.uint8)
    outputs = run_int(normalize(load_tflite(path)), {"x": x}, Numerics.TFLM)
    np.testing.assert_array_equal(outputs["y"], run_litert(content, x)[0])


def test_messages_say_what_the_file_says(tmp_path: Path) -> None:
    """uint8, though the graph holds it as int8."""
    path = tmp_path / "model.tflite"
    tensors = [u8("x", (1, 3), 0.1, 7), Tensor("y", (1, 3), "s32")]
    path.write_bytes(build_model(tensors, [Operator("CAST", ("x",), ("y",), "CastOptions")], ["x"], ["y"]))
    with pytest.raises(TinycError, match="CAST from uint8 to int32"):
        load_tflite(path)
