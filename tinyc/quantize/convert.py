# SPDX-License-Identifier: Apache-2.0
"""The float graph in integers: int8 or int16 values, int8 weights, int32 biases."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, DType, Graph, Node, Quant, State, Value, read_only
from tinyc.ops import is_a
from tinyc.ops.op import Bias, Observed, Trait, Unquantized
from tinyc.quantize.assign import symmetric_weights, symmetric_wide, weights_beside
from tinyc.quantize.groups import input_rule, is_activation
from tinyc.quantize.ranges import affine
from tinyc.quantize.widths import runs_wide


def quantized(real: Array, quant: Quant, dtype: DType) -> Array:
    """clamp(round(real / scale) + zero), halves to even, computed in float64. Read-only."""
    shape = [1] * real.ndim
    if quant.axis is not None:
        shape[quant.axis] = -1
    scale = np.asarray(quant.scale).reshape(shape if quant.axis is not None else ())
    zero = np.asarray(quant.zero).reshape(shape if quant.axis is not None else ())
    steps = np.rint(real.astype(np.float64) / scale) + zero
    return read_only(np.clip(steps, *INT_RANGE[dtype]).astype(NUMPY_DTYPE[dtype]))


class _Constants:
    """Quantized constants of the new graph; one that two nodes quantize differently becomes two."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.values: dict[str, Value] = {}
        self.consts: dict[str, Array] = {}

    def keep(self, name: str) -> str:
        """The name of constant `name` as it is: indices, truth values."""
        self.values[name], self.consts[name] = self._graph.values[name], self._graph.consts[name]
        return name

    def add(self, name: str, quant: Quant, dtype: DType) -> str:
        """The name of constant `name` in the given quantization."""
        value = replace(self._graph.values[name], dtype=dtype, quant=quant)
        candidate, n = name, 1
        while candidate in self.values and replace(self.values[candidate], name=name) != value:
            n += 1
            candidate = f"{name}#q{n}"
        self.values[candidate] = replace(value, name=candidate)
        self.consts[candidate] = quantized(self._graph.consts[name], quant, dtype)
        return candidate


def to_integers(graph: Graph, quants: Mapping[str, Quant], wide: Collection[str] = ()) -> Graph:
    """The integer graph: computed values are in `quants`, int16 those in `wide` and int8 the others; constants follow
    their operators' rules."""
    constants = _Constants(graph)
    nodes = tuple(_node(graph, node, quants, constants, wide) for node in graph.nodes)
    values: dict[str, Value] = {}
    for name, value in graph.values.items():
        if is_activation(graph, name):
            values[name] = replace(value, dtype="s16" if name in wide else "s8", quant=quants[name])
        elif name not in graph.consts:
            values[name] = value
    states = tuple(_begun(graph, state, values[state.name]) for state in graph.states)
    return replace(graph, nodes=nodes, values=values | constants.values, consts=constants.consts, states=states)


def _begun(graph: Graph, state: State, value: Value) -> State:
    """The state that begins with the integers nearest to what it begins with."""
    if value.quant is None:
        return state
    return replace(state, initial=quantized(graph.initial(state), value.quant, value.dtype).tobytes())


def _node(graph: Graph, node: Node, quants: Mapping[str, Quant], constants: _Constants, wide: Collection[str]) -> Node:
    inputs = list(node.inputs)
    w_quant: Quant | None = None
    for index, name in enumerate(node.inputs):
        if not name or name not in graph.consts:
            continue
        rule = input_rule(node, index)
        if isinstance(rule, Observed) and rule.axis is not None:
            w_quant = _weights(graph, node, name, rule, _x_scale(node, quants))
            inputs[index] = constants.add(name, w_quant, "s8")
        elif isinstance(rule, Bias):
            if w_quant is None:
                raise TinycError("the weights are no constant", node.where)
            scale = tuple(_x_scale(node, quants) * s for s in w_quant.scale)
            inputs[index] = constants.add(name, Quant(scale, w_quant.zero, 0), "s32")
        elif isinstance(rule, Unquantized) or (name not in quants and graph.values[name].dtype != "f32"):
            inputs[index] = constants.keep(name)  # numbers of classes are picked from as they are, too
        elif name in quants:
            inputs[index] = constants.add(name, quants[name], "s16" if name in wide else "s8")
        else:
            lo, hi = float(graph.consts[name].min()), float(graph.consts[name].max())
            is_wide = runs_wide(graph, node, wide)
            quant = symmetric_wide(lo, hi) if is_wide else affine(lo, hi)
            inputs[index] = constants.add(name, quant, "s16" if is_wide else "s8")
    attrs = node.attrs
    if is_a(node, Trait.SAYS_WIDTH) and is_activation(graph, node.outputs[0]):
        attrs = replace(attrs, dtype="s16" if node.outputs[0] in wide else "s8")
    return replace(node, inputs=tuple(inputs), attrs=attrs)


def _weights(graph: Graph, node: Node, name: str, rule: Observed, x_scale: float) -> Quant:
    assert rule.axis is not None
    if rule.beside is not None:
        return weights_beside(graph.consts[name], graph.consts[node.inputs[rule.beside]], rule.axis)
    return symmetric_weights(graph.consts[name], rule.axis, _bias(graph, node), x_scale)


def _bias(graph: Graph, node: Node) -> Array | None:
    for index, name in enumerate(node.inputs):
        if name and isinstance(input_rule(node, index), Bias):
            return graph.consts.get(name)
    return None


def _x_scale(node: Node, quants: Mapping[str, Quant]) -> float:
    return quants[node.inputs[0]].per_tensor[0]
