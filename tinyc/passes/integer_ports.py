# SPDX-License-Identifier: Apache-2.0
"""Integers at the inputs and outputs of a model whose quantization begins and ends there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Graph, Node
from tinyc.ops import is_a, op_of
from tinyc.ops.dequantize import Dequantize
from tinyc.ops.op import Trait, Unquantized
from tinyc.ops.quantize import Quantize
from tinyc.ops.recurrent import Recurrent, have_one_step
from tinyc.ops.recurrent_kept import RecurrentKept
from tinyc.ops.signals import COUNT
from tinyc.ops.tree_ensemble import TreeEnsemble
from tinyc.passes.qdq import KEEPING, join_quantization
from tinyc.passes.rewrite import without_dead
from tinyc.passes.weights import has_weights

_RECURRENT = ("LSTM", "GRU", "RNN")  # of the file


def _unquantized_constants(graph: Graph, node: Node) -> set[str]:
    """Constants that the integer operator reads as the floats that they are."""
    rules = zip(node.inputs, op_of(node).quant_in, strict=False)
    return {name for name, rule in rules if name in graph.consts and isinstance(rule, Unquantized)}


def integers_only(graph: Graph, scaled: Callable[[Graph], Graph] | None = None) -> Graph:
    """`join_quantization`, and integers at inputs and outputs; TinycError naming a node that stays in float, but for
    `float_islands`.

    An input that only a quantize reads, and an output that a dequantize makes, become integers under the same names.
    scaled: makes of the joined graph one without floats, from data that tell their ranges.
    """
    graph = join_quantization(graph)
    if scaled is not None:
        graph = scaled(graph)
    graph = without_dead(_integer_outputs(_integer_inputs_of_model(graph)))
    features = (
        _features(graph)
        | _handed_out(graph)
        | {name for node in float_islands(graph) for name in (*node.inputs, *node.outputs)}
    )
    nodes = [node for node in graph.nodes if not is_a(node, Dequantize, Quantize)]
    for node in sorted(nodes, key=lambda node: is_a(node, *KEEPING)):  # what stays in float between them says more
        names = [*(name for name in node.inputs if name not in _unquantized_constants(graph, node)), *node.outputs]
        floats = [name for name in names if name and graph.values[name].dtype == "f32"]
        if set(floats) - features:
            raise TinycError(
                f"{node.op} stays in float: '{floats[0]}' is not quantized",
                node.where,
                "every operator needs a DequantizeLinear before each input and a QuantizeLinear behind its output; "
                "quantize the whole model, give --calibration for the scales that are missing, or give the float model "
                "and let tinyc quantize it",
            )
    return graph


def _handed_out(graph: Graph) -> set[str]:
    """Float constants that are outputs, and what a step copies them to: nothing is computed with them."""
    moves = [node for node in graph.nodes if is_a(node, Trait.MOVES) and set(node.outputs) <= set(graph.outputs)]
    return {name for node in moves if graph.consts.keys() >= {*node.inputs} for name in (*node.inputs, *node.outputs)}


def float_islands(graph: Graph) -> list[Node]:
    """Operators that the file computes in float between a dequantize, or an input of the model, and a quantize, or an
    output: as ONNX Runtime leaves LSTM, GRU, LayerNormalization and what it has no integers for. Weighted layers are
    none, but for those that recurrent layers consist of: there the quantization is missing."""
    nodes = [node for node in graph.nodes if not is_a(node, Dequantize, Quantize, TreeEnsemble)]
    inside = [node for node in nodes if any(graph.values[name].dtype == "f32" for name in node.outputs)]
    producer, readers = graph.producer(), graph.consumers()
    while True:
        names = {node.name for node in inside}

        def is_enclosed(node: Node, names: set[str] = names) -> bool:
            is_layer = has_weights(node) and not any(loc.op in _RECURRENT for loc in node.origin)
            if is_layer or not all(graph.values[n].dtype == "f32" for n in (*node.inputs, *node.outputs) if n):
                return False
            producers = [producer.get(name) for name in node.inputs if name and name not in graph.consts]
            read = (reader for name in node.outputs for reader in readers.get(name, ()))
            begins = all(n is None or n.name in names or is_a(n, Dequantize) for n in producers)
            return begins and all(n.name in names or is_a(n, Quantize) for n in read)

        enclosed = [node for node in inside if is_enclosed(node)]
        if len(enclosed) == len(inside):
            return enclosed
        inside = enclosed


def rounded_loops(graph: Graph) -> list[Node]:
    """LSTM and GRU layers in integers that round weights of the file once more."""
    layers = []
    for node in graph.nodes:
        if is_a(node, Recurrent, RecurrentKept):
            w, r = (graph.values[node.inputs[index]].quant for index in (1, 3))
            layers += [node] if w is not None and r is not None and not have_one_step(w, r) else []
    return layers


def has_scales(graph: Graph) -> bool:
    """Whether there are integers that stand for reals: those of a quantized model, or of decision trees, whatever their
    scale is."""
    if any(isinstance(node.attrs, TreeEnsemble) for node in graph.nodes):
        return True
    return any(value.quant not in (None, COUNT) for value in graph.values.values())


def trees_among_floats(graph: Graph) -> bool:
    """Whether nothing but decision trees has integers with a scale, and other operators compute with floats: such a
    graph runs in float32, its trees in integers."""
    graph = without_dead(graph)  # thresholds have been taken back through scalers, which nothing reads then
    if not any(isinstance(node.attrs, TreeEnsemble) for node in graph.nodes):
        return False
    said = _said_by_trees(graph)
    if any(is_a(node, Quantize, Dequantize) and node.inputs[0] not in said for node in graph.nodes):
        return False
    features = _features(graph)
    return any(graph.values[name].dtype == "f32" and name not in features for name in graph.values)


def _said_by_trees(graph: Graph) -> set[str]:
    """Integers with a scale that trees make, as they are, moved or narrowed."""
    names: set[str] = set()
    for node in graph.nodes:
        if isinstance(node.attrs, TreeEnsemble) or not names.isdisjoint(node.inputs):
            names.update(name for name in node.outputs if graph.values[name].quant is not None)
    return names


def _features(graph: Graph) -> set[str]:
    """Floats that nothing reads but trees, as they are or moved."""
    names: set[str] = set()
    readers = graph.consumers()
    for name in reversed([*graph.inputs, *(name for node in graph.nodes for name in node.outputs)]):
        if graph.values[name].dtype == "f32" and name in readers:
            taken = (
                isinstance(node.attrs, TreeEnsemble) or (is_a(node, Trait.MOVES) and names.issuperset(node.outputs))
                for node in readers[name]
            )
            names |= {name} if all(taken) else set()
    return names


def _integer_inputs_of_model(graph: Graph) -> Graph:
    consumers = graph.consumers()
    for name in graph.inputs:
        readers = consumers.get(name, ())
        quantized = {graph.values[node.outputs[0]] for node in readers if isinstance(node.attrs, Quantize)}
        kinds = {(value.dtype, value.quant) for value in quantized}
        if name in graph.outputs or len(kinds) != 1 or any(not isinstance(node.attrs, Quantize) for node in readers):
            continue
        if any(value.name in graph.outputs for value in quantized):
            continue
        (dtype, quant) = kinds.pop()
        same = {value.name: name for value in quantized}
        others = tuple(node for node in graph.nodes if node not in readers)
        nodes = tuple(replace(node, inputs=tuple(same.get(n, n) for n in node.inputs)) for node in others)
        values = {n: value for n, value in graph.values.items() if n not in same}
        values[name] = replace(values[name], dtype=dtype, quant=quant)
        graph = replace(graph, nodes=nodes, values=values)
    return graph


def _integer_outputs(graph: Graph) -> Graph:
    producer = graph.producer()
    for name in graph.outputs:
        last = producer.get(name)
        if last is None or not isinstance(last.attrs, Dequantize):
            continue
        source = last.inputs[0]
        readers = graph.consumers()[source]
        if source in graph.outputs or source in graph.inputs or source in graph.consts or readers != (last,):
            continue
        nodes = tuple(_renamed(node, source, name) for node in graph.nodes if node is not last)
        values = {n: value for n, value in graph.values.items() if n != source}
        held = graph.values[source]
        values[name] = replace(held, name=name, loc=graph.values[name].loc)
        graph = replace(graph, nodes=nodes, values=values)
        producer = graph.producer()
    return graph


def _renamed(node: Node, old: str, new: str) -> Node:
    return replace(
        node,
        name=new if node.name == old else node.name,
        inputs=tuple(new if n == old else n for n in node.inputs),
        outputs=tuple(new if n == old else n for n in node.outputs),
    )
