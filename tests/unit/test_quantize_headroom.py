# SPDX-License-Identifier: Apache-2.0
"""Which models are told to give their input back, what headroom is, and what an anomaly detector finds with it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, load, op, rand
from tinyc import api
from tinyc.explain.diagnosis import integer_outputs
from tinyc.ir.graph import Array, Graph
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.quantize import Calibration, quantize
from tinyc.quantize.headroom import reconstructs, roomy, with_room
from tinyc.quantize.metrics import auc
from tinyc.quantize.recipe import FEW
from tinyc.quantize.simulate import Batch, sqnr_db

WIDTH, FACTORS = 24, 4


def spectra(seed: int, count: int, level: float = 0.0, spread: float = 0.5) -> Array:
    """Sounds of one machine [count, 1, WIDTH]: a few factors make all bands; louder ones have more in all of them."""
    rng, mixing = np.random.default_rng(seed), rand(7, FACTORS - 1, WIDTH)
    loudness = level + spread * rng.standard_normal((count, 1))
    x = rng.standard_normal((count, FACTORS - 1)) @ mixing + loudness + rand(8, WIDTH) - 10
    return (x + 0.3 * rng.standard_normal(x.shape)).astype(np.float32)[:, None]


def autoencoder() -> onnx.ModelProto:
    """The principal components of the spectra and their mean, through relu pairs: each component and its negative."""
    x = spectra(1, 2000, spread=4.0).reshape(-1, WIDTH)
    mean = x.mean(axis=0)
    axes = np.linalg.svd(x - mean, full_matrices=False)[2][:FACTORS]
    w = np.concatenate([axes, -axes]).astype(np.float32)  # [2 * FACTORS, WIDTH]
    constants = {"w": w.T, "b": -(w @ mean), "v": np.concatenate([axes, -axes]).astype(np.float32), "mean": mean}
    nodes = [op("Gemm", "x w b", "h"), op("Relu", "h", "r"), op("Gemm", "r v mean", "y")]
    return build(nodes, {"x": [1, WIDTH]}, ["y"], constants)


def graph_of(model: onnx.ModelProto, folder: Path) -> Graph:
    return normalize(load(model, folder))


def calibration(x: Array, proven: bool = True) -> Calibration:
    return Calibration({"x": x}, "test", proven)


def scores(y: Array, x: Array) -> Array:
    return np.square(y.astype(np.float64) - x).reshape(len(x), -1).mean(axis=1)


def run_integers(graph: Graph, x: Array) -> Array:
    quant = graph.values[graph.outputs[0]].quant
    assert quant is not None
    return quant.dequantize(integer_outputs(graph, {"x": x}))


def test_an_autoencoder_is_told_by_its_graph_and_by_what_it_gives_back(tmp_path: Path) -> None:
    graph = graph_of(autoencoder(), tmp_path)
    assert reconstructs(graph, calibration(spectra(2, 64)))
    assert not reconstructs(graph, calibration(spectra(2, 64), proven=False))  # made-up inputs say nothing
    assert not reconstructs(graph, calibration(rand(3, 64, 1, WIDTH)))  # what it was not trained for


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        ([op("Gemm", "x w", "y")], {"w": np.eye(WIDTH, dtype=np.float32)}),  # through as many numbers as it has
        (  # the input is added to what is made of it, as in a denoiser
            [op("Gemm", "x w", "h"), op("Gemm", "h v", "d"), op("Add", "d x", "y")],
            {"w": rand(1, WIDTH, 3), "v": 0.01 * rand(2, 3, WIDTH)},
        ),
        ([op("Gemm", "x w", "y")], {"w": rand(1, WIDTH, 3)}),  # a classifier
        (  # gives back something else
            [op("Gemm", "x w", "h"), op("Gemm", "h v", "y")],
            {"w": rand(1, WIDTH, 3), "v": rand(2, 3, WIDTH)},
        ),
    ],
    ids=["no bottleneck", "residual", "classifier", "another output"],
)
def test_others_are_not(tmp_path: Path, nodes: list[onnx.NodeProto], constants: dict[str, Array]) -> None:
    graph = graph_of(build(nodes, {"x": [1, WIDTH]}, ["y"], constants), tmp_path)
    assert not reconstructs(graph, calibration(spectra(2, 64)))
    assert with_room(Recipe(), graph, calibration(spectra(2, 64))) == Recipe(headroom=1.0)


def test_what_nobody_has_heard_is_found(tmp_path: Path) -> None:
    """Machines that are louder or quieter than those of the calibration, some of them with a tone that none had: the
    float model tells them apart, the integers do nearly as well, and those that fit what was heard do not."""
    graph = graph_of(autoencoder(), tmp_path)
    heard, x = spectra(2, 96), np.concatenate([spectra(3, 150, 2.0), spectra(4, 150, -2.0)])
    broken = np.arange(len(x)) % 2
    x[..., 5] += 1.5 * broken[:, None]

    def area(y: Array) -> float:
        return auc(scores(y, x), broken)

    area_of_floats = area(Batch(graph).run({"x": x})["y"])
    assert area_of_floats > 0.9
    roomy_one = quantize(graph, calibration(heard))
    assert roomy_one.plan.headroom > 1
    assert (roomy_one.plan.method, roomy_one.plan.equalize) == ("minmax", False)
    assert area(run_integers(roomy_one.graph, x)) > area_of_floats - 0.01
    tight = quantize(graph, calibration(heard), Recipe(headroom=1.0))
    assert area(run_integers(tight.graph, x)) < area_of_floats - 0.05
    normal = spectra(5, 200)
    clean = Batch(graph).run({"x": normal})["y"]
    lost = sqnr_db(clean, run_integers(tight.graph, normal)) - sqnr_db(clean, run_integers(roomy_one.graph, normal))
    assert lost < 3


def test_ranges_hold_the_variants(tmp_path: Path) -> None:
    """Of whatever model asks for it, few samples or many, with the bits that are asked for, labels or none."""
    nodes = [op("Gemm", "x w b", "h"), op("Relu", "h", "r"), op("Gemm", "r v", "y")]
    constants = {"w": rand(1, WIDTH, 9), "b": rand(2, 9), "v": rand(3, 9, 3)}
    graph = graph_of(build(nodes, {"x": [1, WIDTH]}, ["y"], constants), tmp_path)
    for count in (FEW // 2, 2 * FEW):
        data = calibration(spectra(2, count))
        more = roomy(data, 2.0)
        assert (more.samples, more.few) == (4 * count, data.few)
        run = Batch(graph).run(more.inputs, list(graph.values.keys() - graph.consts.keys()))
        labelled = replace(data, labels=np.arange(count) % 2)
        for recipe, given in ((Recipe(headroom=2.0), labelled), (Recipe(headroom=2.0, weights="int4"), data)):
            integer = quantize(graph, given, recipe).graph
            for name in ("x", "y"):
                quant = integer.values[name].quant
                assert quant is not None
                scale, zero = quant.per_tensor
                assert scale * (-128.5 - zero) <= run[name].min()
                assert scale * (127.5 - zero) >= run[name].max()
        (fitting,) = (v.quant for v in [quantize(graph, data, Recipe("minmax")).graph.values["x"]])
        assert fitting is not None
        assert fitting.per_tensor[0] < scale * 0.7


def test_integer_inputs_have_no_room() -> None:
    """They name things, and are no quantities."""
    x = np.arange(6, dtype=np.int32).reshape(6, 1)
    more = roomy(Calibration({"x": x, "f": rand(1, 6, 1)}, "test", proven=True), 1.5)
    np.testing.assert_array_equal(more.inputs["x"], np.concatenate([x] * 4))
    np.testing.assert_array_equal(more.inputs["f"][:6], rand(1, 6, 1))
    assert np.ptp(more.inputs["f"]) > np.ptp(more.inputs["f"][:6])


def test_variants_of_what_never_varies_are_itself() -> None:
    zero = roomy(calibration(np.zeros((3, 1, 2), np.float32)), 1.5)
    np.testing.assert_array_equal(zero.inputs["x"], 0)


def test_variants_of_magnitudes_are_none_below_zero() -> None:
    """Else the logarithm of a variant has no value. Levels in decibels, of any sign, go beyond both ends."""
    x = np.random.default_rng(1).random((20, 1, 8), np.float32) ** 3 + np.float32(0.001)
    for magnitudes, least in ((x, 0.0005), (x - x.min(), 0.0)):
        varied = roomy(calibration(magnitudes), 1.4).inputs["x"]
        assert least <= varied.min() <= magnitudes.min()
        assert varied.max() > 1.2 * magnitudes.max()
    for level in (-30, -0.5, 30):
        varied = roomy(calibration(x + np.float32(level)), 1.2).inputs["x"]
        assert varied.min() < x.min() + level
        assert varied.max() > x.max() + level


@pytest.mark.parametrize("headroom", [None, 1.3])
def test_inputs_have_the_domain_of_a_logarithm(tmp_path: Path, headroom: float | None) -> None:
    """Variants below zero had no value: `headroom` blamed the data for it, and a search was given up for its plain
    setting. The layer whose rounded output has no logarithm loses all: it was `nan`, which JSON does not take."""
    nodes = [op("Add", "x least", "a"), op("Log", "a", "h"), op("MatMul", "h w", "m"), op("Relu", "m", "r")]
    constants = {"least": np.float32(1e-3), "w": rand(1, 8, 16) / 3, "v": rand(3, 16, 8) / 4}
    model = build([*nodes, op("MatMul", "r v", "y")], {"x": (1, 8)}, ["y"], constants, 17)
    onnx.save(model, tmp_path / "log.onnx")
    x = np.random.default_rng(0).random((60, 1, 8), np.float32) ** 3
    report = api.quantize(tmp_path / "log.onnx", calibration={"x": x}, headroom=headroom)
    assert report.diagnosis.sqnr_db is not None
    assert report.diagnosis.sqnr_db > 20
    json.dumps(asdict(report), allow_nan=False, default=str)


@pytest.mark.parametrize("last", ["Log", "Reciprocal"])
def test_a_model_may_end_in_what_is_infinite_at_zero(tmp_path: Path, last: str) -> None:
    """It was an internal error: the noise of an infinite output has no logarithm."""
    nodes = [op("MatMul", "x w", "m"), op("Abs", "m", "a"), op(last, "a", "y")]
    graph = graph_of(build(nodes, {"x": (1, 8)}, ["y"], {"w": rand(1, 8, 16)}, 17), tmp_path)
    quantized = quantize(graph, calibration(rand(2, 60, 1, 8)), Recipe())
    assert quantized.graph.values["y"].dtype == "s8"
    assert sqnr_db(np.ones(2, np.float32), np.array([1, np.inf], np.float32)) == -200
