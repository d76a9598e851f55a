# SPDX-License-Identifier: Apache-2.0
"""Convolutions and fully connected layers whose kernels repeat many things: graphs of one node of many sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.ops.weighted import Layer, graph_of, in_int16
from tinyc.ir.graph import Graph
from tinyc.kernel.site import RELU, RELU6, Padding, Pair
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected

ONE, TWO, LATE = Padding(1, 1, 1, 1), Pair(2, 2), Padding(0, 1, 0, 1)

DENSE = (
    Layer("fully_connected", FullyConnected(), (1, 64), (2, 64)),
    Layer("fully_connected", FullyConnected(RELU), (1, 30), (7, 30)),
    Layer("fully_connected", FullyConnected(), (1, 258), (4, 258)),
    Layer("fully_connected", FullyConnected(), (1, 12), (128, 12)),
    Layer("fully_connected", FullyConnected(RELU), (1, 128), (70, 128), weights="signs"),
    Layer("fully_connected", FullyConnected(), (1, 640), (17, 640)),
    Layer("fully_connected", FullyConnected(RELU6), (1, 101), (75, 101)),
    Layer("fully_connected", FullyConnected(), (1, 9), (24, 9)),
    Layer("fully_connected", FullyConnected(), (5, 150), (12, 150)),
    Layer("fully_connected", FullyConnected(RELU), (3, 7), (40, 7), weights="signs"),
    Layer("fully_connected", FullyConnected(), (8, 60), (3, 60)),
)
DEPTHWISE = (
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE), (1, 9, 9, 20), (3, 3, 20)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, act=RELU), (1, 12, 21, 8), (3, 3, 8)),
    Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 3, 64, 4), (3, 3, 4)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE), (1, 2, 2, 128), (3, 3, 128)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, act=RELU), (1, 8, 5, 33), (3, 3, 33)),
    Layer("depthwise_conv2d", DepthwiseConv2D(TWO, ONE), (1, 9, 13, 48), (3, 3, 48)),
    Layer("depthwise_conv2d", DepthwiseConv2D(TWO, LATE, act=RELU), (1, 4, 6, 70), (3, 3, 70)),
    Layer("depthwise_conv2d", DepthwiseConv2D(TWO), (1, 3, 11, 16), (3, 3, 16)),
    Layer("depthwise_conv2d", DepthwiseConv2D(act=RELU), (1, 4, 4, 32), (3, 3, 32)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE), (1, 5, 30, 3), (3, 3, 3)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, act=RELU), (1, 3, 3, 64), (3, 3, 64)),
    Layer("depthwise_conv2d", DepthwiseConv2D(TWO, LATE), (1, 8, 16, 6), (3, 3, 6)),
    Layer("depthwise_conv2d", DepthwiseConv2D(TWO, ONE, act=RELU6), (1, 6, 24, 12), (3, 3, 12)),
    Layer("depthwise_conv2d", DepthwiseConv2D(TWO), (1, 5, 40, 4), (3, 3, 4)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=Padding(2, 2, 2, 2), act=RELU), (1, 6, 10, 16), (5, 5, 16)),
    Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 25, 5, 64), (25, 5, 64)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, dilation=TWO), (1, 7, 14, 8), (3, 3, 8)),
    Layer("depthwise_conv2d", DepthwiseConv2D(TWO), (1, 10, 10, 7), (2, 2, 7)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=Padding(2, 0, 2, 0), act=RELU), (1, 1, 30, 10), (1, 5, 10)),
    Layer("depthwise_conv2d", DepthwiseConv2D(act=RELU), (1, 18, 1, 40), (12, 1, 40)),
    Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 9, 1, 100), (9, 1, 100)),
    Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 6, 6, 24), (6, 6, 24)),
)
CONVOLUTIONS = (
    Layer("conv2d", Conv2D(), (1, 5, 7, 17), (10, 1, 1, 17)),
    Layer("conv2d", Conv2D(act=RELU), (1, 4, 4, 64), (30, 1, 1, 64)),
    Layer("conv2d", Conv2D(TWO), (1, 8, 8, 6), (5, 1, 1, 6)),
    Layer("conv2d", Conv2D(TWO, ONE), (1, 8, 8, 4), (8, 3, 3, 4)),
    Layer("conv2d", Conv2D(TWO, ONE, act=RELU), (1, 10, 6, 16), (20, 3, 3, 16)),
    Layer("conv2d", Conv2D(TWO, LATE), (1, 12, 14, 3), (8, 3, 3, 3)),
    Layer("conv2d", Conv2D(TWO, ONE), (1, 5, 5, 40), (6, 3, 3, 40), weights="signs"),
    Layer("conv2d", Conv2D(TWO, ONE), (1, 6, 12, 12), (36, 3, 3, 12), weights="signs"),
    Layer("conv2d", Conv2D(), (1, 3, 4, 640), (9, 1, 1, 640), weights="signs"),
    Layer("conv2d", Conv2D(), (1, 5, 3, 900), (4, 1, 1, 900), weights="signs"),
    Layer("conv2d", Conv2D(TWO), (1, 17, 9, 1), (4, 3, 3, 1)),
    Layer("conv2d", Conv2D(TWO, ONE), (1, 4, 4, 64), (4, 3, 3, 64)),
    Layer("conv2d", Conv2D(TWO, ONE, act=RELU), (1, 2, 2, 8), (64, 3, 3, 8)),
    Layer("conv2d", Conv2D(TWO, LATE), (1, 16, 4, 20), (4, 3, 3, 20)),
    Layer("conv2d", Conv2D(TWO), (1, 7, 7, 2), (32, 3, 3, 2)),
    Layer("conv2d", Conv2D(TWO, ONE, act=RELU), (1, 6, 6, 32), (12, 3, 3, 32), weights="small"),
    Layer("conv2d", Conv2D(Pair(2, 1), Padding(1, 4, 1, 5)), (1, 10, 10, 1), (24, 4, 10, 1)),
    Layer("conv2d", Conv2D(pad=ONE), (1, 5, 16, 64), (4, 3, 3, 64), weights="signs"),
    Layer("conv2d", Conv2D(pad=ONE, act=RELU6), (1, 6, 5, 24), (12, 3, 3, 24)),
    Layer("conv2d", Conv2D(), (1, 9, 3, 128), (4, 3, 3, 128), weights="signs"),
)

USUAL = (  # of int16, as models have them
    Layer("conv2d", Conv2D(pad=ONE, act=RELU), (1, 6, 8, 16), (16, 3, 3, 16)),
    Layer("conv2d", Conv2D(pad=ONE, act=RELU), (1, 8, 9, 3), (16, 3, 3, 3)),
    Layer("conv2d", Conv2D(pad=ONE), (1, 5, 7, 24), (8, 3, 3, 24)),
    Layer("conv2d", Conv2D(TWO, ONE), (1, 10, 12, 8), (24, 3, 3, 8)),
    Layer("conv2d", Conv2D(act=RELU), (1, 12, 5, 64), (32, 1, 1, 64)),
    Layer("conv2d", Conv2D(), (1, 4, 8, 32), (32, 1, 1, 32)),
    Layer("conv2d", Conv2D(pad=Padding(0, 2, 0, 2)), (1, 1, 40, 16), (16, 1, 5, 16)),
)


def weighted_layers() -> Iterator[Graph]:
    """All of them, with weights of int8, of int4, and of uint8 with a zero point; and of int16."""
    small = (replace(own, weights="small") for own in DENSE)
    for own in (*DENSE, *small, *DEPTHWISE, *CONVOLUTIONS):
        yield graph_of(own)
        yield graph_of(replace(own, bits=4))
        yield graph_of(replace(own, bits=9, w_zero=113))
    for own in (*DENSE, *DEPTHWISE, *CONVOLUTIONS, *USUAL):
        yield in_int16(graph_of(own))
