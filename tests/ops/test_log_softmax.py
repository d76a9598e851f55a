# SPDX-License-Identifier: Apache-2.0
"""log_softmax: TensorFlow Lite Micro's integers, ONNX Runtime's reals, kernels."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.onnx_float import run_onnx
from tinyc.base import fixedpoint
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops.log_softmax import LogSoftmax, float_ref
from tinyc.reference.interpreter import run_int

SCALES = [0.1, 0.017, 0.5, 1.7, 0.0021]


def graph_of(shape: tuple[int, ...], scale: float, y_scale: float = 1 / 16, y_zero: int = 127) -> Graph:
    return one_node("log_softmax", LogSoftmax(), [tensor("x", shape, scale, 7)], y_scale, y_zero)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("shape", [(64, 10), (32, 2), (5, 300), (9, 1)])
def test_all_bits_are_tflms(scale, shape):
    graph = graph_of(shape, scale)
    model = as_tflite(graph, "LOG_SOFTMAX", "LogSoftmaxOptions")
    for seed, smaller in enumerate((1, 5, 40)):
        assert_equals_tflm(graph, model, {"x": random_s8(seed, shape) // smaller})


def test_logarithms_are_close():
    for x in (2**19, 2**19 + 1, 3 * 2**19, 2**30, 2**31 - 1, 777777, 123456789):
        assert abs(fixedpoint.log_of_sum(x) / 2**26 - math.log(x / 2**19)) < 2e-5


def test_reals_are_onnx_runtimes():
    x = np.random.default_rng(1).normal(0, 5, (3, 17)).astype(np.float32)
    np.testing.assert_allclose(float_ref(LogSoftmax(), x)[0], run_onnx("LogSoftmax", [x]), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 10), (3, 17), (7, 1)])
def test_kernels(shape):
    samples = [{"x": random_s8(seed, shape) // smaller} for seed, smaller in enumerate((1, 9))]
    assert check_kernels(graph_of(shape, 0.1), samples, Numerics.OURS) == ["tc_log_softmax_s8"]


def test_other_quantizations_are_refused():
    with pytest.raises(TinycError, match="scale 1/16"):
        run_int(graph_of((1, 5), 0.1, 0.1), {"x": random_s8(1, (1, 5))}, Numerics.TFLM)
    with pytest.raises(TinycError, match="tflm, single and onnx"):
        run_int(graph_of((1, 5), 0.1), {"x": random_s8(1, (1, 5))}, Numerics.LITERT)
