# SPDX-License-Identifier: Apache-2.0
"""What kernels in C take alone in a library, whose sizes a compiler puts into their code, and what their costs say."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from one_layer import Asked, counts_together

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.kernel.counted import SCALE, kind_of
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.ops import conv2d, depthwise_conv2d, fully_connected
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected

ONE = Padding(1, 1, 1, 1)
# None of these layers is one that bench/counted.py counts.
OF_COLUMN = Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 15, 1, 128), (15, 1, 128))
SEPARABLE = Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, act=RELU), (1, 7, 9, 40), (3, 3, 40))
STRIDED = Layer("depthwise_conv2d", DepthwiseConv2D(Pair(2, 2), ONE), (1, 11, 10, 24), (3, 3, 24))
POINTWISE = Layer("conv2d", Conv2D(act=RELU), (1, 6, 7, 32), (24, 1, 1, 32))
IMAGE = Layer("conv2d", Conv2D(pad=ONE), (1, 9, 8, 12), (16, 3, 3, 12))
DENSE = Layer("fully_connected", FullyConnected(), (1, 96), (22, 96))
# Layers, and how far a cost may be from what is counted: their sizes decide which loops a compiler unrolls.
KERNELS: Mapping[str, tuple[tuple[Layer, ...], float]] = {
    "tc_depthwise_conv2d_s8": ((OF_COLUMN, SEPARABLE, STRIDED), 0.15),
    "tc_depthwise_conv2d_s8_taps": ((OF_COLUMN, SEPARABLE, STRIDED), 0.25),
    "tc_depthwise_conv2d_s8_dsp": ((OF_COLUMN, SEPARABLE, STRIDED), 0.15),
    "tc_conv2d_s8_dsp": ((POINTWISE, IMAGE), 0.15),
    "tc_conv2d_s8_scalar": ((POINTWISE, IMAGE), 0.15),
    "tc_fully_connected_s8": ((DENSE,), 0.25),
    "tc_fully_connected_s8_pairs": ((DENSE,), 0.15),
}
EVERY = {kernel.name: kernel for op in (conv2d, depthwise_conv2d, fully_connected) for kernel in op.OP.every_kernel}


@pytest.mark.parametrize("board_name", ["cortex-m4", "cortex-m0plus", "riscv32imc"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_costs_of_layers_alone(kernel: str, board_name: str) -> None:
    isa = load_board(board_name).isa
    layers, error = KERNELS[kernel]
    if not EVERY[kernel].isa <= isa:
        pytest.skip("a kernel for other cores")
    ratios = {}
    for layer in layers:
        graph = graph_of(layer)
        (executed,) = counts_together([(graph, samples(layer)[:1], kernel)], board_name=board_name)
        said = Asked.of(graph, Numerics.TFLM, isa).instructions(EVERY[kernel]) / SCALE[kind_of(isa)]
        ratios[layer.w_shape] = said / executed
    assert ratios == pytest.approx(dict.fromkeys(ratios, 1), abs=error)
