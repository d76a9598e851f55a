# SPDX-License-Identifier: Apache-2.0
"""Dead channel elimination changes no bit, on any graph; and finds what there is to find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinyc.base.numerics import Numerics
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU, Act, Padding, Pair, Site
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.clip import Clip
from tinyc.ops.concat import Concat
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.mean import Mean
from tinyc.passes.dead_channels import drop_dead_channels
from tinyc.reference.interpreter import prepare_int

PAD1 = Padding(1, 1, 1, 1)


class Net:
    """Builds an s8 graph value by value; weights are sparse, so that channels die."""

    def __init__(self, seed: int, shape: tuple[int, ...] = (1, 5, 4, 3)) -> None:
        self.rng = np.random.default_rng(seed)
        self.values: dict[str, Value] = {}
        self.consts: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.x = self._value("x", shape)

    def _value(self, name: str, shape: Sequence[int], dtype: Any = "s8", quant: Quant | None = None) -> str:
        if quant is None and dtype == "s8":
            quant = Quant((float(self.rng.uniform(0.02, 0.2)),), (int(self.rng.integers(-128, 60)),))
        self.values[name] = Value(name, tuple(shape), dtype, quant)
        return name

    def const(self, name: str, array: Array, quant: Quant | None = None) -> str:
        self.consts[name] = read_only(array)
        return self._value(name, array.shape, "s8" if array.dtype == np.int8 else "s32", quant)

    def node(self, op: str, attrs: Any, *inputs: str, same_quant: bool = False) -> str:
        name = f"n{len(self.nodes)}"
        read = [self.values[i] for i in inputs]
        (kind,) = all_ops()[op].infer(attrs, *read)
        self._value(f"{name}_y", kind.shape, kind.dtype, read[0].quant if same_quant else None)
        self.nodes.append(Node(name, op, inputs, (f"{name}_y",), attrs))
        return f"{name}_y"

    def weighted(self, op: str, attrs: Any, x: str, w: Array, axis: int, bias: Array | None = None) -> str:
        name = f"n{len(self.nodes)}"
        count = w.shape[axis]
        scales = Quant(tuple(self.rng.uniform(0.005, 0.02, count).tolist()), (0,) * count, axis)
        inputs = [x, self.const(f"{name}_w", w, scales)]
        if bias is not None:
            inputs.append(self.const(f"{name}_b", bias.astype(np.int32)))
        return self.node(op, attrs, *inputs)

    def sparse(self, shape: tuple[int, ...], axis: int, dead: float = 0.4) -> Array:
        w = self.rng.integers(-127, 128, shape)
        w = np.moveaxis(w, axis, 0)
        w[self.rng.random(w.shape[0]) < dead] = 0
        return np.moveaxis(w, 0, axis).astype(np.int8)

    def bias(self, count: int) -> Array | None:
        return None if self.rng.random() < 0.2 else self.rng.integers(-20000, 20000, count)

    def conv(self, x: str, out_c: int, k: int, pad: Padding, act: Act = RELU) -> str:
        shape = (out_c, k, k, self.values[x].shape[-1])
        attrs = Conv2D(pad=pad, act=act)
        return self.weighted("conv2d", attrs, x, self.sparse(shape, 0), 0, self.bias(out_c))

    def depthwise(self, x: str, pad: Padding, multiplier: int = 1) -> str:
        channels = self.values[x].shape[-1] * multiplier
        w = self.sparse((3, 3, channels), 2, 0.2)
        return self.weighted("depthwise_conv2d", DepthwiseConv2D(pad=pad, act=RELU), x, w, 2, self.bias(channels))

    def dense(self, x: str, out_c: int) -> str:
        w = self.sparse((out_c, self.values[x].elements), 0, 0.1)
        return self.weighted("fully_connected", FullyConnected(), x, w, 0, self.bias(out_c))

    def graph(self, *outputs: str) -> Graph:
        graph = Graph("net", (self.x,), outputs, tuple(self.nodes), self.values, self.consts)
        check(graph, "test", all_ops())
        return graph


def _random_net(seed: int) -> Graph:
    """Convolutions, depthwise, residual add, concat, pools, padding or none, flattened dense layer at the end."""
    net = Net(seed)
    x = net.conv(net.x, int(net.rng.integers(2, 7)), 3, PAD1)
    for _ in range(int(net.rng.integers(1, 6))):
        kind = net.rng.choice(["conv1", "conv3", "depthwise", "multiplied", "residual", "concat", "pool"])
        if kind == "conv1":
            x = net.conv(x, int(net.rng.integers(1, 7)), 1, Padding(0, 0, 0, 0))
        elif kind == "conv3":
            x = net.conv(x, int(net.rng.integers(1, 7)), 3, PAD1)
        elif kind == "depthwise":
            x = net.depthwise(x, PAD1)
        elif kind == "multiplied":
            x = net.depthwise(x, PAD1, 2)
        elif kind == "residual":
            x = net.node("add", Add(RELU), x, net.conv(x, net.values[x].shape[-1], 3, PAD1, Act()))
        elif kind == "concat":
            left, right = net.conv(x, 3, 1, Padding(0, 0, 0, 0)), net.depthwise(x, PAD1)
            net.values[right] = replace(net.values[right], quant=net.values[left].quant)
            x = net.node("concat", Concat(3), left, right, same_quant=True)
        else:
            x = net.node("max_pool2d", MaxPool2D(Pair(2, 2), pad=Padding(0, 0, 1, 1)), x, same_quant=True)
    if net.rng.random() < 0.5:
        x = net.node("mean", Mean((1, 2), bool(net.rng.random() < 0.5)), x)
    return net.graph(net.dense(x, 4))


def _macs(graph: Graph, numerics: Numerics) -> int:
    return sum(all_ops()[node.op].macs(Site(graph, node, numerics)) for node in graph.nodes)


def _assert_equal(graph: Graph, numerics: Numerics) -> Graph:
    reduced = drop_dead_channels(graph, numerics)
    check(reduced, "dead", all_ops())
    before, after = prepare_int(graph, numerics), prepare_int(reduced, numerics)
    rng = np.random.default_rng(1)
    shape = graph.values[graph.inputs[0]].shape
    for x in [*rng.integers(-128, 128, (4, *shape)), np.full(shape, -128), np.full(shape, 127)]:
        sample = {graph.inputs[0]: x.astype(np.int8)}
        want, got = before(sample), after(sample)
        for name in graph.outputs:
            np.testing.assert_array_equal(got[name], want[name])
    return reduced


@pytest.mark.quick_cases(40)
@pytest.mark.parametrize("numerics", [Numerics.TFLM, Numerics.LITERT])
@pytest.mark.parametrize("seed", range(60))
def test_random_sparse_networks_keep_every_bit(seed: int, numerics: Numerics) -> None:
    _assert_equal(_random_net(seed), numerics)


def test_the_random_networks_do_lose_channels() -> None:
    """Otherwise the test above would prove nothing."""
    nets = [_random_net(seed) for seed in range(60)]
    shrunk = [_macs(drop_dead_channels(net, Numerics.TFLM), Numerics.TFLM) < _macs(net, Numerics.TFLM) for net in nets]
    assert sum(shrunk) > 30


def _one_constant_channel(pad: Padding, level_at_zero_point: bool) -> tuple[Graph, Graph]:
    """conv 1x1 whose second channel is constant, read by a padded or unpadded 3x3 convolution."""
    net = Net(7, (1, 5, 5, 2))
    w = np.array([[[[50, -30]]], [[[0, 0]]], [[[20, 90]]]], np.int8)
    bias = np.array([10, 0 if level_at_zero_point else 9000, -40])
    mid = net.weighted("conv2d", Conv2D(act=Act()), net.x, w, 0, bias)
    taps = net.rng.integers(1, 127, (2, 3, 3, 3)).astype(np.int8)
    graph = net.graph(net.weighted("conv2d", Conv2D(pad=pad), mid, taps, 0, np.array([5, 6])))
    return graph, _assert_equal(graph, Numerics.TFLM)


@pytest.mark.parametrize(
    ("pad", "level_at_zero_point", "channels"),
    [
        (Padding(0, 0, 0, 0), False, 2),
        (Padding(0, 0, 0, 0), True, 2),
        (PAD1, True, 2),
        (PAD1, False, 3),  # the border reads the zero point where the inside reads the constant
        (Padding(0, 0, 1, 0), False, 3),
    ],
)
def test_constants_and_borders(pad: Padding, level_at_zero_point: bool, channels: int) -> None:
    graph, reduced = _one_constant_channel(pad, level_at_zero_point)
    assert graph.values["n0_y"].shape[-1] == 3
    assert reduced.values["n0_y"].shape[-1] == channels


def test_a_channel_that_nobody_reads_goes_back_through_depthwise() -> None:
    net = Net(3, (1, 4, 4, 2))
    a = net.weighted("conv2d", Conv2D(act=RELU), net.x, np.full((3, 1, 1, 2), 9, np.int8), 0, np.array([1, 2, 3]))
    b = net.weighted("depthwise_conv2d", DepthwiseConv2D(pad=PAD1), a, np.full((3, 3, 3), 5, np.int8), 2)
    taps = np.full((2, 1, 1, 3), 7, np.int8)
    taps[..., 1] = 0
    reduced = _assert_equal(net.graph(net.weighted("conv2d", Conv2D(), b, taps, 0)), Numerics.TFLM)
    assert reduced.values["n0_y"].shape[-1] == reduced.values["n1_y"].shape[-1] == 2


def test_a_second_reader_keeps_the_channel() -> None:
    net = Net(3, (1, 4, 4, 2))
    a = net.weighted("conv2d", Conv2D(act=RELU), net.x, np.full((3, 1, 1, 2), 9, np.int8), 0, np.array([1, 2, 3]))
    taps = np.full((2, 1, 1, 3), 7, np.int8)
    taps[..., 1] = 0
    b = net.weighted("conv2d", Conv2D(), a, taps, 0)
    graph = net.graph(b, a)
    assert drop_dead_channels(graph, Numerics.TFLM) is graph


def test_model_inputs_and_outputs_keep_all_channels() -> None:
    net = Net(5, (1, 3, 3, 4))
    graph = net.graph(net.conv(net.x, 6, 1, Padding(0, 0, 0, 0)))
    reduced = drop_dead_channels(graph, Numerics.TFLM)
    assert reduced.values["x"].shape == (1, 3, 3, 4)
    assert reduced.values[graph.outputs[0]].shape == (1, 3, 3, 6)


@pytest.mark.parametrize("shape", [(), (1,), (4,)])
def test_numbers_without_a_shape(shape: tuple[int, ...]) -> None:
    """A scalar has one channel, also where a monotone operator has another number beside it."""
    net = Net(1, shape)
    number = net.const("number", np.array(7, np.int8), Quant((0.1,), (3,)))
    graph = net.graph(net.node("add", Add(RELU), net.x, number), net.node("clip", Clip(RELU), net.x, same_quant=True))
    small = drop_dead_channels(graph, Numerics.OURS)
    x = {"x": np.arange(-128, 128).astype(np.int8).reshape(-1, *(1,) * len(shape)) * np.ones(shape, np.int8)}
    outputs = prepare_int(small, Numerics.OURS)(x)
    for name, array in prepare_int(graph, Numerics.OURS)(x).items():
        np.testing.assert_array_equal(outputs[name], array)
