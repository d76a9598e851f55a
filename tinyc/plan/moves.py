# SPDX-License-Identifier: Apache-2.0
"""Concat and slice without a copy: where the parts lie one after the other, addresses do it.

* cut: what is one run of its input's bytes (`Op.part`) is a place in its input.
* join: what lays whole inputs one after the other (`Op.stacks`) does nothing; their makers write them there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph, Node
from tinyc.kernel.site import Site
from tinyc.ops import op_of


@dataclass(frozen=True, slots=True)
class Cut:
    """A value that is `size` bytes of a tensor, from byte `offset` on."""

    of: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor that is a part of a join, from byte `offset` on."""

    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Moves:
    """views: value -> the tensor whose bytes it is, all of them. joins: output of a concat -> its parts in order."""

    views: Mapping[str, str]
    cuts: Mapping[str, Cut] = field(default_factory=dict)
    joins: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)


def moves_of(graph: Graph, align: int) -> Moves:
    """What of the graph needs no copy, at places that are multiples of `align`; nothing in a graph with states."""
    views: dict[str, str] = {}
    cuts: dict[str, Cut] = {}
    joins: dict[str, tuple[Part, ...]] = {}
    parts: set[str] = set()
    for node in graph.nodes:
        op = op_of(node)
        if op.view:
            _view(graph, node, views, cuts)
        elif graph.states:
            continue
        elif op.part is not None:
            offset = op.part(Site(graph, node, Numerics.OURS))
            if offset is not None and (cut := _cut(graph, node, offset, views, cuts, align)) is not None:
                cuts[node.outputs[0]] = cut
        elif op.stacks is not None and op.stacks(Site(graph, node, Numerics.OURS)):
            join = _join(graph, node, views, cuts, align)
            if join is not None and parts.isdisjoint(part.name for part in join):
                joins[node.outputs[0]] = join
                parts |= {part.name for part in join}
    return Moves(views, cuts, joins)


def _view(graph: Graph, node: Node, views: dict[str, str], cuts: dict[str, Cut]) -> None:
    source, output = node.inputs[0], node.outputs[0]
    if source in cuts:
        cuts[output] = cuts[source]
    else:
        views[output] = views.get(source, source)


def _cut(
    graph: Graph, node: Node, offset: int, views: Mapping[str, str], cuts: Mapping[str, Cut], align: int
) -> Cut | None:
    """offset: bytes from the input's first one."""
    if views.get(node.inputs[0], node.inputs[0]) in graph.consts:
        return None
    source, output = node.inputs[0], node.outputs[0]
    outer = cuts.get(source)
    root, start = (outer.of, outer.offset) if outer else (views.get(source, source), 0)
    if (start + offset) % align:
        return None
    return Cut(root, start + offset, graph.values[output].size_bytes)


def _join(
    graph: Graph, node: Node, views: Mapping[str, str], cuts: Mapping[str, Cut], align: int
) -> tuple[Part, ...] | None:
    if any(name in cuts for name in node.inputs):
        return None
    names = [views.get(name, name) for name in node.inputs]
    if len(set(names)) != len(names) or any(name in graph.consts for name in names):
        return None
    parts, offset = [], 0
    for name in names:
        if offset % align:
            return None
        parts.append(Part(name, offset))
        offset += graph.values[name].size_bytes
    return tuple(parts)
