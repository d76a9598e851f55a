# SPDX-License-Identifier: Apache-2.0
"""Derivatives of the batched operators, and the quadratic form of the error at the outputs that is made of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import load, rand
from tests.unit.networks import random_network
from tests.unit.test_quantize_model import calibrated, samples, uneven_network
from tests.unit.test_quantize_rounding import LEARNED, deep_network
from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.passes.weights import windows_of
from tinyc.quantize import quantize
from tinyc.quantize.batched import differentiable
from tinyc.quantize.correct import with_biases
from tinyc.quantize.influence import Influence, influence, summed
from tinyc.quantize.layerwise import Memo, layers
from tinyc.quantize.recipe import FittingData, SettledRecipe, carry_out, draft_of, drafts
from tinyc.quantize.rounding import moments
from tinyc.quantize.score import Teacher, before_softmax
from tinyc.quantize.simulate import Batch

STEP = 2.0**-12


def network(tmp_path: Path, seed: int) -> tuple[Graph, dict[str, Array]]:
    graph = with_biases(normalize(load(random_network(seed), tmp_path)))
    return graph, {name: rand(seed + 50, 5, *graph.values[name].shape) for name in graph.inputs}


def outputs(graph: Graph, inputs: dict[str, Array]) -> dict[str, Array]:
    names = (*graph.outputs, *before_softmax(graph))
    return Batch(graph).run(inputs, names)


def shifted(graph: Graph, bias: str, channel: int, by: float) -> Graph:
    array = graph.consts[bias].copy()
    array[channel] += np.float32(by)
    return replace(graph, consts={**graph.consts, bias: array})


def variation(z: Array) -> float:
    rows = z.reshape(len(z), -1).astype(np.float64)
    return float(np.square(rows - rows.mean(axis=0)).sum(axis=1).mean())


@pytest.mark.parametrize("seed", range(12))
def test_slopes_are_those_of_the_outputs(tmp_path: Path, seed: int) -> None:
    """A layer's bias is shifted: the outputs move as the slopes, summed over positions, say, but for kinks."""
    graph, inputs = network(tmp_path, seed)
    assert differentiable(graph)
    slopes_of_layers = influence(graph, inputs)
    assert slopes_of_layers is not None
    before = outputs(graph, inputs)
    units = {name: variation(z) for name, z in before.items()}
    right = []
    for node in layers(graph):
        bias = node.inputs[2]
        for channel in range(min(3, len(graph.consts[bias]))):
            ends = [outputs(shifted(graph, bias, channel, sign * STEP), inputs) for sign in (1, -1)]
            slope = {name: (ends[0][name] - ends[1][name]).astype(np.float64) / (2 * STEP) for name in before}
            expected = sum(np.square(slope[n]).reshape(5, -1).sum(axis=1) / units[n] for n in before)
            energies = np.square(slopes_of_layers.slopes[node.name][..., channel].sum(axis=2)).sum(axis=1)
            right.append(np.isclose(energies, expected, rtol=0.05, atol=1e-3 * float(np.max(expected))))
    assert np.mean(right) > 0.9


def test_summed_rows_are_the_sums_over_windows(tmp_path: Path) -> None:
    graph, calibration = calibrated(deep_network(), tmp_path)
    graph = with_biases(graph)
    slopes_of_layers = influence(graph, calibration.inputs)
    assert slopes_of_layers is not None
    x = Batch(graph).run(calibration.inputs, [name for name in graph.values if name not in graph.consts])
    for node in layers(graph):
        w, slopes = graph.consts[node.inputs[1]], slopes_of_layers.slopes[node.name]
        taps = windows_of(node, w)(x[node.inputs[0]][slopes_of_layers.samples], None)
        groups = len(taps)
        rows = summed(slopes, taps, groups)
        count, directions, positions, channels = slopes.shape
        assert rows.shape == (channels, count * directions, taps.shape[2])
        for channel in (0, channels - 1):
            of = taps[channel * groups // channels if groups > 1 else 0].reshape(count, positions, -1)
            expected = np.einsum("ndp,npk->ndk", slopes[..., channel], of).reshape(count * directions, -1)
            np.testing.assert_allclose(rows[channel], expected, rtol=1e-4, atol=1e-4)


def test_channels_that_reach_no_output_keep_their_own_error(tmp_path: Path) -> None:
    graph, calibration = calibrated(deep_network(), tmp_path)
    graph = with_biases(graph)
    node = layers(graph)[0]
    w = graph.consts[node.inputs[1]]
    x = Batch(graph).run(calibration.inputs, [node.inputs[0]])[node.inputs[0]]
    step = float(np.abs(x).max()) / 127
    x = (np.rint(x / step) * step).astype(np.float32)
    plain = moments(windows_of(node, w), x, x, (step, 127.0))
    positions = int(np.prod(graph.values[node.outputs[0]].shape[1:3]))
    slopes = rand(3, 4, 54, positions, len(w))
    slopes[..., 1] = 0
    once = slopes[3, 0, :, 2:].copy()
    slopes[..., 2:] = 0
    slopes[3, 0, :, 2:] = once  # in one sample: a bias can take all of the error
    by_influence = Influence([0, 2, 4, 6], {node.name: slopes}).moments(node, w, x, x, plain)
    assert by_influence is not None
    assert len(by_influence.h) == len(w)
    for channel in range(1, len(w)):
        np.testing.assert_array_equal(by_influence.h[channel], plain.h[0])
    assert np.linalg.eigvalsh(by_influence.h).min() > -1e-12
    assert not np.allclose(by_influence.h[0], plain.h[0])
    np.testing.assert_allclose(by_influence.h, by_influence.cross)  # the same inputs on both sides
    traces = np.einsum("gkk->g", by_influence.h)
    np.testing.assert_allclose(traces, np.full(len(w), np.trace(plain.h[0])))
    assert Influence([0], {}).moments(node, w, x, x, plain) is None
    few = Influence([0, 2, 4, 6], {node.name: slopes[:, :53]})  # 27 taps, and not 8 rows for each
    assert few.moments(node, w, x, x, plain) is None


def test_what_was_learned_before_is_learned_again(tmp_path: Path) -> None:
    """With a memo of other widths or without one: the same integers."""
    graph, calibration = calibrated(uneven_network(), tmp_path)
    plan = SettledRecipe("minmax", False, True)
    draft = draft_of(drafts(graph, calibration), plan)
    data = FittingData(calibration, calibration)
    names = [node.name for node in layers(draft.graph)]
    memo = Memo()
    for narrow in ([], [names[-1]], names[:1], names):
        bits = dict.fromkeys(narrow, 4)
        alone = carry_out(plan, draft, data, bits, memo=Memo())
        again = carry_out(plan, draft, data, bits, memo=memo)
        for name, array in alone.consts.items():
            np.testing.assert_array_equal(again.consts[name], array)
    assert len(memo.weights) < 4 * len(names)  # what they have in common was learned once


@pytest.mark.parametrize("seed", [0, 2])
def test_the_error_at_the_outputs_gets_smaller(tmp_path: Path, seed: int) -> None:
    """4 bits, a network with closed relus: less error at the outputs than with each layer for itself."""
    graph, calibration = calibrated(deep_network(), tmp_path)
    unseen = Teacher.of(graph, samples(graph, 60, seed=70 + seed))
    plan = SettledRecipe("minmax", False, True)
    draft = draft_of(drafts(graph, calibration), plan)
    bits = dict.fromkeys((node.name for node in layers(draft.graph)), 4)
    data = FittingData(calibration, calibration)
    felt, plain = (carry_out(plan, draft, data, bits, memo=Memo(felt=felt)) for felt in (True, False))
    assert unseen.score(felt) != unseen.score(plain)
    assert unseen.score(felt) > unseen.score(plain) - 0.3


def test_equal_arguments_give_equal_models(tmp_path: Path) -> None:
    graph, calibration = calibrated(deep_network(), tmp_path)
    recipe: Recipe = replace(LEARNED, weights="int4")
    first, second = (quantize(graph, calibration, recipe).graph for _ in range(2))
    for name, array in first.consts.items():
        np.testing.assert_array_equal(second.consts[name], array)
