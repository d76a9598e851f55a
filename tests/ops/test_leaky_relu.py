# SPDX-License-Identifier: Apache-2.0
"""leaky_relu: TensorFlow Lite's integers for every input, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tests.ops.runtimes import every_byte
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops.leaky_relu import LeakyRelu, float_ref

# input scale and zero, output scale and zero, alpha
SETTINGS = [
    (0.05, -3, 0.04, 10, 0.1),
    (0.25, 7, 0.5, -128, 0.5),
    (0.1, 0, 0.1, 0, 0.3),
    (0.1, 127, 0.07, -3, -0.2),
    (0.03, -128, 0.06, 9, 1.7),
    (0.05, 2, 0.3, 0, 0.01),  # the slope is too flat for XNNPACK
    (0.001, 2, 0.9, 0, 0.2),  # so is the whole scale
]


def graph_of(setting: tuple[float, int, float, int, float]) -> Graph:
    return one_node("leaky_relu", LeakyRelu(setting[4]), [tensor("x", (1, 256), *setting[:2])], *setting[2:4])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_every_input_is_tflites(setting, theirs):
    graph = graph_of(setting)
    model = as_tflite(graph, "LEAKY_RELU", "LeakyReluOptions", {"Alpha": setting[4]})
    theirs(graph, model, {"x": every_byte()})


@pytest.mark.parametrize("numerics", Numerics)
def test_kernel(numerics):
    assert check_kernels(graph_of(SETTINGS[0]), [{"x": every_byte()}], numerics) == ["tc_lut_s8_mve", "tc_lut_s8"]


def test_float():
    x = np.float32([-4, 0, 2])
    np.testing.assert_array_equal(float_ref(LeakyRelu(0.25), x)[0], np.float32([-1, 0, 2]))


@pytest.mark.parametrize(
    ("x_scale", "y_scale", "alpha"), [(0.00013, 0.0001, 0.3), (7e-5, 0.0002, 0.01), (3e-4, 3e-4, 0.7)]
)
def test_every_int16_is_that_of_each_runtime(x_scale, y_scale, alpha):
    """Desktop LiteRT divides the scales in float32, TensorFlow Lite Micro in double: other multipliers."""
    x = {"x": np.arange(-32768, 32768).astype(np.int16).reshape(1, -1)}
    graph = one_node("leaky_relu", LeakyRelu(alpha), [tensor("x", (1, 65536), x_scale, 0, "s16")], y_scale, 0)
    model = as_tflite(graph, "LEAKY_RELU", "LeakyReluOptions", {"Alpha": alpha})
    assert_equals_tflm(graph, model, x)
    assert_equals_litert(graph, model, x)
