# SPDX-License-Identifier: Apache-2.0
"""Room for inputs unlike those seen: what an anomaly detector is there to find is in no calibration set.

An autoencoder tells what it knows from what it does not by how well it gives an input back. Ranges that fit what is
normal clip the rest, which changes that error, and so the decision. So ranges and weights are fitted to variants of
the calibration inputs, too: higher, lower, and more varied ones. What would fit normal inputs alone is left out:
channels are not equalized, since those that only anomalies reach would be enlarged most, and ranges are all that the
variants reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import AUTO, Recipe
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.recipe import SEARCHED, at_most, drafts, rounded_to_nearest
from tinyc.quantize.score import Teacher
from tinyc.quantize.search import folds, with_float_weights
from tinyc.quantize.simulate import Batch, sqnr_db

_TRIED = (1.4, 1.2)
_MOST_LOST_DB = 3.0  # half a bit, at the output on normal inputs
_GIVEN_BACK_DB = 3.0  # half of what varies in an input is in the output
_GRAIN = 2.0**-15  # of the largest input: sums of squares are integers, and the same in any order


def with_room(recipe: Recipe, graph: Graph, calibration: Calibration) -> Recipe:
    """The recipe with a headroom, 1 where nothing beyond the calibration inputs counts. With more, or for a
    reconstruction, what it leaves open is min-max ranges of channels that are not equalized."""
    asked = recipe.headroom
    if asked is None and (
        recipe.like is not None or recipe.activations != "int8" or not reconstructs(graph, calibration)
    ):
        asked = 1.0
    if asked == 1:
        return replace(recipe, headroom=1.0)
    method = "minmax" if recipe.method == AUTO else recipe.method
    headroom = asked if asked is not None else _affordable(graph, calibration)
    return replace(recipe, headroom=headroom, method=method, equalize=bool(recipe.equalize))


def reconstructs(graph: Graph, calibration: Calibration) -> bool:
    """Whether the model gives its only input back through fewer numbers than that has, as far as the user's inputs
    say."""
    if not calibration.proven or graph.states or len(graph.inputs) != 1 or len(graph.outputs) != 1:
        return False
    x, y = graph.values[graph.inputs[0]], graph.values[graph.outputs[0]]
    if (x.shape, x.dtype, y.dtype) != (y.shape, "f32", "f32") or _narrowest(graph) >= x.elements:
        return False
    inputs = at_most(calibration, SEARCHED).inputs
    mean = _level(inputs[x.name])[0]
    return sqnr_db(inputs[x.name] - mean, Batch(graph).run(inputs)[y.name] - mean) >= _GIVEN_BACK_DB


def _narrowest(graph: Graph) -> int:
    """Elements of the values through which all that the outputs are made of goes, where these are fewest."""
    producers = {name: index for index, node in enumerate(graph.nodes) for name in node.outputs}
    inputs = [(name, index) for index, node in enumerate(graph.nodes) for name in node.inputs]
    last = {name: index for name, index in inputs if name and name not in graph.consts}
    last |= dict.fromkeys(graph.outputs, len(graph.nodes))
    return min(
        sum(graph.values[name].elements for name, end in last.items() if producers.get(name, -1) <= index < end)
        for index in range(len(graph.nodes))
    )


def _affordable(graph: Graph, calibration: Calibration) -> float:
    """The largest headroom that is tried whose ranges cost no more than _MOST_LOST_DB on samples that were left out."""
    parts = [(fit, Teacher.of(graph, unseen.inputs)) for fit, unseen in folds(at_most(calibration, SEARCHED))]

    def score(headroom: float) -> float:
        return float(np.mean([_with_ranges(graph, roomy(fit, headroom), teacher) for fit, teacher in parts]))

    least = score(1.0) - _MOST_LOST_DB
    return next((headroom for headroom in _TRIED if score(headroom) >= least), 1.0)


def _with_ranges(graph: Graph, fit: Calibration, teacher: Teacher) -> float:
    """Score of the model with float weights whose activations have all of the ranges that are seen."""
    draft = drafts(graph, fit, counted=False, equalized=False)[False]
    batch = with_float_weights(draft.graph, rounded_to_nearest(draft, "minmax"))
    return teacher.score_of(batch.run(teacher.inputs, tuple(teacher.expected)))


def roomy(calibration: Calibration, headroom: float | None) -> Calibration:
    """The samples, and three variants of each, by input: with `headroom` times its distance to the mean of all
    elements, and higher and lower by as much as that widens the band of their standard deviation, not negative where
    no element is. Integer inputs stay as they are, and so do the sequences of a model with state."""
    if headroom is None or headroom <= 1:
        return calibration
    inputs = {name: _varied(array, headroom) for name, array in calibration.inputs.items()}
    return replace(calibration, inputs=inputs, variants=3 * calibration.samples)


def _varied(x: Array, headroom: float) -> Array:
    if x.dtype != np.float32:
        return np.concatenate([x] * 4)
    _, deviation = _level(x)
    moved = 2 * (headroom - 1) * deviation
    return np.concatenate([x, *(_positive(x, v, headroom) for v in (_stretched(x, headroom), x + moved, x - moved))])


def stretched(inputs: Mapping[str, Array], times: float) -> dict[str, Array]:
    """Inputs at `times` their distance to the mean of all elements, and not negative where none is; integers stay as
    they are."""
    return {name: _positive(array, _stretched(array, times), times) for name, array in inputs.items()}


def _stretched(x: Array, times: float) -> Array:
    if x.dtype != np.float32:
        return x
    mean, _ = _level(x)
    return (mean + times * (x - mean)).astype(np.float32)


def _positive(x: Array, variant: Array, times: float) -> Array:
    """Magnitudes, powers and pixels are never negative, and the logarithm or root of such an input has no value: where
    all that is seen is positive, variants go down to the least of it by a factor."""
    if x.dtype != np.float32 or x.min() < 0:
        return variant.astype(x.dtype)
    return np.maximum(variant, x.min() / np.float32(times)).astype(np.float32)


def _level(x: Array) -> tuple[float, float]:
    """Mean and standard deviation of all elements, the same on every processor."""
    unit = float(np.abs(x).max()) * _GRAIN
    if unit == 0:
        return 0.0, 0.0
    grains = np.rint(x / unit).astype(np.int64)
    total, squares = int(grains.sum()), int(np.square(grains).sum())
    return total / x.size * unit, float(np.sqrt(x.size * squares - total**2)) / x.size * unit
