# SPDX-License-Identifier: Apache-2.0
"""Layers with int4 weights: every kernel against the reference, which computes them as it does int8 ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ops.harness import check_kernels
from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import candidates, select
from tinyc.ir.graph import Value
from tinyc.kernel.site import RELU, RELU6, Padding, Pair
from tinyc.kernels.nibbles import pack_nibbles
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.reference.interpreter import run_int

ONE = Padding(1, 1, 1, 1)


def conv(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), w, bits=4, **more)


def depthwise(x, w, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), w, bits=4, **more)


def dense(x, w, attrs=None, **more) -> Layer:
    return Layer("fully_connected", attrs or FullyConnected(), x, w, bits=4, **more)


LAYERS = {
    "3x3 same, relu": conv((7, 9, 3), (9, 3, 3, 3), Conv2D(pad=ONE, act=RELU), y_zero=-128),
    "3x3 stride 2, relu6": conv((8, 7, 5), (5, 3, 3, 5), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU6)),
    "3x3 of 16": conv((4, 5, 16), (17, 3, 3, 16), Conv2D(pad=ONE), x_zero=-128),
    "dilated": conv((9, 8, 3), (8, 3, 2, 3), Conv2D(Pair(2, 1), Padding(1, 2, 0, 1), Pair(2, 3)), x_zero=127),
    "groups": conv((5, 5, 6), (9, 3, 2, 2), Conv2D(groups=3, pad=ONE)),
    "10x4 of one channel": conv((13, 10, 1), (7, 10, 4, 1), Conv2D(Pair(2, 2), Padding(4, 1, 5, 1))),
    "1x1": conv((7, 5, 9), (13, 1, 1, 9), y_zero=127),
    "1x1 of one pixel": conv((1, 1, 8), (3, 1, 1, 8), per_channel=False),
    "1x1 relu without bias": conv((3, 3, 64), (8, 1, 1, 64), Conv2D(act=RELU), y_zero=-100, bias=False),
    "1x1 stride 2": conv((5, 7, 4), (8, 1, 1, 4), Conv2D(Pair(2, 2))),
    "1x1, long": conv((1, 3, 520), (5, 1, 1, 520), weights="largest"),
    "depthwise": depthwise((5, 9, 5), (3, 3, 5), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "depthwise of 8": depthwise((6, 7, 8), (3, 3, 8), DepthwiseConv2D(pad=ONE), weights="least"),
    "depthwise, stride 2": depthwise((8, 7, 4), (3, 3, 4), DepthwiseConv2D(Pair(2, 2), Padding(0, 1, 1, 1))),
    "depthwise, 5x1": depthwise((9, 1, 7), (5, 1, 7), DepthwiseConv2D(pad=Padding(2, 0, 2, 0)), x_zero=-128),
    "depthwise, multiplied": depthwise((4, 4, 3), (3, 2, 6), DepthwiseConv2D(dilation=Pair(1, 2))),
    "dense": dense((1, 37), (9, 37)),
    "dense, one": dense((1, 1), (1, 1)),
    "dense, rows, relu": dense((3, 16), (6, 16), FullyConnected(act=RELU), y_zero=-128),
    "dense, signs": dense((1, 130), (5, 130), weights="signs"),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("numerics", Numerics)
def test_reference_is_that_of_int8(name, numerics):
    """The same weights, scales and biases in an int8 graph mean the same."""
    graph = graph_of(LAYERS[name])
    wider = replace(graph, values=graph.values | {"w": replace(graph.values["w"], dtype="s8")})
    for sample in samples(LAYERS[name])[:2]:
        np.testing.assert_array_equal(run_int(graph, sample, numerics)["y"], run_int(wider, sample, numerics)["y"])


@pytest.mark.parametrize(
    "layer",
    [
        conv((2, 3, 5), (3, 1, 1, 5), weights="all least"),
        depthwise((4, 4, 3), (3, 3, 3), DepthwiseConv2D(pad=ONE), weights="all least"),
        dense((1, 17), (5, 17), weights="all least"),
    ],
    ids=lambda layer: layer.op,
)
def test_kernels_with_the_least_weights(layer):
    check_kernels(graph_of(layer), samples(layer))


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", LAYERS)
def test_kernels(name):
    numerics = list(Numerics)[list(LAYERS).index(name) % 3]
    names = check_kernels(graph_of(LAYERS[name]), samples(LAYERS[name]), numerics)
    is_exact = ("w4" in kernel or kernel.startswith("tc_conv2d_3x3") for kernel in names)
    assert all(is_exact), "only exact fast convolutions widen the weights"
    assert names[-1] == f"tc_{LAYERS[name].op}_s8_w4"


def test_nibbles_lie_in_order():
    packed = pack_nibbles(np.array([[1, -1, 7], [-8, 0, 5]], np.int8))
    assert packed.tolist() == [0xF1, 0x87, 0x50]
    assert pack_nibbles(np.array([-3], np.int8)).tolist() == [0x0D]
    with pytest.raises(ValueError, match="-9"):
        pack_nibbles(np.array([-9], np.int8))


def test_int4_takes_half_the_flash():
    layer = LAYERS["1x1 relu without bias"]
    graph = graph_of(layer)
    assert graph.values["w"].size_bytes == 8 * 64 // 2
    assert Value("odd", (3,), "s4").size_bytes == 2
    choice = select(graph, frozenset(), Numerics.TFLM, {"layer": "tc_conv2d_s8_w4"})["layer"]
    eight = select(graph_of(replace(layer, bits=8)), frozenset(), Numerics.TFLM, {"layer": "tc_conv2d_s8"})["layer"]
    assert choice.cost.flash_bytes < eight.cost.flash_bytes


def fewest_cycles(layer: Layer) -> float:
    choices = candidates(graph_of(layer), load_board("cortex-m4").isa, Numerics.TFLM)["layer"]
    return min(choice.cost.cycles for choice in choices)


@pytest.mark.parametrize(
    "layer",
    [
        conv((48, 48, 8), (16, 1, 1, 8), Conv2D(act=RELU), y_zero=-128),
        conv((24, 24, 16), (32, 1, 1, 16), Conv2D(act=RELU), y_zero=-128),
        conv((25, 5, 64), (64, 1, 1, 64), Conv2D(act=RELU), y_zero=-128),
        conv((96, 96, 3), (8, 3, 3, 3), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU), y_zero=-128),
        depthwise((15, 1, 128), (15, 1, 128), y_zero=-128),
        depthwise((25, 5, 64), (3, 3, 64), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    ],
    ids=["1x1 of 8", "1x1 of 16", "1x1 of 64", "first", "column", "depthwise"],
)
def test_hardly_slower_than_int8(layer):
    """On a Cortex-M4, all kernels allowed to both; layers of MLPerf Tiny."""
    assert fewest_cycles(layer) <= 1.1 * fewest_cycles(replace(layer, bits=8))


def test_computed_weights_have_no_kernel():
    graph = graph_of(LAYERS["dense"])
    computed = replace(graph, inputs=("x", "w"), consts={"b": graph.consts["b"]})
    with pytest.raises(TinycError, match="constant int4 weights"):
        select(computed, frozenset({"dsp"}), Numerics.TFLM)
