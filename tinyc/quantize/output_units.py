# SPDX-License-Identifier: Apache-2.0
"""Outputs that hold several quantities, boxes beside scores or the targets of a regression, get a scale for each.

The last layers' weights are divided by what makes all quantities equally large, one scale serves what comes of it, and
units (ops/units.py) say what the integers mean: weights have scales per channel already, so no instruction is added.
The divisors of an output are followed back through what moves, joins, adds and scales, to layers that take them up. A
part that nothing can divide, as what a sigmoid makes, stays, and sets the size of all others.

Quantities of like size keep one scale: their integers can be compared as they are, as those of classes often are. So do
scores that the data or the file say are those of classes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import field, replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Node, Value, free_name, read_only
from tinyc.ops import is_a, node_of, op_of
from tinyc.ops.add import Add
from tinyc.ops.concat import Concat
from tinyc.ops.mul import Mul
from tinyc.ops.op import Fixed
from tinyc.ops.reshape import Reshape
from tinyc.ops.sub import Sub
from tinyc.ops.transpose import Transpose
from tinyc.ops.units import ChannelUnits
from tinyc.options.recipe import OutputUnits
from tinyc.passes.weights import has_weights, per_output
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.groups import output_rule
from tinyc.quantize.observe import Observation
from tinyc.quantize.score import axes_of_quantities, decides

_ALIKE = 4.0  # quantities whose sizes differ by less share a scale
_SCORES_ALIKE = 16.0  # the same of a vector that may be scores of classes, which are compared
IN_UNITS = ":in units"  # of names of constants
_LEAST = 2.0**-20  # of the largest size; what is smaller is nothing, or gets multipliers too large for kernels


def with_units(graph: Graph, calibration: Calibration) -> Graph:
    """The float graph with units at each output that holds quantities of different sizes, where the layers before it
    can be divided. It computes the same."""
    names = [name for name in graph.outputs if not _is_of_classes(graph, name, calibration.labels)]
    axes = [(name, axis) for name in names for axis in _axes(graph, name)]
    axes = [(name, axis) for name, axis in axes if not _Division(graph, name).stays(axis).all()]
    if not axes:
        return graph
    alike = _SCORES_ALIKE if decides(graph) else _ALIKE
    largest = Observation(graph, calibration).largest(axes)
    for name in graph.outputs:
        sizes = {axis: shared(each, alike) for (of, axis), each in largest.items() if of == name}
        finite = {axis: each for axis, each in sizes.items() if np.isfinite(each).all()}  # others are an error later
        if finite:
            axis = max(finite, key=lambda axis: (finite[axis].max() / finite[axis].min(), axis))
            graph = _with_sizes(graph, name, axis, finite[axis])
    return graph


def with_given_units(graph: Graph, units: tuple[OutputUnits, ...]) -> Graph:
    """The same with the units of another model of the same layers."""
    for name, factors, axis in units:
        if name in graph.outputs and len(factors) == graph.values[name].shape[axis]:
            graph = _Division(graph, name).by(ChannelUnits(factors, axis)) or graph
    return graph


def units_of(graph: Graph) -> tuple[OutputUnits, ...]:
    """(output, factors, axis counted from the last one as -1) of each output that has units."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name in graph.outputs}
    return tuple(
        (name, node.attrs.factors, node.attrs.axis) for name, node in makers.items() if is_a(node, ChannelUnits)
    )


def shared(largest: Array, alike: float) -> Array:
    """A size for each quantity from its largest absolute number: from the largest one down, each takes up all that are
    less than `alike` times smaller. Those that are all zero go with the largest."""
    if not largest.any():
        return np.ones_like(largest)
    sizes = np.where(largest > largest.max() * _LEAST, largest, largest.max())
    for index in np.argsort(-sizes, kind="stable"):
        same = (sizes < sizes[index]) & (sizes * alike > sizes[index])
        sizes = np.where(same, sizes[index], sizes)
    return sizes


def _is_of_classes(graph: Graph, name: str, labels: Array | None) -> bool:
    """Whether the file has a text for each number of the output, or labels number them, as of a model that chooses."""
    if name in graph.labels and not graph.labels[name].by_value:
        return True
    reals = [each for each in graph.outputs if graph.values[each].dtype == "f32"]
    if labels is None or reals[:1] != [name] or not decides(graph):
        return False
    classes = np.unique(labels) if labels.dtype.kind in "iub" and labels.size == len(labels) else np.zeros(0)
    return len(classes) > 1 and classes[0] >= 0 and classes[-1] < graph.values[name].elements


def _axes(graph: Graph, name: str) -> list[int]:
    """The axes of an output's quantities; none where the model goes on with it."""
    value = graph.values[name]
    if value.dtype != "f32" or name in {state.after for state in graph.states} or name in graph.consumers():
        return []
    return axes_of_quantities(graph, name)


def _with_sizes(graph: Graph, name: str, axis: int, sizes: Array) -> Graph:
    """The graph with units. Their measure is the largest quantity, or the largest of those that stay as they are."""
    if len(set(sizes)) == 1:
        return graph
    division = _Division(graph, name)
    stays = division.stays(axis)
    measure = max(sizes[stays].max(), division.fixed) if stays.any() else sizes.max()
    ideal = ChannelUnits(tuple(float(np.float32(size / measure)) for size in sizes), axis)
    units = division.units(ideal)
    return graph if units is None or len(set(units.factors)) == 1 else _Division(graph, name).by(units) or graph


@dataclass(frozen=True, slots=True)
class _Divided:
    """A value that is divided: by what, f64[value's shape], 1 for elements that stay; and what changes for it."""

    by: Array
    node: Node | None = None  # the value's maker, if it changes
    consts: dict[str, Array] = field(default_factory=dict)  # new ones, which that node reads
    terms: tuple[_Divided, ...] = ()  # the values that the node reads, and that are divided for it

    def all(self) -> list[_Divided]:
        """This value and all those behind it."""
        values = [self]
        for each in values:
            values += each.terms
        return values


# What a rule asks for is (a value, by what it shall be divided); None where the node cannot have these divisors.
_Rule = Generator[tuple[str, Array], _Divided, _Divided | None]


class _Division:
    """Divides an output of a float graph: weights and constants behind it, as far as they can be."""

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph, self._name = graph, name
        self._makers, self._readers = graph.producer(), graph.consumers()
        self._divided: dict[tuple[str, bytes], _Divided] = {}  # of a value, and the divisors that were asked for
        self.fixed = 0.0  # the largest number of what an operator gives a fixed range, and that stays

    def stays(self, axis: int) -> Array:
        """Of each index of an axis, whether any of its elements cannot be divided."""
        shape = self._shape(self._name)
        divided = self._divide(self._name, np.full(shape, 2.0)).by
        return np.asarray((np.moveaxis(divided, axis, 0).reshape(shape[axis], -1) != 2).any(axis=1))

    def units(self, ideal: ChannelUnits) -> ChannelUnits | None:
        """What of these units there can be; None where the divisors of an index are not all the same."""
        rows = np.moveaxis(self._in(ideal).by, ideal.axis, 0).reshape(len(ideal.factors), -1)
        same = bool((rows == rows[:, :1]).all())
        return ChannelUnits(tuple(float(row[0]) for row in rows), ideal.axis) if same else None

    def by(self, units: ChannelUnits) -> Graph | None:
        """The graph that divides the output by the units, and gives it in them; None where it cannot."""
        graph, name = self._graph, self._name
        if self.units(units) != units:
            return None
        changed = self._in(units).all()
        consts = {new: read_only(array.astype(np.float32)) for each in changed for new, array in each.consts.items()}
        even = free_name(f"{name}:even", graph.values)
        values = {**graph.values, even: replace(graph.values[name], name=even)}
        values |= {new: Value(new, array.shape, "f32") for new, array in consts.items()}
        maker = self._makers[name]
        nodes = {node.name: node for node in graph.nodes}
        nodes |= {each.node.name: each.node for each in changed if each.node}
        nodes[maker.name] = replace(nodes[maker.name], outputs=(even,))
        last = node_of(units, (even,), (name,), maker.origin, free_name(f"{name}:units", nodes))
        return replace(graph, nodes=(*nodes.values(), last), values=values, consts={**graph.consts, **consts})

    def _shape(self, name: str) -> tuple[int, ...]:
        return self._graph.values[name].shape

    def _in(self, units: ChannelUnits) -> _Divided:
        shape = self._shape(self._name)
        return self._divide(self._name, np.broadcast_to(units.along(len(shape)), shape).astype(np.float64))

    def _divide(self, name: str, d: Array) -> _Divided:
        """A value whose elements are divided by d, as far as they can be.

        Rules wait on a list for what they ask for: a model may be deeper than Python's stack. No question is answered
        twice: each rule is tried with two divisors, and so would be all behind it again.
        """
        waiting = [(name, d, self._attempts(name, d))]
        answer: _Divided | None = None
        while waiting:
            name, d, rule = waiting[-1]
            try:
                name, d = rule.send(answer)  # type: ignore[arg-type]  # None starts a rule
            except StopIteration as end:
                answer = self._divided[name, d.tobytes()] = end.value
                waiting.pop()
                continue
            answer = self._divided.get((name, d.tobytes()))
            if answer is None:
                waiting.append((name, d, self._attempts(name, d)))
        assert answer is not None
        return answer

    def _attempts(self, name: str, d: Array) -> Generator[tuple[str, Array], _Divided, _Divided]:
        node = self._makers.get(name)
        if node is not None and len(node.outputs) == 1 and self._is_ours(name):
            for divisors in (d, np.full(d.shape, d.max())):
                divided = yield from self._by_rule(node, divisors)
                if divided is not None:
                    return divided
            rule = output_rule(node, 0)
            if isinstance(rule, Fixed):
                self.fixed = max(self.fixed, rule.scale * (128 + abs(rule.zero)))
        return _Divided(np.ones(d.shape))

    def _is_ours(self, name: str) -> bool:
        """Whether nothing but the one reader on the way to the output sees the value."""
        readers = self._readers.get(name, ())
        if name == self._name:
            return not readers
        return name not in self._graph.sinks and len(readers) == 1 and readers[0].inputs.count(name) == 1

    def _by_rule(self, node: Node, d: Array) -> _Rule:
        if has_weights(node):
            return self._layer(node, d)
        if is_a(node, Reshape, Transpose, Concat):
            return (yield from self._moved(node, d))
        if is_a(node, Add, Sub):
            return (yield from self._sum(node, d)) if node.attrs.act.scales else None
        if is_a(node, Mul):
            return (yield from self._product(node, d)) if node.attrs.act.scales else None
        return (yield from self._channels(node, d))

    def _layer(self, node: Node, d: Array) -> _Divided | None:
        if not (node.attrs.act.scales and all(name in self._graph.consts for name in node.inputs[1:] if name)):
            return None
        channels = d.reshape(-1, d.shape[-1]).max(axis=0)
        w, *bias = node.inputs[1:]
        array = self._graph.consts[w]
        divided = {w: array / per_output(node, array, channels)}
        divided |= {name: self._graph.consts[name] / channels for name in bias if name}
        return self._with_consts(node, np.broadcast_to(channels, d.shape), divided)

    def _moved(self, node: Node, d: Array) -> _Rule:
        if is_a(node, Reshape):
            term = yield node.inputs[0], d.reshape(self._shape(node.inputs[0]))
            return _Divided(term.by.reshape(d.shape), terms=(term,))
        if is_a(node, Transpose):
            perm = node.attrs.perm
            term = yield node.inputs[0], d.transpose(np.argsort(perm))
            return _Divided(term.by.transpose(perm), terms=(term,))
        axis = node.attrs.axis
        ends = np.cumsum([self._shape(name)[axis] for name in node.inputs])
        parts = []
        for name, part in zip(node.inputs, np.split(d, ends[:-1], axis), strict=True):
            parts.append((yield name, part))
        return _Divided(np.concatenate([part.by for part in parts], axis), terms=tuple(parts))

    def _sum(self, node: Node, d: Array) -> _Rule:
        """Both terms have to be divided by the same."""
        computed = [name for name in node.inputs if name not in self._graph.consts]
        if any(self._shape(name) != d.shape for name in computed):
            return None
        terms = []
        for name in computed:
            terms.append((yield name, d))
        if not terms or any(not np.array_equal(terms[0].by, other.by) for other in terms[1:]):
            return None
        if len(terms) == len(node.inputs):
            return _Divided(terms[0].by, terms=tuple(terms))
        return self._with_const(node, terms[0].by, tuple(terms))

    def _product(self, node: Node, d: Array) -> _Rule:
        """A constant factor can take up one divisor; more of them the other factor has to."""
        computed = [name for name in node.inputs if name not in self._graph.consts]
        if len(computed) != 1:
            return None
        if (d == d.flat[0]).all():
            return self._with_const(node, d, ())
        if self._shape(computed[0]) != d.shape:
            return None
        term = yield computed[0], d
        return _Divided(d, terms=(term,)) if np.array_equal(term.by, d) else None

    def _with_const(self, node: Node, d: Array, terms: tuple[_Divided, ...]) -> _Divided | None:
        """A node's constant divided as it lies against the output; None where it would have to grow."""
        name = next(name for name in node.inputs if name in self._graph.consts)
        array = self._graph.consts[name]
        across = tuple(axis for axis in range(-d.ndim, 0) if -axis > array.ndim or array.shape[axis] == 1)
        least = d.min(axis=across, keepdims=True)
        if not np.array_equal(np.broadcast_to(least, d.shape), d):
            return None
        return self._with_consts(node, d, {name: array / least.reshape(least.shape[d.ndim - array.ndim :])}, terms)

    def _channels(self, node: Node, d: Array) -> _Rule:
        """Through what treats each channel by itself, and in proportion."""
        x, y, op = self._graph.values[node.inputs[0]], self._graph.values[node.outputs[0]], op_of(node)
        if op.channels is None or not op.scales(node.attrs) or len(node.inputs) != 1:
            return None
        places = op.channels(node.attrs, x, y)
        if places is None:
            return None
        channels = np.zeros(x.channels)
        np.maximum.at(channels, places, d.reshape(-1, y.channels).max(axis=0))
        channels = np.where(channels > 0, channels, channels.max())
        term = yield x.name, np.broadcast_to(channels, x.shape).copy()
        rows = term.by.reshape(-1, x.channels)
        by = np.broadcast_to(rows[0, places], d.shape)
        return _Divided(by, terms=(term,)) if (rows == rows[:1]).all() else None

    def _with_consts(
        self, node: Node, by: Array, divided: dict[str, Array], terms: tuple[_Divided, ...] = ()
    ) -> _Divided:
        """A node with constants of its own: another node may read the same ones, and divide them by others."""
        names = {name: free_name(f"{name}{IN_UNITS} of {node.outputs[0]}", self._graph.values) for name in divided}
        changed = replace(node, inputs=tuple(names.get(name, name) for name in node.inputs))
        return _Divided(by, changed, {names[name]: array for name, array in divided.items()}, terms)
