# SPDX-License-Identifier: Apache-2.0
"""Values that share one quantization: what the operators' rules tie together."""

from __future__ import annotations

from collections.abc import Iterator

from tinyc.ir.graph import Graph, Node
from tinyc.ops import op_of
from tinyc.ops.op import Observed, QuantRule, SameAs


def input_rule(node: Node, index: int) -> QuantRule:
    """The rule for input `index`; the last one holds for all further inputs."""
    rules = op_of(node).quant_in
    return rules[min(index, len(rules) - 1)]


def output_rule(node: Node, index: int) -> QuantRule:
    return op_of(node).quant_out[index]


def is_weight(node: Node, index: int) -> bool:
    """Whether input `index`, if it is a constant, holds weights: of a recurrent layer, too."""
    rule = input_rule(node, index)
    return isinstance(rule, Observed) and (rule.axis is not None or rule.symmetric)


def is_activation(graph: Graph, name: str) -> bool:
    """Whether a value is computed in float and has to get a quantization of its own."""
    return bool(name) and name not in graph.consts and graph.values[name].dtype == "f32"


class Groups:
    """Values that share one quantization, as a forest (union-find)."""

    def __init__(self, graph: Graph) -> None:
        self._parent = {name: name for name in graph.values}
        for node in graph.nodes:
            for name, other in ties(node):
                self._parent[self.of(name)] = self.of(other)
        for state in graph.states:
            self._parent[self.of(state.after)] = self.of(state.name)

    def of(self, name: str) -> str:
        """The value that stands for the group."""
        while self._parent[name] != name:
            self._parent[name] = self._parent[self._parent[name]]
            name = self._parent[name]
        return name


def ties(node: Node) -> Iterator[tuple[str, str]]:
    """Pairs of values that the node's rules tie together."""
    for index, name in enumerate(node.inputs):
        rule = input_rule(node, index)
        if isinstance(rule, SameAs) and name:
            yield name, node.inputs[rule.index]
    for index, name in enumerate(node.outputs):
        rule = output_rule(node, index)
        if isinstance(rule, SameAs):
            yield name, node.inputs[rule.index]
