# SPDX-License-Identifier: Apache-2.0
"""How long large graphs take to plan: generated networks of chains and residual blocks.

    python bench/large_graphs.py               # 100, 300 and 1,000 layers for the Cortex-M4, as a table
    python bench/large_graphs.py 2000

Layer by layer: the search for kernels and places within 20 % more time (`--prefer ram`). Streamed: the search for
groups of layers that run row by row, which looks at groups between the narrowest places, as far as its work allows.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

import numpy as np

from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.choose.select import candidates
from tinyc.ir.graph import Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import RELU, Padding, Pair
from tinyc.ops.add import Add
from tinyc.ops.conv2d import Conv2D
from tinyc.ops.depthwise_conv2d import DepthwiseConv2D
from tinyc.plan.families import by_rows, families_of
from tinyc.plan.front import Front
from tinyc.plan.worth import Worth

BOARD = "cortex-m4"
CHANNELS, SIDE = 8, 16
X = Quant((0.02,), (-3,))
LEAST = 4  # an arena smaller by 1 % is worth so many per cent of time


class Network:
    """A graph of int8 layers under construction; layers of one kind share their weights."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.values = {"x": Value("x", (1, SIDE, SIDE, CHANNELS), "s8", X)}
        self.consts: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.side = SIDE
        for name, shape in (("point", (CHANNELS, 1, 1, CHANNELS)), ("deep", (3, 3, CHANNELS))):
            weights = np.random.default_rng(seed).integers(-127, 128, shape).astype(np.int8)
            self.values[name] = Value(name, shape, "s8", Quant((0.003,), (0,)))
            self.consts[name] = read_only(weights)

    def add(self, op: str, attrs: object, *inputs: str) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.values[name] = Value(name, (1, self.side, self.side, CHANNELS), "s8", X)
        self.nodes.append(Node(name, op, inputs, (name,), attrs))
        return name

    def depthwise(self, x: str, stride: int = 1) -> str:
        self.side = -(-self.side // stride)
        pad = Padding(1, 1, 1, 1) if stride == 1 else Padding(0, 0, 1, 1)
        return self.add("depthwise_conv2d", DepthwiseConv2D(Pair(stride, stride), pad, act=RELU), x, "deep")

    def point(self, x: str) -> str:
        return self.add("conv2d", Conv2D(act=RELU), x, "point")

    def block(self, x: str) -> str:
        """A residual block: two to four layers, and the sum with what went in."""
        y = x
        for _ in range(self.rng.choice([1, 2])):
            y = self.point(self.depthwise(y))
        return self.add("add", Add(), x, y)

    def graph(self, y: str) -> Graph:
        return Graph("large", ("x",), (y,), tuple(self.nodes), self.values, self.consts)


def network(layers: int, seed: int = 1) -> Graph:
    """About so many layers: chains and residual blocks by turns, the image halved once, a third of the way."""
    net = Network(seed)
    x = "x"
    while len(net.nodes) < layers:
        if net.side == SIDE and len(net.nodes) > layers // 3:
            x = net.depthwise(x, stride=2)
        elif net.rng.random() < 0.5:
            x = net.block(x)
        else:
            x = net.point(net.depthwise(x))
    return net.graph(x)


def measure(layers: int) -> str:
    """A row of the table."""
    graph, board = network(layers), load_board(BOARD)
    began = time.perf_counter()
    choices = candidates(graph, board.isa, Numerics.TFLM)
    selected = time.perf_counter()
    least = Worth(0, LEAST)
    whole = Front(families_of(graph, choices, up_to=0)).best(least)
    planned = time.perf_counter()
    rows = Front(by_rows(graph, choices, None)).best(least)
    done = time.perf_counter()
    assert whole is not None
    bytes_ = f"{rows.plan.arena_bytes:,}" if rows else "-"
    seconds = f"{selected - began:.1f} | {planned - selected:.1f} | {done - planned:.1f}"
    return f"| {len(graph.nodes):,} | {whole.plan.arena_bytes:,} | {whole.plan.gap_bytes:,} | {bytes_} | {seconds} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", nargs="*", type=int, default=[100, 300, 1000], help="layers of each network")
    args = parser.parse_args()
    print("| layers | layer by layer | above the bound | streamed | seconds to select | to plan | to stream |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for layers in args.layers:
        print(measure(layers), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
