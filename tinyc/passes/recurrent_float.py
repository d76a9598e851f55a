# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's float LSTM -> `recurrent_kept`, the loop that has integers of its own: states of 16 bits.

`lstm` in integers is the layer that TensorFlow's converter has quantized. In float32 it stays as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tinyc.ir.graph import Array, Graph, Node, Shape, free_name, read_only
from tinyc.ops import node_of
from tinyc.ops.lstm import Lstm
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.reshape import Reshape
from tinyc.passes.rewrite import begins_with, without_dead

_GATES = 4
_LEAST_CLIP = 8.0  # of the cell: tanh of it is 1 in integers; a loop of integers has no bound of its own


@begins_with(Lstm)
def keep_float_lstm(graph: Graph) -> Graph:
    """The graph with loops in the place of float LSTM layers."""
    layers = [node for node in graph.nodes if _has_a_loop(graph, node)]
    for node in layers:
        graph = _Loop(graph, node).finish()
    return without_dead(graph) if layers else graph


def _has_a_loop(graph: Graph, node: Node) -> bool:
    a = node.attrs
    if not isinstance(a, Lstm) or (a.clip and a.clip < _LEAST_CLIP):
        return False
    constants = (name in graph.consts for name in node.inputs[1:-2] if name)
    return graph.values[node.inputs[0]].dtype == "f32" and all(constants)


class _Loop:
    """The graph in which a loop takes the place of one node."""

    def __init__(self, graph: Graph, node: Node) -> None:
        self._graph = graph
        self._node = node
        self._values, self._consts = dict(graph.values), dict(graph.consts)
        self._nodes: list[Node] = []

    def finish(self) -> Graph:
        x, *rest = self._node.inputs
        y, hidden, cell = self._node.outputs
        steps, units = self._graph.values[y].elements // self._units, self._units
        rows = self._new("rows", (steps, self._graph.values[x].shape[-1]))
        self._add((x,), Reshape(self._values[rows].shape), rows)
        loop = self._new("steps", (steps, units))
        attrs = RecurrentKept("lstm", clip=self._node.attrs.clip)
        self._add((rows, *self._weights(), "", *rest[-2:]), attrs, loop, hidden, cell)
        self._add((loop,), Reshape(self._values[y].shape), y)
        at = self._graph.nodes.index(self._node)
        nodes = (*self._graph.nodes[:at], *self._nodes, *self._graph.nodes[at + 1 :])
        return replace(self._graph, nodes=nodes, values=self._values, consts=self._consts)

    @property
    def _units(self) -> int:
        return self._graph.values[self._node.inputs[1]].shape[0]

    def _weights(self) -> tuple[str, str, str]:
        """w, bias and r with the gates of a unit side by side."""
        held = [None if not name else self._graph.consts[name] for name in self._node.inputs[1:-2]]
        w, r, bias = held[:_GATES], held[_GATES : 2 * _GATES], held[2 * _GATES :]
        zero = np.zeros(self._units, np.float32)
        biases = [zero if b is None else b for b in bias]
        return self._const("w", w), self._const("bias", biases), self._const("r", r)

    def _const(self, what: str, gates: Any) -> str:
        array: Array = np.stack(gates, axis=1)
        joined = array.reshape(-1, *array.shape[2:]).astype(np.float32)
        name = self._new(what, joined.shape)
        self._consts[name] = read_only(np.ascontiguousarray(joined))
        return name

    def _new(self, what: str, shape: Shape) -> str:
        y = self._graph.values[self._node.outputs[0]]
        name = free_name(f"{y.name}:{what}", self._values)
        self._values[name] = replace(y, name=name, shape=shape)
        return name

    def _add(self, inputs: tuple[str, ...], attrs: Any, *outputs: str) -> None:
        self._nodes.append(node_of(attrs, inputs, outputs, self._node.origin))
