# SPDX-License-Identifier: Apache-2.0
"""The passes as a whole: whatever the network, the same function, one layout, nothing left to fold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.load.onnx_models import imported, load, ops_of, rand
from tests.unit.networks import random_network
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.export import as_in_files
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.pipeline.compiling import compile_integers
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.quantize import Calibration, quantize_model
from tinyc.reference.interpreter import run_int

SEEDS = range(60)
MINMAX = Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest")


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
    """Quantized as loaded, with all its transposes and clips, then normalized: not one bit differs.

    Numerics other than ours know a softmax of 1/256 only.
    """
    loaded = load(random_network(seed), tmp_path)
    samples = rand(seed, 4, *loaded.values["x"].shape)
    calibration = Calibration({"x": samples}, "test", proven=True)
    integer = quantize_model(loaded, calibration, MINMAX)
    normal = normalize(integer)
    assert len(normal.nodes) < len(integer.nodes)
    assert ops_of(normal).count("transpose") <= 1
    x = np.random.default_rng(seed).integers(-128, 128, (4, *loaded.values["x"].shape[1:])).astype(np.int8)
    for numerics in Numerics:
        own = (integer, normal) if numerics is Numerics.OURS else map(as_in_files, (integer, normal))
        before, after = (run_int(graph, {"x": x}, numerics) for graph in own)
        for name, array in before.items():
            np.testing.assert_array_equal(after[name], array)


@pytest.mark.parametrize("numerics", [one for one in Numerics if one is not Numerics.OURS])
def test_networks_are_compiled_with_numerics_of_others(tmp_path: Path, numerics: Numerics) -> None:
    """A softmax at the end has their 1/256 then, and 1/255 without."""
    model = tmp_path / "model.onnx"
    model.write_bytes(random_network(0).SerializeToString())
    scales = set()
    for asked in (numerics, None):
        options = Options("host", numerics=asked, recipe=MINMAX)
        integers = make_integers(model, load_board("host"), options, Progress())
        assert integers.numerics is (asked or Numerics.OURS)
        quant = integers.graph.values[integers.graph.outputs[0]].quant
        assert quant is not None
        scales.add(round(1 / quant.per_tensor[0]))
        assert compile_integers(integers, load_board("host"), options, Progress()).program.steps
    assert scales == {256, 255}
