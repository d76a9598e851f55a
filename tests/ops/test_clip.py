# SPDX-License-Identifier: Apache-2.0
"""clip and relu: TensorFlow Lite's integers for every input, with and without rescaling, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tests.ops.runtimes import every_byte
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.kernel.site import RELU, RELU6, Act
from tinyc.ops.clip import Clip, float_ref
from tinyc.reference.interpreter import run_int

SAME = [(0.05, -3), (0.047, -128), (0.3, 127), (0.00001, 9), (0.0235, 100)]
OTHER = [((0.05, -3), (0.07, 10)), ((0.25, 4), (0.5, -128)), ((0.5, 4), (0.25, 5)), ((0.03, 127), (0.001, -4))]


def graph_of(act: Act, x: tuple[float, int], y: tuple[float, int]) -> Graph:
    return one_node("clip", Clip(act), [tensor("x", (1, 256), *x)], *y)


@pytest.mark.parametrize("quant", SAME)
@pytest.mark.parametrize(
    ("code", "act", "theirs"),
    [
        ("RELU", RELU, assert_equals_tflm),
        ("RELU", RELU, assert_equals_litert),
        ("RELU6", RELU6, assert_equals_tflm),
        ("RELU6", RELU6, assert_equals_litert),
        ("RELU_N1_TO_1", Act(-1.0, 1.0), assert_equals_litert),
    ],
)
def test_one_quantization(quant, code, act, theirs):
    graph = graph_of(act, quant, quant)
    theirs(graph, as_tflite(graph, code), {"x": every_byte()})


@pytest.mark.parametrize(("x", "y"), OTHER)
@pytest.mark.parametrize(
    ("code", "act", "theirs"),
    [
        ("RELU", RELU, assert_equals_tflm),
        ("RELU", RELU, assert_equals_litert),
        ("RELU6", RELU6, assert_equals_litert),
    ],
)
def test_rescaling(x, y, code, act, theirs):
    graph = graph_of(act, x, y)
    theirs(graph, as_tflite(graph, code), {"x": every_byte()})


def test_single_rounding_differs_from_double_where_it_should():
    graph = graph_of(Act(), (0.25, 0), (1.0, 0))
    halves = np.array([[-6, -2, 2, 6] * 64], np.int8)
    assert run_int(graph, {"x": halves}, Numerics.TFLM)["y"][0, :4].tolist() == [-2, -1, 1, 2]
    assert run_int(graph, {"x": halves}, Numerics.OURS)["y"][0, :4].tolist() == [-1, 0, 1, 2]


@pytest.mark.parametrize("numerics", Numerics)
def test_kernel(numerics):
    assert check_kernels(graph_of(RELU6, *OTHER[0]), [{"x": every_byte()}], numerics) == ["tc_lut_s8_mve", "tc_lut_s8"]


def test_float():
    np.testing.assert_array_equal(float_ref(Clip(RELU6), np.float32([-1, 0.5, 7]))[0], np.float32([0, 0.5, 6]))
