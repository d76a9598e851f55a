# SPDX-License-Identifier: Apache-2.0
"""Drops channels that are constant or that nobody reads; no output bit changes.

Trained int8 models have channels whose weights all round to zero, or whose activation clamps to one
value. Such a channel is a constant: what it adds to later layers goes into their biases, and the
channel, with every weight that made or read it, goes away. Three steps:

1. ranges: the least and greatest integer of every channel, forward, from weights and clamps (exact
   interval arithmetic, so least == greatest proves a constant);
2. liveness: which channels are needed, backward from the model's outputs, until nothing changes. A
   layer that mixes channels needs those with a weight that is not zero, unless the channel is a
   constant that the bias can take. Beside padding that is so only if the constant equals the zero
   point, because padded positions hold the zero point and not the constant;
3. rewriting: weights, biases, scales and shapes without the channels that are not live.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tinyc.base.dataclass import dataclass
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import INT_RANGE, Array, Graph, Node, Quant, Value, read_only
from tinyc.kernel.site import Site
from tinyc.ops import is_a, op_of
from tinyc.ops.concat import Concat
from tinyc.ops.op import Trait
from tinyc.ops.reshape import Reshape
from tinyc.passes.constants import constant_for, is_stored
from tinyc.passes.rewrite import Rewrite, View, rewrite, rule
from tinyc.passes.weights import has_weights, weights_of


def compute_constants(graph: Graph, numerics: Numerics) -> Graph:
    """The same integer function, with what it computes of constants alone as constants."""

    @rule()
    def constant_node(view: View, node: Node) -> Rewrite | None:
        given = [name for name in node.inputs if name]
        integers = all(view.value(name).quant is not None for name in given)
        if not integers or not given or not all(view.is_const(name) for name in given):
            return None
        if len(node.outputs) != 1 or is_stored(view, node):
            return None
        alone = Graph(
            "known",
            (),
            node.outputs,
            (node,),
            {name: view.value(name) for name in (*given, *node.outputs)},
            {name: view.const(name) for name in given},
        )
        op = op_of(node)
        params = op.prepare(Site(alone, node, numerics))
        (array,) = op.int_ref(params, *(view.const(name) if name else None for name in node.inputs))
        return constant_for(view, node, array, "known")

    return rewrite(graph, (constant_node,))


Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def drop_dead_channels(graph: Graph, numerics: Numerics) -> Graph:
    """The same integer function with fewer channels. Float graphs come back unchanged.

    `numerics` decides how accumulators round, hence which channels are constant. Every value keeps at
    least one channel; inputs, outputs and states of the model keep all.
    """
    graph = compute_constants(graph, numerics)
    if any(graph.values[name].dtype != "s8" for name in graph.sources):
        return graph
    ranges = _Ranges(graph, numerics).find()
    live = _Liveness(graph, numerics, ranges).find()
    if all(mask.all() for mask in live.values()):
        return graph
    return _Shrink(graph, numerics, ranges, live).graph()


@dataclass(frozen=True, slots=True)
class Range:
    """Least and greatest integer per channel (last axis), int64 [C]."""

    lo: Ints
    hi: Ints

    @property
    def constant(self) -> Bools:
        return self.lo == self.hi


def _is_activation(graph: Graph, name: str) -> bool:
    return bool(name) and name not in graph.consts


def _padded(node: Node) -> bool:
    pad = getattr(node.attrs, "pad", None)
    return pad is not None and any(pad)


def _mixes(graph: Graph, node: Node) -> bool:
    """conv2d with one group, or fully_connected on its input's own last axis or a flattened image."""
    if not has_weights(node) or not _s8(graph, node) or _is_activation(graph, node.inputs[1]):
        return False
    whole = weights_of(node).groups(node.attrs, graph.values[node.inputs[0]].channels) == 1
    return whole and channel_map(graph, node, node.inputs[0]) is None


def _s8(graph: Graph, node: Node) -> bool:
    names = [name for name in (node.inputs[0], *node.outputs) if name]
    return all(graph.values[name].dtype == "s8" for name in names)


def channel_map(graph: Graph, node: Node, name: str) -> Ints | None:
    """[C of the output]: which channel of input `name` each output channel is made from; None if not channelwise."""
    x, y = graph.values[name], graph.values[node.outputs[0]]
    if len(node.outputs) != 1 or not _s8(graph, node):
        return None
    channels = op_of(node).channels
    return None if channels is None else channels(node.attrs, x, y)


def _mapped(graph: Graph, node: Node, name: str) -> Ints:
    """`channel_map` where it is known to exist."""
    source = channel_map(graph, node, name)
    assert source is not None
    return source


def _channelwise(graph: Graph, node: Node) -> bool:
    """Whether every activation input of the node maps channel to channel."""
    inputs = [name for name in node.inputs if _is_activation(graph, name)]
    if not inputs or any(channel_map(graph, node, name) is None for name in inputs):
        return False
    y = graph.values[node.outputs[0]]
    consts = [graph.values[name] for name in node.inputs if name in graph.consts]
    return all(c.channels in (1, y.channels) for c in consts)


class _Ranges:
    """Step 1, forward over the nodes."""

    def __init__(self, graph: Graph, numerics: Numerics) -> None:
        self._graph = graph
        self._numerics = numerics
        self._by_name: dict[str, Range] = {}

    def find(self) -> dict[str, Range]:
        """The range of every s8 activation."""
        for name in self._graph.sources:
            self._by_name[name] = self._full(self._graph.values[name])
        for node in self._graph.nodes:
            for name in node.outputs:
                self._by_name[name] = self._full(self._graph.values[name])
            if _s8(self._graph, node):
                self._by_name[node.outputs[0]] = self._of(node)
        return self._by_name

    def _full(self, value: Value) -> Range:
        lo, hi = INT_RANGE.get(value.dtype, INT_RANGE["s32"])
        return Range(np.full(value.channels, lo, np.int64), np.full(value.channels, hi, np.int64))

    def _of(self, node: Node) -> Range:
        if _mixes(self._graph, node) or (has_weights(node) and _channelwise(self._graph, node)):
            return self._weighted(node)
        if is_a(node, Trait.MONOTONE) and _channelwise(self._graph, node):
            return self._monotone(node)
        return self._full(self._graph.values[node.outputs[0]])

    def _weighted(self, node: Node) -> Range:
        """Bounds of the accumulator, through requantization and clamp, which never fall when it rises."""
        p = op_of(node).prepare(Site(self._graph, node, self._numerics))
        x = self._by_name[node.inputs[0]]
        lo, hi = x.lo - p.x_zero, x.hi - p.x_zero
        if _padded(node):
            lo, hi = np.minimum(lo, 0), np.maximum(hi, 0)
        taps = _taps(self._graph, node)  # [O, taps, I]
        if not _mixes(self._graph, node):
            source = _mapped(self._graph, node, node.inputs[0])
            lo, hi = lo[source][:, None, None], hi[source][:, None, None]
        bias = p.bias.astype(np.int64) + p.x_zero * taps.sum(axis=(1, 2))
        up, down = np.maximum(taps, 0), np.minimum(taps, 0)
        least = bias + (up * lo + down * hi).sum(axis=(1, 2))
        greatest = bias + (up * hi + down * lo).sum(axis=(1, 2))
        return Range(p.finish(least).astype(np.int64), p.finish(greatest).astype(np.int64))

    def _monotone(self, node: Node) -> Range:
        """The operator itself on inputs that hold the least, then the greatest integer of each channel."""
        op = op_of(node)
        p = op.prepare(Site(self._graph, node, self._numerics))

        def image(name: str, least: bool) -> Array | None:
            if not _is_activation(self._graph, name):
                return self._graph.consts.get(name)
            interval = self._by_name[name]
            level = interval.lo if least else interval.hi
            shape = self._graph.values[name].shape
            return np.broadcast_to(level.astype(np.int8), shape or (1,)).reshape(shape)

        least, greatest = (op.int_ref(p, *(image(name, end) for name in node.inputs))[0] for end in (True, False))
        channels = self._graph.values[node.outputs[0]].channels
        least, greatest = (a.astype(np.int64).reshape(-1, channels) for a in (least, greatest))
        return Range(least.min(axis=0), greatest.max(axis=0))


def _taps(graph: Graph, node: Node) -> Ints:
    """Weights as [output channel, tap, input channel]; a flattened image gives a tap for each position."""
    w = graph.consts[node.inputs[1]].astype(np.int64)
    in_c, weights = graph.values[node.inputs[0]].channels, weights_of(node)
    groups = weights.groups(node.attrs, in_c)
    return weights.as_rows(w, groups).reshape(w.shape[op_of(node).out_axis], -1, in_c // groups)


def _foldable(graph: Graph, node: Node, interval: Range) -> Bools:
    """Channels of a mixing layer's input that its bias can take: constant at every position that a tap reads."""
    quant = graph.values[node.inputs[0]].quant
    assert quant is not None
    return interval.constant & ((interval.lo == quant.per_tensor[1]) | (not _padded(node)))


class _Liveness:
    """Step 2: the least set of channels that contains the model's outputs and what they need."""

    def __init__(self, graph: Graph, numerics: Numerics, ranges: Mapping[str, Range]) -> None:
        self._graph = graph
        self._ranges = ranges
        names = [name for name in graph.values if name not in graph.consts]
        self._live = {name: np.zeros(graph.values[name].channels, np.bool_) for name in names}

    def find(self) -> dict[str, Bools]:
        """By value name, [C]."""
        for name in (*self._graph.sources, *self._graph.sinks):
            self._live[name][:] = True
        count = -1
        while count != (count := sum(int(mask.sum()) for mask in self._live.values())):
            for node in reversed(self._graph.nodes):
                self._spread(node)
            for mask in self._live.values():
                mask[0] |= not mask.any()
        return self._live

    def _spread(self, node: Node) -> None:
        graph, live = self._graph, self._live
        inputs = [name for name in node.inputs if _is_activation(graph, name)]
        if _mixes(graph, node):
            name = inputs[0]
            read = (_taps(graph, node)[live[node.outputs[0]]] != 0).any(axis=(0, 1))
            live[name] |= read & ~_foldable(graph, node, self._ranges[name])
        elif isinstance(node.attrs, Concat) and node.attrs.axis in (-1, len(graph.values[node.outputs[0]].shape) - 1):
            self._tie_concat(node)
        elif _channelwise(graph, node):
            for name in inputs:
                live[name][_mapped(graph, node, name)[live[node.outputs[0]]]] = True
            for name in inputs:
                live[node.outputs[0]] |= live[name][_mapped(graph, node, name)]
        else:
            for name in (*inputs, *node.outputs):
                live[name][:] = True

    def _tie_concat(self, node: Node) -> None:
        first = 0
        if any(name in self._graph.consts for name in node.inputs):
            for name in (*node.inputs, *node.outputs):
                if name in self._live:
                    self._live[name][:] = True
            return
        for name in node.inputs:
            mask = self._live[name]
            part = self._live[node.outputs[0]][first : first + mask.size]
            part |= mask
            mask |= part
            first += mask.size


class _Shrink:
    """Step 3."""

    def __init__(
        self, graph: Graph, numerics: Numerics, ranges: Mapping[str, Range], live: Mapping[str, Bools]
    ) -> None:
        self._old = graph
        self._ranges = ranges
        self._live = live
        self._values = dict(graph.values)
        self._consts = dict(graph.consts)

    def graph(self) -> Graph:
        for name, mask in self._live.items():
            value = self._old.values[name]
            if not mask.all():
                self._values[name] = replace(value, shape=(*value.shape[:-1], int(mask.sum())))
        nodes = tuple(self._node(node) for node in self._old.nodes)
        used = {name for node in nodes for name in (*node.inputs, *node.outputs)}
        keep = used | set(self._old.sources) | set(self._old.sinks)
        return replace(
            self._old,
            nodes=nodes,
            values={name: value for name, value in self._values.items() if name in keep},
            consts={name: array for name, array in self._consts.items() if name in keep},
        )

    def _node(self, node: Node) -> Node:
        changed = [name for name in (*node.inputs, *node.outputs) if name in self._live and not self._live[name].all()]
        if not changed:
            return node
        if _mixes(self._old, node):
            return self._mixing(node)
        if isinstance(node.attrs, Reshape):
            return replace(node, attrs=Reshape(self._values[node.outputs[0]].shape))
        out = self._live[node.outputs[0]]
        inputs = tuple(self._slice(name, -1, out) if name in self._consts else name for name in node.inputs)
        return replace(node, inputs=inputs)

    def _mixing(self, node: Node) -> Node:
        x, y = node.inputs[0], node.outputs[0]
        into, out = self._live[x], self._live[y]
        weights = self._old.consts[node.inputs[1]]
        positions = weights[0].size // into.size
        columns = np.tile(into, positions)
        shape = (int(out.sum()), *weights.shape[1:-1], -1)
        live = weights.reshape(weights.shape[0], -1)[out][:, columns].reshape(shape)
        w = self._new(node.inputs[1], live, 0, out)
        return replace(node, inputs=(x, w, self._bias(node, out, into)))

    def _bias(self, node: Node, out: Bools, into: Bools) -> str:
        """The bias of the kept outputs, plus what the dropped constant inputs added to each."""
        quant = self._old.values[node.inputs[0]].quant
        assert quant is not None
        interval = self._ranges[node.inputs[0]]
        gone = np.where(into | ~interval.constant, 0, interval.lo - quant.per_tensor[1])
        added = (_taps(self._old, node) * gone).sum(axis=(1, 2))
        has_bias = len(node.inputs) > 2 and node.inputs[2] != ""
        if not has_bias and not added.any():
            return ""
        old = self._old.consts[node.inputs[2]] if has_bias else np.zeros(out.size, np.int32)
        total = (old.astype(np.int64) + added)[out].astype(np.int32)
        if has_bias:
            return self._new(node.inputs[2], total, 0, out)
        return self._add(Value(self._free(f"{node.name}/bias"), total.shape, "s32"), total)

    def _slice(self, name: str, axis: int, keep: Bools) -> str:
        """The constant without the channels that are not kept; itself where it has one for all."""
        if not name or name not in self._consts or self._old.consts[name].ndim == 0:
            return name
        array = self._old.consts[name]
        if keep.all() or array.shape[axis] != keep.size:
            return name
        return self._new(name, np.compress(keep, array, axis=axis), axis % array.ndim, keep)

    def _new(self, name: str, array: Array, axis: int, keep: Bools) -> str:
        value = self._old.values[name]
        live_value = replace(
            value, name=self._free(f"{name}/live"), shape=array.shape, quant=_part(value.quant, axis, keep)
        )
        return self._add(live_value, array)

    def _add(self, value: Value, array: Array) -> str:
        self._values[value.name] = value
        self._consts[value.name] = read_only(array)
        return value.name

    def _free(self, preferred: str) -> str:
        name, count = preferred, 1
        while name in self._values:
            count += 1
            name = f"{preferred}{count}"
        return name


def _part(quant: Quant | None, axis: int, keep: Bools) -> Quant | None:
    """The scales of the kept channels, where the quantization has one per index of that axis."""
    if quant is None or quant.axis != axis or len(quant.scale) != keep.size:
        return quant
    return replace(
        quant,
        scale=tuple(s for s, k in zip(quant.scale, keep, strict=True) if k),
        zero=tuple(z for z, k in zip(quant.zero, keep, strict=True) if k),
    )
