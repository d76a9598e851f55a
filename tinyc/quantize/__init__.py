"""From a float graph and calibration inputs to an integer graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tinyc.ir.graph import Graph
from tinyc.quantize.augment import augmented, pictures
from tinyc.quantize.calibration import Calibration, calibrate
from tinyc.quantize.layerwise import layers
from tinyc.quantize.mixed import Sensitivity, for_loss, sensitivities, within
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.recipe import (
    AUTO,
    SEARCHED,
    Plan,
    Recipe,
    Report,
    Rounding,
    at_most,
    carry_out,
    draft_of,
    drafts,
    settle,
)
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import folds
from tinyc.quantize.sources import Pictures

__all__ = [
    "AUTO",
    "METHODS",
    "UNPROVEN",
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

FEW = 32  # samples
DEFAULT_LOSS = 1.0  # percent, of --weights auto without a budget or a loss
# Made-up inputs say little about ranges, and nothing about accuracy: take no risk, spend no time.
UNPROVEN = Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest", augment=False)


@dataclass(frozen=True, slots=True)
class Quantized:
    """An integer graph and how it came to be.

    float_graph: the float model with the weights that were quantized; it computes what the original does, and its
    nodes have the integer graph's names. bits: of each layer's weights. sensitivities: where they were measured.
    """

    graph: Graph
    float_graph: Graph
    plan: Plan
    bits: Mapping[str, int]
    sensitivities: tuple[Sensitivity, ...] = field(default=())


def weight_bytes(graph: Graph) -> int:
    """Bytes of the weights of an integer graph, two of 4 bits to a byte; biases not counted."""
    return sum(graph.values[node.inputs[1]].size_bytes for node in layers(graph))


def quantize_model(graph: Graph, calibration: Calibration, recipe: Recipe | None = None) -> Graph:
    """The normalized float graph in integers: `quantize(...).graph`."""
    return quantize(graph, calibration, recipe).graph


def quantize(
    graph: Graph,
    calibration: Calibration,
    recipe: Recipe | None = None,
    report: Report = lambda what, share: None,
) -> Quantized:
    """The normalized float graph in integers: int8 activations per tensor, weights per output channel, int32 biases.

    Inputs and outputs are int8 as well. Without a recipe: everything automatic, but UNPROVEN for
    synthetic inputs and for fewer than FEW. Numerics of the result: `Numerics.OURS`. TinycError if the calibration
    does not fit the graph's inputs, an operator has no integer form, or the weights do not fit the recipe's bytes.
    """
    recipe = recipe or _default(graph, calibration)
    report("calibration", 0.0)
    plan = _plan(graph, calibration, recipe, report)
    varied = augmented(graph, calibration, recipe.seed) if recipe.augment and plan.learned else calibration
    draft = draft_of(drafts(graph, varied), plan)
    few = {name: array[calibration.few] for name, array in calibration.inputs.items()}
    teacher = Teacher.of(graph, few)

    def learn(bits: Mapping[str, int]) -> Graph:
        return carry_out(plan, draft, teacher, calibration, varied, bits, biases=recipe.correct_biases, report=report)

    found: tuple[Sensitivity, ...] = ()
    bits = {node.name: 4 if recipe.weights == "int4" else 8 for node in layers(draft.graph)}
    if recipe.weights == "auto":
        found, bits = _mixed(graph, plan, calibration, recipe, report)
    return Quantized(learn(bits), draft.graph, plan, bits, found)


def _default(graph: Graph, calibration: Calibration) -> Recipe:
    """Everything automatic; UNPROVEN for synthetic inputs, and for so few that choosing by them is a lottery."""
    few = calibration.samples < FEW and pictures(graph) is None  # of pictures there are variants
    return UNPROVEN if few or not calibration.proven else Recipe()


def _plan(graph: Graph, calibration: Calibration, recipe: Recipe, report: Report) -> Plan:
    """The recipe, with what it leaves open settled by measurement."""
    learned = recipe.rounding == "learned" or recipe.weights != "int8"
    if recipe.method != AUTO and recipe.equalize is not None and (recipe.rounding is not None or learned):
        return Plan(recipe.method, recipe.equalize, False, learned)
    return settle(graph, calibration, recipe, report)


def _mixed(
    graph: Graph, plan: Plan, calibration: Calibration, recipe: Recipe, report: Report
) -> tuple[tuple[Sensitivity, ...], dict[str, int]]:
    """Bits per layer for the recipe's bytes or loss, measured on calibration samples that were not learned from."""
    fit, unseen = folds(at_most(calibration, SEARCHED))[0]
    draft = draft_of(drafts(graph, fit), plan)
    teacher = Teacher.of(graph, unseen)
    plain = replace(plan, searched=False)

    def learn(bits: Mapping[str, int]) -> Graph:
        return carry_out(plain, draft, teacher, fit, fit, bits)

    found = sensitivities(
        draft.graph, learn, teacher.score, lambda done, of: report("sensitivity of each layer", done / of)
    )
    if recipe.weight_bytes is not None:
        return tuple(found), within(found, recipe.weight_bytes)
    most = (recipe.max_loss if recipe.max_loss is not None else DEFAULT_LOSS) / 100
    allowed = most + teacher.changed(learn({}))  # what int8 costs already is not for the weights to save
    return tuple(found), for_loss(found, learn, teacher.changed, allowed)
