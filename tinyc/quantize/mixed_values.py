# SPDX-License-Identifier: Apache-2.0
"""`--activations auto`: the cheapest int16 values with which the model is as good as asked for.

Activations are measured with float weights, the noise of the weights once, with int16 everywhere: they add up. All is
measured on calibration samples that were not learned from; an aim has to be met on each part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import Missed, TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import Recipe
from tinyc.quantize.activations import WidthChoice, first_good, options, value_sets
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.headroom import roomy
from tinyc.quantize.layerwise import narrowable
from tinyc.quantize.recipe import (
    DEFAULT_LOSS,
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
from tinyc.quantize.simulate import Batch


@dataclass(frozen=True, slots=True)
class _Trial:
    """Samples to make an integer graph of, and others to measure it on."""

    fit: Calibration
    draft: FloatDraft
    unseen: Teacher

    def values(self, option: WidthChoice, method: str) -> Batch:
        """The option with float weights."""
        draft = widen(self.draft, option.wide)
        return with_float_weights(draft.graph, rounded_to_nearest(draft, method))


def choose_values(
    graph: Graph,
    plan: SettledRecipe,
    calibration: Calibration,
    recipe: Recipe,
    forced: Collection[str],
    report: Report,
) -> frozenset[str]:
    """The values that have to be int16 for the recipe's SQNR or loss, `forced` ones among them. With a budget for RAM
    and nothing else: those that do most good. TinycError if nothing will do."""
    parts = [(roomy(fit, plan.headroom), unseen) for fit, unseen in folds(at_most(calibration, SEARCHED))]
    trials = [_Trial(fit, draft_of(drafts(graph, fit), plan), Teacher.on(graph, unseen)) for fit, unseen in parts]
    draft, teacher = trials[0].draft, trials[0].unseen
    integer = rounded_to_nearest(draft, plan.method)
    sets = value_sets(
        draft.graph, integer, teacher, forced, lambda done, of: report("sensitivity of each value", done / of)
    )
    choices = options(draft.graph, sets, recipe.ram_bytes)

    def measured(option: WidthChoice, figure: Callable[[Teacher, Mapping[str, Array]], float]) -> list[float]:
        """The figure of each part of the samples, by what was made of the others."""
        runs = ((trial.values(option, plan.method), trial.unseen) for trial in trials)
        return [figure(unseen, batch.run(unseen.inputs)) for batch, unseen in runs]

    aim = recipe.min_sqnr
    if aim is not None:
        weights = _weight_noise(trials[0], choices[-1], plan, recipe, report)

        def reached(option: WidthChoice) -> float:
            return float(-10 * np.log10(10 ** (-min(measured(option, Teacher.least_of)) / 10) + weights))

        chosen = first_good(choices, lambda option: reached(option) >= aim)
        if chosen is None:
            raise TinycError(
                f"an SQNR of {aim:g} dB is out of reach: with int16 wherever it may be there are "
                f"{reached(choices[-1]):.1f} dB",
                hint="a smaller --min-sqnr, --weights int8, --rounding learned, or a larger --ram",
                exit_code=1,
                missed=[Missed("SQNR", "dB", aim, reached(choices[-1]))],
            )
        return chosen.wide
    if recipe.max_loss is None and recipe.ram_bytes is not None:
        return choices[-1].wide
    most = (recipe.max_loss if recipe.max_loss is not None else DEFAULT_LOSS) / 100

    def lost(option: WidthChoice) -> float:
        return float(np.mean(measured(option, Teacher.changed_of)))

    allowed = most + lost(choices[-1])
    return (first_good(choices, lambda option: lost(option) <= allowed) or choices[-1]).wide


def _weight_noise(trial: _Trial, widest: WidthChoice, plan: SettledRecipe, recipe: Recipe, report: Report) -> float:
    """What the weights add at the output, a power beside the signal's."""
    draft = widen(trial.draft, widest.wide)
    bits = {node.name: 4 if recipe.weights == "int4" else 8 for node in narrowable(draft.graph)}
    data = FittingData(trial.fit, trial.fit)
    integer = carry_out(plan, draft, data, bits, report=report)
    whole = trial.unseen.least_of(Batch(integer).run(trial.unseen.inputs))
    values = trial.unseen.least_of(trial.values(widest, plan.method).run(trial.unseen.inputs))
    return float(max(10 ** (-whole / 10) - 10 ** (-values / 10), 0.0))
