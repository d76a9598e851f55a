# SPDX-License-Identifier: Apache-2.0
"""Cameras before published models: every format and way to resize, by lines and whole, against the Python function."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tinyc
from tests.frontend.test_picture import frames
from tinyc.base.numerics import Numerics
from tinyc.frontend import load_camera
from tinyc.ir.graph import Graph
from tinyc.load import load_model
from tinyc.ops.picture import FORMATS
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.building import build
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

MODELS = ("mlperf_tiny/vww_int8.tflite", "zoo/person_detect_int8.tflite")  # 96x96, of colors and grey
SIZES = ("320x240", "319x241")
CROPS = ("fit", "201x151+37+11", "all", "97x240")
CASES = [
    (MODELS[(i + j) % 2], f"{name}:{SIZES[(i + j // 2) % 2]},crop={CROPS[(i + 2 * j + i // 4) % 4]},resize={resize}")
    for i, name in enumerate(FORMATS)
    for j, resize in enumerate(("nearest", "bilinear", "area"))
]


def first_layer(path: Path) -> Graph:
    """Up to the output of the first convolution, which depends on every pixel: labels would hide most."""
    graph = normalize(load_model(path))
    return replace(graph, nodes=graph.nodes[:1], outputs=graph.nodes[0].outputs)


@pytest.mark.slow
@pytest.mark.parametrize("input_rows", [False, True], ids=["whole", "lines"])
@pytest.mark.parametrize(("model", "line"), CASES, ids=[line for _, line in CASES])
def test_every_format_before_a_published_model(
    model: str, line: str, input_rows: bool, models_dir: Path, tmp_path: Path
) -> None:
    """On an emulated Cortex-M4, and the same C on this computer. By lines no frame is in the arena."""
    graph = first_layer(models_dir / model)
    x = graph.values[graph.inputs[0]]
    assert x.quant is not None
    height, width, channels = x.shape[1:]
    camera = load_camera(line).of((height, width), channels)
    given = frames(camera, 2, zlib.crc32(line.encode()))
    quantized = camera.quantized(given, *x.quant.per_tensor)
    reference = np.stack([run_int(graph, {x.name: one[None]}, Numerics.TFLM)[graph.outputs[0]] for one in quantized])
    np.savez(tmp_path / "in.npz", frame=given.reshape(-1, *camera.frame_shape))
    np.savez(tmp_path / "wanted.npz", **{graph.outputs[0]: reference})
    options = Options(
        "cortex-m4",
        picture=line,
        input_rows=input_rows,
        outputs=graph.outputs,
        inputs=tmp_path / "in.npz",
        expect=str(tmp_path / "wanted.npz"),
        prefer="time" if input_rows else "balanced",  # so that whole frames fit 256 KB
    )
    report, folder = build(models_dir / model, tmp_path / "out", options, Progress())
    assert report.passed
    assert report.arena_bytes < given[0].nbytes or not input_rows
    library = tinyc.load(folder)
    for frame, output in zip(given.reshape(-1, *camera.frame_shape), reference, strict=True):
        np.testing.assert_array_equal(library(frame), output[0])
