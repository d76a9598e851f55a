# SPDX-License-Identifier: Apache-2.0
"""The passes as a whole: whatever the network, the same function, one layout, nothing left to fold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import imported, load, ops_of, rand
from tests.unit.networks import random_network
from tinyc.base.numerics import Numerics
from tinyc.passes import normalize
from tinyc.quantize import Calibration, Recipe, quantize_model
from tinyc.reference.interpreter import run_int

SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_float_networks_compute_the_same(tmp_path: Path, seed: int) -> None:
    """And no transpose is left but the one that the NCHW input asks for."""
    graph = imported(random_network(seed), tmp_path, seed)
    transposes = [node for node in graph.nodes if node.op == "transpose"]
    assert len(transposes) <= 1
    assert all(node.inputs[0] == "x" for node in transposes)


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize("seed", SEEDS)
def test_integer_networks_compute_exactly_the_same(tmp_path: Path, seed: int) -> None:
    """Quantized as loaded, with all its transposes and clips, then normalized: not one bit differs."""
    loaded = load(random_network(seed), tmp_path)
    samples = rand(seed, 4, *loaded.values["x"].shape)
    calibration = Calibration({"x": samples}, "test", proven=True)
    integer = quantize_model(
        loaded, calibration, Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest")
    )
    normal = normalize(integer)
    assert len(normal.nodes) < len(integer.nodes)
    assert ops_of(normal).count("transpose") <= 1
    x = np.random.default_rng(seed).integers(-128, 128, (4, *loaded.values["x"].shape[1:])).astype(np.int8)
    for numerics in Numerics:
        before, after = (run_int(graph, {"x": x}, numerics) for graph in (integer, normal))
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array)
