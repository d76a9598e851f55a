# SPDX-License-Identifier: Apache-2.0
"""Rules that rewrite a graph, one node at a time, until none applies.

A rule replaces *one* node by new nodes that compute the same outputs, or says that its output is
another value. It never removes the nodes around it: what nobody reads any more is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Loc
from tinyc.ir.graph import NUMPY_DTYPE, Array, Graph, Node, Value, free_name, read_only
from tinyc.ops import Kind, has, is_a, node_of


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
    """A graph as rules look at it: who makes a value, who reads it, and names that are still free.

    Rules only ask; `rewrite` keeps the answers up to date while it works through the nodes.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._outputs = dict.fromkeys(graph.sinks)
        self._inputs = frozenset(graph.sources)
        self._values, self._consts = dict(graph.values), dict(graph.consts)
        self._names = set(graph.values)
        self._nodes: dict[int, Node] = {}
        self._producer: dict[str, int] = {}
        self._readers: dict[str, dict[int, None]] = {}
        self._placed: dict[int, None] = {}  # nodes that no rule has changed, in run order
        self._next = 0
        for node in graph.nodes:
            self._insert(node)

    # What rules ask

    def value(self, name: str) -> Value:
        return self._values[name]

    def is_const(self, name: str) -> bool:
        return name in self._consts

    def const(self, name: str) -> Array:
        return self._consts[name]

    def is_input(self, name: str) -> bool:
        return name in self._inputs

    def is_output(self, name: str) -> bool:
        return name in self._outputs

    def producer(self, name: str, *kinds: Kind) -> Node | None:
        """The node that makes the value, if there is one and it `is_a` of one of the kinds (of any, if none)."""
        key = self._producer.get(name)
        node = self._nodes[key] if key is not None else None
        return node if node is not None and (not kinds or is_a(node, *kinds)) else None

    def consumers(self, name: str) -> tuple[Node, ...]:
        return tuple(self._nodes[key] for key in self._readers.get(name, ()))

    def sole_use(self, name: str) -> bool:
        """Whether one node reads the value, once, and it is no output: then it may cease to exist."""
        readers = self.consumers(name)
        return len(readers) == 1 and readers[0].inputs.count(name) == 1 and not self.is_output(name)

    def is_available(self, name: str) -> bool:
        """Whether the value is computed before the node that rules are looking at now."""
        key = self._producer.get(name)
        return key is None or key in self._placed

    def is_float(self, node: Node) -> bool:
        """Whether everything that the node touches is float32."""
        return all(self.value(name).dtype == "f32" for name in (*node.inputs, *node.outputs) if name)

    def unique(self, name: str) -> str:
        """The name, or the name with a number if it is taken."""
        free = free_name(name, self._names)
        self._names.add(free)
        return free

    # What `rewrite` does

    def _insert(self, node: Node) -> int:
        key = self._next
        self._next += 1
        self._nodes[key] = node
        self._producer.update(dict.fromkeys(node.outputs, key))
        for name in node.inputs:
            self._readers.setdefault(name, {})[key] = None
        return key

    def _remove(self, key: int) -> None:
        """Drop a node and, before it, all nodes that nobody reads any more."""
        dropped = [key]
        while dropped:
            gone = dropped.pop()
            node = self._nodes.pop(gone)
            self._placed.pop(gone, None)
            for name in node.outputs:
                if self._producer.get(name) == gone:
                    del self._producer[name]
            for name in dict.fromkeys(node.inputs):
                del self._readers[name][gone]
                before = self._producer.get(name)
                if before is not None and self._is_dead(self._nodes[before]):
                    dropped.append(before)

    def _is_dead(self, node: Node) -> bool:
        return not any(self._readers.get(name) or name in self._outputs for name in node.outputs)

    def _apply(self, key: int, rewritten: Rewrite) -> list[int]:
        """Put the rewrite in the node's place; the keys of the new nodes in run order."""
        self._values.update((value.name, value) for value in rewritten.values)
        self._consts.update(rewritten.consts)
        new = [self._insert(node) for node in rewritten.nodes]
        if rewritten.same is not None:
            gone, remaining = rewritten.same
            del self._producer[gone]
            # The name of a model output survives; it then stands for the other value everywhere.
            self._rename(*((remaining, gone) if self.is_output(gone) else (gone, remaining)))
        self._remove(key)
        return new

    def _rename(self, old: str, new: str) -> None:
        """Let everything that made or read `old` make or read `new`."""
        for key in self._readers.pop(old, {}):
            node = self._nodes[key]
            self._nodes[key] = replace(node, inputs=tuple(new if n == old else n for n in node.inputs))
            self._readers.setdefault(new, {})[key] = None
        maker = self._producer.pop(old, None)
        if maker is not None:
            node = self._nodes[maker]
            outputs = tuple(new if n == old else n for n in node.outputs)
            self._nodes[maker] = replace(node, name=new if node.name == old else node.name, outputs=outputs)
            self._producer[new] = maker

    def _can_join(self, gone: str, remaining: str) -> bool:
        """Whether two names may become one: of a model output and an input or constant, both are needed."""
        fixed = self.is_output(remaining) or self.is_input(remaining) or self.is_const(remaining)
        return not (self.is_output(gone) and fixed)

    def _changed_graph(self) -> Graph:
        nodes = tuple(self._nodes[key] for key in self._placed)
        return without_dead(replace(self._graph, nodes=nodes, values=self._values, consts=self._consts))


class RewriteDraft:
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

    def value(self, name: str) -> Value:
        """A value of the draft, or of the graph."""
        return next((value for value in self._values if value.name == name), None) or self.view.value(name)

    def add(self, inputs: Sequence[str], attrs: Any, like: Value, shape: tuple[int, ...], suffix: str) -> str:
        """A new node; its output has dtype, quantization and place of `like` and the given shape."""
        name = self.view.unique(f"{like.name}:{suffix}")
        self._values.append(replace(like, name=name, shape=shape))
        self._nodes.append(node_of(attrs, inputs, (name,), self.node.origin))
        return name

    def finish(self, inputs: Sequence[str], attrs: Any, origin: tuple[Loc, ...] | None = None) -> Rewrite:
        """The rewrite whose last node computes the old node's output."""
        last = node_of(attrs, inputs, self.node.outputs, origin or self.node.origin, self.node.name)
        return Rewrite((*self._nodes, last), tuple(self._values), self._consts)

    def becomes(self, name: str) -> Rewrite:
        """The rewrite in which the old node's output is the value `name`, new or old."""
        same = (self.node.outputs[0], name)
        return Rewrite(tuple(self._nodes), tuple(self._values), self._consts, same)


Rule = Callable[[View, Node], Rewrite | None]
_KINDS: dict[Rule, tuple[Kind, ...]] = {}


def rule(*kinds: Kind) -> Callable[[Rule], Rule]:
    """Mark a function as a rule for nodes of these kinds (for any node, if none is given)."""

    def mark(function: Rule) -> Rule:
        _KINDS[function] = kinds
        return function

    return mark


def rewrite(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """Apply the rules, for each node the first that fires, sweep after sweep until nothing changes.

    What takes a node's place is looked at again before the nodes after it. Nodes, values and constants
    that the outputs do not need are dropped. RuntimeError if the rules undo each other for ever: that is
    a mistake in the rules.
    """
    graph = without_dead(graph)
    budget = 20_000 + 100 * len(graph.nodes)
    while True:
        view, changes = View(graph), 0
        waiting = list(reversed(view._nodes))
        while waiting:
            key = waiting.pop()
            node = view._nodes.get(key)
            if node is None:  # dropped meanwhile
                continue
            rewritten = _first(view, node, rules)
            if rewritten is None or (rewritten.same is not None and not view._can_join(*rewritten.same)):
                view._placed[key] = None
                continue
            waiting.extend(reversed(view._apply(key, rewritten)))
            changes += 1
            if changes > budget:
                raise RuntimeError(f"rules do not come to an end: {', '.join(r.__name__ for r in rules)}")
        if not changes:
            return graph
        graph = view._changed_graph()


P = ParamSpec("P")


class Pass(Generic[P]):
    """A pass whose patterns have a node of one of some kinds. A graph that has none comes back as it is, and nothing of
    the pass runs."""

    def __init__(self, work: Callable[Concatenate[Graph, P], Graph], kinds: tuple[Kind, ...]) -> None:
        self.work = work
        self.kinds = kinds
        self.__name__ = work.__name__
        update_wrapper(self, work)

    def __call__(self, graph: Graph, *args: P.args, **kwargs: P.kwargs) -> Graph:
        return self.work(graph, *args, **kwargs) if has(graph, *self.kinds) else graph


def begins_with(*kinds: Kind) -> Callable[[Callable[Concatenate[Graph, P], Graph]], Pass[P]]:
    """Mark a function as a pass that changes only graphs with a node of one of these kinds."""
    return lambda work: Pass(work, kinds)


def _first(view: View, node: Node, rules: Sequence[Rule]) -> Rewrite | None:
    for candidate in rules:
        kinds = _KINDS[candidate]
        if (not kinds or is_a(node, *kinds)) and (rewritten := candidate(view, node)) is not None:
            return rewritten
    return None


def without_dead(graph: Graph) -> Graph:
    """The graph without nodes, values and constants that no output depends on. Inputs stay."""
    needed, live = set(graph.sinks), []
    for node in reversed(graph.nodes):
        if needed & set(node.outputs):
            needed.update(node.inputs)
            live.append(node)
    used = needed.union(graph.sources, *(node.outputs for node in live))
    if len(live) == len(graph.nodes) and used - {""} == set(graph.values):
        return graph
    return replace(
        graph,
        nodes=tuple(reversed(live)),
        values={name: value for name, value in graph.values.items() if name in used},
        consts={name: array for name, array in graph.consts.items() if name in used},
    )
