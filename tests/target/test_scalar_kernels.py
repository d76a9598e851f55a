# SPDX-License-Identifier: Apache-2.0
"""The kernels for cores without DSP instructions on an emulated Cortex-M3 and M0+: bytes equal to the reference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from one_layer import Asked, check_on_core, check_together, counts_together

from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.kernel.counted import SCALE, kind_of
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.kernels.scalar.conv import segment_of
from tinyc.ops import conv2d, fully_connected
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected

BOARDS = ["cortex-m3", "cortex-m0plus"]
ONE = Padding(1, 1, 1, 1)
KERNEL = {
    "conv2d": "tc_conv2d_s8_scalar",
    "depthwise_conv2d": "tc_depthwise_conv2d_3x3_s8_scalar",
    "fully_connected": "tc_fully_connected_s8_scalar",
}
INT4_KERNEL = {
    "conv2d": "tc_conv2d_s8_w4_scalar",
    "depthwise_conv2d": "tc_depthwise_conv2d_3x3_s8_w4_scalar",
    "fully_connected": "tc_fully_connected_s8_w4_scalar",
}

OFFSET_KERNEL = {
    "conv2d": "tc_conv2d_s8_offset_scalar",
    "depthwise_conv2d": "tc_depthwise_conv2d_3x3_s8_offset_scalar",
    "fully_connected": "tc_fully_connected_s8_held_scalar",
}
OTHER_OFFSET_KERNELS = {
    "depthwise_conv2d": ["tc_depthwise_conv2d_s8_offset_taps"],
    "fully_connected": ["tc_fully_connected_s8_pairs", "tc_fully_connected_s8_pairs_held"],
}


def offset_kernels(layer: Layer) -> list[str]:
    return [OFFSET_KERNEL[layer.op], *OTHER_OFFSET_KERNELS.get(layer.op, [])]


def conv(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), (w[0], w[1], w[2], x[2]), **more)


def depthwise(x, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (3, 3, x[2]), **more)


def dense(x, out, **more) -> Layer:
    return Layer("fully_connected", more.pop("attrs", FullyConnected()), x, (out, x[-1]), **more)


LAYERS = {
    "1x1": conv((5, 7, 9), (9, 1, 1), y_zero=-128),
    "1x1, one pixel": conv((1, 1, 5), (3, 1, 1)),
    "1x1, two pixels, relu": conv((1, 2, 8), (17, 1, 1), Conv2D(act=RELU), y_zero=-128),
    "3x3 same": conv((4, 5, 3), (8, 3, 3), Conv2D(pad=ONE, act=RELU6), x_zero=-128),
    "3x3, stride 2, long": conv((5, 7, 70), (5, 3, 3), Conv2D(Pair(2, 2), Padding(0, 1, 0, 1)), x_zero=127),
    "2x4, dilated": conv((6, 9, 3), (7, 2, 4), Conv2D(dilation=Pair(2, 2)), bias=False),
    "depthwise": depthwise((5, 9, 5), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "depthwise, one column": depthwise((4, 1, 3), DepthwiseConv2D(pad=ONE), x_zero=127),
    "depthwise, stride 2": depthwise((7, 8, 4), DepthwiseConv2D(Pair(2, 2), Padding(0, 1, 0, 1), act=RELU)),
    "depthwise, stride 2, odd": depthwise((9, 7, 3), DepthwiseConv2D(Pair(2, 2), ONE), y_zero=127),
    "dense": dense((1, 37), 9),
    "dense, one": dense((1, 1), 1),
    "dense, rows, relu": dense((3, 16), 6, attrs=FullyConnected(act=RELU), y_zero=-128),
}


# Every second layer by each rounding, side by side in one firmware.
HALVES = [(numerics, list(LAYERS.values())[i::2]) for i, numerics in enumerate((Numerics.TFLM, Numerics.OURS))]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(("numerics", "layers"), HALVES, ids=["tflm", "ours"])
def test_equals_the_reference(numerics: Numerics, layers: list[Layer], board: str) -> None:
    cases = [(graph_of(layer), samples(layer), KERNEL[layer.op]) for layer in layers]
    check_together(cases, numerics, board_name=board)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(("numerics", "layers"), HALVES, ids=["tflm", "ours"])
def test_int4_equals_the_reference(numerics: Numerics, layers: list[Layer], board: str) -> None:
    layers = [replace(layer, bits=4, weights="least") for layer in layers]
    cases = [(graph_of(layer), samples(layer)[:2], INT4_KERNEL[layer.op]) for layer in layers]
    check_together(cases, numerics, board_name=board)


HELD = {
    "one part": dense((3, 62), 70),
    "ragged parts": dense((2, 131), 9, weights="largest", x_zero=127),
    "parts, several groups of sums": dense((1, 129), 67, weights="signs", attrs=FullyConnected(act=RELU), y_zero=-128),
}


@pytest.mark.parametrize("board", BOARDS)
def test_inputs_on_the_stack(board: str) -> None:
    layers = [*HELD.values(), *(replace(layer, bits=9, w_zero=255) for layer in HELD.values())]
    cases = [(graph_of(one), samples(one), OFFSET_KERNEL["fully_connected"]) for one in layers]
    check_together(cases, board_name=board)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(("numerics", "layers"), HALVES, ids=["tflm", "ours"])
def test_weights_with_a_zero_point_equal_the_reference(numerics: Numerics, layers: list[Layer], board: str) -> None:
    zeros = (0, 113, 255, 128)
    layers = [replace(layer, bits=9, w_zero=zeros[i % len(zeros)]) for i, layer in enumerate(layers)]
    cases = [(graph_of(one), samples(one), kernel) for one in layers for kernel in offset_kernels(one)]
    check_together(cases, numerics, board_name=board)


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("weights", ["largest", "signs", "all least"])
def test_weights_with_a_zero_point_at_the_limits(weights: str, board: str) -> None:
    """Sums as large as uint8 less a zero point allows, over several segments."""
    names = ("3x3, stride 2, long", "depthwise", "dense")
    layers = [replace(LAYERS[n], weights=weights, bias=False, bits=9, w_zero=z) for n in names for z in (0, 255)]
    cases = [(graph_of(one), samples(one), kernel) for one in layers for kernel in offset_kernels(one)]
    check_together(cases, board_name=board)


@pytest.mark.parametrize("board", BOARDS)
def test_at_the_limits(board: str) -> None:
    """Sums as large as int8 allows, over several segments."""
    extremes = {"3x3, stride 2, long": "largest", "depthwise": "signs", "dense": "largest"}
    layers = [replace(LAYERS[name], weights=weights, bias=False) for name, weights in extremes.items()]
    check_together([(graph_of(layer), samples(layer), KERNEL[layer.op]) for layer in layers], board_name=board)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(
    ("numerics", "ways"),
    [
        (Numerics.TFLM, [(Act(), -5), (RELU, -128), (RELU, 7)]),
        (Numerics.OURS, [(RELU6, -128)]),
        (Numerics.LITERT, [(RELU6, 20)]),
    ],
    ids=["tflm", "ours", "litert"],
)
def test_ways_to_finish(numerics: Numerics, ways: list[tuple[Act, int]], board: str) -> None:
    layers = [conv((3, 5, 6), (9, 1, 1), Conv2D(act=act), y_zero=zero, gain=30.0, seed=7) for act, zero in ways]
    cases = [(graph_of(layer), samples(layer)[:2], KERNEL["conv2d"]) for layer in layers]
    check_together(cases, numerics, board_name=board)


@pytest.mark.parametrize("board", BOARDS)
def test_other_compiler(board: str) -> None:
    for name in ("3x3 same", "depthwise"):
        layer = LAYERS[name]
        check_on_core(graph_of(layer), samples(layer), KERNEL[layer.op], toolchain="zig", board_name=board)


def test_segments_are_as_long_as_sums_allow() -> None:
    """Below 2^20: 64 taps of -128 reach it, 62 do not; 64 of 127 do not, 66 do."""
    assert segment_of(np.full((2, 128), -128, np.int8)) == 62
    assert segment_of(np.full((2, 128), 127, np.int8)) == 64
    assert segment_of(np.full((2, 128), 1, np.int8)) == 128
    mixed = np.zeros((1, 200), np.int8)
    mixed[:, 64:130] = 127
    assert segment_of(mixed) == 128  # [0, 128) has 64 large taps, [128, 200) the other two


COSTS = [
    conv((10, 10, 32), (32, 1, 1), Conv2D(act=RELU), y_zero=-128, bits=4),
    conv((10, 12, 16), (24, 3, 3), Conv2D(pad=ONE, act=RELU), y_zero=-128, bits=4),
    conv((7, 9, 5), (11, 2, 4), bits=4),
    dense((1, 64), 12, bits=4),
    dense((4, 97), 40, bits=4),
]


@pytest.mark.parametrize("board_name", [*BOARDS, "riscv32imc"])
def test_costs_of_int4(board_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On each core by its own instructions: on RV32, without assembly for these loops, they are twice as many. They are
    in one library, where none has its kernel alone."""
    monkeypatch.setattr("tinyc.kernel.counted.is_alone", lambda site: False)
    isa = load_board(board_name).isa
    kernels = {kernel.name: kernel for op in (conv2d, fully_connected) for kernel in op.OP.every_kernel}
    cases = [(graph_of(layer), samples(layer)[:1], INT4_KERNEL[layer.op]) for layer in COSTS]
    for (graph, _, name), executed in zip(cases, counts_together(cases, board_name=board_name), strict=True):
        said = Asked.of(graph, Numerics.TFLM, isa).instructions(kernels[name]) / SCALE[kind_of(isa)]
        assert executed == pytest.approx(said, rel=0.08), graph.values["w"].shape
