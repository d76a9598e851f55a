# SPDX-License-Identifier: Apache-2.0
"""An integer graph with the outputs that softmax, sigmoid and tanh have in files."""

from __future__ import annotations

from dataclasses import replace

from tinyc.ir.graph import Graph, Quant
from tinyc.ops import op_of
from tinyc.ops.op import Fixed, SameAs


def as_in_files(graph: Graph) -> Graph:
    """The graph with scales of 1/256 where tinyc gives an output of the model 1/255 (`Fixed.at_output`).

    The operators of TensorFlow Lite have no other, and ONNX Runtime's fused softmax computes with 1/256 whatever the
    file says. Nothing computes with such values, so no other integer changes.
    """
    values = dict(graph.values)
    before: dict[str, Quant] = {}  # of values that change
    for node in graph.nodes:
        for name, rule in zip(node.outputs, op_of(node).quant_out, strict=False):
            quant = values[name].quant
            if isinstance(rule, Fixed) and rule.at_output is not None and quant == Quant(*_one(rule.at_output)):
                before[name] = Quant(*_one((rule.scale, rule.zero)))
            elif isinstance(rule, SameAs) and node.inputs[rule.index] in before:
                before[name] = before[node.inputs[rule.index]]
    values.update({name: replace(values[name], quant=quant) for name, quant in before.items()})
    return replace(graph, values=values)


def _one(quant: tuple[float, int]) -> tuple[tuple[float], tuple[int]]:
    return (quant[0],), (quant[1],)
