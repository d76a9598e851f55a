# SPDX-License-Identifier: Apache-2.0
"""tanh: TensorFlow Lite's table for every input, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tests.ops.runtimes import every_byte
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ops.tanh import Tanh, float_ref
from tinyc.reference.interpreter import run_int

INPUTS = [(0.0005, 0), (0.004, -128), (0.02, 127), (0.047, -12), (0.1, 3), (0.25, 0), (0.9, -77), (20.0, 5)]


@pytest.mark.parametrize(("scale", "zero"), INPUTS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_every_input_is_tflites(scale, zero, theirs):
    graph = one_node("tanh", Tanh(), [tensor("x", (1, 256), scale, zero)], 1 / 128, 0)
    theirs(graph, as_tflite(graph, "TANH"), {"x": every_byte()})


@pytest.mark.parametrize("numerics", Numerics)
def test_kernel(numerics):
    graph = one_node("tanh", Tanh(), [tensor("x", (1, 256), 0.047, -12)], 1 / 128, 0)
    assert check_kernels(graph, [{"x": every_byte()}], numerics) == ["tc_lut_s8_mve", "tc_lut_s8"]


def test_float():
    np.testing.assert_allclose(float_ref(Tanh(), np.float32([-9, 0, 0.5]))[0], [-1, 0, 0.46211717], rtol=1e-6)


def test_another_output_scale_is_an_error():
    graph = one_node("tanh", Tanh(), [tensor("x", (1, 256), 0.1)], 1 / 128, 1)
    with pytest.raises(TinycError, match="1/128"):
        run_int(graph, {"x": every_byte()}, Numerics.TFLM)
