# SPDX-License-Identifier: Apache-2.0
"""Steps of LSTM and GRU that a file writes out become one loop, and compute what ONNX Runtime computes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto

from tests.load.onnx_models import build, imported, load, op, ops_of
from tinyc.passes import normalize

STEPS, INPUTS, UNITS = 4, 3, 5


@dataclass
class Drawn:
    """Nodes of a model, and its constants."""

    nodes: list[NodeProto] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(4))

    def add(self, kind: str, inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(op(kind, inputs, name, **attributes))
        return name

    def split(self, name: str, count: int) -> list[str]:
        names = [f"{name}_{k}" for k in range(count)]
        self.nodes.append(op("Split", name, " ".join(names), axis=1))
        return names

    def const(self, name: str, *shape: int) -> str:
        if name not in self.constants:
            self.constants[name] = self.rng.normal(0, 0.6, shape).astype(np.float32)
        return name

    def number(self, name: str, array: Any) -> str:
        self.constants[name] = np.float32(array)
        return name

    def product(self, x: str, name: str, count: int, gates: int) -> str:
        return self.add("MatMul", f"{x} {self.const(name, count, gates * UNITS)}")

    def sum(self, *names: str) -> str:
        total = names[0]
        for name in names[1:]:
            total = self.add("Add", f"{total} {name}")
        return total


State = tuple[str, ...]
CellOf = Callable[[Drawn, str, State], State]


def lstm_of_keras(d: Drawn, x: str, state: State) -> State:
    z = d.sum(d.product(x, "w", INPUTS, 4), d.product(state[0], "r", UNITS, 4), d.const("b", 4 * UNITS))
    return lstm_behind(d, d.split(z, 4), state[1])


def lstm_of_tensorflow1(d: Drawn, x: str, state: State) -> State:
    """One product for both vectors; gates i, g, f, o; 1 is added to f."""
    both = d.add("Concat", f"{x} {state[0]}", axis=1)
    z = d.sum(d.product(both, "w", INPUTS + UNITS, 4), d.const("b", 4 * UNITS))
    i, g, f, o = d.split(z, 4)
    return lstm_behind(d, [i, d.sum(f, d.number("one", 1)), g, o], state[1])


def lstm_gate_by_gate(d: Drawn, x: str, state: State) -> State:
    gates = []
    for gate in "ifgo":
        parts = [d.product(state[0], f"r{gate}", UNITS, 1), d.product(x, f"w{gate}", INPUTS, 1)]
        gates.append(d.sum(d.const(f"b{gate}", UNITS), d.sum(*parts)))
    return lstm_behind(d, gates, state[1])


def lstm_behind(d: Drawn, gates: Sequence[str], cell: str) -> State:
    """gates: what goes into i, f, g, o."""
    i, f, g, o = (d.add("Tanh" if k == 2 else "Sigmoid", gate) for k, gate in enumerate(gates))
    new = d.add("Mul", f"{i} {g}")
    cell = d.sum(new, d.add("Mul", f"{cell} {f}"))
    return d.add("Mul", f"{d.add('Tanh', cell)} {o}"), cell


def gru_sums(d: Drawn, x: str, state: State) -> tuple[str, str, str]:
    """z, r, n of a step, the reset gate behind the product."""
    over_x = d.split(d.sum(d.product(x, "w", INPUTS, 3), d.const("b", 3 * UNITS)), 3)
    over_h = d.split(d.sum(d.product(state[0], "r", UNITS, 3), d.const("late", 3 * UNITS)), 3)
    z, r = (d.add("Sigmoid", d.sum(over_x[k], over_h[k])) for k in (0, 1))
    seen = d.add("Mul", f"{r} {over_h[2]}")
    return z, r, d.add("Tanh", d.sum(over_x[2], seen))


def gru_of_keras(d: Drawn, x: str, state: State) -> State:
    z, _, n = gru_sums(d, x, state)
    rest = d.add("Sub", f"{d.number('one', 1)} {z}")
    return (d.sum(d.add("Mul", f"{z} {state[0]}"), d.add("Mul", f"{rest} {n}")),)


def gru_of_pytorch(d: Drawn, x: str, state: State) -> State:
    z, _, n = gru_sums(d, x, state)
    far = d.add("Sub", f"{state[0]} {n}")
    return (d.sum(d.add("Mul", f"{far} {z}"), n),)


CELLS: dict[str, tuple[CellOf, int]] = {
    "LSTM of Keras": (lstm_of_keras, 2),
    "LSTM of TensorFlow 1": (lstm_of_tensorflow1, 2),
    "LSTM gate by gate": (lstm_gate_by_gate, 2),
    "GRU of Keras": (gru_of_keras, 1),
    "GRU of PyTorch": (gru_of_pytorch, 1),
}


def rows_of_x(d: Drawn, backward: bool) -> list[str]:
    """x [STEPS, INPUTS] step by step."""
    names = [f"x{t}" for t in range(STEPS)]
    d.nodes.append(op("Split", "x", " ".join(names), axis=0))
    return names[::-1] if backward else names


def written_out(name: str, start: str = "zeros", sequences: bool = True, backward: bool = False) -> ModelProto:
    """start: "zeros", "constants" or "inputs"."""
    d, (cell, count) = Drawn(), CELLS[name]
    inputs: dict[str, Sequence[int]] = {"x": [STEPS, INPUTS]}
    state: State = tuple(f"s{k}" for k in range(count))
    if start == "inputs":
        inputs |= {each: [1, UNITS] for each in state}
    for each in state if start != "inputs" else ():
        d.number(each, np.zeros((1, UNITS)) if start == "zeros" else d.rng.normal(0, 0.5, (1, UNITS)))
    hidden = []
    for x in rows_of_x(d, backward):
        state = cell(d, x, state)
        hidden.append(state[0])
    d.nodes.append(op("Concat", " ".join(hidden), "y", axis=0) if sequences else op("Tanh", hidden[-1], "y"))
    return build(d.nodes, inputs, ["y"], d.constants)


@pytest.mark.parametrize("start", ["zeros", "constants", "inputs"])
@pytest.mark.parametrize(("sequences", "backward"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", CELLS)
def test_steps_become_a_loop(name: str, sequences: bool, backward: bool, start: str, tmp_path: Path) -> None:
    """Products with constants that are not zero are numbers of the first step alone: it stays outside."""
    graph = imported(written_out(name, start, sequences, backward), tmp_path)
    ops, outside = ops_of(graph), start == "constants"
    assert ops.count("recurrent") == 1
    assert ops.count("sigmoid") == outside * (3 if name.startswith("LSTM") else 2)
    (loop,) = (node for node in graph.nodes if node.op == "recurrent")
    assert (loop.attrs.reverse, loop.attrs.sequence) == (backward, sequences)
    assert graph.values[loop.inputs[0]].shape == (STEPS - outside, INPUTS)


def stacked() -> ModelProto:
    """Two layers step by step, the second on the hidden states of the first, which are an output too."""
    d = Drawn()
    zeros = d.number("zeros", np.zeros((1, UNITS)))
    lower: State = (zeros, zeros)
    upper: State = (zeros, zeros)
    rows: list[list[str]] = [[], []]
    for x in rows_of_x(d, False):
        lower = lstm_of_keras(d, x, lower)
        sums = [d.product(lower[0], "w2", UNITS, 4), d.product(upper[0], "r2", UNITS, 4), d.const("b2", 4 * UNITS)]
        upper = lstm_behind(d, d.split(d.sum(*sums), 4), upper[1])
        rows[0].append(lower[0])
        rows[1].append(upper[0])
    d.nodes += [op("Concat", " ".join(names), f"y{k}", axis=0) for k, names in enumerate(rows)]
    return build(d.nodes, {"x": [STEPS, INPUTS]}, ["y0", "y1"], d.constants)


def test_layers_on_layers_are_loops(tmp_path: Path) -> None:
    ops = ops_of(imported(stacked(), tmp_path))
    assert ops.count("recurrent") == 2
    assert set(ops) <= {"recurrent", "reshape"}


def other_cell(change: Callable[[Drawn, str, State], State], outputs: Sequence[str] = ("y",)) -> ModelProto:
    d = Drawn()
    zeros = d.number("zeros", np.zeros((1, UNITS)))
    state: State = (zeros, zeros)
    for x in rows_of_x(d, False):
        state = change(d, x, state)
    d.nodes += [op("Tanh", state[0], "y"), op("Tanh", state[1], "cell")]
    return build(d.nodes, {"x": [STEPS, INPUTS]}, outputs, d.constants)


def clipped(d: Drawn, x: str, state: State) -> State:
    return lstm_of_keras(d, d.add("Relu", x), (state[0], d.add("Relu", state[1])))


def of_other_weights(d: Drawn, x: str, state: State) -> State:
    z = d.sum(d.product(x, "w", INPUTS, 4), d.product(state[0], f"r{len(d.nodes)}", UNITS, 4))
    return lstm_behind(d, d.split(z, 4), state[1])


def with_peephole(d: Drawn, x: str, state: State) -> State:
    i, f, g, o = d.split(d.sum(d.product(x, "w", INPUTS, 4), d.product(state[0], "r", UNITS, 4)), 4)
    hole = d.add("Mul", f"{state[1]} {d.const('p', UNITS)}")
    return lstm_behind(d, [d.sum(i, hole), f, g, o], state[1])


def coupled(d: Drawn, x: str, state: State) -> State:
    i, _, g, o = d.split(d.sum(d.product(x, "w", INPUTS, 4), d.product(state[0], "r", UNITS, 4)), 4)
    opened = d.add("Sigmoid", i)
    rest = d.add("Sub", f"{d.number('one', 1)} {opened}")
    remembered = d.add("Mul", f"{rest} {state[1]}")
    cell = d.sum(remembered, d.add("Mul", f"{opened} {d.add('Tanh', g)}"))
    return d.add("Mul", f"{d.add('Sigmoid', o)} {d.add('Tanh', cell)}"), cell


def reset_before(d: Drawn, x: str, state: State) -> State:
    over_x = d.split(d.sum(d.product(x, "w", INPUTS, 3), d.const("b", 3 * UNITS)), 3)
    z, r = (d.add("Sigmoid", d.sum(over_x[k], d.product(state[0], f"r{k}", UNITS, 1))) for k in (0, 1))
    seen = d.product(d.add("Mul", f"{r} {state[0]}"), "rn", UNITS, 1)
    n = d.add("Tanh", d.sum(over_x[2], seen))
    far = d.add("Sub", f"{state[0]} {n}")
    return d.sum(d.add("Mul", f"{far} {z}"), n), state[1]


@pytest.mark.parametrize(
    ("cell", "outputs"),
    [
        (lstm_of_keras, ("y", "cell")),  # the last cell is read
        (clipped, ("y",)),
        (of_other_weights, ("y",)),
        (with_peephole, ("y",)),
        (coupled, ("y",)),
        (reset_before, ("y",)),
    ],
)
def test_what_is_no_loop_stays(cell: CellOf, outputs: Sequence[str], tmp_path: Path) -> None:
    ops = ops_of(imported(other_cell(cell, outputs), tmp_path))
    assert "recurrent" not in ops
    assert ops.count("tanh") >= STEPS


def test_rows_that_are_no_neighbours_are_no_loop(tmp_path: Path) -> None:
    """Rows in another order."""
    d = Drawn()
    zeros = d.number("zeros", np.zeros((1, UNITS)))
    state: State = (zeros, zeros)
    for x in ("x0", "x2", "x1", "x3"):
        state = lstm_of_keras(d, x, state)
    d.nodes.insert(0, op("Split", "x", "x0 x1 x2 x3", axis=0))
    d.nodes.append(op("Tanh", state[0], "y"))
    graph = imported(build(d.nodes, {"x": [STEPS, INPUTS]}, ["y"], d.constants), tmp_path)
    assert "recurrent" not in ops_of(graph)


def test_a_loop_comes_back_unchanged(tmp_path: Path) -> None:
    graph = normalize(load(written_out("GRU of Keras"), tmp_path))
    assert normalize(graph) == graph
