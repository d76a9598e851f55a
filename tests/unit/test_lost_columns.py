# SPDX-License-Identifier: Apache-2.0
"""A detector's scores beside its boxes in one output: what int8 leaves of them is said, and the remedies work."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

import tinyc
from tests.load.onnx_models import build, op, rand
from tinyc import Recipe


def detector() -> onnx.ModelProto:
    """Boxes of hundreds of pixels, and a score of 0 to 1, of each place of an image."""
    nodes = [
        op("Conv", "x b", "boxes"),
        op("Mul", "boxes size", "pixels"),
        op("Conv", "x s", "raw"),
        op("Sigmoid", "raw", "scores"),
        op("Concat", "pixels scores", "y", axis=1),
    ]
    constants = {"b": rand(1, 4, 3, 1, 1), "s": rand(2, 2, 3, 1, 1), "size": np.float32(100)}
    return build(nodes, {"x": (1, 3, 4, 4)}, ["y"], constants)


@pytest.mark.parametrize(
    ("recipe", "warned"),
    [
        (Recipe(), True),
        (Recipe(int16_layers=("y",)), False),
        (Recipe(activations="auto", min_sqnr=30), False),
    ],
)
def test_lost_columns(tmp_path: Path, recipe: Recipe, warned: bool) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(detector(), path)
    data = np.random.default_rng(3).standard_normal((8, 3, 4, 4)).astype(np.float32)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        built = tinyc.build(path, "host", out=tmp_path / "out", calibration=data, recipe=recipe)
    assert built.report.passed
    lost = [str(one.message) for one in caught if "are lost" in str(one.message)]
    assert bool(lost) == warned
    assert all("numbers 4, 5 along axis 1 of output 'y'" in text and "--int16-layers 'y'" in text for text in lost)
