# SPDX-License-Identifier: Apache-2.0
"""add and sub by rescaling on an emulated Cortex-M55: the reference's bytes, instructions as promised."""

from __future__ import annotations

import numpy as np
import pytest
from one_layer import check_on_core, check_together, offer_of

from tests.ops.one_node import one_node, tensor
from tests.ops.runtimes import every_pair
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, DType, Graph, Shape
from tinyc.kernel.site import RELU, Site
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.sub import Sub

BOARD = "cortex-m55"
ROUNDINGS = [Numerics.TFLM, Numerics.OURS]
# Scales of the inputs and the sum: equal ones are shifted by nothing, powers of two make ties.
SCALES = [(0.02, 0.03, 0.04), (0.5, 0.5, 1.0), (0.001, 0.3, 0.2), (0.25, 0.0625, 0.125)]


def graph_of(op: str, shapes: tuple[Shape, Shape], scales: tuple[float, float, float], dtype: DType = "s8") -> Graph:
    zeros = (3, -9, 17) if dtype == "s8" else (0, 0, 0)
    inputs = [tensor(name, shapes[k], scales[k], zeros[k], dtype) for k, name in enumerate("ab")]
    attrs = (Add if op == "add" else Sub)(*([RELU] if scales[0] == SCALES[2][0] else []))
    return one_node(op, attrs, inputs, scales[2], zeros[2])


def random(seed: int, shape: Shape, dtype: DType) -> Array:
    info = np.iinfo(np.int8 if dtype == "s8" else np.int16)
    return np.random.default_rng(seed).integers(info.min, info.max + 1, shape).astype(info.dtype)


@pytest.mark.parametrize("numerics", ROUNDINGS, ids=str)
@pytest.mark.parametrize("op", ["add", "sub"])
def test_all_pairs(op: str, numerics: Numerics) -> None:
    a, b = every_pair()
    shapes = (a.shape, b.shape)
    for scales in SCALES:
        graph = graph_of(op, shapes, scales)
        check_on_core(graph, [{"a": a, "b": b}], "tc_add_s8_mve", numerics, board_name=BOARD)


@pytest.mark.parametrize("numerics", ROUNDINGS, ids=str)
@pytest.mark.parametrize("dtype", ["s8", "s16"])
def test_lines(dtype: DType, numerics: Numerics) -> None:
    """Rests of vectors, numbers for whole lines on either side (beyond the buffer), and both ends of the range."""
    whole = [((1, 1, 1, n), (1, 1, 1, n)) for n in (1, 3, 4, 17, 70)]
    repeated = [((1, 3, 5, 7), (1, 3, 5, 1)), ((1, 3, 2, 1), (1, 3, 2, 131)), ((1, 3, 5, 20), (1, 1, 1, 20))]
    cases = []
    for number, (first, second) in enumerate([*whole, *repeated]):
        scales = tuple(scale / (1 if dtype == "s8" else 256) for scale in SCALES[number % len(SCALES)])
        graph = graph_of("sub" if number % 3 == 1 else "add", (first, second), (scales[0], scales[1], scales[2]), dtype)
        info = np.iinfo(np.int8 if dtype == "s8" else np.int16)
        inputs = [{"a": random(number, first, dtype), "b": random(number + 50, second, dtype)}]
        for left in (info.min, info.max):
            for right in (info.min, info.max):
                inputs.append({"a": np.full(first, left, info.dtype), "b": np.full(second, right, info.dtype)})
        cases.append((graph, inputs, f"tc_add_{dtype}_mve"))
    check_together(cases, numerics, board_name=BOARD)


@pytest.mark.parametrize("numerics", ROUNDINGS, ids=str)
@pytest.mark.parametrize("second", [(1, 6, 5, 40), (1, 1, 1, 40), (1, 6, 5, 1)], ids=str)
def test_instructions(second: Shape, numerics: Numerics) -> None:
    first = (1, 6, 5, 40)
    graph = graph_of("add", (first, second), SCALES[0])
    inputs = {"a": random(1, first, "s8"), "b": random(2, second, "s8")}
    ran = check_on_core(graph, [inputs], "tc_add_s8_mve", numerics, board_name=BOARD)
    site = Site(graph, graph.nodes[0], numerics)
    (kernel,) = (kernel for kernel in all_ops()["add"].every_kernel if kernel.name == "tc_add_s8_mve")
    assert offer_of(kernel, site).cost.instructions == pytest.approx(ran.counts[0].steps[0], rel=0.1)
