# SPDX-License-Identifier: Apache-2.0
"""Layers of an integer graph that run in float32 all the same: conversions where they meet integers.

A tensor between two such layers stays float32; one that integers make is dequantized once for all that read it in
float32, and one that integers read is quantized by the range that calibration saw. What only moves values between such
layers moves floats; at the edges it does what costs the least (`conversions.py`). An output of the model that such a
layer makes is float32.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph, Node, Value, read_only
from tinyc.ops import is_a, node_of, op_of
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.op import Trait
from tinyc.ops.quantize import Quantize
from tinyc.quantize.conversions import cheapest_sides
from tinyc.quantize.widths import matches

_HINT = "names of layers are those of `tinyc inspect`; * and ? stand for letters"


def nodes_named(graph: Graph, patterns: Sequence[str]) -> frozenset[str]:
    """Names of the nodes whose layers match one of the patterns (`*` and `?` as in file names), and that have a float32
    form. TinycError for a pattern that matches none."""
    chosen_layers: set[str] = set()
    for pattern in patterns:
        matching = [node for node in graph.nodes if matches(node, pattern)]
        able = {node.name for node in matching if op_of(node).float32 is not None}
        if not matching:
            names = sorted({node.layer for node in graph.nodes})
            close = difflib.get_close_matches(pattern, names, n=1)
            guess = f"did you mean '{close[0]}'? " if close else ""
            raise TinycError(f"no layer is called '{pattern}'", hint=f"{guess}{_HINT}")
        if not able:
            kinds = ", ".join(sorted({node.op for node in matching}))
            raise TinycError(
                f"'{pattern}' has no float32 form: {kinds}", matching[0].where, "leave it out of --float-layers"
            )
        chosen_layers |= able
    return frozenset(chosen_layers)


def with_float_layers(graph: Graph, floats: Graph | None, names: Collection[str]) -> Graph:
    """The integer graph with these nodes in float32.

    floats: the float graph that it was quantized from, whose nodes have the same names: the constants are taken from
    there; None: they are those that the integers stand for.
    """
    if not names:
        return graph
    return _Mixing(graph, floats, cheapest_sides(graph, frozenset(names) | _moved_between(graph, names))).run()


def _moved_between(graph: Graph, names: Collection[str]) -> frozenset[str]:
    """Nodes that move what only nodes in float32 make, to nodes that are all in float32."""
    inside, producer, consumers = set(names), graph.producer(), graph.consumers()
    while True:
        more = {
            node.name
            for node in graph.nodes
            if node.name not in inside
            and is_a(node, Trait.MOVES)
            and all(name in producer and producer[name].name in inside for name in node.inputs if name)
            and all(reader.name in inside for name in node.outputs for reader in consumers.get(name, ()))
        }
        if not more:
            return frozenset(inside - set(names))
        inside |= more


class _Mixing:
    """The graph in the making."""

    def __init__(self, graph: Graph, floats: Graph | None, names: frozenset[str]) -> None:
        self._graph, self._names = graph, names
        self._twins: Mapping[str, Node] = {node.name: node for node in floats.nodes} if floats else {}
        self._reals: Mapping[str, Array] = floats.consts if floats else {}
        self._readers = graph.consumers()
        self._values, self._consts = dict(graph.values), dict(graph.consts)
        self._as_float: dict[str, str] = {}

    def run(self) -> Graph:
        nodes = [own for node in self._graph.nodes for own in self._of(node)]
        used = {name for node in nodes for name in (*node.inputs, *node.outputs)}
        used |= {*self._graph.sources, *self._graph.sinks}
        return replace(
            self._graph,
            nodes=tuple(nodes),
            values={name: value for name, value in self._values.items() if name in used},
            consts={name: array for name, array in self._consts.items() if name in used},
        )

    def _of(self, node: Node) -> Iterator[Node]:
        """The node; of one in float32, with the conversions around it."""
        if node.name not in self._names:
            yield node
            return
        twin = self._twins.get(node.name)
        attrs = twin.attrs if twin is not None and twin.op == node.op else node.attrs
        inputs: list[str] = []
        for index, name in enumerate(node.inputs):
            if name and name not in self._as_float and name not in self._graph.consts and not self._is_float(name):
                yield self._dequantize(name, node)
            inputs.append(self._input(node, twin, index))
        values = [self._values[name] if name else None for name in inputs]
        kinds = op_of(node).infer(attrs, *values)
        outputs = [self._output(name) for name in node.outputs]
        for name, kind in zip(outputs, kinds, strict=True):
            self._values[name] = Value(name, kind.shape, kind.dtype, None, self._values[node.outputs[0]].loc)
        yield replace(node, inputs=tuple(inputs), outputs=tuple(outputs), attrs=attrs)
        for index, (integer, real) in enumerate(zip(node.outputs, outputs, strict=True)):
            if integer != real:
                attributes = Quantize(self._graph.values[integer].dtype)
                name = f"{node.name}/quantize{index or ''}"
                yield node_of(attributes, [real], [integer], node.origin, name)

    def _is_float(self, name: str) -> bool:
        return self._values[name].dtype == "f32"

    def _input(self, node: Node, twin: Node | None, index: int) -> str:
        name = node.inputs[index]
        if name in self._graph.consts and not self._is_float(name):
            return self._constant(name, twin.inputs[index] if twin is not None and index < len(twin.inputs) else "")
        return self._as_float.get(name, name)

    def _constant(self, name: str, real: str) -> str:
        """A constant as float32: the float graph's, where it has the shape, else what the integers stand for."""
        float_name, integers, quant = f"{name}/float", self._graph.consts[name], self._graph.values[name].quant
        array = self._reals.get(real)
        if array is None or array.shape != integers.shape or array.dtype != np.float32:
            if quant is None:
                return name  # indices and the like
            array = quant.dequantize(integers)
        self._values[float_name] = Value(float_name, array.shape, "f32", None, self._graph.values[name].loc)
        self._consts[float_name] = read_only(array)
        return float_name

    def _dequantize(self, name: str, node: Node) -> Node:
        float_name, value = f"{name}/float", self._graph.values[name]
        self._values[float_name] = Value(float_name, value.shape, "f32", None, value.loc)
        self._as_float[name] = float_name
        return node_of(Dequantize(), [name], [float_name], node.origin)

    def _output(self, name: str) -> str:
        """The float32 tensor in place of an integer one: the same name, where no integers read it any more."""
        lasting = {state.after for state in self._graph.states}
        integers = name in lasting or any(reader.name not in self._names for reader in self._readers.get(name, ()))
        self._as_float[name] = f"{name}/float" if integers else name
        return self._as_float[name]
