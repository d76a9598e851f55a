"""How to quantize: what the user asks for, and the steps that make an integer graph of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph, Quant
from tinyc.ops import all_ops
from tinyc.quantize.assign import assign_activations, separate_fixed
from tinyc.quantize.calibration import Calibration, spread
from tinyc.quantize.convert import to_integers
from tinyc.quantize.correct import correct_biases, with_biases
from tinyc.quantize.equalize import equalize
from tinyc.quantize.layerwise import layers, round_layers
from tinyc.quantize.observe import Stats, observe
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import folds, searched, with_float_weights

Rounding = Literal["nearest", "learned"]
WeightBits = Literal["int8", "int4", "auto"]
Report = Callable[[str, float], None]  # (what is being done, share of it that is done)

AUTO = "auto"
SEARCHED = 96  # samples that candidates are measured on
_CHANCE_DB = 1.0
_STUDENT = {2: 1.84, 3: 1.32}  # by splits: quantiles of Student's t where the normal distribution has one sigma


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to quantize.

    method: a key of METHODS, how ranges follow from what was observed; "auto" measures, tensor by tensor.
    equalize: whether channels get similar ranges; None: what measures better. correct_biases: with weights
    rounded to nearest, the mean error goes into the bias (learned weights do so by themselves).
    rounding: of the weights; None: what measures better, and learned for less than 8 bits.
    weights: bits of the weights; "auto" chooses per layer, for weight_bytes or max_loss (see mixed.py).
    augment: learn from varied pictures too. Everything is deterministic; `seed` is for the variants.
    """

    method: str = AUTO
    equalize: bool | None = None
    correct_biases: bool = True
    rounding: Rounding | None = None
    weights: WeightBits = "int8"
    weight_bytes: int | None = None
    max_loss: float | None = None  # percent
    augment: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Draft:
    """A float graph ready for integers: biases everywhere, perhaps equalized; what was seen of its values.

    made: integer graphs by method, weights rounded to nearest, as they were asked for: a cache.
    """

    graph: Graph
    stats: Mapping[str, Stats]
    made: dict[str, Graph] = field(default_factory=dict, compare=False, repr=False)


def drafts(graph: Graph, calibration: Calibration) -> dict[bool, Draft]:
    """The draft as it is (False) and equalized (True), if there is anything to equalize."""
    complete = with_biases(graph)
    stats = observe(complete, calibration)
    made = {False: Draft(separate_fixed(complete), stats)}
    equal, divisors = equalize(complete, stats)
    if divisors:
        made[True] = Draft(separate_fixed(equal), observe(equal, calibration, divisors))
    return made


def draft_of(made: Mapping[bool, Draft], plan: Plan) -> Draft:
    """The draft that the plan asks for; as it is, where there is nothing to equalize."""
    return made.get(plan.equalize) or made[False]


def rounded_to_nearest(draft: Draft, method: str, quants: Mapping[str, Quant] | None = None) -> Graph:
    """The integer graph with every weight rounded to nearest; ranges by `method`, or `quants`."""
    if quants is None and method in draft.made:
        return draft.made[method]
    assigned = quants or assign_activations(draft.graph, draft.stats, METHODS[method])
    integer = to_integers(draft.graph, assigned)
    check(integer, "quantize", all_ops())
    if quants is None:
        draft.made[method] = integer
    return integer


@dataclass(frozen=True, slots=True)
class Plan:
    """What a recipe comes down to once "auto" has been settled by measurement. searched: ranges tensor by tensor."""

    method: str
    equalize: bool
    searched: bool
    learned: bool


def settle(graph: Graph, calibration: Calibration, recipe: Recipe, report: Report) -> Plan:
    """The plan with the least output error on calibration samples that it was not calibrated with.

    First the method and whether to equalize, with float weights; then, for that, whether searching tensor by tensor and
    learning the weights pay on unseen samples too.
    """
    splits = [_Split.of(graph, fit, unseen) for fit, unseen in folds(at_most(calibration, SEARCHED))]
    bits = 4 if recipe.weights == "int4" else 8
    methods = tuple(METHODS) if recipe.method == AUTO else (recipe.method,)
    equals = (True, False) if recipe.equalize is None else (recipe.equalize,)
    narrow = recipe.weights != "int8"
    learning = (True,) if narrow else (True, False) if recipe.rounding is None else (recipe.rounding == "learned",)
    ways = [Plan(method, equal, False, False) for method in methods for equal in equals]
    if len(ways) > 1:
        # Equalizing makes weights harder to round: below 8 bits only rounded weights can tell whether it pays.
        kept = {equal: _best(splits, [w for w in ways if w.equalize == equal], None) for equal in equals}
        ways = [replace(way, learned=learning[0]) for way in kept.values()]
    best = _best(splits, ways, bits) if len(ways) > 1 else ways[0]
    report("calibration method", 0.6)
    further = [replace(best, learned=learn) for learn in learning]
    if recipe.method == AUTO:
        further += [replace(way, searched=True) for way in further]
    best = _best(splits, further, bits) if len(further) > 1 else further[0]
    report("calibration method", 1.0)
    return best


@dataclass(frozen=True, slots=True)
class _Split:
    """Samples to calibrate with, drafts made of them, and other samples to measure on."""

    fit: Calibration
    drafts: Mapping[bool, Draft]
    seen: Teacher
    unseen: Teacher

    @classmethod
    def of(cls, graph: Graph, fit: Calibration, unseen: Mapping[str, Array]) -> _Split:
        made = drafts(graph, fit)
        return cls(fit, made, Teacher.of(graph, fit.inputs), Teacher.of(graph, unseen))

    def score(self, plan: Plan, bits: int | None) -> float:
        """Of the plan's integer graph on unseen samples; bits None: with float weights."""
        draft = draft_of(self.drafts, plan)
        if bits is None:
            batch = with_float_weights(draft.graph, rounded_to_nearest(draft, plan.method))
            return self.unseen.score_of(batch.run(self.unseen.inputs, tuple(self.unseen.wanted)))
        uniform = dict.fromkeys((node.name for node in layers(draft.graph)), bits)
        return self.unseen.score(carry_out(plan, draft, self.seen, self.fit, self.fit, uniform))


def _best(splits: Sequence[_Split], plans: Sequence[Plan], bits: int | None) -> Plan:
    """The first plan, from what usually does best to what seldom does, that no other one beats by more than chance.

    By chance: the standard error of the difference over the splits, widened for their number (_STUDENT); with one split
    _CHANCE_DB.
    """
    scores = np.array([[split.score(plan, bits) for split in splits] for plan in plans])
    best = scores[int(np.argmax(scores.mean(axis=1)))]
    ahead = best - scores
    error = np.full(len(plans), _CHANCE_DB)
    if len(splits) > 1:
        error = _STUDENT[len(splits)] * ahead.std(axis=1, ddof=1) / np.sqrt(len(splits))
    return plans[int(np.argmax(ahead.mean(axis=1) <= error))]


def at_most(calibration: Calibration, count: int) -> Calibration:
    """At most `count` of the samples, evenly spaced."""
    picked = spread(calibration.samples, count)
    return replace(calibration, inputs={name: a[picked] for name, a in calibration.inputs.items()})


def carry_out(
    plan: Plan,
    draft: Draft,
    teacher: Teacher,
    calibration: Calibration,
    varied: Calibration,
    bits: Mapping[str, int],
    *,
    biases: bool = True,
    report: Report = lambda what, share: None,
) -> Graph:
    """The integer graph by the plan: ranges measured on `teacher`, weights learned from `varied` (or rounded to
    nearest, with biases corrected on `calibration`)."""
    integer = rounded_to_nearest(draft, plan.method)
    if plan.searched:
        quants = searched(
            draft.graph, integer, draft.stats, teacher, lambda done, of: report("activation ranges", done / of)
        )
        integer = rounded_to_nearest(draft, plan.method, quants)
    if plan.learned or any(number < 8 for number in bits.values()):
        integer = round_layers(
            draft.graph, integer, varied, bits, lambda done, of: report("learned rounding", done / of)
        )
    elif biases:
        means = {name: seen.mean for name, seen in draft.stats.items()}
        integer = correct_biases(draft.graph, integer, means, calibration)
    check(integer, "rounding", all_ops())
    return integer
