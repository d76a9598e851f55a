# SPDX-License-Identifier: Apache-2.0
"""reshape: the same bytes under another shape."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.one_node import one_node, random_s8, tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ops.reshape import OP, Reshape
from tinyc.reference.interpreter import run_int


def test_elements_keep_their_order():
    x = random_s8(0, (1, 5, 3, 2))
    graph = one_node("reshape", Reshape((1, 30)), [tensor("x", x.shape, 0.5, 3)], 0.5, 3)
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], x.reshape(1, 30))


def test_it_is_a_view_without_kernels():
    assert OP.view
    assert OP.kernels == ()


def test_errors():
    x = tensor("x", (1, 5), 0.5, 3)
    with pytest.raises(TinycError, match="5 elements"):
        one_node("reshape", Reshape((1, 6)), [x])
    with pytest.raises(TinycError, match="cannot reshape"):
        one_node("reshape", Reshape((-1, -5)), [x])
    graph = one_node("reshape", Reshape((5,)), [x], 0.25, 3)
    with pytest.raises(TinycError, match="quantization"):
        run_int(graph, {"x": random_s8(0, (1, 5))}, Numerics.TFLM)
