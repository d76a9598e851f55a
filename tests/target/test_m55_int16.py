# SPDX-License-Identifier: Apache-2.0
"""The kernels for int16 on an emulated Cortex-M55: bytes equal to the reference, instructions as promised."""

from __future__ import annotations

import pytest
from one_layer import check_on_core
from row_layers import check_rows_on_core

from tests.ops.int16_layers import LAYERS, ROWS, conv, dense, depthwise, graph_of, samples
from tests.ops.weighted import Layer
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import select
from tinyc.kernel.site import RELU, Padding
from tinyc.machine.cores import CORTEX_M55
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.options.build import Optimize

BOARD = "cortex-m55"
ONE = Padding(1, 1, 1, 1)
LARGE = {
    "1x1": (conv((12, 5, 64), (64, 1, 1), Conv2D(act=RELU)), 0.36),
    "3x3": (conv((8, 8, 16), (16, 3, 3), Conv2D(pad=ONE, act=RELU)), 0.36),
    "3x3 of 3": (conv((8, 9, 3), (16, 3, 3), Conv2D(pad=ONE, act=RELU)), 0.95),
    "depthwise": (depthwise((9, 5, 64), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU)), 1.9),
    "dense": (dense((1, 256), 64), 0.36),
}
QUICK = ("3x3 of 3, stride 2", "depthwise", "dense, three taps")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in LAYERS])
def test_equals_the_reference(name: str) -> None:
    layer, kernel = LAYERS[name]
    check_on_core(graph_of(layer), samples(layer), kernel.replace("_dsp", "_mve"), Numerics.OURS, board_name=BOARD)


@pytest.mark.parametrize("name", LARGE)
def test_instructions(name: str) -> None:
    """As promised, and no more per MAC than the documentation says."""
    layer, most = LARGE[name]
    graph = graph_of(layer)
    choice = select(graph, load_board(BOARD).isa, Numerics.OURS, core=CORTEX_M55)["layer"]
    assert choice.kernel.name.endswith("_s16_mve")
    ran = check_on_core(graph, samples(layer)[:1], choice.kernel.name, Numerics.OURS, board_name=BOARD)
    executed = ran.counts[0].steps[0]
    assert executed <= most * _macs(layer)
    assert executed == pytest.approx(choice.cost.instructions, rel=0.12)


def _macs(layer: Layer) -> int:
    y = graph_of(layer).values["y"].elements
    return y * graph_of(layer).values["w"].elements // layer.out_c


@pytest.mark.parametrize("optimize", ["speed", "size"])
def test_row_by_row(optimize: Optimize) -> None:
    """Row forms, those for cores without Helium too: everything poisoned that they may not touch."""
    ran = check_rows_on_core(ROWS, Numerics.OURS, all_forms=True, board_name=BOARD, optimize=optimize)
    kernels_run = {case.kernel.name for _, case, _ in ran}
    assert {"tc_conv2d_s16_mve", "tc_depthwise_conv2d_s16_mve", "tc_conv2d_s16_dsp"} <= kernels_run
