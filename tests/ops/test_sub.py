# SPDX-License-Identifier: Apache-2.0
"""sub: TensorFlow Lite's integers over all pairs of inputs, kernels."""

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
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Shape
from tinyc.kernel.site import RELU, Act
from tinyc.ops.sub import Sub, float_ref

# x0 scale and zero, x1 scale and zero, y scale and zero, activation, its TFLite number
SETTINGS = {
    "plain": (0.10013, 3, 0.07031, -5, 0.15171, 10, Act(), 0),
    "relu": (0.02031, 11, 0.30177, -90, 0.25119, -31, RELU, 1),
    "ties": (0.25, 7, 0.25, -3, 0.5, 1, Act(), 0),
    "saturates": (0.2, 0, 0.2, -1, 0.1, 5, Act(), 0),
}


def graph_of(setting: str, shape0: Shape, shape1: Shape) -> Graph:
    scale0, zero0, scale1, zero1, y_scale, y_zero, act, _ = SETTINGS[setting]
    inputs = [tensor("a", shape0, scale0, zero0), tensor("b", shape1, scale1, zero1)]
    return one_node("sub", Sub(act), inputs, y_scale, y_zero)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_all_pairs_are_tflites(setting, theirs):
    x0, x1 = every_pair()
    graph = graph_of(setting, x0.shape, x1.shape)
    model = as_tflite(graph, "SUB", "SubOptions", {"FusedActivationFunction": SETTINGS[setting][-1]})
    theirs(graph, model, {"a": x0, "b": x1})


@pytest.mark.parametrize("numerics", Numerics)
def test_kernels(numerics):
    x0, x1 = every_pair()
    names = check_kernels(graph_of("relu", x0.shape, x1.shape), [{"a": x0, "b": x1}], numerics)
    assert "tc_add_linear_s8" in names


def test_kernels_broadcast():
    shape0, shape1 = (1, 1, 5, 1), (3, 1, 7)
    check_kernels(graph_of("plain", shape0, shape1), [{"a": random_s8(1, shape0), "b": random_s8(2, shape1)}])


@pytest.mark.parametrize("const", ["a", "b"])
def test_kernel_with_a_constant_number(const):
    shapes = {"a": (1, 9), "b": (1, 9)} | {const: (1,)}
    inputs = [tensor("a", shapes["a"], 0.1, 3), tensor("b", shapes["b"], 0.07, -5)]
    graph = one_node("sub", Sub(), inputs, 0.12, 9, {const: np.array([77], np.int8)})
    (free,) = graph.inputs
    assert "tc_lut_s8" in check_kernels(graph, [{free: random_s8(3, shapes[free])}])


def test_float():
    x0, x1 = np.float32([[1, 2, 3]]), np.float32([[3], [2]])
    np.testing.assert_array_equal(float_ref(Sub(RELU), x0, x1)[0], [[0, 0, 0], [0, 0, 1]])
