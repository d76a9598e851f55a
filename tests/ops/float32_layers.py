# SPDX-License-Identifier: Apache-2.0
"""float32 layers that together make every float32 kernel run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.ops.one_node import one_node, tensor
from tinyc.ir.graph import Graph
from tinyc.kernel.site import RELU6, Act, Padding, Pair
from tinyc.ops import op_with
from tinyc.ops.absolute import Absolute
from tinyc.ops.add import Add
from tinyc.ops.argmax import ArgMax
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.batch_matmul import BatchMatmul
from tinyc.ops.clip import Clip
from tinyc.ops.compare import KINDS, Compare
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.distance import Distance
from tinyc.ops.div import Div
from tinyc.ops.extremum import Extremum
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.function import EXACT, Function
from tinyc.ops.hard_swish import HardSwish
from tinyc.ops.l2_normalize import L2Normalize
from tinyc.ops.leaky_relu import LeakyRelu
from tinyc.ops.log_softmax import LogSoftmax
from tinyc.ops.lstm import Lstm
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.ops.mul import Mul
from tinyc.ops.pair_coupling import PairCoupling
from tinyc.ops.pair_sums import PairSums
from tinyc.ops.power import Power
from tinyc.ops.prelu import Prelu
from tinyc.ops.recurrent import GATES, Recurrent
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.reduce_extremum import ReduceExtremum
from tinyc.ops.resize_bilinear import FINE, ResizeBilinear
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.softmax import Softmax
from tinyc.ops.squared_difference import SquaredDifference
from tinyc.ops.stft import Stft
from tinyc.ops.sub import Sub
from tinyc.ops.sum import Sum
from tinyc.ops.svdf import Svdf
from tinyc.ops.tanh import Tanh
from tinyc.ops.top_k import TopK
from tinyc.ops.transpose_conv2d import TransposeConv2D


@dataclass(frozen=True)
class Layer:
    """A layer to test. inputs: shapes; those behind the first `moving` are constants."""

    attrs: Any
    inputs: tuple[tuple[int, ...], ...]
    moving: int = 1


IMAGE = (1, 6, 7, 5)
NUMBERS = (4, 150)
UNARY = [
    *(Absolute(), Clip(RELU6), HardSwish(), LeakyRelu(0.1), Sigmoid(), Tanh()),
    *(Power(exponent) for exponent in (0.5, -0.5, 2.0, 3.0, -1.0, 0.75)),
    *(Function(name, 0.7) for name in EXACT),
    *(Softmax(0.5), LogSoftmax(), L2Normalize()),
]
BINARY = [Add(RELU6), Sub(), Mul(Act(0.0)), Div(), Extremum(True), Extremum(False), SquaredDifference(), Prelu()]
OTHERS = [
    Layer(Recurrent("lstm"), ((4, 6), (20, 6), (20,), (20, 5))),
    Layer(Recurrent("gru", reverse=True, sequence=False), ((4, 3), (15, 3), (15,), (15, 5), (5,))),
    Layer(Conv2D(Pair(2, 1), Padding(1, 2, 1, 0), act=RELU6), (IMAGE, (7, 3, 3, 5), (7,))),
    Layer(Conv2D(dilation=Pair(2, 2), pad=Padding(2, 2, 2, 2)), (IMAGE, (4, 3, 2, 5))),
    Layer(Conv2D(groups=2), ((1, 4, 4, 6), (10, 1, 1, 3), (10,))),
    Layer(DepthwiseConv2D(Pair(1, 2), Padding(1, 1, 1, 1), act=Act(0.0)), (IMAGE, (3, 3, 10), (10,))),
    Layer(DepthwiseConv2D(Pair(2, 1), Padding(1, 1, 1, 1), act=Act(0.0)), ((1, 6, 7, 9), (3, 3, 9), (9,))),
    Layer(DepthwiseConv2D(pad=Padding(0, 3, 0, 3), act=RELU6), ((1, 3, 9, 12), (2, 7, 12), (12,))),
    Layer(Conv2D(pad=Padding(1, 1, 1, 1), act=Act(0.0)), ((1, 5, 8, 8), (16, 3, 3, 8), (16,))),
    Layer(Conv2D(Pair(2, 2), Padding(0, 1, 1, 2)), ((1, 7, 5, 3), (13, 2, 3, 3), (13,))),
    Layer(Conv2D(act=RELU6), ((1, 2, 5, 12), (8, 1, 1, 12))),
    Layer(FullyConnected(act=Act(0.0)), ((1, 37), (24, 37), (24,))),
    Layer(FullyConnected(keep_dims=True), ((3, 21), (9, 21), (9,))),
    Layer(BatchMatmul(adj_y=True), ((2, 3, 4), (1, 5, 4)), 2),
    Layer(TransposeConv2D(Pair(2, 2), Pair(1, 0), Pair(11, 14)), (IMAGE, (3, 3, 2, 5), (3,))),
    Layer(AvgPool2D(Pair(3, 2), Pair(2, 2), Padding(1, 0, 1, 1)), (IMAGE,)),
    Layer(AvgPool2D(Pair(2, 2), pad=Padding(1, 1, 0, 0), count_pad=True), (IMAGE,)),
    Layer(MaxPool2D(Pair(3, 3), Pair(2, 2), Padding(1, 1, 1, 1), act=Act(0.0)), (IMAGE,)),
    Layer(Mean((1, 2)), (IMAGE,)),
    Layer(Sum((3,), keep_dims=True), (IMAGE,)),
    Layer(ReduceExtremum((0, 1), False, True), (IMAGE,)),
    Layer(ReduceExtremum((2,), True, False), (IMAGE,)),
    Layer(ResizeBilinear(((0, 1, 0), (1, 2, 300), (5, 5, 0)), ((0, 1, 512), (3, 4, 1))), (IMAGE,)),
    Layer(ResizeBilinear(((0, 1, 1), (1, 2, FINE // 3), (5, 5, 0)), ((0, 1, FINE - 1), (3, 4, 7)), FINE), (IMAGE,)),
    Layer(Distance(), ((2, 7), (5, 7))),
    Layer(Distance(squared=False), ((1, 9), (11, 9)), 2),
    Layer(PairSums((3, 1, 0, 4)), ((1, 8), (8, 3), (6,))),
    Layer(PairCoupling(4), ((1, 6), (6,), (6,))),
    Layer(PairCoupling(2), ((1, 1), (1,), (1,))),
    Layer(PairSums((2, 5)), ((1, 7), (7, 1), (1,))),
    Layer(Stft(9), ((2, 90), (64,))),
    Layer(Stft(20), ((120,), (50,))),
    Layer(Add(), (IMAGE, (5,)), 2),
    Layer(Mul(), ((1, 6, 1, 5), (1, 1, 7, 1)), 2),
]


def every_layer() -> list[Layer]:
    """All of them."""
    ones = [Layer(attrs, (NUMBERS,)) for attrs in UNARY]
    return ones + [Layer(attrs, (NUMBERS, NUMBERS), 2) for attrs in BINARY] + OTHERS


def lstm(units: int, in_c: int, steps: int, clip: float = 0.0) -> Graph:
    """One call of an LSTM layer with random weights, its states as inputs and outputs."""
    rng = np.random.default_rng(units)
    shapes = [(units, in_c)] * 4 + [(units, units)] * 4 + [(units,)] * 4
    weights = {f"c{k}": rng.standard_normal(shape).astype(np.float32) for k, shape in enumerate(shapes)}
    free = {"x": (1, steps, in_c), "hidden": (1, units), "cell": (1, units)}
    names = ("x", *weights, "hidden", "cell")
    values = [tensor(name, weights[name].shape if name in weights else free[name], dtype="f32") for name in names]
    after = [tensor(name, (1, units), dtype="f32") for name in ("hidden2", "cell2")]
    return one_node("lstm", Lstm(clip), values, consts=weights, others=after)


def svdf(units: int, rank: int, memory: int, in_c: int) -> Graph:
    """One call of an SVDF layer with random weights, its state as input and output."""
    rng, filters = np.random.default_rng(units), units * rank
    shapes = {"w": (filters, in_c), "t": (filters, memory), "b": (units,)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    state = (1, filters * memory)
    values = [tensor("x", (1, in_c), dtype="f32")]
    values += [tensor(name, shape, dtype="f32") for name, shape in (*shapes.items(), ("state", state))]
    return one_node("svdf", Svdf(rank, Act(0.0)), values, consts=weights, others=[tensor("after", state, dtype="f32")])


def best_cases() -> Iterator[Graph]:
    """The best elements of every type along every axis."""
    for dtype in ("f32", "s32", "s8"):
        image = tensor("x", IMAGE, 0.1 if dtype == "s8" else 0.0, 3, dtype)
        yield one_node("top_k", TopK(3, 5), [image])
        yield one_node("top_k", TopK(1, 2, largest=False), [image])
        yield one_node("top_k", TopK(-2, 1), [image])


def stateful_loop(attrs: RecurrentKept, units: int, in_c: int, steps: int) -> Graph:
    """One call of a recurrent loop with random weights, its states as inputs and outputs."""
    rng, rows = np.random.default_rng(units), GATES[attrs.cell] * units
    shapes = {"w": (rows, in_c), "b": (rows,), "r": (rows, units)}
    states = ["hidden", "cell"] if attrs.cell == "lstm" else ["hidden"]
    if attrs.cell == "gru":
        shapes["late"] = (units,)
    weights = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    fixed = [tensor(name, shape, dtype="f32") for name, shape in shapes.items()]
    state_tensors = [tensor(name, (1, units), dtype="f32") for name in states]
    absent = [None] if attrs.cell == "lstm" else []
    others = [tensor(f"{name}2", (1, units), dtype="f32") for name in states]
    inputs = [tensor("x", (steps, in_c), dtype="f32"), *fixed, *absent, *state_tensors]
    return one_node("recurrent_kept", attrs, inputs, consts=weights, others=others)


def other_cases() -> Iterator[Graph]:
    """One-node graphs with several outputs, or outputs that are no floats."""
    yield stateful_loop(RecurrentKept("lstm"), 4, 3, 3)
    yield stateful_loop(RecurrentKept("gru", reverse=True, sequence=False), 5, 2, 2)
    yield lstm(3, 4, 3)
    yield lstm(5, 2, 2, 0.25)
    yield svdf(3, 2, 4, 5)
    image = tensor("x", IMAGE, dtype="f32")
    yield one_node("argmax", ArgMax(2), [image])
    yield one_node("argmax", ArgMax(3, largest=False, keep_dims=True), [image])
    yield from best_cases()
    for kind in KINDS:
        yield one_node("compare", Compare(kind), [image, tensor("z", (1, 6, 1, 5), dtype="f32")])


def float_cases() -> Iterator[Graph]:
    """One-node graphs."""
    yield from other_cases()
    rng = np.random.default_rng(11)
    for layer in every_layer():
        values = [tensor(f"x{k}", shape, dtype="f32") for k, shape in enumerate(layer.inputs)]
        fixed = {value.name: rng.standard_normal(value.shape).astype(np.float32) for value in values[layer.moving :]}
        yield one_node(op_with(layer.attrs).name, layer.attrs, values, consts=fixed)
