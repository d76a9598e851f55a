# SPDX-License-Identifier: Apache-2.0
"""quantize: TensorFlow Lite's integers, halves and infinities included, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.ops.quantize import Quantize, float_ref
from tinyc.reference.interpreter import run_int

QUANTS = [(0.25, -3), (1.0, 0), (0.047, 127), (0.0039215689, -128), (3.7, 12), (1 / 3, -1)]


def graph_of(scale: float, zero: int, dtype: str = "s8") -> Graph:
    return one_node("quantize", Quantize(dtype), [tensor("x", (1, 777), dtype="f32")], scale, zero)


def reals(scale: float) -> Array:
    """All half steps, their neighbours in float32, and random numbers beyond the range."""
    halves = (np.arange(-200, 200) / 2 * scale).astype(np.float32)
    random = (np.random.default_rng(2).normal(0, 90, 777) * scale).astype(np.float32)
    random[:400] = halves
    random[400:500] = np.nextafter(halves[150:250], np.float32(9e9))
    random[500:600] = np.nextafter(halves[150:250], np.float32(-9e9))
    return random.reshape(1, 777)


@pytest.mark.parametrize(("scale", "zero"), QUANTS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_equals_tflite(scale, zero, theirs):
    graph = graph_of(scale, zero)
    theirs(graph, as_tflite(graph, "QUANTIZE", "QuantizeOptions"), {"x": reals(scale)})


@pytest.mark.parametrize(("scale", "zero"), QUANTS[:3])
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.LITERT])
def test_kernel(scale, zero, numerics):
    strange = reals(scale)
    strange[0, :6] = np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45
    samples = [{"x": reals(scale)}, {"x": strange}]
    loops = ["tc_quantize_f32_s8_mve"] if numerics is Numerics.LITERT else []
    assert check_kernels(graph_of(scale, zero), samples, numerics) == [*loops, "tc_quantize_f32_s8"]


@pytest.mark.parametrize("numerics", Numerics)
def test_what_has_no_integer_saturates(numerics):
    x = np.zeros((1, 777), np.float32)
    x[0, :5] = np.nan, np.inf, -np.inf, 3e38, -3e38
    y = run_int(graph_of(0.25, 3), {"x": x}, numerics)["y"]
    assert y[0, :6].tolist() == [-128, 127, -128, 127, -128, 3]


def test_int16_output_and_float():
    y = run_int(graph_of(0.5, 0, "s16"), {"x": np.full((1, 777), 1e9, np.float32)}, Numerics.TFLM)["y"]
    assert y.dtype == np.int16
    assert set(y.flat) == {32767}
    np.testing.assert_array_equal(float_ref(Quantize(), np.float32([1.5]))[0], np.float32([1.5]))
