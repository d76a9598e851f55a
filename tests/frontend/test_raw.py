# SPDX-License-Identifier: Apache-2.0
"""Samples of several axes pushed to models that see them themselves: learned features, or features of an ONNX graph."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tinyc
from tests.frontend.pushing import expected, pushed, random_chunks, window_model
from tests.frontend.test_incremental import model as convolutions
from tests.frontend.test_motion import QUANT, walk
from tests.load.test_sizes import peaks
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.frontend import RawFront, load_frontend
from tinyc.ir.graph import Quant
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress

OWN = """
kind = "samples"
axes = 2
unit = [0.001, 0.002]
hop = 6
[scaling]
mean = [0.5, -1]
deviation = [2, 5]
most = 4
"""
PLAIN = 'kind = "samples"\naxes = 3\nunit = 0.0001\nhop = 48\n'


def front_of(folder: Path, text: str) -> tuple[str, RawFront]:
    path = folder / "front.toml"
    path.write_text(text)
    front = load_frontend(str(path))
    assert isinstance(front, RawFront)
    return str(path), front


def test_pushed_samples_give_the_outputs_of_the_twin(tmp_path: Path) -> None:
    """Of a model that begins with a layer, where a window is no number of hops."""
    file, front = front_of(tmp_path, OWN)
    model = window_model(tmp_path / "unit.tflite", 20, QUANT, 2)
    samples = walk(200, 2).reshape(-1)
    reference = [run.tobytes() for run in expected(normalize(load_model(model)), front, samples)]
    assert len(set(reference)) > 5
    assert pushed(model, file, [(samples, random_chunks(front.hop * front.step))], tmp_path) == reference


def test_features_of_an_onnx_graph_are_pushed_samples(tmp_path: Path) -> None:
    """Peaks and crossings of windows of 128 samples, which overlap; the samples are int16 there."""
    file, front = front_of(tmp_path, PLAIN)
    model, x = peaks(tmp_path / "unit.onnx"), walk(2000, 3)
    windows = np.lib.stride_tricks.sliding_window_view(front.features(x), 128, axis=0)[::60].transpose(0, 2, 1)
    np.savez(tmp_path / "unit.calib.npz", x=windows[:, None])
    integers = make_integers(model, load_board("host"), Options("host"), Progress())
    assert integers.graph.values["x"].dtype == "s16"
    samples = walk(900, 3, 2).reshape(-1)
    reference = [run.tobytes() for run in expected(integers.graph, front, samples, integers.numerics)]
    assert len(set(reference)) > 5
    assert pushed(model, file, [(samples, random_chunks(front.hop * front.step))], tmp_path) == reference


@pytest.mark.slow
def test_only_what_is_new_is_computed(tmp_path: Path) -> None:
    """A convolutional network that learned from samples, incrementally: the outputs of whole windows."""
    file, front = front_of(tmp_path, 'kind = "samples"\naxes = 8\nunit = 0.001\nhop = 4\n[scaling]\nmean = 6\n')
    model = convolutions(tmp_path, stride=2)
    integers = make_integers(model, load_board("host"), Options("host"), Progress())
    samples = walk(120, 8).reshape(-1)
    reference = [run.tobytes() for run in expected(integers.graph, front, samples, integers.numerics)]
    assert len(set(reference)) > 5
    assert pushed(model, file, [(samples, random_chunks(front.hop * front.step))], tmp_path, 2) == reference


def test_integers_are_the_nearest() -> None:
    front = RawFront(2, 50, (0.001, 0.002))
    x = walk(3000, 2)
    for dtype, scale, zero in (("s8", 0.05, -7), ("s16", 0.0001, 0)):
        steps = front.quantized(x, scale, zero, dtype)
        ends = np.iinfo(steps.dtype)
        exact = np.clip(x * np.array([0.001, 0.002]) / scale + zero, ends.min, ends.max)
        assert np.abs(steps - exact).max() <= 0.5 + 1e-3
        assert len(np.unique(steps)) > 200
    np.testing.assert_allclose(front.features(x), x * [0.001, 0.002], rtol=1e-6)


def test_what_does_not_fit_is_an_error(tmp_path: Path) -> None:
    file, front = front_of(tmp_path, PLAIN)
    with pytest.raises(TinycError, match=r"int16 \[.., n, 3\], not int16 \[300, 2\]"):
        front.features(walk(300, 2))
    with pytest.raises(TinycError, match="do not fit int8 with scale 1e-12"):
        front.operator(Quant((1e-12,), (0,)), "s8")
    with pytest.raises(TinycError, match=r"frames of 3 channels, which the front end gives"):
        tinyc.build(window_model(tmp_path / "m.tflite", 20, QUANT, 2), "host", frontend=file, proof=False)
    with pytest.raises(TinycError, match="`hop` is 48, but input 'x' sees 20 frames"):
        tinyc.build(window_model(tmp_path / "m.tflite", 20, QUANT, 3), "host", frontend=file, proof=False)
    with pytest.raises(TinycError, match="`deviation` has 2 numbers for 3 axes"):
        front_of(tmp_path, PLAIN + "[scaling]\ndeviation = [1, 2]")
    with pytest.raises(TinycError, match="'window' is not a key"):
        front_of(tmp_path, PLAIN + "window = 128")


FOLDER = Path(__file__).resolve().parents[2] / "examples" / "frontend"
KINDS = ["micro", *(FOLDER / f"{kind}.toml" for kind in ("kws", "motion", "samples"))]


@pytest.mark.parametrize("name", KINDS, ids=lambda name: Path(name).stem)
def test_no_recordings_and_no_quantization(name: str | Path) -> None:
    """Of any front end: none give none, and what no model's input has is an error."""
    front = tinyc.frontend(name)
    one = np.zeros((700, 3) if front.axes > 1 else 700, np.int16)
    features = front.features(one)
    assert len(features) > 0
    assert front.features(one[None][:0]).shape == (0, *features.shape)
    assert front.features(one[:0]).shape == (0, *features.shape[1:])
    for scale, zero in ((0, 0), (-1, 0), (np.nan, 0), (np.inf, 0), (0.1, 200), (0.1, 0.5)):
        with pytest.raises(TinycError, match="of int8: a scale is above 0, a zero point a whole number from -128"):
            front.quantized(one, scale, zero)


@pytest.mark.parametrize("name", KINDS, ids=lambda name: Path(name).stem)
def test_pipelines_may_call_in_parallel(name: str | Path) -> None:
    """From threads, as tf.data does, and from processes, which get a front end as a pickle: PyTorch's workers."""
    front = tinyc.frontend(name)
    recordings = walk(4 * 4000, 3).reshape(4, 4000, 3)[..., slice(None) if front.axes > 1 else 0]
    one_by_one = [front.features(one) for one in recordings]
    with ThreadPoolExecutor(4) as pool:
        for parallel, one in zip(
            pool.map(pickle.loads(pickle.dumps(front)).features, recordings), one_by_one, strict=True
        ):
            np.testing.assert_array_equal(parallel, one)
    np.testing.assert_array_equal(front.features(recordings), np.stack(one_by_one))
