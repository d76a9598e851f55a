# SPDX-License-Identifier: Apache-2.0
"""What is searched for is never worse than the plain setting, by judges that nothing was fitted to."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import build, load, op, rand
from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import Calibration
from tinyc.quantize.recipe import SettledRecipe
from tinyc.quantize.score import Teacher

settling = importlib.import_module("tinyc.quantize.settle")  # the package has a function of that name
SIDE = 16
PLAIN = SettledRecipe("minmax", equalize=False, learned=False)


def classifier(folder: Path) -> Graph:
    nodes = [
        op("Conv", "x w", "h", strides=[4, 4]),
        op("Relu", "h", "r"),
        op("Conv", "r v", "c"),
        op("GlobalAveragePool", "c", "p"),
        op("Flatten", "p", "f"),
        op("Softmax", "f", "y", axis=1),
    ]
    consts = {"w": rand(1, 6, 3, 4, 4), "v": 3 * rand(2, 4, 6, 1, 1)}
    return normalize(load(build(nodes, {"x": [1, 3, SIDE, SIDE]}, ["y"], consts), folder))


def pictures(graph: Graph, count: int = 40) -> Calibration:
    x = np.random.default_rng(3).uniform(0, 1, (count, *graph.values["x"].shape)).astype(np.float32)
    return Calibration({"x": x}, "test", proven=True)


def settled(graph: Graph, recipe: Recipe) -> SettledRecipe:
    return settling.settle(graph, pictures(graph), recipe, lambda what, share: None)


Judged = Callable[[SettledRecipe, int | None], float]


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Judged], None]:
    """Makes judges say what they are told to, on eight parts."""

    def told(says: Judged) -> None:
        def measured(trial: object, plan: SettledRecipe, bits: int | None) -> object:
            return settling._Scores((), tuple(says(plan, bits) + 0.01 * part for part in range(8)))

        monkeypatch.setattr(settling._Trial, "_measured", measured)

    return told


def test_the_plain_setting_is_taken_where_it_is_best(judged: Callable[[Judged], None], tmp_path: Path) -> None:
    judged(lambda plan, bits: 20.0 if plan == PLAIN else 19.99)  # by less than chance: all the same
    assert settled(classifier(tmp_path), Recipe(augment=False)) == PLAIN


def test_another_method_is_tried_before_it(judged: Callable[[Judged], None], tmp_path: Path) -> None:
    def says(plan: SettledRecipe, bits: int | None) -> float:
        if bits is None:
            return {"minmax": 30.0, "mse": 29.0}.get(plan.method, 10.0)
        return 20.0 if plan == PLAIN else 21.0 if plan.method == "mse" else 19.0

    judged(says)
    taken = settled(classifier(tmp_path), Recipe(augment=False))
    assert (taken.method, taken.learned) == ("mse", True)


def test_learned_weights_show_what_equalizing_is_worth(judged: Callable[[Judged], None], tmp_path: Path) -> None:
    """Rounded to nearest it loses, learned it gains."""

    def says(plan: SettledRecipe, bits: int | None) -> float:
        return 20.0 + (2.0 if plan.learned else -2.0) * plan.equalize + plan.learned

    judged(says)
    taken = settled(classifier(tmp_path), Recipe(augment=False))
    assert taken.equalize
    assert taken.learned


@pytest.mark.parametrize("augment", [False, True])
def test_what_is_taken_is_as_good_as_the_plain_setting(
    augment: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trials = []
    begin = settling._Trial.of
    monkeypatch.setattr(settling._Trial, "of", lambda *words: trials.append(begin(*words)) or trials[-1])
    graph = classifier(tmp_path)
    taken = settled(graph, Recipe(augment=augment))
    (trial,) = trials
    scores = [np.mean(trial.measured(plan, 8).decibels) for plan in (taken, PLAIN)]
    assert scores[0] >= scores[1]


def test_pictures_that_judge_are_varied_among_themselves(tmp_path: Path) -> None:
    """Judges and their variants: of none that anything is fitted to, and each with its variants in one part."""
    graph = classifier(tmp_path)
    whole = pictures(graph)
    marked = {"x": whole.inputs["x"] * 0 + np.arange(40, dtype=np.float32).reshape(-1, 1, 1, 1, 1)}
    fit, unseen = settling.parted(Calibration(marked, "test", proven=True))
    trial = settling._Trial.of(graph, fit, unseen, Recipe(augment=True), ())
    seen, judging = (np.unique(part.inputs["x"].mean(axis=(1, 2, 3, 4))) for part in (fit, unseen))
    assert not set(seen) & set(judging)
    samples = [len(part) for part in trial.unseen]
    assert sum(samples) > 3 * unseen.samples
    counts = [len(range(part, unseen.samples, len(trial.unseen))) for part in range(len(trial.unseen))]
    originals = [part.inputs["x"][:count] for part, count in zip(trial.unseen, counts, strict=True)]
    assert set(np.concatenate(originals).mean(axis=(1, 2, 3, 4))) == set(judging)


def test_a_sample_and_its_variants_are_in_one_part() -> None:
    x = np.array([0, 1, 2, 10, 11, 12, 20, 21, 22], np.float32)[:, None]
    teacher = Teacher({"x": x}, {"y": x}, decides=False, axes=(), quantities={}, centres={"y": x[0]})
    parts: list[Array] = [part.inputs["x"].ravel() for part in teacher.parts(2, of=3)]
    assert [part.tolist() for part in parts] == [[0, 2, 10, 12, 20, 22], [1, 11, 21]]
    assert [len(part) for part in teacher.parts(2)] == [5, 4]


def filter_of_pictures(folder: Path) -> Graph:
    """As many numbers as go in come out, and each may be far off."""
    nodes = [op("Conv", "x w", "h", pads=[1, 1, 1, 1]), op("Relu", "h", "r"), op("Conv", "r v", "y")]
    consts = {"w": rand(1, 6, 3, 3, 3) / 5, "v": rand(2, 3, 6, 1, 1)}
    return normalize(load(build(nodes, {"x": [1, 3, SIDE, SIDE]}, ["y"], consts), folder))


@pytest.mark.parametrize("rare", [1, 4])
def test_what_rare_inputs_reach_is_not_clipped_for_the_others(
    judged: Callable[[Judged], None], tmp_path: Path, rare: int
) -> None:
    """One of twenty inputs reaches further: ranges that leave it out are better for nineteen, and worse for all."""
    judged(lambda plan, bits: 30.0 if plan.method == "percentile" else 20.0)
    graph, rng = filter_of_pictures(tmp_path), np.random.default_rng(0)
    x = rng.normal(0, 1, (80, *graph.values["x"].shape)).clip(-2, 2)
    x[::20, ..., :3, :3] *= rare
    data = Calibration({"x": x.astype(np.float32)}, "test", proven=True)
    taken = settling.settle(graph, data, Recipe(augment=False, equalize=False), lambda what, share: None)
    assert taken.method == ("percentile" if rare == 1 else "minmax")
