# SPDX-License-Identifier: Apache-2.0
"""Every ONNX operator in integers beside ONNX Runtime, at random sizes, attributes, scales and zero points."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import load
from tests.load.onnx_quantized import run_unoptimized
from tests.load.onnx_random import GENERATORS
from tests.load.onnx_random_quantized import quantized
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_int

QUICK, MANY = 4, 60
# One scale for all their outputs, rescaled where the file has another: docs/import.md.
ONE_SCALE = {"LogSoftmax", "LpNormalization"}
# Float constants that tinyc rounds to 8 bits: docs/import.md.
ROUNDED = {"DFT", "Div", "Gemm", "PRelu", "STFT"}
# A padded pool and an interpolation in steps of 1/1024, each rounded before it is rescaled, perhaps to finer steps.
ROUNDED_TWICE = {"AveragePool", "Resize"}
NAMES = sorted(set(GENERATORS) - ONE_SCALE - ROUNDED)


def compare(name: str, seed: int, folder: Path) -> None:
    """Assert that the integers are ONNX Runtime's, but for a step here and there: its float32 sums go either way
    where a result lies at a half."""
    drawn = quantized(name, seed)
    if drawn is None:
        return
    theirs = run_unoptimized(drawn.model, drawn.feeds)
    try:
        graph = normalize(load(drawn.model, folder))
        y = run_int(graph, drawn.feeds, Numerics.ONNX)[graph.outputs[0]]
    except TinycError:  # what stays in float, or is refused with its reason
        return
    assert y.shape == theirs.shape
    steps = np.abs(y.astype(np.int64) - theirs.astype(np.int64))
    assert steps.max() <= 1 + (name in ROUNDED_TWICE), (name, seed)
    assert name in ROUNDED_TWICE or np.count_nonzero(steps) <= 1 + steps.size // 20, (name, seed)


@pytest.mark.quick_cases(55)
@pytest.mark.parametrize("name", NAMES)
def test_integers_are_onnxruntimes(name: str, tmp_path: Path) -> None:
    for seed in range(QUICK):
        compare(name, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_integers_are_onnxruntimes_often(name: str, tmp_path: Path) -> None:
    for seed in range(QUICK, MANY):
        compare(name, seed, tmp_path)
