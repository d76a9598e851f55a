# SPDX-License-Identifier: Apache-2.0
"""Where tensors are converted, between layers in float32 and layers in integers: where it costs the least.

What only moves or selects elements gives the same reals in both forms, so it may run on either side of a conversion. A
2x2 max pool behind a layer in float32 runs in float32, too: it leaves a quarter of the elements to quantize. One that
reads integers for a layer in float32 runs in integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.site import Act
from tinyc.ops import is_a, op_of
from tinyc.ops.op import Trait

# Instructions of an element on a Cortex-M4 with FPU, as counted; of a Cortex-M3 all are 8 to 14 times as many.
_QUANTIZE, _DEQUANTIZE = 28, 8
_SELECT = 12  # of each input of a max pool, the more in float32; windows may overlap
_MOVE = 2  # of each output that is moved, the more in float32
_CHAIN = 8  # layers one after the other that change sides together


def cheapest_sides(graph: Graph, names: frozenset[str]) -> frozenset[str]:
    """The names of the nodes to run in float32: those of `names`, but that nodes which only move or select elements
    run where this takes the fewest instructions. All tensors keep their reals, and the model its inputs and outputs."""
    sides = _Sides.of(graph)
    side: frozenset[str] | None = names
    while side is not None:
        names = side
        side = next((names ^ chain for chain in sides.chains(names) if sides.saves(names, chain)), None)
    return names


@dataclass(frozen=True, slots=True)
class _Sides:
    """A graph as what is asked about sides needs it. free: nodes that may run on either side."""

    graph: Graph
    producer: Mapping[str, Node]
    readers: Mapping[str, Sequence[Node]]
    free: Mapping[str, Node] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> _Sides:
        """Those of the graph."""
        free = {node.name: node for node in graph.nodes if _is_free(graph, node)}
        return cls(graph, graph.producer(), graph.consumers(), free)

    def saves(self, names: frozenset[str], chain: frozenset[str]) -> bool:
        """Whether it costs less if, of these nodes in float32, those of the chain change sides."""
        return self._around(chain, names ^ chain) < self._around(chain, names)

    def _around(self, chain: frozenset[str], names: frozenset[str]) -> int:
        """What free nodes cost with `names` in float32, and the conversions of what they read and make."""
        cost = sum(self._more(self.free[name]) for name in chain & names)
        nodes = [self.free[name] for name in chain]
        for name in {name for node in nodes for name in (*node.inputs, *node.outputs)}:
            is_inside = name in self.producer and self.producer[name].name in names
            if any((reader.name in names) != is_inside for reader in self.readers.get(name, ())):
                cost += self.graph.values[name].elements * (_QUANTIZE if is_inside else _DEQUANTIZE)
        return cost

    def chains(self, names: frozenset[str]) -> Iterator[frozenset[str]]:
        """Free nodes one after the other on one side, which may change it together."""
        for node in self.free.values():
            chain: list[str] = []
            last: Node | None = node
            while last is not None and last.name in self.free and len(chain) < _CHAIN:
                if (last.name in names) != (node.name in names):
                    break
                chain.append(last.name)
                yield frozenset(chain)
                last = self.producer.get(last.inputs[0])

    def _more(self, node: Node) -> int:
        if is_a(node, Trait.SELECTS):
            return _SELECT * self.graph.values[node.inputs[0]].elements
        return 0 if op_of(node).view else _MOVE * self.graph.values[node.outputs[0]].elements


def _is_free(graph: Graph, node: Node) -> bool:
    """Whether the node makes the same reals of integers as of floats: of one tensor, in one quantization. What the
    model gives out, or keeps, stays what it is."""
    if not is_a(node, Trait.MOVES, Trait.SELECTS) or len(node.inputs) != 1 or len(node.outputs) != 1:
        return False
    if is_a(node, Trait.FUSES_CLIP) and node.attrs.act != Act():
        return False
    if op_of(node).float32 is None and not is_a(node, Trait.ANY_TYPE):
        return False
    x, y = graph.values[node.inputs[0]], graph.values[node.outputs[0]]
    lasting = {*graph.sinks, *(state.after for state in graph.states)}
    return y.name not in lasting and x.quant is not None and (x.dtype, x.quant) == (y.dtype, y.quant)
