# SPDX-License-Identifier: Apache-2.0
"""Bias correction: the mean error that rounding leaves in a layer's outputs goes into its bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.ir.graph import Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import Act
from tinyc.ops import op_of
from tinyc.passes.weights import has_weights, out_axis
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.simulate import Batch


def with_biases(graph: Graph) -> Graph:
    """The float graph in which every layer with weights has a bias; it costs nothing once quantized."""
    values, consts, nodes = dict(graph.values), dict(graph.consts), []
    for node in graph.nodes:
        if has_weights(node) and not any(node.inputs[2:]) and node.inputs[1] in graph.consts:
            w = graph.values[node.inputs[1]]
            name = f"{node.name}:bias"
            while name in values:
                name += "#"
            values[name] = Value(name, (w.shape[out_axis(node)],), "f32", None, w.loc)
            consts[name] = read_only(np.zeros(values[name].shape, np.float32))
            nodes.append(replace(node, inputs=(*node.inputs[:2], name)))
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), values=values, consts=consts)


def correct_biases(
    graph: Graph, integer: Graph, means: Mapping[str, npt.NDArray[np.float64]], calibration: Calibration
) -> Graph:
    """`integer` with biases that make the mean of every layer's sums that of the float `graph`.

    Layer by layer, each with the corrected layers before it. A sum is linear in its input, so the mean
    inputs say it all: means[x] in float, and what the integer graph gives, both over the samples
    `calibration.few`. Nodes of the two graphs correspond by name.
    """
    batch = Batch(integer)
    values = batch.start({name: array[calibration.few] for name, array in calibration.inputs.items()})
    floats = {node.name: node for node in graph.nodes}
    consts = dict(integer.consts)
    last = {name: index for index, node in enumerate(integer.nodes) for name in node.inputs}
    for index, node in enumerate(integer.nodes):
        if has_weights(node) and node.name in floats and len(node.inputs) > 2 and node.inputs[2]:
            mean = values[node.inputs[0]].mean(axis=0, dtype=np.float64)
            shift = _float_sums(graph, floats[node.name], means) - _int_sums(integer, node, mean)
            name, quant = node.inputs[2], _quant(integer, node.inputs[2])
            bias = consts[name].astype(np.int64) + np.rint(shift / np.array(quant.scale)).astype(np.int64)
            consts[name] = read_only(np.clip(bias, -(2**30), 2**30).astype(np.int32))
            batch.consts[name] = np.asarray(quant.dequantize(consts[name]), np.float32)
        values |= batch.step(node, values)
        for name in node.inputs:
            if last[name] == index:
                values.pop(name, None)
    return replace(integer, consts=consts)


def _float_sums(graph: Graph, node: Node, means: Mapping[str, npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """Mean sum of each output channel in the float graph."""
    w, b = graph.consts[node.inputs[1]], graph.consts[node.inputs[2]]
    return _sums(node, means[node.inputs[0]], w, b)


def _int_sums(graph: Graph, node: Node, mean: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Mean sum of each output channel in the integer graph, as reals."""
    w, b = (_quant(graph, name).dequantize(graph.consts[name]) for name in node.inputs[1:3])
    return _sums(node, mean, w, b)


def _sums(node: Node, x: npt.NDArray[np.float64], w: Array, b: Array) -> npt.NDArray[np.float64]:
    linear = replace(node.attrs, act=Act())
    (y,) = op_of(node).float_ref(linear, x.astype(np.float32), w, b)
    return np.asarray(y.reshape(-1, y.shape[-1]).mean(axis=0, dtype=np.float64))


def _quant(graph: Graph, name: str) -> Quant:
    quant = graph.values[name].quant
    assert quant is not None  # every constant of an integer layer has one
    return quant
