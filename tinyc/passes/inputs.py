# SPDX-License-Identifier: Apache-2.0
"""Image inputs as the sensor gives them: NHWC, even where the model was trained with NCHW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Graph, Node, Shape
from tinyc.ops import node_of
from tinyc.ops.reshape import Reshape
from tinyc.ops.transpose import Transpose
from tinyc.passes.cleanup import cleanup

Perm = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Relaid:
    """A graph whose inputs lost a leading transpose. perms[input]: its axes, as axes of the model's own input."""

    graph: Graph
    perms: Mapping[str, Perm]


def inputs_as_in_file(graph: Graph, perms: Mapping[str, Perm]) -> Graph:
    """A graph whose inputs are shaped as in the model's file, to fit samples to; its nodes are not to be run."""
    values = dict(graph.values)
    for name, perm in perms.items():
        shape = [0] * len(perm)
        for axis, size in zip(perm, values[name].shape, strict=True):
            shape[axis] = size
        values[name] = replace(values[name], shape=tuple(shape))
    return replace(graph, values=values)


def take_inputs_as_computed(graph: Graph) -> Relaid:
    """Let the caller hand over what a transpose at an input would make; no step of the library moves it then.

    An input qualifies if a transpose is all that reads it, of its own shape or with axes of one element more, and it
    makes channels last of an order with channels first. Any other order that a model begins with is its own affair: the
    caller hands over what the file says. The input keeps its name.
    """
    graph = _transposed_before(graph)
    consumers, producers = graph.consumers(), {}
    perms: dict[str, Perm] = {}
    for name in graph.inputs:
        readers = consumers.get(name, ())
        if len(readers) == 1 and isinstance(readers[0].attrs, Transpose) and name not in graph.outputs:
            (transposed,) = readers[0].outputs
            if transposed not in graph.outputs and _channels_last(graph.values[name].shape, readers[0].attrs.perm):
                perms[name] = tuple(readers[0].attrs.perm)
                producers[transposed] = name
    if not perms:
        return Relaid(graph, {})
    values = dict(graph.values)
    for transposed, name in producers.items():
        values[name] = replace(values[transposed], name=name, loc=values[name].loc)
    nodes = tuple(
        replace(node, inputs=tuple(producers.get(i, i) for i in node.inputs))
        for node in graph.nodes
        if not (isinstance(node.attrs, Transpose) and node.outputs[0] in producers)
    )
    others = {name: value for name, value in values.items() if name not in producers}
    return Relaid(cleanup(replace(graph, nodes=nodes, values=others)), perms)


def _channels_last(shape: Shape, perm: Perm) -> bool:
    """Whether the second axis becomes the last one and all others keep their order, but for those of one element."""
    last = (0, *range(2, len(perm)), 1)
    orders = ([axis for axis in order if shape[axis] != 1] for order in (perm, last))
    return len(perm) > 2 and perm[0] == 0 and next(orders) == next(orders)


def _transposed_before(graph: Graph) -> Graph:
    """The graph with a transpose of an input's own axes in the place of a reshape that adds axes of one element, and a
    transpose of all: as the input [N,C,T] of one-dimensional convolutions becomes [1,1,T,C]."""
    consumers = graph.consumers()
    values, nodes = dict(graph.values), list(graph.nodes)
    for name in graph.inputs:
        pair = _reshape_and_transpose(graph, consumers, name)
        if pair is None:
            continue
        wider, transpose = pair
        x, (between,), (transposed,) = graph.values[name], wider.outputs, transpose.outputs
        perm = _own_axes(x.shape, graph.values[between].shape, transpose.attrs.perm)
        if perm is None or not _channels_last(x.shape, perm):
            continue
        values[between] = replace(values[between], shape=tuple(x.shape[axis] for axis in perm))
        first = node_of(Transpose(perm), (name,), (between,), transpose.origin, transpose.name)
        second = node_of(Reshape(values[transposed].shape), (between,), (transposed,), wider.origin, wider.name)
        nodes[nodes.index(wider)], nodes[nodes.index(transpose)] = first, second
    return graph if nodes == list(graph.nodes) else replace(graph, nodes=tuple(nodes), values=values)


def _reshape_and_transpose(
    graph: Graph, consumers: Mapping[str, Sequence[Node]], name: str
) -> tuple[Node, Node] | None:
    """The two nodes, where each is all that reads what is before it."""
    chain: list[Node] = []
    for attrs in (Reshape, Transpose):
        readers = consumers.get(name, ())
        if len(readers) != 1 or not isinstance(readers[0].attrs, attrs) or name in graph.outputs:
            return None
        chain.append(readers[0])
        name = readers[0].outputs[0]
    return (chain[0], chain[1])


def _own_axes(shape: Shape, wider: Shape, perm: Perm) -> Perm | None:
    """The order in which a transpose of `wider` leaves the axes of `shape`; None if they are not those of `wider` but
    for some of one element. The first axis, of the batch, stays the first."""
    places, at = [], 0
    for axis, size in enumerate(shape):
        if axis == 0:
            at = 1 if wider[:1] == (size,) else len(wider) + 1
        else:
            while at < len(wider) and wider[at] != size and wider[at] == 1:
                at += 1
            if at >= len(wider) or wider[at] != size:
                return None
            at += 1
        places.append(at - 1)
    if at > len(wider) or any(size != 1 for i, size in enumerate(wider) if i not in places) or perm[0] != 0:
        return None
    return tuple(places.index(axis) for axis in perm if axis in places)
