# SPDX-License-Identifier: Apache-2.0
"""softmax: TensorFlow Lite's integers in both numerics, published models' last layers, kernels."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.ops.softmax import Softmax, float_ref
from tinyc.reference.interpreter import run_int

# depth, input scale and zero, beta
SETTINGS = [
    (1, 0.1, 3, 1.0),
    (2, 0.0039, -128, 1.0),
    (3, 0.17, 12, 0.5),
    (10, 0.2, 5, 1.0),
    (12, 0.15, 34, 1.0),
    (9, 0.001, 5, 1.0),
    (7, 40.0, 5, 1.0),
    (100, 0.02, -7, 2.0),
    (255, 0.005, 127, 1.0),
]


def graph_of(outer: int, depth: int, scale: float, zero: int, beta: float) -> Graph:
    return one_node("softmax", Softmax(beta), [tensor("x", (outer, depth), scale, zero)], 1 / 256, -128)


def rows(seed: int, outer: int, depth: int) -> Array:
    """Rows that spread over the range, rows in a narrow band, and the extreme ones."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-128, 128, (outer, depth))
    x[::2] = np.clip(rng.normal(rng.integers(-128, 128), 12, x[::2].shape), -128, 127)
    x[0], x[1] = -128, 127
    x[2] = -128
    x[2, -1] = 127
    return x.astype(np.int8)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_equals_tflite(setting, theirs):
    depth, scale, zero, beta = setting
    x = rows(depth, 99, depth)
    graph = graph_of(len(x), depth, scale, zero, beta)
    theirs(graph, as_tflite(graph, "SOFTMAX", "SoftmaxOptions", {"Beta": beta}), {"x": x})


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[4], SETTINGS[6], SETTINGS[8]])
@pytest.mark.parametrize("numerics", Numerics)
def test_kernels(setting, numerics):
    depth, scale, zero, beta = setting
    x = rows(depth, 9, depth)
    names = check_kernels(graph_of(len(x), depth, scale, zero, beta), [{"x": x}], numerics)
    fixed = ["tc_softmax_many_s8_mve", "tc_softmax_many_s8"] * (x.size >= 1024) + ["tc_softmax_s8"]
    assert names == (["tc_softmax_f32_s8"] if numerics in (Numerics.LITERT, Numerics.ONNX) else fixed)


@pytest.mark.parametrize("y_scale", [1 / 256, 1 / 255], ids=["256", "255"])
@pytest.mark.parametrize("depth", [511, 512, 1023, 1024, 2048, 4095])
def test_long_rows_of_nearly_equal_elements(depth, y_scale):
    """No share reaches half a step where 512 elements have the same one."""
    x = np.zeros((3, depth), np.int8)
    x[1, ::2] = -1
    x[2, 0] = 127
    graph = one_node("softmax", Softmax(), [tensor("x", x.shape, 0.05, 0)], y_scale, -128)
    assert len(check_kernels(graph, [{"x": x}], Numerics.OURS)) == 3
    y = run_int(graph, {"x": x}, Numerics.OURS)["y"]
    assert (y[0] == -128).all() == (2 / y_scale <= depth)


@pytest.mark.parametrize("setting", [SETTINGS[1], SETTINGS[4], SETTINGS[6], SETTINGS[8]])
def test_a_whole_one(setting):
    """At scale 1/255 the shares are those of the reals to a step, and one element that has it all is 127."""
    depth, scale, zero, beta = setting
    x = np.vstack([rows(depth, 9, depth), np.repeat(rows(depth, 9, depth), 120, axis=0)])
    graph = one_node("softmax", Softmax(beta), [tensor("x", x.shape, scale, zero)], 1 / 255, -128)
    names = check_kernels(graph, [{"x": x}], Numerics.OURS)
    assert names == ["tc_softmax_many_whole_s8_mve", "tc_softmax_many_whole_s8"] * (x.size >= 1024) + [
        "tc_softmax_whole_s8"
    ]
    y = run_int(graph, {"x": x}, Numerics.OURS)["y"]
    exact = float_ref(Softmax(beta), ((x.astype(np.float64) - zero) * scale).astype(np.float32))[0] * 255 - 128
    assert np.abs(y - exact).max() <= 0.51
    assert (y.max(axis=1) == 127).any() == (exact.max() > 126.5)


def test_every_sum_of_a_long_table():
    """Rows of all lengths in one layer's range: the roundings that two kernels do in one step or in two."""
    rng = np.random.default_rng(4)
    for scale in (0.0103, 0.31):
        x = np.clip(rng.normal(-60, 40, (300, 37)), -128, 127).astype(np.int8)
        x[::3, 5:] = -128
        check_kernels(graph_of(len(x), 37, scale, 0, 1.0), [{"x": x}], Numerics.OURS)


def test_two_in_a_row_with_the_same_maximum_share_evenly():
    graph = graph_of(1, 2, 0.1, 0, 1.0)
    for numerics in Numerics:
        y = run_int(graph, {"x": np.array([[50, 50]], np.int8)}, numerics)["y"]
        assert y.tolist() == [[0, 0]]


@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_float_equals_onnxruntime(beta):
    x = (np.random.default_rng(0).normal(0, 8, (5, 7)) / beta).astype(np.float32)
    node = helper.make_node("Softmax", ["x"], ["y"], axis=-1)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [5, 7]) for n in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", ports[:1], ports[1:]), opset_imports=[helper.make_opsetid("", 17)]
    )
    model.ir_version = 9
    onnx.checker.check_model(model)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, {"x": x * np.float32(beta)})
    np.testing.assert_allclose(float_ref(Softmax(beta), x)[0], theirs, rtol=1e-5)


def test_errors():
    x = np.zeros((1, 3), np.int8)
    other_scale = one_node("softmax", Softmax(), [tensor("x", (1, 3), 0.1)], 1 / 128, -128)
    with pytest.raises(TinycError, match="1/256"):
        run_int(other_scale, {"x": x}, Numerics.TFLM)
    with pytest.raises(TinycError, match="too small"):
        run_int(graph_of(1, 3, 1e-9, 0, 1.0), {"x": x}, Numerics.TFLM)
    with pytest.raises(TinycError, match="at most 4095"):
        run_int(graph_of(1, 4096, 0.1, 0, 1.0), {"x": np.zeros((1, 4096), np.int8)}, Numerics.TFLM)
