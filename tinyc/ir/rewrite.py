"""Rules that rewrite a graph, one node at a time, until none applies.

A rule replaces *one* node by new nodes that compute the same outputs, or says that its output is
another value. It never removes the nodes around it: what nobody reads any more is dropped afterwards.
So rules that fire in the same sweep cannot get in each other's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tinyc.errors import Loc
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node, Value, read_only


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What takes a node's place: nodes in run order with the values and constants that are new.

    `same`: (name, other name) when the node's output is the other value under another name.
    """

    nodes: tuple[Node, ...] = ()
    values: tuple[Value, ...] = ()
    consts: Mapping[str, Array] = field(default_factory=dict)
    same: tuple[str, str] | None = None


class View:
    """A graph as rules look at it: who makes a value, who reads it, and names that are still free."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._producer = graph.producer()
        self._consumers = graph.consumers()
        self._outputs = frozenset(graph.outputs)
        self._names = set(graph.values)

    def value(self, name: str) -> Value:
        return self.graph.values[name]

    def is_const(self, name: str) -> bool:
        return name in self.graph.consts

    def const(self, name: str) -> Array:
        return self.graph.consts[name]

    def is_input(self, name: str) -> bool:
        return name in self.graph.inputs

    def is_output(self, name: str) -> bool:
        return name in self._outputs

    def producer(self, name: str, *ops: str) -> Node | None:
        """The node that makes the value, if there is one and it is one of the given operators (any, if none)."""
        node = self._producer.get(name)
        return node if node is not None and (not ops or node.op in ops) else None

    def consumers(self, name: str) -> tuple[Node, ...]:
        return self._consumers.get(name, ())

    def sole_use(self, name: str) -> bool:
        """Whether one node reads the value, once, and it is no output: then it may cease to exist."""
        readers = self.consumers(name)
        return len(readers) == 1 and readers[0].inputs.count(name) == 1 and not self.is_output(name)

    def is_float(self, node: Node) -> bool:
        """Whether everything that the node touches is float32."""
        return all(self.value(name).dtype == "f32" for name in (*node.inputs, *node.outputs) if name)

    def unique(self, name: str) -> str:
        """The name, or the name with a number if it is taken."""
        candidate, n = name, 1
        while candidate in self._names:
            n += 1
            candidate = f"{name}#{n}"
        self._names.add(candidate)
        return candidate


class Draft:
    """Collects the parts of a Rewrite of `node`; names the new values after its output."""

    def __init__(self, view: View, node: Node) -> None:
        self.view = view
        self.node = node
        self._nodes: list[Node] = []
        self._values: list[Value] = []
        self._consts: dict[str, Array] = {}

    def const(self, array: Array, like: Value, suffix: str = "") -> str:
        """A new constant with the dtype, quantization and place of `like`, named after it."""
        name = self.view.unique(f"{like.name}:{suffix}" if suffix else like.name)
        self._consts[name] = read_only(array.astype(NUMPY_DTYPE[like.dtype], copy=False))
        self._values.append(replace(like, name=name, shape=array.shape))
        return name

    def add(self, op: str, inputs: Sequence[str], attrs: Any, like: Value, shape: tuple[int, ...], suffix: str) -> str:
        """A new node; its output has dtype, quantization and place of `like` and the given shape."""
        name = self.view.unique(f"{like.name}:{suffix}")
        self._values.append(replace(like, name=name, shape=shape))
        self._nodes.append(Node(name, op, tuple(inputs), (name,), attrs, self.node.origin))
        return name

    def finish(self, op: str, inputs: Sequence[str], attrs: Any, origin: tuple[Loc, ...] | None = None) -> Rewrite:
        """The rewrite whose last node computes the old node's output."""
        last = replace(self.node, op=op, inputs=tuple(inputs), attrs=attrs, origin=origin or self.node.origin)
        return Rewrite((*self._nodes, last), tuple(self._values), self._consts)

    def becomes(self, name: str) -> Rewrite:
        """The rewrite in which the old node's output is the value `name`, new or old."""
        same = (self.node.outputs[0], name)
        return Rewrite(tuple(self._nodes), tuple(self._values), self._consts, same)


Rule = Callable[[View, Node], Rewrite | None]
_OPS: dict[Rule, frozenset[str]] = {}


def rule(*ops: str) -> Callable[[Rule], Rule]:
    """Mark a function as a rule for nodes of these operators (of any operator, if none is given)."""

    def mark(function: Rule) -> Rule:
        _OPS[function] = frozenset(ops)
        return function

    return mark


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """Apply the rules, for each node the first that fires, sweep after sweep until nothing changes.

    Nodes, values and constants that the outputs do not need are dropped. RuntimeError if the rules
    undo each other for ever: that is a mistake in the rules.
    """
    graph = without_dead(graph)
    for _ in range(100 + 20 * len(graph.nodes)):
        swept = _sweep(graph, rules)
        if swept is graph:
            return graph
        graph = without_dead(swept)
    raise RuntimeError(f"rules do not come to an end: {', '.join(r.__name__ for r in rules)}")


def _sweep(graph: Graph, rules: Sequence[Rule]) -> Graph:
    view = View(graph)
    nodes: list[Node] = []
    values, consts = dict(graph.values), dict(graph.consts)
    same: dict[str, str] = {}
    changed = False
    for node in graph.nodes:
        found = _first(view, node, rules)
        if found is None or (found.same is not None and not _joinable(view, same, *found.same)):
            nodes.append(node)
            continue
        changed = True
        nodes.extend(found.nodes)
        values.update((value.name, value) for value in found.values)
        consts.update(found.consts)
        if found.same is not None:
            gone, kept = found.same
            # The name of a model output survives; it then stands for the other value everywhere.
            same.update({kept: gone} if view.is_output(gone) else {gone: kept})
    if not changed:
        return graph
    return _renamed(replace(graph, nodes=tuple(nodes), values=values, consts=consts), same)


def _first(view: View, node: Node, rules: Sequence[Rule]) -> Rewrite | None:
    for candidate in rules:
        ops = _OPS[candidate]
        if (not ops or node.op in ops) and (found := candidate(view, node)) is not None:
            return found
    return None


def _joinable(view: View, same: Mapping[str, str], gone: str, kept: str) -> bool:
    """Whether two names may become one: not both are the model's, and neither was renamed in this sweep."""
    if gone in same or kept in same or kept in same.values() or gone in same.values():
        return False
    return not (view.is_output(gone) and (view.is_output(kept) or view.is_input(kept) or view.is_const(kept)))


def _renamed(graph: Graph, same: Mapping[str, str]) -> Graph:
    def now(name: str) -> str:
        return same.get(name, name)

    nodes = tuple(
        replace(
            node,
            name=now(node.name) if node.name in node.outputs else node.name,
            inputs=tuple(map(now, node.inputs)),
            outputs=tuple(map(now, node.outputs)),
        )
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes, outputs=tuple(map(now, graph.outputs)))


def without_dead(graph: Graph) -> Graph:
    """The graph without nodes, values and constants that no output depends on. Inputs stay."""
    wanted, kept = set(graph.outputs), []
    for node in reversed(graph.nodes):
        if wanted & set(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    used = wanted.union(graph.inputs, *(node.outputs for node in kept))
    if len(kept) == len(graph.nodes) and used - {""} == set(graph.values):
        return graph
    return replace(
        graph,
        nodes=tuple(reversed(kept)),
        values={name: value for name, value in graph.values.items() if name in used},
        consts={name: array for name, array in graph.consts.items() if name in used},
    )
