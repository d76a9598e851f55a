# SPDX-License-Identifier: Apache-2.0
"""Products of computed matrices on an emulated Cortex-M4: the reference's bytes for every rest, and what they take."""

from __future__ import annotations

import pytest
from one_layer import check_on_core, check_together, offer_of

from tests.ops.one_node import one_node, random_s8, tensor
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.ops.batch_matmul import BatchMatmul

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


@pytest.mark.parametrize("shape", [(64, 16, 64), (64, 64, 16)], ids=str)
def test_instructions(shape):
    graph = product(*shape, (False, shape[1] == 16))
    ran = check_on_core(graph, [samples(graph)], KERNEL, Numerics.OURS)
    site = Site(graph, graph.nodes[0], Numerics.OURS)
    op = all_ops()["batch_matmul"]
    assert ran.instructions[0] < 1.1 * op.macs(site)
    (kernel,) = (kernel for kernel in op.kernels if kernel.name == KERNEL)
    cost = offer_of(kernel, site).cost
    assert cost is not None
    assert cost.instructions == pytest.approx(ran.instructions[0], rel=0.1)
