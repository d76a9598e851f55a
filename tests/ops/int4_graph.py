"""Any int8 graph with its weights rounded to int4: what tests and measurements of int4 kernels run models with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.ops.weighted import OUT_AXIS
from tinyc.ir.graph import Graph, Node, Quant, read_only


def as_int4(graph: Graph) -> Graph:
    """The graph with int4 weights wherever an operator takes them: per channel the largest weight becomes 7. Its
    accuracy is that of rounding to nearest, which is poor."""
    for node in graph.nodes:
        if node.op in OUT_AXIS and graph.values[node.inputs[1]].dtype == "s8" and node.inputs[1] in graph.consts:
            graph = _with_int4_weights(graph, node)
    return graph


def _with_int4_weights(graph: Graph, node: Node) -> Graph:
    axis, name = OUT_AXIS[node.op], node.inputs[1]
    w, value = graph.consts[name].astype(np.float64), graph.values[name]
    out_c = w.shape[axis]
    rest = tuple(i for i in range(w.ndim) if i != axis)
    factor = np.maximum(np.abs(w).max(axis=rest), 1) / 7
    along = [-1 if i == axis else 1 for i in range(w.ndim)]
    scales = np.float32(np.broadcast_to(value.quant.scale, out_c) * factor)
    quant = Quant(tuple(map(float, scales)), (0,) * out_c, axis)
    values = {**graph.values, name: replace(value, dtype="s4", quant=quant)}
    consts = {**graph.consts, name: read_only(np.clip(np.rint(w / factor.reshape(along)), -7, 7).astype(np.int8))}
    if len(node.inputs) > 2 and node.inputs[2]:
        bias = node.inputs[2]
        consts[bias] = read_only(np.rint(graph.consts[bias] / factor).astype(np.int32))
    return replace(graph, values=values, consts=consts)
