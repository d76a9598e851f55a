# SPDX-License-Identifier: Apache-2.0
"""The verdict on accuracy: grades at their limits, in words, and limits that a user sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build as build_onnx
from tests.load.onnx_models import op
from tests.unit.reports import small_report
from tinyc.base.errors import Missed, TinycError
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.pipeline.building import verify_model
from tinyc.pipeline.progress import Progress
from tinyc.verify.report import Accuracy, CalibrationReport, Quality, Report
from tinyc.verify.verdict import AS_IN_FILE, Grade, check_limits, judge

FINE = Accuracy(450, 35.0, 0.99, 0.969, 0.971, source="test.npz")


def graded(accuracy: Accuracy | None, **changed: Any) -> Report:
    return replace(small_report(), accuracy=accuracy, **changed)


@pytest.mark.parametrize(
    ("changed", "grade", "words"),
    [
        ({}, "good", "top-1 96.9% -> 97.1%, agreement 99.0%, SQNR 35.0 dB; float -> int8 on 450 inputs of test.npz"),
        ({"sqnr_db": 20.0, "agreement": 0.98}, "good", "SQNR 20.0 dB"),
        ({"sqnr_db": 19.99}, "doubtful", "SQNR is below 20 dB"),
        ({"agreement": 0.979}, "doubtful", "agreement is below 98%"),
        ({"never_chosen": (2, 7)}, "doubtful", "classes 2, 7 are never chosen"),
        ({"never_chosen": tuple(range(10))}, "doubtful", "7 and 2 more are never chosen"),
        ({"top1_float": 0.95, "top1_int": 0.90}, "good", "95.0% -> 90.0%"),
        ({"top1_float": 0.951, "top1_int": 0.90}, "bad", "top-1 falls by 5.1 points"),
        ({"qualities": (Quality("AUC", 0.9, 0.8),)}, "bad", "AUC falls by 10.0 points"),
        ({"qualities": (Quality("MSE", 0.5, 0.75),)}, "good", "MSE 0.5 -> 0.75"),
        ({"on_calibration": True}, "good", "the calibration inputs"),
        ({"sqnr_db": None, "exact": True}, "good", "outputs equal to the float model's"),
    ],
)
def test_a_grade_has_its_reason(changed: dict[str, Any], grade: Grade, words: str) -> None:
    verdict = judge(graded(replace(FINE, **changed)))
    assert verdict.grade == grade
    assert words in verdict.sentence
    assert bool(verdict.reasons) == bool(verdict.remedy) == (grade in ("bad", "doubtful"))


def test_without_data_nothing_is_known() -> None:
    noise = CalibrationReport("synthetic", 32, proven=False)
    assert judge(graded(None, calibration=noise)).grade == "unknown"
    assert "not known" in judge(graded(None, calibration=noise)).sentence
    assert judge(graded(None)).says == AS_IN_FILE


def test_a_hurried_build_is_told_to_take_its_time() -> None:
    low = replace(FINE, sqnr_db=3.0)
    assert "leave out --effort fast" in judge(graded(low, arguments=("--effort", "fast"))).remedy
    assert "--effort fast" not in judge(graded(low)).remedy


def test_a_model_quantized_on_noise_is_told_to_take_typical_inputs() -> None:
    noise = CalibrationReport("synthetic", 32, proven=False)
    low = replace(FINE, sqnr_db=3.0)
    assert "--calibration FILE" in judge(graded(low, calibration=noise)).remedy
    assert "--calibration FILE" not in judge(graded(low, calibration=replace(noise, proven=True))).remedy
    assert judge(graded(FINE, calibration=noise)).remedy == ""


# Limits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "message", "code"),
    [
        ({"min_top1": 97.1}, None, 0),
        ({"min_top1": 97.2}, "top-1 is 97.10%, below --min-top1 97.2", 1),
        ({"min_agreement": 99.0}, None, 0),
        ({"min_agreement": 99.1, "min_top1": 99.0}, "top-1 .*; agreement is 99.00%, below --min-agreement 99.1", 1),
        ({"recipe": Recipe(min_sqnr=36)}, "SQNR is 35.00 dB, below --min-sqnr 36", 1),
    ],
)
def test_a_limit_is_kept(asked: dict[str, Any], message: str | None, code: int) -> None:
    options = Options(**asked)
    if message is None:
        check_limits(FINE, options, "kws.onnx")
        return
    with pytest.raises(TinycError, match=message) as raised:
        check_limits(FINE, options, "kws.onnx")
    assert raised.value.exit_code == code
    assert FINE.top1_float is not None
    too_much = 100 * FINE.top1_float < (options.min_top1 or 0)
    expected = "the float model itself has 9" if too_much else "tinyc quantize kws.onnx"
    assert expected in str(raised.value.hint)


def test_integers_are_not_blamed_for_what_the_float_model_lacks() -> None:
    less = replace(FINE, top1_float=0.93, top1_int=0.92)
    with pytest.raises(TinycError, match="below --min-top1 95") as raised:
        check_limits(less, Options(min_top1=95.0), "kws.onnx")
    assert "the float model itself has 93.00% on these inputs: train it further" in str(raised.value.hint)
    assert raised.value.missed == [Missed("top-1", "percent", 95.0, 92.0)]
    with pytest.raises(TinycError, match=r"below --min-top1 92\.5") as raised:
        check_limits(less, Options(min_top1=92.5), "kws.onnx")
    assert "tinyc quantize kws.onnx" in str(raised.value.hint)


@pytest.mark.parametrize("option", ["min_top1", "min_agreement"])
def test_a_limit_of_what_is_not_known_is_an_error(option: str) -> None:
    with pytest.raises(TinycError, match=f"--{option.replace('_', '-')} 50: .* is not known") as raised:
        check_limits(None, Options(**{option: 50.0}), "kws.onnx")
    assert raised.value.exit_code == 2
    assert "--inputs" in str(raised.value.hint)


def test_equal_outputs_keep_any_limit() -> None:
    check_limits(replace(FINE, sqnr_db=None, exact=True), Options(recipe=Recipe(min_sqnr=99)), "m.onnx")


def baseline(folder: Path, accuracy: Accuracy | None) -> Path:
    folder.mkdir()
    (folder / "report.json").write_text(json.dumps(graded(accuracy).to_json()))
    return folder


def test_a_baseline_is_a_limit_for_each_figure(tmp_path: Path) -> None:
    before = baseline(tmp_path / "old", replace(FINE, agreement=0.995, sqnr_db=34.0))
    with pytest.raises(TinycError, match=r"inaccurate: agreement is 99.00%, below the baseline's 99.50%\n") as raised:
        check_limits(FINE, Options(baseline=before), "kws.onnx")
    assert raised.value.exit_code == 1
    check_limits(FINE, Options(baseline=before / "report.json", max_drop=0.5), "kws.onnx")
    with pytest.raises(TinycError, match=r"below the baseline's 99.50% less 0.4 \(--max-drop\)"):
        check_limits(FINE, Options(baseline=before, max_drop=0.4), "kws.onnx")


def test_a_baseline_without_the_figures_is_no_limit_that_passes(tmp_path: Path) -> None:
    with pytest.raises(TinycError, match="no figure of accuracy") as raised:
        check_limits(FINE, Options(baseline=baseline(tmp_path / "old", None)), "kws.onnx")
    assert raised.value.exit_code == 2


# Measured ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """Two classes by the sign of the first number; beside it 30 inputs, of which only those after the 20th are near the
    border."""
    w = np.array([[1, -1], [0, 0], [0, 0], [0.5, 0.5]], np.float32)
    model = build_onnx([op("MatMul", "x w", "y")], {"x": (1, 4)}, ["y"], {"w": w})
    onnx.save(model, tmp_path / "m.onnx")
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (30, 4)).astype(np.float32)
    x[:20, 0] = np.sign(x[:20, 0]) * (0.5 + np.abs(x[:20, 0]))
    x[20:, 0] = np.where(np.arange(10) % 2, 1, -1) * np.float32(1e-4)
    np.savez(tmp_path / "m.calib.npz", x=x)
    np.savez(tmp_path / "test.npz", x=x, y=(x[:, 0] < 0).astype(np.int64))
    return tmp_path / "m.onnx"


def test_accuracy_is_of_all_inputs_given_and_the_proof_of_some(classifier: Path) -> None:
    inputs = classifier.with_name("test.npz")
    report = verify_model(classifier, Options(board="host", inputs=inputs, samples=20), Progress())
    assert (report.verify.inputs, report.verify.mismatches) == (20, 0)
    accuracy = report.accuracy
    assert accuracy is not None
    assert (accuracy.inputs, accuracy.source, accuracy.on_calibration, accuracy.top1_float) == (
        30,
        "test.npz",
        False,
        1.0,
    )
    assert accuracy.top1_int is not None
    assert accuracy.top1_int < 1  # of the first twenty it is 1
    first = verify_model(classifier, Options(board="host", inputs=inputs, samples=30), Progress())
    assert first.accuracy == accuracy


def test_the_metric_that_is_asked_for_comes_first(classifier: Path, tmp_path: Path) -> None:
    inputs = classifier.with_name("test.npz")
    (tmp_path / "own.py").write_text(
        "def share(outputs, labels, inputs):\n    return float(len(labels) == len(inputs))\n"
    )
    options = Options(board="host", calibration=inputs, inputs=inputs, effort="fast")
    for metric, name in (("F1", "F1"), (f"{tmp_path}/own.py:share", "own.py:share")):
        report = verify_model(classifier, replace(options, recipe=Recipe(metric=metric)), Progress())
        assert report.accuracy is not None
        assert report.accuracy.metric == report.accuracy.qualities[0].name == name
        assert judge(report).says.startswith(f"{name} 1 -> ")
        assert ", top-1 100.0% -> " in judge(report).says
    without = replace(options, inputs=classifier.with_name("m.calib.npz"), recipe=Recipe(metric="F1"))
    report = verify_model(classifier, without, Progress())
    assert report.accuracy is not None
    assert report.accuracy.metric is None  # these inputs have no labels


def test_a_share_that_falls_is_bad_whatever_it_is_called() -> None:
    for name in ("AUC", "mAP", "IoU", "F1"):
        lost = replace(FINE, metric=name, qualities=(Quality(name, 0.9, 0.84),))
        assert f"{name} falls by 6.0 points" in judge(graded(lost)).sentence


def test_calibration_inputs_are_named_as_such(classifier: Path) -> None:
    report = verify_model(classifier, Options(board="host"), Progress())
    assert report.accuracy is not None
    assert (report.accuracy.on_calibration, report.accuracy.source) == (True, "m.calib.npz")
    assert judge(report).says.endswith("30 inputs of m.calib.npz, the calibration inputs")


def test_a_build_below_its_limit_fails(classifier: Path) -> None:
    options = Options(board="host", inputs=classifier.with_name("test.npz"), min_top1=100.0)
    with pytest.raises(TinycError, match="below --min-top1 100") as raised:
        verify_model(classifier, options, Progress())
    assert raised.value.exit_code == 1


def test_a_class_that_is_never_chosen_is_named(classifier: Path) -> None:
    """Of the inputs near the border alone the integers see nothing."""
    x = np.load(classifier.with_name("test.npz"))["x"][20:]
    np.savez(classifier.with_name("test.npz"), x=x, y=(x[:, 0] < 0).astype(np.int64))
    report = verify_model(classifier, Options(board="host", inputs=classifier.with_name("test.npz")), Progress())
    assert report.accuracy is not None
    assert report.accuracy.never_chosen == (1,)
    assert "class 1 is never chosen" in judge(report).reasons
    assert judge(report).grade == "bad"


def test_a_regression_has_the_error_that_its_targets_tell(tmp_path: Path) -> None:
    w = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    onnx.save(build_onnx([op("MatMul", "x w", "y")], {"x": (1, 4)}, ["y"], {"w": w}), tmp_path / "r.onnx")
    x = np.random.default_rng(1).standard_normal((40, 4)).astype(np.float32)
    np.savez(tmp_path / "r.npz", x=x, y=x @ w)
    options = Options(board="host", inputs=tmp_path / "r.npz", calibration=tmp_path / "r.npz")
    accuracy = verify_model(tmp_path / "r.onnx", options, Progress()).accuracy
    assert accuracy is not None
    assert (accuracy.agreement, accuracy.top1_int, accuracy.never_chosen) == (None, None, ())
    (figure,) = accuracy.qualities
    assert (figure.name, round(figure.float_model, 9)) == ("MSE", 0)
    assert figure.integer_model > 0
