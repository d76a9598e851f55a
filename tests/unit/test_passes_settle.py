# SPDX-License-Identifier: Apache-2.0
"""The rules come to an end: random networks of moves (transposes, reshapes, joins), with readers on every side."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from numpy.random import Generator
from onnx import NodeProto

from tests.load.onnx_models import build, load, op, rand
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph, Shape
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float

QUICK, MANY = 60, 1500
SHAPES = ((1, 3, 4, 4), (1, 3, 8), (1, 1, 6, 2, 2), (2, 6), (1, 2, 1, 5), (1, 4, 3, 3))


class Moves:
    """A network under construction: tensors by name, any of which the next node may read."""

    def __init__(self, seed: int) -> None:
        self.r = np.random.default_rng(seed)
        self.input_shape: Shape = SHAPES[seed % len(SHAPES)]
        self.shapes: dict[str, Shape] = {"x": self.input_shape}
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {"least": np.float32(-0.04), "between": np.float32(0.1)}
        self.constants["slopes"] = np.float32([0.3])

    def pick(self, of: list[str]) -> str:
        """One of the tensors, mostly a young one."""
        return of[-1 - min(int(self.r.geometric(0.4)) - 1, len(of) - 1)]

    def add(self, name: str, inputs: str, shape: Shape, **attributes: object) -> str:
        output = f"t{len(self.nodes)}"
        self.nodes.append(op(name, inputs, output, **attributes))
        self.shapes[output] = shape
        return output

    def numbers(self, values: list[int]) -> str:
        name = f"n{len(self.constants)}"
        self.constants[name] = np.array(values, np.int64)
        return name

    def grow(self) -> None:
        x = self.pick(list(self.shapes))
        shape, rank = self.shapes[x], len(self.shapes[x])
        twins = [name for name, other in self.shapes.items() if other == shape]
        match int(self.r.integers(11)):
            case 0 | 1:
                perm = [int(k) for k in self.r.permutation(rank)]
                self.add("Transpose", x, tuple(shape[k] for k in perm), perm=perm)
            case 2:
                self.reshape(x)
            case 3 | 4:
                self.add(str(self.r.choice(["Add", "Mul", "Min", "Max"])), f"{x} {self.pick(twins)}", shape)
            case 5:
                self.add(str(self.r.choice(["Relu", "Sigmoid", "Abs"])), x, shape)
            case 6:
                condition = self.add("Greater", f"{x} between", shape)
                del self.shapes[condition]
                self.add("Where", f"{condition} {x} {self.r.choice(['least', self.pick(twins)])}", shape)
            case 7:
                axis = int(self.r.integers(rank))
                wide = tuple(2 * n if k == axis else n for k, n in enumerate(shape))
                if math.prod(wide) < 500:
                    self.add("Concat", f"{x} {self.pick(twins)}", wide, axis=axis)
            case 8:
                self.add("Softmax", x, shape, axis=int(self.r.integers(rank)))
            case 9:
                axis = int(self.r.integers(rank))
                reduced = tuple(1 if k == axis else n for k, n in enumerate(shape))
                self.add("ReduceMean", x, reduced, axes=[axis], keepdims=1)
            case _:
                if rank in (3, 4) and shape[0] == 1 and min(shape[2:]) > 1:
                    self.add("MaxPool", x, (*shape[:2], *(n - 1 for n in shape[2:])), kernel_shape=[2] * (rank - 2))

    def reshape(self, x: str) -> None:
        """Axes joined, split or of size 1."""
        long = [n for n in self.shapes[x] if n != 1]
        shape = [1, *long] if self.r.random() < 0.5 else long or [1]
        if len(shape) > 2 and self.r.random() < 0.5:
            k = int(self.r.integers(len(shape) - 1))
            shape[k : k + 2] = [shape[k] * shape[k + 1]]
        if len(shape) < 5:
            self.add("Reshape", f"{x} {self.numbers(shape)}", tuple(shape))


def form(graph: Graph) -> list[object]:
    """What there is to do, whatever the names."""
    return [(node.op, node.attrs, [graph.values[name].shape for name in node.outputs]) for node in graph.nodes]


def settles(seed: int, folder: Path) -> None:
    """Assert that the passes end, have nothing left to do the second time, and compute the same."""
    network = Moves(seed)
    for _ in range(int(network.r.integers(4, 16))):
        network.grow()
    if not network.nodes:
        return
    read = {name for node in network.nodes for name in node.input}
    outputs = [name for name in network.shapes if name not in read and name != "x"]
    more = [name for name in network.shapes if name in read and name != "x" and network.r.random() < 0.15]
    model = build(network.nodes, {"x": network.input_shape}, [*outputs, *more], network.constants)
    try:
        graph = load(model, folder)
    except TinycError:  # a batch beyond 1, or a condition that is asked for its opposite
        return
    normal = normalize(graph)
    assert form(normalize(normal)) == form(normal), seed
    feeds = {"x": rand(seed, *network.input_shape)}
    before, after = run_float(graph, feeds), run_float(normal, feeds)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, rtol=1e-4, atol=1e-5, err_msg=str(seed))


@pytest.mark.parametrize("tens", range(QUICK // 10))
def test_rules_come_to_an_end(tens: int, tmp_path: Path) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        settles(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("hundreds", range(MANY // 100))
def test_rules_come_to_an_end_often(hundreds: int, tmp_path: Path) -> None:
    for seed in range(QUICK + 100 * hundreds, QUICK + 100 * hundreds + 100):
        settles(seed, tmp_path)


def channels_first(r: Generator, axes: int) -> tuple[list[NodeProto], Shape]:
    """A tensor that is read in both layouts, and so is another that is chosen from it: a minimum of the two."""
    kernel = {"kernel_shape": [2] * axes}
    nodes = [
        op("MaxPool", "x", "a", **kernel),
        op("Greater", "a between", "is"),
        op("Where", "is a least", "b"),
        op("MaxPool", "b", "p", **kernel),
        op(str(r.choice(["Min", "Max", "Add", "Mul"])), "a b" if r.random() < 0.5 else "b a", "q"),
        op("MaxPool", "q", "s", **kernel),
        op("Add", "p s", "y"),
    ]
    return nodes, (1, 3, *(6,) * axes)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_two_tensors_that_are_read_in_both_layouts(axes: int, seed: int, tmp_path: Path) -> None:
    nodes, shape = channels_first(np.random.default_rng(seed), axes)
    constants = {"least": np.float32(-0.04), "between": np.float32(0.1)}
    graph = load(build(nodes, {"x": shape}, ["y"], constants), tmp_path)
    normal = normalize(graph)
    feeds = {"x": rand(seed, *shape)}
    np.testing.assert_allclose(run_float(normal, feeds)["y"], run_float(graph, feeds)["y"], rtol=1e-5)
