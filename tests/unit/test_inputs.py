# SPDX-License-Identifier: Apache-2.0
"""Image inputs that the model takes channels first are taken channels last, with the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.one_node import tensor
from tinyc.base.numerics import Numerics
from tinyc.ir.check import check
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.site import Pair
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.slice import Slice
from tinyc.ops.transpose import Transpose
from tinyc.passes.inputs import take_inputs_as_computed
from tinyc.reference.interpreter import run_int
from tinyc.reference.samples import Samples, moved

TO_NHWC = (0, 2, 3, 1)


def _graph(outputs: tuple[str, ...] = ("y",)) -> Graph:
    values = [
        tensor("x", (1, 3, 4, 6), 0.5, 3),
        tensor("t", (1, 4, 6, 3), 0.5, 3),
        tensor("y", (1, 2, 3, 3), 0.5, 3),
    ]
    nodes = (
        Node("t", "transpose", ("x",), ("t",), Transpose(TO_NHWC)),
        Node("p", "max_pool2d", ("t",), ("y",), MaxPool2D(Pair(2, 2), Pair(2, 2))),
    )
    return Graph("g", ("x",), outputs, nodes, {value.name: value for value in values})


def test_the_transpose_goes_to_the_caller() -> None:
    graph = _graph()
    relaid = take_inputs_as_computed(graph)
    check(relaid.graph, "test", all_ops())
    assert relaid.perms == {"x": TO_NHWC}
    assert [node.op for node in relaid.graph.nodes] == ["max_pool2d"]
    assert relaid.graph.values["x"].shape == (1, 4, 6, 3)
    x = np.random.default_rng(0).integers(-128, 128, (1, 3, 4, 6)).astype(np.int8)
    before = run_int(graph, {"x": x}, Numerics.TFLM)["y"]
    after = run_int(relaid.graph, {"x": x.transpose(TO_NHWC)}, Numerics.TFLM)["y"]
    np.testing.assert_array_equal(before, after)


def test_a_transposed_output_stays() -> None:
    graph = _graph(("t", "y"))
    relaid = take_inputs_as_computed(graph)
    assert relaid.graph is graph
    assert relaid.perms == {}


def test_a_transpose_that_moves_the_first_axis_stays() -> None:
    """Samples of a batch of one have no first axis that a caller could move."""
    values = [tensor("x", (3, 4, 6), 0.5, 3), tensor("t", (4, 3, 6), 0.5, 3), tensor("y", (4, 2, 6), 0.5, 3)]
    nodes = (
        Node("t", "transpose", ("x",), ("t",), Transpose((1, 0, 2))),
        Node("s", "slice", ("t",), ("y",), Slice((0, 1, 0), (4, 2, 6), (1, 1, 1))),
    )
    graph = Graph("g", ("x",), ("y",), nodes, {value.name: value for value in values})
    assert take_inputs_as_computed(graph).graph is graph


def test_samples_of_inputs_that_are_no_batch_of_one() -> None:
    rng = np.random.default_rng(0)
    one, several = rng.standard_normal((5, 4, 6)), rng.standard_normal((5, 3, 4, 6))
    turned = moved(Samples({"one": one, "several": several}, None, ""), {"one": (0, 2, 1), "several": (0, 2, 1)})
    np.testing.assert_array_equal(turned.arrays["one"], one.transpose(0, 2, 1))
    np.testing.assert_array_equal(turned.arrays["several"], several.transpose(0, 1, 3, 2))


@pytest.mark.parametrize(
    ("shape", "perm", "moves"),
    [
        ((1, 3, 6, 6), (0, 1, 3, 2), False),  # a bicubic resize begins so: [C, W, H] on a square image, seen by nobody
        ((1, 3, 4, 6), (0, 2, 1, 3), False),
        ((1, 4, 6, 3), (0, 3, 1, 2), False),
        ((1, 3, 4, 6), (0, 2, 3, 1), True),
        ((1, 3, 1, 6), (0, 3, 2, 1), True),
        ((1, 5, 7), (0, 2, 1), True),
        ((1, 3, 4, 5, 6), (0, 2, 3, 4, 1), True),
        ((1, 3, 4, 5, 6), (0, 1, 2, 4, 3), False),
    ],
)
def test_only_channels_move_all_else_has_the_order_of_the_file(
    shape: tuple[int, ...], perm: tuple[int, ...], moves: bool
) -> None:
    turned = tuple(shape[axis] for axis in perm)
    values = [tensor("x", shape, 0.5, 3), tensor("t", turned, 0.5, 3), tensor("y", turned, 0.5, 3)]
    nodes = (Node("t", "transpose", ("x",), ("t",), Transpose(perm)), Node("a", "add", ("t", "t"), ("y",), Add()))
    graph = Graph("g", ("x",), ("y",), nodes, {value.name: value for value in values})
    assert take_inputs_as_computed(graph).perms == ({"x": perm} if moves else {})
