# SPDX-License-Identifier: Apache-2.0
"""Outputs that hold several quantities: each has a score of its own, and the search looks at all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.test_cli import Ran, tinyc  # noqa: F401  a fixture
from tests.load.onnx_models import build, load, op, rand
from tinyc.explain.diagnosis import diagnose
from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import Calibration, quantize
from tinyc.quantize.calibration import Sequences
from tinyc.quantize.score import Teacher, axis_of_quantities
from tinyc.quantize.simulate import Batch, sqnr_db

WIDTH = 12


def two_targets(ending: str = "") -> onnx.ModelProto:
    """A regression of two targets, one fifty times as large as the other."""
    last = "s" if ending else "y"
    nodes = [op("Gemm", "x w", "h"), op("Relu", "h", "r"), op("Gemm", "r v", last)]
    nodes += [op(ending, "s", "y", axis=1)] if ending else []
    v = rand(2, 9, 2) * np.array([50, 1], np.float32)
    return build(nodes, {"x": [1, WIDTH]}, ["y"], {"w": rand(1, WIDTH, 9), "v": v})


def graph_of(model: onnx.ModelProto, folder: Path) -> Graph:
    return normalize(load(model, folder))


def samples(count: int = 64, seed: int = 5) -> Array:
    return rand(seed, count, 1, WIDTH)


def test_the_score_of_an_output_is_the_mean_of_its_quantities(tmp_path: Path) -> None:
    """Noise on the small one counts as much as noise on the large one."""
    graph = graph_of(two_targets(), tmp_path)
    teacher = Teacher.of(graph, {"x": samples()})
    y = Batch(graph).run({"x": samples()})["y"]
    noise = rand(3, *y.shape)
    scores = []
    for of_one in ([0.05, 0.0], [0.0, 0.05]):
        noisy = y + noise * np.array(of_one, np.float32) * y.std(axis=0)
        signal = y - y.mean(axis=0)
        each = [sqnr_db(signal[..., k], (noisy - y.mean(axis=0))[..., k]) for k in range(2)]
        scores.append(teacher.score_of({"y": noisy}))
        assert scores[-1] == pytest.approx(np.mean(np.minimum(each, 100.0)))
    assert abs(scores[0] - scores[1]) < 1.5


def test_which_outputs_hold_quantities(tmp_path: Path) -> None:
    assert axis_of_quantities(graph_of(two_targets(), tmp_path), "y") == -1
    assert axis_of_quantities(graph_of(two_targets("Softmax"), tmp_path), "y") is None  # classes are alike
    shapes = {(1, 8, 5, 5): {-1, -3}, (1, 6, 300): {-2}, (1, 40, 6): {-1}, (1, 1): {None}, (1, 400): {None}}
    for shape, axes in shapes.items():
        size = int(np.prod(shape))
        if len(shape) == 4:
            nodes = [op("Conv", "x w", "y", kernel_shape=[1, 1])]
            model = build(nodes, {"x": [1, 3, 5, 5]}, ["y"], {"w": rand(1, 8, 3, 1, 1)})
        else:
            nodes = [op("Gemm", "x w", "h"), op("Reshape", "h shape", "y")]
            model = build(nodes, {"x": [1, 4]}, ["y"], {"w": rand(1, 4, size), "shape": np.array(shape)})
        assert axis_of_quantities(graph_of(model, tmp_path), "y") in axes


def test_every_output_and_quantity_is_reported(tmp_path: Path) -> None:
    graph = graph_of(two_targets(), tmp_path)
    recipe = Recipe("minmax", rounding="nearest", output_scales="one")
    quantized_model = quantize(graph, Calibration({"x": samples()}, "test", proven=True), recipe)
    diagnosis = diagnose(graph, quantized_model, Sequences({"x": samples()}, (0,)), None)
    (output,) = diagnosis.outputs
    assert (output.name, output.sqnr_db) == ("y", diagnosis.sqnr_db)
    assert diagnosis.sqnr_db is not None
    assert output.quantities[0] > 30
    assert output.quantities[1] < output.quantities[0] - 12  # the sum of both says nothing of it
    assert diagnosis.sqnr_db > output.quantities[1] + 12


def test_people_read_them(tinyc, tmp_path: Path) -> None:  # noqa: F811
    onnx.save(two_targets(), tmp_path / "two.onnx")
    np.savez(tmp_path / "two.calib.npz", x=samples())
    ran: Ran = tinyc("quantize", tmp_path / "two.onnx", "--effort", "fast", "--output-scales", "one")
    assert ran.code == 0, ran.err
    assert "numbers of 'y'" in ran.out
    assert "least 1: " in ran.out
