# SPDX-License-Identifier: Apache-2.0
"""Streamed plans of random networks whose operators move, join, grow and shrink images: every row is right."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.ops.harness import HOST_ISA, run_program
from tests.unit.networks import Network
from tests.unit.stream_cases import NUMERICS, Machine, in_integers, random_sample, smallest_plan
from tinyc.choose.select import candidates
from tinyc.emit.lower import lower
from tinyc.ir.graph import Graph
from tinyc.plan import validate
from tinyc.plan.builder import problem_of
from tinyc.reference.interpreter import run_int

SEEDS = range(8)
MOST_ROWS = 24


class Moving(Network):
    """A network under construction, of operators without weights and those around them."""

    def nearest(self) -> None:
        self.up("nearest", ["half_pixel", "asymmetric"])

    def bilinear(self) -> None:
        self.up("linear", ["half_pixel", "asymmetric", "align_corners"])

    def up(self, mode: str, rules: list[str]) -> None:
        """By 2 or (columns) by 1.5."""
        c, h, w = self.shape[1:]
        scales = np.array([1, 1, 2, self.rng.choice([2, 1.5])], np.float32)
        name = f"s{len(self.constants)}"
        rule = str(self.rng.choice(rules))
        if rule == "align_corners" and w % 2:  # which ends of a half column? Such files are refused
            scales[3] = 2
        self.constants[name] = scales
        self.add("Resize", self.x, "-", name, mode=mode, coordinate_transformation_mode=rule)
        self.shape = (1, c, 2 * h, int(np.floor(w * scales[3])))

    def transposed(self) -> None:
        """A transposed convolution, kernel 2 to 4, stride 2."""
        _, c, h, w = self.shape
        k, out_c = int(self.rng.integers(2, 5)), int(self.rng.integers(1, 5))
        self.add("ConvTranspose", self.x, self.constant(c, out_c, k, k, scale=1 / k), strides=[2, 2], pads=[0, 0, 1, 1])
        self.shape = (1, out_c, 2 * (h - 1) + k - 1, 2 * (w - 1) + k - 1)

    def halves(self) -> None:
        """Half of the channels go around a convolution; joined, all are shuffled."""
        if self.shape[1] % 2:
            self.conv(self.shape[1] + 1, k=1)
        _, c, h, w = self.shape
        self.constants |= {f"h{c}": np.array([c // 2, c // 2], np.int64)}
        self.add("Split", self.x, f"h{c}", axis=1)
        node = self.nodes[-1]
        first = node.output[0]
        node.output.append(f"{first}_b")
        self.x, self.shape = f"{first}_b", (1, c // 2, h, w)
        self.conv(c // 2)
        self.add("Concat", first, self.x, axis=1)
        self.shape = (1, c, h, w)
        names = [f"r{c}_{h}_{w}", f"j{c}_{h}_{w}"]
        for name, shape in zip(names, ([1, 2, c // 2, h, w], [1, c, h, w]), strict=True):
            self.constants[name] = np.array(shape, np.int64)
        self.add("Reshape", self.x, names[0])
        self.add("Transpose", self.x, perm=[0, 2, 1, 3, 4])
        self.add("Reshape", self.x, names[1])

    def cut(self) -> None:
        """Rows and columns from the second on."""
        _, c, h, w = self.shape
        self.constants |= {"one": np.array([1, 1], np.int64), "far": np.array([999, 999], np.int64)}
        self.constants["hw"] = np.array([2, 3], np.int64)
        self.add("Slice", self.x, "one", "far", "hw")
        self.shape = (1, c, h - 1, w - 1)

    def depth_to_space(self) -> None:
        self.conv(int(self.rng.integers(1, 3)) * 4, k=1)
        _, c, h, w = self.shape
        self.add("DepthToSpace", self.x, blocksize=2)
        self.shape = (1, c // 4, 2 * h, 2 * w)

    def padded(self) -> None:
        """Before an operator that takes no padding."""
        self.pad()
        self.swish()

    def leaky(self) -> None:
        self.add("PRelu", self.x, self.constant(self.shape[1], 1, 1, scale=0.2))

    def swish(self) -> None:
        self.add("HardSwish", self.x)


GROWING = (Moving.nearest, Moving.bilinear, Moving.transposed, Moving.depth_to_space)
MOVING = (*GROWING, Moving.halves, Moving.cut, Moving.padded, Moving.branches)
OTHERS = (Moving.leaky, Moving.swish, Moving.pad, Moving.max_pool, Moving.strided, Moving.depthwise, Moving.residual)
BLOCKS = (*MOVING, *OTHERS, Moving.conv, Moving.excite)


@cache
def network(seed: int) -> Graph:
    """A convolution, one of the operators, four random blocks; its output is an image."""
    net = Moving(seed)
    net.conv()
    MOVING[seed % len(MOVING)](net)
    for _ in range(4):
        block = BLOCKS[net.rng.integers(len(BLOCKS))]
        if min(net.shape[2:]) > 3 and (block not in GROWING or net.shape[2] < MOST_ROWS // 2):
            block(net)
    net.conv(k=1)
    return in_integers(net.model(), seed)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("seed", SEEDS)
def test_every_row_is_right(seed: int) -> None:
    graph = network(seed)
    plan = smallest_plan(graph, by_rows=bool(seed % 2))
    assert plan is not None
    validate(plan)
    assert Machine(graph, plan, NUMERICS, random_sample(graph, seed)).run() == []


def test_all_of_them_have_rows() -> None:
    """But for the output's transpose. What follows a mean of the whole image has a row."""
    whole, by_rows = set(), set()
    for seed in SEEDS:
        graph = network(seed)
        problem = problem_of(graph, candidates(graph, frozenset(), NUMERICS))
        ops = {node.name: node.op for node in graph.nodes}
        for layer in problem.layers:
            images = all(problem.tensors[name].rows > 1 for name in layer.reads)
            (whole if layer.walk is None and images else by_rows).add(ops[layer.node])
    assert whole == {"transpose"}
    assert by_rows >= {"concat", "slice", "pad", "resize_nearest", "resize_bilinear", "transpose", "transpose_conv2d"}


@pytest.mark.parametrize("seed", [1, 4, 6])
def test_bytes_of_the_library(seed: int) -> None:
    graph = network(seed)
    plan = smallest_plan(graph, HOST_ISA)
    assert plan is not None
    inputs = [random_sample(graph, seed + n) for n in range(2)]
    outputs = run_program(graph, lower(graph, plan, NUMERICS, "unit"), inputs)
    for sample, got in zip(inputs, outputs, strict=True):
        for name, array in zip(graph.outputs, got, strict=True):
            np.testing.assert_array_equal(array, run_int(graph, sample, NUMERICS)[name])
