# SPDX-License-Identifier: Apache-2.0
"""Layers of several sizes for every kernel in C whose cost is counted: graphs of one node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from signal_cases import count, node_of

from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer, graph_of
from tinyc.ir.graph import DType, Graph, Shape, Value
from tinyc.kernel.site import RELU, RELU6, Padding, Pair
from tinyc.ops.add import Add
from tinyc.ops.argmax import ArgMax
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.choose import Choose
from tinyc.ops.clip import Clip
from tinyc.ops.compare import Compare
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.div import Div
from tinyc.ops.extremum import Extremum
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.gather import Gather
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pad import Pad
from tinyc.ops.pick import Pick
from tinyc.ops.prelu import Prelu
from tinyc.ops.quantize import Quantize
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.requantize import Requantize
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.signal_history import SignalHistory
from tinyc.ops.signal_overlap_add import SignalOverlapAdd
from tinyc.ops.slice import Slice
from tinyc.ops.softmax import Softmax
from tinyc.ops.squared_difference import SquaredDifference
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.transpose import Transpose

ONE = Padding(1, 1, 1, 1)
# Shapes of two inputs: alike, one repeated from line to line, one number for each line; short lines and long ones.
PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((1, 600), (1, 600)),
    ((1, 64), (1, 64)),
    ((1, 8, 9, 32), (1, 1, 1, 32)),
    ((1, 12, 8, 6), (1, 12, 8, 1)),
    ((1, 16, 40), (1, 16, 1)),
)
LINES: tuple[Shape, ...] = ((1, 40), (1, 500), (6, 60), (20, 10))


def layers() -> list[Graph]:
    """All of them."""
    return [
        graph for graphs in (_pairs, _float_pairs, _single, _reduced, _weighted, _windows, _moves) for graph in graphs()
    ]


def _pairs() -> Iterator[Graph]:
    for a, b in PAIRS:
        for op, attrs in (("add", Add), ("sub", Sub)):
            yield one_node(op, attrs(RELU), [tensor("a", a, 0.02, 11), tensor("b", b, 0.03, -90)], 0.04, -120)
            yield one_node(op, attrs(), [tensor("a", a, 0.02), tensor("b", b, 0.9)], 0.0411, -5)
            yield one_node(op, attrs(), [_wide("a", a, 0.001), _wide("b", b, 0.001)], 0.0015)
        yield one_node("mul", Mul(), [tensor("a", a, 0.02, 11), tensor("b", b, 0.03, -90)], 0.01, 10)
        yield one_node("mul", Mul(), [_wide("a", a, 0.001), _wide("b", b, 0.001)], 0.0007)
        yield one_node("div", Div(), [tensor("a", a, 0.1, 7), tensor("b", b, 0.05, -9)], 0.2, 4)
        inputs = [tensor("a", a, 0.02, 11), tensor("b", b, 0.03, -90)]
        yield one_node("squared_difference", SquaredDifference(), inputs, 0.5, -100)
        yield one_node("prelu", Prelu(), inputs, 0.04, -20)
        yield one_node("compare", Compare("less"), inputs)
        yield one_node("compare", Compare("greater_equal"), [_wide("a", a, 0.001), _wide("b", b, 0.004)])
        yield one_node("extremum", Extremum(True), [tensor("a", a, 0.1, 7), tensor("b", b, 0.1, 7)], 0.1, 7)
        for dtype in ("s8", "s16"):
            values = [_typed(name, shape, dtype) for name, shape in (("a", a), ("b", b))]
            yield one_node("choose", Choose(), [Value("c", a, "bool"), *values], *_one_scale(dtype))
        values = [tensor("a", a, dtype="f32"), tensor("b", b, dtype="f32")]
        yield one_node("choose", Choose(), [Value("c", a, "bool"), *values])


def _float_pairs() -> Iterator[Graph]:
    for a, b in PAIRS:
        inputs = [tensor("a", a, dtype="f32"), tensor("b", b, dtype="f32")]
        for op, attrs in (
            ("add", Add()),
            ("sub", Sub()),
            ("mul", Mul()),
            ("div", Div()),
            ("extremum", Extremum(True)),
            ("extremum", Extremum(False)),
            ("prelu", Prelu()),
            ("squared_difference", SquaredDifference()),
            ("compare", Compare("less")),
        ):
            yield one_node(op, attrs, inputs)


def _single() -> Iterator[Graph]:
    for shape in LINES:
        yield one_node("quantize", Quantize("s8"), [tensor("x", shape, dtype="f32")], 0.1, 7)
        yield one_node("quantize", Quantize("s16"), [tensor("x", shape, dtype="f32")], 0.001)
        yield one_node("dequantize", Dequantize(), [tensor("x", shape, 0.1, 7)])
        yield one_node("dequantize", Dequantize(), [_wide("x", shape, 0.001)])
        yield one_node("dequantize", Dequantize(), [tensor("x", shape, 0.1, 0, "s32")])
        yield one_node("requantize", Requantize("s8"), [_wide("x", shape, 0.1)], 0.3, -9)
        yield one_node("clip", Clip(RELU6), [_wide("x", shape, 0.001)], 0.001)
        yield one_node("leaky_relu", LeakyRelu(0.1), [_wide("x", shape, 0.001)], 0.0012)
        yield one_node("hard_swish", HardSwish(), [tensor("x", shape, 0.1, 7)], 0.1, -20)
        yield one_node("softmax", Softmax(), [tensor("x", shape, 0.1, 7)], 1 / 256, -128)
        yield one_node("softmax", Softmax(), [_wide("x", shape, 0.0003)], 1 / 32768)
        yield one_node("softmax", Softmax(widened=True), [tensor("x", shape, 0.1, 7)], 1 / 65536, -32768)


def _reduced() -> Iterator[Graph]:
    cases: tuple[tuple[Shape, tuple[int, ...]], ...] = (
        ((1, 8, 8, 24), (1, 2)),
        ((1, 12, 10), (2,)),
        ((1, 4, 200), (2,)),
        ((1, 30, 5, 6), (2,)),
        ((1, 6, 40, 3), (2,)),
    )
    for shape, axes in cases:
        for dtype in ("s8", "s16", "f32"):
            x = _typed("x", shape, dtype)
            scale = _one_scale(dtype)
            yield one_node("mean", Mean(axes), [x], *scale)
            yield one_node("sum", Sum(axes), [x], scale[0] * 40, 0)
            for largest in (True, False):
                yield one_node("reduce_extremum", ReduceExtremum(axes, largest=largest), [x], *scale)
        for x in (tensor("x", shape, 0.1, 7), tensor("x", shape, dtype="f32"), tensor("x", shape, 0.1, 0, "s32")):
            yield one_node("argmax", ArgMax(axes[-1]), [x])


def _weighted() -> Iterator[Graph]:
    layers = (
        Layer("conv2d", Conv2D(), (1, 6, 6, 8), (12, 1, 1, 8)),
        Layer("conv2d", Conv2D(), (1, 4, 5, 40), (9, 1, 1, 40)),
        Layer("conv2d", Conv2D(pad=ONE), (1, 6, 6, 16), (8, 3, 3, 16)),
        Layer("conv2d", Conv2D(pad=ONE), (1, 9, 7, 3), (8, 3, 3, 3)),
        Layer("conv2d", Conv2D(Pair(2, 2)), (1, 9, 9, 5), (7, 3, 3, 5)),
        Layer("conv2d", Conv2D(), (1, 3, 4, 6), (3, 2, 2, 6)),
        Layer("conv2d", Conv2D(), (1, 7, 2, 30), (4, 5, 1, 30)),
        Layer("conv2d", Conv2D(pad=ONE), (1, 8, 8, 64), (16, 3, 3, 64)),
        Layer("conv2d", Conv2D(pad=ONE), (1, 10, 3, 7), (6, 3, 3, 7)),
        Layer("conv2d", Conv2D(), (1, 5, 5, 32), (20, 1, 1, 32)),
        Layer("conv2d", Conv2D(), (1, 1, 9, 12), (6, 1, 1, 12)),
        Layer("conv2d", Conv2D(pad=ONE), (1, 4, 6, 8), (48, 3, 3, 8)),
        Layer("conv2d", Conv2D(), (1, 5, 12, 4), (32, 2, 2, 4)),
        Layer("fully_connected", FullyConnected(), (1, 40), (9, 40)),
        Layer("fully_connected", FullyConnected(), (1, 200), (30, 200)),
        Layer("fully_connected", FullyConnected(), (1, 16), (64, 16)),
        Layer("fully_connected", FullyConnected(), (6, 24), (10, 24)),
    )
    yield from map(graph_of, layers)
    int4 = (*layers, Layer("conv2d", Conv2D(), (1, 8, 8, 64), (64, 1, 1, 64)))
    yield from (graph_of(replace(layer, bits=4)) for layer in int4)


def _windows() -> Iterator[Graph]:
    cases: tuple[tuple[Shape, int, int, Padding], ...] = (
        ((1, 8, 8, 24), 2, 2, Padding(0, 0, 0, 0)),
        ((1, 9, 7, 8), 3, 1, ONE),
        ((1, 12, 12, 5), 3, 2, Padding(0, 0, 0, 0)),
        ((1, 4, 6, 2), 2, 2, Padding(0, 0, 0, 0)),
    )  # with two layers each: of more than eight gcc makes one function, and most models have fewer
    for shape, k, stride, pad in cases:
        window = (Pair(k, k), Pair(stride, stride), pad)
        yield one_node("max_pool2d", MaxPool2D(*window), [tensor("x", shape, 0.1, 7)], 0.1, 7)
        yield one_node("max_pool2d", MaxPool2D(*window), [_wide("x", shape, 0.001)], 0.001)
        yield one_node("avg_pool2d", AvgPool2D(*window), [_wide("x", shape, 0.001)], 0.001)


def _moves() -> Iterator[Graph]:
    for runs, unit in ((40, 4), (10, 40), (3, 200), (60, 11), (25, 16)):
        x = tensor("x", (1, runs, unit), 0.1, 7)
        yield one_node("concat", Concat(2), [x, tensor("b", (1, runs, unit + 3), 0.1, 7)], 0.1, 7)
        yield one_node("pad", Pad((0, 0, 0), (0, 0, 5)), [x], 0.1, 7)
        yield one_node("pad", Pad((0, 1, 0), (0, 1, 0)), [x], 0.1, 7)
        yield one_node("slice", Slice((0, 0, 1), (1, runs, unit - 2), (1, 1, 1)), [x], 0.1, 7)
        yield one_node("broadcast", Broadcast((4, runs, unit)), [x], 0.1, 7)
        yield one_node("pick", Pick(1, tuple(k * 7 % runs for k in range(runs))), [x], 0.1, 7)
        yield one_node("gather", Gather(1), [x, tensor("k", (runs,), dtype="s32")], 0.1, 7)
        image = tensor("x", (1, 4, runs, unit), 0.1, 7)
        places = tuple(k // 2 for k in range(2 * runs))
        yield one_node("resize_nearest", ResizeNearest(tuple(k // 2 for k in range(8)), places), [image], 0.1, 7)
        yield one_node("transpose", Transpose((0, 2, 1, 3)), [tensor("x", (1, 4, runs, unit), 0.1, 7)], 0.1, 7)
        yield one_node("transpose", Transpose((0, 2, 1)), [x], 0.1, 7)
        values = [Value("x", (3, runs), "s32"), Value("held", (3, runs + unit), "s32")]
        yield one_node("signal_history", SignalHistory(), values)
    for frames, size, step in ((1, 480, 160), (4, 128, 64), (9, 40, 8), (2, 300, 300), (3, 64, 60), (20, 9, 3)):
        values = [count("x", (1, frames, size)), count("held", (1, size))]
        yield node_of("signal_overlap_add", SignalOverlapAdd(step), values)


def _wide(name: str, shape: Shape, scale: float) -> Value:
    return tensor(name, shape, scale, 0, "s16")


def _typed(name: str, shape: Shape, dtype: DType) -> Value:
    scale, zero = _one_scale(dtype)
    return tensor(name, shape, scale, zero, dtype)


def _one_scale(dtype: DType) -> tuple[float, int]:
    """Of float32 none, which is 0."""
    return {"s8": (0.1, 7), "s16": (0.001, 0)}.get(dtype, (0.0, 0))


_ALL = (_pairs, _float_pairs, _single, _reduced, _weighted, _windows, _moves)
