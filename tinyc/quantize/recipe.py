# SPDX-License-Identifier: Apache-2.0
"""How to quantize: what the user asks for, and the steps that make an integer graph of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from functools import partial

import numpy as np

from tinyc.base.dataclass import dataclass
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph, Quant
from tinyc.ops import all_ops
from tinyc.options.recipe import ActivationScales, Recipe
from tinyc.quantize.assign import assign_activations, separate_fixed
from tinyc.quantize.calibration import Calibration, spread
from tinyc.quantize.convert import to_integers
from tinyc.quantize.correct import correct_biases, with_biases
from tinyc.quantize.equalize import equalize
from tinyc.quantize.layerwise import Memo, is_loop, round_layers
from tinyc.quantize.observe import Channels, Observation, Stats
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.recurrent import narrowed
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import searched
from tinyc.quantize.widths import widened

Report = Callable[[str, float], None]  # (what is being done, share of it that is done)

SEARCHED = 96  # samples that candidates are made of, and measured on
FEW = 32  # samples; of fewer nothing is concluded

DEFAULT_LOSS = 1.0  # percent, where a recipe asks for as few bits as may be and names neither a loss nor a budget


def activation_quants(activations: ActivationScales) -> dict[str, Quant]:
    """Scale and zero point of each activation by name."""
    return {name: Quant((scale,), (zero,)) for name, scale, zero in activations.scales}


@dataclass(frozen=True, slots=True)
class FloatDraft:
    """A float graph ready for integers: biases everywhere, perhaps equalized; what was seen of its values.

    wide: values that are int16. seen: the values themselves, before they were divided by `divisors`. by_method: integer
    graphs by method, weights rounded to nearest, as they were asked for: a cache.
    """

    graph: Graph
    stats: Mapping[str, Stats]
    wide: frozenset[str] = frozenset()
    seen: Observation | None = field(default=None, compare=False, repr=False)
    divisors: Mapping[str, Channels] = field(default_factory=dict)
    by_method: dict[str, Graph] = field(default_factory=dict, compare=False, repr=False)


def drafts(
    graph: Graph, calibration: Calibration, counted: bool = True, equalized: bool = True
) -> dict[bool, FloatDraft]:
    """The draft as it is (False) and, where it is asked for, equalized (True), if there is anything to equalize.
    counted: as of `Observation.stats`; min-max ranges need no counts."""
    complete = with_biases(graph)
    seen = Observation(complete, calibration)
    stats = seen.stats(counted)
    by_equalized = {False: FloatDraft(separate_fixed(complete), stats, seen=seen)}
    equal, divisors = equalize(complete, stats) if equalized else (complete, {})
    if divisors:
        even = seen.divided(stats, divisors, counted)
        by_equalized[True] = FloatDraft(separate_fixed(equal), even, seen=seen, divisors=divisors)
    return by_equalized


def _held(draft: FloatDraft, samples: int, name: str) -> Array | None:
    """A value of the draft's graph, if it is at hand and of so many samples."""
    array = draft.seen.value(name) if draft.seen is not None else None
    array = array if array is None or len(array) == samples else None
    divisors = draft.divisors.get(name)
    return array if array is None or divisors is None else (array / divisors).astype(np.float32)


def widen(draft: FloatDraft, wide: Collection[str]) -> FloatDraft:
    """The draft with these values int16, and requantize nodes at the borders."""
    if not wide:
        return draft
    widened_graph = widened(draft.graph, draft.stats, wide)
    return FloatDraft(widened_graph.graph, widened_graph.stats, widened_graph.wide, draft.seen, draft.divisors)


def draft_of(by_equalized: Mapping[bool, FloatDraft], plan: SettledRecipe) -> FloatDraft:
    """The draft that the plan asks for; as it is, where there is nothing to equalize."""
    return by_equalized.get(plan.equalize) or by_equalized[False]


def rounded_to_nearest(draft: FloatDraft, method: str, quants: Mapping[str, Quant] | None = None) -> Graph:
    """The integer graph with every weight rounded to nearest; ranges by `method`, or `quants`."""
    if quants is None and method in draft.by_method:
        return draft.by_method[method]
    assigned = quants or assign_activations(draft.graph, draft.stats, METHODS[method], draft.wide)
    integer = to_integers(draft.graph, assigned, draft.wide)
    check(integer, "quantize", all_ops())
    if quants is None:
        draft.by_method[method] = integer
    return integer


@dataclass(frozen=True, slots=True)
class SettledRecipe:
    """What a recipe comes down to once "auto" has been settled by measurement. ranges: (value, scale, zero point) of
    those that were searched for tensor by tensor; they stand in the place of the method's.
    biases: those of weights rounded to nearest are corrected. like, headroom: as of the recipe."""

    method: str
    equalize: bool
    learned: bool
    ranges: tuple[tuple[str, float, int], ...] = ()
    biases: bool = True
    like: ActivationScales | None = None
    headroom: float = 1.0

    @property
    def searched(self) -> bool:
        """Whether ranges were found tensor by tensor."""
        return bool(self.ranges)


@dataclass(frozen=True, slots=True)
class FittingData:
    """What an integer graph is fitted to: weights learned from `varied` (calibration samples and variants of them),
    biases corrected on `calibration`."""

    calibration: Calibration
    varied: Calibration


def corrects(recipe: Recipe, calibration: Calibration) -> bool:
    """Whether biases of weights rounded to nearest take up the mean error: not what few or made-up inputs say it is."""
    return recipe.correct_biases and calibration.proven and calibration.samples >= FEW


def at_most(calibration: Calibration, count: int) -> Calibration:
    """At most `count` of the samples, evenly spaced."""
    picked = spread(calibration.samples, count)
    return calibration.picked(picked)


def searched_ranges(plan: SettledRecipe, draft: FloatDraft, teacher: Teacher, report: Report) -> SettledRecipe:
    """The plan with ranges searched for tensor by tensor, those that are better by the score of `teacher`."""
    integer = rounded_to_nearest(draft, plan.method)
    quants = searched(
        draft.graph, integer, draft.stats, teacher, lambda done, of: report("activation ranges", done / of)
    )
    ranges = ((name, *quant.per_tensor) for name, quant in quants.items() if quant != integer.values[name].quant)
    return replace(plan, ranges=tuple(ranges))


def assigned_activations(plan: SettledRecipe, draft: FloatDraft) -> dict[str, Quant] | None:
    """The activations' integers where the plan keeps those of another model, or has searched for some."""
    if plan.like is None and not plan.ranges:
        return None
    given = activation_quants(plan.like) if plan.like is not None else {}
    chosen = {name: Quant((scale,), (zero,)) for name, scale, zero in plan.ranges if name not in draft.wide}
    return assign_activations(draft.graph, draft.stats, METHODS[plan.method], draft.wide, given | chosen)


def carry_out(
    plan: SettledRecipe,
    draft: FloatDraft,
    data: FittingData,
    bits: Mapping[str, int],
    *,
    report: Report = lambda what, share: None,
    memo: Memo | None = None,
) -> Graph:
    """The integer graph by the plan: ranges, then weights learned, or rounded to nearest with biases corrected.

    memo: of calls that differ in nothing but `bits`.
    """
    integer = rounded_to_nearest(draft, plan.method, assigned_activations(plan, draft))
    loops = [node for node in draft.graph.nodes if bits.get(node.name, 8) == 4 and is_loop(draft.graph, node)]
    if loops:
        integer = narrowed(draft.graph, integer, data.varied.inputs, loops)
    if plan.learned or any(number < 8 for number in bits.values()):
        memo = Memo(any(number < 8 for number in bits.values())) if memo is None else memo
        memo.held = partial(_held, draft, data.varied.samples)
        integer = round_layers(
            draft.graph, integer, data.varied, bits, lambda done, of: report("learned rounding", done / of), memo
        )
    elif plan.biases:
        means = {name: seen.mean for name, seen in draft.stats.items()}
        integer = correct_biases(draft.graph, integer, means, data.calibration)
    check(integer, "rounding", all_ops())
    return integer
