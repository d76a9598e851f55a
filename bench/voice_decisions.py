# SPDX-License-Identifier: Apache-2.0
"""Silero's voice detector in integers, its loop closed: decisions that differ from its floats on audio that it was not
calibrated with.

    python bench/voice_decisions.py MODELS SOUNDS

MODELS: the folder with zoo/silero_vad_16k_fp32.onnx and its inputs; SOUNDS: .npz files with `pcm`, 16,000 samples a
second, whose names have `speech`. A decision is whether the output is above 0.5.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tinyc.ir.graph import Array, Graph
from tinyc.load.onnx import load_onnx
from tinyc.load.states import Asked
from tinyc.options.recipe import Recipe, hurried
from tinyc.passes import normalize
from tinyc.quantize import calibrate, quantize
from tinyc.quantize.calibration import Sequences
from tinyc.quantize.loops import closed_loop
from tinyc.quantize.simulate import sqnr_db
from tinyc.reference.interpreter import prepare_float

STEPS = "steps"  # those that come with the model
LOUD, FAINT = "speech_2", "noisy_speech_1"
ROWS: tuple[tuple[tuple[str, ...], str, Recipe], ...] = (
    ((STEPS,), "", Recipe()),
    ((STEPS,), "--effort fast", hurried(Recipe())),
    ((STEPS,), "--activations int16", Recipe(activations="int16")),
    ((STEPS, "noisy_speech_0", "speech_0"), "", Recipe()),
    ((LOUD,), "", Recipe()),
    ((FAINT,), "", Recipe()),
)


def steps_of(path: Path) -> Array:
    """[steps,1,576] of a recording: 512 samples behind the 64 before them."""
    with np.load(path, allow_pickle=False) as stored:
        sound = np.concatenate([np.zeros(64, np.float32), stored["pcm"].astype(np.float32).reshape(-1) / 32768])
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(sound, 576)[::512])[:, None]


def row(model: Path, graph: Graph, sounds: Mapping[str, Array], calibrated: Sequence[str], recipe: Recipe) -> str:
    """Steps that calibrate, steps measured, decisions that differ, SQNR in dB."""
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(calibrated):
            np.save(Path(folder) / f"{number}.npy", sounds[name])
        data = calibrate(model, graph, Path(folder))
    integer = quantize(graph, data, recipe).graph
    integers, floats_by_state = [], []
    for name, steps in sounds.items():
        if name not in calibrated and name != STEPS:
            integers.append(
                closed_loop(integer, Sequences({"input": steps.reshape(len(steps), -1)[:, None]}, (0,)))["output"]
            )
            outputs = prepare_float(graph).sequence({"input": step} for step in steps)
            floats_by_state.append(np.stack([each["output"] for each in outputs]))
    ours, floats = np.concatenate(integers).ravel(), np.concatenate(floats_by_state).ravel()
    differ = int(((ours > 0.5) != (floats > 0.5)).sum())
    return f"{data.samples} | {len(ours)} | {differ} | {sqnr_db(floats, ours):.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path)
    parser.add_argument("sounds", type=Path)
    given = parser.parse_args()
    model = given.models / "zoo" / "silero_vad_16k_fp32.onnx"
    graph = normalize(load_onnx(model, (), Asked()))
    with np.load(model.with_name("silero_vad_16k_fp32_io.npz"), allow_pickle=False) as held:
        sounds = {STEPS: held["in0"]}
    sounds |= {path.stem: steps_of(path) for path in sorted(given.sounds.glob("*speech*.npz"))}
    for calibrated, options, recipe in ROWS:
        cells = row(model, graph, sounds, calibrated, recipe)
        sys.stdout.write(f"| {', '.join(calibrated)} {options} | {cells} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
