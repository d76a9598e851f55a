# SPDX-License-Identifier: Apache-2.0
"""Layers of attention and normalization for kernel_cases.py."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.ops.attention_graphs import Heads, attention_graph
from tests.ops.one_node import one_node, tensor
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.function import Function
from tinyc.ops.power import Power
from tinyc.ops.prelu import Prelu
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.softmax import Softmax
from tinyc.ops.squared_difference import SquaredDifference
from tinyc.passes.attention import join_attention


def product_cases() -> Iterator[Graph]:
    """One-node graphs of the operators between computed tensors."""
    a, keys = tensor("a", (2, 3, 7), 0.03, 3), tensor("b", (2, 5, 7), 0.05, -7)
    yield one_node("batch_matmul", BatchMatmul(adj_y=True), [a, keys], 0.2, 4)
    yield one_node("batch_matmul", BatchMatmul(), [a, tensor("b", (7, 9), 0.05, -7)], 0.2, 4)
    pair = [tensor("a", (2, 3, 7), 0.0003, 0, "s16"), tensor("b", (7, 9), 0.0002, 0, "s16")]
    yield one_node("batch_matmul", BatchMatmul(), pair, 0.0007)
    yield one_node("softmax", Softmax(), [tensor("x", (94, 11), 0.1, 7)], 1 / 256, -128)
    yield join_attention(attention_graph(Heads(7, 2, 5)), Numerics.TFLM)
    x = tensor("x", (1, 5, 9), 0.04, -100)
    yield one_node("squared_difference", SquaredDifference(), [x, tensor("m", (1, 5, 1), 0.01, 7)], 0.3, -128)
    number = {"m": np.array([77], np.int8)}
    yield one_node("squared_difference", SquaredDifference(), [x, tensor("m", (1,), 0.03, 5)], 0.3, -128, number)
    yield one_node("prelu", Prelu(), [x, tensor("s", (9,), 0.01, -3)], 0.03, -90)
    slopes = {"s": np.arange(1, 128, 3, np.int8)[:40].reshape(1, 1, 1, 40)}
    wide = [tensor("x", (1, 3, 5, 40), 0.05, -128), tensor("s", (1, 1, 1, 40), 0.004, 0)]
    yield one_node("prelu", Prelu(), wide, 0.03, -128, slopes)
    yield one_node("function", Function("elu"), [x], 0.03, -90)
    yield one_node("power", Power(-0.5), [x], 0.05, -128)
    wide = tensor("x", (1, 5, 9), 0.0002, 0, "s16")
    yield one_node("function", Function("gelu"), [wide], 0.0002)
    yield one_node("power", Power(-0.5), [wide], 0.001)
    yield one_node("power", Power(0.5), [wide], 0.0001)
    yield one_node("reduce_extremum", ReduceExtremum((1,)), [x], 0.04, -100)
