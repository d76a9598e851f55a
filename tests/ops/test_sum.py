# SPDX-License-Identifier: Apache-2.0
"""sum: the integers of TensorFlow Lite Micro and desktop LiteRT, the reals of ONNX Runtime's models, kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.load.tflite_models import act, numbers, single
from tests.ops.harness import check_kernels
from tests.ops.one_node import assert_equals_litert, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.tflite_builder import Operator
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops.sum import Sum
from tinyc.reference.interpreter import run_float, run_int

# x scale and zero, y scale and zero
SCALES = [(0.05, -3, 0.3, 7), (0.1, 5, 2.0, -128), (0.1, 5, 0.1, 5), (0.02, -100, 0.011, 3), (0.5, 3, 8.0, 0)]
SHAPES = {"image": ((1, 5, 7, 9), (1, 2), False), "last": ((3, 17), (1,), True), "first": ((9, 5), (0,), False)}


def graph_of(name: str, scales: tuple[float, int, float, int]) -> tuple[Graph, bytes]:
    shape, axes, keep = SHAPES[name]
    x_scale, x_zero, y_scale, y_zero = scales
    graph = one_node("sum", Sum(axes, keep), [tensor("x", shape, x_scale, x_zero)], y_scale, y_zero)
    x, y = act("x", *shape, scale=x_scale, zero=x_zero), graph.values["y"]
    tensors = [x, numbers("a", axes), act("y", *y.shape, scale=y_scale, zero=y_zero)]
    return graph, single(Operator("SUM", ("x", "a"), ("y",), "ReducerOptions", {"KeepDims": keep}), tensors)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_sums_are_theirs(name, scales, theirs):
    graph, model = graph_of(name, scales)
    for seed, smaller in enumerate((1, 3, 20)):
        theirs(graph, model, {"x": random_s8(seed, SHAPES[name][0]) // smaller})


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("numerics", list(Numerics))
def test_kernels_of_sums(name, numerics):
    graph, _ = graph_of(name, SCALES[0])
    assert "tc_mean_s8" in check_kernels(graph, [{"x": random_s8(1, SHAPES[name][0]) // 3}], numerics)


def test_sums_of_reals():
    x = np.random.default_rng(1).normal(0, 1, (3, 17)).astype(np.float32)
    graph, _ = graph_of("last", SCALES[0])
    np.testing.assert_allclose(run_float(graph, {"x": x})["y"], x.sum(1, keepdims=True), rtol=1e-5)


def test_a_sum_that_leaves_int32_is_an_error():
    graph = one_node("sum", Sum((0,)), [tensor("x", (9,), 100.0)], 1e-6)
    with pytest.raises(TinycError, match="overflow"):
        run_int(graph, {"x": random_s8(1, (9,))}, Numerics.TFLM)
