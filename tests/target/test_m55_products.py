# SPDX-License-Identifier: Apache-2.0
"""Products of computed matrices, softmax and attention on an emulated Cortex-M55: the reference's bytes for every rest,
and what they take."""

from __future__ import annotations

import numpy as np
import pytest
from one_layer import check_on_core, check_together, offer_of
from test_m4_products import SHAPES, product, samples

from tests.ops.attention_graphs import Heads, attention_graph, edges, masked
from tests.ops.one_node import one_node, random_s8, tensor
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.ops.softmax import Softmax
from tinyc.passes.attention import join_attention

BOARD = "cortex-m55"
KERNEL = "tc_batch_matmul_s8_mve"


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.TFLM], ids=str)
def test_every_rest(numerics):
    """Random numbers, and the largest products of either sign."""
    ways = [(False, True), (False, False), (True, False)]
    graphs = [product(*shape, ways[k % 3], 0.02) for k, shape in enumerate(SHAPES)]
    graphs += [product(*shape, ways[(k + 1) % 3]) for k, shape in enumerate(SHAPES)]
    cases = []
    for graph in graphs:
        shapes = [graph.values[name].shape for name in graph.inputs]
        ends = [[np.full(shape, end, np.int8) for shape, end in zip(shapes, pair, strict=True)] for pair in ENDS]
        inputs = [samples(graph), *(dict(zip(graph.inputs, each, strict=True)) for each in ends)]
        cases.append((graph, inputs, KERNEL))
    check_together(cases, numerics, board_name=BOARD)


ENDS = [(-128, -128), (127, -128), (127, 127)]


@pytest.mark.parametrize("shape", [(64, 16, 64), (64, 64, 16)], ids=str)
def test_instructions(shape):
    graph = product(*shape, (False, shape[1] == 16))
    ran = check_on_core(graph, [samples(graph)], KERNEL, Numerics.OURS, board_name=BOARD)
    site = Site(graph, graph.nodes[0], Numerics.OURS)
    op = all_ops()["batch_matmul"]
    assert ran.instructions[0] < 0.62 * op.macs(site)
    (kernel,) = (kernel for kernel in op.every_kernel if kernel.name == KERNEL)
    assert offer_of(kernel, site).cost.instructions == pytest.approx(ran.instructions[0], rel=0.1)


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS], ids=str)
def test_softmax(numerics):
    """Rests of vectors, rows of one value, the greatest anywhere; instructions as promised."""
    one = 1 / 255 if numerics is Numerics.OURS else 1 / 256
    name = "tc_softmax_many_whole_s8_mve" if numerics is Numerics.OURS else "tc_softmax_many_s8_mve"
    cases = []
    for rows, depth, scale in (
        (1024, 1, 0.1),
        (350, 3, 0.02),
        (94, 11, 0.1),
        (64, 16, 1.5),
        (61, 17, 0.003),
        (4, 261, 0.01),
    ):
        x = random_s8(depth, (rows, depth))
        x[0], x[1 % rows] = 127, -128
        graph = one_node("softmax", Softmax(), [tensor("x", x.shape, scale, 7)], one, -128)
        cases.append((graph, [{"x": x}], name))
    check_together(cases, numerics, board_name=BOARD)
    graph, inputs, _ = cases[-1]
    ran = check_on_core(graph, inputs, name, numerics, board_name=BOARD)
    (kernel,) = (kernel for kernel in all_ops()["softmax"].every_kernel if kernel.name == name)
    assert offer_of(kernel, Site(graph, graph.nodes[0], numerics)).cost.instructions == pytest.approx(
        ran.instructions[0], rel=0.1
    )


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.LITERT], ids=str)
def test_attention(numerics):
    suffix = "f32_s8" if numerics.scales_in_float else "s8"
    cases = []
    for heads in (Heads(9, 2, 7), Heads(6, 1, 16, factor=False), Heads(1, 3, 4), Heads(3, 1, 33, keys_turned=False)):
        graph = join_attention(attention_graph(heads), numerics)
        shown = np.tril(np.ones((heads.tokens, heads.tokens), bool))
        hiding = join_attention(masked(attention_graph(heads), shown, -128), numerics)
        cases += [(attended, edges(heads), f"tc_attention_{suffix}_mve") for attended in (graph, hiding)]
    check_together(cases, numerics, board_name=BOARD)


def test_instructions_of_attention():
    """As promised, by MAC of both products with everything else in it, and well below the DSP kernel."""
    heads = Heads(64, 4, 16, factor=False)
    joined = join_attention(attention_graph(heads), Numerics.OURS)
    executed = {}
    for family in ("dsp", "mve"):
        ran = check_on_core(joined, edges(heads)[:1], f"tc_attention_s8_{family}", Numerics.OURS, board_name=BOARD)
        executed[family] = ran.instructions[0]
    assert 1.8 * executed["mve"] < executed["dsp"]
    assert executed["mve"] < 0.69 * all_ops()["attention"].macs(Site(joined, joined.nodes[0], Numerics.OURS))
    (kernel,) = (kernel for kernel in all_ops()["attention"].every_kernel if kernel.name == "tc_attention_s8_mve")
    cost = offer_of(kernel, Site(joined, joined.nodes[0], Numerics.OURS)).cost
    assert cost.instructions == pytest.approx(executed["mve"], rel=0.1)
