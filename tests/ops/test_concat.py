# SPDX-License-Identifier: Apache-2.0
"""concat: numpy's result in every element type, TensorFlow Lite's, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels, copying
from tests.ops.one_node import as_tflite, assert_equals_tflm, one_node, random_s8, tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Shape
from tinyc.ops.concat import Concat, float_ref
from tinyc.reference.interpreter import run_int

CASES = [
    (3, [(1, 5, 3, 7), (1, 5, 3, 1)]),
    (1, [(1, 1, 3, 5), (1, 4, 3, 5), (1, 2, 3, 5)]),
    (-2, [(3, 1, 8), (3, 2, 8)]),
    (0, [(9,)]),
    (1, [(1, k) for k in (1, 3, 5, 7, 8, 9)]),
]


def graph_of(axis: int, shapes: list[Shape], **kw) -> Graph:
    values = [tensor(f"x{k}", shape, 0.5, -3) for k, shape in enumerate(shapes)]
    return one_node("concat", Concat(axis), values, 0.5, -3, **kw)


def samples_of(shapes: list[Shape]) -> dict:
    return {f"x{k}": random_s8(k, shape) for k, shape in enumerate(shapes)}


@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_numpy(case):
    axis, shapes = case
    samples = samples_of(shapes)
    graph = graph_of(*case)
    assert check_kernels(graph, [samples]) == copying("tc_concat")
    expected = np.concatenate(list(samples.values()), axis)
    np.testing.assert_array_equal(run_int(graph, samples, Numerics.TFLM)["y"], expected)


def test_kernel_moves_wider_elements():
    values = [tensor(f"x{k}", (3, k + 1), 0.5, 0, "s16") for k in range(2)]
    graph = one_node("concat", Concat(1), values, 0.5)
    samples = {f"x{k}": random_s8(k, (3, k + 1)).astype(np.int16) * 255 for k in range(2)}
    check_kernels(graph, [samples])


def test_kernel_with_a_constant_part():
    shapes = [(1, 3), (1, 5)]
    graph = graph_of(1, shapes, consts={"x0": random_s8(7, (1, 3))})
    check_kernels(graph, [{"x1": random_s8(1, (1, 5))}])


@pytest.mark.parametrize("case", CASES[:2])
def test_equals_tflm(case):
    axis, shapes = case
    graph = graph_of(axis, shapes)
    model = as_tflite(graph, "CONCATENATION", "ConcatenationOptions", {"Axis": axis})
    assert_equals_tflm(graph, model, samples_of(shapes))


def test_float():
    parts = [np.float32([[1]]), np.float32([[2, 3]])]
    np.testing.assert_array_equal(float_ref(Concat(1), *parts)[0], np.float32([[1, 2, 3]]))


def test_errors():
    with pytest.raises(TinycError, match="does not fit"):
        graph_of(1, [(1, 3, 2), (1, 3, 3)])
    with pytest.raises(TinycError, match="axis 3"):
        graph_of(3, [(1, 3, 2)])
    values = [tensor("x0", (1, 3), 0.5), tensor("x1", (1, 3), 0.25)]
    other = one_node("concat", Concat(1), values, 0.5)
    with pytest.raises(TinycError, match="quantization"):
        run_int(other, {"x0": random_s8(0, (1, 3)), "x1": random_s8(0, (1, 3))}, Numerics.TFLM)
