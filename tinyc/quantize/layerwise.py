# SPDX-License-Identifier: Apache-2.0
"""Layer by layer through an integer graph: every layer's weights rounded anew, for the inputs that it really gets.

A float and an integer graph run side by side on the same samples. Each layer sees the inputs that the rounded layers
before it leave, and its integers are chosen so that its sums come close to what the float layer makes (see
rounding.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, DType, Graph, Node, Quant, read_only
from tinyc.ops.op import Observed
from tinyc.passes.weights import has_weights, out_axis, weights_of, windows_of
from tinyc.quantize.assign import symmetric_weights
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.groups import input_rule
from tinyc.quantize.influence import Influence, influence
from tinyc.quantize.rounding import Moments, learn, moments
from tinyc.quantize.simulate import Batch

LEVELS: Mapping[int, tuple[int, int]] = {4: (-8, 7), 8: (-127, 127)}  # by bits; kernels like int8 without -128
DTYPES: Mapping[int, DType] = {4: "s4", 8: "s8"}
_TOWARDS_FLOAT = (
    0.5  # 1: a layer makes up for all errors before it, which fits the calibration inputs too well; 0: none
)
_LEAST_SCALE = 2.0**-100
_WEIGHTS, _STATE_WEIGHTS = 1, 3  # inputs of a recurrent layer: weights of its input and of its hidden state
_OF_LOOPS = (_WEIGHTS, _STATE_WEIGHTS)


@dataclass(frozen=True, slots=True)
class RoundedWeights:
    """A layer's integers as the operator stores them, a scale per output channel, and the bias in reals."""

    q: Array
    scale: Array
    bias: Array
    bits: int


@dataclass
class Memo:
    """What is the same whenever one pair of graphs is learned from the same samples: the influence of layers, and
    weights by the bits of their own layer (the last of the tuple) and of all layers before. felt: whether the
    influence counts; it takes longer than all the rest, and pays for narrow weights. held: values of the float graph
    for all samples, as far as they are at hand."""

    felt: bool = True
    held: Callable[[str], Array | None] = lambda name: None
    influence: Influence | None = None
    weights: dict[tuple[int, ...], RoundedWeights] = field(default_factory=dict)


def layers(graph: Graph) -> list[Node]:
    """The nodes whose weights and bias are constants, in run order."""
    return [
        node
        for node in graph.nodes
        if has_weights(node) and len(node.inputs) > 2 and all(name in graph.consts for name in node.inputs[1:])
    ]


def is_loop(graph: Graph, node: Node) -> bool:
    """Whether a node is a recurrent layer with constant weights, which it takes in 4 bits too."""
    if len(node.inputs) <= _STATE_WEIGHTS or not all(node.inputs[k] in graph.consts for k in _OF_LOOPS):
        return False
    rule = input_rule(node, _WEIGHTS)
    return isinstance(rule, Observed) and rule.beside == _STATE_WEIGHTS


def narrowable(graph: Graph) -> list[Node]:
    """The layers whose weights may have 4 bits, in run order."""
    plain = {node.name for node in layers(graph)}
    return [node for node in graph.nodes if node.name in plain or is_loop(graph, node)]


def weight_constants(graph: Graph, node: Node) -> tuple[str, ...]:
    """The constants that hold the weights of such a layer."""
    return tuple(node.inputs[k] for k in (_OF_LOOPS if is_loop(graph, node) else (_WEIGHTS,)))


def round_layers(
    graph: Graph,
    integer: Graph,
    calibration: Calibration,
    bits: Mapping[str, int],
    on_layer: Callable[[int, int], None] = lambda done, of: None,
    memo: Memo | None = None,
) -> Graph:
    """`integer` with learned weights, scales and biases; bits by node name, 8 where it is silent.

    graph: the float graph that it was made from; nodes correspond by name. on_layer(done, of) hears of progress. memo:
    what was learned with the same graphs and calibration before; without one, the influence of layers on the outputs
    counts if any weights are narrow.
    """
    memo = Memo(any(number < 8 for number in bits.values())) if memo is None else memo
    if memo.felt and memo.influence is None:
        memo.influence = influence(graph, calibration.inputs)
    widths: tuple[int, ...] = ()
    partner = {node.name: node for node in graph.nodes}
    names = {node.name for node in layers(integer)}
    floats = _Floats(graph, calibration, memo.held)
    batch = Batch(integer)
    values = batch.start(calibration.inputs)
    last = {name: index for index, node in enumerate(integer.nodes) for name in node.inputs}
    done = 0
    for index, node in enumerate(integer.nodes):
        if node.name in names:
            other = partner[node.name]
            widths = (*widths, bits.get(node.name, 8))
            if widths not in memo.weights:
                name = node.inputs[0]
                inputs = LayerInputs(values[name], floats.of(other.inputs[0]), batch.step_of(name))
                memo.weights[widths] = learned(graph, other, inputs, widths[-1], memo.influence)
            integer = with_weights(integer, node, memo.weights[widths])
            node = integer.nodes[index]  # noqa: PLW2901  its constants may have new names
            batch.adopt(integer, node)
            done += 1
            on_layer(done, len(names))
        values |= batch.step(node, values)
        _forget(values, node.inputs, last, index)
    return integer


class _Floats:
    """Values of the float graph, asked for in run order: those at hand, else computed up to there."""

    def __init__(self, graph: Graph, calibration: Calibration, held: Callable[[str], Array | None]) -> None:
        self._batch, self._held = Batch(graph), held
        self._values = self._batch.start(calibration.inputs)
        self._last = {name: index for index, node in enumerate(graph.nodes) for name in node.inputs}
        self._position = 0

    def of(self, name: str) -> Array:
        if name not in self._values and (array := self._held(name)) is not None:
            return array
        nodes = self._batch.graph.nodes
        while name not in self._values:
            node = nodes[self._position]
            self._values |= self._batch.step(node, self._values)
            read = [of for of in node.inputs if of != name]
            _forget(self._values, read, self._last, self._position)
            self._position += 1
        return self._values[name]


def _forget(values: dict[str, Array], names: Sequence[str], last: Mapping[str, int], index: int) -> None:
    for name in names:
        if last.get(name) == index:
            values.pop(name, None)


@dataclass(frozen=True, slots=True)
class LayerInputs:
    """What a layer gets of all samples, [samples, *shape] of reals: in integers times a step, x, and in float. step:
    that, and the largest of those integers."""

    x: Array
    x_float: Array
    step: tuple[float, float]


def learned(
    graph: Graph, node: Node, inputs: LayerInputs, bits: int, influences: Influence | None = None
) -> RoundedWeights:
    """The best weights of a float layer for these inputs.

    influences: what counts is the error at the outputs, too.
    """
    x, x_float = inputs.x, inputs.x_float
    w, bias = (graph.consts[name].astype(np.float64) for name in node.inputs[1:3])
    rules = weights_of(node)
    groups = rules.groups(node.attrs, x.shape[-1])
    weights = moments(windows_of(node, w), x, x_float, inputs.step)
    felt = influences.moments(node, w, x, x_float, weights) if influences is not None else None
    if felt is not None:
        weights = felt
    half = _TOWARDS_FLOAT * weights.cross + (1 - _TOWARDS_FLOAT) * weights.h
    blended = Moments(weights.h, half, weights.x_mean, weights.f_mean)
    each = len(weights.h)  # a quadratic form per group, or per channel
    rows = rules.as_rows(w, groups)
    rows = rows.reshape(each, -1, rows.shape[2])
    least = None
    if bits == 8:  # 127 levels each way leave nothing to be gained by clipping
        plain = symmetric_weights(graph.consts[node.inputs[1]], out_axis(node), None, 1.0)
        least = np.asarray(plain.scale).reshape(each, -1)
    rounded = learn(rows, bias.reshape(each, -1), blended, LEVELS[bits], fixed=least)
    q = rounded.q.reshape(groups, -1, rows.shape[2])
    return RoundedWeights(rules.from_rows(q, w.shape), rounded.scale.ravel(), rounded.bias.ravel(), bits)


def with_weights(integer: Graph, node: Node, rounded: RoundedWeights) -> Graph:
    """The integer graph in which a layer has these weights; constants that others use as well are copied."""
    x_quant = integer.values[node.inputs[0]].quant
    assert x_quant is not None  # computed values of an integer graph have one
    x_scale = x_quant.per_tensor[0]
    # A tiny scale would let the int32 bias overflow: as in assign.symmetric_weights.
    scale = np.maximum(np.abs(rounded.scale), np.abs(rounded.bias) / (x_scale * 2.0**29))
    q = rounded.q
    if not np.array_equal(scale, np.abs(rounded.scale)):
        along = [1] * q.ndim
        along[out_axis(node)] = -1
        q = np.rint(q * (rounded.scale / np.maximum(scale, _LEAST_SCALE)).reshape(along))
    least = max(float(scale.max()) * 2.0**-30, _LEAST_SCALE)
    scale = np.maximum(scale, least).astype(np.float32).astype(np.float64)
    zero = (0,) * len(scale)
    b_scale = x_scale * scale
    bias = np.clip(np.rint(rounded.bias / b_scale), -(2**30), 2**30)
    values, consts = dict(integer.values), dict(integer.consts)
    w_name, b_name = (own_name(integer, node, name) for name in node.inputs[1:3])
    w_value, b_value = integer.values[node.inputs[1]], integer.values[node.inputs[2]]
    w_quant = Quant(tuple(float(s) for s in scale), zero, out_axis(node))
    values[w_name] = replace(w_value, name=w_name, dtype=DTYPES[rounded.bits], quant=w_quant)
    values[b_name] = replace(b_value, name=b_name, quant=Quant(tuple(float(s) for s in b_scale), zero, 0))
    consts[w_name], consts[b_name] = read_only(q.astype(np.int8)), read_only(bias.astype(np.int32))
    changed = replace(node, inputs=(node.inputs[0], w_name, b_name))
    nodes = tuple(changed if other.name == node.name else other for other in integer.nodes)
    return replace(integer, nodes=nodes, values=values, consts=consts)


def own_name(graph: Graph, node: Node, name: str) -> str:
    """The constant's name, or a new one if another node reads it too."""
    if sum(other.inputs.count(name) for other in graph.nodes) == 1:
        return name
    candidate = f"{name}@{node.name}"
    while candidate in graph.values:
        candidate += "#"
    return candidate
