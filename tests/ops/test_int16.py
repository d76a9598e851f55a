# SPDX-License-Identifier: Apache-2.0
"""int16 activations: TensorFlow Lite Micro's integers in every operator that takes them, and the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_tflm, one_node, random_s16, tensor
from tests.ops.runtimes import run_tflm
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Node, Quant, Shape, Value, read_only
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.clip import Clip
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.quantize import Quantize
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.transpose_conv2d import TransposeConv2D
from tinyc.reference.interpreter import run_int

# operator, attributes, shape of x, shape of w
LAYERS: Mapping[str, tuple[str, Any, Shape, Shape]] = {
    "conv": ("conv2d", Conv2D(act=RELU), (1, 5, 6, 3), (7, 3, 3, 3)),
    "conv, strided": ("conv2d", Conv2D(Pair(2, 1)), (1, 7, 5, 5), (3, 2, 3, 5)),
    "conv, same": ("conv2d", Conv2D(pad=Padding(1, 1, 1, 1)), (1, 5, 5, 2), (4, 3, 3, 2)),
    "conv, dilated": ("conv2d", Conv2D(dilation=Pair(2, 3)), (1, 7, 9, 2), (1, 3, 3, 2)),
    "depthwise": ("depthwise_conv2d", DepthwiseConv2D(), (1, 5, 6, 3), (3, 3, 3)),
    "depthwise, two per input": ("depthwise_conv2d", DepthwiseConv2D(Pair(1, 2)), (1, 5, 7, 3), (3, 1, 6)),
    "dense": ("fully_connected", FullyConnected(), (1, 17), (9, 17)),
}
CODES = {
    "conv2d": ("CONV_2D", "Conv2DOptions"),
    "depthwise_conv2d": ("DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"),
    "fully_connected": ("FULLY_CONNECTED", "FullyConnectedOptions"),
}


def weighted(name: str, bias: str = "s64", seed: int = 0) -> Graph:
    """The layer's graph; `bias`: its dtype, or "" for none."""
    op, attrs, x_shape, w_shape = LAYERS[name]
    rng = np.random.default_rng(seed)
    axis = 2 if op == "depthwise_conv2d" else 0
    out_c = w_shape[axis]
    per_channel = op != "fully_connected"
    w_scale = tuple(map(float, rng.uniform(0.002, 0.02, out_c if per_channel else 1).astype(np.float32)))
    taps = int(np.prod(w_shape)) // out_c
    values = [
        tensor("x", x_shape, 0.0003, 0, "s16"),
        Value("w", w_shape, "s8", Quant(w_scale, (0,) * len(w_scale), axis if per_channel else None)),
    ]
    consts = {"w": read_only(rng.integers(-127, 128, w_shape).astype(np.int8))}
    if bias:
        most = 20_000 * taps * (9 if bias == "s64" else 1)
        consts["b"] = read_only(rng.integers(-most, most, out_c).astype(np.int64 if bias == "s64" else np.int32))
        values.append(Value("b", (out_c,), "s64" if bias == "s64" else "s32"))
    (kind,) = all_ops()[op].infer(attrs, *values)
    y = tensor("y", kind.shape, 0.0003 * 0.01 * 74 * float(np.sqrt(taps)) / 2, 0, "s16")
    node = Node("layer", op, tuple(v.name for v in values), ("y",), attrs)
    return Graph("one_node", ("x",), ("y",), (node,), {v.name: v for v in (*values, y)}, consts)


def weighted_tflite(graph: Graph) -> bytes:
    (node,) = graph.nodes
    a: Any = node.attrs
    code, options = CODES[node.op]
    tensors = []
    for name, value in graph.values.items():
        scale, zero = (value.quant.scale, value.quant.zero) if value.quant else ((), ())
        shape = (1, *value.shape) if name == "w" and node.op == "depthwise_conv2d" else value.shape
        axis = 3 if node.op == "depthwise_conv2d" else 0
        if name == "b":
            scale = tuple(float(np.float32(0.0003) * np.float32(s)) for s in graph.values["w"].quant.scale)
            zero = (0,) * len(scale)
        tensors.append(Tensor(name, shape, value.dtype, scale, zero, axis, graph.consts.get(name)))
    fields: dict[str, Any] = {"FusedActivationFunction": 1 if a.act == RELU else 0}
    if node.op != "fully_connected":
        fields |= {"Padding": 0 if any(a.pad) else 1, "StrideH": a.stride.h, "StrideW": a.stride.w}
        fields |= {"DilationHFactor": a.dilation.h, "DilationWFactor": a.dilation.w}
    if node.op == "depthwise_conv2d":
        fields["DepthMultiplier"] = graph.values["w"].shape[2] // graph.values["x"].shape[3]
    return build_model(tensors, [Operator(code, node.inputs, ("y",), options, fields, version=7)], ["x"], ["y"])


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("bias", ["s64", "s32"])
def test_weighted_layers_are_tflms(name: str, bias: str) -> None:
    if bias == "s32" and not name.startswith("conv"):
        pytest.skip("TensorFlow Lite Micro has no such layer")
    graph = weighted(name, bias)
    x = random_s16(1, graph.values["x"].shape)
    (theirs,) = run_tflm(weighted_tflite(graph), x)
    y = run_int(graph, {"x": x}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(y, theirs.reshape(y.shape))
    assert len(np.unique(y)) > 2


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", LAYERS)
def test_weighted_kernels(name: str) -> None:
    turn = list(LAYERS).index(name)
    bias, numerics = ("s64", "s32", "")[turn % 3], (Numerics.TFLM, Numerics.ONNX)[turn % 2]
    if name.startswith("depthwise") and numerics is Numerics.TFLM:
        bias = "s64"
    graph = weighted(name, bias)
    shape = graph.values["x"].shape
    samples = [{"x": random_s16(2, shape)}, {"x": np.full(shape, -32768, np.int16)}]
    kernels = check_kernels(graph, samples, numerics)
    fast = {"depthwise": "tc_depthwise_conv2d_s16", "depthwise, two per input": ""}.get(name, "tc_conv2d_s16")
    assert kernels == [*([f"{fast}_mve", f"{fast}_dsp"] if fast else []), "tc_conv2d_s16"]


@pytest.mark.parametrize(("name", "numerics"), [("depthwise", Numerics.TFLM), ("conv", Numerics.LITERT)])
def test_a_bias_that_the_runtime_reads_as_wider_is_refused(name: str, numerics: Numerics) -> None:
    graph = weighted(name, "s32")
    with pytest.raises(TinycError, match=f"{numerics.value} reads the bias as int64"):
        run_int(graph, {"x": random_s16(0, graph.values["x"].shape)}, numerics)


def test_an_accumulator_beyond_int32() -> None:
    graph = weighted("conv", "s32")
    wide = replace(graph, consts={**graph.consts, "b": read_only(np.full(7, 2**31 - 1, np.int32))})
    with pytest.raises(TinycError, match="beyond int32"):
        run_int(wide, {"x": random_s16(0, (1, 5, 6, 3))}, Numerics.TFLM)
    run_int(wide, {"x": random_s16(0, (1, 5, 6, 3))}, Numerics.ONNX)  # takes 64 bits by itself


def binary(op: str, attrs: Any, scales: tuple[float, float, float], shape: Shape = (1, 6, 5, 7)) -> Graph:
    inputs = [tensor(name, shape, scale, 0, "s16") for name, scale in zip("ab", scales, strict=False)]
    return one_node(op, attrs, inputs, scales[2])


BINARY = [
    ("add", Add(), (0.001, 0.0007, 0.0015), "ADD", 0),
    ("add", Add(RELU), (0.0001, 0.0009, 0.0003), "ADD", 1),
    ("sub", Sub(), (0.001, 0.0007, 0.0015), "SUB", 0),
    ("mul", Mul(), (0.0003, 0.0005, 0.002), "MUL", 0),
    ("mul", Mul(RELU6), (0.0003, 0.0005, 0.0002), "MUL", 3),
]


@pytest.mark.parametrize(("op", "attrs", "scales", "code", "act"), BINARY)
def test_sums_and_products(op: str, attrs: Any, scales: tuple[float, float, float], code: str, act: int) -> None:
    graph = binary(op, attrs, scales)
    sample = {"a": random_s16(1, (1, 6, 5, 7)), "b": random_s16(2, (1, 6, 5, 7))}
    model = as_tflite(graph, code, f"{code.capitalize()}Options", {"FusedActivationFunction": act})
    assert_equals_tflm(graph, model, sample)
    if act == 0 or op == "add":
        names = ["tc_mul_s16"] if op == "mul" else ["tc_add_s16_mve", "tc_add_s16"]
        assert check_kernels(graph, [sample]) == names


def test_zero_points_are_refused() -> None:
    inputs = [tensor("a", (3,), 0.1, 5, "s16"), tensor("b", (3,), 0.1, 0, "s16")]
    for op, attrs in (("add", Add()), ("mul", Mul())):
        with pytest.raises(TinycError, match="zero"):
            run_int(one_node(op, attrs, inputs, 1.0), {n: random_s16(0, (3,)) for n in "ab"}, Numerics.TFLM)


@pytest.mark.parametrize(
    ("op", "attrs", "kernel"), [("add", Add(), "tc_add_even_s16"), ("mul", Mul(), "tc_mul_wide_s16")]
)
def test_any_zero_points_in_onnx(op: str, attrs: Any, kernel: str) -> None:
    """The nearest integer to the reals; halves aside, which floats cannot tell."""
    zeros, scales = (700, -30000, 123), (0.003, 0.0007, 0.004 if op == "add" else 2.0)
    inputs = [tensor(n, (1, 5, 200), s, z, "s16") for n, s, z in zip("ab", scales, zeros, strict=False)]
    graph = one_node(op, Add() if op == "add" else Mul(), inputs, scales[2], zeros[2])
    sample = {"a": random_s16(1, (1, 5, 200)), "b": random_s16(2, (1, 5, 200))}
    a, b = (graph.values[n].quant.dequantize(sample[n]).astype(np.float64) for n in "ab")
    ratio = (a + b if op == "add" else a * b) / graph.values["y"].quant.scale[0]
    exact = np.clip(np.rint(ratio) + zeros[2], -32768, 32767)
    y = run_int(graph, sample, Numerics.ONNX)["y"]
    clear = np.abs(ratio - np.floor(ratio) - 0.5) > 0.01
    np.testing.assert_array_equal(y[clear], exact[clear])
    assert check_kernels(graph, [sample], Numerics.ONNX) == [kernel]


@pytest.mark.parametrize(("alpha", "y_scale"), [(0.3, 0.001), (0.01, 0.0007), (1.5, 0.004)])
def test_leaky_relu(alpha: float, y_scale: float) -> None:
    graph = one_node("leaky_relu", LeakyRelu(alpha), [tensor("x", (1, 300), 0.001, 0, "s16")], y_scale)
    sample = {"x": random_s16(3, (1, 300))}
    assert_equals_tflm(graph, as_tflite(graph, "LEAKY_RELU", "LeakyReluOptions", {"Alpha": alpha}), sample)
    if alpha == 0.3:
        assert check_kernels(graph, [sample]) == ["tc_leaky_relu_s16"]


@pytest.mark.parametrize("act", [RELU, Act(-2.0, 3.0)])
def test_clip(act: Act) -> None:
    graph = one_node("clip", Clip(act), [tensor("x", (1, 300), 0.001, 0, "s16")], 0.0013)
    sample = {"x": random_s16(3, (1, 300))}
    if act == RELU:
        assert_equals_tflm(graph, as_tflite(graph, "RELU"), sample)
    assert check_kernels(graph, [sample]) == ["tc_requantize_wide"]


WINDOW = {"Padding": 0, "StrideH": 2, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 2, "FusedActivationFunction": 0}


@pytest.mark.parametrize(("op", "code"), [("avg_pool2d", "AVERAGE_POOL_2D"), ("max_pool2d", "MAX_POOL_2D")])
def test_pools(op: str, code: str) -> None:
    attrs = (AvgPool2D if op == "avg_pool2d" else MaxPool2D)(Pair(3, 2), Pair(2, 1), Padding(1, 0, 1, 1))
    graph = one_node(op, attrs, [tensor("x", (1, 7, 5, 3), 0.001, 0, "s16")], 0.001)
    samples = [{"x": random_s16(4, (1, 7, 5, 3))}, {"x": np.full((1, 7, 5, 3), -32768, np.int16)}]
    for sample in samples:
        assert_equals_tflm(graph, as_tflite(graph, code, "Pool2DOptions", WINDOW), sample)
    assert check_kernels(graph, samples) == ["tc_pool2d_s16"]


def test_average_that_counts_padding() -> None:
    attrs = AvgPool2D(Pair(3, 3), Pair(1, 1), Padding(1, 1, 1, 1), count_pad=True)
    graph = one_node("avg_pool2d", attrs, [tensor("x", (1, 4, 5, 3), 0.001, 900, "s16")], 0.001, 900)
    assert check_kernels(graph, [{"x": random_s16(5, (1, 4, 5, 3))}]) == ["tc_pool2d_s16"]


@pytest.mark.parametrize("y_scale", [0.001, 0.0004])
def test_mean(y_scale: float) -> None:
    x = tensor("x", (1, 7, 5, 3), 0.001, 0, "s16")
    graph = one_node("mean", Mean((1, 2)), [x], y_scale)
    samples = [{"x": random_s16(6, (1, 7, 5, 3))}]
    for numerics in (Numerics.TFLM, Numerics.LITERT) if y_scale == 0.001 else ():
        assert check_kernels(graph, samples, numerics) == ["tc_mean_s16"]
    real = samples[0]["x"].mean(axis=(1, 2)) * 0.001 / y_scale
    y = run_int(graph, samples[0], Numerics.TFLM)["y"]
    assert np.abs(y - np.clip(real, -32768, 32767)).max() <= 1


@pytest.mark.parametrize(("scale", "depth"), [(0.0003, 7), (0.002, 3), (0.00001, 100), (0.1, 2)])
def test_softmax(scale: float, depth: int) -> None:
    graph = one_node("softmax", Softmax(), [tensor("x", (5, depth), scale, 0, "s16")], 1 / 32768)
    samples = [{"x": random_s16(7, (5, depth))}, {"x": np.full((5, depth), -32768, np.int16)}]
    for sample in samples:
        assert_equals_tflm(graph, as_tflite(graph, "SOFTMAX", "SoftmaxOptions", {"Beta": 1.0}), sample)
    if depth < 100:
        assert check_kernels(graph, samples) == ["tc_softmax_s16"]


def test_to_and_from_float() -> None:
    x = tensor("x", (1, 9), 0.0, 0, "f32")
    graph = one_node("quantize", Quantize("s16"), [x], 0.01, 40)
    real = np.float32([[0, 0.005, -0.005, 1.234, -400, 400, 0.015, np.nan, -0.025]])
    for numerics in (Numerics.TFLM, Numerics.LITERT):
        assert check_kernels(graph, [{"x": real}], numerics) == ["tc_quantize_f32_s16"]
    back = one_node("dequantize", Dequantize(), [tensor("x", (1, 9), 0.01, 40, "s16")])
    kernels = ["tc_dequantize_f32_mve", "tc_dequantize_s16_f32"]
    assert check_kernels(back, [{"x": random_s16(0, (1, 9))}]) == kernels


@pytest.mark.parametrize("stride", [Pair(2, 3)])
def test_transposed_convolution(stride: Pair) -> None:
    graph = weighted("conv")
    size = Pair(4 * stride.h + 3, 5 * stride.w + 3)
    attrs = TransposeConv2D(stride, Pair(0, 0), size)
    y = tensor("y", (1, *size, 7), 0.001, 0, "s16")
    values = {**graph.values, "y": y}
    nodes = (replace(graph.nodes[0], op="transpose_conv2d", attrs=attrs),)
    moved = replace(graph, values=values, nodes=nodes)
    assert check_kernels(moved, [{"x": random_s16(7, (1, 5, 6, 3))}]) == ["tc_transpose_conv2d_s16"]
