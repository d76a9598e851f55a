# SPDX-License-Identifier: Apache-2.0
"""add and sub in assembly on an emulated Cortex-M4: bytes equal to the reference, counts as promised."""

from __future__ import annotations

import numpy as np
import pytest
from one_layer import check_on_core, check_together, counts_together, offer_of

from tests.ops.one_node import one_node, tensor
from tests.ops.test_add import SETTINGS, graph_of
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import Site
from tinyc.ops.add import OP, Add
from tinyc.ops.sub import Sub
from tinyc.ops.sums import is_plain

NAME = "tc_add_linear_s8_asm"
ENDS = [(a, b) for a in (-128, 127) for b in (-128, 127)]


def pairs(elements: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(elements)
    sides = [rng.integers(-128, 128, (1, elements), dtype=np.int8) for _ in range(2)]
    ends = np.tile(np.array([-128, 127], np.int8), (1, elements))[:, :elements]
    return [dict(zip("ab", sides, strict=True)), {"a": ends, "b": -1 - ends}]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("toolchain", ["gcc", "zig"])
@pytest.mark.parametrize("elements", [1, 3, 31, 32, 35, 64])
def test_equals_the_reference(elements: int, toolchain: str) -> None:
    graph = graph_of("plain", (1, elements), (1, elements))
    ran = check_on_core(graph, pairs(elements), NAME, toolchain=toolchain)
    site = Site(graph, graph.nodes[0], Numerics.TFLM)
    kernel = next(k for k in OP.kernels if k.name == NAME)
    cost = offer_of(kernel, site).cost
    assert cost.instructions == pytest.approx(ran.instructions[0], abs=8)


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("setting", SETTINGS)
def test_all_pairs(setting: str) -> None:
    x = np.arange(-128, 128).astype(np.int8)
    a, b = (side.reshape(1, -1) for side in np.meshgrid(x, x))
    graph = graph_of(setting, a.shape, b.shape)
    if not is_plain(Site(graph, graph.nodes[0], Numerics.TFLM)):
        pytest.skip("its clamp lies inside of int8: another kernel")
    check_on_core(graph, [{"a": a, "b": b}], NAME)


# Neither input repeats in a line, one does, the first one does, nothing but one number, lines within lines.
LINES = [
    ((1, 3, 5, 40), (1, 1, 1, 40)),
    ((1, 3, 5, 33), (1, 3, 5, 1)),
    ((1, 3, 5, 1), (1, 3, 5, 70)),
    ((1, 4, 7), (1, 1, 1)),
    ((2, 1, 3, 35), (1, 4, 1, 35)),
]


@pytest.mark.parametrize("board_name", ["cortex-m4", "cortex-m55", "riscv32-zve32x"])
def test_inputs_that_repeat(board_name: str) -> None:
    """The reference's bytes with either input at every end, and on one core instructions as promised."""
    name = {"cortex-m4": NAME, "cortex-m55": "tc_add_linear_s8_mve"}.get(board_name, "tc_add_linear_s8_rvv")
    cases = []
    for number, shapes in enumerate(LINES):
        rng = np.random.default_rng(number)
        inputs = [tensor("a", shapes[0], 0.0213, 3), tensor("b", shapes[1], 0.0317, -9)]
        graph = one_node(*(("sub", Sub()) if number % 2 else ("add", Add())), inputs, 0.0411, 5)
        drawn = {x: rng.integers(-128, 128, shapes[k]).astype(np.int8) for k, x in enumerate("ab")}
        ends = [{"a": np.full(shapes[0], a, np.int8), "b": np.full(shapes[1], b, np.int8)} for a, b in ENDS]
        cases.append((graph, [drawn, *ends], name))
    if board_name != "cortex-m4":
        check_together(cases, board_name=board_name)
        return
    kernel = next(k for k in OP.kernels if k.name == name)
    for (graph, _, _), count in zip(cases, counts_together(cases), strict=True):
        cost = offer_of(kernel, Site(graph, graph.nodes[0], Numerics.TFLM)).cost
        assert cost.instructions == pytest.approx(count, rel=0.12, abs=40)
