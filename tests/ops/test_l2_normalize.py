# SPDX-License-Identifier: Apache-2.0
"""l2_normalize: TensorFlow Lite's integers, ONNX Runtime's reals, kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, random_s8, tensor
from tests.ops.onnx_float import run_onnx
from tinyc.base import fixedpoint
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops.l2_normalize import L2Normalize, float_ref
from tinyc.reference.interpreter import run_int


def graph_of(shape: tuple[int, ...], zero: int = 3, y_scale: float = 1 / 128) -> Graph:
    return one_node("l2_normalize", L2Normalize(), [tensor("x", shape, 0.1, zero)], y_scale, 0)


@pytest.mark.parametrize("zero", [3, -128, 127, 0])
@pytest.mark.parametrize("shape", [(64, 10), (128, 2), (1, 3, 5, 300), (9, 1)])
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_all_bits_are_theirs(zero, shape, theirs):
    graph = graph_of(shape, zero)
    model = as_tflite(graph, "L2_NORMALIZATION", "L2NormOptions")
    for seed, smaller in enumerate((1, 5, 60)):
        theirs(graph, model, {"x": random_s8(seed, shape) // smaller})


def test_inverse_roots_are_close():
    for v in (2, 3, 7, 100, 12345, 2**27, 2**29 - 1, 2**29, 2**31 - 1):
        mult, down = fixedpoint.inverse_root(v)
        assert abs(mult * 2.0 ** (-31 - down) * v**0.5 - 1) < 1e-4
    assert fixedpoint.inverse_root(0) == fixedpoint.inverse_root(1)


def test_reals_are_onnx_runtimes():
    x = np.random.default_rng(1).normal(0, 5, (3, 17)).astype(np.float32)
    expected = run_onnx("LpNormalization", [x], axis=-1, p=2)
    np.testing.assert_allclose(float_ref(L2Normalize(), x)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 10), (3, 17), (7, 1), (2, 3, 5)])
def test_kernels(shape):
    samples = [{"x": random_s8(seed, shape) // smaller} for seed, smaller in enumerate((1, 9, 100))]
    samples.append({"x": np.full(shape, 3, np.int8)})
    assert check_kernels(graph_of(shape), samples, Numerics.OURS) == ["tc_l2_normalize_s8"]


def test_other_quantizations_are_refused():
    with pytest.raises(TinycError, match="scale 1/128"):
        run_int(graph_of((1, 5), y_scale=0.1), {"x": random_s8(1, (1, 5))}, Numerics.TFLM)
