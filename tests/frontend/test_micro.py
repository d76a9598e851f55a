# SPDX-License-Identifier: Apache-2.0
"""The micro front end: its features against the C library's, and libraries that are pushed samples against both."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.frontend.sounds import RATE, Samples, recordings, voice
from tests.ops.harness import SANITIZE, WARNINGS
from tests.ops.test_recurrent import as_file, with_states
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tests.target.state_cases import svdf
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.frontend import Micro, join, load_frontend
from tinyc.frontend.join import to_model
from tinyc.ir.graph import Array, Graph, Quant
from tinyc.load import load_model
from tinyc.ops.integer_map import IntegerMap, mapped
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_model
from tinyc.pipeline.options import Options, Progress
from tinyc.reference.interpreter import prepare_int

SOUNDS = recordings()
STORED = Path(__file__).resolve().parents[3] / "shared" / "frontend" / "micro"
WAKE_WORD = Quant((26 / 255,), (-128,))  # the scale of microWakeWord's models


def of_library(samples: Samples) -> Array:
    """[frames, 40]: what the C library `microfrontend` computes from a fresh state."""
    judge = pytest.importorskip("pymicro_features", reason="needs `pymicro-features`").MicroFrontend()
    left, frames = samples.tobytes(), []
    while len(left) >= 320:
        made = judge.process_samples(left[:320])
        left = left[2 * made.samples_read :]
        if made.features:
            frames.append(np.round(np.array(made.features) / 0.0390625).astype(np.int64))
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
    found = Micro().features(both)
    for samples, features in zip(both, found, strict=True):
        np.testing.assert_array_equal(features, Micro().features(samples))
    assert Micro().features(both[0, :479]).shape == (0, 40)


def window_model(path: Path, frames: int, quant: Quant = WAKE_WORD) -> Path:
    """A model without state that sees `frames` frames: a fully connected layer."""
    rng = np.random.default_rng(3)
    tensors = [
        Tensor("x", (1, frames * 40), "s8", quant.scale, quant.zero),
        Tensor("w", (3, frames * 40), "s8", (0.01,), (0,), data=rng.integers(-127, 128, (3, frames * 40), np.int8)),
        Tensor("y", (1, 3), "s8", (0.7,), (5,)),
    ]
    fields = {"FusedActivationFunction": 0, "WeightsFormat": 0, "KeepNumDims": False}
    operator = Operator("FULLY_CONNECTED", ("x", "w", ""), ("y",), "FullyConnectedOptions", fields)
    path.write_bytes(build_model(tensors, [operator], ["x"], ["y"]))
    return path


def state_model(path: Path, frames: int) -> Path:
    """A model that remembers: an SVDF layer."""
    graph = with_states(svdf(3, 1, 4, 40 * frames), {"state": "after"})
    fields = {"Rank": 1, "FusedActivationFunction": 1}
    path.write_bytes(as_file(graph, "SVDF", "SVDFOptions", fields, ("x", "w", "t", "b", "state")))
    return path


def expected(graph: Graph, front: Micro, samples: Samples) -> list[Array]:
    """The model's outputs on features of the Python function, run after run, since its window is full."""
    (name,) = graph.inputs
    x = graph.values[name]
    assert x.quant is not None
    rows = x.elements // front.channels
    hop = rows if graph.states else front.hop
    features = mapped(IntegerMap(to_model(front, x.quant), "s8"), front.features(samples))
    silence = mapped(IntegerMap(to_model(front, x.quant), "s8"), np.zeros((rows - hop, front.channels), np.int16))
    stream = np.concatenate([silence, features])
    inputs = [{name: stream[at - rows : at].reshape(x.shape)} for at in range(rows, len(stream) + 1, hop)]
    runs = [run[graph.outputs[0]] for run in prepare_int(graph, Numerics.TFLM).sequence(inputs)]
    return runs[-(-rows // hop) - 1 :]


def pushed(path: Path, front: str, samples: Samples, chunks: Iterator[int], folder: Path) -> list[bytes]:
    """Outputs of the generated library, sanitizers on, where a push says that there is one. Chunks are so short that a
    push makes one run at most."""
    options = Options("host", name="unit", frontend=front)
    compiled = compile_model(path, load_board("host"), options, Progress())
    for file, text in compiled.files.items():
        (folder / file).write_text(text)
    (folder / "main.c").write_text(MAIN)
    build = ["gcc", "-std=c99", "-O1", "-g", *WARNINGS, *SANITIZE, "main.c", "unit.c", "-o", "unit"]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    blob, at = b"", 0
    while at < len(samples):
        part = samples[at : at + next(chunks)]
        blob += np.int32(len(part)).tobytes() + part.tobytes()
        at += len(part)
    ran = subprocess.run([f"{folder}/unit"], input=blob, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr.decode()
    size = compiled.graph.values[compiled.graph.outputs[0]].size_bytes
    return [ran.stdout[i : i + size] for i in range(0, len(ran.stdout), size)]


MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "unit.h"
int main(void)
{
    static int16_t samples[1 << 16];
    unit_arena_t *arena = malloc(sizeof *arena);
    int32_t n;
    memset(arena, 0x5A, sizeof *arena);
    if (unit_push(NULL, samples, 1) != UNIT_NOT_PUSHED || unit_push(arena, samples, -1) != UNIT_NOT_PUSHED) return 3;
    if (unit_reset(arena) != UNIT_OK) return 2;
    while (fread(&n, 4, 1, stdin) == 1) {
        if (fread(samples, 2, (size_t)n, stdin) != (size_t)n) return 1;
        for (int32_t made = unit_push(arena, samples, n); made > 0; made--) {
            fwrite(unit_output_0(arena), 1, UNIT_OUTPUT_0_BYTES, stdout);
        }
    }
    free(arena);
    return 0;
}
"""


def random_chunks(most: int) -> Iterator[int]:
    rng = np.random.default_rng(9)
    while True:
        yield int(rng.integers(1, most + 1))


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
    found = pushed(model, name, samples, random_chunks(front.step), tmp_path)
    wanted = [run.tobytes() for run in expected(normalize(load_model(model)), front, samples)]
    assert len(set(wanted)) > 5
    assert found == wanted


def test_long_pushes_run_what_is_due(tmp_path: Path) -> None:
    """Half a second at once: as many outputs as frames, of which the last is there."""
    model, samples = window_model(tmp_path / "unit.tflite", 2), voice(0.5)
    found = pushed(model, "micro", samples, iter([len(samples)]), tmp_path)
    wanted = expected(normalize(load_model(model)), Micro(), samples)
    assert found == [wanted[-1].tobytes()] * len(wanted)


BAD = {
    'kind = "micro"\nchanels = 3': "did you mean 'channels'",
    'kind = "mel"': "must be one of: micro",
    "channels = 3": "'kind' is missing",
    'kind = "micro"\nstep_ms = 40': "a step is at most a window",
    'kind = "micro"\nstep_ms = 10.03': "no whole number",
    'kind = "micro"\nhigh_hz = 9000': "high_hz",
    'kind = "micro"\nlow_hz = 7600': "filters from",
    'kind = "micro"\n[pcan]\nstrength = "much"': "must be a number",
    'kind = "micro"\n[log]\nshift = 11': "at most 10",
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


def test_samples_have_to_be_int16() -> None:
    with pytest.raises(TinycError, match="float64"):
        Micro().features(np.zeros(RATE))
