# SPDX-License-Identifier: Apache-2.0
"""Row forms on the host: every kernel that streams makes the reference's bytes row by row, in place where it may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tests.ops.one_node import one_node, random_s8, random_s16, tensor
from tests.ops.row_harness import check_rows
from tests.ops.weighted import Layer, graph_of, in_int16, samples
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.kernel.site import RELU, RELU6, Act, Padding, Pair
from tinyc.load.resizing import bilinear_onnx
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.pad import Pad
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.resize_bilinear import FINE, ResizeBilinear
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.slice import Slice, whole
from tinyc.ops.softmax import Softmax
from tinyc.ops.sub import Sub
from tinyc.ops.transpose import Transpose
from tinyc.ops.transpose_conv2d import TransposeConv2D

ONE = Padding(1, 1, 1, 1)


def conv(x, w, attrs=None, **more) -> Layer:
    return Layer("conv2d", attrs or Conv2D(), (1, *x), w, **more)


CONVS = {
    "1x1": conv((3, 5, 8), (8, 1, 1, 8), Conv2D(act=RELU), y_zero=-128),
    "1x1, odd": conv((4, 7, 9), (9, 1, 1, 9)),
    "1x1, one column": conv((7, 1, 17), (17, 1, 1, 17)),
    "1x1, two rows of a column": conv((2, 1, 40), (32, 1, 1, 40), Conv2D(act=RELU), y_zero=-128),
    "1x1, two columns": conv((3, 2, 5), (7, 1, 1, 5)),
    "1x1, stride 2": conv((5, 7, 16), (16, 1, 1, 16), Conv2D(Pair(2, 2))),
    "1x1, stride 2 down a column": conv((8, 1, 12), (12, 1, 1, 12), Conv2D(Pair(2, 1))),
    "1x1, stride 2 down three columns": conv((7, 3, 9), (5, 1, 1, 9), Conv2D(Pair(2, 1))),
    "1x1, many taps": conv((2, 3, 130), (5, 1, 1, 130)),
    "1x1, odd, by fours": conv((2, 7, 60), (6, 1, 1, 60)),
    "3x3": conv((5, 9, 8), (8, 3, 3, 8), Conv2D(pad=ONE, act=RELU), x_zero=-128, y_zero=-128),
    "3x3, odd": conv((4, 7, 5), (5, 3, 3, 5), Conv2D(pad=ONE)),
    "3x3, even": conv((3, 8, 4), (4, 3, 3, 4), Conv2D(pad=ONE, act=RELU6), x_zero=127),
    "3x3, one column": conv((4, 1, 4), (4, 3, 3, 4), Conv2D(pad=ONE)),
    "3x3, one row": conv((1, 5, 4), (8, 3, 3, 4), Conv2D(pad=ONE)),
    "3x3, unpadded": conv((5, 6, 4), (4, 3, 3, 4)),
    "3x3, stride 2": conv((7, 9, 4), (8, 3, 3, 4), Conv2D(Pair(2, 2), ONE, act=RELU), y_zero=-128),
    "3x3, stride 2, even": conv((8, 8, 12), (4, 3, 3, 12), Conv2D(Pair(2, 2), Padding(0, 0, 1, 1))),
    "3x3, tiles": conv((4, 16, 16), (16, 3, 3, 16), Conv2D(pad=ONE, act=RELU), x_zero=-128, y_zero=-128),
    "3x3, tiles, ragged": conv((3, 9, 8), (8, 3, 3, 8), Conv2D(pad=Padding(1, 2, 1, 2))),
    "3x3, tiles, more out": conv((3, 6, 4), (12, 3, 3, 4), Conv2D(pad=ONE, act=RELU6), x_zero=77),
    "3x3, tiles, loops": conv((2, 5, 64), (4, 3, 3, 64), Conv2D(pad=ONE)),
    "3x3, tiles, loops of subroutines": conv((2, 5, 104), (4, 3, 3, 104), Conv2D(pad=ONE, act=RELU)),
    "3x3, tiles, subroutines": conv((3, 17, 20), (8, 3, 3, 20), Conv2D(pad=ONE), x_zero=-128),
    "3x3, stride 2, subroutines": conv((5, 9, 36), (8, 3, 3, 36), Conv2D(Pair(2, 2), ONE), x_zero=3),
    "3x3, stride 2, tiles": conv((7, 16, 8), (8, 3, 3, 8), Conv2D(Pair(2, 2), ONE), x_zero=9),
    "3x3, stride 2, ragged": conv((5, 13, 32), (4, 3, 3, 32), Conv2D(Pair(2, 2), ONE, act=RELU), y_zero=-128),
    "1x1, odd, most taps of an odd row": conv((3, 5, 64), (64, 1, 1, 64), Conv2D(act=RELU), x_zero=-128, y_zero=-128),
    "first layer": conv((13, 10, 1), (17, 10, 4, 1), Conv2D(Pair(2, 2), Padding(4, 1, 5, 1), act=RELU), y_zero=-128),
    "column": conv((12, 1, 12), (10, 5, 1, 12), Conv2D(pad=Padding(2, 0, 2, 0))),
    "dilated": conv((9, 8, 3), (8, 3, 2, 3), Conv2D(Pair(2, 1), Padding(1, 2, 0, 1), Pair(2, 3)), x_zero=127),
    "saturates": conv((3, 5, 8), (8, 3, 3, 8), Conv2D(pad=ONE), gain=20.0),
    "signs": conv((3, 9, 16), (4, 3, 3, 16), Conv2D(pad=ONE), weights="signs"),
    "int4, 3x3, tiles": conv((4, 8, 16), (8, 3, 3, 16), Conv2D(pad=ONE, act=RELU), x_zero=-128, y_zero=-128, bits=4),
    "int4, 3x3, ragged": conv((3, 9, 20), (4, 3, 3, 20), Conv2D(pad=Padding(1, 2, 1, 2)), bits=4, weights="all least"),
    "int4, stride 2": conv((5, 9, 8), (8, 3, 3, 8), Conv2D(Pair(2, 2), ONE), x_zero=9, bits=4, weights="largest"),
    "int4, 1x1": conv((3, 5, 8), (8, 1, 1, 8), bits=4),
    "zero points of weights": conv((5, 9, 8), (8, 3, 3, 8), Conv2D(pad=ONE, act=RELU), y_zero=-128, bits=9),
    "zero points of weights, largest": conv((5, 7, 9), (5, 3, 3, 9), Conv2D(Pair(2, 2), ONE), bits=9, weights="signs"),
    "zero points of weights, 1x1": conv((3, 5, 8), (8, 1, 1, 8), bits=9, gain=20.0),
    "clamped": conv((3, 5, 4), (4, 3, 3, 4), Conv2D(pad=ONE, act=Act(-0.5, 0.5))),
}


def depthwise(x, w, attrs=None, **more) -> Layer:
    return Layer("depthwise_conv2d", attrs or DepthwiseConv2D(), (1, *x), (*w, x[2]), **more)


DEPTHWISES = {
    "3x3": depthwise((5, 5, 8), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), x_zero=-128, y_zero=-128),
    "3x3, odd": depthwise((4, 7, 9), (3, 3), DepthwiseConv2D(pad=ONE)),
    "3x3, even": depthwise((3, 8, 6), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU6), x_zero=127),
    "3x3, unpadded": depthwise((5, 6, 7), (3, 3), x_zero=5),
    "one column": depthwise((5, 1, 5), (3, 3), DepthwiseConv2D(pad=ONE)),
    "two columns": depthwise((5, 2, 4), (3, 3), DepthwiseConv2D(pad=ONE)),
    "one row": depthwise((1, 3, 6), (3, 3), DepthwiseConv2D(pad=ONE)),
    "wide": depthwise((3, 50, 4), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "wide, rest": depthwise((3, 33, 13), (3, 3), DepthwiseConv2D(pad=ONE)),
    "wider": depthwise((2, 100, 5), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128),
    "many channels": depthwise((3, 3, 131), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU6)),
    "stride 2": depthwise((9, 7, 8), (3, 3), DepthwiseConv2D(Pair(2, 2), ONE, act=RELU), y_zero=-128),
    "stride 2, even": depthwise((8, 8, 7), (3, 3), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1)), x_zero=-128),
    "stride 2, wide": depthwise((3, 48, 5), (3, 3), DepthwiseConv2D(Pair(2, 2), Padding(0, 0, 1, 1))),
    "stride 2, a column left over": depthwise((5, 6, 8), (3, 3), DepthwiseConv2D(Pair(2, 2))),
    "stride 2, one output and a column left over": depthwise((5, 4, 9), (3, 3), DepthwiseConv2D(Pair(2, 2))),
    "2x3, stride 2, a column left over": depthwise((4, 6, 5), (2, 3), DepthwiseConv2D(Pair(2, 2))),
    "2x1, stride 2, a column left over": depthwise((3, 2, 15), (2, 1), DepthwiseConv2D(Pair(2, 2))),
    "2x2": depthwise((6, 6, 8), (2, 2), DepthwiseConv2D(pad=Padding(0, 0, 1, 1))),
    "2x4": depthwise((6, 9, 4), (2, 4), DepthwiseConv2D(pad=Padding(1, 2, 0, 1))),
    "3x2, stride 2": depthwise((6, 9, 5), (3, 2), DepthwiseConv2D(Pair(1, 2), Padding(1, 1, 1, 0))),
    "3x4, stride 2": depthwise((9, 7, 4), (3, 4), DepthwiseConv2D(Pair(1, 2), Padding(2, 1, 0, 2))),
    "3x1": depthwise((7, 1, 8), (3, 1), bias=False),
    "3x1, wide": depthwise((7, 5, 5), (3, 1), DepthwiseConv2D(pad=Padding(2, 0, 0, 0))),
    "5x5": depthwise((9, 11, 5), (5, 5), DepthwiseConv2D(pad=Padding(2, 2, 2, 2), act=RELU)),
    "5x1": depthwise((9, 1, 8), (5, 1), DepthwiseConv2D(act=RELU), y_zero=-128),
    "10x1": depthwise((17, 1, 9), (10, 1), DepthwiseConv2D(pad=Padding(3, 0, 4, 0))),
    "15x1": depthwise((15, 1, 8), (15, 1), DepthwiseConv2D(act=RELU), per_channel=False),
    "4x1, wide": depthwise((9, 5, 4), (4, 1), DepthwiseConv2D(pad=Padding(1, 0, 2, 0))),
    "5x1, stride 2": depthwise((9, 6, 7), (5, 1), DepthwiseConv2D(Pair(2, 2), act=RELU6)),
    "6x1, to one row": depthwise((6, 1, 11), (6, 1), x_zero=-128),
    "signs": depthwise((3, 5, 4), (3, 3), DepthwiseConv2D(pad=ONE), weights="signs", bias=False),
    "saturates": depthwise((3, 5, 6), (3, 3), DepthwiseConv2D(pad=ONE), gain=30.0),
    "zero points of weights": depthwise((5, 8, 8), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), y_zero=-128, bits=9),
    "zero points of weights, short": depthwise((5, 5, 6), (3, 3), DepthwiseConv2D(pad=ONE), bits=9),
    "zero points of weights, long": depthwise((3, 26, 7), (3, 3), DepthwiseConv2D(pad=ONE), bits=9, weights="signs"),
    "zero points of weights, 5x1": depthwise((9, 1, 8), (5, 1), bits=9, weights="signs"),
    "small": depthwise((3, 5, 6), (3, 3), DepthwiseConv2D(pad=ONE, act=RELU), gain=0.05, y_zero=7),
}


def group(layers: Mapping[str, Layer]) -> dict[str, tuple[Graph, Sequence[Mapping[str, Array]]]]:
    return {name: (graph_of(one), samples(one)) for name, one in layers.items()}


def pool(op, attrs, shape, **more) -> tuple[Graph, Sequence[Mapping[str, Array]]]:
    """A pooling layer with random inputs and the ends of the range."""
    x = tensor("x", shape, 0.0235, 3)
    graph = one_node(op, attrs, [x], more.get("scale", 0.0235), more.get("zero", 3))
    ends = [np.full(shape, value, np.int8) for value in (-128, 127)]
    return graph, [{"x": array} for array in (random_s8(1, shape), random_s8(2, shape), *ends)]


def sums(op, attrs, shape, scale=0.04, zero=-7) -> tuple[Graph, Sequence[Mapping[str, Array]]]:
    inputs = [tensor("a", shape, 0.0235, 3), tensor("b", shape, 0.031, -128)]
    arrays = [{"a": random_s8(i, shape), "b": random_s8(i + 9, shape)} for i in range(4)]
    return one_node(op, attrs, inputs, scale, zero), arrays


def taps(old: int, new: int) -> tuple[tuple[int, int, int], ...]:
    """Rows of a bilinear resize by pixel centers, as the loaders make them."""
    return tuple(bilinear_onnx(old, new, new / old, "half_pixel"))


def joined(axis, *shapes) -> tuple[Graph, Sequence[Mapping[str, Array]]]:
    """A concat of tensors; of one shape: of the tensor with itself."""
    inputs = [tensor(f"x{i}", shape, 0.0235, 3) for i, shape in enumerate(shapes)]
    graph = one_node("concat", Concat(axis), inputs * (2 if len(inputs) == 1 else 1), 0.0235, 3)
    return graph, [{x.name: random_s8(9 * i + k, x.shape) for k, x in enumerate(inputs)} for i in range(4)]


POOLS = {
    "average": pool("avg_pool2d", AvgPool2D(Pair(5, 5)), (1, 5, 5, 8)),
    "average, odd": pool("avg_pool2d", AvgPool2D(Pair(7, 3), act=RELU), (1, 7, 3, 9)),
    "average, few channels": pool("avg_pool2d", AvgPool2D(Pair(9, 1)), (1, 9, 1, 3)),
    "average, most int16 sums": pool("avg_pool2d", AvgPool2D(Pair(17, 15)), (1, 17, 15, 5)),
    "average, more pixels": pool("avg_pool2d", AvgPool2D(Pair(17, 16)), (1, 17, 16, 4)),
    "average of windows": pool("avg_pool2d", AvgPool2D(Pair(2, 2), Pair(2, 2)), (1, 6, 7, 5)),
    "largest": pool("max_pool2d", MaxPool2D(Pair(3, 3), Pair(2, 2), ONE), (1, 7, 7, 5)),
    "cut rows": pool("slice", whole((1, 9, 3, 5), 1, 2, 5), (1, 9, 3, 5)),
    "every other row": pool("slice", whole((1, 9, 3, 7), 1, 1, 4, 2), (1, 9, 3, 7)),
    "cut columns": pool("slice", Slice((0, 1, 2, 0), (1, 4, 3, 5), (1, 2, 2, 1)), (1, 9, 7, 5)),
    "cut channels": pool("slice", whole((1, 5, 3, 9), 3, 4, 5), (1, 5, 3, 9)),
    "channels and columns, backwards": pool("slice", Slice((0, 1, 4, 6), (1, 3, 5, 3), (1, 1, -1, -2)), (1, 5, 5, 7)),
    "padded": pool("pad", Pad((0, 2, 1, 0), (0, 1, 3, 0)), (1, 3, 5, 3)),
    "padded channels": pool("pad", Pad((0, 0, 0, 1), (0, 0, 0, 4), 0.5), (1, 5, 3, 3)),
    "padded, all": pool("pad", Pad((0, 1, 0, 2), (0, 0, 3, 1), -1.0), (1, 3, 4, 5)),
    "nearest": pool("resize_nearest", ResizeNearest((0, 0, 1, 1, 2, 2), (0, 0, 1, 1, 2, 2, 3)), (1, 3, 4, 7)),
    "nearest, smaller": pool("resize_nearest", ResizeNearest((1, 3, 4), (0, 2)), (1, 5, 3, 4)),
    "bilinear": pool("resize_bilinear", ResizeBilinear(taps(3, 6), taps(5, 10), FINE), (1, 3, 5, 3)),
    "bilinear, smaller": pool("resize_bilinear", ResizeBilinear(taps(9, 5), taps(7, 3), FINE), (1, 9, 7, 5)),
    "bilinear, odd": pool("resize_bilinear", ResizeBilinear(taps(5, 17), taps(1, 3), FINE), (1, 5, 1, 4)),
    "channel shuffle": pool("transpose", Transpose((0, 1, 2, 4, 3)), (1, 5, 3, 2, 5)),
    "columns and channels": pool("transpose", Transpose((0, 1, 3, 2)), (1, 3, 5, 7)),
    "depth to space": pool("transpose", Transpose((0, 1, 3, 2, 4, 5)), (1, 3, 5, 2, 2, 3)),
    "depth to space, channels first": pool("transpose", Transpose((0, 1, 4, 2, 5, 3)), (1, 3, 4, 3, 2, 2)),
    "softmax of channels": pool("softmax", Softmax(), (1, 5, 3, 7), scale=1 / 256, zero=-128),
    "largest channel": pool("reduce_extremum", ReduceExtremum((3,), keep_dims=True), (1, 5, 3, 7)),
    "mean of channels": pool("mean", Mean((3,), keep_dims=True), (1, 5, 3, 7), scale=0.011, zero=-9),
    "mean": pool("mean", Mean((1, 2)), (1, 5, 3, 8), scale=0.011, zero=-9),
    "mean, odd": pool("mean", Mean((1, 2), keep_dims=True), (1, 3, 7, 7), scale=0.02, zero=5),
}


def transposed(x, w, stride, pad, size, **more) -> tuple[Graph, Sequence[Mapping[str, Array]]]:
    attrs = TransposeConv2D(Pair(*stride), Pair(*pad), Pair(*size))
    layer = Layer("transpose_conv2d", attrs, (1, *x), w, **more)
    return graph_of(layer), samples(layer)


TRANSPOSED = {
    "2x2": transposed((3, 5, 7), (5, 2, 2, 7), (2, 2), (0, 0), (6, 10)),
    "3x3": transposed((5, 3, 4), (3, 3, 3, 4), (2, 2), (0, 1), (11, 5), x_zero=-128),
    "3x3, cut": transposed((4, 4, 3), (4, 3, 3, 3), (2, 2), (1, 1), (7, 7)),
    "4x4": transposed((3, 4, 5), (2, 4, 4, 5), (2, 2), (1, 1), (6, 8), gain=9.0),
    "1x2, stride 3": transposed((3, 3, 4), (3, 1, 2, 4), (3, 1), (0, 0), (9, 4), bias=False),
    "3x1, stride 1": transposed((5, 3, 4), (3, 3, 1, 4), (1, 1), (1, 0), (5, 3)),
}


def of_int16(layer: tuple[Graph, Sequence[Mapping[str, Array]]]) -> tuple[Graph, Sequence[Mapping[str, Array]]]:
    graph = in_int16(layer[0])
    return graph, [{"x": random_s16(seed, graph.values["x"].shape)} for seed in range(len(layer[1]))]


TRANSPOSED |= {f"{name}, int16": of_int16(layer) for name, layer in TRANSPOSED.items()}
SUMS = {
    "channels joined": joined(3, (1, 5, 3, 7), (1, 5, 3, 4), (1, 5, 3, 1)),
    "columns joined": joined(2, (1, 4, 3, 5), (1, 4, 1, 5)),
    "joined with itself": joined(3, (1, 3, 5, 9)),
    "add": sums("add", Add(), (1, 5, 3, 7)),
    "add, relu": sums("add", Add(act=RELU), (1, 3, 4, 8), zero=-128),
    "sub": sums("sub", Sub(), (1, 4, 1, 9)),
    "sigmoid": pool("sigmoid", Sigmoid(), (1, 3, 5, 3), scale=1 / 256, zero=-128),
}


def every(step: int, layers: Mapping[str, Layer], numerics: Numerics) -> dict[str, Layer]:
    """Every second, every fourth ... of the layers, for each rounding others."""
    first = step // 2 if numerics is Numerics.OURS else 0
    return {name: one for i, (name, one) in enumerate(layers.items()) if i % step == first}


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
@pytest.mark.parametrize("layers", [CONVS, DEPTHWISES], ids=["conv2d", "depthwise"])
def test_weighted_layers(layers: Mapping[str, Layer], numerics: Numerics) -> None:
    check_rows(group(every(4, layers, numerics)), numerics, scalar=False)


@pytest.mark.slow
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
@pytest.mark.parametrize("layers", [CONVS, DEPTHWISES], ids=["conv2d", "depthwise"])
def test_all_weighted_layers(layers: Mapping[str, Layer], numerics: Numerics) -> None:
    check_rows(group(layers), numerics, compiler="gcc", scalar=False)


@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.OURS])
def test_pools_and_sums(numerics: Numerics) -> None:
    forms = check_rows(POOLS | SUMS, numerics, all_forms=True)
    grown = check_rows(TRANSPOSED, numerics)
    assert all(case.rows.starts is not None for case in grown)
    assert {case.function for case in grown} == {f"tc_transpose_conv2d_row_{kind}" for kind in ("s8", "s16")}
    assert {case.in_place for case in forms if case.graph.nodes[0].op == "add"} == {None, 0, 1}
    assert sum(case.form.accumulator_bytes > 0 for case in forms) >= 10
