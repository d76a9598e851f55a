# SPDX-License-Identifier: Apache-2.0
"""mul: TensorFlow Lite's integers over all pairs of inputs, kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import (
    as_tflite,
    assert_equals_litert,
    assert_equals_tflm,
    one_node,
    random_s8,
    tensor,
)
from tests.ops.runtimes import every_pair
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Shape
from tinyc.kernel.site import RELU, RELU6, Act
from tinyc.ops.mul import Mul, float_ref
from tinyc.reference.interpreter import run_int

# x0 scale and zero, x1 scale and zero, y scale and zero, activation, its TFLite number
SETTINGS = {
    "plain": (0.1, 3, 0.07, -5, 0.5, 10, Act(), 0),
    "relu": (0.02, 11, 0.3, -90, 0.25, -31, RELU, 1),
    "relu6": (0.05, -128, 0.03, 127, 0.06, -128, RELU6, 3),
    "ties": (0.25, 7, 0.5, -3, 2.0, 1, Act(), 0),
    "odd ties": (0.25, 7, 0.5, -3, 0.25, 1, Act(), 0),
    "saturates": (0.2, 0, 0.2, -1, 0.01, 5, Act(), 0),
    "factor above 1": (2.0, -4, 1.5, -1, 0.7, 5, Act(), 0),
    "beyond XNNPACK": (0.0001, 3, 0.0001, 4, 0.9, 5, Act(), 0),
}


def graph_of(setting: str, shape0: Shape, shape1: Shape) -> Graph:
    scale0, zero0, scale1, zero1, y_scale, y_zero, act, _ = SETTINGS[setting]
    inputs = [tensor("a", shape0, scale0, zero0), tensor("b", shape1, scale1, zero1)]
    return one_node("mul", Mul(act), inputs, y_scale, y_zero)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_all_pairs_are_tflites(setting, theirs):
    x0, x1 = every_pair()
    graph = graph_of(setting, x0.shape, x1.shape)
    model = as_tflite(graph, "MUL", "MulOptions", {"FusedActivationFunction": SETTINGS[setting][-1]})
    theirs(graph, model, {"a": x0, "b": x1})


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("setting", ["relu", "odd ties", "factor above 1"])
@pytest.mark.parametrize("numerics", Numerics)
def test_kernels(setting, numerics):
    x0, x1 = every_pair()
    names = check_kernels(graph_of(setting, x0.shape, x1.shape), [{"a": x0, "b": x1}], numerics)
    assert names[-1] == ("tc_mul_f32_s8" if numerics in (Numerics.LITERT, Numerics.ONNX) else "tc_mul_s8")


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.LITERT])
@pytest.mark.parametrize(("shape0", "shape1"), [((1, 5, 3, 7), (1, 1, 1, 7)), ((1, 3, 1, 9), (1, 1, 5, 1))])
def test_kernels_broadcast(shape0, shape1, numerics):
    sample = {"a": random_s8(1, shape0), "b": random_s8(2, shape1)}
    names = check_kernels(graph_of("plain", shape0, shape1), [sample], numerics)
    ties = numerics is Numerics.LITERT  # which it rounds to even: no linear form does
    assert ("tc_mul_s8_dsp" in names) == (not ties)


@pytest.mark.parametrize("const_shape", [(8,), (1,)])
def test_kernels_with_a_constant(const_shape):
    inputs = [tensor("a", (1, 3, 8), 0.1, 3), tensor("b", const_shape, 0.07, -5)]
    graph = one_node("mul", Mul(), inputs, 0.3, 9, {"b": random_s8(1, const_shape)})
    names = check_kernels(graph, [{"a": random_s8(2, (1, 3, 8))}])
    assert ("tc_lut_s8" in names) == (const_shape == (1,))


def test_float():
    x0, x1 = np.float32([[1, -2, 3]]), np.float32([[3], [2]])
    np.testing.assert_array_equal(float_ref(Mul(RELU6), x0, x1)[0], [[3, 0, 6], [2, 0, 6]])


def test_a_factor_that_cannot_fit_is_an_error():
    graph = one_node("mul", Mul(), [tensor("a", (3,), 100.0), tensor("b", (3,), 100.0)], 0.1)
    sample = {"a": random_s8(1, (3,)), "b": random_s8(2, (3,))}
    with pytest.raises(TinycError, match="16384"):
        run_int(graph, sample, Numerics.TFLM)
