# SPDX-License-Identifier: Apache-2.0
"""The keyword example is whole: files, sizes, model, data, and the accuracy that its README states."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kws"
MODEL = FOLDER / "kws.onnx"
FILES = ("README.md", "make_kws.py", "mfcc.toml", "kws.onnx", "kws.calib.npz", "kws.test.npz", "words.wav")
CLASSES = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "silence", "unknown"]


def load(name: str) -> dict[str, np.ndarray]:
    with np.load(FOLDER / name, allow_pickle=False) as held:
        return {key: held[key] for key in held.files}


def documented() -> tuple[int, int]:
    """The README's float result: clips found, clips tried."""
    figures = re.search(r"float, onnxruntime[^\n]*?(\d+) of (\d+)", (FOLDER / "README.md").read_text())
    assert figures
    return int(figures[1]), int(figures[2])


def test_files_are_there_and_small() -> None:
    sizes = {name: (FOLDER / name).stat().st_size for name in FILES}
    assert sizes["kws.onnx"] < 300_000
    assert sum(sizes.values()) < 1_000_000


def test_model_is_valid_and_self_contained() -> None:
    onnx.checker.check_model(str(MODEL), full_check=True)
    model = onnx.load(str(MODEL), load_external_data=False)
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    shapes = [
        (value.name, [dim.dim_value for dim in value.type.tensor_type.shape.dim])
        for value in (*model.graph.input, *model.graph.output)
    ]
    assert shapes == [("mfcc", [1, 1, 49, 10]), ("probabilities", [1, 12])]
    operators = [node.op_type for node in model.graph.node]
    assert operators.count("Conv") == operators.count("BatchNormalization") == 9
    assert operators[-1] == "Softmax"


def test_model_tells_nothing_of_the_machine_that_made_it() -> None:
    model = onnx.load(str(MODEL))
    assert not any(node.doc_string or node.metadata_props for node in model.graph.node)


def test_data() -> None:
    calibration, test = load("kws.calib.npz"), load("kws.test.npz")
    assert calibration["x"].shape == (128, 1, 49, 10)
    assert test["x"].shape == (480, 1, 49, 10)
    for x in (calibration["x"], test["x"]):
        assert x.dtype == np.float32
        assert np.isfinite(x).all()
    assert test["labels"].tolist() == CLASSES
    assert np.bincount(test["y"], minlength=12).tolist() == [40] * 12


def test_no_clip_is_both_calibration_and_test() -> None:
    clips = [clip.tobytes() for name in ("kws.calib.npz", "kws.test.npz") for clip in load(name)["x"]]
    assert len(set(clips)) == len(clips)


def test_float_accuracy_is_the_documented_one() -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(MODEL), providers=["CPUExecutionProvider"])
    test = load("kws.test.npz")
    classes = np.array([np.argmax(session.run(None, {"mfcc": clip[None]})[0]) for clip in test["x"]])
    right, tried = documented()
    assert tried == len(classes)
    # One clip may be so close that another onnxruntime decides otherwise.
    assert abs(int((classes == test["y"]).sum()) - right) <= 1
