# SPDX-License-Identifier: Apache-2.0
"""Which quantization every value gets: the operators' rules, joined over the graph.

A rule `SameAs` ties an output (or another input) to an input; all values tied together form a group with
one quantization. A group is fixed by an operator (softmax) or takes the range that was observed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph, Node, Quant, free_name
from tinyc.ops import has, node_of
from tinyc.ops.add import Add
from tinyc.ops.choose import HIDDEN, Choose
from tinyc.ops.mul import Mul
from tinyc.ops.op import Fixed, InUnits, SameAs, Unquantized
from tinyc.ops.requantize import Requantize
from tinyc.ops.sub import Sub
from tinyc.quantize.groups import Groups, input_rule, is_activation, output_rule, ties
from tinyc.quantize.masks import BELOW, mask_ranges, zero_ranges
from tinyc.quantize.observe import Stats
from tinyc.quantize.ranges import Method, Range, affine, merged, minmax

_HEADROOM = 2.0  # of int16 ranges: clipping unseen values costs more than one bit of sixteen
_LEAST_WIDE = 2.0**-31  # scale of a tensor that is always zero


def separate_fixed(graph: Graph) -> Graph:
    """The graph with a requantize between a fixed value (a sigmoid's) and a concat that ties it to others.

    Without it, two operators would ask for different quantizations of one value.
    """
    fixed = _fixed_values(graph)
    nodes: list[Node] = []
    values = dict(graph.values)
    for node in graph.nodes:
        tied = [name for pair in ties(node) for name in pair if name in node.inputs]
        if len({fixed.get(name) for name in tied}) <= 1:
            nodes.append(node)
            continue
        inputs = list(node.inputs)
        for index, name in enumerate(node.inputs):
            if name in fixed and name in tied:
                inputs[index] = free_name(f"{name}:rescaled", values)
                values[inputs[index]] = replace(values[name], name=inputs[index])
                nodes.append(node_of(Requantize(), (name,), (inputs[index],), node.origin))
        nodes.append(replace(node, inputs=tuple(inputs)))
    return replace(graph, nodes=tuple(nodes), values=values)


def _fixed_values(graph: Graph) -> dict[str, Fixed]:
    """Values with a quantization that an operator dictates, of what it makes or takes; the former is passed on through
    operators with one input."""
    fixed: dict[str, Fixed] = {}
    for _ in range(1 + len(graph.states)):  # what a state is followed by says how it begins
        for node in graph.nodes:
            _fix(node, fixed)
        fixed.update((state.name, fixed[state.after]) for state in graph.states if state.after in fixed)
    return fixed


def _fix(node: Node, fixed: dict[str, Fixed]) -> None:
    for index, name in enumerate(node.inputs):
        rule = input_rule(node, index)
        if isinstance(rule, Fixed):
            fixed[name] = rule
    for index, name in enumerate(node.outputs):
        rule = output_rule(node, index)
        if isinstance(rule, Fixed):
            fixed[name] = rule
        elif isinstance(rule, SameAs):
            sources = {fixed.get(source) for source in node.inputs if source}
            if len(sources) == 1 and (source := sources.pop()) is not None:
                fixed[name] = source


def assign_activations(
    graph: Graph,
    stats: Mapping[str, Stats],
    method: Method,
    wide: Collection[str] = (),
    settled: Mapping[str, Quant] = MappingProxyType({}),
) -> dict[str, Quant]:
    """A quantization for every computed float value, and for constants tied to one: int8, or symmetric int16 for those
    in `wide`; per tensor, but for what has units of its own for each channel (`InUnits`). settled: of some values, what
    they get whatever was observed.

    `method` chooses ranges, but inputs are never clipped: rare large inputs carry information (clipping the
    keyword model's features by the least squared error loses 15 dB at its output). int16 takes all that was seen, and
    has a bit to spare for what was not.
    TinycError if an operator without an integer form is in the graph.
    """
    groups, fixed = Groups(graph), _fixed_values(graph)
    last, ranges = _last(graph, groups), _Ranges(graph, groups, stats, method)
    members: dict[str, list[str]] = {}
    for name in graph.values:
        members.setdefault(groups.of(name), []).append(name)
    for node in graph.nodes:
        rules = [output_rule(node, i) for i in range(len(node.outputs))]
        if any(isinstance(rule, Unquantized) and not rule.own for rule in rules):
            raise TinycError(f"{node.op} has no integer form", node.where, "build the model with --precision float32")
    quants: dict[str, Quant] = {}
    for names in members.values():
        if not any(is_activation(graph, name) for name in names):
            continue
        rule = next((fixed[name] for name in names if name in fixed), None)
        before = next((settled[name] for name in names if name in settled), None)
        if before is not None:
            quant = before
        elif any(name in wide for name in names):
            quant = _fixed_wide(rule) if rule is not None else symmetric_wide(*ranges.of(names, minmax))
        elif rule is not None:
            scale, zero = (rule.scale, rule.zero) if rule.at_output is None or not last(names) else rule.at_output
            quant = Quant((scale,), (zero,))
        else:
            quant = affine(*ranges.of(names, minmax if set(names) & set(graph.inputs) else method))
        quants.update(dict.fromkeys(names, quant))
    for node in graph.nodes:
        if isinstance(output_rule(node, 0), InUnits):
            quants[node.outputs[0]] = node.attrs.quant_of(quants[node.inputs[0]])
    return quants


def _last(graph: Graph, groups: Groups) -> Callable[[list[str]], bool]:
    """Whether values that share a quantization are outputs of the model, and nothing computes with them."""
    reads: dict[str, set[str]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            reads.setdefault(name, set()).update(groups.of(output) for output in node.outputs)
    sinks = frozenset(graph.outputs) - {state.after for state in graph.states}
    return lambda names: (
        not sinks.isdisjoint(names) and all(reads.get(name, {groups.of(name)}) == {groups.of(name)} for name in names)
    )


def _fixed_wide(rule: Fixed) -> Quant:
    """What an operator dictates, in int16: zero point 0, the same largest value (softmax: 1)."""
    return Quant((rule.scale * (128 - rule.zero) / 32768,), (0,))


def symmetric_wide(lo: float, hi: float) -> Quant:
    """int16 with zero point 0 for values in [lo, hi], and as much again beyond."""
    return Quant((float(np.float32(max(-lo, hi, 32767 * _LEAST_WIDE) * _HEADROOM / 32767)),), (0,))


def _hiding(graph: Graph) -> frozenset[str]:
    """Constants that a choose takes for minus infinity."""
    taken = {node.inputs[2] for node in graph.nodes if isinstance(node.attrs, Choose)} & graph.consts.keys()
    return frozenset(name for name in taken if graph.consts[name].min() < -HIDDEN)


class _Ranges:
    """Ranges of groups: what was observed, and what masks and values that were always zero get in its place."""

    def __init__(self, graph: Graph, groups: Groups, stats: Mapping[str, Stats], method: Method) -> None:
        self._graph, self._groups, self._stats = graph, groups, stats
        self._hides = _hiding(graph)
        makes_masks = has(graph, Add, Sub, Mul)
        self._zeros = zero_ranges(graph, stats) if makes_masks else {}
        self._masks = mask_ranges(graph, groups, stats, self._zeros, method) if makes_masks else {}

    def of(self, names: list[str], method: Method) -> Range:
        mask = self._masks.get(self._groups.of(names[0]))
        if mask is not None:
            return mask
        seen = [self._stats[name] for name in names if name in self._stats]
        hidden = self._hides.intersection(names)
        if hidden:  # minus infinity: a place so far below all others that a softmax makes nothing of it
            lo, hi = method(merged([one for one in seen if one.lo > -HIDDEN] or seen), "s8")
            lo -= BELOW
        else:
            lo, hi = method(merged(seen), "s8")
        if lo == hi == 0:
            unseen = [self._zeros[name] for name in names if name in self._zeros]
            lo, hi = min((one[0] for one in unseen), default=0.0), max((one[1] for one in unseen), default=0.0)
        for name in names:
            if name in self._graph.consts and name not in hidden:  # a constant among them has to fit as well
                lo = min(lo, float(self._graph.consts[name].min()))
                hi = max(hi, float(self._graph.consts[name].max()))
        return lo, hi


def symmetric_weights(w: Array, axis: int, bias: Array | None, x_scale: float) -> Quant:
    """One scale per index of `axis`, zero point 0: max|w| / 127.

    A channel whose weights are tiny or zero beside its bias gets a larger scale, so that the int32
    bias at scale x * w stays below 2^29.
    """
    largest = np.abs(np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1)).max(axis=1).astype(np.float64)
    scale = largest / 127
    if bias is not None:
        scale = np.maximum(scale, np.abs(bias.astype(np.float64)) / (x_scale * 2.0**29))
    scale = np.maximum(scale, max(float(scale.max()) * 2.0**-30, 2.0**-100))  # far below one step of the output
    return Quant(tuple(float(np.float32(s)) for s in scale), (0,) * len(scale), axis)


def weights_beside(w: Array, others: Array, axis: int) -> Quant:
    """As `symmetric_weights`, of weights that share accumulators with others: the scales of both have one ratio at all
    indices, that of their largest weights on average, so that neither has steps much too wide."""
    largest, theirs = (np.abs(np.moveaxis(a, axis, 0).reshape(a.shape[axis], -1)).max(axis=1) for a in (w, others))
    both = (largest > 0) & (theirs > 0)
    ratio = float(np.exp(np.log(largest[both] / theirs[both].astype(np.float64)).mean())) if both.any() else 1.0
    scale = np.maximum(largest, ratio * theirs) / 127
    scale = np.maximum(scale, max(float(scale.max()) * 2.0**-14, 2.0**-60))
    return Quant(tuple(float(np.float32(s)) for s in scale), (0,) * len(scale), axis)
