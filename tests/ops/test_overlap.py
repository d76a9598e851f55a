# SPDX-License-Identifier: Apache-2.0
"""Kernels at work where the planner puts their tensors: in place, and with input and output overlapping by rows.

The tests of single operators give every tensor bytes of its own; here small random networks run through the
generated library under a real plan, every usable kernel in turn, against the integer reference.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops.harness import HOST_ISA, run_plan, usable_kernels
from tests.ops.one_node import random_s8
from tinyc.base.numerics import Numerics
from tinyc.choose.select import Choice, select
from tinyc.ir.graph import Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU, Act, Padding, Pair
from tinyc.ops import all_ops
from tinyc.ops.add import Add
from tinyc.ops.avg_pool2d import AvgPool2D
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.max_pool2d import MaxPool2D
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.plan import Plan, plan_graph
from tinyc.reference.interpreter import run_int


class Net:
    """A network under construction; `x` is its newest value."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        shape = (1, self.rng.randrange(5, 10), self.rng.randrange(4, 9), self.rng.choice([3, 4, 5, 8]))
        self.x = Value("x", shape, "s8", Quant((0.0235,), (3,)))
        self.values, self.consts, self.nodes = {"x": self.x}, {}, []

    def add(self, op: str, attrs: Any, inputs: Sequence[Value], scale: float, zero: int) -> Value:
        (kind,) = all_ops()[op].infer(attrs, *inputs)
        name = f"v{len(self.nodes)}"
        self.x = Value(name, kind.shape, kind.dtype, Quant((float(np.float32(scale)),), (zero,)))
        self.values |= {value.name: value for value in (*inputs, self.x)}
        self.nodes.append(Node(f"{op}_{name}", op, tuple(v.name for v in inputs), (name,), attrs))
        return self.x

    def weighted(self, op: str, attrs: Any, shape: tuple[int, ...], axis: int, taps: int) -> None:
        data = np.random.default_rng(self.rng.randrange(10**6))
        name, out_c = f"w{len(self.nodes)}", shape[axis]
        self.consts[name] = read_only(data.integers(-127, 128, shape).astype(np.int8))
        scale = tuple(float(np.float32(v)) for v in data.uniform(0.002, 0.02, out_c))
        w = Value(name, shape, "s8", Quant(scale, (0,) * out_c, axis))
        before = self.x.quant.scale[0] if self.x.quant else 1.0
        self.add(op, attrs, (self.x, w), 0.6 * before * float(np.sqrt(taps)), self.rng.randrange(-20, 20))

    def window(self, largest: int) -> tuple[Pair, Pair, Padding]:
        """Kernel, stride and padding that fit the current image."""
        kernel = Pair(*(self.rng.randrange(1, min(largest, n) + 1) for n in self.x.shape[1:3]))
        stride = Pair(self.rng.choice([1, 1, 1, 2]), self.rng.choice([1, 1, 2]))
        pad = [self.rng.randrange(n) for n in (*kernel, *kernel)]
        return kernel, stride, Padding(*pad)

    def act(self) -> Act:
        return self.rng.choice([Act(), RELU])

    def conv(self) -> None:
        kernel, stride, pad = self.window(4)
        in_c, out_c = self.x.shape[3], self.rng.choice([3, 4, 5, 8])
        attrs = Conv2D(stride, pad, act=self.act())
        self.weighted("conv2d", attrs, (out_c, *kernel, in_c), 0, kernel.h * kernel.w * in_c)

    def pointwise(self) -> None:
        out_c = self.rng.choice([3, 4, 5, 8, self.x.shape[3]])
        self.weighted("conv2d", Conv2D(act=self.act()), (out_c, 1, 1, self.x.shape[3]), 0, self.x.shape[3])

    def depthwise(self) -> None:
        kernel, stride, pad = self.window(3)
        attrs = DepthwiseConv2D(stride, pad, act=self.act())
        self.weighted("depthwise_conv2d", attrs, (*kernel, self.x.shape[3]), 2, kernel.h * kernel.w)

    def depthwise_same(self) -> None:
        attrs = DepthwiseConv2D(pad=Padding(1, 1, 1, 1), act=self.act())
        self.weighted("depthwise_conv2d", attrs, (3, 3, self.x.shape[3]), 2, 9)

    def pool(self) -> None:
        kernel, stride, _ = self.window(3)
        kind, op = self.rng.choice([(MaxPool2D, "max_pool2d"), (AvgPool2D, "avg_pool2d")])
        quant = self.x.quant or Quant((1.0,), (0,))
        self.add(op, kind(kernel, stride), (self.x,), quant.scale[0], quant.zero[0])

    def residual(self) -> None:
        skip = self.x
        self.weighted("conv2d", Conv2D(pad=Padding(1, 1, 1, 1)), (skip.shape[3], 3, 3, skip.shape[3]), 0, 9)
        self.add("add", Add(act=self.act()), (skip, self.x), 0.05, -7)

    def sigmoid(self) -> None:
        self.add("sigmoid", Sigmoid(), (self.x,), 1 / 256, -128)

    def dense(self) -> None:
        flat = (1, self.x.elements)
        quant = self.x.quant or Quant((1.0,), (0,))
        self.add("reshape", Reshape(flat), (self.x,), quant.scale[0], quant.zero[0])
        self.weighted("fully_connected", FullyConnected(act=self.act()), (9, flat[1]), 0, flat[1])

    def graph(self) -> Graph:
        return Graph("net", ("x",), (self.x.name,), tuple(self.nodes), self.values, self.consts)


def random_net(seed: int) -> Graph:
    net = Net(seed)
    kinds = [net.conv, net.pointwise, net.depthwise, net.depthwise_same, net.pool, net.residual, net.sigmoid]
    for kind in net.rng.sample(kinds, 5):
        kind()
    if net.rng.random() < 0.5:
        net.dense()
    return net.graph()


def choices_of(graph: Graph, seed: int) -> dict[str, Choice]:
    """A usable kernel for each node, at random."""
    rng = random.Random(seed)
    nodes = [node for node in graph.nodes if not all_ops()[node.op].view]
    prefer = {node.name: rng.choice(usable_kernels(graph, node, Numerics.TFLM)) for node in nodes}
    return select(graph, HOST_ISA, Numerics.TFLM, prefer)


def assert_equal_to_reference(graph: Graph, choices: dict[str, Choice], plan: Plan) -> None:
    inputs = [{"x": random_s8(seed, graph.values["x"].shape)} for seed in range(3)]
    outputs = run_plan(graph, choices, plan, inputs, Numerics.TFLM)
    for (got,), sample in zip(outputs, inputs, strict=True):
        (name,) = graph.outputs
        np.testing.assert_array_equal(got, run_int(graph, sample, Numerics.TFLM)[name])


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 14))])
def test_networks_under_tight_plans(seed: int) -> None:
    graph = random_net(seed)
    choices = choices_of(graph, seed)
    assert_equal_to_reference(graph, choices, plan_graph(graph, choices, slide=True))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("op", ["conv", "depthwise", "pool", "pointwise", "depthwise_same"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_every_kernel_of_an_operator_as_close_as_it_may(op: str, seed: int) -> None:
    net = Net(seed)
    getattr(net, op)()
    graph = net.graph()
    for kernel in usable_kernels(graph, graph.nodes[0], Numerics.TFLM):
        choices = select(graph, HOST_ISA, Numerics.TFLM, {graph.nodes[0].name: kernel})
        plan = plan_graph(graph, choices, slide=True)
        assert_equal_to_reference(graph, choices, plan)


def test_rows_run_both_ways() -> None:
    """Without this, the tests above could pass without a single overlap or a single bottom-up step."""
    bottom_up = saved = seed = 0
    while (bottom_up <= 2 or saved <= 300) and seed < 14:
        graph = random_net(seed)
        choices = choices_of(graph, seed)
        plan = plan_graph(graph, choices, slide=True)
        bottom_up += len(plan.bottom_up)
        saved += plan_graph(graph, choices).arena_bytes - plan.arena_bytes
        seed += 1
    assert bottom_up > 2
    assert saved > 300
