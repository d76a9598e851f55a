# SPDX-License-Identifier: Apache-2.0
"""hard_swish: TensorFlow Lite's table for every input, kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.one_node import as_tflite, assert_equals_litert, assert_equals_tflm, one_node, tensor
from tests.ops.runtimes import every_byte
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops.hard_swish import HardSwish, float_ref
from tinyc.reference.interpreter import run_int

# input scale and zero, output scale and zero: 3.0 lies beyond, at and inside the input's range
SETTINGS = [
    (0.01, -3, 0.02, 10),
    (0.0235, 5, 0.0235, -118),
    (0.047, -12, 0.031, -120),
    (0.09375, 0, 0.1, -128),
    (0.2, 100, 0.05, -124),
    (0.5, -128, 0.4, 127),
    (2.0, 0, 1.5, -1),
]


def graph_of(setting: tuple[float, int, float, int]) -> Graph:
    return one_node("hard_swish", HardSwish(), [tensor("x", (1, 256), *setting[:2])], *setting[2:])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("theirs", [assert_equals_tflm, assert_equals_litert])
def test_every_input_is_tflites(setting, theirs):
    graph = graph_of(setting)
    theirs(graph, as_tflite(graph, "HARD_SWISH"), {"x": every_byte()})


def test_kernel():
    assert check_kernels(graph_of(SETTINGS[2]), [{"x": every_byte()}]) == ["tc_lut_s8_mve", "tc_lut_s8"]


def test_float():
    x = np.float32([-4, -3, -1.5, 0, 1, 3, 8])
    np.testing.assert_allclose(float_ref(HardSwish(), x)[0], [0, 0, -0.375, 0, 2 / 3, 3, 8], rtol=1e-6)


def test_a_much_finer_output_is_an_error():
    with pytest.raises(TinycError, match="too small"):
        run_int(graph_of((1.0, 0, 0.001, 0)), {"x": every_byte()}, Numerics.TFLM)
