# SPDX-License-Identifier: Apache-2.0
"""A float graph and calibration inputs become an integer graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from functools import partial

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Graph
from tinyc.options.recipe import AUTO, ActivationScales, Pictures, Recipe, Rounding
from tinyc.quantize.activations import need_ram
from tinyc.quantize.assign import separate_fixed
from tinyc.quantize.augment import augmented, pictures
from tinyc.quantize.calibration import Calibration, calibrate, check_inputs
from tinyc.quantize.correct import with_biases
from tinyc.quantize.headroom import roomy, with_room
from tinyc.quantize.judge import judge_of
from tinyc.quantize.layerwise import Memo, narrowable, weight_constants
from tinyc.quantize.loops import wide_loops
from tinyc.quantize.masks import with_near_factors
from tinyc.quantize.mixed import Sensitivity, averaged, by_loss, for_loss, need_room, sensitivities, within
from tinyc.quantize.mixed_values import choose_values
from tinyc.quantize.observe import check_model
from tinyc.quantize.output_units import units_of, with_given_units, with_units
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.recipe import (
    DEFAULT_LOSS,
    FEW,
    SEARCHED,
    FittingData,
    FloatDraft,
    Report,
    SettledRecipe,
    at_most,
    carry_out,
    corrects,
    draft_of,
    drafts,
    widen,
)
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import folds
from tinyc.quantize.settle import settle
from tinyc.quantize.widths import all_memories, every_value, signals, values_of_layers

__all__ = [
    "AUTO",
    "METHODS",
    "UNPROVEN",
    "ActivationScales",
    "Calibration",
    "Pictures",
    "Quantized",
    "Recipe",
    "Rounding",
    "calibrate",
    "quantize",
    "quantize_model",
    "weight_bytes",
]

# Made-up inputs say little about ranges, and nothing about accuracy: take no risk, spend no time.
UNPROVEN = Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest", augment=False)


@dataclass(frozen=True, slots=True)
class Quantized:
    """An integer graph and how it came to be.

    float_graph: the float model with the weights that were quantized; it computes what the original does, and its
    nodes have the integer graph's names. bits: of each layer's weights. sensitivities: where they were measured.
    tried_learned: learned weights were measured, whatever was taken then.
    """

    graph: Graph
    float_graph: Graph
    plan: SettledRecipe
    bits: Mapping[str, int]
    sensitivities: tuple[Sensitivity, ...] = field(default=())
    tried_learned: bool = False

    @property
    def activations(self) -> ActivationScales:
        """What a model with other weights needs to run on the same code."""
        computed = [value for name, value in self.graph.values.items() if name not in self.graph.consts]
        scales = {value.name: value.quant.per_tensor for value in computed if value.quant and value.quant.axis is None}
        activations = tuple((name, *quant) for name, quant in scales.items())
        return ActivationScales(self.plan.equalize, activations, units_of(self.graph))


def weight_bytes(graph: Graph) -> int:
    """Bytes of the weights of an integer graph, two of 4 bits to a byte; biases not counted."""
    return sum(graph.values[name].size_bytes for node in narrowable(graph) for name in weight_constants(graph, node))


def quantize_model(graph: Graph, calibration: Calibration, recipe: Recipe | None = None) -> Graph:
    """The normalized float graph in integers: `quantize(...).graph`."""
    return quantize(graph, calibration, recipe).graph


def quantize(
    graph: Graph,
    calibration: Calibration,
    recipe: Recipe | None = None,
    report: Report = lambda what, share: None,
) -> Quantized:
    """The normalized float graph in integers: activations per tensor, weights per output channel, int32 biases.

    Inputs and outputs are integers as well: int8, or int16 where the recipe's activations are. Without a recipe:
    everything automatic, but UNPROVEN for synthetic inputs and for fewer than FEW; that holds for what a recipe of
    nothing but activations leaves open too. Numerics of the result: `Numerics.OURS`. TinycError if the calibration
    does not fit the graph's inputs, an operator has no integer form, or what the recipe asks for cannot be met.
    """
    check_inputs(graph, calibration)
    check_model(graph, calibration)
    if recipe is not None and recipe.metric is not None:
        calibration = _judged(graph, calibration, recipe.metric)
    graph = with_near_factors(graph)
    recipe = with_room(_with_default(recipe or Recipe(), graph, calibration), graph, calibration)
    if recipe.weights == "auto" and recipe.weight_bytes is not None:
        need_room(with_biases(graph), recipe.weight_bytes)
    graph = _in_units(graph, recipe, calibration)
    wide = _asked_for(graph, recipe)
    if calibration.sequences is not None and recipe.activations != "int16":
        wide = wide_loops(graph, calibration, wide)
    if recipe.activations == "auto" and recipe.ram_bytes is not None:
        need_ram(separate_fixed(with_biases(graph)), recipe.ram_bytes, wide)
    report("calibration", 0.0)
    plan = replace(_plan(graph, calibration, recipe, report, wide), like=recipe.like, headroom=recipe.headroom or 1.0)
    if recipe.activations == "auto":
        wide = choose_values(graph, plan, calibration, recipe, wide, report)
    fit = roomy(calibration, recipe.headroom)
    varied = augmented(graph, fit, recipe.seed) if recipe.augment and plan.learned else fit
    both = drafts(graph, varied, counted=plan.method != "minmax", equalized=plan.equalize)
    draft = widen(draft_of(both, plan), wide)
    data = FittingData(fit, varied)

    def learn(bits: Mapping[str, int]) -> Graph:
        return carry_out(plan, draft, data, bits, report=report)

    sensitivities: tuple[Sensitivity, ...] = ()
    bits = {node.name: 4 if recipe.weights == "int4" else 8 for node in narrowable(draft.graph)}
    if recipe.weights == "auto":
        sensitivities, bits = _mixed(graph, plan, calibration, recipe, wide, report)
    return Quantized(learn(bits), draft.graph, plan, bits, sensitivities, tried_learned=recipe.rounding is None)


def _in_units(graph: Graph, recipe: Recipe, calibration: Calibration) -> Graph:
    """The graph with a scale for each quantity of its outputs, where the recipe allows that. All int16 needs none."""
    if recipe.like is not None:
        return with_given_units(graph, recipe.like.units)
    one = recipe.activations == "int16" or recipe.output_scales == "one"
    return graph if one else with_units(graph, calibration)


def _with_default(recipe: Recipe, graph: Graph, calibration: Calibration) -> Recipe:
    """A recipe that asks for nothing but activations, made UNPROVEN for synthetic inputs and for so few that choosing
    by them is a lottery."""
    names = (
        "activations",
        "int16_layers",
        "max_loss",
        "min_sqnr",
        "ram_bytes",
        "like",
        "headroom",
        "metric",
        "output_scales",
    )
    rest = {name: getattr(recipe, name) for name in names}
    few = calibration.samples < FEW and pictures(graph) is None  # of pictures there are variants
    careful = (few or not calibration.proven) and recipe == replace(Recipe(), **rest)
    return replace(UNPROVEN, **rest) if careful else recipe


def _judged(graph: Graph, calibration: Calibration, metric: str | Callable[..., float]) -> Calibration:
    """The calibration with the metric that settings are compared by. TinycError for made-up inputs, and where the
    metric fails on what the float model makes of the user's."""
    judge = judge_of(metric, graph)
    if not calibration.proven:
        message = "--metric takes real inputs, and there are no calibration data"
        raise TinycError(message, hint="give --calibration FILE.npz, with 'y' if the metric takes labels")
    judged = replace(calibration, judge=judge)
    Teacher.on(graph, at_most(judged, SEARCHED))
    return judged


def _asked_for(graph: Graph, recipe: Recipe) -> frozenset[str]:
    """The values that are int16 whatever is measured. TinycError for what has no int16 form."""
    prepared = separate_fixed(with_biases(graph))
    if recipe.activations == "int16":
        return every_value(prepared)
    return values_of_layers(prepared, recipe.int16_layers) | signals(prepared) | all_memories(prepared)


def _plan(
    graph: Graph, calibration: Calibration, recipe: Recipe, report: Report, wide: Collection[str]
) -> SettledRecipe:
    """The recipe, with what it leaves open settled by measurement. Ranges of int16 are all that was seen."""
    if recipe.activations == "int16":
        equalize = recipe.equalize if recipe.equalize is not None else False
        recipe = replace(recipe, method="minmax", equalize=equalize)
    if recipe.like is not None:
        recipe = replace(recipe, method="minmax", equalize=recipe.like.equalized)
    learned = recipe.rounding == "learned" or recipe.weights != "int8"
    if recipe.method != AUTO and recipe.equalize is not None and (recipe.rounding is not None or learned):
        return SettledRecipe(recipe.method, recipe.equalize, learned, biases=corrects(recipe, calibration))
    return settle(graph, calibration, recipe, report, wide)


def _mixed(
    graph: Graph, plan: SettledRecipe, calibration: Calibration, recipe: Recipe, wide: Collection[str], report: Report
) -> tuple[tuple[Sensitivity, ...], dict[str, int]]:
    """Bits per layer for the recipe's bytes or loss, measured on calibration samples that were not learned from."""
    plain, splits, many = replace(plan, ranges=()), folds(at_most(calibration, SEARCHED)), []
    for part, (seen, unseen) in enumerate(splits):
        fit = roomy(seen, plan.headroom)
        draft = widen(draft_of(drafts(graph, fit), plan), wide)
        teacher = Teacher.on(graph, unseen)
        learn = partial(_narrowed, plain, draft, fit, memo=Memo())

        def on_layer(done: int, of: int, part: int = part) -> None:
            report("sensitivity of each layer", (part + done / of) / len(splits))

        many.append(sensitivities(draft.graph, learn, teacher, on_layer))
    measured = averaged(many)
    orders = [measured] if teacher.judge is None else [measured, by_loss(measured)]
    if recipe.weight_bytes is not None:
        choices = [within(order, recipe.weight_bytes) for order in orders]
        losses = [teacher.changed(learn(bits)) for bits in choices] if len(choices) > 1 else [0.0]
        return tuple(measured), choices[int(np.argmin(losses))]
    most = (recipe.max_loss if recipe.max_loss is not None else DEFAULT_LOSS) / 100
    allowed = most + teacher.changed(learn({}))  # what int8 costs already is not for the weights to save
    choices = [for_loss(order, learn, teacher.changed, allowed) for order in orders]
    return tuple(measured), min(choices, key=lambda bits: sum(one.bytes_of(bits[one.layer]) for one in measured))


def _narrowed(plan: SettledRecipe, draft: FloatDraft, fit: Calibration, bits: Mapping[str, int], memo: Memo) -> Graph:
    """The integer graph with these bits, learned from `fit`."""
    return carry_out(plan, draft, FittingData(fit, fit), bits, memo=memo)
