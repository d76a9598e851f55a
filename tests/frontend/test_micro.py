# SPDX-License-Identifier: Apache-2.0
"""The micro front end: its features against the C library's, and libraries that are pushed samples against both."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.frontend.pushing import WAKE_WORD, expected, pushed, random_chunks, state_model, window_model
from tests.frontend.sounds import RATE, Samples, recordings, voice
from tinyc.base.errors import TinycError
from tinyc.board import load_board
from tinyc.frontend import Micro, features_of, join, load_frontend
from tinyc.ir.graph import Array, Quant
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.progress import Progress

SOUNDS = recordings()
STORED = Path(__file__).resolve().parents[3] / "shared" / "frontend" / "micro"


def of_library(samples: Samples) -> Array:
    """[frames, 40]: what the C library `microfrontend` computes from a fresh state."""
    judge = pytest.importorskip("pymicro_features", reason="needs `pymicro-features`").MicroFrontend()
    left, frames = samples.tobytes(), []
    while len(left) >= 320:
        processed = judge.process_samples(left[:320])
        left = left[2 * processed.samples_read :]
        if processed.features:
            frames.append(np.round(np.array(processed.features) / 0.0390625).astype(np.int64))
    return np.array(frames).reshape(-1, 40)


@pytest.mark.parametrize("name", SOUNDS)
def test_features_are_those_of_the_library(name: str) -> None:
    np.testing.assert_array_equal(Micro().features(SOUNDS[name]), of_library(SOUNDS[name]))


@pytest.mark.parametrize("path", sorted(STORED.glob("*.npz")) or [None], ids=lambda p: p and p.stem)
def test_stored_features(path: Path | None) -> None:
    """Recorded outputs of the C library, where they are at hand."""
    if path is None or "pcm" not in (stored := np.load(path)):
        pytest.skip("no ../shared/frontend, or a file of tables")
    np.testing.assert_array_equal(Micro().features(stored["pcm"]), stored["features"])


def test_recordings_side_by_side_are_as_one_by_one() -> None:
    both = np.stack([SOUNDS["voice"], SOUNDS["steps"]])
    features_of_both = Micro().features(both)
    for samples, features in zip(both, features_of_both, strict=True):
        np.testing.assert_array_equal(features, Micro().features(samples))
    assert Micro().features(both[0, :479]).shape == (0, 40)


SETTINGS = """
kind = "micro"
window_ms = 25
step_ms = 10
channels = 40
low_hz = 80
hop = 2
[pcan]
on = false
[log]
shift = 5
"""


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("case", ["window", "whole window", "own settings", "remembers", "other scale"])
def test_pushed_samples_give_the_outputs_of_the_twin(case: str, tmp_path: Path) -> None:
    name, frames = "micro", 5
    if case == "own settings":
        name = str(tmp_path / "front.toml")
        Path(name).write_text(SETTINGS)
    if case == "whole window":
        name = str(tmp_path / "front.toml")
        Path(name).write_text('kind = "micro"\nhop = 5\n')
    if case == "remembers":
        model = state_model(tmp_path / "unit.tflite", 3)
    else:
        model = window_model(
            tmp_path / "unit.tflite", frames, Quant((0.05,), (3,)) if case == "other scale" else WAKE_WORD
        )
    front = load_frontend(name)
    samples = np.concatenate([voice(0.6), SOUNDS["ends"][:4000], SOUNDS["silence"][:3000], SOUNDS["voice"][:3000]])
    outputs = pushed(model, name, [(samples, random_chunks(front.step))], tmp_path)
    reference = [run.tobytes() for run in expected(normalize(load_model(model)), front, samples)]
    assert len(set(reference)) > 5
    assert outputs == reference


def test_outputs_make_way_for_the_samples_of_the_next_run(tmp_path: Path) -> None:
    """Samples that come between two runs lie where a run has its tensors; the outputs, which are read, lie apart."""
    model = window_model(tmp_path / "unit.tflite", 1)
    program = compile_model(model, load_board("cortex-m4"), Options("cortex-m4", frontend="micro"), Progress()).program
    assert program.push is not None
    assert program.arena_bytes <= 3072
    samples, (output,) = program.push.samples, program.outputs
    assert samples.offset is not None
    assert output.offset is not None
    assert samples.end <= output.offset or output.end <= samples.offset
    assert samples.offset < max(step.outputs[0].offset or 0 for step in program.steps)


def test_long_pushes_run_what_is_due(tmp_path: Path) -> None:
    """Half a second at once: as many outputs as frames, of which the last is there."""
    model, samples = window_model(tmp_path / "unit.tflite", 2), voice(0.5)
    outputs = pushed(model, "micro", [(samples, iter([len(samples)]))], tmp_path)
    reference = expected(normalize(load_model(model)), Micro(), samples)
    assert outputs == [reference[-1].tobytes()] * len(reference)


BAD = {
    'kind = "micro"\nchanels = 3': "did you mean 'channels'",
    'kind = "mel"': "must be one of: micro, logmel, mfcc",
    "channels = 3": "'kind' is missing",
    'kind = "micro"\nstep_ms = 40': "a step is at most a window",
    'kind = "micro"\nstep_ms = 10.03': "no whole number",
    'kind = "micro"\nhigh_hz = 9000': "high_hz",
    'kind = "micro"\nlow_hz = 7600': "filters from",
    'kind = "micro"\n[pcan]\nstrength = "much"': "must be a number",
    'kind = "micro"\n[log]\nshift = 11': "must be from 0 to 10, not 11",
    'kind = "micro"\nwindow_ms = 1000': "a window at most 8192 samples",
    'kind = "micro"\n[pcan]\ngain_bits = 3': "at least 15 are possible",
    "kind = ": "not valid TOML",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_settings_are_errors(text: str, tmp_path: Path) -> None:
    path = tmp_path / "front.toml"
    path.write_text(text)
    with pytest.raises(TinycError, match=BAD[text]) as error:
        load_frontend(str(path))
    assert "front.toml" in str(error.value.where)


def test_unknown_front_ends_are_errors() -> None:
    with pytest.raises(TinycError, match="no front end is called 'mfcc'"):
        load_frontend("mfcc")
    with pytest.raises(TinycError, match="cannot read"):
        load_frontend("absent.toml")


def test_models_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    graph = normalize(load_model(window_model(tmp_path / "unit.tflite", 5)))
    with pytest.raises(TinycError, match=r"\[1, 200\] does not consist of frames of 32 channels"):
        join(graph, Micro(channels=32))
    (name,) = graph.inputs
    samples = replace(graph, values={**graph.values, name: replace(graph.values[name], dtype="s16")})
    with pytest.raises(TinycError, match=r"s16 \[1, 200\]: the front end gives int8 features") as error:
        features_of(samples, Micro())
    assert "leave out --frontend" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((1, 40, 5), "channels first"),
        ((1, 40, 5, 1), "channels first"),
        ((1, 1, 40, 5), "channels first"),
        ((1, 2, 5, 40), "the model was trained with"),
        ((1, 5, 2, 40), "the model was trained with"),
        ((1, 50, 4), "the model was trained with"),
    ],
)
def test_layouts_in_which_frames_are_not_one_after_the_other_are_errors(
    tmp_path: Path, shape: tuple[int, ...], hint: str
) -> None:
    graph = normalize(load_model(window_model(tmp_path / "unit.tflite", 5 if math.prod(shape) == 200 else 10)))
    (name,) = graph.inputs
    other = replace(graph, values={**graph.values, name: replace(graph.values[name], shape=shape)})
    with pytest.raises(TinycError, match="does not consist of frames of 40 channels") as error:
        features_of(other, Micro())
    assert hint in (error.value.hint or "")


@pytest.mark.parametrize("shape", [(200,), (1, 200), (1, 5, 40), (1, 5, 40, 1), (1, 1, 5, 40), (1, 5, 1, 40)])
def test_layouts_in_which_they_are_fit(tmp_path: Path, shape: tuple[int, ...]) -> None:
    graph = normalize(load_model(window_model(tmp_path / "unit.tflite", 5)))
    (name,) = graph.inputs
    other = replace(graph, values={**graph.values, name: replace(graph.values[name], shape=shape)})
    assert features_of(other, Micro()).shape == shape


def test_samples_have_to_be_int16() -> None:
    with pytest.raises(TinycError, match="float64"):
        Micro().features(np.zeros(RATE))


def test_stereo_is_an_error_and_short_recordings_are_not() -> None:
    with pytest.raises(TinycError, match=r"samples of \[16000, 2\] are 16,000 recordings") as error:
        Micro().features(np.zeros((RATE, 2), np.int16))
    assert "one channel" in (error.value.hint or "")
    assert Micro().features(np.zeros((3, 200), np.int16)).shape == (3, 0, 40)
