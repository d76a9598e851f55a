# SPDX-License-Identifier: Apache-2.0
"""Global averages on an emulated Cortex-M4, and with Helium on an M55."""

from __future__ import annotations

import numpy as np
import pytest
from one_layer import check_on_core, check_together

from tests.ops.one_node import one_node, random_s8, tensor
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import Act, Padding, Pair
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.mean import Mean

SHAPES = [
    (1, 1, 8),
    (3, 3, 22),
    (8, 8, 64),
    (25, 5, 64),
    (17, 15, 9),
    (5, 51, 16),
    (7, 1, 5),
    (2, 3, 257),
    (3, 2, 1028),
]


def inputs(shape):
    arrays = (random_s8(1, shape), np.full(shape, -128, np.int8), np.full(shape, 127, np.int8))
    return [{"x": array} for array in arrays]


BOARDS = {"asm": "cortex-m4", "mve": "cortex-m55"}


@pytest.mark.parametrize("kernel", BOARDS)
def test_avg_pool2d(kernel: str) -> None:
    cases = []
    for shape in SHAPES:
        x = tensor("x", (1, *shape), 0.02, 5)
        attrs = AvgPool2D(Pair(*shape[:2]), act=Act(-1.0, 1.0), halves_up=len(cases) % 2 == 1)
        graph = one_node("avg_pool2d", attrs, [x], 0.02, 5)
        cases.append((graph, inputs((1, *shape)), f"tc_avg_pool2d_s8_{'sums_' * (kernel == 'mve')}{kernel}"))
    check_together(cases, board_name=BOARDS[kernel])


@pytest.mark.parametrize("kernel", BOARDS)
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
def test_mean(numerics: Numerics, kernel: str) -> None:
    cases = []
    for shape in SHAPES[1:]:
        graph = one_node("mean", Mean((1, 2)), [tensor("x", (1, *shape), 0.02, -7)], 0.013, 9)
        cases.append((graph, inputs((1, *shape)), f"tc_mean_s8_{kernel}"))
    check_together(cases, numerics, board_name=BOARDS[kernel])


def test_outputs_that_gcc_makes_eight_at_a_time() -> None:
    """Of 17 channels gcc 12 for a Cortex-M7 said that eight bytes lie beyond the array: no library was built."""
    attrs = AvgPool2D(Pair(1, 2), Pair(2, 1), Padding(0, 0, 0, 1))
    graph = one_node("avg_pool2d", attrs, [tensor("x", (1, 2, 1, 17), 0.02, -12)], 0.02, -12)
    check_on_core(graph, inputs((1, 2, 1, 17)), "tc_avg_pool2d_s8", board_name="cortex-m7")
