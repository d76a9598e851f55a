# SPDX-License-Identifier: Apache-2.0
"""Calibration by measurement: of several ways to find ranges the one whose integer graph errs least at the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph, Quant
from tinyc.ops.op import Fixed, InUnits
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.groups import Groups, is_weight, output_rule
from tinyc.quantize.observe import Stats
from tinyc.quantize.ranges import METHODS, affine, merged
from tinyc.quantize.score import Teacher, left_out
from tinyc.quantize.simulate import Batch

_FOLDS = 3
_MANY = 60  # samples; fewer are split in two
_PARTS = 4  # of the samples; a candidate has to be better on each of them, or it only suits the samples searched with
_GAIN_DB = 0.05  # on average; less is noise


def folds(calibration: Calibration) -> list[tuple[Calibration, Calibration]]:
    """(what to calibrate with, what to measure on), so that every sample is measured once.

    With few samples one pair, both the same: then leaving some out would say more about those than about the method.
    """
    count = calibration.samples
    if count < 4 * _FOLDS:
        return [(calibration, calibration)]
    parts = _FOLDS if count >= _MANY else 2
    at = np.arange(count) % parts
    return [(calibration.picked(at != k), calibration.picked(at == k)) for k in range(parts)]


def with_float_weights(graph: Graph, integer: Graph) -> Batch:
    """The integer graph with the float graph's weights and biases: only activations are rounded."""
    batch = Batch(integer)
    partner = {node.name: node for node in graph.nodes}
    for node in integer.nodes:
        other = partner.get(node.name)
        if len(node.inputs) > 1 and is_weight(node, 1) and other is not None:
            for name, source in zip(node.inputs[1:], other.inputs[1:], strict=True):
                if name and source in graph.consts:
                    batch.w_steps.pop(name, None)
                    batch.consts[name] = np.asarray(graph.consts[source], np.float32)
    return batch


def searched(
    graph: Graph,
    integer: Graph,
    stats: Mapping[str, Stats],
    teacher: Teacher,
    on_tensor: Callable[[int, int], None] = lambda done, of: None,
) -> dict[str, Quant]:
    """The quantization of every activation, tensor by tensor the candidate with the least error at the outputs.

    Candidates are the ranges of all METHODS; a range that is better on average but not on every part of the samples
    is not taken. Where a metric is asked for, it counts first, on all parts but each in turn. Other tensors keep what
    they have meanwhile. In run order, once. Tensors that share a quantization change together; those that an operator
    fixes do not, nor do inputs, which are never clipped.
    """
    batch = with_float_weights(graph, integer)
    groups = _free_groups(integer)
    parts = teacher.parts(min(_PARTS, len(teacher)))
    part_values = [batch.resume(batch.start(part.inputs), 0) for part in parts]
    best = _Standing(
        [part.score_of(values) for part, values in zip(parts, part_values, strict=True)], left_out(parts, part_values)
    )
    for done, (first, names) in enumerate(groups):
        seen = [stats[name] for name in names if name in stats]
        quant = batch.quants[names[0]]
        for candidate in _candidates(seen, quant) if seen else ():
            batch.quants.update(dict.fromkeys(names, candidate))
            tried = _better(batch, first, parts, part_values, best)
            if tried is not None:
                part_values, best, quant = *tried, candidate
        batch.quants.update(dict.fromkeys(names, quant))
        on_tensor(done + 1, len(groups))
    return dict(batch.quants)


@dataclass(frozen=True, slots=True)
class _Standing:
    """What is known of a choice of ranges: decibels of each part, and the metric on all parts but each (`left_out`)."""

    decibels: list[float]
    figures: list[float]

    def is_better(self, other: _Standing) -> bool:
        """Whether it is better by the metric, nowhere worse, or as good and better in decibels on each part."""
        if self.figures != other.figures:
            pairs = zip(self.figures, other.figures, strict=True)
            return all(own >= theirs for own, theirs in pairs) and np.mean(self.figures) > np.mean(other.figures)
        pairs = zip(self.decibels, other.decibels, strict=True)
        return all(own > theirs for own, theirs in pairs) and bool(
            np.mean(self.decibels) > np.mean(other.decibels) + _GAIN_DB
        )


def _better(
    batch: Batch, first: int, parts: list[Teacher], part_values: list[dict[str, Array]], best: _Standing
) -> tuple[list[dict[str, Array]], _Standing] | None:
    """Values and standing of each part, with the nodes from `first` on computed anew; None where that is no better, as
    soon as it shows."""
    values, decibels = [], []
    for part, before, score in zip(parts, part_values, best.decibels, strict=True):
        values.append(batch.resume(before, first))
        decibels.append(part.score_of(values[-1]))
        if decibels[-1] <= score and part.judge is None:
            return None
    standing = _Standing(decibels, left_out(parts, values))
    return (values, standing) if standing.is_better(best) else None


def _candidates(seen: list[Stats], current: Quant) -> list[Quant]:
    """What a group of tensors may take instead of the quantization that it has."""
    together = merged(seen)
    quants = [affine(*method(together, "s8")) for method in METHODS.values()]
    return [quant for quant in dict.fromkeys(quants) if quant != current]


def _free_groups(integer: Graph) -> list[tuple[int, list[str]]]:
    """(index of the node that makes the first of them, values that share one quantization), in run order."""
    groups = Groups(integer)
    fixed = {
        groups.of(name)
        for node in integer.nodes
        for index, name in enumerate(node.outputs)
        if isinstance(output_rule(node, index), Fixed | InUnits)
    }
    fixed |= {groups.of(name) for name in integer.sources}
    groups_by_name: dict[str, tuple[int, list[str]]] = {}
    for index, node in enumerate(integer.nodes):
        for name in node.outputs:
            of = groups.of(name)
            if of not in fixed and integer.values[name].dtype == "s8":
                groups_by_name.setdefault(of, (index, []))[1].append(name)
    return list(groups_by_name.values())
