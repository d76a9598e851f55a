# SPDX-License-Identifier: Apache-2.0
"""Streamed plans of random networks, and a run of a plan in Python, row by row on one array of bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.load.onnx_models import load
from tests.unit.networks import random_network, random_network_of_inputs
from tinyc.base.numerics import Numerics
from tinyc.choose.select import candidates
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph
from tinyc.kernel.site import Site
from tinyc.ops import all_ops
from tinyc.passes import normalize
from tinyc.passes.inputs import take_inputs_as_computed
from tinyc.plan.answer import Move, Plan
from tinyc.plan.families import by_rows as families_by_rows
from tinyc.plan.families import window
from tinyc.plan.front import Front
from tinyc.plan.liveness import reads_of, writes_of
from tinyc.plan.problem import WHOLE, Turn
from tinyc.plan.rows.cuts import Candidate, Measured, Weighing
from tinyc.plan.worth import Worth
from tinyc.quantize import UNPROVEN, Calibration, quantize_model
from tinyc.reference.interpreter import run_int

NUMERICS = Numerics.OURS
LEAST_ARENA = Worth(0, 1e6)


def by_cycles(groups: Sequence[Measured]) -> tuple[Candidate, ...]:
    """The candidates of all groups, which forms of the fewest cycles are best of."""
    weighing = Weighing(lambda form: form.cycles)
    return tuple(weighing.candidate(measured) for measured in groups)


@cache
def integer_graph(seed: int) -> Graph:
    """A random network in integers."""
    return in_integers(random_network(seed), seed)


@cache
def graph_of_inputs(seed: int) -> Graph:
    """A random network in integers, with several inputs."""
    return in_integers(random_network_of_inputs(seed), seed)


def in_integers(model: onnx.ModelProto, seed: int) -> Graph:
    """A float model in integers, quantized by random inputs."""
    with tempfile.TemporaryDirectory() as folder:
        graph = normalize(load(model, Path(folder)))
    shapes = {name: (4, *graph.values[name].shape) for name in graph.inputs}
    rng = np.random.default_rng(seed)
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    data = Calibration(inputs, "synthetic", False)
    return take_inputs_as_computed(normalize(quantize_model(graph, data, UNPROVEN))).graph


def smallest_plan(
    graph: Graph,
    isa: frozenset[str] = frozenset(),
    numerics: Numerics = NUMERICS,
    *,
    by_rows: bool = False,
) -> Plan | None:
    """The plan by rows with the fewest bytes at any price; None if no layer runs by rows."""
    families = families_by_rows(graph, candidates(graph, isa, numerics), None, input_rows=by_rows)
    best = Front(families).best(LEAST_ARENA)
    return None if best is None else best.plan


def window_plan(graph: Graph, hop: int, isa: frozenset[str] = frozenset()) -> Plan:
    """Of one call of an incremental library, as by default."""
    best = Front([window(graph, candidates(graph, isa, NUMERICS), hop, None)]).best(Worth(1 / 3, 1 / 3))
    assert best is not None
    return best.plan


def random_sample(graph: Graph, seed: int) -> dict[str, Array]:
    """Integers of every input's type."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(-128, 128, graph.values[name].shape).astype(NUMPY_DTYPE[graph.values[name].dtype])
        for name in graph.inputs
    }


@dataclass
class Machine:
    """An arena of random bytes on which the turns of a plan run, by the integer reference.

    Every row is read from where the plan says, in the turn that needs it. A layer sees nothing but the rows of its
    window, the rest of its input is noise; scratch and sums are overwritten with noise in every turn.
    """

    graph: Graph
    plan: Plan
    numerics: Numerics
    sample: Mapping[str, Array]
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    def __post_init__(self) -> None:
        problem = self.plan.problem
        self.arena = self.rng.integers(0, 256, self.plan.arena_bytes).astype(np.uint8)
        self.reference = run_int(self.graph, self.sample, self.numerics, keep="all")
        self.rows = {
            name: np.ascontiguousarray(self.reference[name]).view(np.uint8).reshape(tensor.rows, -1)
            for name, tensor in problem.tensors.items()
        }
        self.nodes = {node.name: node for node in self.graph.nodes}
        self.params: dict[str, Any] = {}
        self.arrived = dict.fromkeys(problem.inputs, 0)
        self.consumed: dict[tuple[str, int], Array] = {}  # rows that an accumulating layer has read
        self.wrong: list[tuple[str, int]] = []
        self.places: dict[tuple[str, int], int] = {}  # of rows that have moved

    def run(self) -> list[tuple[str, int]]:
        """The rows that were not what they must be, as (tensor, row), when they were made or at the end."""
        problem = self.plan.problem
        if not problem.by_rows:
            for name in problem.inputs:
                for row in range(problem.tensors[name].rows):
                    self.put(name, row, self.rows[name][row])
        for number, turn in enumerate(self.plan.turns):
            for move in self.plan.moves:
                if move.turn == number:
                    self.move(move)
            self.turn(turn)
        for name in problem.outputs:
            self.wrong += [
                (name, row)
                for row in range(problem.tensors[name].rows)
                if not np.array_equal(self.get(name, row), self.rows[name][row])
            ]
        return self.wrong

    def move(self, move: Move) -> None:
        """A row to its next place; where it was is noise."""
        data = self.get(move.tensor, move.row)
        self.noise(move.source, move.size)
        self.places[move.tensor, move.row] = move.target
        self.put(move.tensor, move.row, data)

    def place(self, name: str, row: int) -> slice:
        at = self.places.get((name, row), self.plan.row_offsets[name][row])
        return slice(at, at + self.plan.problem.tensors[name].row_bytes)

    def get(self, name: str, row: int) -> Array:
        return self.arena[self.place(name, row)].copy()

    def put(self, name: str, row: int, data: Array) -> None:
        self.arena[self.place(name, row)] = data

    def noise(self, at: int, size: int) -> None:
        self.arena[at : at + size] = self.rng.integers(0, 256, size)

    def turn(self, turn: Turn) -> None:
        index, row = turn
        layer, form = self.plan.problem.layers[index], self.plan.forms[index]
        reads = [(tensor.name, r) for tensor, rows in reads_of(self.plan.problem, turn) for r in rows]
        for name, r in reads:
            while name in self.arrived and self.plan.problem.by_rows and self.arrived[name] <= r:
                self.put(name, self.arrived[name], self.rows[name][self.arrived[name]])
                self.arrived[name] += 1
        if size := form.scratch_at(row):
            self.noise(self.plan.scratch_offsets[layer.node][max(row, 0)], size)
        seen = {(name, r): self.get(name, r) for name, r in reads}
        if layer.walk is not None and layer.walk.accumulates and row != WHOLE:
            self.noise(self.plan.accumulator_offsets[layer.node], layer.walk.accumulator_bytes)
            self.consumed |= seen
            seen = {key: data for key, data in self.consumed.items() if key[0] in layer.reads}
        written_rows = [(tensor.name, r) for tensor, rows in writes_of(self.plan.problem, turn) for r in rows]
        if written_rows:
            outputs = self.compute(layer.node, seen)
            for name, r in written_rows:
                data = outputs[name].reshape(self.rows[name].shape)[r]
                self.put(name, r, data)
                if not np.array_equal(data, self.rows[name][r]):
                    self.wrong.append((name, r))

    def compute(self, node_name: str, seen: Mapping[tuple[str, int], Array]) -> dict[str, Array]:
        """The node's outputs as bytes, of inputs that are noise but for the rows seen."""
        node, problem = self.nodes[node_name], self.plan.problem
        op = all_ops()[node.op]
        if node_name not in self.params:
            self.params[node_name] = op.prepare(Site(self.graph, node, self.numerics))
        arrays: list[Array | None] = []
        for value in node.inputs:
            tensor = problem.tensor_of(value)
            if not value or value in self.graph.consts:
                arrays.append(self.graph.consts.get(value))
                continue
            like = self.graph.values[value]
            data = self.rng.integers(0, 256, self.rows[tensor].shape).astype(np.uint8)
            for (name, r), row_bytes in seen.items():
                if name == tensor:
                    data[r] = row_bytes
            arrays.append(data.reshape(-1).view(NUMPY_DTYPE[like.dtype]).reshape(like.shape))
        results = op.int_ref(self.params[node_name], *arrays)
        return {
            name: np.ascontiguousarray(result).view(np.uint8).reshape(-1)
            for name, result in zip(node.outputs, results, strict=True)
        }
