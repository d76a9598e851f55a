# SPDX-License-Identifier: Apache-2.0
"""dequantize: TensorFlow Lite's floats for every input, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tests.ops.runtimes import every_byte
from tinyc.ir.graph import Graph
from tinyc.ops.dequantize import Dequantize, float_ref

QUANTS = [(0.25, -3), (0.047, 127), (0.0039215689, -128), (3.7, 12)]


def graph_of(scale: float, zero: int) -> Graph:
    return one_node("dequantize", Dequantize(), [tensor("x", (1, 256), scale, zero)])


@pytest.mark.parametrize(("scale", "zero"), QUANTS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_equals_tflite(scale, zero, theirs):
    graph = graph_of(scale, zero)
    theirs(graph, as_tflite(graph, "DEQUANTIZE", "DequantizeOptions"), {"x": every_byte()})


@pytest.mark.parametrize(("scale", "zero"), QUANTS)
def test_kernel(scale, zero):
    assert check_kernels(graph_of(scale, zero), [{"x": every_byte()}]) == [
        "tc_dequantize_f32_mve",
        "tc_dequantize_s8_f32",
    ]


def test_float():
    np.testing.assert_array_equal(float_ref(Dequantize(), np.float32([1.5]))[0], np.float32([1.5]))
