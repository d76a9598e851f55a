# SPDX-License-Identifier: Apache-2.0
"""int16 activations: which values have 16 bits, and the requantize nodes where they meet those of 8.

A node runs on int16 if a value that it reads or makes has 16 bits: the kernels of a node take one width. Its other
values are requantized for it. Operators without an int16 form always run on int8.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.base.names import some_of
from tinyc.ir.graph import DType, Graph, Node, Value, free_name
from tinyc.ops import is_a, node_of, op_of
from tinyc.ops.compare import Compare
from tinyc.ops.op import Trait
from tinyc.ops.requantize import Requantize
from tinyc.ops.units import ChannelUnits
from tinyc.quantize.groups import Groups, is_activation
from tinyc.quantize.observe import Stats

_NO_FORM = (
    "--int16-layers must not name what shares its scale; where none is named, its neighbours or its state need 16 bits:"
    " --precision float32 runs the model"
)
_KEEP_SIGNALS = (Trait.ELEMENTWISE, Trait.BROADCASTS)


@dataclass(frozen=True, slots=True)
class Widened:
    """A float graph with requantize nodes at the borders, statistics of the values that they make too, and the
    values (constants tied to them included) that are int16."""

    graph: Graph
    stats: Mapping[str, Stats]
    wide: frozenset[str]


def activations_of(graph: Graph, node: Node) -> list[str]:
    """Computed values that the node reads and makes."""
    return [name for name in (*node.inputs, *node.outputs) if is_activation(graph, name)]


def every_value(graph: Graph) -> frozenset[str]:
    """All activations, for `int16` everywhere. TinycError naming the layers without an int16 form."""
    without = [node for node in graph.nodes if not is_a(node, Trait.INT16) and is_activation(graph, node.outputs[0])]
    if without:
        kinds = ", ".join(sorted({node.op for node in without}))
        layers = some_of(f"'{node.layer}'" for node in without)
        raise TinycError(
            f"there is no int16 form here of {kinds}: {layers}",
            without[0].where,
            "--activations auto, or --int16-layers with the layers that matter: these stay int8 then",
        )
    return frozenset(name for name in graph.values if is_activation(graph, name))


def values_of_layers(graph: Graph, patterns: Sequence[str]) -> frozenset[str]:
    """What the layers make whose names match one of the patterns (`*` and `?` as in file names).

    TinycError for a pattern that matches no layer, or one without an int16 form.
    """
    names: set[str] = set()
    for pattern in patterns:
        nodes = [n for n in graph.nodes if matches(n, pattern) and is_activation(graph, n.outputs[0])]
        if not nodes:
            near = difflib.get_close_matches(pattern, [node.layer for node in graph.nodes], 3, 0.3)
            hint = "`tinyc quantize` prints their names" + (f"; near: {', '.join(near)}" if near else "")
            raise TinycError(f"--int16-layers: no layer is called '{pattern}'", hint=hint)
        narrow = [node for node in nodes if not is_a(node, Trait.INT16)]
        if narrow:
            raise TinycError(
                f"--int16-layers: {narrow[0].op} has no int16 form", narrow[0].where, "leave this layer out"
            )
        names |= {name for node in nodes for name in node.outputs}
    return frozenset(names)


def signals(graph: Graph) -> frozenset[str]:
    """What operators take as signals, which are int16, and what these are computed from element by element: of 8 bits
    16 would not become. And what comparisons make of them, such as the product of neighbours: its sign counts."""
    groups = Groups(graph)
    members = {groups.of(name) for node in graph.nodes for name in signal_of(node)}
    for node in reversed(graph.nodes):
        if is_a(node, Trait.INT16) and is_a(node, *_KEEP_SIGNALS) and groups.of(node.outputs[0]) in members:
            count = graph.values[node.outputs[0]].elements
            alike = (name for name in node.inputs if is_activation(graph, name))
            members |= {groups.of(name) for name in alike if graph.values[name].elements == count}
    members |= {groups.of(name) for node in graph.nodes for name in _compared(graph, groups, node, members)}
    return frozenset(name for name in graph.values if is_activation(graph, name) and groups.of(name) in members)


def _compared(graph: Graph, groups: Groups, node: Node, names: Collection[str]) -> list[str]:
    """What the node computes of signals element by element, and comparisons alone read."""
    if not is_a(node, Trait.INT16) or not is_a(node, *_KEEP_SIGNALS) or not is_activation(graph, node.outputs[0]):
        return []
    readers = [each for each in graph.nodes if node.outputs[0] in each.inputs]
    only = bool(readers) and all(isinstance(each.attrs, Compare) for each in readers)
    return list(node.outputs) if only and any(groups.of(name) in names for name in node.inputs if name) else []


def signal_of(node: Node) -> tuple[str, ...]:
    """The input that is int16 whatever else the layer reads and makes."""
    return node.inputs[:1] if is_a(node, Trait.SAMPLES) else ()


def memories(node: Node) -> frozenset[str]:
    """What the layer keeps from run to run, before and after: it has 16 bits whatever the layer's other values have."""
    pairs = op_of(node).updates
    before = (node.inputs[index] for _, index in pairs if index < len(node.inputs) and node.inputs[index])
    return frozenset((*before, *(node.outputs[index] for index, _ in pairs if index < len(node.outputs))))


def all_memories(graph: Graph) -> frozenset[str]:
    """Those of all layers."""
    names = (name for node in graph.nodes for name in memories(node))
    return frozenset(name for name in names if is_activation(graph, name))


def matches(node: Node, pattern: str) -> bool:
    """Whether the layer is called so, or as the pattern says (`*` and `?` as in file names)."""
    return any(name == pattern or fnmatchcase(name, pattern) for name in (node.layer, node.name))


def pattern_of(graph: Graph, layer: str) -> str:
    """The shortest pattern `*end of the name` for a layer that no other layer matches, else its name."""
    ends = [at + 1 for at, letter in enumerate(layer) if letter in "/;"]
    for at in reversed(ends):
        layers = {node.layer for node in graph.nodes if matches(node, f"*{layer[at:]}")}
        if layers == {layer}:
            return f"*{layer[at:]}"
    return layer


def runs_wide(graph: Graph, node: Node, wide: Collection[str]) -> bool:
    """Whether the node runs on int16."""
    own = signal_of(node)
    return is_a(node, Trait.INT16) and any(name in wide for name in activations_of(graph, node) if name not in own)


def widened(graph: Graph, stats: Mapping[str, Stats], wide: Collection[str]) -> Widened:
    """The float graph in which the values `wide`, and those tied to them, are int16.

    Values between layers that run on int16 anyway join them. TinycError if a layer without an int16 form makes one.
    """
    chosen = _with_free(graph, _tied(graph, wide))
    for node in graph.nodes:
        if not is_a(node, Trait.INT16) and any(name in chosen for name in node.outputs if name not in memories(node)):
            raise TinycError(f"{node.op} has no int16 form", node.where, _NO_FORM)
    writer = _Writer(graph, stats, chosen)
    for node in graph.nodes:
        writer.add(node)
    wide_graph = replace(graph, nodes=tuple(writer.nodes), values=writer.values)
    return Widened(wide_graph, writer.stats, _tied(wide_graph, writer.wide))


def _tied(graph: Graph, wide: Collection[str]) -> frozenset[str]:
    """With everything that shares a quantization with one of them, or is the same integers in other units."""
    groups = Groups(graph)
    chosen = {groups.of(name) for name in wide}
    for node in graph.nodes:
        same = {groups.of(node.inputs[0]), groups.of(node.outputs[0])} if is_a(node, ChannelUnits) else set()
        chosen |= same if same & chosen else set()
    return frozenset(name for name in graph.values if groups.of(name) in chosen)


def _with_free(graph: Graph, wide: frozenset[str]) -> frozenset[str]:
    """With the values that only layers on int16 touch: there 16 bits save requantizing. The model's inputs and outputs
    keep their width."""
    groups = Groups(graph)
    narrow = {groups.of(name) for name in (*graph.sources, *graph.sinks)}
    touched: set[str] = set()
    for node in graph.nodes:
        reps = {groups.of(name) for name in activations_of(graph, node)}
        if is_a(node, Trait.RESCALES):
            continue  # takes any width and makes any
        if runs_wide(graph, node, wide):
            touched |= reps
        else:
            narrow |= reps
    return wide | {name for name in graph.values if groups.of(name) in touched - narrow}


class _Writer:
    """The graph in the making; `copies[value, wide]`: a value in the other width."""

    def __init__(self, graph: Graph, stats: Mapping[str, Stats], wide: frozenset[str]) -> None:
        self._graph = graph
        self.nodes: list[Node] = []
        self.values: dict[str, Value] = dict(graph.values)
        self.stats: dict[str, Stats] = dict(stats)
        self.wide: set[str] = {name for name in wide if is_activation(graph, name)}
        self._copies: dict[tuple[str, bool], str] = {}
        self._origin = {name: node.origin for node in graph.nodes for name in node.outputs}

    def add(self, node: Node) -> None:
        """The node, with requantize nodes before and behind where its values have another width."""
        if is_a(node, Trait.RESCALES):  # takes any width and makes any
            self.nodes.append(replace(node, attrs=Requantize(self._dtype(node.outputs[0] in self.wide))))
            return
        wide = runs_wide(self._graph, node, self.wide)
        own = {*memories(node), *signal_of(node)}
        inputs = tuple(name if name in own else self._as_wide(name, wide, node) for name in node.inputs)
        outputs, behind = [], []
        for name in node.outputs:
            if not is_activation(self._graph, name) or (name in self.wide) == wide or name in own:
                outputs.append(name)
                continue
            outputs.append(self._copy(name, wide))
            self._origin[outputs[-1]] = node.origin
            behind.append(self._requantize(outputs[-1], name, node))
        self.nodes += [replace(node, inputs=inputs, outputs=tuple(outputs)), *behind]

    def _as_wide(self, name: str, wide: bool, node: Node) -> str:
        if not is_activation(self._graph, name) or (name in self.wide) == wide:
            return name
        if (name, wide) not in self._copies:
            self.nodes.append(self._requantize(name, self._copy(name, wide), node))
        return self._copies[name, wide]

    def _copy(self, name: str, wide: bool) -> str:
        """A value like `name` in the width asked for."""
        copied = free_name(f"{name}:{self._dtype(wide)}", self.values)
        self.values[copied] = replace(self.values[name], name=copied)
        if name in self.stats:
            self.stats[copied] = self.stats[name]
        if wide:
            self.wide.add(copied)
        self._copies[name, wide] = copied
        return copied

    def _requantize(self, source: str, target: str, node: Node) -> Node:
        name = free_name(f"{source}->{self._dtype(target in self.wide)}", {n.name: n for n in self._named()})
        attrs = Requantize(self._dtype(target in self.wide))
        return node_of(attrs, (source,), (target,), self._origin.get(source, node.origin), name)

    def _named(self) -> Iterator[Node]:
        yield from self.nodes
        yield from self._graph.nodes

    @staticmethod
    def _dtype(wide: bool) -> DType:
        return "s16" if wide else "s8"
