# SPDX-License-Identifier: Apache-2.0
"""The kernels for RV32IM on an emulated core: bytes equal to the reference."""

from __future__ import annotations

from dataclasses import replace

import pytest
from one_layer import check_on_core, check_together, offer_of

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.kernels.scalar import rv32_conv
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected

BOARD = "riscv32imc"
ONE = Padding(1, 1, 1, 1)
SIX = "tc_conv2d_s8_rv32_six"
KERNEL = {8: "tc_conv2d_s8_rv32", 4: "tc_conv2d_s8_w4_rv32"}
DEPTHWISE = {8: "tc_depthwise_conv2d_3x3_s8_rv32", 4: "tc_depthwise_conv2d_3x3_s8_w4_rv32"}
DENSE = {8: "tc_fully_connected_s8_rv32", 4: "tc_fully_connected_s8_w4_rv32"}


def conv(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), (w[0], w[1], w[2], x[2]), **more)


def depthwise(x, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (3, 3, x[2]), **more)


LAYERS = {
    "1x1": conv((5, 7, 9), (9, 1, 1), y_zero=-128),
    "1x1, one pixel": conv((1, 1, 5), (3, 1, 1)),
    "1x1, two pixels, relu": conv((1, 2, 8), (17, 1, 1), Conv2D(act=RELU), y_zero=-128),
    "3x3 same": conv((4, 5, 3), (8, 3, 3), Conv2D(pad=ONE, act=RELU6), x_zero=-128),
    "3x3, stride 2, long": conv((5, 7, 70), (5, 3, 3), Conv2D(Pair(2, 2), Padding(0, 1, 0, 1)), x_zero=127),
    "2x4, dilated": conv((6, 9, 3), (7, 2, 4), Conv2D(dilation=Pair(2, 2)), bias=False),
}
DENSES = {
    "dense": Layer("fully_connected", FullyConnected(), (1, 37), (9, 37)),
    "one": Layer("fully_connected", FullyConnected(), (1, 1), (1, 1)),
    "rows, relu": Layer("fully_connected", FullyConnected(act=RELU), (3, 16), (6, 16), y_zero=-128),
    "largest": Layer("fully_connected", FullyConnected(), (1, 700), (8, 700), weights="largest"),
}
DEPTHWISES = {
    "same": depthwise((5, 9, 5), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "one column": depthwise((4, 1, 3), DepthwiseConv2D(pad=ONE), x_zero=127),
    "two columns, wide pads": depthwise((3, 2, 3), DepthwiseConv2D(pad=Padding(2, 2, 2, 2)), x_zero=-128),
    "valid": depthwise((3, 7, 4)),
    "stride 2": depthwise((7, 8, 4), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU)),
    "stride 2, odd": depthwise((9, 7, 3), DepthwiseConv2D(Pair(2, 2), ONE), y_zero=127),
    "wide": depthwise((3, 31, 3), DepthwiseConv2D(pad=ONE, act=RELU), x_zero=-100, y_zero=-128),
    "wide, stride 2": depthwise((3, 38, 2), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1)), y_zero=5),
    "far columns": depthwise((3, 9, 300), DepthwiseConv2D(Pair(1, 2), ONE)),
    "wide and far": depthwise((3, 16, 210), DepthwiseConv2D(pad=ONE)),
    "stride 2, one column": depthwise((3, 1, 2), DepthwiseConv2D(Pair(1, 2), ONE), weights="least"),
}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("layers", [LAYERS, DEPTHWISES, DENSES], ids=["conv2d", "depthwise", "dense"])
def test_equals_the_reference(layers: dict[str, Layer], bits: int) -> None:
    """Every second layer by each rounding, side by side in one firmware."""
    kernels = {"conv2d": KERNEL, "depthwise_conv2d": DEPTHWISE, "fully_connected": DENSE}
    for first, numerics in enumerate((Numerics.TFLM, Numerics.OURS)):
        chosen = [replace(layer, bits=bits) for layer in list(layers.values())[first::2]]
        cases = [(graph_of(layer), samples(layer), kernels[layer.op][bits]) for layer in chosen]
        if layers is LAYERS and bits == 8:
            cases += [(graph_of(layer), samples(layer), SIX) for layer in chosen]
        check_together(cases, numerics, board_name=BOARD)


def test_pixels_as_fully_connected() -> None:
    """One and two; a number of inputs that is no multiple of a segment, outputs behind the last twelve."""
    layers = [conv((1, 1, 37), (21, 1, 1)), conv((1, 2, 16), (12, 1, 1), Conv2D(act=RELU), y_zero=-128)]
    check_together(
        [(graph_of(layer), samples(layer), "tc_conv2d_pixels_s8_rv32") for layer in layers], board_name=BOARD
    )


def taps(x, w, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (*w, x[2]), **more)


TWO = Padding(2, 2, 2, 2)
TAPS = {
    "padded on all sides, dilated": taps(
        (5, 9, 6), (3, 5), DepthwiseConv2D(Pair(1, 2), Padding(2, 3, 1, 2), Pair(1, 2), act=RELU), weights="least"
    ),
    "two blocks, one over the other, an odd number of pixels": taps((6, 7, 13), (5, 5), DepthwiseConv2D(pad=TWO)),
    "three blocks, an even number of pixels": taps((5, 8, 24), (5, 5), DepthwiseConv2D(pad=TWO, act=RELU), y_zero=-128),
    "one pixel": taps((15, 1, 16), (15, 1), y_zero=3, weights="largest"),
    "five channels, nothing outside": taps((4, 9, 5), (2, 4), DepthwiseConv2D(Pair(1, 3))),
    "rows alone": taps((9, 4, 5), (7, 1), DepthwiseConv2D(Pair(2, 1), Padding(top=3, left=0, bottom=3, right=0))),
    "columns alone, all outside but one": taps(
        (1, 1, 9), (1, 5), DepthwiseConv2D(pad=Padding(top=0, left=2, bottom=0, right=2)), x_zero=127
    ),
    "far rows": taps((3, 5, 700), (2, 2), DepthwiseConv2D(dilation=Pair(1, 3)), weights="signs"),
}


@pytest.mark.parametrize("bits", [8, 4])
def test_depthwise_of_any_size(bits: int) -> None:
    kernel = DEPTHWISE[bits].replace("3x3_", "")
    for first, numerics in enumerate((Numerics.TFLM, Numerics.OURS)):
        layers = [replace(layer, bits=bits) for layer in list(TAPS.values())[first::2]]
        check_together([(graph_of(layer), samples(layer), kernel) for layer in layers], numerics, board_name=BOARD)


BLOCKS = {
    "eight channels, rows of five": conv((2, 5, 4), (8, 1, 4), Conv2D(act=RELU), y_zero=-128, gain=0.5),
    "two blocks and one channel": conv((1, 7, 8), (17, 1, 1), Conv2D(act=RELU), y_zero=-128, gain=0.5),
    "four taps": conv((1, 4, 3), (8, 1, 1), Conv2D(act=RELU), y_zero=-128, gain=0.5),
    "twelve taps": conv((1, 5, 12), (16, 1, 1), Conv2D(act=RELU), y_zero=-128, gain=0.5),
    "clamped": conv((3, 4, 5), (16, 1, 1), Conv2D(act=RELU6), y_zero=-100, seed=3),
}


@pytest.mark.parametrize("board", [BOARD, "hazard3"])
def test_blocks_of_channels_go_to_bytes_in_registers(board: str) -> None:
    """Groups of three, two and one pixels; with bit manipulation, the clamp is another."""
    for layer in BLOCKS.values():
        graph = graph_of(layer)
        site = Site(graph, graph.nodes[0], Numerics.TFLM)
        assert "blocks" in offer_of(rv32_conv.CONV2D[0], site).special().name
    cases = [(graph_of(layer), samples(layer), name) for layer in BLOCKS.values() for name in (KERNEL[8], SIX)]
    check_together(cases, board_name=board)


@pytest.mark.parametrize("bits", [8, 4])
def test_at_the_limits(bits: int) -> None:
    """Sums as large as weights allow, of int8 over several segments."""
    long = replace(LAYERS["3x3, stride 2, long"], bias=False, bits=bits)
    layers = [replace(long, weights=weights) for weights in ("largest", "signs", "least")]
    kernels = {8: (KERNEL[8], SIX), 4: (KERNEL[4],)}[bits]
    check_together([(graph_of(layer), samples(layer), name) for layer in layers for name in kernels], board_name=BOARD)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("act", "y_zero", "numerics"),
    [(Act(), -5, Numerics.TFLM), (RELU, 7, Numerics.TFLM), (RELU6, -128, Numerics.OURS), (RELU6, 20, Numerics.OURS)],
)
def test_ways_to_finish(act: Act, y_zero: int, numerics: Numerics) -> None:
    layer = conv((3, 5, 6), (9, 1, 1), Conv2D(act=act), y_zero=y_zero, gain=30.0, seed=7)
    check_on_core(graph_of(layer), samples(layer)[:2], KERNEL[8], numerics, board_name=BOARD)


@pytest.mark.parametrize("bits", [8, 4])
def test_other_compiler(bits: int) -> None:
    layer = replace(LAYERS["3x3 same"], bits=bits)
    check_on_core(graph_of(layer), samples(layer), KERNEL[bits], toolchain="zig", board_name=BOARD)


def test_columns_of_pixels() -> None:
    """Whole turns, outputs behind them and fewer than a turn; as many weights as registers hold; over their input."""
    shapes = ((3, 11, 5), (10, 24, 3), (10, 13, 2), (4, 6, 7), (2, 9, 1))
    weights = ("random", "signs", "largest", "random", "least")
    layers = [
        Layer("depthwise_conv2d", DepthwiseConv2D(act=act), (1, h, 1, c), (k, 1, c), y_zero=zero, weights=kind)
        for act, zero in ((RELU, -128), (Act(), 3))
        for (k, h, c), kind in zip(shapes, weights, strict=True)
    ]
    kernel = "tc_depthwise_conv2d_column_s8_rv32"
    check_together([(graph_of(layer), samples(layer), kernel) for layer in layers], board_name=BOARD)
