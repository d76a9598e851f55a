# SPDX-License-Identifier: Apache-2.0
"""Metrics of tasks, by hand and by scikit-learn, functions of the user's, and that the search obeys them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tinyc as compiler
from tests.cli.test_cli import Ran, tinyc, write_model  # noqa: F401  a fixture
from tests.load.onnx_models import build, load, op, rand
from tinyc.base.errors import TinycError
from tinyc.ir.graph import Array, Graph
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.options.words import build_arguments
from tinyc.passes import normalize
from tinyc.quantize import Calibration, quantize, weight_bytes
from tinyc.quantize.judge import judge_of
from tinyc.quantize.metrics import METRICS, mean_average_precision
from tinyc.quantize.recipe import drafts, rounded_to_nearest
from tinyc.quantize.score import Teacher, left_out, shares
from tinyc.quantize.search import searched
from tinyc.quantize.settle import _unbeaten, parted
from tinyc.quantize.simulate import Batch

CLASSES, WIDTH = 5, 12


def graph_of(folder: Path, *, several: bool = False) -> Graph:
    """Two layers; `several`: the output of the first one, too."""
    nodes = [op("Gemm", "x w", "h"), op("Relu", "h", "r"), op("Gemm", "r v b", "y")]
    constants = {"w": rand(1, WIDTH, 9), "v": rand(2, 9, CLASSES), "b": rand(3, CLASSES)}
    return normalize(load(build(nodes, {"x": [1, WIDTH]}, ["y", "r"] if several else ["y"], constants), folder))


def labelled(graph: Graph, count: int = 96, seed: int = 5) -> Calibration:
    """Samples, and what the float model says of them, wrong for one in ten."""
    x = rand(seed, count, 1, WIDTH)
    labels = Batch(graph).run({"x": x})["y"].reshape(count, -1).argmax(axis=1)
    labels[::10] = (labels[::10] + 1) % CLASSES
    return Calibration({"x": x}, "test", proven=True, labels=labels)


def figure(name: str, y: Array, labels: Array, x: Array | None = None) -> float:
    return METRICS[name][0](y, labels, np.zeros((len(y), 1)) if x is None else x)


def test_figures_by_hand() -> None:
    y = np.array([[3.0, 1, 2], [1, 5, 0], [0, 1, 2], [1, 2, 0]])  # classes 0, 1, 2, 1
    labels = np.array([0, 1, 1, 1])
    assert figure("top-1", y, labels) == 0.75
    assert figure("F1", y, labels) == pytest.approx((1 + 2 * 2 / 5) / 2)
    assert figure("IoU", y, labels) == pytest.approx((1 + 2 / 3 + 0) / 3)  # class 2 is nowhere, and chosen once
    assert figure("AUC", y, labels) == pytest.approx(1 / 6)  # scores 2 of class 0; 0, 2, 0 of class 1


def test_figures_are_those_of_scikit_learn() -> None:
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    f1_score, jaccard_score, roc_auc_score = metrics.f1_score, metrics.jaccard_score, metrics.roc_auc_score
    rng = np.random.default_rng(1)
    y, labels = rng.standard_normal((200, CLASSES)), rng.integers(0, CLASSES, 200)
    chosen = y.argmax(axis=1)
    assert figure("top-1", y, labels) == pytest.approx((chosen == labels).mean())
    assert figure("F1", y, labels) == pytest.approx(f1_score(labels, chosen, average="macro"))
    assert figure("IoU", y, labels) == pytest.approx(jaccard_score(labels, chosen, average="macro"))
    two = labels % 2
    assert figure("AUC", y, two) == pytest.approx(roc_auc_score(two, y[:, -1]))
    errors = np.square(y - 1).mean(axis=1)
    assert figure("AUC", y, two, np.ones_like(y)) == pytest.approx(roc_auc_score(two, errors))
    many = rng.integers(0, 2, y.shape)
    assert figure("F1", y, many) == pytest.approx(f1_score(many, y >= 0.5, average="macro"))
    assert figure("IoU", y, many) == pytest.approx(jaccard_score(many, y >= 0.5, average="macro"))


def test_maps_of_classes_have_their_channels_first_or_last() -> None:
    rng = np.random.default_rng(2)
    y, labels = rng.standard_normal((6, 7, 8, 3)), rng.integers(0, 3, (6, 7, 8))
    chosen = y.argmax(axis=-1)
    both = [((chosen == k) & (labels == k)).sum() / ((chosen == k) | (labels == k)).sum() for k in range(3)]
    mean_share = float(np.mean(both))
    assert figure("IoU", y, labels) == pytest.approx(mean_share)
    assert figure("IoU", y.transpose(0, 3, 1, 2), labels) == pytest.approx(mean_share)
    assert figure("top-1", y.transpose(0, 3, 1, 2), labels) == pytest.approx((y.argmax(axis=-1) == labels).mean())


def test_no_channel_of_rmse_is_hidden_by_a_larger_one() -> None:
    rng = np.random.default_rng(3)
    truth = rng.uniform(0, 1, (500, 2)) * [50, 1]
    small, large = (truth + rng.standard_normal(truth.shape) * error for error in ([0.1, 0.1], [1.0, 0.002]))
    assert figure("RMSE", small, truth) == pytest.approx(
        (0.1 / truth[:, 0].std() + 0.1 / truth[:, 1].std()) / 2, rel=0.1
    )
    assert figure("RMSE", large, truth) < figure("RMSE", small, truth) / 3


def test_iou_of_boxes() -> None:
    labels = np.array([[0.0, 0, 2, 2], [1, 1, 3, 3]], np.float32)
    assert figure("IoU", labels, labels) == pytest.approx(1)
    assert figure("IoU", labels + np.array([1, 0, 1, 0]), labels) == pytest.approx(1 / 3)
    assert figure("IoU", labels + 9, labels) == 0


def detections(count: int, seed: int) -> tuple[Array, Array]:
    """[samples, 2 objects, 5] of two classes, and what a perfect detector says of them, with doubles."""
    rng = np.random.default_rng(seed)
    centers = np.stack([rng.uniform(0.2, 0.3, (count, 2)), rng.uniform(0.7, 0.8, (count, 2))], axis=1)
    sizes = rng.uniform(0.1, 0.2, (count, 2, 2))
    classes = rng.integers(0, 2, (count, 2))
    labels = np.concatenate([classes[..., None], centers, sizes], axis=2)
    scores = np.eye(2)[classes] * 0.9
    boxes = np.concatenate([centers, sizes, scores], axis=2)
    nothing = np.zeros((count, 6, 6))  # there are more boxes than numbers of a box
    return labels, np.concatenate([boxes, boxes * [1, 1, 1, 1, 0.8, 0.8], nothing], axis=1)


def test_mean_average_precision() -> None:
    labels, y = detections(20, 4)
    assert mean_average_precision(y, labels, y) == 1
    assert mean_average_precision(y.transpose(0, 2, 1), labels, y) == pytest.approx(1)  # channels first
    absent = np.concatenate([labels, np.full((20, 1, 5), -1.0)], axis=1)
    assert mean_average_precision(y, absent, y) == 1
    half = y.copy()
    half[:10, :, 0] += 5  # far away: half of the boxes are wrong, and their scores are as high
    assert 0.2 < mean_average_precision(half, labels, y) < 0.6
    half[:10, :, 4:] *= 0.5  # less sure of the wrong ones: precision is 1 up to the half of recall
    assert mean_average_precision(half, labels, y) == pytest.approx(0.5, abs=0.06)
    with pytest.raises(ValueError, match="mAP takes outputs"):
        mean_average_precision(y[0], labels, y)
    with pytest.raises(ValueError, match="no object"):
        mean_average_precision(y, labels + 7, y)


def test_shares_of_parts_are_their_own_figures_where_a_figure_is_a_mean(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    data = replace(labelled(graph), judge=judge_of("top-1", graph))
    teacher = Teacher.on(graph, data)
    assert teacher.best == pytest.approx(0.9, abs=0.01)
    parts = teacher.parts(4)
    outputs = [Batch(graph).run(part.inputs) for part in parts]
    own = [
        (out["y"].reshape(24, -1).argmax(axis=1) == part.labels).mean()
        for out, part in zip(outputs, parts, strict=True)
    ]
    assert shares(parts, outputs) == pytest.approx(own, abs=1e-6)
    assert left_out(teacher.parts(1), [Batch(graph).run(teacher.inputs)]) == [teacher.best]
    assert shares(Teacher.of(graph, data.inputs).parts(4), outputs) == []


def test_labels_go_with_their_samples(tmp_path: Path) -> None:
    x = np.arange(300, dtype=np.float32)[:, None]
    fit, unseen = parted(Calibration({"x": x}, "test", proven=True, labels=x[:, 0]))
    for part in (fit, unseen):
        np.testing.assert_array_equal(part.labels, part.inputs["x"][:, 0])


def test_several_inputs_and_outputs_come_by_name(tmp_path: Path) -> None:
    graph, seen = graph_of(tmp_path, several=True), []

    def metric(outputs: dict[str, Array], labels: Array, inputs: Array) -> float:
        seen.append(({name: array.shape for name, array in outputs.items()}, labels.shape, inputs.shape))
        return 1

    quantize(graph, labelled(graph), Recipe(metric=metric))
    shapes, count, (samples, width) = seen[0]
    assert shapes == {"y": (96, CLASSES), "r": (96, 9)}
    assert (count, samples, width) == ((96,), 96, WIDTH)


def test_what_the_metric_does_not_tell_the_error_decides(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    data = labelled(graph)
    plain, same = (quantize(graph, data, Recipe(metric=one)) for one in (None, lambda o, y, x: 7.0))
    assert same.plan == plain.plan
    for name, array in plain.graph.consts.items():
        np.testing.assert_array_equal(same.graph.consts[name], array)


def test_the_search_obeys_the_metric(tmp_path: Path) -> None:
    """One that wants outputs as small as may be takes ranges that the error would not, and equal ones as before."""
    graph = graph_of(tmp_path)
    data = Calibration({"x": labelled(graph, 3000).inputs["x"] ** 3}, "test", proven=True)  # with tails to clip
    draft = drafts(graph, data)[False]
    integer = rounded_to_nearest(draft, "minmax")

    def range_of(metric: Callable[..., float] | None) -> float:
        judge = None if metric is None else judge_of(metric, graph)
        quants = searched(draft.graph, integer, draft.stats, Teacher.on(graph, replace(data, judge=judge)))
        return quants["y"].scale[0]

    plain = range_of(None)
    assert range_of(lambda o, y, x: 7.0) == plain
    assert range_of(lambda o, y, x: -np.abs(o).max()) < plain
    assert range_of(lambda o, y, x: np.abs(o).max()) == integer.values["y"].quant.scale[0]


def test_plans_are_compared_by_the_metric_first() -> None:
    """By what is more than chance; then by the error of those that are left."""
    rows = [[0.9, 0.9, 0.91, 0.9], [0.5, 0.51, 0.5, 0.52], [0.9, 0.9, 0.9, 0.91]]
    assert _unbeaten(rows, np.inf) == [0, 2]
    assert _unbeaten([[0.1], [0.9]], np.inf) == [0, 1]  # one part cannot tell
    assert _unbeaten([[40.0], [40.5], [42.0]], 1.0) == [2]


def test_mixed_widths_and_max_loss_obey_the_metric(tmp_path: Path) -> None:
    """Where only the sign of one score counts, all weights may have 4 bits; where every digit counts, none may."""
    graph = graph_of(tmp_path)
    data = labelled(graph)
    floats = Batch(graph).run(data.inputs)["y"].reshape(96, -1)

    def coarse(outputs: Array, labels: Array, inputs: Array) -> float:
        return 1.0

    exact = {bytes(row): number for number, row in enumerate(data.inputs["x"].reshape(96, -1))}

    def strict(outputs: Array, labels: Array, inputs: Array) -> float:
        nearest = floats[[exact[bytes(row)] for row in inputs]]
        return 10 - 10 * float(np.abs(outputs - nearest).mean())

    results = [quantize(graph, data, Recipe(weights="auto", max_loss=1.0, metric=one)) for one in (coarse, strict)]
    assert set(results[0].bits.values()) == {4}
    assert set(results[1].bits.values()) == {8}
    budget = weight_bytes(results[0].graph) + 9 * CLASSES // 2 + 16
    assert (
        weight_bytes(quantize(graph, data, Recipe(weights="auto", weight_bytes=budget, metric=strict)).graph) <= budget
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return float('nan')", "returned nan, which is no finite number"),
        ("return float('inf')", "returned inf"),
        ("return None", "returned a NoneType, and no number"),
        ("return True", "returned a bool"),
        ("return outputs", r"returned an array \[96, 5\]"),
        ("return outputs[:, 99].mean()", r"IndexError.*mine.py, line 2"),
        ("outputs[:] = 0", "read-only"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return undefined", "NameError"),
    ],
)
def test_functions_that_fail(tmp_path: Path, body: str, message: str) -> None:
    graph = graph_of(tmp_path)
    (tmp_path / "mine.py").write_text(f"def score(outputs, labels, inputs):\n    {body}\n")
    with pytest.raises(TinycError, match=message):
        quantize(graph, labelled(graph), Recipe(metric=f"{tmp_path}/mine.py:score"))


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("def score(o, l, i): return 1", "scor", "no function 'scor'"),
        ("score = 3", "score", "no function 'score'"),
        ("import no_such_module_of_mine", "score", "fails as it is loaded: ModuleNotFoundError"),
        ("def score(:", "score", "SyntaxError"),
        ("raise SystemExit", "score", "SystemExit"),
        (None, "score", "cannot be read"),
    ],
)
def test_files_that_have_no_metric(tmp_path: Path, text: str | None, name: str, message: str) -> None:
    graph = graph_of(tmp_path)
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(TinycError, match=message) as raised:
        judge_of(f"{tmp_path}/mine.py:{name}", graph)
    assert raised.value.hint


def test_names_and_labels_that_do_not_fit(tmp_path: Path) -> None:
    graph = graph_of(tmp_path)
    data = labelled(graph)
    assert judge_of("auc", graph).name == "AUC"
    cases = [
        (data, "top1", "there is no metric 'top1'"),
        (replace(data, labels=None), "top-1", "needs labels"),
        (replace(data, labels=rand(1, 96, 2)), "RMSE", "do not fit"),
        (replace(data, labels=rand(1, 96)), "F1", "no numbers of classes"),
        (data, "AUC", "labels 0 and 1"),
        (replace(data, proven=False), "top-1", "no calibration data"),
    ]
    for calibration, name, message in cases:
        with pytest.raises(TinycError, match=message):
            quantize(graph, calibration, Recipe(metric=name))
    with pytest.raises(TinycError, match="--metric: 3 is a int"):
        Recipe(metric=3)


def test_the_command_line_and_python_have_it(tinyc, tmp_path: Path) -> None:  # noqa: F811
    model = write_model(tmp_path / "tiny.onnx")
    x = np.random.default_rng(3).standard_normal((40, 2, 6, 5)).astype(np.float32)
    np.savez(tmp_path / "data.npz", x=x, y=np.arange(40) % 3)
    helper, mine = tmp_path / "helper.py", tmp_path / "mine.py"
    helper.write_text("import numpy as np\n")
    body = "def right(o, y, x):\n    print('asked')\n    return (o.argmax(1) == y).mean()\n"
    mine.write_text(f"from helper import np\nprint('loaded')\n{body}")
    ran: Ran = tinyc("quantize", model, "-c", tmp_path / "data.npz", "--metric", f"{mine}:right", "--json")
    assert ran.code == 0, ran.err
    own, named = ran.json["diagnosis"]["qualities"][:2]  # its words went to stderr
    assert own["name"] == "mine.py:right"
    assert (own["float_model"], own["integer_model"]) == (named["float_model"], named["integer_model"])
    report = compiler.quantize(model, calibration=tmp_path / "data.npz", recipe=Recipe(metric="top-1"))
    assert [each.name for each in report.diagnosis.qualities] == ["top-1"]
    by_function = Recipe(metric=lambda o, y, x: -np.square(o).mean())
    report = compiler.quantize(model, calibration=tmp_path / "data.npz", recipe=by_function)
    assert report.diagnosis.qualities[0].float_model < 0
    words = build_arguments(Options(recipe=Recipe(metric=f"{mine}:right")))
    assert words[words.index("--metric") + 1] == "mine.py:right"


def test_nothing_beside_a_model_is_run(tinyc, tmp_path: Path) -> None:  # noqa: F811
    model = write_model(tmp_path / "tiny.onnx")
    for name in ("metric.py", "tiny.py", "tiny.metric.py", "conftest.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    assert tinyc("quantize", model, "--metric", "top-1").code == 2  # no data, so no labels
    assert tinyc("quantize", model).code == 0
    assert not (tmp_path / "ran").exists()
