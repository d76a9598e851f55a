# SPDX-License-Identifier: Apache-2.0
"""The further cases of kernel_cases.py: int16 activations, int16 weights, and operators that only move or compare."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer, in_int16, with_int16_weights
from tests.ops.weighted import graph_of as weighted
from tinyc.ir.graph import Graph, Value
from tinyc.kernel.site import RELU6, Padding, Pair
from tinyc.ops.absolute import Absolute
from tinyc.ops.add import Add
from tinyc.ops.argmax import ArgMax
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.broadcast import Broadcast
from tinyc.ops.choose import Choose
from tinyc.ops.clip import Clip
from tinyc.ops.compare import Compare
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.div import Div
from tinyc.ops.extremum import Extremum
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.gather import Gather
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pick import Pick
from tinyc.ops.quantize import Quantize
from tinyc.ops.requantize import Requantize
from tinyc.ops.resize_bilinear import ResizeBilinear
from tinyc.ops.resize_nearest import ResizeNearest
from tinyc.ops.slice import Slice
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.transpose_conv2d import TransposeConv2D

ONE = Padding(1, 1, 1, 1)


def weighted_cases() -> Iterator[Graph]:
    """Weighted layers, of int16 and with int16 weights."""
    layers = [
        Layer("conv2d", Conv2D(pad=ONE), (1, 4, 5, 6), (7, 3, 3, 6)),
        Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE), (1, 5, 6, 9), (3, 3, 9)),
        Layer("fully_connected", FullyConnected(), (2, 17), (5, 17)),
    ]
    for layer in layers:
        yield in_int16(weighted(layer))
        yield with_int16_weights(weighted(layer))
    x, y_scale = tensor("x", (1, 3, 4, 5), 0.05, 3), 0.4
    attrs = TransposeConv2D(Pair(2, 2), Pair(1, 0), Pair(5, 8))
    w = np.random.default_rng(1).integers(-127, 128, (6, 3, 3, 5)).astype(np.int8)
    plain = one_node("transpose_conv2d", attrs, [x, tensor("w", w.shape, 0.01)], y_scale, -5, {"w": w})
    yield plain
    yield in_int16(plain)


def other_cases() -> Iterator[Graph]:
    """All the rest."""
    x, image = tensor("x", (1, 7, 5, 9), 0.1, 7), tensor("x", (1, 3, 4, 5), 0.1, 7)
    a, b = tensor("a", (1, 3, 5), 0.1, 7), tensor("b", (1, 3, 5), 0.1, 7)
    yield one_node("absolute", Absolute(), [x], 0.1, -20)
    yield one_node("requantize", Requantize("s8"), [tensor("x", (1, 37), 0.1, 135, "u8")], 0.1, 7)
    yield one_node("argmax", ArgMax(3), [x])
    yield one_node("extremum", Extremum(largest=False), [a, b], 0.1, 7)
    bilinear = ResizeBilinear(((0, 0, 0), (0, 1, 512), (1, 2, 100)), ((0, 1, 1), (2, 3, 1000), (3, 3, 0)))
    yield one_node("resize_bilinear", bilinear, [image], 0.1, 7)
    yield one_node("resize_nearest", ResizeNearest((0, 0, 2, 1), (3, 1, 1)), [image], 0.1, 7)
    yield one_node("slice", Slice((0, 6, 0, 2), (1, 3, 5, 4), (1, -2, 1, 1)), [x], 0.1, 7)
    wide, wide_a, wide_b = (tensor(name, (1, 7, 5, 9), 0.001, 0, "s16") for name in "xab")
    yield one_node("add", Add(), [wide_a, wide_b], 0.0015)
    yield one_node("sub", Sub(), [wide_a, wide_b], 0.0015)
    yield one_node("mul", Mul(), [wide_a, wide_b], 0.0007)
    yield one_node("avg_pool2d", AvgPool2D(Pair(2, 2), Pair(2, 2)), [wide], 0.001)
    yield one_node("max_pool2d", MaxPool2D(Pair(3, 3), pad=ONE), [wide], 0.001)
    yield one_node("mean", Mean((1, 2)), [wide], 0.0008)
    yield one_node("clip", Clip(RELU6), [wide], 0.001)
    yield one_node("leaky_relu", LeakyRelu(0.1), [wide], 0.0012)
    yield one_node("quantize", Quantize("s16"), [tensor("x", (1, 37), dtype="f32")], 0.001)
    yield one_node("dequantize", Dequantize(), [wide])
    yield one_node("resize_bilinear", bilinear, [tensor("x", (1, 3, 4, 5), 0.001, 0, "s16")], 0.001)


def copied_cases() -> Iterator[Graph]:
    """Operators that repeat and pick, and those that reduce, divide and normalize."""
    x, at = tensor("x", (3, 5, 7), 0.1, 7), tensor("k", (4,), dtype="s32")
    yield one_node("broadcast", Broadcast((2, 3, 5, 7)), [tensor("x", (3, 1, 7), 0.1, 7)], 0.1, 7)
    yield one_node("pick", Pick(1, (4, 0, 0)), [x], 0.1, 7)
    yield one_node("gather", Gather(0), [x, at], 0.1, 7)
    yield one_node("sum", Sum((0, 1)), [x], 0.9, 7)
    yield one_node("sum", Sum((2,)), [tensor("x", (3, 5, 7), 0.001, 0, "s16")], 0.004)
    yield one_node("sum", Sum((1, 2)), [tensor("x", (1, 7, 5, 9), 0.1, 7)], 0.9, 7)
    yield one_node("l2_normalize", L2Normalize(), [x], 1 / 128, 0)
    yield one_node("log_softmax", LogSoftmax(), [x], 1 / 16, 127)
    yield one_node("div", Div(), [x, tensor("b", (5, 1), 0.05, -9)], 0.2, 4)
    yield one_node("div", Div(), [x, tensor("b", (1,), 0.05, -9)], 0.2, 4, {"b": np.array([77], np.int8)})
    yield one_node("compare", Compare("less"), [x, tensor("b", (5, 1), 0.05, -9)])
    far = [tensor("a", (3, 5, 2), 0.001, 0, "s16"), tensor("b", (5, 1), 0.004, 0, "s16")]
    yield one_node("compare", Compare("greater_equal"), far)
    mask = np.arange(7) % 3 > 0
    condition = Value("c", (7,), "bool")
    yield one_node("choose", Choose(), [condition, x, tensor("b", (5, 1), 0.1, 7)], 0.1, 7, {"c": mask})
    alike = [Value("c", (3, 37), "bool"), tensor("a", (3, 37), 0.1, 7), tensor("b", (3, 37), 0.1, 7)]
    yield one_node("choose", Choose(), alike, 0.1, 7, {"c": np.arange(111).reshape(3, 37) % 3 > 0})
