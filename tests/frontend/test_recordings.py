# SPDX-License-Identifier: Apache-2.0
"""`tinyc run --wav` and `tinyc verify --wav`: recordings through a front end, and those that do not fit."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import tinyc
from tests.frontend.pushing import expected, window_model
from tests.frontend.sounds import RATE, Samples, voice
from tinyc.base.errors import TinycError
from tinyc.cli.app import app
from tinyc.frontend import load_frontend
from tinyc.ir.graph import Labels, Quant
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline import hearing
from tinyc.pipeline.hearing import Hearing, Listening, hear
from tinyc.pipeline.progress import Progress

FRONT = Path(__file__).resolve().parents[2] / "examples" / "frontend" / "kws.toml"
LABELS = ("left", "right", "on")


def write_wav(path: Path, samples: Samples, rate: int = RATE, channels: int = 1, width: int = 2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Three outputs of three frames of MFCC."""
    return window_model(tmp_path / "unit.tflite", 3, Quant((0.5,), (30,)), 10)


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options("host", frontend=str(FRONT), wav=write_wav(tmp_path / "voice.wav", voice(1.0)))


def test_a_recording_gives_labels_with_times(model: Path, options: Options, tmp_path: Path) -> None:
    """Those of the outputs."""
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(LABELS) + "\n")
    heard_there = hear(model, options, Listening(labels), Progress())
    assert len(heard_there.heard) >= 3
    check_heard(heard_there, model, 1)


def check_heard(heard_there: Hearing, model: Path, smooth: int) -> None:
    """The outputs that the library gives of one second after as much silence as it keeps samples."""
    front = load_frontend(str(FRONT))
    silence = np.zeros(front.window - front.step, np.int16)
    outputs = expected(normalize(load_model(model)), front, np.concatenate([silence, voice(1.0)]))
    reals = np.stack(outputs).reshape(-1, 3).astype(float)
    means = [reals[max(k + 1 - smooth, 0) : k + 1].mean(axis=0) for k in range(len(reals))]
    answers = [(round((run + 3) * 0.02, 3), LABELS[mean.argmax()]) for run, mean in enumerate(means)]
    changes = [answers[k] for k in range(len(answers)) if k == 0 or answers[k][1] != answers[k - 1][1]]
    assert [(heard.at_s, heard.label) for heard in heard_there.heard] == changes
    assert heard_there.passed
    assert (heard_there.runs, heard_there.output_bytes, heard_there.seconds) == (50, 150, 1.0)


def test_classes_have_no_average(model: Path, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a model says them whose first output is the class itself."""
    monkeypatch.setattr(hearing, "labels_of", lambda labels, graph: Labels(LABELS, by_value=True))
    with pytest.raises(TinycError, match="classes have no average"):
        hear(model, options, Listening(smooth=2), Progress())


def test_samples_in_python_are_a_recording(model: Path) -> None:
    """As the file of the same samples is, with names instead of a file of them; of outputs the means."""
    heard_there = tinyc.run(model, "host", wav=voice(1.0), frontend=str(FRONT), labels=LABELS, smooth=4)
    assert isinstance(heard_there, Hearing)
    check_heard(heard_there, model, 4)
    assert tinyc.verify(model, "host", wav=voice(0.2), frontend=str(FRONT)).verify.inputs == 10


def test_samples_in_python_that_do_not_fit_are_errors(model: Path) -> None:
    with pytest.raises(TinycError, match=r"float64 \[3\], not int16"):
        tinyc.run(model, "host", wav=np.zeros(3), frontend=str(FRONT))
    with pytest.raises(TinycError, match="front end"):
        tinyc.verify(model, "host", wav=voice(0.1))
    with pytest.raises(TinycError, match="nothing says where"):
        tinyc.run(model, "host")


@pytest.mark.slow
def test_commands(model: Path, options: Options) -> None:
    words = [str(model), "--board", "host", "--frontend", str(FRONT), "--wav", str(options.wav)]
    ran = CliRunner().invoke(app, ["run", *words, "--json"])
    assert ran.exit_code == 0
    assert json.loads(ran.stdout)["heard"][0]["at_s"] == 0.06
    shown = CliRunner().invoke(app, ["run", *words])
    assert "1.00 s of" in shown.stdout
    assert "all equal" in shown.stdout
    verified = CliRunner().invoke(app, ["verify", *words, "--json"])
    assert json.loads(verified.stdout)["verify"]["inputs"] == 50


BAD = {
    "rate": ({"rate": 44100}, "44,100 Hz, one channel and 16 bits; the front end takes 16,000 Hz"),
    "channels": ({"channels": 2}, "16,000 Hz, 2 channels and 16 bits; the front end takes 16,000 Hz, one channel"),
    "bits": ({"width": 1}, "8 bits; the front end takes 16,000 Hz, one channel and 16 bits"),
}


@pytest.mark.parametrize("name", BAD)
def test_recordings_that_do_not_fit_are_errors(name: str, model: Path, options: Options) -> None:
    settings, says = BAD[name]
    assert options.wav is not None
    write_wav(options.wav, voice(0.1), **settings)
    with pytest.raises(TinycError, match=says) as error:
        hear(model, options, Listening(), Progress())
    assert "voice.wav" in str(error.value.where)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"RIFF", "no WAV file"),
        (b"", "no WAV file of plain samples: it ends too soon"),
        (b"hello, world" * 9, "no WAV file"),
        (None, "cannot read"),
    ],
)
def test_files_that_are_no_recordings_are_errors(
    content: bytes | None, says: str, model: Path, options: Options
) -> None:
    assert options.wav is not None
    options.wav.unlink()
    if content is not None:
        options.wav.write_bytes(content)
    with pytest.raises(TinycError, match=says):
        hear(model, options, Listening(), Progress())


def test_short_recordings_are_errors(model: Path, options: Options) -> None:
    assert options.wav is not None
    write_wav(options.wav, voice(0.019))
    with pytest.raises(TinycError, match="has 304 samples; a run takes 320"):
        hear(model, options, Listening(), Progress())


@pytest.mark.parametrize("cut", [500, 501])
def test_recordings_that_were_cut_off_are_errors(cut: int, model: Path, options: Options) -> None:
    """Also in the middle of a sample."""
    assert options.wav is not None
    options.wav.write_bytes(options.wav.read_bytes()[:-cut])
    with pytest.raises(TinycError, match="header says 16,000 samples, the file has 15,7") as error:
        hear(model, options, Listening(), Progress())
    assert "voice.wav" in str(error.value.where)


@pytest.mark.parametrize("length", [(1 << 32) - 1, (1 << 31) - 37])
def test_a_recording_may_come_from_a_pipe(length: int, model: Path, options: Options) -> None:
    """Whose writer could not go back to write the length into the header."""
    assert options.wav is not None
    content = options.wav.read_bytes()
    assert content[36:40] == b"data"
    options.wav.write_bytes(content[:40] + length.to_bytes(4, "little") + content[44:])
    assert hear(model, options, Listening(), Progress()).seconds == 1.0


def test_labels_that_do_not_fit_are_errors(model: Path, options: Options, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("one\ntwo\n")
    with pytest.raises(TinycError, match="2 labels; the model's output 'y' has 3 elements"):
        hear(model, options, Listening(labels), Progress())
    np.savez(tmp_path / "labels.npz", names=np.array(LABELS))
    with pytest.raises(TinycError, match="no array 'labels'"):
        hear(model, options, Listening(tmp_path / "labels.npz"), Progress())


def test_a_recording_needs_a_front_end(model: Path, options: Options) -> None:
    ran = CliRunner().invoke(app, ["verify", str(model), "--board", "host", "--wav", str(options.wav)])
    assert ran.exit_code == 2
    ran = CliRunner().invoke(app, ["run", str(model), "--board", "host"])
    assert ran.exit_code == 2


@pytest.mark.slow
def test_the_example_hears_its_words() -> None:
    folder = Path(__file__).resolve().parents[2] / "examples" / "kws"
    options = Options("host", frontend=str(folder / "mfcc.toml"), wav=folder / "words.wav")
    heard_there = hear(folder / "kws.onnx", options, Listening(folder / "kws.test.npz", smooth=5), Progress())
    words = [heard.label for heard in heard_there.heard if heard.label not in ("silence", "unknown")]
    assert words == ["yes", "left", "stop", "up", "go", "no"]
    assert heard_there.passed
