# SPDX-License-Identifier: Apache-2.0
"""Quantized ONNX: QDQ and QOperator models become integer graphs that compute what ONNX Runtime does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.load.onnx_models import build, load, op, rand
from tests.load.onnx_quantized import (
    compared,
    convolutional,
    dense,
    inputs,
    quantize,
    run_all_unoptimized,
    run_unoptimized,
)
from tests.ops.harness import check_kernels
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.ops.tables import quantize_linear
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int, run_int

quantization = pytest.importorskip("onnxruntime.quantization", reason="needs onnxruntime.quantization")
QDQ, QOPERATOR = quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator
S8, U8, S4 = (quantization.QuantType[name] for name in ("QInt8", "QUInt8", "QInt4"))
SETTINGS = [
    (QDQ, S8, S8, True),
    (QDQ, U8, S8, False),
    (QDQ, S8, S4, True),
    (QOPERATOR, S8, S8, True),
    (QOPERATOR, U8, S8, False),
]
INTEGER_CNN = {"conv2d", "depthwise_conv2d", "add", "mul", "max_pool2d", "concat", "requantize", "lookup", "mean"}


@pytest.mark.parametrize(("style", "activations", "weights", "per_channel"), SETTINGS)
def test_dense_network_equals_onnxruntime(
    tmp_path: Path, style: Any, activations: Any, weights: Any, per_channel: bool
) -> None:
    if style is QOPERATOR and weights is S4:
        pytest.skip("QOperator has no 4-bit weights")
    model = quantize(
        dense(), tmp_path, quant_format=style, activation_type=activations, weight_type=weights, per_channel=per_channel
    )
    graph = normalize(load(model, tmp_path))
    assert [node.op for node in graph.nodes] == ["fully_connected", "add", "mul", "fully_connected", "add"]
    count, differing, _ = compared(graph, model)
    assert (count, differing) == (216, 0)


@pytest.mark.parametrize(("style", "activations", "weights", "per_channel"), SETTINGS)
def test_convolutional_network_is_integers_throughout(
    tmp_path: Path, style: Any, activations: Any, weights: Any, per_channel: bool
) -> None:
    """Equal to ONNX Runtime. Averages in QDQ models are odd: its float sums put halves of integers anywhere."""
    model = quantize(
        convolutional(odd=style is QDQ),
        tmp_path,
        quant_format=style,
        activation_type=activations,
        weight_type=weights,
        per_channel=per_channel,
    )
    graph = normalize(load(model, tmp_path))
    ops = [node.op for node in graph.nodes]
    assert set(ops) - {"transpose", "reshape", "fully_connected", "softmax"} <= INTEGER_CNN
    assert ops.count("transpose") == 1  # of the input
    assert all(graph.values[name].dtype in ("s8", "s4", "s32") for node in graph.nodes for name in node.inputs if name)
    count, differing, _ = compared(graph, model)
    assert (count, differing) == (120, 0)


@pytest.mark.parametrize("transposed", [0, 1])
def test_a_gemm_has_a_scale_for_each_output_either_way(tmp_path: Path, transposed: int) -> None:
    """As many inputs as outputs, so that the shape does not say which axis the scales belong to."""
    w = np.random.default_rng(1).integers(-63, 64, (6, 6)).astype(np.int8)  # two products fit 16 bits on any processor
    constants = {"w": w, "sw": rand(2, 6) ** 2 / 99 + np.float32(0.001), "zw": np.zeros(6, np.int8)}
    constants |= {"sx": np.float32(0.03), "zx": np.int8(-9), "sy": np.float32(0.05), "zy": np.int8(4)}
    constants["b"] = np.arange(-300, 300, 100, np.int32)
    names = ["x", "sx", "zx", "w", "sw", "zw", "b", "sy", "zy"]
    node = helper.make_node("QGemm", names, ["y"], domain="com.microsoft", transB=transposed)
    model = build([node], {"x": [5, 6]}, ["y"], constants, elem_type=TensorProto.INT8)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    graph = normalize(load(model, tmp_path))
    for seed in range(4):
        x = np.random.default_rng(seed).integers(-128, 128, (5, 6)).astype(np.int8)
        np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.ONNX)["y"], run_unoptimized(model, {"x": x}))


@pytest.mark.parametrize("activations", [S8, U8])
def test_a_constant_beside_an_activation_equals_onnxruntime(tmp_path: Path, activations: Any) -> None:
    """The class token of a vision transformer, joined to the patches: rounded to the scale of what they become."""
    nodes = [op("MatMul", "x w", "p"), op("Concat", "token p", "c", axis=1), op("MatMul", "c v", "y")]
    constants = {"w": rand(1, 5, 8), "token": 3 * rand(2, 1, 1, 8), "v": rand(3, 8, 4)}
    model = build(nodes, {"x": [1, 6, 5]}, ["y"], constants)
    model = quantize(model, tmp_path, quant_format=QDQ, activation_type=activations, weight_type=S8)
    graph = normalize(load(model, tmp_path))
    assert {node.op for node in graph.nodes} <= {"fully_connected", "concat", "requantize", "reshape"}
    count, differing, _ = compared(graph, model)
    assert (count, differing) == (672, 0)


LEFT = {
    "LayerNormalization": ("n", {"g": rand(2, 8), "b": rand(3, 8)}, {"axis": -1}),
    "LSTM": ("h", {"g": rand(2, 1, 24, 8) / 3, "b": rand(3, 1, 24, 6) / 3}, {"hidden_size": 6}),
    "GRU": (
        "h",
        {"g": rand(2, 1, 18, 8) / 3, "b": rand(3, 1, 18, 6) / 3},
        {"hidden_size": 6, "linear_before_reset": 1},
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_the_quantizer_leaves_in_float_equals_onnxruntime(tmp_path: Path, name: str) -> None:
    """Between DequantizeLinear and QuantizeLinear, without data for scales of its own."""
    y, constants, attributes = LEFT[name]
    outputs = "n" if y == "n" else "- h"
    nodes = [op("MatMul", "x w", "p"), op(name, "p g b", outputs, **attributes), op("MatMul", f"{y} v", "y")]
    held = {**constants, "w": rand(1, 5, 8), "v": rand(4, 8 if y == "n" else 6, 4)}
    model = build(nodes, {"x": [7, 1, 5]}, ["y"], held)
    model = quantize(model, tmp_path, quant_format=QDQ, activation_type=S8, weight_type=S8)
    graph = normalize(load(model, tmp_path))
    assert {graph.values[node.outputs[0]].dtype for node in graph.nodes} == {"s8", "f32"}
    _, differing, _ = compared(graph, model)
    assert differing == 0


FLOAT_ENDS = {  # nodes around integers, of "x" and "p", which are float, and floats that they give out
    "the last": ([op("MatMul", "x w", "p"), op("Erf", "p", "e"), op("Exp", "e", "y")], {"y": 0.0}),
    "the last, an activation": ([op("MatMul", "x w", "p"), op("Relu", "p", "y")], {"y": 0.0}),
    "the first": ([op("Erf", "x", "e"), op("MatMul", "e w", "y")], {}),
    "states": (
        [
            op("MatMul", "x w", "p"),
            op("LSTM", "p g b - - h c", "- last cell", hidden_size=6),
            op("MatMul", "last v", "y"),
        ],
        {"last": 1e-6, "cell": 1e-6},
    ),
}


@pytest.mark.parametrize("name", FLOAT_ENDS)
def test_floats_at_the_ends_of_a_quantized_file_equal_onnxruntimes(tmp_path: Path, name: str) -> None:
    """What stands between an input or output of the model and the integers is computed in float, as the file has it."""
    nodes, floats = FLOAT_ENDS[name]
    constants = {"w": rand(1, 5, 8), "v": rand(4, 6, 4), **LEFT["LSTM"][1]}
    given = {"x": [7, 1, 5]} | ({"h": [1, 1, 6], "c": [1, 1, 6]} if "h" in nodes[1].input else {})
    used = {name for node in nodes for name in node.input}
    model = build(nodes, given, ["y", *(floats.keys() - {"y"})], {k: v for k, v in constants.items() if k in used})
    model = quantize(
        model, tmp_path, quant_format=QDQ, activation_type=S8, weight_type=S8, op_types_to_quantize=["MatMul"]
    )
    graph = normalize(load(model, tmp_path))
    assert {graph.values[node.outputs[0]].dtype for node in graph.nodes} == {"s8", "f32"}
    program = prepare_int(graph, Numerics.ONNX)
    for feed in inputs(model, seed=5):
        outputs = program(_as_taken(graph, feed))
        for output, theirs in run_all_unoptimized(model, feed).items():
            value = graph.values[output]
            ours = outputs[output] if value.quant is None else value.quant.dequantize(outputs[output])
            limit = floats.get(output, 0.0)
            np.testing.assert_allclose(ours.reshape(theirs.shape), theirs, rtol=limit or 2e-6, atol=limit)


def _as_taken(graph: Graph, feed: Mapping[str, Array]) -> dict[str, Array]:
    """The floats, or the integers of the inputs that the graph takes so."""
    taken = {}
    for name, real in feed.items():
        x = graph.values[name]
        taken[name] = real.reshape(x.shape) if x.quant is None else quantize_linear(real, x).astype(np.int8)
    return taken


def test_averages_differ_from_onnxruntime_at_halves_only(tmp_path: Path) -> None:
    """Where four numbers have an average half-way between integers, its float sum decides; elsewhere all are exact."""
    model = unary("AveragePool", (0.037, -5), (0.037, -5), kernel_shape=[2, 2], strides=[2, 2])
    del model.graph.input[0].type.tensor_type.shape.dim[:]
    for size in (1, 2, 24, 16):
        model.graph.input[0].type.tensor_type.shape.dim.add().dim_value = size
    x = np.random.default_rng(3).integers(-128, 128, (1, 2, 24, 16)).astype(np.int8)
    quarters = x.astype(int).reshape(1, 2, 12, 2, 8, 2).sum(axis=(3, 5))
    y = run_int(normalize(load(model, tmp_path)), {"x": x}, Numerics.ONNX)["y"].astype(int)
    theirs = run_unoptimized(model, {"x": x}).astype(int)
    clear = quarters % 4 != 2
    for outputs in (y, theirs):
        np.testing.assert_array_equal(outputs[clear], np.rint(quarters[clear] / 4))
        assert (np.abs(4 * outputs - quarters)[~clear] == 2).all()
    assert np.count_nonzero(~clear) > 20


def unary(
    name: str, x: tuple[float, int], y: tuple[float, int], kind: type = np.int8, **attributes: Any
) -> onnx.ModelProto:
    """Integers in, integers out: x -> DequantizeLinear -> the operator -> QuantizeLinear -> y."""
    nodes = [
        op("DequantizeLinear", "x sx zx", "a"),
        op(name, "a", "b", **attributes),
        op("QuantizeLinear", "b sy zy", "y"),
    ]
    constants = {"sx": np.float32(x[0]), "zx": kind(x[1]), "sy": np.float32(y[0]), "zy": kind(y[1])}
    elem = TensorProto.UINT8 if kind is np.uint8 else TensorProto.INT8
    return build(nodes, {"x": [1, 256]}, ["y"], constants, elem_type=elem)


def every_byte(kind: type) -> Array:
    return np.arange(256, dtype=np.uint8).view(kind).reshape(1, 256)


@pytest.mark.parametrize(
    "name", ["Sigmoid", "Tanh", "LeakyRelu", "HardSwish", "HardSigmoid", "Relu", "Neg", "Identity"]
)
@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_functions_of_a_byte_equal_onnxruntime(tmp_path: Path, name: str, kind: type) -> None:
    zero = 128 if kind is np.uint8 else 0
    model = unary(name, (0.031, zero + 7), (0.0231, zero - 11), kind)
    graph = load(model, tmp_path)
    x = every_byte(kind)
    assert graph.values["x"].dtype == graph.values["y"].dtype == ("u8" if kind is np.uint8 else "s8")
    y = run_int(normalize(graph), {"x": x}, Numerics.ONNX)["y"]
    np.testing.assert_array_equal(y, run_unoptimized(model, {"x": x}))


def test_a_chain_of_float_operators_is_one_table(tmp_path: Path) -> None:
    nodes = [
        op("DequantizeLinear", "x s z", "a"),
        op("Sigmoid", "a", "b"),
        op("Mul", "a b", "c"),
        op("Add", "c k", "d"),
        op("QuantizeLinear", "d s z", "y"),
    ]
    constants = {"s": np.float32(0.05), "z": np.int8(-3), "k": np.float32(0.25)}
    model = build(nodes, {"x": [1, 256]}, ["y"], constants, elem_type=TensorProto.INT8)
    graph = normalize(load(model, tmp_path))
    assert [node.op for node in graph.nodes] == ["lookup"]
    x = every_byte(np.int8)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.ONNX)["y"], run_unoptimized(model, {"x": x}))


def weights_model(weights: Array, scale: Array, zero: Array, **attributes: Any) -> onnx.ModelProto:
    """A matrix product whose weights go through DequantizeLinear and Transpose."""
    nodes = [
        op("DequantizeLinear", "x sx zx", "a"),
        op("DequantizeLinear", "w sw zw", "wf", **attributes),
        op("Transpose", "wf", "wt", perm=[1, 0]),
        op("MatMul", "a wt", "m"),
        op("QuantizeLinear", "m sy zy", "y"),
    ]
    constants = {"sx": np.float32(0.02), "zx": np.int8(4), "w": weights, "sw": scale, "zw": zero}
    constants |= {"sy": np.float32(0.05), "zy": np.int8(-1)}
    return build(
        nodes, {"x": [1, weights.shape[1]]}, ["y"], constants, opset=21, ir_version=10, elem_type=TensorProto.INT8
    )


@pytest.mark.parametrize(
    ("kind", "zero", "held"),
    [(np.int8, 0, "s8"), (np.int8, 3, "s8"), (np.uint8, 130, "s8")],
)
def test_weights_stay_the_integers_that_they_are(tmp_path: Path, kind: type, zero: int, held: str) -> None:
    rng = np.random.default_rng(0)
    real = rng.integers(-120, 121, (5, 9))
    scale = rng.uniform(0.01, 0.02, 5).astype(np.float32)
    model = weights_model((real + zero).astype(kind), scale, np.full(5, zero, kind), axis=0)
    graph = normalize(load(model, tmp_path))
    (node,) = graph.nodes
    w = graph.values[node.inputs[1]]
    assert (w.dtype, w.shape) == (held, (5, 9))
    assert w.quant is not None
    assert w.quant.axis == 0
    np.testing.assert_array_equal(graph.consts[w.name], real)
    x = rng.integers(-128, 128, (1, 9)).astype(np.int8)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.ONNX)["y"], run_unoptimized(model, {"x": x}))


@pytest.mark.parametrize(("number", "least"), [(TensorProto.INT4, -8), (TensorProto.UINT4, 0)])
def test_four_bit_weights(tmp_path: Path, number: int, least: int) -> None:
    rng = np.random.default_rng(1)
    ints = rng.integers(least, least + 16, (5, 9))
    zero = least + 8
    model = weights_model(ints.astype(np.int8), np.float32([0.03]), np.int8([0]))
    packed = np.append(ints.ravel() & 15, 0).astype(np.uint8)
    for tensor in model.graph.initializer:
        if tensor.name == "w":
            tensor.CopyFrom(
                helper.make_tensor("w", number, [5, 9], (packed[0::2] | packed[1::2] << 4).tobytes(), raw=True)
            )
        if tensor.name in ("sw", "zw"):
            del tensor.dims[:]
        if tensor.name == "zw":
            tensor.CopyFrom(helper.make_tensor("zw", number, [], bytes([zero & 15]), raw=True))
    graph = normalize(load(model, tmp_path))
    w = graph.nodes[0].inputs[1]
    assert graph.values[w].dtype == "s4"
    np.testing.assert_array_equal(graph.consts[w], ints - zero)
    x = rng.integers(-128, 128, (1, 9)).astype(np.int8)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.ONNX)["y"], run_unoptimized(model, {"x": x}))


def test_activations_between_layer_and_quantization(tmp_path: Path) -> None:
    """Conv, Relu, QuantizeLinear: nothing may stand between the image operators, which work on NHWC."""
    nodes = [
        op("DequantizeLinear", "x sx zx", "a"),
        op("DequantizeLinear", "w sw zw", "wf"),
        op("Conv", "a wf", "c"),
        op("Relu", "c", "r"),
        op("Clip", "r - six", "k"),
        op("QuantizeLinear", "k sy zy", "y"),
    ]
    w = np.random.default_rng(1).integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    constants = {"sx": np.float32(0.03), "zx": np.int8(1), "w": w, "sw": np.float32(0.01), "zw": np.int8(0)}
    constants |= {"six": np.float32(6), "sy": np.float32(0.03), "zy": np.int8(-100)}
    model = build(nodes, {"x": [1, 3, 6, 7]}, ["y"], constants, elem_type=TensorProto.INT8)
    graph = normalize(load(model, tmp_path))
    assert [node.op for node in graph.nodes] == ["transpose", "conv2d", "transpose"]
    assert graph.nodes[1].attrs.act == (0.0, 6.0)
    x = np.random.default_rng(2).integers(-128, 128, (1, 3, 6, 7)).astype(np.int8)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.ONNX)["y"], run_unoptimized(model, {"x": x}))


def test_batch_norm_behind_integer_weights(tmp_path: Path) -> None:
    """The factors go into the scales, whatever their signs; the integers stay."""
    nodes = [
        op("DequantizeLinear", "x sx zx", "a"),
        op("DequantizeLinear", "w sw zw", "wf"),
        op("Conv", "a wf b", "c"),
        op("BatchNormalization", "c gamma beta mean variance", "n"),
        op("QuantizeLinear", "n sy zy", "y"),
    ]
    rng = np.random.default_rng(1)
    w = rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    constants = {"sx": np.float32(0.03), "zx": np.int8(1), "w": w, "sw": np.float32(0.01), "zw": np.int8(0)}
    constants |= {"b": rand(2, 4), "gamma": np.float32([1.5, -0.5, 2, -1]), "beta": rand(3, 4), "mean": rand(4, 4)}
    constants |= {"variance": np.float32([1, 2, 3, 0.5]), "sy": np.float32(0.05), "zy": np.int8(3)}
    model = build(nodes, {"x": [1, 3, 6, 7]}, ["y"], constants, elem_type=TensorProto.INT8)
    graph = normalize(load(model, tmp_path))
    assert [node.op for node in graph.nodes] == ["transpose", "conv2d", "transpose"]
    held = graph.consts[graph.nodes[1].inputs[1]].transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(held, w * np.int8([1, -1, 1, -1]).reshape(4, 1, 1, 1))
    x = rng.integers(-128, 128, (1, 3, 6, 7)).astype(np.int8)
    y = run_int(graph, {"x": x}, Numerics.ONNX)["y"].astype(int)
    difference = np.abs(y - run_unoptimized(model, {"x": x}))
    assert difference.max() <= 1  # ONNX Runtime rounds to float32 after each operator
    assert np.count_nonzero(difference) <= 2


def test_fake_quantized_weights_of_training(tmp_path: Path) -> None:
    """QuantizeLinear and DequantizeLinear on float weights, as quantization-aware training exports them."""
    w = rand(3, 4, 6)
    nodes = [
        op("QuantizeLinear", "x sx zx", "q"),
        op("DequantizeLinear", "q sx zx", "a"),
        op("QuantizeLinear", "w sw zw", "wq", axis=0),
        op("DequantizeLinear", "wq sw zw", "wf", axis=0),
        op("Gemm", "a wf b", "m", transB=1),
        op("QuantizeLinear", "m sy zy", "yq"),
        op("DequantizeLinear", "yq sy zy", "y"),
    ]
    constants = {
        "sx": np.float32(0.03),
        "zx": np.int8(1),
        "w": w,
        "b": rand(4, 4),
        "sy": np.float32(0.07),
        "zy": np.int8(2),
    }
    constants |= {"sw": (np.abs(w).max(axis=1) / 127).astype(np.float32), "zw": np.zeros(4, np.int8)}
    graph = normalize(load(build(nodes, {"x": [1, 6]}, ["y"], constants), tmp_path))
    assert [node.op for node in graph.nodes] == ["fully_connected"]
    assert {graph.values[name].dtype for name in (*graph.inputs, *graph.outputs)} == {"s8"}


def test_softmax_without_quantization_behind_it_gets_its_own(tmp_path: Path) -> None:
    nodes = [op("DequantizeLinear", "x s z", "a"), op("Softmax", "a", "y")]
    model = build(nodes, {"x": [1, 6]}, ["y"], {"s": np.float32(0.1), "z": np.int8(0)}, elem_type=TensorProto.INT8)
    graph = load(model, tmp_path)
    assert [node.op for node in graph.nodes] == ["softmax"]
    assert graph.values["y"].quant is not None
    assert graph.values["y"].quant.per_tensor == (1 / 256, -128)


@pytest.mark.parametrize(
    ("nodes", "constants", "message"),
    [
        ([op("QuantizeLinear", "x s z", "q"), op("DequantizeLinear", "q s z", "a"), op("Conv", "a w", "y")],
         {"w": rand(1, 4, 3, 1, 1)}, "conv2d stays in float"),
        ([op("DynamicQuantizeLinear", "x", "q s2 z2"), op("DequantizeLinear", "q s z", "y")], {}, "another scale"),
        ([op("QuantizeLinear", "x s3 z3", "q"), op("DequantizeLinear", "q s3 z3", "y")],
         {"s3": np.float32([1, 2, 3]), "z3": np.int8([0, 0, 0])}, "3 scales of computed values"),
        ([op("QuantizeLinear", "x s z", "q"), op("DequantizeLinear", "q s3 z", "y")],
         {"s3": np.float32(0.7)}, "another scale"),
        ([op("QuantizeLinear", "x s z", "q"), op("Add", "q q", "y")], {}, "Add of integers"),
    ],
)  # fmt: skip
def test_what_is_said_of_models_that_cannot_be_taken(
    tmp_path: Path, nodes: list[Any], constants: dict[str, Any], message: str
) -> None:
    held = {"s": np.float32(0.1), "z": np.int8(0), **constants}
    with pytest.raises(TinycError, match=message) as caught:
        load(build(nodes, {"x": [1, 3, 5, 5]}, ["y"], held), tmp_path)
    assert caught.value.hint or "scales" in message


def test_weights_with_a_zero_point_beyond_int8_become_int16(tmp_path: Path) -> None:
    weights = np.array([[0, 255, 3], [250, 7, 0]], np.uint8)
    model = weights_model(weights, np.float32([0.01, 0.02]), np.uint8([3, 200]), axis=0)
    graph = normalize(load(model, tmp_path))
    w = graph.nodes[0].inputs[1]
    assert graph.values[w].dtype == "s16"
    np.testing.assert_array_equal(graph.consts[w], [[-3, 252, 0], [50, -193, -200]])
    samples = [{"x": np.random.default_rng(k).integers(-128, 128, (1, 3)).astype(np.int8)} for k in range(5)]
    for sample in samples:
        np.testing.assert_array_equal(run_int(graph, sample, Numerics.ONNX)["y"], run_unoptimized(model, sample))
    assert check_kernels(graph, samples, Numerics.ONNX)[-1] == "tc_conv2d_s8_w16"
