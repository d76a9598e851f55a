# SPDX-License-Identifier: Apache-2.0
"""pad: numpy's result in every element type, TensorFlow Lite's, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels, copying
from tests.ops.one_node import assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Shape
from tinyc.ops.pad import Pad, float_ref
from tinyc.reference.interpreter import run_int

CASES = [
    ((1, 5, 3, 7), (0, 1, 2, 0), (0, 3, 0, 0)),
    ((1, 3, 3, 2), (0, 1, 1, 1), (0, 1, 1, 2)),
    ((2, 3, 1, 5), (1, 0, 1, 0), (0, 0, 0, 4)),
    ((9,), (2,), (0,)),
    ((3, 7), (0, 0), (0, 0)),
    ((2, 1, 3, 1, 2), (0, 1, 0, 2, 0), (1, 0, 0, 1, 0)),
]


def graph_of(shape: Shape, before: Shape, after: Shape, value: float = 0.0) -> Graph:
    return one_node("pad", Pad(before, after, value), [tensor("x", shape, 0.5, -3)], 0.5, -3)


@pytest.mark.parametrize("case", CASES)
def test_kernel_equals_numpy(case):
    shape, before, after = case
    x = random_s8(1, shape)
    graph = graph_of(*case)
    assert check_kernels(graph, [{"x": x}]) == copying("tc_pad")
    expected = np.pad(x, list(zip(before, after, strict=True)), constant_values=-3)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], expected)


@pytest.mark.parametrize(("dtype", "numpy_dtype"), [("s16", np.int16), ("s32", np.int32)])
def test_kernel_moves_wider_elements(dtype, numpy_dtype):
    shape, before, after = CASES[1]
    x = np.random.default_rng(0).integers(-30000, 30000, shape).astype(numpy_dtype)
    graph = one_node("pad", Pad(before, after, 350.0), [tensor("x", shape, 0.5, 0, dtype)], 0.5, 0, dtype=dtype)
    check_kernels(graph, [{"x": x}])
    assert run_int(graph, {"x": x}, Numerics.TFLM)["y"][0, 0, 0, 0] == 700


def test_five_padded_axes_have_no_kernel():
    graph = graph_of((2, 3, 2, 3, 2), (1, 1, 1, 1, 1), (0, 0, 0, 0, 0))
    with pytest.raises(AssertionError, match="no kernel"):
        check_kernels(graph, [{"x": random_s8(0, (2, 3, 2, 3, 2))}])


def test_pad_equals_tflm():
    shape, before, after = CASES[0]
    graph = graph_of(shape, before, after)
    widths = np.array(list(zip(before, after, strict=True)), np.int32)
    x, y = graph.values["x"], graph.values["y"]
    tensors = [
        Tensor("x", x.shape, "s8", (0.5,), (-3,)),
        Tensor("widths", widths.shape, "s32", data=widths),
        Tensor("y", y.shape, "s8", (0.5,), (-3,)),
    ]
    model = build_model(tensors, [Operator("PAD", ("x", "widths"), ("y",), "PadOptions")], ["x"], ["y"])
    assert_equals_tflm(graph, model, {"x": random_s8(3, shape)})


def test_float_pads_with_its_value():
    x = np.float32([[1, 2]])
    y = float_ref(Pad((1, 0), (0, 1), 7.5), x)[0]
    np.testing.assert_array_equal(y, np.float32([[7.5, 7.5, 7.5], [1, 2, 7.5]]))
    assert y.dtype == np.float32


def test_errors():
    with pytest.raises(TinycError, match="rank 2"):
        graph_of((3, 3), (1,), (1,))
    with pytest.raises(TinycError, match="negative"):
        graph_of((3, 3), (1, -1), (1, 0))
    changed = one_node("pad", Pad((1,), (1,)), [tensor("x", (3,), 0.5, -3)], 0.25, -3)
    with pytest.raises(TinycError, match="quantization"):
        run_int(changed, {"x": random_s8(0, (3,))}, Numerics.TFLM)
