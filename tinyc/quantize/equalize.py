# SPDX-License-Identifier: Apache-2.0
"""Equalization: channels of one value get similar ranges, so that one scale per tensor serves them all.

A channel of a layer's output may be divided by s if the next layer's weights for it are multiplied by s:
the model computes the same. Weights have a scale per output channel, so the division costs nothing in the
first layer, nor the multiplication in a depthwise layer; elsewhere it trades the rounding error of
activations for that of weights. (Idea: Nagel et al., "Data-Free Quantization Through Weight
Equalization and Bias Correction", 2019; there for weights with one scale per tensor.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyc.base import exact
from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Node, Value, read_only
from tinyc.ops import op_of
from tinyc.passes.weights import has_weights, out_axis, per_input, per_output, sum_inputs
from tinyc.quantize.observe import Channels, Stats

_EXPONENTS = np.linspace(0, 1, 11)
_LEAST = 1e-3  # of the largest channel: a smaller channel is not blown up further


@dataclass(frozen=True, slots=True)
class Link:
    """Two layers with weights, and the values between them, which nobody else reads."""

    first: Node
    second: Node
    between: tuple[str, ...]


def equalize(graph: Graph, stats: Mapping[str, Stats]) -> tuple[Graph, dict[str, Channels]]:
    """(the same float model with equalized channels, by what each value is divided per index of its last axis).

    Links of layers are taken in run order, each once. Values not mentioned are unchanged.
    """
    values, consts = dict(graph.values), dict(graph.consts)
    nodes = {node.name: node for node in graph.nodes}
    divisors: dict[str, Channels] = {}
    for link in find_links(graph):
        first, second = nodes[link.first.name], nodes[link.second.name]
        width = graph.values[second.inputs[0]].shape[-1]
        factors = best_factors(second, consts[second.inputs[1]], stats[link.first.outputs[0]], width)
        editor = _Editor(values, consts)
        w = consts[first.inputs[1]]
        inputs = [first.inputs[0], editor.replaced(first.inputs[1], w / per_output(first, w, factors))]
        if len(first.inputs) > 2 and first.inputs[2]:
            inputs.append(editor.replaced(first.inputs[2], consts[first.inputs[2]] / factors))
        nodes[first.name] = replace(first, inputs=tuple(inputs))
        w = consts[second.inputs[1]]
        scaled = editor.replaced(second.inputs[1], w * per_input(second, w, _repeated(factors, width)))
        nodes[second.name] = replace(second, inputs=(second.inputs[0], scaled, *second.inputs[2:]))
        for name in link.between:
            divisors[name] = _repeated(factors, graph.values[name].shape[-1])
    changed = replace(graph, nodes=tuple(nodes[n.name] for n in graph.nodes), values=values, consts=consts)
    return changed, divisors


class _Editor:
    """Adds constants in place of others, which another node may still use."""

    def __init__(self, values: dict[str, Value], consts: dict[str, Array]) -> None:
        self._values, self._consts = values, consts

    def replaced(self, name: str, array: Array) -> str:
        candidate = f"{name}:equalized"
        while candidate in self._values:
            candidate += "#"
        self._values[candidate] = replace(self._values[name], name=candidate)
        self._consts[candidate] = read_only(array.astype(np.float32))
        return candidate


def find_links(graph: Graph) -> list[Link]:
    """Pairs of layers between which channels can be scaled: through relu, pools and views, no second reader."""
    consumers, links = graph.consumers(), []
    for first in graph.nodes:
        if not has_weights(first) or not _scales_freely(graph, first):
            continue
        name, between = first.outputs[0], []
        while name not in graph.sinks and len(readers := consumers.get(name, ())) == 1:
            between.append(name)
            reader = readers[0]
            if has_weights(reader):
                if reader.inputs[0] == name and reader.inputs[1] in graph.consts:
                    links.append(Link(first, reader, tuple(between)))
                break
            if not _keeps_channels(graph, reader):
                break
            name = reader.outputs[0]
    return links


def _scales_freely(graph: Graph, node: Node) -> bool:
    """Whether dividing a channel's weights divides its output: constants, and no activation but relu."""
    return node.attrs.act.scales and all(n in graph.consts for n in node.inputs[1:] if n)


def _keeps_channels(graph: Graph, node: Node) -> bool:
    """Whether the operator treats each channel by itself and in proportion, channels last as before."""
    x, y = graph.values[node.inputs[0]], graph.values[node.outputs[0]]
    op = op_of(node)
    return op.channels is not None and op.scales(node.attrs) and op.channels(node.attrs, x, y) is not None


def _repeated(channels: Channels, width: int) -> Channels:
    """One number for each of `width` places of a last axis; a view of an image may have its channels there many times,
    as a flattened one has, or one with its columns as channels."""
    return np.tile(channels, width // len(channels))


def best_factors(second: Node, w: Array, stats: Stats, width: int) -> Channels:
    """Divisors of the channels of the value that `second` (weights w) reads `width` wide, largest 1: (largest / max)^a.

    `a` in [0, 1] minimizes the expected squared error of the second layer's sums: rounding of the int8
    activations, amplified by the weights, plus rounding of the weights, amplified by the activations.
    """
    largest = np.maximum(stats.largest, _LEAST * stats.largest.max())
    if not largest.any():
        return np.ones_like(largest)
    powers = exact.log(largest / largest.max())
    candidates = [exact.exp(a * powers) for a in _EXPONENTS]
    errors = [
        _error(second, w, *(_repeated(one, width) for one in (largest / s, stats.power / s**2, s))) for s in candidates
    ]
    return candidates[int(np.argmin(errors))]


def _error(second: Node, w: Array, largest: Channels, power: Channels, factors: Channels) -> float:
    """Expected squared rounding error of all sums of `second`, for input channels divided by `factors`."""
    scaled = w * per_input(second, w, factors)
    axes = tuple(k for k in range(w.ndim) if k != out_axis(second))
    w_step = np.abs(scaled).max(axis=axes) / 127
    x_step = largest.max() / 255
    by_input = sum_inputs(second, np.square(scaled)) * x_step**2
    by_weights = sum_inputs(second, np.broadcast_to(per_input(second, w, power), w.shape)) * w_step**2
    return float((by_input + by_weights).sum())
