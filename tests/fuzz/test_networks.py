# SPDX-License-Identifier: Apache-2.0
"""The network generator: what it makes is valid, the same each time, and means to us what it means to ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.fuzz.networks import ENDS, MIDDLE, network, pieces, samples
from tests.load.onnx_models import load, run_onnxruntime
from tinyc.passes import normalize
from tinyc.reference.interpreter import run_float


def agrees(seed: int, folder: Path) -> None:
    model = network(seed)
    feeds = samples(model, seed, 1)
    graph = normalize(load(model, folder))
    outputs = run_float(graph, feeds)
    for name, array in run_onnxruntime(model, feeds).items():
        np.testing.assert_allclose(outputs[name], array, rtol=1e-4, atol=1e-4 * max(1.0, float(np.abs(array).max())))


def test_networks_mean_what_they_mean_to_onnxruntime(tmp_path: Path) -> None:
    for seed in range(60):
        agrees(seed, tmp_path)


@pytest.mark.slow
def test_many_networks(tmp_path: Path) -> None:
    for seed in range(1000, 2000):
        agrees(seed, tmp_path)


def test_every_piece_is_used() -> None:
    used = {piece for seed in range(300) for piece in pieces(seed)}
    assert used == {*MIDDLE, *ENDS}


def test_a_seed_is_a_network() -> None:
    assert network(5).SerializeToString() == network(5).SerializeToString()
    assert network(5) != network(6)


def test_fewer_pieces_make_a_smaller_network() -> None:
    every = len(pieces(3))
    whole = network(3)
    assert network(3, range(every)) == whole
    assert len(network(3, [0]).graph.node) < len(whole.graph.node)
