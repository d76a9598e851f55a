# SPDX-License-Identifier: Apache-2.0
"""How to quantize: what the user asks for, and the steps that make an integer graph of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace

from tinyc.base.dataclass import dataclass
from tinyc.ir.check import check
from tinyc.ir.graph import Graph, Quant
from tinyc.ops import all_ops
from tinyc.options.recipe import KeptActivations
from tinyc.quantize.assign import assign_activations, separate_fixed
from tinyc.quantize.calibration import Calibration, spread
from tinyc.quantize.convert import to_integers
from tinyc.quantize.correct import correct_biases, with_biases
from tinyc.quantize.equalize import equalize
from tinyc.quantize.layerwise import Memo, round_layers
from tinyc.quantize.observe import Stats, observe
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import searched
from tinyc.quantize.widths import widened

Report = Callable[[str, float], None]  # (what is being done, share of it that is done)

SEARCHED = 96  # samples that candidates are measured on

DEFAULT_LOSS = 1.0  # percent, where a recipe asks for as few bits as may be and names neither a loss nor a budget


def kept_quants(kept: KeptActivations) -> dict[str, Quant]:
    """Scale and zero point of each activation by name."""
    return {name: Quant((scale,), (zero,)) for name, scale, zero in kept.scales}


@dataclass(frozen=True, slots=True)
class FloatDraft:
    """A float graph ready for integers: biases everywhere, perhaps equalized; what was seen of its values.

    wide: values that are int16. made: integer graphs by method, weights rounded to nearest, as they were asked for: a
    cache.
    """

    graph: Graph
    stats: Mapping[str, Stats]
    wide: frozenset[str] = frozenset()
    made: dict[str, Graph] = field(default_factory=dict, compare=False, repr=False)


def drafts(graph: Graph, calibration: Calibration) -> dict[bool, FloatDraft]:
    """The draft as it is (False) and equalized (True), if there is anything to equalize."""
    complete = with_biases(graph)
    stats = observe(complete, calibration)
    made = {False: FloatDraft(separate_fixed(complete), stats)}
    equal, divisors = equalize(complete, stats)
    if divisors:
        made[True] = FloatDraft(separate_fixed(equal), observe(equal, calibration))
    return made


def widen(draft: FloatDraft, wide: Collection[str]) -> FloatDraft:
    """The draft with these values int16, and requantize nodes at the borders."""
    if not wide:
        return draft
    widened_graph = widened(draft.graph, draft.stats, wide)
    return FloatDraft(widened_graph.graph, widened_graph.stats, widened_graph.wide)


def draft_of(made: Mapping[bool, FloatDraft], plan: SettledRecipe) -> FloatDraft:
    """The draft that the plan asks for; as it is, where there is nothing to equalize."""
    return made.get(plan.equalize) or made[False]


def rounded_to_nearest(draft: FloatDraft, method: str, quants: Mapping[str, Quant] | None = None) -> Graph:
    """The integer graph with every weight rounded to nearest; ranges by `method`, or `quants`."""
    if quants is None and method in draft.made:
        return draft.made[method]
    assigned = quants or assign_activations(draft.graph, draft.stats, METHODS[method], draft.wide)
    integer = to_integers(draft.graph, assigned, draft.wide)
    check(integer, "quantize", all_ops())
    if quants is None:
        draft.made[method] = integer
    return integer


@dataclass(frozen=True, slots=True)
class SettledRecipe:
    """What a recipe comes down to once "auto" has been settled by measurement. searched: ranges tensor by tensor.
    biases: those of weights rounded to nearest are corrected. like: as of the recipe."""

    method: str
    equalize: bool
    searched: bool
    learned: bool
    biases: bool = True
    like: KeptActivations | None = None


@dataclass(frozen=True, slots=True)
class FittingData:
    """What an integer graph is fitted to: ranges by the score of `teacher`, weights learned from `varied` (calibration
    samples and variants of them), biases corrected on `calibration`."""

    teacher: Teacher
    calibration: Calibration
    varied: Calibration


def at_most(calibration: Calibration, count: int) -> Calibration:
    """At most `count` of the samples, evenly spaced."""
    picked = spread(calibration.samples, count)
    return replace(calibration, inputs={name: a[picked] for name, a in calibration.inputs.items()})


def _as_before(plan: SettledRecipe, draft: FloatDraft) -> dict[str, Quant] | None:
    """The activations' integers where the plan keeps those of another model."""
    if plan.like is None:
        return None
    return assign_activations(draft.graph, draft.stats, METHODS[plan.method], draft.wide, kept_quants(plan.like))


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
    integer = rounded_to_nearest(draft, plan.method, _as_before(plan, draft))
    if plan.searched:
        quants = searched(
            draft.graph, integer, draft.stats, data.teacher, lambda done, of: report("activation ranges", done / of)
        )
        integer = rounded_to_nearest(draft, plan.method, quants)
    if plan.learned or any(number < 8 for number in bits.values()):
        integer = round_layers(
            draft.graph, integer, data.varied, bits, lambda done, of: report("learned rounding", done / of), memo
        )
    elif plan.biases:
        means = {name: seen.mean for name, seen in draft.stats.items()}
        integer = correct_biases(draft.graph, integer, means, data.calibration)
    check(integer, "rounding", all_ops())
    return integer
