# SPDX-License-Identifier: Apache-2.0
"""Layers of float32 of several sizes, for every kernel whose cost is counted: graphs of one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.ops.float32_layers import lstm, stateful_loop, svdf
from tests.ops.one_node import one_node, tensor
from tinyc.ir.graph import Graph, Shape
from tinyc.kernel.site import RELU6, Padding, Pair
from tinyc.ops import op_with
from tinyc.ops.absolute import Absolute
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.clip import Clip
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.distance import Distance
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.function import EXACT, Function
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.pair_coupling import PairCoupling
from tinyc.ops.pair_sums import PairSums
from tinyc.ops.power import Power
from tinyc.ops.recurrent import GATES, Recurrent
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.resize_bilinear import ResizeBilinear
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.stft import Stft
from tinyc.ops.tanh import Tanh
from tinyc.ops.top_k import TopK
from tinyc.ops.transpose_conv2d import TransposeConv2D

LINES: tuple[Shape, ...] = ((1, 40), (1, 500), (6, 60), (20, 10))
UNARY = (Absolute(), Clip(RELU6), HardSwish(), LeakyRelu(0.1), Sigmoid(), Tanh())
POWERS = (0.5, -0.5, 2.0, 3.0, 5.0, -1.0, 0.75, 1.3)
ONE = Padding(1, 1, 1, 1)
NONE = Padding(0, 0, 0, 0)


def layer(attrs: Any, shapes: Sequence[Shape], moving: int = 1) -> Graph:
    """A node of random constants. shapes: of its inputs, of which the first `moving` are computed."""
    rng = np.random.default_rng(len(shapes) + shapes[0][-1])
    values = [tensor(f"x{k}", shape, dtype="f32") for k, shape in enumerate(shapes)]
    fixed = {value.name: rng.standard_normal(value.shape).astype(np.float32) for value in values[moving:]}
    return one_node(op_with(attrs).name, attrs, values, consts=fixed)


def float_layers() -> Iterator[Graph]:
    """All of them."""
    for shape in LINES:
        for attrs in (*UNARY, *(Function(name, 0.7) for name in EXACT), *map(Power, POWERS)):
            yield layer(attrs, [shape])
        for attrs in (Softmax(0.5), LogSoftmax(), L2Normalize()):
            yield layer(attrs, [shape])
    for part in (_weighted, _windows, _others, _recurrent):
        yield from part()


def _weighted() -> Iterator[Graph]:
    images: tuple[tuple[Shape, int, int], ...] = (
        ((1, 6, 6, 8), 12, 1),
        ((1, 4, 5, 40), 9, 1),
        ((1, 6, 7, 16), 8, 3),
        ((1, 9, 7, 3), 16, 3),
        ((1, 8, 8, 5), 6, 2),
    )
    for shape, out_c, k in images:
        pad = ONE if k == 3 else NONE
        yield layer(Conv2D(pad=pad), [shape, (out_c, k, k, shape[3]), (out_c,)])
        yield layer(DepthwiseConv2D(pad=pad), [shape, (k, k, shape[3]), (shape[3],)])
        size = Pair(2 * shape[1], 2 * shape[2])
        yield layer(TransposeConv2D(Pair(2, 2), Pair(0, 0), size), [shape, (out_c, k, k, shape[3]), (out_c,)])
    for rows, in_c, out_c in ((1, 40, 9), (1, 200, 32), (1, 16, 64), (6, 24, 10)):
        yield layer(FullyConnected(), [(rows, in_c), (out_c, in_c), (out_c,)])
        yield layer(BatchMatmul(), [(2, rows + 2, in_c), (2, in_c, out_c)], 2)
        yield layer(Distance(), [(rows, in_c), (out_c, in_c)])
        yield layer(Distance(squared=False), [(rows, in_c), (out_c, in_c)])


def _windows() -> Iterator[Graph]:
    cases: tuple[tuple[Shape, int, int, Padding], ...] = (
        ((1, 8, 8, 24), 2, 2, NONE),
        ((1, 9, 7, 8), 3, 1, ONE),
        ((1, 12, 12, 5), 3, 2, NONE),
        ((1, 6, 6, 64), 2, 1, NONE),
        ((1, 5, 5, 32), 5, 1, NONE),
    )
    for shape, k, stride, pad in cases:
        yield layer(AvgPool2D(Pair(k, k), Pair(stride, stride), pad), [shape])
        yield layer(MaxPool2D(Pair(k, k), Pair(stride, stride), pad), [shape])
        places = tuple((i // 2, i // 2, 300 * (i % 2)) for i in range(2 * shape[1]))
        columns = tuple((i // 2, i // 2, 300 * (i % 2)) for i in range(2 * shape[2]))
        yield layer(ResizeBilinear(places, columns), [shape])


def _others() -> Iterator[Graph]:
    for shape in ((1, 6, 7, 5), (1, 40, 3, 8), (1, 1, 90, 12)):
        for k, largest in ((1, True), (3, False)):
            yield one_node("top_k", TopK(2, k, largest), [tensor("x", shape, dtype="f32")])
    for counts in ((3, 1, 0, 4), (2, 5), (20, 9, 11), (6, 40)):
        vectors, rows = sum(counts), len(counts) * (len(counts) - 1) // 2
        yield layer(PairSums(counts), [(1, vectors), (vectors, len(counts) - 1), (rows,)])
    for classes in (2, 4, 7, 10):
        rows = classes * (classes - 1) // 2
        yield layer(PairCoupling(classes), [(1, rows), (rows,), (rows,)])
    for n, step, length in (
        (512, 128, 256),
        (200, 9, 64),
        (300, 32, 128),
        (120, 20, 50),
        (400, 60, 100),
        (900, 200, 220),
    ):
        yield layer(Stft(step), [(1, n), (length,)])


def _recurrent() -> Iterator[Graph]:
    for units, in_c, steps in ((4, 3, 3), (16, 8, 5), (8, 30, 2), (24, 4, 4), (12, 28, 3), (4, 80, 2)):
        for cell in ("lstm", "gru"):
            rows = GATES[cell] * units
            yield layer(Recurrent(cell), [(steps, in_c), (rows, in_c), (rows,), (rows, units)])
            yield stateful_loop(RecurrentKept(cell), units, in_c, steps)
        yield lstm(units, in_c, steps)
        yield svdf(units, 2, steps + 4, in_c)
        yield svdf(units, 1, steps, in_c)
