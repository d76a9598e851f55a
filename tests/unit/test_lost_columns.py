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
        (Recipe(output_scales="one"), True),
        (Recipe(), False),
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


@pytest.mark.parametrize("channels", [1, 2])
def test_corners_of_pictures_are_no_columns(channels: int, tmp_path: Path) -> None:
    """A spot in the middle of a picture, little at its edges: not lost, and a least SQNR is of the whole."""
    path = tmp_path / "m.onnx"
    weights = rand(2, channels, 1, 3, 3)
    onnx.save(build([op("Conv", "x w", "y", pads=[1, 1, 1, 1])], {"x": (1, 1, 16, 12)}, ["y"], {"w": weights}), path)
    rng = np.random.default_rng(3)
    rows, columns = (np.exp(-((np.arange(n) - n / 2) ** 2) / 2) for n in (16, 12))
    data = np.outer(rows, columns) * rng.uniform(5, 20, (8, 1, 1, 1)) + 1e-6 * rng.standard_normal((8, 1, 16, 12))
    for recipe in (Recipe(), Recipe(activations="auto", min_sqnr=30)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tinyc.build(path, "host", out=tmp_path / "out", calibration=data.astype(np.float32), recipe=recipe)
        assert not [str(one.message) for one in caught if "are lost" in str(one.message)]
