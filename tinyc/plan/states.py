# SPDX-License-Identifier: Apache-2.0
"""Which values of a graph last from run to run, and have bytes of their own that the planner gives to nobody else.

A state is two values, what a run begins with and what the next one does. Where all that reads the first is computed
before the second is, both are the same bytes. Else the second lives in the arena until the run ends, and is stored
then.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinyc.ir.graph import Graph, Node, State
from tinyc.ops import op_of


def views_of(graph: Graph) -> dict[str, str]:
    """value -> the value whose bytes it is, for what reshapes make."""
    views: dict[str, str] = {}
    for node in graph.nodes:
        if op_of(node).view:
            views[node.outputs[0]] = views.get(node.inputs[0], node.inputs[0])
    return views


def lasting(graph: Graph) -> frozenset[str]:
    """The values that last: what runs begin with, and what may be computed in its place. Their views not."""
    return frozenset(state.name for state in graph.states) | frozenset(overwritten(graph))


def overwritten(graph: Graph) -> Mapping[str, str]:
    """after -> name, for the states whose next value is written where the last one is."""
    if not graph.states:
        return {}
    views, producer = views_of(graph), graph.producer()
    before = _Before(graph, producer)
    hosts = {}
    for state in graph.states:
        maker = producer.get(state.after)
        alone = [other.after for other in graph.states].count(state.after) == 1
        if maker is None or not alone or state.after in graph.outputs:
            continue
        if op_of(maker).view or any(views.get(name, name) == state.name for name in graph.sinks):
            continue
        if all(reader is maker or before(reader, maker) for reader in _readers(graph, views, state)) and _may(
            maker, state
        ):
            hosts[state.after] = state.name
    return hosts


def _readers(graph: Graph, views: Mapping[str, str], state: State) -> list[Node]:
    """The nodes that read the state's bytes, by any name."""
    nodes = [node for node in graph.nodes if not op_of(node).view]
    return [node for node in nodes if any(views.get(name, name) == state.name for name in node.inputs)]


def _may(maker: Node, state: State) -> bool:
    """Whether the node, if it reads the state itself, may write over it."""
    reads = [index for index, name in enumerate(maker.inputs) if name == state.name]
    pair = (maker.outputs.index(state.after), *reads)
    return not reads or pair in op_of(maker).updates


class _Before:
    """before(a, b): b needs what a computes, so it runs after it in every order."""

    def __init__(self, graph: Graph, producer: Mapping[str, Node]) -> None:
        self._needs: dict[str, frozenset[str]] = {}
        for node in graph.nodes:
            makers = [producer[name].name for name in node.inputs if name in producer]
            self._needs[node.name] = frozenset(makers).union(*(self._needs[name] for name in makers))

    def __call__(self, a: Node, b: Node) -> bool:
        return a.name in self._needs[b.name]
