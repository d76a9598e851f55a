# SPDX-License-Identifier: Apache-2.0
"""transpose: numpy's result in every element type, the loops that are left, kernel."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tests.ops.harness import check_kernels, copying
from tests.ops.one_node import one_node, random_s8, tensor
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Shape
from tinyc.ops.transpose import Transpose, float_ref, strided_loops
from tinyc.reference.interpreter import run_int


def graph_of(shape: Shape, perm: tuple[int, ...]) -> Graph:
    return one_node("transpose", Transpose(perm), [tensor("x", shape, 0.5, -3)], 0.5, -3)


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ((1, 7, 5, 3), (0, 3, 1, 2)),
        ((1, 3, 7, 5), (0, 2, 3, 1)),
        ((8, 9), (1, 0)),
        ((2, 3, 5, 7), (3, 2, 1, 0)),
        ((2, 3, 5, 7), (1, 0, 2, 3)),
        ((2, 3, 5), (0, 1, 2)),
        ((1, 1, 1), (2, 0, 1)),
        ((2, 3, 2, 3, 2, 4), (4, 1, 2, 0, 3, 5)),
    ],
)
def test_kernel_equals_numpy(shape, perm):
    x = random_s8(1, shape)
    graph = graph_of(shape, perm)
    assert check_kernels(graph, [{"x": x}]) == copying("tc_transpose")
    np.testing.assert_array_equal(run_int(graph, {"x": x}, Numerics.TFLM)["y"], np.transpose(x, perm))


@pytest.mark.parametrize("perm", [(1, 2, 0), (2, 1, 0)])
def test_kernel_moves_wider_elements(perm):
    x = np.random.default_rng(0).integers(-(2**31), 2**31, (3, 5, 7)).astype(np.int32)
    graph = one_node("transpose", Transpose(perm), [tensor("x", (3, 5, 7), 0.5, 0, "s32")], 0.5, dtype="s32")
    check_kernels(graph, [{"x": x}])


@pytest.mark.parametrize("perm", list(permutations(range(4))))
def test_loops_walk_the_permuted_tensor(perm):
    x = np.arange(2 * 1 * 3 * 4).reshape(2, 1, 3, 4)
    walked = np.zeros(1, int)
    for size, step in strided_loops(x.shape, perm):
        walked = (walked[:, None] + np.arange(size) * step).ravel()
    np.testing.assert_array_equal(walked, x.transpose(perm).ravel())


def test_an_order_that_moves_nothing_is_one_loop():
    assert strided_loops((1, 8, 1, 4), (1, 0, 2, 3)) == [(32, 1)]
    assert strided_loops((1, 8, 4), (0, 2, 1)) == [(4, 1), (8, 4)]


def test_float():
    x = np.float32([[1, 2, 3]])
    np.testing.assert_array_equal(float_ref(Transpose((1, 0)), x)[0], x.T)


def test_errors():
    with pytest.raises(TinycError, match="permutation"):
        graph_of((1, 2), (0, 0))
    scrambled = graph_of((2, 3, 2, 3, 2, 3), (5, 4, 3, 2, 1, 0))
    with pytest.raises(AssertionError, match="no kernel"):
        check_kernels(scrambled, [{"x": random_s8(0, (2, 3, 2, 3, 2))}])
