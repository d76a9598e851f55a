# SPDX-License-Identifier: Apache-2.0
"""An LSTM or GRU that a file writes out step by step -> `recurrent`, with one copy of the weights.

So come Keras' layers that its converter does not fuse (a WHILE, unrolled when it is loaded, or `unroll=True`), cells
that PyTorch calls in a Python loop, and ONNX's Loop and Scan. Steps stay as they are if something else reads what is
inside of them, such as the last cell of an LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tinyc.ir.graph import Array, Graph, Node, Shape, free_name, read_only
from tinyc.ops import is_a, node_of, op_of
from tinyc.ops.concat import Concat
from tinyc.ops.recurrent import Recurrent
from tinyc.ops.reshape import Reshape
from tinyc.ops.slice import Slice
from tinyc.ops.tanh import Tanh
from tinyc.passes.recurrent_cells import Elements, Reader
from tinyc.passes.recurrent_chains import CellStep, next_chain
from tinyc.passes.rewrite import begins_with, without_dead


@begins_with(Tanh)
def roll_recurrent(graph: Graph) -> Graph:
    """The graph with loops in the place of steps."""
    refused: set[str] = set()
    while (chain := next_chain(Reader(graph), refused)) is not None:
        refused.add(chain[-1].cell.hidden)
        graph = _rolled(graph, chain) or graph
    return graph


def _rolled(graph: Graph, steps: Sequence[CellStep]) -> Graph | None:
    """None where something else reads what is inside of the steps."""
    hidden = {step.cell.hidden for step in steps}
    inside = {name for node in graph.nodes if node.outputs[0] in hidden for name in node.inputs}
    inside |= {step.cell.left for step in steps} - hidden
    draft = _Draft(graph, steps, True)
    rolled = draft.finish()
    if inside & rolled.values.keys():
        return None
    alone = [node.name for node in rolled.nodes if draft.y in node.inputs] == [draft.last_row]
    return _Draft(graph, steps, False).finish() if alone else rolled


class _Draft:
    """The graph in which a loop takes the place of steps. sequence: it gives all hidden states, in a value `y`."""

    def __init__(self, graph: Graph, steps: Sequence[CellStep], sequence: bool) -> None:
        self._graph = graph
        self._steps = steps
        self._attrs = Recurrent(steps[0].cell.kind, steps[1].x.first < steps[0].x.first, sequence)
        self._values, self._consts = dict(graph.values), dict(graph.consts)
        self._nodes: list[Node] = []
        self._last = graph.values[steps[-1].cell.hidden]
        self._units = self._last.elements
        self.y = free_name(f"{self._last.name}:steps", self._values)
        self.last_row = ""

    def finish(self) -> Graph:
        """The graph, without what nobody needs now."""
        rows = {step.cell.hidden: t for t, step in enumerate(self._steps)}
        for node in self._graph.nodes:
            (name, *_) = node.outputs
            if name == self._steps[0].cell.hidden:
                self._loop(node)
            if name not in rows:
                self._nodes.append(node)
            elif self._attrs.sequence or name == self._last.name:
                self._row(node, rows[name])
        self._join()
        return without_dead(replace(self._graph, nodes=tuple(self._nodes), values=self._values, consts=self._consts))

    def _add(self, inputs: Sequence[str], attrs: Any, name: str, shape: Shape, like: Node) -> str:
        """A node, and its output if that is new."""
        if name not in self._values:
            self._values[name] = replace(self._last, name=name, shape=shape)
        self._nodes.append(node_of(attrs, inputs, (name,), like.origin))
        return name

    def _new(self, what: str) -> str:
        return free_name(f"{self._last.name}:{what}", self._values)

    def _const(self, what: str, array: Array) -> str:
        name = self._new(what)
        self._values[name] = replace(self._last, name=name, shape=array.shape)
        self._consts[name] = read_only(array.astype(np.float32))
        return name

    def _loop(self, like: Node) -> None:
        start, weights, units = self._steps[0], self._steps[-1], self._units
        assert weights.r is not None  # of all steps but the first
        inputs = [
            self._input(like),
            self._const("w", weights.w.transpose(1, 0, 2).reshape(-1, start.x.count)),
            self._const("bias", weights.bias.T.reshape(-1)),
            self._const("r", weights.r.transpose(1, 0, 2).reshape(-1, units)),
            "" if weights.late is None else self._const("late", weights.late),
            "" if start.before is None else self._vector(start.before, "hidden", like),
        ]
        if self._attrs.cell == "lstm":
            cell = start.cell.before
            inputs.append("" if cell is None else self._vector(Elements(cell, 0, units), "cell", like))
        while not inputs[-1]:
            inputs.pop()
        steps = len(self._steps) if self._attrs.sequence else 1
        self._add(inputs, self._attrs, self.y, (steps, units), like)

    def _input(self, like: Node) -> str:
        """The rows of x, one for each step."""
        x = self._steps[0].x
        total, count = self._values[x.name].elements // x.count, len(self._steps)
        rows = self._add([x.name], Reshape((total, x.count)), self._new("rows"), (total, x.count), like)
        if count == total:
            return rows
        first = min(step.x.first for step in self._steps) // x.count
        cut = Slice((first, 0), (count, x.count), (1, 1))
        return self._add([rows], cut, self._new("x"), cut.size, like)

    def _vector(self, vector: Elements, what: str, like: Node) -> str:
        """[1,U] of what the loop begins with."""
        total = self._values[vector.name].elements
        whole = self._add([vector.name], Reshape((1, total)), self._new(f"{what}:whole"), (1, total), like)
        cut = Slice((0, vector.first), (1, vector.count), (1, 1))
        return self._add([whole], cut, self._new(what), cut.size, like)

    def _row(self, node: Node, t: int) -> None:
        """The hidden state after step t, in the place of the node that made it."""
        at = len(self._steps) - 1 - t if self._attrs.reverse else t
        cut = Slice((at if self._attrs.sequence else 0, 0), (1, self._units), (1, 1))
        self.last_row = self._add([self.y], cut, self._new(f"row{t}"), cut.size, node)
        self._add([self.last_row], Reshape(self._values[node.outputs[0]].shape), node.outputs[0], (), node)

    def _join(self) -> None:
        """Values that have all rows of y, put together one by one, become y in another shape."""
        nodes, self._nodes = self._nodes, []
        count, units = self._values[self.y].shape
        straight = np.arange(count * units).reshape(count, units)
        at: dict[str, Array] = {self.y: straight}
        uses = {name: k for k, node in enumerate(nodes) for name in node.inputs}
        for k, node in enumerate(nodes):
            if is_a(node, Slice, Reshape, Concat) and not at.keys().isdisjoint(node.inputs):
                shapes = ((name, self._values[name].shape) for name in node.inputs)
                (joined,) = op_of(node).float_ref(node.attrs, *(at.get(x, np.full(shape, -1)) for x, shape in shapes))
                at[node.outputs[0]] = joined
                self._whole(node, joined.reshape(-1), straight)
            else:
                self._nodes.append(node)
            for name in node.inputs:
                if uses[name] == k:
                    at.pop(name, None)

    def _whole(self, node: Node, numbers: Array, straight: Array) -> None:
        """The node that moves rows of y, or one that reshapes y."""
        for rows in (straight, straight[::-1]):
            if node.inputs != (self.y,) and np.array_equal(numbers, rows.reshape(-1)):
                y = self.y
                if rows is not straight:
                    turn = Slice((len(rows) - 1, 0), rows.shape, (-1, 1))
                    y = self._add([y], turn, self._new("turned"), rows.shape, node)
                self._add([y], Reshape(self._values[node.outputs[0]].shape), node.outputs[0], (), node)
                return
        self._nodes.append(node)
