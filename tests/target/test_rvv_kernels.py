# SPDX-License-Identifier: Apache-2.0
"""The kernels with RISC-V's vectors on emulated cores with registers of 64, 128 and 256 bits: the reference's bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from one_layer import check_on_core, check_together, offer_of

from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer, graph_of, samples
from tinyc.base import paths
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair, Site
from tinyc.kernels.rvv import depthwise as rvv_depthwise
from tinyc.kernels.rvv.finish import ADDED, DEFINED, PLAIN, vector_finish
from tinyc.kernels.scalar.loops.costs import ARMV7M_SHARE
from tinyc.kernels.stream import matrix_of
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.sub import Sub

BOARD = "riscv32-zve32x"
# QEMU 7.2 has 64 bits only by the name of another extension, of which the firmware has no instruction.
CPUS = {64: "rv32,Zve32f=true,vlen=64", 128: "rv32,v=true,vlen=128", 256: "rv32,v=true,vlen=256"}
ONE = Padding(1, 1, 1, 1)
KERNELS = {
    "conv2d": "tc_conv2d_s8_rvv",
    "fully_connected": "tc_fully_connected_s8_rvv",
    "depthwise_conv2d": "tc_depthwise_conv2d_s8_rvv",
    "max_pool2d": "tc_max_pool2d_s8_rvv",
    "avg_pool2d": "tc_avg_pool2d_s8_rvv",
    "add": "tc_add_linear_s8_rvv",
    "sub": "tc_add_linear_s8_rvv",
}


def conv(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), (w[0], w[1], w[2], x[2]), **more)


def dense(x, w, attrs=None, **more) -> Layer:
    return Layer("fully_connected", attrs or FullyConnected(), x, w, **more)


def depthwise(x, w, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (*w, x[2]), **more)


LAYERS = {
    "1x1": conv((5, 7, 9), (9, 1, 1), y_zero=-128),
    "1x1, one pixel": conv((1, 1, 5), (3, 1, 1)),
    "1x1, two pixels, relu, many channels": conv((1, 2, 8), (67, 1, 1), Conv2D(act=RELU), y_zero=-128),
    "1x1, one tap, 33 channels": conv((16, 16, 1), (33, 1, 1), gain=0.3),
    "3x3 same": conv((4, 5, 3), (8, 3, 3), Conv2D(pad=ONE, act=RELU6), x_zero=-128),
    "3x3, stride 2, long": conv((5, 7, 70), (5, 3, 3), Conv2D(Pair(2, 2), Padding(0, 1, 0, 1)), x_zero=127),
    "2x4, dilated": conv((6, 9, 3), (7, 2, 4), Conv2D(dilation=Pair(2, 2)), bias=False),
    "10x4 of one channel": conv(
        (13, 10, 1), (40, 10, 4), Conv2D(Pair(2, 2), Padding(4, 1, 5, 1), act=RELU), y_zero=-128
    ),
    "rows longer than vectors": conv((3, 2, 150), (20, 2, 2), Conv2D(act=RELU6), y_zero=-100),
    "least": conv((2, 3, 20), (18, 1, 1), weights="all least"),
    "dense": dense((1, 37), (9, 37)),
    "one": dense((1, 1), (1, 1)),
    "rows, relu": dense((3, 16), (70, 16), FullyConnected(act=RELU), y_zero=-128),
    "largest": dense((1, 702), (130, 702), weights="largest"),
}
DEPTHWISES = {
    "same": depthwise((5, 9, 35), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "one column": depthwise((4, 1, 3), (3, 3), DepthwiseConv2D(pad=ONE), x_zero=127),
    "wide pads": depthwise((3, 2, 3), (3, 3), DepthwiseConv2D(pad=Padding(2, 2, 2, 2)), x_zero=-128),
    "stride 2": depthwise((7, 8, 40), (3, 3), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1), act=RELU6)),
    "pairs": depthwise((5, 6, 33), (3, 3), DepthwiseConv2D(pad=ONE), weights="signs"),
    "one by one": depthwise((5, 6, 17), (3, 3), DepthwiseConv2D(pad=ONE), weights="all least"),
    "threes": depthwise((4, 7, 20), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), bits=4, y_zero=-128),
    "column": depthwise((14, 1, 66), (10, 1), DepthwiseConv2D(act=RELU), y_zero=-128),
    "dilated": depthwise(
        (9, 11, 6), (3, 5), DepthwiseConv2D(Pair(1, 2), Padding(2, 3, 1, 2), Pair(1, 2)), weights="least"
    ),
    "one tap": depthwise((3, 4, 130), (1, 1)),
    "four pixels together": depthwise((4, 12, 8), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "four of seven": depthwise((3, 9, 8), (3, 3), weights="signs"),
    "ten, a column": depthwise((9, 21, 3), (5, 1), DepthwiseConv2D(act=RELU6)),
    "too few": depthwise((3, 5, 8), (3, 3)),
}


def others() -> list[Graph]:
    """Pools and sums, lengths around those of vectors."""
    graphs = []
    for shape in ((1, 7, 5, 9), (1, 4, 6, 133)):
        x = tensor("x", shape, 0.1, 7)
        for op, attrs in (("max_pool2d", MaxPool2D), ("avg_pool2d", AvgPool2D)):
            for kernel, stride, pad in ((2, 2, Padding(0, 0, 0, 0)), (3, 1, ONE), (3, 2, Padding(0, 1, 1, 1))):
                sizes = (Pair(kernel, kernel), Pair(stride, stride), pad)
                graphs.append(one_node(op, attrs(*sizes, act=RELU6 if kernel == 3 else Act()), [x], 0.1, 7))
            graphs.append(one_node(op, attrs(Pair(*shape[1:3])), [x], 0.1, 7))
        graphs.append(one_node("max_pool2d", MaxPool2D(Pair(2, 3), dilation=Pair(2, 2), pad=ONE), [x], 0.1, 7))
        graphs.append(one_node("avg_pool2d", AvgPool2D(Pair(3, 2), pad=ONE, count_pad=True), [x], 0.1, 7))
    least = tensor("x", (1, 17, 15, 5), 0.1, -128)
    graphs.append(one_node("avg_pool2d", AvgPool2D(Pair(17, 15)), [least], 0.1, -128))
    for count in (1, 31, 32, 97):
        a, b = tensor("a", (1, count), 0.02, 11), tensor("b", (1, count), 0.03, -90)
        graphs.append(one_node("add", Add(), [a, b], 0.05, -31))
        graphs.append(one_node("sub", Sub(RELU), [a, b], 0.01, -100))
    return graphs


@pytest.fixture(scope="module")
def board_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], str]:
    """board_of(bits of a register) -> the board's file."""

    def file(bits: int) -> str:
        text = (paths.boards_dir() / f"{BOARD}.toml").read_text(encoding="utf-8")
        assert CPUS[128] in text
        path: Path = tmp_path_factory.mktemp("boards") / f"vlen{bits}.toml"
        path.write_text(text.replace(CPUS[128], CPUS[bits]), encoding="utf-8")
        return str(path)

    return file


def check(layers: dict[str, Layer], numerics: Numerics, board: str, toolchain: str = "gcc") -> None:
    cases = [(graph_of(layer), samples(layer), KERNELS[layer.op]) for layer in layers.values()]
    check_together(cases, numerics, toolchain, board)


def way_of(layer: Layer, numerics: Numerics) -> str:
    graph = graph_of(layer)
    finish = vector_finish(matrix_of(all_ops()[layer.op].prepare(Site(graph, graph.nodes[0], numerics))))
    return finish.way if finish else ""


@pytest.mark.parametrize("bits", CPUS)
def test_equals_the_reference(board_of: Callable[[int], str], bits: int) -> None:
    """The bytes depend neither on how many channels fit a vector nor on whether the last ones fill it."""
    check(LAYERS, Numerics.TFLM, board_of(bits))


def ends(graph: Graph) -> list[Mapping[str, Array]]:
    """Random inputs, and ends of the range."""
    rng = np.random.default_rng(3)
    shapes = {name: graph.values[name].shape for name in graph.inputs}
    drawn = {name: rng.integers(-128, 128, shape).astype(np.int8) for name, shape in shapes.items()}
    return [drawn, *({name: np.full(shape, end, np.int8) for name, shape in shapes.items()} for end in (-128, 127))]


PLANES = {
    **{name: layer for name, layer in LAYERS.items() if layer.op == "conv2d" and name != "3x3, stride 2, long"},
    "3x3, stride 2, three channels": conv((9, 71, 3), (8, 3, 3), Conv2D(Pair(2, 2), Padding(0, 1, 0, 1), act=RELU)),
    "stride 3 of two": conv((4, 40, 3), (4, 1, 2), Conv2D(Pair(1, 3), Padding(0, 0, 2, 1))),
    "wide pads, dilated": conv((5, 6, 2), (5, 2, 3), Conv2D(Pair(1, 2), Padding(2, 1, 9, 8), Pair(1, 3)), x_zero=99),
    "sixteen": conv((4, 35, 16), (16, 3, 3), Conv2D(pad=ONE), weights="signs"),
}


@pytest.mark.parametrize("bits", CPUS)
def test_lanes_of_pixels_equal_the_reference(board_of: Callable[[int], str], bits: int) -> None:
    cases = [(graph_of(layer), samples(layer), "tc_conv2d_s8_rvv_planes") for layer in PLANES.values()]
    check_together(cases, board_name=board_of(bits))


def test_lanes_of_pixels_in_every_way_to_int8() -> None:
    cases = []
    for way, layer in {PLAIN: conv((2, 33, 6), (7, 1, 1), y_zero=-128), ADDED: PLANES["sixteen"]}.items():
        assert way_of(layer, Numerics.OURS) == way
        cases.append((graph_of(layer), samples(layer), "tc_conv2d_s8_rvv_planes"))
    check_together(cases, Numerics.OURS, board_name=BOARD)


@pytest.mark.parametrize("bits", CPUS)
def test_depthwise_equals_the_reference(board_of: Callable[[int], str], bits: int) -> None:
    layers = {name: replace(layer, bits=8) for name, layer in DEPTHWISES.items() if layer.bits == 8}
    check(layers, Numerics.TFLM, board_of(bits))
    small = graph_of(DEPTHWISES["threes"])  # weights so small that three products fit 16 bits
    w = small.values["w"]
    small = replace(small, values={**small.values, "w": replace(w, dtype="s8")})
    check_on_core(small, samples(DEPTHWISES["threes"]), KERNELS["depthwise_conv2d"], board_name=board_of(bits))


def test_depthwise_layers_go_every_way() -> None:
    """Three products at a time, two, and any number of taps."""
    walks = set()
    for layer in DEPTHWISES.values():
        graph = graph_of(replace(layer, bits=8))
        taps = graph_of(layer).consts["w"].reshape(-1, layer.out_c).T
        p = replace(
            all_ops()[layer.op].prepare(Site(graph, graph.nodes[0], Numerics.TFLM)), w=graph_of(layer).consts["w"]
        )
        assert p.w.size == taps.size
        walks.add(rvv_depthwise.walk(p))
    assert {(3, True), (2, True), (1, False), (2, False)} <= walks


@pytest.mark.parametrize("bits", CPUS)
def test_pools_and_sums_equal_the_reference(board_of: Callable[[int], str], bits: int) -> None:
    cases = [(graph, ends(graph), KERNELS[graph.nodes[0].op]) for graph in others()]
    check_together(cases, board_name=board_of(bits))


@pytest.mark.parametrize("numerics", [Numerics.OURS, Numerics.LITERT, Numerics.ONNX])
def test_other_numerics(numerics: Numerics) -> None:
    check({name: layer for name, layer in LAYERS.items() if way_of(layer, numerics)}, numerics, BOARD)


def test_every_way_to_int8_runs() -> None:
    """Samples at the ends of the range: sums as large as the weights allow, of both signs."""
    ways = [
        (PLAIN, conv((3, 5, 6), (35, 1, 1), gain=0.05, y_zero=-128), Numerics.TFLM),
        (DEFINED, conv((4, 3, 64), (35, 3, 3), weights="signs", gain=1.0), Numerics.TFLM),
        (DEFINED, conv((5, 7, 1), (33, 1, 1), gain=15.0), Numerics.TFLM),  # many sums are halves of either sign
        (ADDED, conv((4, 3, 64), (35, 3, 3), weights="signs", y_zero=-5), Numerics.OURS),
    ]
    for way, layer, numerics in ways:
        assert way_of(layer, numerics) == way
        check_on_core(graph_of(layer), samples(layer), KERNELS["conv2d"], numerics, board_name=BOARD)


COUNTED = [
    (conv((7, 9, 64), (64, 1, 1), Conv2D(act=RELU), y_zero=-128), "tc_conv2d_s8_rvv"),
    (conv((8, 8, 32), (32, 3, 3), Conv2D(pad=ONE), x_zero=-128), "tc_conv2d_s8_rvv"),
    (conv((12, 32, 3), (8, 3, 3), Conv2D(Pair(1, 1), ONE, act=RELU), y_zero=-128), "tc_conv2d_s8_rvv_planes"),
    (dense((1, 128), (128, 128), FullyConnected(act=RELU), y_zero=-128), "tc_fully_connected_s8_rvv"),
    (depthwise((12, 12, 64), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128), "tc_depthwise_conv2d_s8_rvv"),
    (depthwise((10, 1, 96), (5, 1), DepthwiseConv2D(act=RELU), y_zero=-128), "tc_depthwise_conv2d_s8_rvv"),
]


def test_estimates_are_what_is_executed() -> None:
    """Within a fourth: they choose between kernels."""
    for layer, kernel in COUNTED:
        graph = graph_of(layer)
        ran = check_on_core(graph, samples(layer)[:1], kernel, board_name=BOARD)
        node = graph.nodes[0]
        (own,) = [one for one in all_ops()[node.op].every_kernel if one.name == kernel]
        cost = offer_of(own, Site(graph, node, Numerics.TFLM)).cost
        assert cost is not None
        assert cost.instructions / ARMV7M_SHARE == pytest.approx(ran.counts[0].steps[0], rel=0.25), (kernel, layer)


def test_other_compiler() -> None:
    """Which does not know the extension: the functions in assembly name it themselves."""
    check({name: LAYERS[name] for name in ("3x3 same", "rows, relu")}, Numerics.TFLM, BOARD, "zig")


def test_a_core_without_vectors_takes_another_kernel() -> None:
    layer = replace(LAYERS["1x1"], seed=3)
    check_on_core(graph_of(layer), samples(layer), "tc_conv2d_s8_rv32", board_name=BOARD)
