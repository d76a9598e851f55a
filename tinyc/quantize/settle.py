# SPDX-License-Identifier: Apache-2.0
"""What a recipe leaves open, settled by measurement on samples that were left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import AUTO, Recipe
from tinyc.quantize.augment import augmented
from tinyc.quantize.calibration import Calibration, spread
from tinyc.quantize.headroom import roomy, stretched
from tinyc.quantize.layerwise import Memo, narrowable
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.recipe import (
    SEARCHED,
    FittingData,
    FloatDraft,
    Report,
    SettledRecipe,
    assigned_activations,
    at_most,
    carry_out,
    corrects,
    draft_of,
    drafts,
    rounded_to_nearest,
    searched_ranges,
    widen,
)
from tinyc.quantize.score import Teacher, decides, shares
from tinyc.quantize.search import with_float_weights
from tinyc.quantize.simulate import Batch

_CHANCE_DB = 1.0
_WHAT = "calibration method"
_JUDGE = 3  # one of so many samples judges
_FEWEST = 12  # samples of which some may be left out
_RARE = 1.2  # times as far from the mean as the unseen samples
_MOST_LOST_DB = 0.5
_AT_ONCE = 2**23  # elements of the largest value: more is new memory for each, which costs more than to compute it
_STUDENT = {2: 6.31, 4: 2.35, 8: 1.89}  # by parts: 95 % quantiles of Student's t


def settle(
    graph: Graph, calibration: Calibration, recipe: Recipe, report: Report, wide: Collection[str] = ()
) -> SettledRecipe:
    """The plan with the least output error on calibration samples that nothing was fitted to.

    First the method, with float weights, of equalized channels; then whether to learn the weights; then whether ranges
    searched for tensor by tensor are better, with the weights that come of it, if they are so with float weights. If
    some weights are to be narrow, learned ones of 4 bits say whether to equalize, and what the ranges are worth. What
    is worse than the plain setting (`hurried`) by the same judges is not taken: other methods are tried in its place,
    without equalizing too, and then that.
    wide: values that are int16.
    """
    fit, unseen = parted(calibration)
    trial = _Trial.of(graph, fit, unseen, recipe, wide)
    narrow, biases = recipe.weights != "int8", corrects(recipe, calibration)
    bits = 4 if narrow else 8
    methods = tuple(METHODS) if recipe.method == AUTO else (recipe.method,)
    # Learned weights of 8 bits make up for what equalizing costs; those of 4 bits pay for it.
    both = (False, True) if narrow else (True,)
    equals = both if recipe.equalize is None else (recipe.equalize,)
    learning = (True,) if narrow else (True, False) if recipe.rounding is None else (recipe.rounding == "learned",)
    steps = _Steps(len(equals) + len(learning) + (recipe.method == AUTO), report)
    ways = []
    for equal in equals:
        plans = [SettledRecipe(method, equal, learning[0], biases=biases) for method in methods]
        ways.append(trial.best(plans, None) if len(plans) > 1 else plans[0])
    way = ways[0] if len(ways) == 1 else trial.best(ways, bits, steps)
    ways = [replace(way, learned=learned) for learned in learning]
    best = ways[0] if len(ways) == 1 else trial.best(ways, bits, steps)
    if recipe.method == AUTO:
        ranged = searched_ranges(best, draft_of(trial.drafts, best), trial.seen, report)
        if ranged.searched and (narrow or trial.is_as_good(ranged, best, None)):
            best = trial.best([best, ranged], bits, steps)
    method = "minmax" if recipe.method == AUTO else recipe.method
    plain = SettledRecipe(method, bool(recipe.equalize), learning[-1], biases=biases)
    others = [replace(best, method=other, ranges=()) for other in methods if other != best.method]
    others.sort(key=lambda plan: -float(np.mean(trial.measured(plan, None).decibels)))
    if recipe.equalize is None and best.equalize:
        others += [replace(plan, equalize=False, ranges=()) for plan in (best, *others)]
    best = next((plan for plan in (best, *others) if trial.is_as_good(plan, plain, bits)), plain)
    report(_WHAT, 1.0)
    return best


class _Steps:
    """Reports how many of so many plans have been measured."""

    def __init__(self, count: int, report: Report) -> None:
        self._done, self._count, self._report = 0, count, report

    def __call__(self) -> None:
        self._done += 1
        self._report(_WHAT, min(1.0, self._done / self._count))


def parted(calibration: Calibration) -> tuple[Calibration, Calibration]:
    """(what plans are fitted to, what judges them): of SEARCHED samples every _JUDGE-th one judges, and as many of the
    others as were looked at. Of few samples both are the same: then leaving some out would say more about those.
    """
    picked = at_most(calibration, SEARCHED)
    count = picked.samples
    if count < _FEWEST:
        return picked, picked
    judges = np.arange(count) % _JUDGE == _JUDGE - 1
    others = np.setdiff1d(np.arange(calibration.samples), spread(calibration.samples, SEARCHED))
    others = others[spread(len(others), SEARCHED - int(judges.sum()))] if len(others) else others
    first = np.asarray(spread(calibration.samples, SEARCHED))
    unseen = np.concatenate([first[judges], others]).astype(np.int64)
    return picked.picked(~judges), calibration.picked(unseen)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Samples to calibrate with, drafts made of them, and other samples to measure on.

    varied: what weights are learned from, variants of pictures included, and the drafts of that. scores: by part of the
    unseen samples, of plans that were measured already. rare: the unseen samples stretched, of a model that does not
    choose: an output is as wrong as it is far off, and a few inputs beyond the ranges make more of its error than all
    others. So few are not in a calibration set, and channels that were equalized have no room left for them.
    """

    fit: Calibration
    drafts: Mapping[bool, FloatDraft]
    varied: Calibration
    varied_drafts: Mapping[bool, FloatDraft]
    seen: Teacher
    unseen: Sequence[Teacher]
    rare: Teacher | None
    scores: dict[tuple[SettledRecipe, int | None], _Scores] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, graph: Graph, seen: Calibration, unseen: Calibration, recipe: Recipe, wide: Collection[str]) -> _Trial:
        both, fit = recipe.equalize is not False, roomy(seen, recipe.headroom)
        fit_drafts = {equal: widen(draft, wide) for equal, draft in drafts(graph, fit, equalized=both).items()}
        varied, varied_drafts = fit, fit_drafts
        if recipe.augment:
            varied = augmented(graph, fit, recipe.seed, 2 * SEARCHED)
        if varied is not fit:
            others = drafts(graph, varied, equalized=both)
            varied_drafts = {equal: widen(draft, wide) for equal, draft in others.items()}
        judges = unseen
        if recipe.augment and unseen.judge is None:  # labels are of the pictures as they are
            judges = augmented(graph, unseen, recipe.seed, SEARCHED)
        parts = next((count for count in sorted(_STUDENT, reverse=True) if unseen.samples >= 2 * count), 1)
        parted_judges = Teacher.on(graph, judges).parts(parts, unseen.samples)
        rare = None if decides(graph) or unseen.judge else _rare(graph, unseen)
        return cls(fit, fit_drafts, varied, varied_drafts, Teacher.on(graph, seen), parted_judges, rare)

    def measured(self, plan: SettledRecipe, bits: int | None) -> _Scores:
        """Scores of the plan's integer graph on each part of the unseen samples; bits None: with float weights."""
        if (plan, bits) not in self.scores:
            self.scores[plan, bits] = self._measured(plan, bits)
        return self.scores[plan, bits]

    def _measured(self, plan: SettledRecipe, bits: int | None) -> _Scores:
        draft = draft_of(self.varied_drafts if plan.learned else self.drafts, plan)
        if bits is None:
            quants = assigned_activations(plan, draft)
            batch = with_float_weights(draft.graph, rounded_to_nearest(draft, plan.method, quants))
        else:
            uniform = dict.fromkeys((node.name for node in narrowable(draft.graph)), bits)
            batch = Batch(carry_out(plan, draft, FittingData(self.fit, self.varied), uniform, memo=Memo(felt=False)))
        outputs = _outputs(batch, self.unseen)
        decibels = [part.score_of(each) for part, each in zip(self.unseen, outputs, strict=True)]
        return _Scores(tuple(shares(self.unseen, outputs)), tuple(decibels))

    def best(
        self, plans: Sequence[SettledRecipe], bits: int | None, on_plan: Callable[[], None] = lambda: None
    ) -> SettledRecipe:
        """The first plan, which usually does best, or where another beats it by more than chance the best of all: by
        the metric that is asked for, and of those that are equal so far by the error at the outputs."""
        scores = []
        for plan in plans:
            scores.append(self.measured(plan, bits))
            on_plan()
        left = list(range(len(plans)))
        if scores[0].metric:
            left = _unbeaten([scores[k].metric for k in left], np.inf)
        decibels = [scores[k].decibels for k in left]
        first = 0 if 0 in _unbeaten(decibels, _CHANCE_DB) else int(np.argmax(np.mean(decibels, axis=1)))
        return plans[left[first]]

    def is_as_good(self, plan: SettledRecipe, plain: SettledRecipe, bits: int | None) -> bool:
        """Whether a plan is as good as one that takes less search, or better, be it by chance."""
        scores = [self.measured(each, bits) for each in (plan, plain)]
        means = [(np.mean(each.metric) if each.metric else 0.0, np.mean(each.decibels)) for each in scores]
        return bool(means[0] >= means[1]) and self._endures(plan, plain)

    def _endures(self, plan: SettledRecipe, plain: SettledRecipe) -> bool:
        """Whether rare inputs lose no more than _MOST_LOST_DB against the ranges of a plan that takes less search. Both
        have float weights, and ranges of the same inputs."""
        if self.rare is None or plan == plain:
            return True
        scores = []
        for each in (plan, plain):
            draft = draft_of(self.varied_drafts, each)
            batch = with_float_weights(
                draft.graph, rounded_to_nearest(draft, each.method, assigned_activations(each, draft))
            )
            scores.append(self.rare.score_of(batch.run(self.rare.inputs, tuple(self.rare.expected))))
        return scores[0] >= scores[1] - _MOST_LOST_DB


def _rare(graph: Graph, unseen: Calibration) -> Teacher | None:
    """The unseen samples stretched; None of a model that has no value for some of them, as a root beyond its domain."""
    rare = Teacher.of(graph, stretched(unseen.inputs, _RARE))
    return rare if all(np.isfinite(rows).all() for rows in rare.expected.values()) else None


def _outputs(batch: Batch, parts: Sequence[Teacher]) -> list[dict[str, Array]]:
    """What a graph makes of each part of the samples, of all parts together, as many at a time as memory is used
    again for."""
    inputs = {name: np.concatenate([part.inputs[name] for part in parts]) for name in parts[0].inputs}
    count = sum(len(part) for part in parts)
    at_once = max(1, _AT_ONCE // max(value.elements for value in batch.graph.values.values()))
    runs = [
        batch.run({name: array[first : first + at_once] for name, array in inputs.items()}, tuple(parts[0].expected))
        for first in range(0, count, at_once)
    ]
    ends = np.cumsum([len(part) for part in parts])[:-1]
    split = {name: np.split(np.concatenate([run[name] for run in runs]), ends) for name in runs[0]}
    return [{name: arrays[k] for name, arrays in split.items()} for k in range(len(parts))]


@dataclass(frozen=True, slots=True)
class _Scores:
    """Of a plan, by part of the samples: the metric that is asked for, if one is, and decibels; more is better."""

    metric: tuple[float, ...]
    decibels: tuple[float, ...]


def _unbeaten(scores: Sequence[Sequence[float]], alone: float) -> list[int]:
    """The plans [parts each] that no other one beats by more than chance: by what one of twenty equal plans would win,
    from the standard error of the difference over the parts and their number (_STUDENT); with one part `alone`."""
    rows = np.asarray(scores)
    ahead = rows[int(np.argmax(rows.mean(axis=1)))] - rows
    error = np.full(len(rows), alone)
    if rows.shape[1] > 1:
        error = _STUDENT[rows.shape[1]] * ahead.std(axis=1, ddof=1) / np.sqrt(rows.shape[1])
    return [int(k) for k in np.flatnonzero(ahead.mean(axis=1) <= error)]
