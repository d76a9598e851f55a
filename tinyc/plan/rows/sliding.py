# SPDX-License-Identifier: Apache-2.0
"""A model over a sliding window as one with state, for what comes before it in the same graph (a front end).

What `incremental.py` does in a plan is here in the graph: a run takes `hop` new rows, every layer makes the rows that
are new, and a tensor of which a reader needs older rows too is a state: its window, which each run moves on. From the
first whole window on the outputs are those of the model, bit for bit; before that the windows hold zeros.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Graph, Node, State, Value, free_name
from tinyc.ops import node_of, op_of
from tinyc.ops.reshape import Reshape
from tinyc.ops.signal_history import SignalHistory
from tinyc.ops.slice import Slice, whole
from tinyc.plan.problem import Layer
from tinyc.plan.row_forms import Candidates
from tinyc.plan.rows.incremental import Moving, call_of, stopped

Span = tuple[int, int]  # rows [begin, end) of those that a run has of a tensor


@dataclass(frozen=True, slots=True)
class Advancing:
    """The graph of one run, and how many rows of how many bytes the model's window has."""

    graph: Graph
    window: int
    row_bytes: int


def sliding(graph: Graph, choices: Candidates, hop: int) -> Advancing:
    """The model as one that takes `hop` rows of its only input per run. choices: as of `select`, of any core.

    Raises TinycError naming the layer, or the output, that makes it impossible.
    """
    if graph.states:
        raise TinycError("a model with state keeps its own past", hint="leave out --incremental")
    call = call_of(graph, choices, hop)
    timed = [name for name in graph.outputs if call.whole.tensor_of(name) in call.new]
    if timed:
        raise TinycError(
            f"output '{timed[0]}' {list(graph.values[timed[0]].shape)} has rows for the moments of a window",
            graph.values[timed[0]].loc,
            "behind a front end, --incremental is for models whose outputs are of the window as a whole",
        )
    run_model = _RunModel(call)
    run_model.keep(graph.inputs[0])
    layers = {layer.node: layer for layer in call.whole.layers}
    for node in graph.nodes:
        layer = layers.get(node.name)
        if layer is None:
            run_model.take_view(node)
        elif any(name in call.new for name in layer.reads):
            run_model.take(node, layer)
        else:
            run_model.nodes.append(node)
    window = call.whole.tensors[graph.inputs[0]]
    return Advancing(run_model.graph(), window.rows, window.row_bytes)


class _RunModel:
    """The graph of one run as far as it is made. A tensor whose rows move has its new rows under its old name; `_seen`
    says which value holds all rows that a run has of it."""

    def __init__(self, call: Moving) -> None:
        self.nodes: list[Node] = []
        self._call = call
        self._graph = call.graph
        self._values: dict[str, Value] = {}  # those that are others than in the model
        self._states: list[State] = []
        self._seen: dict[str, str] = {}
        self._parts: dict[tuple[str, Span], str] = {}
        self._taken = {*call.graph.values, *(node.name for node in call.graph.nodes)}

    def graph(self) -> Graph:
        used = {*self._graph.inputs, *self._graph.outputs, *(name for s in self._states for name in (s.name, s.after))}
        used |= {name for node in self.nodes for name in (*node.inputs, *node.outputs)}
        values = {name: value for name, value in {**self._graph.values, **self._values}.items() if name in used}
        return replace(self._graph, nodes=tuple(self.nodes), values=values, states=tuple(self._states))

    def keep(self, tensor: str) -> None:
        """The new rows of a tensor are there: the state that older ones are moves on."""
        call = self._call
        self._values[tensor] = self._with_rows(tensor, call.new[tensor])
        self._seen[tensor] = tensor
        if not call.carried[tensor]:
            return
        fresh = self._values[tensor]
        size = fresh.elements // call.new[tensor] * call.tensors[tensor].rows
        before, after = (self._value(f"{tensor}:{name}", fresh, (size,)) for name in ("window", "window:next"))
        self._states.append(State(before.name, after.name, bytes(before.size_bytes)))
        flat = self._reshaped(fresh, (fresh.elements,))
        self.nodes.append(node_of(SignalHistory(), (flat.name, before.name), (after.name,)))
        self._seen[tensor] = after.name

    def take_view(self, node: Node) -> None:
        """A reshape: its readers make their own of a tensor whose rows move."""
        if self._call.whole.tensor_of(node.outputs[0]) not in self._call.new:
            self.nodes.append(node)

    def take(self, node: Node, layer: Layer) -> None:
        """A layer for the rows of a run."""
        call, span = self._call, self._call.reads(layer)
        inputs = tuple(self._part(name, span) if self._moves(name) else name for name in node.inputs)
        moves = layer.writes[0] in call.new
        attrs: Any = node.attrs
        if moves and isinstance(attrs, Slice):
            size = (attrs.size[0], call.new[layer.writes[0]], *attrs.size[2:])
            attrs = replace(attrs, begin=(attrs.begin[0], 0, *attrs.begin[2:]), size=size)
        resized = replace(node, inputs=inputs, attrs=attrs)
        for name in node.outputs:
            output = self._with_rows(name, call.new[name]) if moves else self._graph.values[name]
            self._check(resized, output)
        self.nodes.append(resized)
        if moves:
            for name in node.outputs:
                self.keep(name)

    def _check(self, node: Node, output: Value) -> None:
        values = [self._own_value(name) for name in node.inputs if name]
        shapes = [types.shape for types in op_of(node).infer(node.attrs, *values)]
        if output.shape not in shapes:
            raise stopped(node, f"does not make {list(output.shape)} of the rows of a run")

    def _moves(self, name: str) -> bool:
        return bool(name) and self._call.whole.tensor_of(name) in self._call.new

    def _part(self, name: str, span: Span) -> str:
        """The rows of a run that a reader needs of a tensor, in the shape that the reader knows."""
        if (name, span) not in self._parts:
            tensor = self._call.whole.tensor_of(name)
            total, shaped = self._call.tensors[tensor].rows, self._with_rows(name, span[1] - span[0])
            part = self._own_value(self._seen[tensor])
            if span != (0, total):
                size = part.elements // total
                cut = whole((part.elements,), 0, span[0] * size, (span[1] - span[0]) * size)
                flat = self._reshaped(part, (part.elements,))
                part = self._value(f"{name}:part", shaped, cut.size)
                self.nodes.append(node_of(cut, (flat.name,), (part.name,)))
            self._parts[name, span] = self._reshaped(part, shaped.shape).name
        return self._parts[name, span]

    def _reshaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        if value.shape == shape:
            return value
        shaped = self._value(f"{value.name}:shaped", value, shape)
        self.nodes.append(node_of(Reshape(shape), (value.name,), (shaped.name,)))
        return shaped

    def _with_rows(self, name: str, rows: int) -> Value:
        """The value with another number of rows: of an image, or of what is flat."""
        value = self._graph.values[name]
        height = self._call.whole.tensors[self._call.whole.tensor_of(name)].rows
        if rows == height:
            return value
        if len(value.shape) == 4 and value.shape[:2] == (1, height):
            return replace(value, shape=(1, rows, *value.shape[2:]))
        return replace(value, shape=(*(1 for _ in value.shape[:-1]), value.elements // height * rows))

    def _value(self, preferred: str, like: Value, shape: tuple[int, ...]) -> Value:
        name = free_name(preferred, self._taken)
        self._taken.add(name)
        self._values[name] = replace(like, name=name, shape=shape)
        return self._values[name]

    def _own_value(self, name: str) -> Value:
        return self._values.get(name) or self._graph.values[name]
