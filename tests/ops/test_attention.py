# SPDX-License-Identifier: Apache-2.0
"""attention: the bytes of the nodes that it stands for, every kernel, and what it is made of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.attention_graphs import Heads, attention_graph, edges
from tests.ops.harness import check_kernels
from tinyc.base.numerics import Numerics
from tinyc.ir.check import check
from tinyc.ops import all_ops
from tinyc.ops.attention import Attention, HeadWalk
from tinyc.passes.attention import join_attention
from tinyc.reference.interpreter import run_int

SHAPES = [
    Heads(8, 2, 4),
    Heads(7, 3, 5),
    Heads(5, 1, 16, factor=False),
    Heads(1, 2, 3),
    Heads(9, 2, 7, keys_turned=False),
    Heads(6, 2, 8, scores=(0.01, 3)),
]


@pytest.mark.parametrize("numerics", Numerics)
@pytest.mark.parametrize("heads", SHAPES, ids=str)
def test_joining_changes_no_byte(heads, numerics):
    graph = attention_graph(heads)
    joined = join_attention(graph, numerics)
    check(joined, "join", all_ops())
    (node,) = joined.nodes
    assert isinstance(node.attrs, Attention)
    assert node.inputs[0] == node.inputs[1] == node.inputs[2] == "x"
    for sample in edges(heads):
        np.testing.assert_array_equal(run_int(joined, sample, numerics)["y"], run_int(graph, sample, numerics)["y"])


def test_long_rows():
    heads = Heads(512, 1, 4)
    graph = attention_graph(heads)
    joined = join_attention(graph, Numerics.TFLM)
    for sample in edges(heads):
        wanted = run_int(graph, sample, Numerics.TFLM)["y"]
        np.testing.assert_array_equal(run_int(joined, sample, Numerics.TFLM)["y"], wanted)


@pytest.mark.parametrize(
    ("heads", "numerics"),
    [
        (SHAPES[1], Numerics.OURS),
        (SHAPES[0], Numerics.TFLM),
        (SHAPES[2], Numerics.LITERT),
        (SHAPES[4], Numerics.ONNX),
        (SHAPES[3], Numerics.OURS),
    ],
)
def test_kernels(heads, numerics):
    names = check_kernels(join_attention(attention_graph(heads), numerics), edges(heads), numerics)
    suffix = "f32_s8" if numerics.scales_in_float else "s8"
    assert names == [f"tc_attention_{suffix}_dsp", f"tc_attention_{suffix}"]


def test_a_score_that_others_read_stays():
    graph = attention_graph(SHAPES[0])
    watched = type(graph)(graph.name, graph.inputs, ("y", "shares"), graph.nodes, graph.values, graph.consts)
    assert not any(isinstance(node.attrs, Attention) for node in join_attention(watched, Numerics.OURS).nodes)


def test_walks():
    at = np.arange(24).reshape(2, 3, 4)
    assert HeadWalk.over(at) == HeadWalk(0, 12, 4, 1)
    assert HeadWalk.over(at.swapaxes(0, 1)[:, :, 1:]) == HeadWalk(1, 4, 12, 1)
    assert HeadWalk.over(at[:, [0, 2, 1]]) is None
