# SPDX-License-Identifier: Apache-2.0
"""add and sub in assembly on an emulated Cortex-M4: bytes equal to the reference, counts as promised."""

from __future__ import annotations

import numpy as np
import pytest
from one_layer import check_on_core, offer_of

from tests.ops.test_add import SETTINGS, graph_of
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import Site
from tinyc.ops.add import OP
from tinyc.ops.sums import is_plain

NAME = "tc_add_linear_s8_asm"


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
    kernel = next(k for k in OP.every_kernel if k.name == NAME)
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
