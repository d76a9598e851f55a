# SPDX-License-Identifier: Apache-2.0
"""How far an integer graph's outputs are from the float graph's: the one number that candidates are compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Node, Value
from tinyc.ops import is_a
from tinyc.ops.op import Trait
from tinyc.ops.reshape import Reshape
from tinyc.ops.sigmoid import Sigmoid
from tinyc.ops.tanh import Tanh
from tinyc.ops.transpose import Transpose
from tinyc.ops.units import ChannelUnits
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.judge import Judge
from tinyc.quantize.simulate import Batch, sqnr_db

MOST_DB = 100.0  # nothing is better than that
_LEAST_FIGURE = 1e-12  # of a metric
_MOST_COLUMNS = 256  # along more, places of a picture or of time lie


@dataclass(frozen=True, slots=True)
class Teacher:
    """Samples with what the float graph makes of them."""

    inputs: Mapping[str, Array]
    # The outputs, the states of the next run, and what a softmax at an output gets. A softmax hides the errors of all
    # inputs but the uncertain ones, of which there are few in a calibration set; before it every input counts. The
    # number of a class is no quantity: it is left out beside reals.
    expected: Mapping[str, Array]
    decides: bool
    axes: tuple[int, ...]  # of the first of them, `axes_of_numbers`
    quantities: Mapping[str, int]  # of each of them the axis of `axis_of_quantities`, where there is one
    centres: Mapping[str, Array]  # of the expected values, their mean over all samples
    labels: Array | None = None  # of the samples
    judge: Judge | None = None  # the metric that takes labels, where one is asked for
    best: float = 0.0  # what it says of the float graph's outputs, the larger the better

    @classmethod
    def on(cls, graph: Graph, calibration: Calibration) -> Teacher:
        """Of the calibration's samples, with its labels and its judge."""
        return cls.of(graph, calibration.inputs, calibration.labels, calibration.judge)

    @classmethod
    def of(
        cls, graph: Graph, inputs: Mapping[str, Array], labels: Array | None = None, judge: Judge | None = None
    ) -> Teacher:
        names = tuple(dict.fromkeys((*graph.sinks, *before_softmax(graph))))
        run = Batch(graph).run(inputs, names)
        expected = {name: run[name] for name in names}
        reals = {name: rows for name, rows in expected.items() if graph.values[name].dtype == "f32"}
        expected = reals or expected
        centres = {
            name: rows.mean(axis=0) if len(rows) > 1 else np.zeros_like(rows[0]) for name, rows in expected.items()
        }
        best = 0.0 if judge is None else judge.score(run, labels, inputs)
        axes = axes_of_numbers(graph, next(iter(expected)))
        several = {name: axis for name in expected if (axis := axis_of_quantities(graph, name)) is not None}
        return cls(inputs, expected, decides(graph), axes, several, centres, labels, judge, best)

    def parts(self, count: int, of: int | None = None) -> list[Teacher]:
        """Every k-th sample, for each of so many k. of: the samples after the first so many are variants of these, one
        after the other and again; a sample and its variants are in one part."""
        at = np.arange(len(self)) % (of or len(self)) % count
        return [
            replace(
                self,
                inputs=_picked(self.inputs, at == k),
                expected=_picked(self.expected, at == k),
                labels=None if self.labels is None else self.labels[at == k],
            )
            for k in range(count)
        ]

    def __len__(self) -> int:
        return min(len(array) for array in self.inputs.values())

    def score(self, integer: Graph) -> float:
        """Mean SQNR in dB over the expected values, of their variation from sample to sample; of a value that holds
        several quantities over these, so that none is hidden by a larger one."""
        return self.score_of(Batch(integer).run(self.inputs, tuple(self.expected)))

    def score_of(self, outputs: Mapping[str, Array]) -> float:
        """`score` of values at hand."""
        return float(np.mean([min(self._db(name, outputs[name]), MOST_DB) for name in self.expected]))

    def _db(self, name: str, output: Array) -> float:
        centre = self.centres[name]
        signal, noisy = self.expected[name] - centre, output - centre
        if name not in self.quantities:
            return sqnr_db(signal, noisy)
        each = quantities_db(signal, noisy, self.quantities[name])
        return float(np.mean([min(db, MOST_DB) for db in each.values()])) if each else sqnr_db(signal, noisy)

    def sqnr_of(self, outputs: Mapping[str, Array]) -> float:
        """SQNR in dB of the first output, as reports state it."""
        name = next(iter(self.expected))
        return sqnr_db(self.expected[name], outputs[name])

    def least_of(self, outputs: Mapping[str, Array]) -> float:
        """The least of `sqnr_of` and of what each column of the first output has (`columns_db`)."""
        name = next(iter(self.expected))
        return min(self.sqnr_of(outputs), *columns_db(self.expected[name], outputs[name], self.axes).values(), MOST_DB)

    def changed(self, integer: Graph) -> float:
        """What is lost: with a judge, of its metric, relative to the float graph's; else the share of samples whose
        decision changes; without classes, the relative error of the outputs (RMS)."""
        return self.changed_of(Batch(integer).run(self.inputs))

    def changed_of(self, outputs: Mapping[str, Array]) -> float:
        """`changed` of values at hand."""
        if self.judge is not None:
            scored = self.judge.score(outputs, self.labels, self.inputs)
            return (self.best - scored) / max(abs(self.best), _LEAST_FIGURE)
        name = next(iter(self.expected))
        expected, computed = (array.reshape(len(self), -1) for array in (self.expected[name], outputs[name]))
        if self.decides:
            return float((expected.argmax(axis=1) != computed.argmax(axis=1)).mean())
        return float(10 ** (-sqnr_db(expected, computed) / 20))


def left_out(parts: Sequence[Teacher], outputs: Sequence[Mapping[str, Array]]) -> list[float]:
    """What the judge says of all parts but each in turn, of one part of that; [] without a judge. outputs: of each
    part. A part alone may be too small for a figure."""
    judge = parts[0].judge
    if judge is None:
        return []
    subsets = [[j for j in range(len(parts)) if j != k] for k in range(len(parts))] if len(parts) > 1 else [[0]]
    return [judge.score(*_joined(parts, outputs, some)) for some in subsets]


def shares(parts: Sequence[Teacher], outputs: Sequence[Mapping[str, Array]]) -> list[float]:
    """What each part adds to what the judge says of all of them (the jackknife's pseudo-values): the mean of them is
    that figure without its bias, and their spread tells how sure it is. [] without a judge."""
    without = left_out(parts, outputs)
    if len(without) < 2:
        return without
    judge, count = parts[0].judge, len(parts)
    assert judge is not None  # there are figures
    whole = judge.score(*_joined(parts, outputs, range(count)))
    return [count * whole - (count - 1) * each for each in without]


def _joined(
    parts: Sequence[Teacher], outputs: Sequence[Mapping[str, Array]], some: Sequence[int]
) -> tuple[dict[str, Array], Array | None, dict[str, Array]]:
    """Outputs, labels and inputs of some parts, one after the other."""
    judge = parts[0].judge
    assert judge is not None  # who asks for it
    labels = [part.labels for k in some if (part := parts[k]).labels is not None]
    return (
        {name: np.concatenate([outputs[k][name] for k in some]) for name in judge.graph.outputs},
        np.concatenate(labels) if labels else None,
        {name: np.concatenate([parts[k].inputs[name] for k in some]) for name in judge.graph.inputs},
    )


def _picked(arrays: Mapping[str, Array], which: Array) -> dict[str, Array]:
    return {name: array[: len(which)][which] for name, array in arrays.items()}


def axes_of_numbers(graph: Graph, name: str) -> tuple[int, ...]:
    """The axes of a value, counted from its last one as -1, along which numbers of different meaning may lie: of a
    picture its channels, for its rows and columns are places, dark corners among them."""
    shape, maker = graph.values[name].shape, maker_of(graph, name)
    if len(shape) != 4:
        return tuple(range(-len(shape), 0))
    if maker is not None and isinstance(maker.attrs, Transpose):
        return (maker.attrs.perm.index(3) - 4,)
    if maker is not None and isinstance(maker.attrs, Reshape) and shape[1] == 1:
        return ()  # channels first, of one channel
    return (-1,)


def axis_of_quantities(graph: Graph, name: str) -> int | None:
    """The axis of an output, counted from its last one as -1, along which it holds quantities that may differ in size:
    boxes beside scores, or the targets of a regression. None of what a softmax gets or makes, whose numbers are alike,
    of states, and of more numbers than those of a place."""
    last = graph.producer().get(name)
    if last is not None and isinstance(last.attrs, ChannelUnits):
        return last.attrs.axis
    return max(axes_of_quantities(graph, name), default=None)


def axes_of_quantities(graph: Graph, name: str) -> list[int]:
    """All axes of which `axis_of_quantities` may be one."""
    maker = graph.producer().get(name)
    if maker is None or name not in graph.outputs or is_a(maker, Trait.SHARES) or name in before_softmax(graph):
        return []
    shape = graph.values[name].shape
    return [axis for axis in axes_of_numbers(graph, name) if 1 < shape[axis] <= _MOST_COLUMNS]


def maker_of(graph: Graph, name: str) -> Node | None:
    """The node that computes a value, in whatever units it is given."""
    makers = graph.producer()
    maker = makers.get(name)
    return makers.get(maker.inputs[0]) if maker is not None and isinstance(maker.attrs, ChannelUnits) else maker


def quantities_db(expected: Array, computed: Array, axis: int) -> dict[int, float]:
    """SQNR in dB of each index along an axis of outputs [samples, *shape], where it varies."""
    signals, noisy = (np.moveaxis(array, axis, 0) for array in (expected, computed))
    return {index: sqnr_db(signal, noisy[index]) for index, signal in enumerate(signals) if np.ptp(signal)}


def columns_db(expected: Array, computed: Array, among: Sequence[int]) -> dict[tuple[int, int], float]:
    """(axis, index) -> SQNR in dB of what outputs [samples, *shape] have at that index of that axis of the shape, where
    it varies: small numbers beside large ones, as a detector's scores beside its boxes, are nothing in the sum of all.
    Of vectors none: a class that is never near to be chosen has no figure of its own. among: the axes to look at
    (`axes_of_numbers`).
    """
    axes = [axis for axis, size in enumerate(expected.shape[1:]) if size > 1]
    if len(axes) < 2:
        return {}
    decibels = dict[tuple[int, int], float]()
    chosen = {axis % (expected.ndim - 1) for axis in among if axis >= 1 - expected.ndim}
    for axis in (axis for axis in axes if axis in chosen and expected.shape[axis + 1] <= _MOST_COLUMNS):
        decibels |= {(axis, index): db for index, db in quantities_db(expected, computed, axis + 1).items()}
    return decibels


def before_softmax(graph: Graph) -> tuple[str, ...]:
    """The inputs of the softmax operators that make outputs."""
    producers = graph.producer()
    makers = [producers[name] for name in graph.outputs if name in producers]
    return tuple(dict.fromkeys(node.inputs[0] for node in makers if is_a(node, Trait.SHARES)))


def decides(graph: Graph) -> bool:
    """Whether the first output that holds reals is a choice between classes: a vector, of another shape than the
    input. Not what a sigmoid or tanh makes, nor what has scales of its own for each number: each is an answer of its
    own."""
    scores = _scores(graph)
    last, maker = graph.producer().get(scores), maker_of(graph, scores)
    if last is not None and isinstance(last.attrs, ChannelUnits):
        return False
    if maker is not None and isinstance(maker.attrs, Sigmoid | Tanh):
        return False
    shape = graph.values[scores].shape if scores else ()
    vector = int(np.prod(shape)) == shape[-1] > 1 if shape else False
    return vector and all(shape != graph.values[name].shape for name in graph.inputs[:1])


def class_output(graph: Graph) -> str | None:
    """The output that is the number of a class: one integer that stands for itself. None of a model without one."""
    values = (graph.values[name] for name in graph.outputs)
    return next((value.name for value in values if _is_number(value) and value.elements == 1), None)


def classes(graph: Graph, outputs: Mapping[str, Array]) -> Array | None:
    """The class that each sample gets, [samples]: what `class_output` says, else where the first vector of scores has
    its maximum. None of models that choose no class. outputs: of every output of the graph, [samples, *shape], the
    numbers of classes as they are, scores as reals or integers of one scale."""
    label = class_output(graph)
    if label is not None:
        return outputs[label].reshape(len(outputs[label]))
    if not decides(graph):
        return None
    scores = outputs[_scores(graph)]
    return scores.reshape(len(scores), -1).argmax(axis=1)


def _scores(graph: Graph) -> str:
    """The first output that holds reals; "" where there is none."""
    return next((name for name in graph.outputs if not _is_number(graph.values[name])), "")


def _is_number(value: Value) -> bool:
    return value.quant is None and value.dtype != "f32"
