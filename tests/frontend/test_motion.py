# SPDX-License-Identifier: Apache-2.0
"""Motion: features against NumPy in float64, and libraries that are pushed samples of several axes."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import tinyc
from tests.frontend.pushing import expected, pushed, random_chunks, window_model
from tests.load.onnx_forests import model as forest_model
from tests.load.onnx_forests import saved
from tinyc.base.errors import TinycError
from tinyc.frontend import MotionFront, load_frontend
from tinyc.ir.graph import Array, Quant
from tinyc.load import load_model
from tinyc.passes import normalize

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "frontend" / "motion.toml"
QUANT = Quant((0.05,), (-7,))


def walk(count: int, axes: int, seed: int = 1) -> Array:
    """int16 [count, axes]: gravity, steps, a tremble, and a knock that saturates."""
    rng, t = np.random.default_rng(seed), np.arange(count)[:, None]
    axis = np.arange(axes)
    x = 8192 * (axis == 2) + 3000 * np.sin(2 * np.pi * (1.9 + axis) * t / 100) + 400 * np.sin(2 * np.pi * 11 * t / 100)
    x += rng.normal(0, 60, (count, axes))
    x[count // 2 : count // 2 + 4] *= 40
    return x.clip(-32768, 32767).astype(np.int16)


def test_a_recording_of_several_axes(tmp_path: Path) -> None:
    """An array or a WAV file whose channels are the axes."""
    path = tmp_path / "motion.toml"
    path.write_text('kind = "motion"\naxes = 3\nrate = 50\nwindow = 20\nstep = 10\nfeatures = ["mean", "rms"]\n')
    front, samples = load_frontend(str(path)), walk(200, 3)
    model = window_model(tmp_path / "unit.tflite", 1, QUANT, front.channels)
    hearing = tinyc.run(model, "host", wav=samples, frontend=str(path))
    assert hearing.passed
    assert hearing.runs == 20
    with wave.open(str(tmp_path / "walk.wav"), "wb") as file:
        file.setparams((3, 2, 50, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    assert tinyc.run(model, "host", wav=tmp_path / "walk.wav", frontend=str(path)).heard == hearing.heard
    with pytest.raises(TinycError, match=r"not int16 \[n, 3\]"):
        tinyc.run(model, "host", wav=samples[:, 0], frontend=str(path))
    with wave.open(str(tmp_path / "one.wav"), "wb") as file:
        file.setparams((1, 2, 150, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    with pytest.raises(TinycError, match="takes 50 Hz, 3 channels and 16 bits") as error:
        tinyc.run(model, "host", wav=tmp_path / "one.wav", frontend=str(path))
    assert "every axis is a channel" in (error.value.hint or "")


def test_features_are_those_of_reals() -> None:
    """mean, rms, std, min and max within a count / window; crossings and the places of peaks the same."""
    front = load_frontend(str(EXAMPLE))
    assert isinstance(front, MotionFront)
    x = walk(1000, 3)
    features = front.features(x).reshape(-1, 3, 10) * 10
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(float), 128, axis=0)[::64]
    unit = 0.0011975
    exact = [windows.mean(-1), np.sqrt((windows**2).mean(-1)), windows.std(-1), windows.min(-1), windows.max(-1)]
    assert np.abs(features[..., :5] - unit * np.stack(exact, -1)).max() <= unit / 128 + 1e-5
    above = windows >= windows.mean(-1, keepdims=True)
    np.testing.assert_allclose(features[..., 5], (above[..., 1:] != above[..., :-1]).sum(-1), rtol=1e-5)
    spectrum = np.abs(np.fft.rfft(windows))[..., 1:64]
    largest = np.argsort(-spectrum, axis=-1)[..., :2]
    np.testing.assert_allclose(features[..., 6::2], (largest + 1) * 100 / 128, rtol=1e-5)
    sizes = np.take_along_axis(spectrum, largest, -1) * 2 / 128
    np.testing.assert_allclose(features[..., 7::2], unit * sizes, atol=unit / 20)


def test_features_become_the_models_int8() -> None:
    front = load_frontend(str(EXAMPLE))
    x = walk(3000, 3)
    exact = front.features(x).astype(float) / 0.05 - 7
    off = np.abs(front.quantized(x, 0.05, -7) - np.clip(exact, -128, 127))
    assert off.max() <= 0.5 + 1e-3
    both = np.stack([x, walk(3000, 3, 2)])
    np.testing.assert_array_equal(front.features(both)[0], front.features(x))
    assert front.features(x[:127]).shape == (0, 30)


OWN = """
kind = "motion"
axes = 2
window = 20
step = 7
unit = [0.001, 0.002]
features = ["std"]
peaks = 1
hop = 2
"""
APART = """
kind = "motion"
axes = 1
window = 9
step = 9
features = ["mean", "crossings"]
[scaling]
deviation = 900
"""


@pytest.mark.parametrize("text", [OWN, pytest.param(APART, marks=pytest.mark.slow)], ids=["overlap", "apart"])
def test_pushed_samples_give_the_outputs_of_the_twin(text: str, tmp_path: Path) -> None:
    path = tmp_path / "front.toml"
    path.write_text(text)
    front = tinyc.frontend(str(path))
    assert isinstance(front, MotionFront)
    model = window_model(tmp_path / "unit.tflite", 3, QUANT, front.channels)
    samples = walk(400, front.axes).reshape(-1)
    outputs = pushed(model, str(path), [(samples, random_chunks(front.step))], tmp_path)
    reference = [run.tobytes() for run in expected(normalize(load_model(model)), front, samples)]
    assert len(set(reference)) > 5
    assert outputs == reference


def deciding(features: Array) -> onnx.ModelProto:
    """A forest of a stump for each feature, whose threshold lies in the middle of the widest gap between windows."""
    ordered = np.sort(features, axis=0)
    widest = np.diff(ordered, axis=0).argmax(axis=0)[None]
    below, above = (np.take_along_axis(ordered, widest + step, 0)[0] for step in (0, 1))
    count = features.shape[1]
    trees, nodes = np.repeat(np.arange(count), 3), np.tile([0, 1, 2], count)
    values = np.stack([(below + above) / 2, 0 * below, 0 * below], 1).ravel()
    arrays = {
        "nodes_treeids": trees, "nodes_nodeids": nodes, "nodes_featureids": trees, "nodes_values": values.astype(float),
        "nodes_truenodeids": 1 * (nodes == 0), "nodes_falsenodeids": 2 * (nodes == 0),
        "class_treeids": trees[nodes > 0], "class_nodeids": nodes[nodes > 0],
        "class_ids": np.random.default_rng(4).integers(0, 3, 2 * count), "class_weights": np.ones(2 * count),
    }  # fmt: skip
    node = helper.make_node(
        "TreeEnsembleClassifier", ["x"], ["label", "scores"], domain="ai.onnx.ml", classlabels_int64s=[2, 5, 9],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * count, **{name: array.tolist() for name, array in arrays.items()},
    )  # fmt: skip
    return forest_model([node], count, [("label", TensorProto.INT64), ("scores", TensorProto.FLOAT)])


def test_a_forest_decides_by_the_features_that_it_was_trained_with(tmp_path: Path) -> None:
    """Reals go to a model that takes them: the library's classes of pushed samples are ONNX Runtime's of `features`."""
    path = tmp_path / "front.toml"
    path.write_text(OWN.replace("hop = 2", ""))
    front = tinyc.frontend(str(path))
    samples = walk(400, front.axes)
    features = front.features(samples)
    model = deciding(features)
    labels_pushed = pushed(
        saved(model, tmp_path), str(path), [(samples.reshape(-1), random_chunks(front.step))], tmp_path
    )
    session = onnxruntime.InferenceSession(model.SerializeToString())
    theirs = [int(session.run(["label"], {"x": row[None]})[0][0]) for row in features]
    assert len(set(theirs)) > 1
    assert [int.from_bytes(label, "little") for label in labels_pushed] == theirs


def test_a_model_of_float32_gets_the_features_in_float32(tmp_path: Path) -> None:
    path = tmp_path / "front.toml"
    path.write_text(APART.replace("step = 9", "step = 4"))
    front = tinyc.frontend(str(path))
    model = forest_model(
        [helper.make_node("Identity", ["x"], ["copy"]), helper.make_node("Mul", ["copy", "two"], ["y"])],
        front.channels, [("y", TensorProto.FLOAT)], [numpy_helper.from_array(np.float32([2]), "two")],
    )  # fmt: skip
    model.producer_name = "skl2onnx"
    samples = walk(200, 1)
    outputs = pushed(saved(model, tmp_path), str(path), [(samples.reshape(-1), random_chunks(front.step))], tmp_path)
    reals = np.stack([np.frombuffer(run, np.float32) for run in outputs])
    np.testing.assert_allclose(reals, 2 * front.features(samples), rtol=1e-6, atol=1e-6)


BAD = {
    'kind = "motion"\naxes = 17': "must be from 1 to 16",
    'kind = "motion"\nwindow = 10\nstep = 11': "a step is at most a window",
    'kind = "motion"\nwindow = 4\npeaks = 2\nstep = 1': "2 peaks of the spectrum of 4 samples",
    'kind = "motion"\nfeatures = ["mode"]': "has 'mode'; there are mean, rms",
    'kind = "motion"\nfeatures = []': "no features are asked for",
    'kind = "motion"\nunit = [1, 2]': "`unit` has 2 numbers for 3 axes",
    'kind = "motion"\n[scaling]\nmean = [1, 2]': "`mean` has 2 numbers for 9 features",
    'kind = "motion"\nmel = 3': "is not a key",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_settings_are_errors(text: str, tmp_path: Path) -> None:
    path = tmp_path / "front.toml"
    path.write_text(text)
    with pytest.raises(TinycError, match=BAD[text]) as error:
        load_frontend(str(path))
    assert "front.toml" in str(error.value.where)


def test_what_does_not_fit_is_an_error() -> None:
    front = load_frontend(str(EXAMPLE))
    with pytest.raises(TinycError, match=r"int16 \[.., n, 3\], not int16 \[300, 2\]"):
        front.features(walk(300, 2))
    with pytest.raises(TinycError, match="not float64"):
        front.features(np.zeros((300, 3)))
    with pytest.raises(TinycError, match="do not fit int8 with scale 1e-09"):
        front.projection(Quant((1e-9,), (0,)))
