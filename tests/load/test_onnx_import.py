# SPDX-License-Identifier: Apache-2.0
"""Every ONNX operator that is imported computes what ONNX Runtime computes, also after the passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.load.onnx_models import build, imported, load, one, op, ops_of, rand, run_onnxruntime
from tinyc.base.errors import Loc
from tinyc.kernel.site import Act, Padding, Pair
from tinyc.load.onnx import load_onnx
from tinyc.reference.interpreter import run_float

F = np.float32
I64 = np.int64

CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 7, 5), (4, 3, 3, 3), {}),
    ((1, 3, 7, 5), (4, 3, 3, 3), {"pads": [1, 2, 0, 1], "strides": [2, 1]}),
    ((1, 3, 9, 8), (5, 3, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    ((1, 3, 9, 8), (5, 3, 2, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    ((1, 3, 9, 8), (5, 3, 3, 3), {"auto_pad": "VALID", "dilations": [2, 3]}),
    ((1, 1, 5, 5), (1, 1, 1, 1), {}),
    ((1, 4, 5, 3), (6, 2, 3, 3), {"group": 2, "pads": [1, 1, 1, 1]}),
    ((1, 4, 5, 3), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
    ((1, 3, 5, 3), (6, 1, 3, 1), {"group": 3, "strides": [2, 2]}),
    ((1, 3, 8), (4, 3, 3), {}),
    ((1, 3, 9), (6, 1, 3), {"group": 3, "dilations": [2], "pads": [1, 2], "strides": [2]}),
    ((1, 2, 9), (4, 2, 2), {"auto_pad": "SAME_UPPER", "strides": [4]}),
]


@pytest.mark.parametrize(("x", "w", "attributes"), CONVOLUTIONS)
@pytest.mark.parametrize("bias", [False, True])
def test_conv(tmp_path: Path, x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], bias: bool) -> None:
    constants = [rand(1, *w), *([rand(2, w[0])] if bias else [])]
    graph = imported(one("Conv", x, constants, **attributes), tmp_path)
    depthwise = attributes.get("group", 1) == x[1] > 1
    assert ("depthwise_conv2d" if depthwise else "conv2d") in ops_of(graph)


@pytest.mark.parametrize(
    ("shapes", "attributes"),
    [
        (((1, 5), (5, 3), (3,)), {}),
        (((1, 5), (3, 5), (1, 3)), {"transB": 1, "alpha": 0.5, "beta": -2.0}),
        (((4, 5), (5, 3), ()), {}),
        (((5, 4), (5, 3), (1,)), {"transA": 1}),
        (((1, 5), (5, 3)), {}),
        (((7, 5), (5, 3), (1, 3)), {}),
    ],
)
def test_gemm(tmp_path: Path, shapes: tuple[tuple[int, ...], ...], attributes: dict[str, Any]) -> None:
    x, *constants = shapes
    graph = imported(one("Gemm", x, [rand(i, *s) for i, s in enumerate(constants)], **attributes), tmp_path)
    assert "fully_connected" in ops_of(graph)


def test_gemm_with_a_computed_summand(tmp_path: Path) -> None:
    model = build(
        [op("Relu", "x", "r"), op("Gemm", "x w r", "y", beta=0.5)],
        {"x": [1, 4]},
        ["y"],
        {"w": rand(1, 4, 4)},
    )
    assert "add" in ops_of(imported(model, tmp_path))


@pytest.mark.parametrize("x", [(1, 6), (3, 6), (1, 2, 6), (1, 3, 2, 6), (6,)])
def test_matmul_constant_right(tmp_path: Path, x: tuple[int, ...]) -> None:
    imported(one("MatMul", x, [rand(1, 6, 5)]), tmp_path)
    imported(one("MatMul", x, [rand(1, 6, 1)]), tmp_path)


def test_matmul_constant_left_and_with_bias(tmp_path: Path) -> None:
    imported(one("MatMul", (6, 3), [rand(1, 5, 6)], constant_first=True), tmp_path)
    model = build(
        [op("MatMul", "x w", "m"), op("Add", "b m", "y")],
        {"x": [1, 6]},
        ["y"],
        {"w": rand(1, 6, 5), "b": rand(2, 5)},
    )
    graph = imported(model, tmp_path)
    assert ops_of(graph) == ["fully_connected"]
    np.testing.assert_array_equal(graph.consts[graph.nodes[0].inputs[2]], rand(2, 5))


POOLS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 7, 5), {"kernel_shape": [2, 3]}),
    ((1, 3, 7, 5), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 2, 7, 8), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 2, 5, 5), {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1, "pads": [0, 0, 1, 1]}),
    ((1, 2, 4, 6), {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "pads": [0, 0, 1, 1]}),
    ((1, 2, 7, 8), {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 7, 8), {"kernel_shape": [3, 3], "strides": [3, 2], "auto_pad": "SAME_LOWER"}),
    ((1, 3, 9), {"kernel_shape": [2], "strides": [2]}),
    ((1, 3, 9), {"kernel_shape": [4], "strides": [3], "pads": [1, 2]}),
]


@pytest.mark.parametrize(("x", "attributes"), POOLS)
@pytest.mark.parametrize("name", ["MaxPool", "AveragePool"])
def test_pools(tmp_path: Path, name: str, x: tuple[int, ...], attributes: dict[str, Any]) -> None:
    imported(one(name, x, opset=19, **attributes), tmp_path)


def test_average_pool_that_counts_padding(tmp_path: Path) -> None:
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}
    imported(one("AveragePool", (1, 2, 5, 4), **attributes), tmp_path)


def test_dilated_max_pool(tmp_path: Path) -> None:
    imported(one("MaxPool", (1, 2, 7, 7), kernel_shape=[2, 3], dilations=[3, 2]), tmp_path)


@pytest.mark.parametrize("name", ["GlobalAveragePool", "GlobalMaxPool"])
@pytest.mark.parametrize("x", [(1, 3, 5, 7), (1, 3, 1, 1), (1, 2, 9), (1, 3, 4, 5, 6)])
def test_global_pools(tmp_path: Path, name: str, x: tuple[int, ...]) -> None:
    imported(one(name, x), tmp_path)


@pytest.mark.parametrize("axes", [[2, 3], [-1], [1], [0, 1, 2, 3], [3, 1]])
@pytest.mark.parametrize("keep", [0, 1])
def test_reduce(tmp_path: Path, axes: list[int], keep: int) -> None:
    shape = (1, 3, 4, 5)
    imported(one("ReduceMean", shape, axes=axes, keepdims=keep), tmp_path)
    imported(one("ReduceMean", shape, [np.array(axes, I64)], opset=18, keepdims=keep), tmp_path)
    imported(one("ReduceSum", shape, [np.array(axes, I64)], keepdims=keep), tmp_path)


def test_reduce_without_axes(tmp_path: Path) -> None:
    imported(one("ReduceMean", (1, 3, 4)), tmp_path)
    imported(one("ReduceMean", (1, 3, 4), opset=18, noop_with_empty_axes=1), tmp_path)


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div"])
@pytest.mark.parametrize("constant", [(), (3, 1, 1), (1, 3, 1, 1), (5,), (1, 1, 4, 5)])
def test_arithmetic_with_a_constant(tmp_path: Path, name: str, constant: tuple[int, ...]) -> None:
    number = np.asarray(rand(1, *constant) + F(3))
    imported(one(name, (1, 3, 4, 5), [number]), tmp_path)
    if name != "Div":
        imported(one(name, (1, 3, 4, 5), [number], constant_first=True), tmp_path)


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul"])
def test_arithmetic_of_two_tensors(tmp_path: Path, name: str) -> None:
    model = build([op(name, "a b", "y")], {"a": [1, 3, 4, 5], "b": [1, 3, 1, 1]}, ["y"])
    imported(model, tmp_path)


def test_sums_negation_and_bounds(tmp_path: Path) -> None:
    imported(build([op("Sum", "a b c", "y")], {"a": [1, 5], "b": [1, 5], "c": [1, 1]}, ["y"]), tmp_path)
    imported(one("Sum", (1, 5)), tmp_path)
    imported(one("Neg", (1, 5)), tmp_path)
    imported(one("Max", (1, 5), [F(0.25)]), tmp_path)
    imported(one("Min", (1, 5), [F(0.25)], constant_first=True), tmp_path)


@pytest.mark.parametrize("name", ["Relu", "Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Identity"])
def test_activations(tmp_path: Path, name: str) -> None:
    imported(one(name, (1, 3, 4, 5)), tmp_path, scale=4.0)


def test_activation_attributes(tmp_path: Path) -> None:
    imported(one("LeakyRelu", (1, 7), alpha=0.3), tmp_path)
    imported(one("HardSigmoid", (1, 7), alpha=0.3, beta=0.1), tmp_path, scale=4.0)


@pytest.mark.parametrize(
    ("lo", "hi", "act"),
    [
        (F(0), F(6), Act(0.0, 6.0)),
        (None, F(0.5), Act(hi=0.5)),
        (F(-0.5), None, Act(-0.5)),
        (F(-3.4028235e38), F(0.5), Act(hi=0.5)),
    ],
)
def test_clip(tmp_path: Path, lo: Any, hi: Any, act: Act) -> None:
    graph = imported(one("Clip", (1, 9), [lo, hi]), tmp_path)
    assert graph.nodes[0].attrs.act == act


def test_clip_with_attributes_and_without_bounds(tmp_path: Path) -> None:
    imported(one("Clip", (1, 9), opset=7, min=-0.5, max=0.5), tmp_path)
    assert ops_of(imported(one("Clip", (1, 9)), tmp_path)) == ["reshape"]


@pytest.mark.parametrize("opset", [11, 13, 17])
@pytest.mark.parametrize("axis", [1, -1, 2, 0])
def test_softmax_of_every_opset_and_axis(tmp_path: Path, opset: int, axis: int) -> None:
    imported(one("Softmax", (1, 3, 4), opset=opset, axis=axis), tmp_path)
    imported(one("Softmax", (1, 3, 1, 1), opset=opset, axis=1), tmp_path)


def test_softmax_default_axis(tmp_path: Path) -> None:
    for opset in (11, 13):
        imported(one("Softmax", (1, 3, 4), opset=opset), tmp_path)


@pytest.mark.parametrize("x", [(1, 3), (1, 3, 4), (1, 3, 4, 5)])
@pytest.mark.parametrize("opset", [9, 14, 15])
def test_batch_normalization(tmp_path: Path, x: tuple[int, ...], opset: int) -> None:
    constants = [rand(1, 3), rand(2, 3), rand(3, 3), np.abs(rand(4, 3))]
    imported(one("BatchNormalization", x, constants, opset=opset, epsilon=1e-3), tmp_path)


RESHAPES: list[tuple[str, list[Any], int, dict[str, Any]]] = [
    ("Reshape", [np.array([0, -1], I64)], 17, {}),
    ("Reshape", [np.array([1, 5, 12], I64)], 13, {}),
    ("Flatten", [], 17, {}),
    ("Flatten", [], 13, {"axis": -1}),
    ("Flatten", [], 13, {"axis": 0}),
    ("Squeeze", [], 11, {}),
    ("Squeeze", [], 11, {"axes": [0]}),
    ("Squeeze", [np.array([0], I64)], 13, {}),
    ("Unsqueeze", [], 11, {"axes": [0, 4]}),
    ("Unsqueeze", [np.array([-1, 1], I64)], 13, {}),
    ("Transpose", [], 13, {}),
    ("Transpose", [], 13, {"perm": [0, 2, 3, 1]}),
    ("Dropout", [], 11, {}),
    ("Dropout", [F(0.5)], 13, {}),
    ("Cast", [], 13, {"to": TensorProto.FLOAT}),
    ("Expand", [np.array([1, 3, 4, 5], I64)], 13, {}),
]


@pytest.mark.parametrize(("name", "constants", "opset", "attributes"), RESHAPES)
def test_moving_operators(
    tmp_path: Path, name: str, constants: list[Any], opset: int, attributes: dict[str, Any]
) -> None:
    imported(one(name, (1, 3, 4, 5), constants, opset=opset, **attributes), tmp_path)


def test_concat_with_a_constant(tmp_path: Path) -> None:
    model = build(
        [op("Relu", "x", "r"), op("Concat", "x c r", "y", axis=-3)],
        {"x": [1, 3, 4, 5]},
        ["y"],
        {"c": rand(1, 1, 2, 4, 5)},
    )
    assert "concat" in ops_of(imported(model, tmp_path))


def test_pad_of_every_opset(tmp_path: Path) -> None:
    pads = [0, 1, 2, 0, 0, 0, 1, 3]
    imported(one("Pad", (1, 3, 4, 5), opset=10, pads=pads, value=0.5), tmp_path)
    imported(one("Pad", (1, 3, 4, 5), [np.array(pads, I64)], opset=13), tmp_path)
    imported(one("Pad", (1, 3, 4, 5), [np.array(pads, I64), F(-1)], opset=13), tmp_path)
    by_axes = [np.array([1, 2, 3, 0], I64), None, np.array([-1, 2], I64)]
    imported(one("Pad", (1, 3, 4, 5), by_axes, opset=18), tmp_path)


def test_shape_arithmetic_is_folded(tmp_path: Path) -> None:
    """x.view(x.size(0), -1) as PyTorch exports it, and a shape made of parts."""
    nodes = [
        op("Shape", "x", "shape"),
        op("Gather", "shape zero", "batch"),
        op("Unsqueeze", "batch axes", "batches"),
        op("Constant", "", "minus", value=onnx.numpy_helper.from_array(np.array([-1], I64))),
        op("Concat", "batches minus", "target", axis=0),
        op("Reshape", "x target", "flat"),
        op("Shape", "x", "tail", start=2),
        op("ReduceProd", "tail", "pixels", keepdims=1),
        op("Concat", "one three pixels", "target3", axis=0),
        op("Reshape", "flat target3", "y"),
    ]
    constants = {
        "zero": np.array(0, I64),
        "axes": np.array([0], I64),
        "one": np.array([1], I64),
        "three": np.array([3], I64),
    }
    graph = imported(build(nodes, {"x": [1, 3, 4, 5]}, ["y"], constants), tmp_path)
    assert ops_of(graph) == ["reshape"]


def test_constant_weights_are_computed_when_loading(tmp_path: Path) -> None:
    nodes = [op("Transpose", "w", "wt", perm=[1, 0]), op("Mul", "wt half", "wh"), op("MatMul", "x wh", "y")]
    constants = {"w": rand(1, 3, 5), "half": F(0.5)}
    assert ops_of(imported(build(nodes, {"x": [1, 5]}, ["y"], constants), tmp_path)) == ["fully_connected"]


def test_open_batch_becomes_one(tmp_path: Path) -> None:
    for batch in ("N", None):
        graph = load(build([op("Relu", "x", "y")], {"x": [batch, 3]}, ["y"]), tmp_path)
        assert graph.values["x"].shape == graph.values["y"].shape == (1, 3)


def test_initializers_listed_as_inputs(tmp_path: Path) -> None:
    """IR version 3 lists the weights among the inputs."""
    model = build(
        [op("MatMul", "x w", "y")], {"x": [1, 5], "w": [5, 3]}, ["y"], {"w": rand(1, 5, 3)}, opset=8, ir_version=3
    )
    assert load(model, tmp_path).inputs == ("x",)


@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_other_float_widths(tmp_path: Path, elem_type: int) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    w = rand(1, 5, 3).astype(dtype)
    model = build([op("MatMul", "x w", "y")], {"x": [1, 5]}, ["y"], {"w": w}, elem_type=elem_type)
    graph, x = load(model, tmp_path), rand(2, 1, 5).astype(dtype)
    expected = run_onnxruntime(model, {"x": x})["y"].astype(F)
    np.testing.assert_allclose(run_float(graph, {"x": x.astype(F)})["y"], expected, rtol=4e-3, atol=4e-3)


def test_unsorted_nodes_and_unused_ones(tmp_path: Path) -> None:
    """Nodes in any order are sorted; what no output needs is not even looked at."""
    nodes = [op("Relu", "m", "y"), op("NonZero", "x", "unused"), op("MatMul", "x w", "m")]
    model = build(nodes, {"x": [1, 5]}, ["y"], {"w": rand(1, 5, 3)})
    graph = load(model, tmp_path)
    assert ops_of(graph) == ["fully_connected", "clip"]


def test_several_inputs_and_outputs_keep_names_and_order(tmp_path: Path) -> None:
    model = build([op("Add", "b a", "s"), op("Relu", "s", "r")], {"b": [1, 3], "a": [1, 3]}, ["r", "s"])
    graph = imported(model, tmp_path)
    assert (graph.inputs, graph.outputs) == (("b", "a"), ("r", "s"))


def test_origins_name_the_nodes_of_the_file(tmp_path: Path) -> None:
    model = build(
        [op("Conv", "x w", "c"), op("Relu", "c", "y")], {"x": [1, 3, 5, 5]}, ["y"], {"w": rand(1, 2, 3, 3, 3)}
    )
    graph = imported(model, tmp_path)
    fused = next(node for node in graph.nodes if node.op == "conv2d")
    assert fused.origin == (
        Loc("model.onnx", 0, "Conv_c", "Conv"),
        Loc("model.onnx", 1, "Relu_y", "Relu"),
    )
    loc = graph.values[fused.outputs[0]].loc
    assert loc is not None
    assert loc.name == "y"


def test_convolution_attributes_arrive(tmp_path: Path) -> None:
    model = one("Conv", (1, 3, 9, 8), [rand(1, 4, 3, 3, 2)], strides=[2, 1], pads=[1, 0, 2, 3], dilations=[1, 2])
    conv = next(node for node in imported(model, tmp_path).nodes if node.op == "conv2d")
    assert conv.attrs.stride == Pair(2, 1)
    assert conv.attrs.pad == Padding(1, 0, 2, 3)
    assert conv.attrs.dilation == Pair(1, 2)


def test_external_data(tmp_path: Path) -> None:
    model = build([op("MatMul", "x w", "y")], {"x": [1, 50]}, ["y"], {"w": rand(1, 50, 30)})
    path = tmp_path / "model.onnx"
    onnx.save_model(
        model, path, save_as_external_data=True, location="weights.bin", size_threshold=0, convert_attribute=False
    )
    graph = load_onnx(path)
    x = rand(3, 1, 50)
    np.testing.assert_allclose(run_float(graph, {"x": x})["y"], x @ rand(1, 50, 30), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("opset", [9, 11, 12, 13])
def test_softmax_of_a_constant(tmp_path: Path, opset: int) -> None:
    """Over all axes from the second on before opset 13, over the last one since."""
    nodes = [op("Softmax", "k", "s"), op("Add", "s x", "y")]
    imported(build(nodes, {"x": [1]}, ["y"], {"k": rand(1, 1, 2, 3, 4)}, opset=opset), tmp_path)
