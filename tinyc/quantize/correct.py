# SPDX-License-Identifier: Apache-2.0
"""Bias correction: the mean error that rounding leaves in a layer's outputs goes into its bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_array
from tinyc.ir.graph import INT_RANGE, NUMPY_DTYPE, Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import Act, Site
from tinyc.ops import op_of
from tinyc.passes.weights import has_weights, out_axis
from tinyc.quantize.calibration import Calibration


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
    run = _Samples(integer, calibration)
    floats = {node.name: node for node in graph.nodes}
    consts = dict(integer.consts)
    for node in integer.nodes:
        if has_weights(node) and node.name in floats and len(node.inputs) > 2 and node.inputs[2]:
            shift = _float_sums(graph, floats[node.name], means) - _int_sums(integer, node, run.mean(node.inputs[0]))
            scale = np.array(_quant(integer, node.inputs[2]).scale)
            bias = consts[node.inputs[2]].astype(np.int64) + np.rint(shift / scale).astype(np.int64)
            consts[node.inputs[2]] = read_only(np.clip(bias, -(2**30), 2**30).astype(np.int32))
        run.step(node, consts)
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


class _Samples:
    """Runs the integer graph node by node, all samples at each node."""

    def __init__(self, graph: Graph, calibration: Calibration) -> None:
        self._graph = graph
        self._known = [self._quantized(calibration.sample(index)) for index in calibration.few]

    def _quantized(self, sample: Mapping[str, Array]) -> dict[str, Array]:
        consts: dict[str, Array] = {}
        for name, array in sample.items():
            value = self._graph.values[name]
            if value.quant is None:  # integers that stand for themselves
                consts[name] = array
                continue
            integers = quantize_array(array, *_quant(self._graph, name).per_tensor, *INT_RANGE[value.dtype])
            consts[name] = integers.astype(NUMPY_DTYPE[value.dtype])
        return consts

    def mean(self, name: str) -> npt.NDArray[np.float64]:
        """The mean of a value over the samples, as reals, in its shape."""
        quant = _quant(self._graph, name)
        return np.asarray(np.mean([quant.dequantize(known[name]) for known in self._known], axis=0, dtype=np.float64))

    def step(self, node: Node, consts: Mapping[str, Array]) -> None:
        """Compute the outputs of `node` with the given constants."""
        op = op_of(node)
        params = op.prepare(Site(replace(self._graph, consts=consts), node, Numerics.OURS))
        for known in self._known:
            inputs = [(consts[name] if name in consts else known[name]) if name else None for name in node.inputs]
            known.update(zip(node.outputs, op.int_ref(params, *inputs), strict=True))
