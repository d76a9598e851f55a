# SPDX-License-Identifier: Apache-2.0
"""Products of computed matrices on an emulated Cortex-M4: the reference's bytes for every rest, and what they take."""

from __future__ import annotations

import numpy as np
import pytest
from one_layer import check_on_core, check_together, offer_of

from tests.ops.attention_graphs import Heads, attention_graph, edges, masked
from tests.ops.one_node import one_node, random_s8, tensor
from tests.ops.runtimes import every_pair
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.mul import Mul
from tinyc.passes.attention import join_attention

KERNEL = "tc_batch_matmul_s8_dsp"
# rows, depth, columns
SHAPES = [(1, 1, 1), (2, 3, 2), (3, 4, 4), (5, 5, 7), (4, 13, 8), (3, 16, 5), (2, 17, 9), (7, 33, 6)]


def product(rows: int, depth: int, columns: int, adj: tuple[bool, bool], scale: float = 0.13) -> Graph:
    x = (2, depth, rows) if adj[0] else (2, rows, depth)
    y = (2, columns, depth) if adj[1] else (2, depth, columns)
    inputs = [tensor("a", x, 0.03, 3), tensor("b", y, 0.05, -7)]
    return one_node("batch_matmul", BatchMatmul(*adj), inputs, scale, 4)


def samples(graph: Graph) -> dict:
    return {name: random_s8(k, graph.values[name].shape) for k, name in enumerate(graph.inputs)}


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.TFLM], ids=str)
def test_every_rest(numerics):
    ways = [(False, True), (False, False), (True, False)]
    graphs = [product(*shape, ways[k % 3], 0.02) for k, shape in enumerate(SHAPES)]
    graphs += [product(*shape, ways[(k + 1) % 3]) for k, shape in enumerate(SHAPES)]
    check_together([(graph, [samples(graph)], KERNEL) for graph in graphs], numerics)


@pytest.mark.parametrize(
    ("numerics", "most"), [(Numerics.OURS, 6.5), (Numerics.TFLM, 8), (Numerics.ONNX, 6.5)], ids=str
)
def test_elements(numerics, most):
    """Equal shapes, a number for each row or column, either input repeated; instructions of an element."""
    shapes = [((1, 48, 64), (1, 48, 64)), ((1, 5, 7), (5, 1)), ((1, 5, 1), (3, 5, 7)), ((1, 6, 8), (8,)), ((3,), (3,))]
    graphs = [
        one_node("mul", Mul(), [tensor("a", x0, 0.031, 3), tensor("b", x1, 0.0437, -7)], 0.0613, 4) for x0, x1 in shapes
    ]
    ran = check_together([(graph, [samples(graph)], "tc_mul_s8_dsp") for graph in graphs], numerics)
    assert ran.counts[0].steps[0] < most * 48 * 64


# Scales and zero points of two inputs and of their product: shifts of 4 or 5, 2 or 3, 9 or 10.
SCALINGS = [(0.031, 3, 0.0437, -7, 0.0613, 4), (0.5, 0, 0.07, 0, 0.3, -1), (0.1, -128, 0.0006, 127, 0.06, 10)]


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.TFLM], ids=str)
@pytest.mark.parametrize("scaling", SCALINGS, ids=str)
def test_all_pairs_of_elements(scaling, numerics):
    """All 65,536 products, of two lines and of a number and a line."""
    scale0, zero0, scale1, zero1, y_scale, y_zero = scaling
    x0, x1 = every_pair()
    for left, right in ((x0, x1), (x0[:, :, :1], x1[:, :1])):
        inputs = [tensor("a", left.shape, scale0, zero0), tensor("b", right.shape, scale1, zero1)]
        graph = one_node("mul", Mul(), inputs, y_scale, y_zero)
        check_on_core(graph, [{"a": left, "b": right}], "tc_mul_s8_dsp", numerics)


@pytest.mark.parametrize("shape", [(64, 16, 64), (64, 64, 16)], ids=str)
def test_instructions(shape):
    graph = product(*shape, (False, shape[1] == 16))
    ran = check_on_core(graph, [samples(graph)], KERNEL, Numerics.OURS)
    site = Site(graph, graph.nodes[0], Numerics.OURS)
    op = all_ops()["batch_matmul"]
    assert ran.instructions[0] < 1.1 * op.macs(site)
    (kernel,) = (kernel for kernel in op.every_kernel if kernel.name == KERNEL)
    cost = offer_of(kernel, site).cost
    assert cost is not None
    assert cost.instructions == pytest.approx(ran.instructions[0], rel=0.1)


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.LITERT], ids=str)
def test_attention(numerics):
    suffix = "f32_s8" if numerics.scales_in_float else "s8"
    cases = []
    for heads in (Heads(9, 2, 7), Heads(6, 1, 16, factor=False), Heads(1, 3, 4), Heads(3, 1, 33, keys_turned=False)):
        graph = join_attention(attention_graph(heads), numerics)
        shown = np.tril(np.ones((heads.tokens, heads.tokens), bool))
        hiding = join_attention(masked(attention_graph(heads), shown, -128), numerics)
        for attended in (graph, hiding):
            cases += [(attended, edges(heads), f"tc_attention_{suffix}{dsp}") for dsp in ("_dsp", "")]
    check_together(cases, numerics)


def test_attention_takes_a_third_of_the_instructions():
    heads = Heads(64, 4, 16, factor=False)
    graph = attention_graph(heads)
    apart = {"scores": "tc_batch_matmul_s8", "shares": "tc_softmax_s8", "context": "tc_batch_matmul_s8"}
    before = check_on_core(graph, edges(heads)[:1], apart, Numerics.OURS)
    joined = join_attention(graph, Numerics.OURS)
    after = check_on_core(joined, edges(heads)[:1], "tc_attention_s8_dsp", Numerics.OURS)
    assert 3 * after.instructions[0] < before.instructions[0]
