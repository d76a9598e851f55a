# SPDX-License-Identifier: Apache-2.0
"""RFFT2D and what is taken of complex numbers, as `tf.signal.stft` is converted: LiteRT's floats within rounding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.tflite_models import act, numbers
from tests.ops.runtimes import run_litert
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc import build as build_library
from tinyc.base.errors import TinycError
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float

FRAMES, SIZE, LENGTH = 5, 20, 32
BINS = LENGTH // 2 + 1


def spectrum(code: str, size: int = SIZE) -> bytes:
    """Frames [FRAMES, size] through a window; magnitudes, or a part."""
    window = np.hanning(size).astype(np.float32)
    tensors = [
        Tensor("x", (FRAMES, size), "f32"), Tensor("h", (size,), "f32", data=window),
        Tensor("w", (FRAMES, size), "f32"), numbers("wide", [FRAMES, 1, size]),
        Tensor("r", (FRAMES, 1, size), "f32"), numbers("length", [1, LENGTH]),
        Tensor("c", (FRAMES, 1, BINS), "c64"), Tensor("s", (FRAMES, BINS), "c64"), Tensor("y", (FRAMES, BINS), "f32"),
    ]  # fmt: skip
    operators = [
        Operator("MUL", ("x", "h"), ("w",), "MulOptions", {"FusedActivationFunction": 0}),
        Operator("RESHAPE", ("w", "wide"), ("r",), "ReshapeOptions"),
        Operator("RFFT2D", ("r", "length"), ("c",), "Rfft2dOptions"),
        Operator("SQUEEZE", ("c",), ("s",), "SqueezeOptions"),
        Operator(code, ("s",), ("y",)),
    ]
    return build_model(tensors, operators, ["x"], ["y"])


@pytest.mark.parametrize("code", ["COMPLEX_ABS", "REAL", "IMAG"])
@pytest.mark.parametrize("size", [SIZE, 40])
def test_spectra_are_theirs(tmp_path: Path, code: str, size: int) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(spectrum(code, size))
    x = np.random.default_rng(2).normal(0, 1, (FRAMES, size)).astype(np.float32)
    (ours,) = run_float(normalize(load_model(path)), {"x": x[None]}).values()
    np.testing.assert_allclose(ours[0], run_litert(path.read_bytes(), x)[0], atol=1e-5)


def test_magnitudes_run_in_a_library(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(spectrum("COMPLEX_ABS"))
    built = build_library(path, "host", out=tmp_path / "out", precision="float32", samples=2)
    assert built.report.verify.mismatches == 0


def test_complex_numbers_elsewhere_are_refused(tmp_path: Path) -> None:
    tensors = [act("x", 4), Tensor("y", (4,), "f32")]
    path = tmp_path / "m.tflite"
    path.write_bytes(build_model(tensors, [Operator("COMPLEX_ABS", ("x",), ("y",))], ["x"], ["y"]))
    with pytest.raises(TinycError, match="which no RFFT2D makes"):
        load_model(path)
