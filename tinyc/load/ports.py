# SPDX-License-Identifier: Apache-2.0
"""uint8 inputs and outputs of a model whose integers are held as int8."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tinyc.base.errors import Loc, TinycError
from tinyc.ir.graph import Graph, Quant, Value
from tinyc.ops import node_of
from tinyc.ops.requantize import Requantize

_SHIFT = 128


def with_unsigned_ports(graph: Graph, unsigned: Collection[str]) -> Graph:
    """The graph with the named inputs and outputs as uint8, as the model has them; inside they stay int8.

    The same reals: integer and zero point are greater by 128.
    """
    for name in (*graph.inputs, *graph.outputs):
        if name in unsigned and graph.values[name].dtype != "s8":
            raise TinycError(
                f"'{name}' is uint16; models take and give int8, uint8, int16 or float32",
                graph.values[name].loc,
                "quantize to int16, or leave this tensor in float: tinyc quantizes it by itself",
            )
    for name in graph.inputs:
        if name in unsigned:
            inner = _renamed(graph, name)
            port, value = _port(inner, name)
            node = node_of(Requantize("s8"), (name,), (value.name,), _origin(value))
            graph = replace(inner, nodes=(node, *inner.nodes), values={**inner.values, name: port})
    for name in graph.outputs:
        if name in unsigned:
            inner = _renamed(graph, name)
            port, value = _port(inner, name)
            node = node_of(Requantize("u8"), (value.name,), (name,), _origin(value))
            graph = replace(inner, nodes=(*inner.nodes, node), values={**inner.values, name: port})
    return graph


def _inner_name(name: str) -> str:
    return f"{name}:int8"


def _port(graph: Graph, name: str) -> tuple[Value, Value]:
    """(uint8 value called `name`, the int8 value that stands for it)."""
    value = graph.values[_inner_name(name)]
    assert value.quant is not None
    scale, zero = value.quant.per_tensor
    return replace(value, name=name, dtype="u8", quant=Quant((scale,), (zero + _SHIFT,))), value


def _renamed(graph: Graph, name: str) -> Graph:
    """The graph with the value `name` under its inner name everywhere but in the lists of inputs and outputs."""
    new = _inner_name(name)
    nodes = tuple(
        replace(
            node,
            name=new if node.name == name else node.name,
            inputs=tuple(new if n == name else n for n in node.inputs),
            outputs=tuple(new if n == name else n for n in node.outputs),
        )
        for node in graph.nodes
    )
    values = {n: v for n, v in graph.values.items() if n != name}
    states = tuple(replace(state, after=new) if state.after == name else state for state in graph.states)
    return replace(graph, nodes=nodes, values={**values, new: replace(graph.values[name], name=new)}, states=states)


def _origin(value: Value) -> tuple[Loc, ...]:
    return (value.loc,) if value.loc else ()
