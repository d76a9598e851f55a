# SPDX-License-Identifier: Apache-2.0
"""Concats and slices that addresses do: no step runs them, and the library's bytes are the reference's."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.ops.harness import HOST_ISA, run_program
from tests.unit.stream_cases import random_sample
from tinyc.base.numerics import Numerics
from tinyc.choose.select import select
from tinyc.emit.lower import lower
from tinyc.ir.graph import Graph, Node, Quant, Value
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import whole
from tinyc.plan import plan_graph
from tinyc.plan.moves import moves_of
from tinyc.reference.interpreter import run_int

QUANT = Quant((0.5,), (3,))


class Builder:
    """A graph of int8 tensors [1, n] and [1, h, w, c]."""

    def __init__(self, *shapes: tuple[int, ...]) -> None:
        self.values = {f"x{i}": Value(f"x{i}", shape, "s8", QUANT) for i, shape in enumerate(shapes)}
        self.inputs = tuple(self.values)
        self.nodes: list[Node] = []

    def add(self, op: str, attrs: object, shape: tuple[int, ...], *inputs: str) -> str:
        name = f"{op}{len(self.nodes)}"
        self.values[name] = Value(name, shape, "s8", QUANT)
        self.nodes.append(Node(name, op, inputs, (name,), attrs))
        return name

    def sum(self, a: str, b: str) -> str:
        return self.add("add", Add(), self.values[a].shape, a, b)

    def concat(self, *inputs: str, axis: int = 1) -> str:
        shape = list(self.values[inputs[0]].shape)
        shape[axis] = sum(self.values[name].shape[axis] for name in inputs)
        return self.add("concat", Concat(axis), tuple(shape), *inputs)

    def slice(self, x: str, begin: int, size: int, axis: int = 1) -> str:
        shape = self.values[x].shape
        cut = whole(shape, axis, begin, size)
        return self.add("slice", cut, cut.size, x)

    def flat(self, x: str) -> str:
        shape = (1, int(np.prod(self.values[x].shape)))
        return self.add("reshape", Reshape(shape), shape, x)

    def graph(self, *outputs: str) -> Graph:
        return Graph("moves", self.inputs, outputs, tuple(self.nodes), self.values, {})


def check(graph: Graph, fuse: bool | None) -> list[str]:
    """Runs the library; the operators of its steps."""
    choices = select(graph, HOST_ISA, Numerics.OURS)
    plan = plan_graph(graph, choices, slide=True, fuse=fuse)
    program = lower(graph, plan, Numerics.OURS, "unit")
    samples = [random_sample(graph, n) for n in range(2)]
    for sample, got in zip(samples, run_program(graph, program, samples), strict=True):
        reference = run_int(graph, sample, Numerics.OURS)
        for name, array in zip(graph.outputs, got, strict=True):
            np.testing.assert_array_equal(array, reference[name])
    return [step.node.op for step in program.steps]


def random_graph(seed: int) -> Graph:
    rng = random.Random(seed)
    build = Builder((1, 12), (1, 8))
    names = list(build.inputs)
    for _ in range(9):
        x = rng.choice(names[-5:])
        n = build.values[x].shape[1]
        kind = rng.choice(["slice", "concat", "add", "add"])
        if kind == "slice" and n > 2:
            begin = rng.choice([b for b in (0, 1, 4, 8) if b < n])
            names.append(build.slice(x, begin, rng.randrange(1, n - begin + 1)))
        elif kind == "concat":
            names.append(build.concat(*dict.fromkeys((x, *rng.sample(names, min(2, len(names)))))))
        else:
            names.append(build.sum(x, rng.choice([y for y in names if build.values[y].shape[1] == n])))
    return build.graph(names[-1], *rng.sample(names[2:-1], 2))


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("seed", range(10))
def test_bytes_of_random_graphs(seed: int) -> None:
    check(random_graph(seed), fuse=True)


def test_rows_of_two_branches_lie_one_after_the_other() -> None:
    build = Builder((1, 3, 2, 4), (1, 5, 2, 4))
    a, b = build.sum("x0", "x0"), build.sum("x1", "x1")
    y = build.concat(a, b)
    graph = build.graph(build.sum(y, y))
    assert check(graph, fuse=None) == ["add", "add", "add"]


def test_parts_of_a_split_are_places_in_it() -> None:
    build = Builder((1, 24))
    x = build.sum("x0", "x0")
    parts = [build.slice(x, begin, 8) for begin in (0, 8, 16)]
    graph = build.graph(build.sum(build.sum(*parts[:2]), parts[2]))
    assert check(graph, fuse=None) == ["add", "add", "add"]


def test_a_concat_of_flattened_maps() -> None:
    build = Builder((1, 2, 2, 3), (1, 2, 4))
    a, b = build.flat(build.sum("x0", "x0")), build.flat(build.sum("x1", "x1"))
    assert check(build.graph(build.concat(a, b)), fuse=None) == ["add", "add"]


@pytest.mark.parametrize("case", ["channels", "twice", "unaligned", "two joins", "strided"])
def test_what_takes_a_copy(case: str) -> None:
    build = Builder((1, 3, 2, 4), (1, 3, 2, 4))
    if case == "channels":
        y = build.concat("x0", "x1", axis=3)
    elif case == "twice":
        y = build.concat("x0", "x0")
    elif case == "unaligned":
        y = build.slice(build.flat("x0"), 3, 8)
    elif case == "two joins":
        y = build.concat("x0", "x1")
        y = build.sum(y, build.concat("x1", "x0"))
    else:
        y = build.slice("x0", 1, 1, axis=2)
    graph = build.graph(y)
    moves = moves_of(graph, 4)
    assert not moves.cuts
    assert len(moves.joins) == (case == "two joins")
    assert {"concat", "slice"} & set(check(graph, fuse=None))


def test_a_copy_that_saves_bytes_is_made() -> None:
    """A few bytes of a large tensor are read at the end: it need not stay for them."""
    build = Builder((1, 400))
    small = build.slice("x0", 0, 4)
    half = build.slice("x0", 1, 200)
    again = build.concat(build.sum(half, half), build.sum(half, half))
    graph = build.graph(build.concat(build.slice(build.sum(again, again), 8, 4), small))
    choices = select(graph, HOST_ISA, Numerics.OURS)
    copied = plan_graph(graph, choices, fuse=False).arena_bytes
    assert plan_graph(graph, choices).arena_bytes <= min(copied, plan_graph(graph, choices, fuse=True).arena_bytes)
