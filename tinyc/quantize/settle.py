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
from tinyc.quantize.layerwise import Memo, layers
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.recipe import (
    SEARCHED,
    FittingData,
    FloatDraft,
    Report,
    SettledRecipe,
    at_most,
    carry_out,
    draft_of,
    drafts,
    rounded_to_nearest,
    widen,
)
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import folds, with_float_weights

_VARIED = 96  # calibration pictures with variants while plans are compared: fewer than in the end
_CHANCE_DB = 1.0
_WHAT = "calibration method"
_STUDENT = {2: 1.84, 3: 1.32}  # by splits: quantiles of Student's t where the normal distribution has one sigma


def settle(
    graph: Graph, calibration: Calibration, recipe: Recipe, report: Report, wide: Collection[str] = ()
) -> SettledRecipe:
    """The plan with the least output error on calibration samples that it was not calibrated with.

    First the method, with float weights; then whether to equalize and to learn the weights, with the weights that come
    of it (of 4 bits, if some are to be narrow); then, for that, whether searching tensor by tensor pays on unseen
    samples too. wide: values that are int16.
    """
    splits = [_Split.of(graph, fit, unseen, recipe, wide) for fit, unseen in _parted(calibration)]
    narrow = recipe.weights != "int8"
    bits = 4 if narrow else 8
    methods = tuple(METHODS) if recipe.method == AUTO else (recipe.method,)
    equals = (True, False) if recipe.equalize is None else (recipe.equalize,)
    learning = (True,) if narrow else (True, False) if recipe.rounding is None else (recipe.rounding == "learned",)
    ways = []
    for learned in learning:
        for equal in equals:
            plans = [SettledRecipe(method, equal, False, learned) for method in methods]
            ways.append(_best(splits, plans, None) if len(plans) > 1 else plans[0])
            report(_WHAT, 0.1 * len(ways) / (len(learning) * len(equals)))
    best = ways[0]
    if len(ways) > 1:
        best = _best(splits, ways, bits, lambda share: report(_WHAT, 0.1 + 0.6 * share))
    if recipe.method == AUTO:
        both = [best, replace(best, searched=True)]
        best = _best(splits, both, bits, lambda share: report(_WHAT, 0.7 + 0.3 * share))
    report(_WHAT, 1.0)
    return best


def _parted(calibration: Calibration) -> list[tuple[Calibration, dict[str, Array]]]:
    """`folds` of SEARCHED samples, each measured on its share of all others as well: running a sample costs little
    beside learning from it, and few samples decide by chance."""
    parts = folds(at_most(calibration, SEARCHED))
    others = np.setdiff1d(np.arange(calibration.samples), spread(calibration.samples, SEARCHED))
    if len(parts) == 1 or not len(others):
        return parts
    return [
        (
            fit,
            {
                name: np.concatenate([a, calibration.inputs[name][others[k :: len(parts)]]])
                for name, a in unseen.items()
            },
        )
        for k, (fit, unseen) in enumerate(parts)
    ]


@dataclass(frozen=True, slots=True)
class _Split:
    """Samples to calibrate with, drafts made of them, and other samples to measure on.

    varied: what weights are learned from, variants of pictures included, and the drafts of that. scores: of plans that
    were measured already.
    """

    fit: Calibration
    drafts: Mapping[bool, FloatDraft]
    varied: Calibration
    varied_drafts: Mapping[bool, FloatDraft]
    seen: Teacher
    unseen: Teacher
    scores: dict[tuple[SettledRecipe, int | None], float] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls, graph: Graph, fit: Calibration, unseen: Mapping[str, Array], recipe: Recipe, wide: Collection[str]
    ) -> _Split:
        made = {equal: widen(draft, wide) for equal, draft in drafts(graph, fit).items()}
        varied, varied_drafts = fit, made
        if recipe.augment:
            varied = augmented(graph, fit, recipe.seed, _VARIED)
        if varied is not fit:
            varied_drafts = {equal: widen(draft, wide) for equal, draft in drafts(graph, varied).items()}
        return cls(fit, made, varied, varied_drafts, Teacher.of(graph, fit.inputs), Teacher.of(graph, unseen))

    def score(self, plan: SettledRecipe, bits: int | None) -> float:
        """Of the plan's integer graph on unseen samples; bits None: with float weights."""
        if (plan, bits) not in self.scores:
            self.scores[plan, bits] = self._measured(plan, bits)
        return self.scores[plan, bits]

    def _measured(self, plan: SettledRecipe, bits: int | None) -> float:
        draft = draft_of(self.varied_drafts if plan.learned else self.drafts, plan)
        if bits is None:
            batch = with_float_weights(draft.graph, rounded_to_nearest(draft, plan.method))
            return self.unseen.score_of(batch.run(self.unseen.inputs, tuple(self.unseen.wanted)))
        uniform = dict.fromkeys((node.name for node in layers(draft.graph)), bits)
        data = FittingData(self.seen, self.fit, self.varied)
        return self.unseen.score(carry_out(plan, draft, data, uniform, memo=Memo(felt=False)))


def _best(
    splits: Sequence[_Split],
    plans: Sequence[SettledRecipe],
    bits: int | None,
    on_share: Callable[[float], None] = lambda share: None,
) -> SettledRecipe:
    """The first plan, from what usually does best to what seldom does, that no other one beats by more than chance.

    By chance: the standard error of the difference over the splits, widened for their number (_STUDENT); with one split
    _CHANCE_DB.
    """
    scores = np.zeros((len(plans), len(splits)))
    for number, (one, other) in enumerate(np.ndindex(scores.shape)):
        scores[one, other] = splits[other].score(plans[one], bits)
        on_share((number + 1) / scores.size)
    best = scores[int(np.argmax(scores.mean(axis=1)))]
    ahead = best - scores
    error = np.full(len(plans), _CHANCE_DB)
    if len(splits) > 1:
        error = _STUDENT[len(splits)] * ahead.std(axis=1, ddof=1) / np.sqrt(len(splits))
    return plans[int(np.argmax(ahead.mean(axis=1) <= error))]
