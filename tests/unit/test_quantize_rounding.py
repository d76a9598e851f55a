# SPDX-License-Identifier: Apache-2.0
"""Learned rounding, the batched simulation it works with, mixed widths, and what calibration can be made of."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, load, op, rand
from tests.unit.networks import random_network
from tests.unit.test_quantize_model import calibrated, samples, uneven_network
from tinyc.base.errors import TinycError
from tinyc.explain.diagnosis import integer_outputs
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph, Node
from tinyc.ops import all_ops, op_of
from tinyc.ops.fully_connected import FullyConnected
from tinyc.ops.slice import Slice
from tinyc.options.recipe import Pictures, Recipe
from tinyc.passes import normalize
from tinyc.passes.weights import has_weights, windows_of
from tinyc.quantize import augment, quantize, weight_bytes
from tinyc.quantize.augment import augmented, pictures
from tinyc.quantize.calibration import Calibration
from tinyc.quantize.mixed import Sensitivity, for_loss, within
from tinyc.quantize.ranges import METHODS
from tinyc.quantize.rounding import Moments, compensated, descend, learn, moments
from tinyc.quantize.score import Teacher
from tinyc.quantize.settle import parted
from tinyc.quantize.simulate import Batch, sqnr_db
from tinyc.quantize.sources import load_source
from tinyc.reference.interpreter import prepare_float

LEARNED = Recipe("minmax", equalize=False, rounding="learned")


@pytest.mark.parametrize("seed", range(12))
def test_batches_compute_what_the_reference_does(tmp_path: Path, seed: int) -> None:
    graph = normalize(load(random_network(seed), tmp_path))
    inputs = {name: rand(seed + 50, 4, *graph.values[name].shape) for name in graph.inputs}
    values = Batch(graph).run(inputs, [name for name in graph.values if name not in graph.consts])
    for k in range(4):
        expected = prepare_float(graph)({name: a[k] for name, a in inputs.items()}, keep="all")
        for name, array in expected.items():
            np.testing.assert_allclose(values[name][k], array, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [1, 2])
def test_large_pictures_are_computed_by_rows_as_the_reference_does_whole(tmp_path: Path, stride: int) -> None:
    """Samples of more elements than are computed at once, in float and in integers."""
    depthwise = op("Conv", "c d", "y", group=24, strides=[stride, stride], pads=[1, 1, 1, 1])
    constants = {"w": rand(1, 24, 3, 1, 1), "b": rand(2, 24), "d": rand(3, 24, 1, 3, 3)}
    model = build([op("Conv", "x w b", "c"), depthwise], {"x": (1, 3, 101, 113)}, ["y"], constants)
    graph = normalize(load(model, tmp_path))
    inputs = {"x": rand(4, 3, *graph.values["x"].shape)}
    calibration = Calibration(inputs, "test", proven=True, model=tmp_path / "model.onnx")
    integer = quantize(graph, calibration, replace(LEARNED, rounding="nearest", output_scales="one")).graph
    reals = Batch(graph).run(inputs)["y"]
    expected = np.stack([prepare_float(graph)({"x": x})["y"] for x in inputs["x"]])
    np.testing.assert_allclose(reals, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(Batch(graph).run({"x": inputs["x"][1:]})["y"], reals[1:])
    computed = integer_outputs(integer, inputs)
    steps = Batch(integer).run(inputs)["y"] / integer.values["y"].quant.per_tensor[0]
    off = np.abs(steps + integer.values["y"].quant.per_tensor[1] - computed)
    assert off.max() <= 1.01
    assert (off > 0.5).mean() < 1e-3  # a step apart where a sum lies on a border


@pytest.mark.parametrize(("groups", "channels", "taps"), [(1, 700, 75), (3, 5, 40), (60, 1, 9)])
def test_compensation_by_blocks_is_that_of_one_tap_after_the_other(groups: int, channels: int, taps: int) -> None:
    rng = np.random.default_rng(taps)
    left = rng.standard_normal((groups, channels, taps))
    upper = np.triu(rng.standard_normal((groups, taps, taps))) + 4 * np.eye(taps)
    scale = rng.uniform(0.1, 0.3, (groups, channels))
    blocks = compensated(left, scale, upper, (-8, 7))
    for k in range(taps):
        q = np.clip(np.rint(left[:, :, k] / scale), -8, 7)
        np.testing.assert_array_equal(blocks[:, :, k], q)
        error = (left[:, :, k] - q * scale) / upper[:, None, k, k]
        left[:, :, k:] -= error[:, :, None] * upper[:, None, k, k:]


@pytest.mark.parametrize(("groups", "channels", "taps"), [(1, 30, 150), (3, 5, 70), (60, 1, 9)])
def test_a_sweep_over_moving_taps_is_that_over_one_tap_after_the_other(groups: int, channels: int, taps: int) -> None:
    rng = np.random.default_rng(taps)
    rows = rng.standard_normal((groups, 2 * taps, taps))
    h = rows.transpose(0, 2, 1) @ rows / taps
    scale, w = rng.uniform(0.1, 0.3, (groups, channels)), rng.standard_normal((groups, channels, taps))
    c, q = w @ h, np.clip(np.rint(w / scale[:, :, None]), -8, 7)
    sums = q @ h
    by_tap, sums_by_tap = q.copy(), sums.copy()
    for k in range(taps):
        step = (scale * sums_by_tap[:, :, k] - c[:, :, k]) / (h[:, None, k, k] * scale)
        delta = np.clip(np.rint(by_tap[:, :, k] - step), -8, 7) - by_tap[:, :, k]
        delta = np.where((delta * step < 0) & (np.abs(delta) * (2 * np.abs(step) - np.abs(delta)) > 1e-9), delta, 0.0)
        by_tap[:, :, k] += delta
        sums_by_tap += delta[:, :, None] * h[:, None, k]
    before = q.copy()
    assert descend(q, sums, scale, h, c, (-8, 7))
    assert (q != before).any()
    np.testing.assert_array_equal(q, by_tap)
    np.testing.assert_array_equal(sums, sums_by_tap)
    while descend(q, sums, scale, h, c, (-8, 7)):
        pass
    at_rest = q.copy()
    assert not descend(q, sums, scale, h, c, (-8, 7))
    np.testing.assert_array_equal(q, at_rest)


def deep_network() -> onnx.ModelProto:
    """Three convolutions with many taps, depthwise in the middle."""
    nodes = [
        op("Conv", "x w", "c"),
        op("Relu", "c", "r"),
        op("Conv", "r d", "e", group=16),
        op("Relu", "e", "s"),
        op("Conv", "s p", "y"),
    ]
    constants = {"w": rand(1, 16, 3, 3, 3), "d": rand(2, 16, 1, 3, 3), "p": rand(3, 8, 16, 1, 1)}
    return build(nodes, {"x": [1, 3, 9, 9]}, ["y"], constants)


def test_the_simulation_is_the_integer_reference_but_for_ties(tmp_path: Path) -> None:
    graph, calibration = calibrated(deep_network(), tmp_path)
    integer = quantize(graph, calibration, LEARNED).graph
    (name,) = integer.outputs
    quant = integer.values[name].quant
    assert quant is not None
    simulated = Batch(integer).run(calibration.inputs)[name]
    exact = np.stack([quant.dequantize(y) for y in integer_outputs(integer, calibration.inputs)])
    steps = np.abs(exact - simulated) / quant.scale[0]
    assert steps.max() <= 1.01
    assert (steps > 0.01).mean() < 0.01


def moments_of(x: Array) -> Moments:
    centred = x - x.mean(axis=0)
    h = centred.T @ centred / len(x)
    return Moments(h[None], h[None], x.mean(axis=0)[None], x.mean(axis=0)[None])


@pytest.mark.parametrize("taps", [1, 2, 3, 4])
def test_learned_integers_are_nearly_the_best_of_all(taps: int) -> None:
    """Against every combination of integers, for a fixed scale; the expected error includes the damping."""
    rng = np.random.default_rng(taps)
    x = rng.normal(size=(200, taps)) @ rng.normal(size=(taps, taps))
    w, scale = rng.normal(size=(1, 3, taps)), np.full((1, 3), 0.4)
    m = moments_of(x)
    h = m.h[0] + 0.1 * np.trace(m.h[0]) / taps * np.eye(taps)
    learned = learn(w, np.zeros((1, 3)), m, (-3, 3), fixed=scale).q[0]
    every = np.array(list(itertools.product(range(-3, 4), repeat=taps)), np.float64)
    for channel in range(3):

        def error(q: Array, target: Array = w[0, channel]) -> Array:
            off = 0.4 * q - target
            return np.einsum("...i,ij,...j->...", off, h, off)

        nearest = error(np.clip(np.rint(w[0, channel] / 0.4), -3, 3))
        assert error(learned[channel]) <= nearest + 1e-9
        assert error(learned[channel]) <= error(every).min() * 1.3 + 1e-9


def test_learned_bias_keeps_the_mean() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(3, 1, size=(500, 9))
    w, bias = rng.normal(size=(1, 5, 9)), rng.normal(size=(1, 5))
    learned = learn(w, bias, moments_of(x), (-8, 7))
    sums = x @ (learned.scale[0][:, None] * learned.q[0]).T + learned.bias[0]
    np.testing.assert_allclose(sums.mean(axis=0), (x @ w[0].T + bias[0]).mean(axis=0), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_learned_rounding_beats_the_nearest_in_four_bits(tmp_path: Path, seed: int) -> None:
    graph, calibration = calibrated(deep_network(), tmp_path)
    unseen = Teacher.of(graph, samples(graph, 40, seed=90 + seed))
    result = quantize(graph, calibration, replace(LEARNED, weights="int4"))
    check(result.graph, "quantize", all_ops())
    widths = {result.graph.values[node.inputs[1]].dtype for node in result.graph.nodes if node.name in result.bits}
    assert widths == {"s4"}
    plain = result.graph
    for node in result.graph.nodes:
        if node.name not in result.bits:
            continue
        value = plain.values[node.inputs[1]]
        source = next(n for n in result.float_graph.nodes if n.name == node.name).inputs[1]
        w = result.float_graph.consts[source]
        assert value.quant is not None
        axis = value.quant.axis
        assert axis is not None
        others = tuple(k for k in range(w.ndim) if k != axis)
        scale = np.abs(w).max(axis=others) / 7
        shape = [-1 if k == axis else 1 for k in range(w.ndim)]
        q = np.clip(np.rint(w / scale.reshape(shape)), -8, 7).astype(np.int8)
        values = {**plain.values, value.name: replace(value, quant=replace(value.quant, scale=tuple(scale.tolist())))}
        plain = replace(plain, values=values, consts={**plain.consts, value.name: q})
    assert unseen.score(result.graph) > unseen.score(plain) + 2


def test_mixed_widths_are_the_best_of_all() -> None:
    rng = np.random.default_rng(5)
    layers = [Sensitivity(f"l{k}", int(rng.integers(20, 2000)) * 32, float(rng.random())) for k in range(8)]
    least, most = (sum(layer.bytes_of(bits) for layer in layers) for bits in (4, 8))
    for budget in (least, (least + most) // 2, (3 * least + most) // 4, most):
        chosen_bits = within(layers, budget)
        assert sum(layer.bytes_of(chosen_bits[layer.layer]) for layer in layers) <= budget
        noise = sum(layer.noise for layer in layers if chosen_bits[layer.layer] == 4)
        best = min(
            sum(layer.noise for layer, bits in zip(layers, widths, strict=True) if bits == 4)
            for widths in itertools.product((4, 8), repeat=len(layers))
            if sum(layer.bytes_of(bits) for layer, bits in zip(layers, widths, strict=True)) <= budget
        )
        assert noise == pytest.approx(best)
    with pytest.raises(TinycError, match="1 too few"):
        within(layers, least - 1)


def test_the_loss_decides_how_many_layers_are_narrow(tmp_path: Path) -> None:
    layers = [Sensitivity(f"l{k}", 3200, float(k)) for k in range(6)]
    graph = normalize(load(random_network(0), tmp_path))
    asked = []

    def learn_bits(bits: dict[str, int]) -> object:
        asked.append(bits)
        return graph

    def loss(_: object) -> float:
        return float(sum(bits == 4 for bits in asked[-1].values()))

    for most in (0, 2, 3, 6):
        widths = for_loss(layers, learn_bits, loss, most)  # type: ignore[arg-type]
        assert sum(bits == 4 for bits in widths.values()) == most
    assert widths == {f"l{k}": 4 for k in range(6)}


def test_a_budget_of_bytes_is_kept(tmp_path: Path) -> None:
    graph, calibration = calibrated(uneven_network(), tmp_path)
    full = weight_bytes(quantize(graph, calibration, LEARNED).graph)
    budget = full * 7 // 10
    result = quantize(graph, calibration, replace(LEARNED, weights="auto", weight_bytes=budget))
    assert full // 2 <= weight_bytes(result.graph) <= budget
    assert set(result.bits.values()) == {4, 8}
    assert len(result.sensitivities) == len(result.bits)
    with pytest.raises(TinycError, match="too few"):
        quantize(graph, calibration, replace(LEARNED, weights="auto", weight_bytes=full // 3))


def test_automatic_calibration_measures_on_other_samples(tmp_path: Path) -> None:
    """One wild sample: min-max wastes the range on it; the automatic choice must not be worse than any fixed one."""
    nodes = [op("Conv", "x w", "c"), op("Relu", "c", "r"), op("Conv", "r v", "y")]
    model = build(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"w": rand(1, 6, 3, 3, 3), "v": rand(2, 5, 6, 3, 3)})
    graph, calibration = calibrated(model, tmp_path)
    unseen = Teacher.of(graph, samples(graph, 40, seed=9))
    fixed = [
        quantize(graph, calibration, Recipe(method, equalize=False, rounding="nearest")).graph for method in METHODS
    ]
    automatic = quantize(graph, calibration, Recipe()).graph
    assert unseen.score(automatic) > max(unseen.score(g) for g in fixed) - 1.5


def test_pictures_are_varied_and_nothing_else(tmp_path: Path) -> None:
    nodes = [op("Conv", "x w", "c"), op("GlobalAveragePool", "c", "g"), op("Flatten", "g", "y")]
    graph, calibration = calibrated(build(nodes, {"x": [1, 3, 16, 18]}, ["y"], {"w": rand(1, 4, 3, 3, 3)}), tmp_path)
    assert pictures(graph) is not None
    more = augmented(graph, calibration)
    x, y = calibration.inputs["x"], more.inputs["x"]
    assert y.shape[1:] == x.shape[1:]
    assert len(y) > 4 * len(x)
    np.testing.assert_array_equal(y[: len(x)], x)
    assert y.min() == x.min()
    assert y.max() == x.max()
    np.testing.assert_array_equal(augmented(graph, calibration).inputs["x"], y)
    assert not np.array_equal(augmented(graph, calibration, seed=1).inputs["x"], y)
    small = normalize(load(build(nodes, {"x": [1, 3, 8, 8]}, ["y"], {"w": rand(1, 4, 3, 3, 3)}), tmp_path))
    assert pictures(small) is None


def test_large_pictures_have_fewer_variants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [op("Conv", "x w", "c"), op("GlobalAveragePool", "c", "g"), op("Flatten", "g", "y")]
    graph, calibration = calibrated(build(nodes, {"x": [1, 3, 16, 18]}, ["y"], {"w": rand(1, 4, 3, 3, 3)}), tmp_path)
    elements = sum(value.elements for value in graph.values.values())
    at_most = 5 * calibration.samples
    monkeypatch.setattr(augment, "_FEWEST", 2 * calibration.samples)
    for budget, count in ((at_most * elements, at_most), (1, 2 * calibration.samples)):
        monkeypatch.setattr(augment, "_MOST_ELEMENTS", budget)
        assert augmented(graph, calibration).samples == count


@pytest.mark.parametrize(
    ("group", "kernel", "stride"), [(1, 3, 1), (1, 1, 1), (1, 1, 2), (2, 3, 2), (6, 3, 1), (6, 5, 2)]
)
def test_windows_at_some_places(tmp_path: Path, group: int, kernel: int, stride: int) -> None:
    nodes = [op("Conv", "x w", "y", group=group, strides=[stride, stride], pads=[kernel // 2] * 4)]
    weights = {"w": rand(1, 6, 6 // group, kernel, kernel)}
    graph = normalize(load(build(nodes, {"x": [1, 6, 9, 7]}, ["y"], weights), tmp_path))
    (node,) = (node for node in graph.nodes if has_weights(node))
    x, w = rand(2, 3, *graph.values[node.inputs[0]].shape), graph.consts[node.inputs[1]]
    windows = windows_of(node, w)
    every = windows(x, None)
    at = np.random.default_rng(3).integers(0, every.shape[1], 20)
    np.testing.assert_array_equal(windows(x, at), every[:, at])


@pytest.mark.parametrize("step", [(1, 2), (-1, 1), (2, -3)])
def test_parts_of_batches(step: tuple[int, int]) -> None:
    part = Slice(tuple(1 if s > 0 else 6 for s in step), (2, 2), step)
    x = rand(1, 5, 8, 9)
    rules = op_of(Node("s", "slice", ("x",), ("y",), part))
    assert rules.batched.forward is not None
    np.testing.assert_array_equal(rules.batched.forward(part, x), [rules.float_ref(part, each)[0] for each in x])


def image_graph(tmp_path: Path) -> Graph:
    nodes = [op("Conv", "x w", "y")]
    return normalize(load(build(nodes, {"x": [1, 3, 4, 6]}, ["y"], {"w": rand(1, 4, 3, 3, 3)}), tmp_path))


def test_folders_of_arrays(tmp_path: Path) -> None:
    graph = image_graph(tmp_path)
    folder = tmp_path / "arrays"
    folder.mkdir()
    x = rand(3, 5, 3, 4, 6)
    np.save(folder / "a.npy", x[0])
    np.save(folder / "b.npy", x[1:4])
    np.savez(folder / "c.npz", x=x[4])
    samples_read = load_source(folder, graph)
    np.testing.assert_array_equal(samples_read.arrays["x"], x)
    (folder / "d.png").write_bytes(b"not one")
    with pytest.raises(TinycError, match="both arrays and pictures"):
        load_source(folder, graph)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TinycError, match="holds no samples"):
        load_source(empty, graph)


def test_folders_of_pictures(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    graph = image_graph(tmp_path)
    folder = tmp_path / "pictures"
    folder.mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    image.fromarray(pixels).save(folder / "a.png")
    wide = np.concatenate([np.zeros((4, 2, 3), np.uint8), pixels, np.zeros((4, 2, 3), np.uint8)], axis=1)
    image.fromarray(wide).save(folder / "b.png")
    samples_read = load_source(folder, graph, Pictures((1.0, 2.0, 3.0), (2.0,)))
    expected = ((pixels.astype(np.float32) - [1, 2, 3]) / 2).transpose(2, 0, 1)
    np.testing.assert_allclose(samples_read.arrays["x"][0], expected, atol=1e-5)
    np.testing.assert_allclose(samples_read.arrays["x"][1], expected, atol=1e-5)  # the middle part is cut out
    stretched = load_source(folder, graph, Pictures(fit="stretch")).arrays["x"]
    assert not np.allclose(stretched[1], pixels.transpose(2, 0, 1), atol=1)
    (folder / "c.png").write_bytes(b"not one")
    with pytest.raises(TinycError, match="not a readable picture"):
        load_source(folder, graph)


def test_functions_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = image_graph(tmp_path)
    (tmp_path / "my_calibration.py").write_text(
        "import numpy as np\n"
        "x = np.arange(2 * 72, dtype=np.float32).reshape(2, 3, 4, 6)\n"
        "def array(): return x\n"
        "def mapping(): return {'x': x}\n"
        "def one_by_one(): yield from x\n"
        "def broken(): raise KeyError('no data')\n"
    )
    monkeypatch.chdir(tmp_path)
    for function in ("array", "mapping", "one_by_one"):
        samples_read = load_source(Path(f"my_calibration:{function}"), graph)
        np.testing.assert_array_equal(samples_read.arrays["x"].ravel(), np.arange(144))
    for function in ("broken", "absent"):
        with pytest.raises(TinycError, match="calibration function failed"):
            load_source(Path(f"my_calibration:{function}"), graph)
    del sys.modules["my_calibration"]


def test_sqnr() -> None:
    assert sqnr_db(np.array([3.0, 4.0]), np.array([3.0, 4.5])) == pytest.approx(20)
    assert sqnr_db(np.ones(3), np.ones(3)) == 200


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 1e4, 1e6])
@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-6])
def test_inputs_that_hardly_change(size: float, noise: float) -> None:
    """Then the moments hold little but the errors of their sums, and may have no inverse."""
    rng = np.random.default_rng(3)
    node = Node("layer", "fully_connected", ("x", "w"), ("y",), FullyConnected())
    for k in (1, 9, 40):
        w = rng.standard_normal((5, k))
        x = (size * rng.standard_normal(k) + noise * rng.standard_normal((8, k))).astype(np.float32)
        step = max(float(np.abs(x).max()) / 127, 2.0**-24)
        m = moments(windows_of(node, w), (np.rint(x / step) * step).astype(np.float32), x, (step, 127.0))
        learned = learn(w[None], np.zeros((1, 5)), m, (-127, 127))
        assert np.isfinite(learned.q).all()
        assert np.isfinite(learned.bias).all()
        assert (learned.scale > 0).all()


@pytest.mark.parametrize("weights", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("level", [0.0, 3.7])
def test_a_network_that_was_never_trained(tmp_path: Path, weights: float, level: float) -> None:
    """Weights all zero or as initialised, biases that hide them, and pictures of one colour."""
    nodes = [
        op("Conv", "x w b", "c", pads=[1] * 4),
        op("Relu", "c", "r"),
        op("Conv", "r d e", "z", group=4),
        op("GlobalAveragePool", "z", "g"),
        op("Flatten", "g", "f"),
        op("Gemm", "f m", "y"),
    ]
    constants = {"w": rand(1, 4, 2, 3, 3), "b": rand(2, 4), "d": rand(3, 4, 1, 3, 3), "m": rand(4, 4, 3)}
    constants = {name: np.float32(weights) * array for name, array in constants.items()}
    constants["e"] = np.full(4, 100, np.float32)
    graph = normalize(load(build(nodes, {"x": (1, 2, 6, 6)}, ["y"], constants), tmp_path))
    inputs = {"x": np.full((8, *graph.values["x"].shape), level, np.float32)}
    calibration = Calibration(inputs, "test", proven=True, model=tmp_path / "model.onnx")
    for recipe in (LEARNED, replace(LEARNED, weights="int4")):
        integer = quantize(graph, calibration, recipe).graph
        check(integer, "quantize", all_ops())
        dequantized = integer.values["y"].quant.dequantize(integer_outputs(integer, inputs))
        reals = np.stack([prepare_float(graph)({"x": x})["y"] for x in inputs["x"]])
        assert np.abs(dequantized - reals).max() <= 0.05 * np.abs(reals).max()


@pytest.mark.parametrize("count", [8, 13, 40, 96, 300])
def test_plans_are_judged_by_samples_that_nothing_was_fitted_to(count: int) -> None:
    fit, unseen = parted(Calibration({"x": np.arange(count, dtype=np.float32)[:, None]}, "test", proven=True))
    fitted, judges = set(fit.inputs["x"].ravel()), set(unseen.inputs["x"].ravel())
    if count < 12:
        assert fitted == judges == set(range(count))
        return
    assert not fitted & judges
    assert len(fitted) == min(count, 96) - min(count, 96) // 3
    assert len(judges) == len(unseen.inputs["x"]) == min(96, count - len(fitted))
