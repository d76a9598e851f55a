# SPDX-License-Identifier: Apache-2.0
"""Networks as exporters write them: imported whole, equal to ONNX Runtime, and with an integer form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_exports import EXPORTS
from tests.load.onnx_models import load, run_onnxruntime
from tinyc.passes import normalize
from tinyc.quantize import quantize_model
from tinyc.quantize.calibration import Calibration
from tinyc.reference.interpreter import run_float


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_equal_onnxruntime_and_can_be_quantized(tmp_path: Path, name: str) -> None:
    model = EXPORTS[name]()
    graph = normalize(load(model, tmp_path))
    x = np.random.default_rng(3).normal(0, 1, (4, *graph.values["x"].shape)).astype(np.float32)
    (y,) = graph.outputs
    theirs = run_onnxruntime(model, {"x": x[0]})[y]
    np.testing.assert_allclose(run_float(graph, {"x": x[0]})[y], theirs, rtol=1e-3, atol=2e-4)
    integer = quantize_model(graph, Calibration({"x": x}, "made here", proven=False))
    assert integer.values[y].dtype == "s8"
