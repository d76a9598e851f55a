# SPDX-License-Identifier: Apache-2.0
"""Integer layers of several sizes that remember, vote, look up tables or make an input of a picture: graphs of one
node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from picture_cases import picture
from state_cases import loop, lstm, svdf

from tests.ops.forests import forest, grown_forest
from tests.ops.one_node import one_node, tensor
from tests.ops.weighted import Layer, graph_of
from tinyc.frontend.resizing import taps_of
from tinyc.ir.graph import DType, Graph, Shape, Value
from tinyc.kernel.site import Padding, Pair
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.compare import Compare
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.convert import Convert
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.function import Function
from tinyc.ops.integer_binary import KINDS, IntegerBinary
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.lookup_channels import LookupChannels
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.picture import BAYER, BYTES, RGB565, YUV422, Picture
from tinyc.ops.power import Power
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.requantize import Requantize
from tinyc.ops.resample_columns import ResampleColumns
from tinyc.ops.resample_rows import ResampleRows
from tinyc.ops.resize_bilinear import ResizeBilinear
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.tanh import Tanh
from tinyc.ops.top_k import TopK
from tinyc.ops.transpose_conv2d import TransposeConv2D

ONE, NONE = Padding(1, 1, 1, 1), Padding(0, 0, 0, 0)
LINES: tuple[Shape, ...] = ((1, 40), (1, 500), (6, 60), (20, 10))

WEIGHTED = (
    Layer("conv2d", Conv2D(), (1, 6, 6, 8), (12, 1, 1, 8)),
    Layer("conv2d", Conv2D(pad=ONE), (1, 6, 6, 16), (8, 3, 3, 16)),
    Layer("conv2d", Conv2D(Pair(2, 2)), (1, 9, 9, 5), (7, 3, 3, 5)),
    Layer("conv2d", Conv2D(), (1, 7, 2, 30), (4, 5, 1, 30)),
    Layer("depthwise_conv2d", DepthwiseConv2D(pad=ONE), (1, 6, 7, 16), (3, 3, 16)),
    Layer("depthwise_conv2d", DepthwiseConv2D(Pair(2, 2), ONE), (1, 9, 9, 8), (3, 3, 8)),
    Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 12, 4, 5), (5, 2, 5)),
    Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 20, 1, 40), (7, 1, 40)),
    Layer("depthwise_conv2d", DepthwiseConv2D(), (1, 8, 8, 3), (5, 5, 3)),
    Layer("fully_connected", FullyConnected(), (1, 40), (9, 40)),
    Layer("fully_connected", FullyConnected(), (1, 200), (30, 200)),
    Layer("fully_connected", FullyConnected(), (1, 16), (64, 16)),
    Layer("fully_connected", FullyConnected(), (6, 24), (10, 24)),
)
_CONVERSIONS: tuple[tuple[DType, DType], ...] = (("f32", "s32"), ("s32", "f32"), ("f32", "bool"))
_TOP: tuple[DType, ...] = ("s8", "s32")
_FEATURES: tuple[DType, ...] = ("f32", "s32")


def other_layers() -> Iterator[Graph]:
    """All of them."""
    for part in (_lines, _between, _weighted, _windows, _pictures, _stateful, _forests):
        yield from part()


def _lines() -> Iterator[Graph]:
    table = np.random.default_rng(3).integers(-128, 128, (500, 256)).astype(np.int8)
    for shape in LINES:
        x, wide = tensor("x", shape, 0.1, 7), tensor("x", shape, 0.0003, 0, "s16")
        yield one_node("requantize", Requantize("s8"), [tensor("x", shape, 0.1, 135, "u8")], 0.1, 7)
        yield one_node("function", Function("gelu"), [wide], 0.0002)
        yield one_node("power", Power(0.5), [wide], 0.0001)
        yield one_node("sigmoid", Sigmoid(), [wide], 1 / 32768)
        yield one_node("tanh", Tanh(), [wide], 1 / 32768)
        yield one_node("log_softmax", LogSoftmax(), [x], 1 / 16, 127)
        yield one_node("l2_normalize", L2Normalize(), [x], 1 / 128, 0)
        own = table[: shape[-1]]
        yield one_node("lookup_channels", LookupChannels(), [x, tensor("t", own.shape, 0.1, 7)], 0.1, 7, {"t": own})
        for dtype in _TOP:
            yield one_node("top_k", TopK(1, 1), [_typed("x", shape, dtype)])
            yield one_node("top_k", TopK(1, 4, largest=False), [_typed("x", shape, dtype)])
        for source, result in _CONVERSIONS:
            yield one_node("convert", Convert(result), [_typed("x", shape, source)])
        yield one_node("convert", Convert("s8"), [_typed("x", shape, "s32")], 0.5, -100)


def _between() -> Iterator[Graph]:
    for a, b in (((1, 600), (1, 600)), ((8, 9, 32), (32,)), ((12, 8, 6), (12, 8, 1)), ((16, 40), (16, 1))):
        for kind in KINDS:
            yield one_node("integer_binary", IntegerBinary(kind, "s32"), [_typed("a", a, "s32"), _typed("b", b, "s32")])
        yield one_node("compare", Compare("less"), [_typed("a", a, "s32"), _typed("b", b, "s32")])


def _weighted() -> Iterator[Graph]:
    for own in WEIGHTED:
        yield graph_of(own)
        yield graph_of(replace(own, bits=4))
        yield graph_of(replace(own, bits=9, w_zero=113))
    yield from _transposed()
    for rows, depth, columns in ((3, 7, 5), (6, 40, 9), (2, 120, 30), (16, 16, 16)):
        pair = [tensor("a", (2, rows, depth), 0.03, 3), tensor("b", (2, depth, columns), 0.05, -7)]
        yield one_node("batch_matmul", BatchMatmul(), pair, 0.2, 4)
        wide = [tensor(value.name, value.shape, 0.0002, 0, "s16") for value in pair]
        yield one_node("batch_matmul", BatchMatmul(), wide, 0.0007)


def _transposed() -> Iterator[Graph]:
    """Of int8 and int16; the window's and the stride's rows and columns."""
    cases: tuple[tuple[Shape, int, Pair, Pair], ...] = (
        ((1, 5, 6, 4), 6, Pair(3, 3), Pair(2, 2)),
        ((1, 4, 4, 16), 8, Pair(2, 2), Pair(2, 2)),
        ((1, 6, 5, 8), 4, Pair(4, 4), Pair(2, 2)),
        ((1, 3, 3, 40), 10, Pair(3, 3), Pair(2, 2)),
        ((1, 9, 4, 1), 3, Pair(2, 2), Pair(2, 2)),
        ((1, 6, 7, 12), 12, Pair(5, 5), Pair(2, 2)),
        ((1, 8, 8, 8), 5, Pair(3, 3), Pair(1, 1)),
        ((1, 4, 9, 24), 16, Pair(2, 2), Pair(2, 2)),
        ((1, 1, 5, 64), 12, Pair(3, 4), Pair(1, 2)),
        ((1, 2, 20, 16), 6, Pair(4, 4), Pair(2, 2)),
        ((1, 1, 30, 3), 8, Pair(1, 8), Pair(1, 4)),
        ((1, 8, 8, 32), 4, Pair(3, 3), Pair(2, 2)),
    )
    for shape, out_c, window, stride in cases:
        size = Pair(shape[1] * stride.h, shape[2] * stride.w)
        attrs = TransposeConv2D(stride, Pair(window.h // 2 - 1 + window.h % 2, 0), size)
        w = np.random.default_rng(1).integers(-127, 128, (out_c, *window, shape[3])).astype(np.int8)
        weights = tensor("w", w.shape, 0.01)
        yield one_node("transpose_conv2d", attrs, [tensor("x", shape, 0.05, 3), weights], 0.4, -5, {"w": w})
        wide = tensor("x", shape, 0.05, 0, "s16")
        yield one_node("transpose_conv2d", attrs, [wide, weights], 0.0016, 0, {"w": w}, "s16")


def _windows() -> Iterator[Graph]:
    cases: tuple[tuple[Shape, int, int, Padding], ...] = (
        ((1, 8, 8, 24), 2, 2, NONE),
        ((1, 9, 7, 8), 3, 1, ONE),
        ((1, 12, 12, 5), 3, 2, NONE),
        ((1, 6, 6, 64), 2, 1, NONE),
        ((1, 7, 7, 130), 4, 1, NONE),
        ((1, 4, 6, 2), 2, 2, NONE),
        ((1, 2, 2, 3), 2, 1, NONE),
    )
    for shape, k, stride, pad in cases:
        window, x = (Pair(k, k), Pair(stride, stride), pad), tensor("x", shape, 0.1, 7)
        yield one_node("avg_pool2d", AvgPool2D(*window), [x], 0.1, 7)
        yield one_node("avg_pool2d", AvgPool2D(*window, halves_up=True), [x], 0.1, 7)
        yield one_node("max_pool2d", MaxPool2D(*window), [x], 0.1, 7)
        places = tuple((i // 2, i // 2 + (i % 2 and i // 2 < shape[1] - 1), 300 * (i % 2)) for i in range(2 * shape[1]))
        columns = tuple((i // 2, i // 2, 0) for i in range(2 * shape[2]))
        yield one_node("resize_bilinear", ResizeBilinear(places, columns), [x], 0.1, 7)
        wide = tensor("x", shape, 0.001, 0, "s16")
        yield one_node("resize_bilinear", ResizeBilinear(places, columns), [wide], 0.001)
    for height, width, channels in ((5, 5, 64), (3, 8, 20), (12, 4, 8), (1, 30, 33), (7, 7, 9)):
        image = tensor("x", (1, height, width, channels), 0.1, 7)
        yield one_node("avg_pool2d", AvgPool2D(Pair(height, width)), [image], 0.1, 7)
        yield one_node("mean", Mean((1, 2)), [image], 0.08, 3)


def _pictures() -> Iterator[Graph]:
    for height, width in ((6, 8), (12, 40), (4, 64)):
        rows, every, some = tuple(range(height)), tuple(range(width)), tuple(range(0, width, 2))
        for name in (*BYTES, *RGB565, *YUV422, *BAYER):
            for columns in (every, some):
                yield picture(Picture(name, rows, columns, 3), height, width)
                yield picture(Picture(name, rows[::2], columns, 1), height, width)
    for height, width, channels in ((9, 7, 3), (20, 16, 1), (12, 40, 3), (6, 30, 4)):
        x = tensor("x", (1, height, width, channels), 1.0, -128)
        for how, less in (("area", 3), ("pillow-bilinear", 2), ("area", 2)):
            fewer = ResampleColumns(taps_of(how, width, -(-width // less)))
            yield one_node("resample_columns", fewer, [x], 1.0, -128)
            yield one_node("resample_rows", ResampleRows(taps_of(how, height, -(-height // less))), [x], 1.0, -128)


def _stateful() -> Iterator[Graph]:
    for units, in_c, steps in ((5, 3, 2), (16, 8, 5), (8, 40, 2), (32, 4, 3), (20, 28, 4), (4, 100, 3), (12, 64, 2)):
        yield lstm(units, in_c, steps)
        for cell in ("lstm", "gru"):
            for narrow in (False, True):
                yield loop(Recurrent(cell), units, in_c, steps, narrow=narrow)
        for rank, memory in ((1, 4), (2, 10)):
            yield svdf(units, rank, memory, in_c)
            yield svdf(units, rank, memory, in_c, "s8")


def _forests() -> Iterator[Graph]:
    for dtype in _FEATURES:
        for trees, depth in ((3, 3), (12, 4), (30, 5), (8, 8)):
            yield grown_forest(dtype, 1, 300, trees, depth, trees)
            yield grown_forest(dtype, 3, 300, trees, depth, trees + 1)
            yield grown_forest(dtype, 4, 300, trees, depth, trees + 2, votes=True)
        step = 0.5 if dtype == "f32" else 7
        for columns, cuts in ((1, 5), (3, 20), (7, 12), (12, 40)):
            yield forest(dtype, 100, columns, None, cuts, step)
            yield forest(dtype, 3000, columns, None, 8 * cuts)


def _typed(name: str, shape: Shape, dtype: DType) -> Value:
    return tensor(name, shape, 0.1 if dtype == "s8" else 0.0, 7 if dtype == "s8" else 0, dtype)
