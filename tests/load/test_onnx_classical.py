# SPDX-License-Identifier: Apache-2.0
"""Models of classical learning: what they compute in unless the user asks, and how their answers are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from tests.load.onnx_forests import model, saved
from tinyc import api
from tinyc.base.errors import TinycError
from tinyc.bench.run import BenchOptions, run_bench
from tinyc.options.build import Options
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.quantizing import quantize_file

ML = {"domain": "ai.onnx.ml"}
WEIGHTS = [2.0, 0.01, -1.0, 0.02, -1.0, -0.03]  # of features of two units: 0 to 1, and 0 to 1,000
NAMES = ["red", "green", "blue"]


def linear(names: bool = False, outputs: tuple[str, ...] = ("label", "p")) -> onnx.ModelProto:
    """Three classes 3, 7, 9, or with names, of two features."""
    labels = {"classlabels_strings": NAMES} if names else {"classlabels_ints": [3, 7, 9]}
    node = helper.make_node(
        "LinearClassifier", ["x"], ["label", "p"], coefficients=WEIGHTS, intercepts=[0.1, 0.2, 9.0],
        post_transform="SOFTMAX", **labels, **ML,
    )  # fmt: skip
    kinds = {"label": TensorProto.STRING if names else TensorProto.INT64, "p": TensorProto.FLOAT}
    return model([node], 2, [(name, kinds[name]) for name in outputs])


def labelled(classifier_model: onnx.ModelProto, folder: Path) -> Path:
    """40 samples with the classes that ONNX Runtime gives them, but of the first three, which are wrong."""
    x = (np.random.default_rng(3).uniform(size=(40, 1, 2)) * [1, 1000]).astype(np.float32)
    session = onnxruntime.InferenceSession(classifier_model.SerializeToString())
    y = np.concatenate([session.run(["label"], {"x": row})[0] for row in x])
    assert len(set(y)) == 3
    y[:3] = np.roll(np.unique(y), 1)[np.searchsorted(np.unique(y), y[:3])]
    np.savez(folder / "data.npz", x=x[:, 0], y=y.astype(str) if y.dtype == object else y)
    return folder / "data.npz"


@pytest.mark.parametrize("names", [False, True])
def test_a_classifier_stays_in_float32_and_its_class_is_counted(names: bool, tmp_path: Path) -> None:
    """Without options it computes what ONNX Runtime does; the class is the output, numbers and texts alike."""
    classifier_model = linear(names)
    data = labelled(classifier_model, tmp_path)
    report = api.build(saved(classifier_model, tmp_path), "host", out=tmp_path / "out", inputs=data, samples=0).report
    assert report.accuracy is not None
    assert (report.accuracy.integers, report.accuracy.top1_int) == ("float32", 37 / 40)


def test_integers_are_had_by_asking_and_measured_by_the_class(tmp_path: Path) -> None:
    classifier_model = linear()
    data = labelled(classifier_model, tmp_path)
    report = api.build(
        saved(classifier_model, tmp_path), "host", out=tmp_path / "out", calibration=data, inputs=data, samples=0,
        precision="integer",
    ).report  # fmt: skip
    accuracy = report.accuracy
    assert accuracy is not None
    assert (accuracy.integers, accuracy.top1_float) == ("int8", 37 / 40)
    assert accuracy.agreement is not None
    assert abs(accuracy.agreement - 1) < 0.2
    assert accuracy.top1_int is not None
    assert abs(accuracy.top1_int - accuracy.top1_float) <= 1 - accuracy.agreement + 1e-9


def test_other_weights_for_code_in_float32_are_float32_too(tmp_path: Path) -> None:
    path = saved(linear(), tmp_path)
    first = api.build(path, "host", out=tmp_path / "first", weights_blob=True, samples=1)
    after = api.build(path, "host", out=tmp_path / "next", weights_blob=True, like=first.folder, samples=1)
    assert after.report.passed


@pytest.mark.parametrize("suffix", [".onnx", ".tflite"])
def test_a_class_is_not_saved_and_the_hint_names_a_way(suffix: str, tmp_path: Path) -> None:
    data, path = labelled(linear(), tmp_path), saved(linear(), tmp_path)
    options = Options(board="host", calibration=data)
    with pytest.raises(TinycError, match=r"cannot be saved|does not hold") as caught:
        quantize_file(path, options, None, tmp_path / f"q{suffix}", Progress())
    assert (caught.value.hint or "").startswith("--outputs NAME")  # the other format has no classes either
    quantize_file(path, replace(options, outputs=("p",)), None, tmp_path / f"q{suffix}", Progress())
    assert (tmp_path / f"q{suffix}").exists()


@pytest.mark.parametrize("names", [False, True])
def test_quantizing_tells_the_loss_by_the_class(names: bool, tmp_path: Path) -> None:
    classifier_model = linear(names)
    data = labelled(classifier_model, tmp_path)
    report = quantize_file(
        saved(classifier_model, tmp_path), Options(board="host", calibration=data), data, None, Progress()
    )
    (top,) = (quality for quality in report.diagnosis.qualities if quality.name == "top-1")
    assert top.float_model == 37 / 40
    assert report.diagnosis.sqnr_db is not None


def test_a_model_of_a_label_alone_is_quantized(tmp_path: Path) -> None:
    classifier_model = linear(outputs=("label",))
    data = labelled(classifier_model, tmp_path)
    report = quantize_file(
        saved(classifier_model, tmp_path), Options(board="host", calibration=data), data, None, Progress()
    )
    assert report.diagnosis.sqnr_db is None
    assert [quality.name for quality in report.diagnosis.qualities] == ["top-1"]


def test_a_bench_counts_texts_of_the_runtime(tmp_path: Path) -> None:
    classifier_model = linear(names=True)
    data = labelled(classifier_model, tmp_path)
    options = BenchOptions(("host",), build=Options(board="", inputs=data, samples=0), seconds=0.01)
    (result,) = run_bench([saved(classifier_model, tmp_path)], options, Progress()).models
    for run in result.references:
        assert (run.parity.agreement, run.parity.top1_reference, run.parity.top1_board) == (1.0, 0.925, 0.925)


def test_trees_have_nothing_to_quantize(tmp_path: Path) -> None:
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2],
        nodes_featureids=[0, 0, 0], nodes_values=[0.5, 0.0, 0.0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0], target_treeids=[0, 0], target_nodeids=[1, 2],
        target_ids=[0, 0], target_weights=[1.0, 2.0], **ML,
    )  # fmt: skip
    file = saved(model([node], 2, [("y", TensorProto.FLOAT)]), tmp_path)
    with pytest.raises(TinycError, match=r"decision trees .* integers as they are") as refused:
        quantize_file(file, Options(board="host"), None, None, Progress())
    assert "tinyc build" in refused.value.hint
