# SPDX-License-Identifier: Apache-2.0
"""The kernels for int4 weights on an emulated Cortex-M4: bytes equal to the reference, and hardly dearer than int8."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_layer import check_on_core, check_together

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.kernels.stream import RAISED, matrix_of
from tinyc.ops import all_ops
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected

ONE = Padding(1, 1, 1, 1)
CONV, FPU, RAISED_KERNEL = (f"tc_conv2d_s8_w4{kind}_asm" for kind in ("", "_fpu", "_raised"))
DENSE = "tc_fully_connected_s8_w4_asm"
DEPTHWISE, LEAN, FOLDED = (f"tc_depthwise_conv2d_s8_w4_asm{suffix}" for suffix in ("", "_low_scratch", "_cut"))
COLUMN = "tc_depthwise_conv2d_s8_w4_column_asm"


def conv(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), (w[0], w[1], w[2], x[2]), bits=4, **more)


def dense(x, out, attrs=None, **more) -> Layer:
    return Layer("fully_connected", attrs or FullyConnected(), x, (out, x[-1]), bits=4, **more)


def depthwise(x, w, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (*w, x[2]), bits=4, **more)


LAYERS = {
    "1x1": (conv((3, 5, 12), (8, 1, 1), Conv2D(act=RELU), y_zero=-128), (CONV, FPU, RAISED_KERNEL)),
    "1x1, odd taps and channels": (conv((3, 3, 7), (9, 1, 1)), (CONV, FPU, RAISED_KERNEL)),
    "1x1, least weight": (conv((2, 3, 16), (5, 1, 1), weights="least"), (CONV, RAISED_KERNEL)),
    "1x1 of one": (conv((1, 1, 17), (3, 1, 1)), (CONV,)),
    "3x3": (conv((4, 5, 16), (17, 3, 3), Conv2D(pad=ONE, act=RELU6), x_zero=-128), (CONV, FPU, RAISED_KERNEL)),
    "3x3 of 3, stride 2": (conv((9, 8, 3), (7, 3, 3), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1))), (CONV, RAISED_KERNEL)),
    "3x3 of 8, stride 2, all least": (
        conv((9, 9, 8), (8, 3, 3), Conv2D(Pair(2, 2), ONE), x_zero=9, weights="all least"),
        (CONV, RAISED_KERNEL),
    ),
    "3x3 of 32": (conv((4, 5, 32), (4, 3, 3), Conv2D(pad=ONE)), (CONV,)),
    "1x3": (conv((3, 17, 8), (4, 1, 3), Conv2D(pad=Padding(0, 1, 0, 1))), (CONV, FPU, RAISED_KERNEL)),
    "3x3 of 33": (conv((3, 4, 33), (5, 3, 3), Conv2D(pad=ONE), x_zero=127), (CONV,)),
    "3x3, one column of outputs": (conv((6, 3, 4), (5, 3, 3)), (CONV,)),
    "dilated": (conv((7, 9, 5), (4, 2, 3), Conv2D(dilation=Pair(2, 3))), (CONV,)),
    "depthwise": (
        depthwise((5, 9, 5), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
        (DEPTHWISE, LEAN),
    ),
    "depthwise, least": (depthwise((6, 6, 8), (3, 3), DepthwiseConv2D(pad=ONE), weights="least"), (DEPTHWISE,)),
    "depthwise, stride 2": (depthwise((8, 7, 7), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE), x_zero=127), (DEPTHWISE,)),
    "depthwise, column": (depthwise((17, 1, 4), (7, 1), DepthwiseConv2D(pad=Padding(3, 0, 3, 0))), (DEPTHWISE, COLUMN)),
    "depthwise, 5x1 unpadded": (depthwise((20, 1, 6), (5, 1), weights="least"), (DEPTHWISE, FOLDED)),
    "depthwise, 1x11 unpadded": (depthwise((1, 22, 8), (1, 11)), (DEPTHWISE, FOLDED)),
    "depthwise, 15x1": (depthwise((17, 1, 4), (15, 1)), (DEPTHWISE, LEAN, COLUMN)),
    "depthwise, 4x1 of 9": (
        depthwise((9, 3, 9), (4, 1), DepthwiseConv2D(Pair(2, 1), act=RELU), y_zero=-128, weights="least"),
        (COLUMN,),
    ),
    "depthwise, 5x5": (depthwise((7, 9, 6), (5, 5), DepthwiseConv2D(pad=Padding(2, 2, 2, 2))), (DEPTHWISE,)),
    "depthwise, 1x1": (depthwise((3, 3, 5), (1, 1)), (DEPTHWISE,)),
    "dense": (dense((1, 130), 9), (DENSE,)),
    "dense, three taps": (dense((1, 3), 5), (DENSE,)),
    "dense, rows": (dense((3, 17), 6, FullyConnected(act=RELU), y_zero=-128), (DENSE,)),
    "dense, signs": (dense((1, 300), 8, weights="signs", gain=0.3), (DENSE,)),
}


@pytest.mark.parametrize(("first", "numerics"), list(enumerate([Numerics.TFLM, Numerics.OURS])))
def test_equals_the_reference(first: int, numerics: Numerics) -> None:
    """Every second layer by each rounding, with all of its kernels, side by side in one firmware."""
    layers = list(LAYERS.values())[first::2]
    cases = [(graph_of(layer), samples(layer), kernel) for layer, kernels in layers for kernel in kernels]
    check_together(cases, numerics)


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
def test_ways_to_finish(numerics: Numerics) -> None:
    layers = [
        conv((3, 5, 6), (9, 1, 1), Conv2D(act=act), y_zero=y_zero, gain=30.0, seed=7, weights=weights)
        for act, y_zero in ((Act(), -5), (RELU, 7), (RELU6, 20))
        for weights in ("random", "least")
    ]
    check_together([(graph_of(layer), samples(layer)[:2], CONV) for layer in layers], numerics)


def test_ways_to_finish_in_the_upper_bits() -> None:
    """Weights times 2^12 beside each other: sums that come so, and those that are first shifted right."""
    stride = Conv2D(Pair(2, 2), Padding(0, 0, 1, 1))
    layers = [
        conv((9, 8, 3), (7, 3, 3), replace(stride, act=act), gain=gain, per_channel=per_channel, seed=seed)
        for act, gain, seed in ((Act(), 1.0, 0), (RELU, 0.1, 1), (RELU6, 0.3, 2))
        for per_channel in (True, False)
    ]
    graphs = [graph_of(layer) for layer in layers]
    sites = [Site(graph, graph.nodes[0], Numerics.TFLM) for graph in graphs]
    finishes = [RAISED.finish_of(matrix_of(all_ops()["conv2d"].prepare(site))) for site in sites]
    ways = {(each.requant.halve, each.requant.shifts is None) for each in finishes if each is not None}
    assert ways >= {(True, True), (False, False)}, "the layers are no longer those that the test is for"
    usable = [number for number, each in enumerate(finishes) if each is not None]
    check_together([(graphs[number], samples(layers[number])[:2], RAISED_KERNEL) for number in usable])


def test_other_compiler() -> None:
    layer = LAYERS["3x3"][0]
    check_on_core(graph_of(layer), samples(layer), CONV, toolchain="zig")


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("layer", "int8"),
    [
        (conv((5, 5, 64), (64, 1, 1), Conv2D(act=RELU), y_zero=-128), "tc_conv2d_s8_asm"),
        (conv((8, 8, 32), (32, 3, 3), Conv2D(pad=ONE, act=RELU), y_zero=-128), "tc_conv2d_s8_asm"),
        (conv((8, 8, 16), (16, 3, 3), Conv2D(pad=ONE, act=RELU), y_zero=-128), "tc_conv2d_s8_asm"),
        (depthwise((9, 7, 16), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128), "tc_depthwise_conv2d_s8_asm"),
    ],
    ids=["1x1", "3x3", "3x3 of 16", "depthwise"],
)
def test_price_of_int4(layer: Layer, int8: str) -> None:
    """At most a tenth more instructions than int8 weights (of conv2d: two channels over each other)."""
    four = check_on_core(graph_of(layer), samples(layer)[:1], int8.replace("s8_asm", "s8_w4_asm"), Numerics.OURS)
    wide = replace(layer, bits=8)
    eight = check_on_core(graph_of(wide), samples(wide)[:1], int8, Numerics.OURS)
    assert four.counts[0].total <= 1.1 * eight.counts[0].total
