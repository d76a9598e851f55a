# SPDX-License-Identifier: Apache-2.0
"""Declared front ends: features against the formulas in float64 and other people's, and libraries that are pushed
samples against the Python function."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import tinyc
from tests.frontend.pushing import expected, pushed, random_chunks, state_model, window_model
from tests.frontend.sounds import RATE, Samples, recordings, voice
from tinyc.base.errors import TinycError
from tinyc.frontend import Declared, load_frontend
from tinyc.ir.graph import Array, Quant
from tinyc.load import load_model
from tinyc.ops.transform import Transform, transformed
from tinyc.passes import normalize

ROOT = Path(__file__).resolve().parents[2]
STORED = ROOT.parent / "shared" / "frontend"
SOUNDS = recordings(1.0)
SWW = ROOT / "examples" / "frontend" / "sww.toml"
KWS = ROOT / "examples" / "frontend" / "kws.toml"
SWW_QUANT, KWS_QUANT = (0.003701042616739869, -128), (0.5847029089927673, 83)  # of the published models

Reals = npt.NDArray[np.float64]


def spectra(samples: Samples, frame: int, step: int, length: int, window: Reals) -> Reals:
    """|X| [frames, bins] of samples in [-1, 1)."""
    starts = range(0, len(samples) - frame + 1, step)
    return np.abs(np.fft.rfft(np.stack([samples[at : at + frame] / 32768 * window for at in starts]), length))


def sww(samples: Samples) -> Reals:
    """MLPerf Tiny's streaming wake word, as its reference computes it: features in [0, 1]."""
    before = np.concatenate([[0], samples[:-1]])
    window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    power = spectra(samples - 0.96875 * before, 1024, 512, 1024, window) ** 2 / 1024
    energy = np.maximum(power @ tensorflows_mel(40, 513, 0, 8000), 1e-30)
    return np.clip((10 * np.log10(energy) + 52) / 64, 0, 1)


def kws(samples: Samples) -> Reals:
    """MLPerf Tiny's keyword spotting: 10 cepstra of magnitudes."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    bands = np.log(spectra(samples, 480, 320, 512, window) @ tensorflows_mel(40, 257, 20, 4000) + 1e-6)
    j, m = np.arange(10)[:, None], np.arange(40)
    return bands @ (np.sqrt(2 / 40) * np.cos(np.pi * j * (2 * m + 1) / 80)).T


def tensorflows_mel(bands: int, bins: int, low: float, high: float) -> Reals:
    """[bins, bands]: `tf.signal.linear_to_mel_weight_matrix` for 16 kHz."""

    def mel(hz: Reals | float) -> Reals:
        return 1127 * np.log(1 + np.asarray(hz) / 700)

    at = mel(np.arange(1, bins) * (RATE / 2 / (bins - 1)))[:, None]
    edges = np.linspace(mel(low), mel(high), bands + 2)
    up = (at - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - at) / (edges[2:] - edges[1:-1])
    return np.concatenate([np.zeros((1, bands)), np.maximum(0, np.minimum(up, down))])


def assert_int8_are(ours: Array, exact: Array, share: float = 0.999) -> None:
    """All but one in a thousand, and never more than one step off."""
    off = np.abs(ours.astype(int) - exact.astype(int))
    assert off.max() <= 1
    assert (off == 0).mean() >= share


def test_sww_is_the_formula() -> None:
    front, (scale, zero) = load_frontend(str(SWW)), SWW_QUANT
    assert isinstance(front, Declared)
    samples = np.concatenate(list(SOUNDS.values()))
    reals = sww(samples)
    np.testing.assert_allclose(front.features(samples), reals, atol=1e-4)
    exact = np.clip(np.trunc(reals / scale + zero), -128, 127)
    assert_int8_are(front.quantized(samples, scale, zero), exact)


def test_kws_is_the_formula() -> None:
    front, (scale, zero) = load_frontend(str(KWS)), KWS_QUANT
    assert isinstance(front, Declared)
    samples = np.concatenate(list(SOUNDS.values()))
    reals = kws(samples)
    np.testing.assert_allclose(front.features(samples), reals, atol=3e-2)  # of tones, whose bins are nearly 0
    assert_int8_are(front.quantized(samples, scale, zero), np.clip(np.round(reals / scale + zero), -128, 127))


@pytest.mark.parametrize("kind", ["mlperf", "mfcc"])
def test_stored_features(kind: str) -> None:
    """What MLPerf's C code and TensorFlow computed of recordings, where these are at hand."""
    paths = [path for path in sorted((STORED / kind).glob("*.npz")) if path.stem != "tables"]
    if not paths:
        pytest.skip("no ../shared/frontend")
    ours, exact = [], []
    for path in paths:
        stored = np.load(path)
        if kind == "mlperf":
            front, (scale, zero) = load_frontend(str(SWW)), SWW_QUANT
            samples, reals = np.concatenate([np.zeros(512, np.int16), stored["pcm"]]), stored["features_c"]
            exact.append(np.clip(np.trunc(reals / np.float32(scale) + zero), -128, 127))
        else:  # there, the largest sample of a clip stands for 1
            peak = 32768 / int(stored["pcm"].max())
            front, (scale, zero) = replace(load_frontend(str(KWS)), peak=peak), KWS_QUANT
            samples, reals = stored["pcm"], stored["mfcc_tensorflow"]
            exact.append(np.clip(np.round(reals / np.float32(scale) + zero), -128, 127))
        assert isinstance(front, Declared)
        ours.append(front.quantized(samples, scale, zero))
    assert_int8_are(np.concatenate(ours), np.concatenate(exact))


LIBROSA = """
kind = "logmel"
window_ms = 25
step_ms = 10
length = 512
[mel]
bands = 64
low_hz = 50
high_hz = 8000
scale = "slaney"
norm = "slaney"
[log]
kind = "dB"
floor = 1e-10
"""
CEPSTRA = """
kind = "mfcc"
window_ms = 25
step_ms = 10
length = 512
[mel]
bands = 40
low_hz = 20
high_hz = 8000
scale = "slaney"
norm = "slaney"
[log]
kind = "dB"
floor = 1e-10
[dct]
coefficients = 13
lifter = 22
"""


@pytest.mark.frameworks
@pytest.mark.parametrize("length", [512, 400])
@pytest.mark.parametrize("text", [LIBROSA, CEPSTRA], ids=["logmel", "mfcc"])
def test_features_are_librosas(text: str, length: int, tmp_path: Path) -> None:
    librosa = pytest.importorskip("librosa", reason="needs `librosa`")
    front, samples = declared(text.replace("length = 512", f"length = {length}"), tmp_path), voice(1.0)
    common = {"sr": RATE, "n_fft": length, "win_length": 400, "hop_length": 160, "center": False}
    padded = np.pad(samples, (length - 400) // 2) / 32768  # the window is in the middle of a frame
    bands = front.mel.bands
    mel = librosa.feature.melspectrogram(y=padded, n_mels=bands, fmin=front.mel.low_hz, fmax=8000, **common)
    theirs = librosa.power_to_db(mel, amin=1e-10, top_db=None)
    if front.dct is not None:
        theirs = librosa.feature.mfcc(S=theirs, n_mfcc=13, lifter=22)
    np.testing.assert_allclose(front.features(samples), theirs.T, atol=1e-2 if front.dct is None else 5e-2)


@pytest.mark.frameworks
def test_a_data_pipeline_of_pytorch(tmp_path: Path) -> None:
    """The class of docs/frontend.md, in processes of its own."""
    torch = pytest.importorskip("torch", reason="needs `torch`")
    page = (Path(__file__).resolve().parents[2] / "docs" / "frontend.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "DataLoader" in block)
    (tmp_path / "kws.toml").write_text(LIBROSA)
    recordings = np.stack([voice(0.5), voice(0.5)[::-1], voice(0.5) // 2])
    namespace = {"torch": torch, "tinyc": tinyc, "recordings": recordings, "labels": [0, 1, 2]}
    exec(code.replace('"kws.toml"', f'"{tmp_path}/kws.toml"').replace("batch_size=32", "batch_size=2"), namespace)
    batches = list(namespace["loader"])
    front = declared(LIBROSA, tmp_path)
    np.testing.assert_array_equal(np.concatenate([x.numpy() for x, _ in batches]), front.features(recordings))
    assert [int(label) for _, labels in batches for label in labels] == [0, 1, 2]


USUAL = 'window_ms = 25\nstep_ms = 10\nlength = 512\n[log]\nkind = "dB"\nfloor = 1e-10\n'


@pytest.mark.frameworks
@pytest.mark.parametrize("length", [512, 400])
@pytest.mark.parametrize("kind", ["logmel", "mfcc"])
def test_features_are_torchaudios(kind: str, length: int, tmp_path: Path) -> None:
    """400 points are its usual number; the window, 400 samples, is in the middle of a frame."""
    torch = pytest.importorskip("torch", reason="needs `torchaudio`")
    transforms = pytest.importorskip("torchaudio", reason="needs `torchaudio`").transforms
    text = USUAL.replace("512", str(length))
    front, samples = declared(f'kind = "{kind}"\n{text}', tmp_path), voice(1.0)
    sizes = {"n_fft": length, "win_length": 400, "hop_length": 160, "n_mels": 40, "f_min": 20, "f_max": 7600}
    padded = torch.from_numpy(np.pad(samples / 32768, (length - 400) // 2).astype(np.float32))
    if kind == "mfcc":
        judge = transforms.MFCC(RATE, n_mfcc=13, melkwargs={**sizes, "center": False})
        judge.amplitude_to_DB.top_db = None
        theirs = judge(padded)
    else:
        mel = transforms.MelSpectrogram(RATE, center=False, **sizes)(padded)
        theirs = transforms.AmplitudeToDB("power")(mel)
    np.testing.assert_allclose(front.features(samples), theirs.T.numpy(), atol=1e-2)


def declared(text: str, folder: Path) -> Declared:
    path = folder / "front.toml"
    path.write_text(text)
    front = load_frontend(str(path))
    assert isinstance(front, Declared)
    return front


@pytest.mark.parametrize(
    "length", [32, 64, 256, 512, 1024, 8192, 36, 90, 100, 220, 400, 450, 480, 640, 882, 1200, 8190]
)
def test_the_transform_is_a_count_off(length: int) -> None:
    """Of noise, of the largest numbers that are allowed, of small ones, and of what meets the signs of each twiddle."""
    t, rng = Transform(length), np.random.default_rng(length)
    x = rng.integers(-t.most, t.most + 1, (40, length))
    x[0], x[1] = t.most, np.where(rng.random(length) < 0.5, -t.most, t.most)
    x[2:10] >>= 12
    turns = 2 * np.pi * np.arange(10, 30)[:, None] * np.arange(length) / length
    x[10:30] = np.where(np.cos(turns) + np.sin(turns) > 0, t.most, -t.most)
    y = transformed(t, x.astype(np.int32)).reshape(40, -1, 2)
    exact = np.fft.rfft(x) * t.radix / length
    error = y[..., 0] + 1j * y[..., 1] - exact
    assert np.abs(error).max() < (5 if max(t.radixes) < 11 else 8) < t.worst
    assert np.sqrt((np.abs(error) ** 2).mean()) < (1.1 if max(t.radixes) < 11 else 1.5)


OWN = """
kind = "logmel"
window_ms = 20
step_ms = 12.5
window = "blackman"
periodic = false
preemphasis = 0.97
hop = 2
[spectrum]
power = 1
[mel]
bands = 20
[log]
add = 1e-4
[scaling]
mean = -6.5
deviation = [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]
"""
JOINT = 'kind = "logmel"\nwindow_ms = 10\nstep_ms = 10\n[mel]\nbands = 12\n[log]\nkind = "log10"\nfloor = 1e-9\n'


@pytest.mark.parametrize(
    "case", ["kws", "remembers", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sww", "own", "joint"))]
)
def test_pushed_samples_give_the_outputs_of_the_twin(case: str, tmp_path: Path) -> None:
    path = {"sww": SWW, "kws": KWS}.get(case, tmp_path / "front.toml")
    if not path.exists():
        path.write_text(OWN if case in ("own", "remembers") else JOINT)
    front = load_frontend(str(path))
    assert isinstance(front, Declared)
    quant = Quant(*((part,) for part in SWW_QUANT)) if case == "sww" else Quant((0.07,), (30,))
    make = state_model if case == "remembers" else window_model
    model = make(tmp_path / "unit.tflite", 3, quant, front.channels)
    samples = np.concatenate([voice(0.5), SOUNDS["ends"][:3001], SOUNDS["silence"][:3000], SOUNDS["voice"][:4000]])
    outputs = pushed(model, str(path), [(samples, random_chunks(front.step))], tmp_path)
    reference = [run.tobytes() for run in expected(normalize(load_model(model)), front, samples)]
    assert len(set(reference)) > 5
    assert outputs == reference


def test_recordings_side_by_side_are_as_one_by_one() -> None:
    front = load_frontend(str(SWW))
    both = np.stack([SOUNDS["voice"], SOUNDS["steps"]])
    for samples, features in zip(both, front.features(both), strict=True):
        np.testing.assert_array_equal(features, front.features(samples))
    assert front.features(both[0, :1023]).shape == (0, 40)


def test_features_become_the_models_int8() -> None:
    front = load_frontend(str(KWS))
    assert isinstance(front, Declared)
    rounded = np.clip(np.round(front.features(SOUNDS["voice"]) / 0.5 + 3), -128, 127)
    assert_int8_are(front.quantized(SOUNDS["voice"], 0.5, 3), rounded)


BAD = {
    'kind = "logmel"\nwindow = "kaiser"': "must be one of: rectangular, hann",
    'kind = "logmel"\nwindow_ms = 20\nstep_ms = 30': "a step is at most a window",
    'kind = "logmel"\n[spectrum]\npower = 0.5': r"is 1 \(magnitudes\) or 2 \(powers\), not 0.5",
    'kind = "logmel"\nlength = 514': "a transform of 520 samples is possible",
    'kind = "logmel"\nlength = 481': "the length is even",
    'kind = "logmel"\nlength = 256': "a window at most a transform",
    'kind = "logmel"\n[mel]\nbands = 200': "lies between two bins",
    'kind = "logmel"\nrate = 8000\n[mel]\nhigh_hz = 7000': "must be from 1 to 4000",
    'kind = "logmel"\n[mel]\nlow_hz = 7000\nhigh_hz = 6000': "bands from 7000 to 6000 Hz",
    'kind = "logmel"\n[dct]\ncoefficients = 3': "is not a key",
    'kind = "mfcc"\n[dct]\ncoefficients = 41': "41 coefficients of 40 bands",
    'kind = "logmel"\n[scaling]\nmean = [1, 2]': "2 numbers for 40 features",
    'kind = "logmel"\n[scaling]\ndeviation = 0': "must be from 1e-06",
    'kind = "logmel"\n[scaling]\nmean = []': "a list of numbers",
    'kind = "logmel"\n[scaling]\nleast = 2\nmost = 1': "`least` is below `most`",
    'kind = "logmel"\n[log]\nadd = 1e-30': "it must be from",
    'kind = "logmel"\n[log]\nkind = "sqrt"': "must be one of: ln, log10, log2, dB",
    'kind = "logmel"\nwindow_ms = 25.0625': "both have to be even",
}


@pytest.mark.parametrize("text", BAD)
def test_bad_settings_are_errors(text: str, tmp_path: Path) -> None:
    with pytest.raises(TinycError, match=BAD[text]) as error:
        declared(text, tmp_path)
    assert "front.toml" in str(error.value.where)


def test_scales_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    front = declared(JOINT, tmp_path)
    with pytest.raises(TinycError, match="do not fit int8 with scale 1e-06"):
        front.projection(Quant((1e-6,), (0,)))
