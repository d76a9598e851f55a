# SPDX-License-Identifier: Apache-2.0
"""uint8 weights less a zero point: every kernel on the host gives the reference's bytes, those of 8 bits among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected

ONE = Padding(1, 1, 1, 1)
CONV, DENSE = {"tc_conv2d_s8_offset_scalar"}, {"tc_fully_connected_s8_held_scalar", "tc_fully_connected_s8_pairs"}
TAPS, COLUMNS = {"tc_depthwise_conv2d_s8_offset_taps"}, {"tc_depthwise_conv2d_3x3_s8_offset_scalar"}
LAYERS = {
    "3x3": (Layer("conv2d", Conv2D(pad=ONE, act=RELU), (1, 5, 7, 9), (9, 3, 3, 9), x_zero=-128, y_zero=-128), CONV),
    "long sums": (Layer("conv2d", Conv2D(Pair(2, 2), ONE), (1, 5, 5, 60), (5, 3, 3, 60), x_zero=127), CONV),
    "1x1": (Layer("conv2d", Conv2D(), (1, 3, 5, 8), (6, 1, 1, 8), bias=False), CONV),
    "depthwise": (Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE), (1, 5, 7, 6), (3, 3, 6)), TAPS | COLUMNS),
    "depthwise, stride 2": (
        Layer("depthwise_conv2d", DepthwiseConv2D(Pair(2, 2), ONE, act=RELU), (1, 6, 8, 5), (3, 3, 5), x_zero=-90),
        TAPS | COLUMNS,
    ),
    "depthwise 2x5, dilated": (
        Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE, dilation=Pair(1, 2)), (1, 6, 11, 3), (2, 5, 3)),
        TAPS,
    ),
    "dense": (Layer("fully_connected", FullyConnected(), (2, 37), (9, 37), x_zero=-128), DENSE),
    "dense, long": (Layer("fully_connected", FullyConnected(act=RELU), (1, 300), (3, 300), x_zero=127), DENSE),
}
ZEROS = (0, 1, 113, 128, 254, 255)


@pytest.mark.parametrize("zero", ZEROS)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels_equal_the_reference(name: str, zero: int) -> None:
    layer, kernels = LAYERS[name]
    layer = replace(layer, bits=9, w_zero=zero)
    assert set(check_kernels(graph_of(layer), samples(layer))) >= kernels | {"tc_conv2d_s8_w16"}


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.ONNX, Numerics.LITERT])
@pytest.mark.parametrize("weights", ["largest", "signs", "all least"])
@pytest.mark.parametrize("name", ["long sums", "depthwise", "dense, long"])
def test_at_the_limits(name: str, weights: str, numerics: Numerics) -> None:
    layer, kernels = LAYERS[name]
    for zero in (0, 255):
        extreme = replace(layer, bits=9, w_zero=zero, weights=weights, bias=False)
        assert set(check_kernels(graph_of(extreme), samples(extreme), numerics)) >= kernels


def test_weights_that_no_one_offset_brings_to_8_bits_stay_in_16() -> None:
    """As those of output channels with zero points of their own, 0 and 255."""
    layer, kernels = LAYERS["dense"]
    layer = replace(layer, bits=9)
    names = check_kernels(graph_of(layer), samples(layer))
    assert names[-1] == "tc_conv2d_s8_w16"
    assert not set(names) & kernels
    assert "tc_fully_connected_s8_held_scalar" in check_kernels(graph_of(replace(layer, bits=8)), samples(layer))
    assert np.ptp(graph_of(layer).consts["w"]) > 255
