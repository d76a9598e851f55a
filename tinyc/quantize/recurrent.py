# SPDX-License-Identifier: Apache-2.0
"""Recurrent layers with weights of 4 bits: integers that bring the sums over input and hidden state closest to the
float layer's, learned as rounding.py says, from the inputs and hidden states of the float layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base import exact
from tinyc.ir.graph import Array, Graph, Node, Quant, read_only
from tinyc.ops import op_of
from tinyc.quantize.calibration import spread
from tinyc.quantize.layerwise import DTYPES, LEVELS, own_name
from tinyc.quantize.rounding import Doubles, Moments, learn
from tinyc.quantize.simulate import Batch

_W, _B, _R = 1, 2, 3  # inputs of the node: as `recurrent` and `recurrent_kept` have them
_STATES = (5, 6)
_SAMPLES = 96  # that are learned from, at most
_LEAST = 2.0**-14  # of the largest scale: accumulators of all rows are scaled alike


def narrowed(graph: Graph, integer: Graph, inputs: Mapping[str, Array], nodes: Sequence[Node]) -> Graph:
    """The integer graph of a float graph with int4 weights in some of its recurrent layers: nodes, at least one.

    inputs: calibration samples. Nodes correspond by name.
    """
    needed = {name for node in nodes for name in node.inputs if name and name not in graph.consts}
    some = spread(min(len(array) for array in inputs.values()), _SAMPLES)
    values = Batch(graph).run({name: array[some] for name, array in inputs.items()}, needed)
    for node in nodes:
        integer = _with_weights(graph, integer, node, values)
    return integer


def _with_weights(graph: Graph, integer: Graph, node: Node, tensors: Mapping[str, Array]) -> Graph:
    w, r = (graph.consts[node.inputs[k]].astype(np.float64) for k in (_W, _R))
    ratio = _ratio(w, r)
    rows = np.concatenate([w * ratio, r], axis=1)
    x = tensors[node.inputs[0]].reshape(-1, w.shape[1]).astype(np.float64) / ratio
    h = exact.gram(*[np.concatenate([x, _before(graph, node, tensors)], axis=1)] * 2) / len(x)
    q, scale = np.empty_like(rows), np.empty(len(rows))
    apart = h.copy()  # of rows whose sums over input and state a gate weighs one by one
    apart[: w.shape[1], w.shape[1] :] = apart[w.shape[1] :, : w.shape[1]] = 0
    candidates = np.arange(len(rows)) % 3 == 2 if node.attrs.cell == "gru" else np.zeros(len(rows), np.bool_)
    for some, form in ((~candidates, h), (candidates, apart)):
        if some.any():
            q[some], scale[some] = _learned(rows[some], form)
    scale = np.maximum(scale, max(float(scale.max()) * _LEAST, 2.0**-60)).astype(np.float32).astype(np.float64)
    scales, zero = {_W: (scale / ratio).astype(np.float32), _R: scale.astype(np.float32)}, (0,) * len(rows)
    new = next(other for other in integer.nodes if other.name == node.name)
    names = {k: own_name(integer, new, new.inputs[k]) for k in (_W, _B, _R) if new.inputs[k]}
    values, consts = dict(integer.values), dict(integer.consts)
    for k, part in ((_W, q[:, : w.shape[1]]), (_R, q[:, w.shape[1] :])):
        quant = Quant(tuple(float(s) for s in scales[k]), zero, 0)
        values[names[k]] = replace(integer.values[new.inputs[k]], name=names[k], dtype=DTYPES[4], quant=quant)
        consts[names[k]] = read_only(part.astype(np.int8))
    if _B in names:
        x_quant = integer.values[new.inputs[0]].quant
        assert x_quant is not None  # a computed value of an integer graph has one
        unit = x_quant.per_tensor[0] * scales[_W].astype(np.float64)
        bias = np.clip(np.rint(graph.consts[node.inputs[_B]] / unit), -(2**30), 2**30)
        quant = Quant(tuple(float(s) for s in unit), zero, 0)
        values[names[_B]] = replace(integer.values[new.inputs[_B]], name=names[_B], quant=quant)
        consts[names[_B]] = read_only(bias.astype(np.int32))
    changed = replace(new, inputs=tuple(names.get(k, name) for k, name in enumerate(new.inputs)))
    nodes = tuple(changed if other.name == node.name else other for other in integer.nodes)
    return replace(integer, nodes=nodes, values=values, consts=consts)


def _ratio(w: Doubles, r: Doubles) -> float:
    """Of the steps of r to those of w, as `assign.weights_beside` has it."""
    largest, theirs = (np.abs(part).max(axis=1) for part in (r, w))
    both = (largest > 0) & (theirs > 0)
    logs = exact.log(largest[both] / theirs[both])
    return float(exact.exp(logs.mean())) if both.any() else 1.0


def _before(graph: Graph, node: Node, values: Mapping[str, Array]) -> Doubles:
    """The hidden state that each step of each sample finds, [samples * steps, U]."""
    attrs = replace(node.attrs, sequence=True)
    x = values[node.inputs[0]]
    units = graph.consts[node.inputs[_R]].shape[1]
    rows = []
    for k in range(len(x)):
        given = [
            graph.consts.get(name, values[name][k] if name in values else None) if name else None
            for name in node.inputs
        ]
        y = op_of(node).float_ref(attrs, *given)[0].astype(np.float64)
        state = given[_STATES[0]] if len(given) > _STATES[0] else None
        first = np.zeros((1, units)) if state is None else state.reshape(1, units).astype(np.float64)
        rows.append(np.concatenate([y[1:], first]) if attrs.reverse else np.concatenate([first, y[:-1]]))
    return np.concatenate(rows)


def _learned(rows: Doubles, h: Doubles) -> tuple[Doubles, Doubles]:
    """Integers [rows, K] and scales [rows] of 4 bits, of sums whose errors are a form h [K, K]."""
    zero = np.zeros((1, len(h)))
    rounded = learn(rows[None], np.zeros((1, len(rows))), Moments(h[None], h[None], zero, zero), LEVELS[4])
    return rounded.q[0], np.abs(rounded.scale[0])
