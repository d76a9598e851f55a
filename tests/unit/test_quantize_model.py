# SPDX-License-Identifier: Apache-2.0
"""Observation, equalization, bias correction and calibration, on networks of the tests' own."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.load.onnx_models import build, load, op, rand
from tests.unit.networks import random_network
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.base.requantize import quantize_array
from tinyc.ir.check import check
from tinyc.ir.graph import Array, Graph
from tinyc.load.onnx import load_onnx
from tinyc.ops import all_ops
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.pipeline.progress import Progress
from tinyc.pipeline.quantizing import quantize_file
from tinyc.quantize import METHODS, Calibration, calibrate, quantize_model
from tinyc.quantize.correct import correct_biases, with_biases
from tinyc.quantize.equalize import equalize, find_links
from tinyc.quantize.observe import _open, check_model, observe
from tinyc.reference.interpreter import prepare_float, prepare_int, run_float

SEEDS = range(16)
RECIPES = [  # nothing to search for: quick
    Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest"),
    Recipe("mse", equalize=True, rounding="nearest"),
    Recipe("percentile", equalize=False, rounding="learned"),
]


def samples(graph: Graph, count: int = 24, seed: int = 1) -> dict[str, Array]:
    return {name: rand(seed, count, *graph.values[name].shape) for name in graph.inputs}


def calibrated(model: onnx.ModelProto, folder: Path) -> tuple[Graph, Calibration]:
    """The normalized graph and random inputs, with the file for onnxruntime."""
    graph = normalize(load(model, folder))
    return graph, Calibration(samples(graph), "test", proven=True, model=folder / "model.onnx")


def sqnr_db(graph: Graph, integer: Graph, inputs: dict[str, Array]) -> float:
    """Signal to noise of the first output over all samples."""
    name = graph.outputs[0]
    floats, integers = prepare_float(graph), prepare_int(integer, Numerics.OURS)
    signal = noise = 0.0
    for index in range(len(inputs["x"])):
        sample = {n: a[index] for n, a in inputs.items()}
        quantized = {}
        for n, a in sample.items():
            quant = integer.values[n].quant
            assert quant is not None
            quantized[n] = quantize_array(a, *quant.per_tensor, -128, 127).astype(np.int8)
        y, quant = floats(sample)[name], integer.values[name].quant
        assert quant is not None
        signal += float(np.square(y).sum())
        noise += float(np.square(y - quant.dequantize(integers(quantized)[name])).sum())
    return 10 * float(np.log10(signal / max(noise, 1e-30)))


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("recipe", RECIPES, ids=str)
def test_networks_keep_their_function(tmp_path: Path, seed: int, recipe: Recipe) -> None:
    graph, calibration = calibrated(random_network(seed), tmp_path)
    integer = quantize_model(graph, calibration, recipe)
    check(integer, "quantize", all_ops())
    assert normalize(integer).outputs == graph.outputs
    for name in (*graph.inputs, *graph.outputs):
        assert integer.values[name].dtype == "s8"
        assert integer.values[name].shape == graph.values[name].shape
    assert sqnr_db(graph, integer, dict(calibration.inputs)) > 18


@pytest.mark.parametrize("seed", range(3))
def test_networks_keep_their_function_when_all_is_automatic(tmp_path: Path, seed: int) -> None:
    graph, calibration = calibrated(random_network(seed), tmp_path)
    assert sqnr_db(graph, quantize_model(graph, calibration, Recipe()), dict(calibration.inputs)) > 18


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_observed_is_what_onnxruntime_computes(tmp_path: Path, seed: int) -> None:
    graph, calibration = calibrated(random_network(seed), tmp_path)
    stats = observe(graph, calibration)
    assert set(stats) == set(graph.values) - set(graph.consts)
    model, reference = _open(graph, tuple(stats), calibration), prepare_float(graph)
    assert model is not None
    assert set(graph.outputs) <= set(model.tensors)
    samples = [calibration.sample(k) for k in range(calibration.samples)]
    rows, few = [model.run(sample) for sample in samples], [reference(sample, keep="all") for sample in samples[:3]]
    compared = set()
    for name, tensor in model.tensors.items():
        observed = np.stack([np.ravel(row[tensor]) for row in rows])
        ours = np.stack([values[name].ravel() for values in few])
        if observed[:3].shape != ours.shape or not np.allclose(np.sort(observed[:3]), np.sort(ours), 1e-3, 1e-4):
            continue  # a pass has made another value of it
        limits = [observed.min(), observed.max()]
        np.testing.assert_allclose([stats[name].lo, stats[name].hi], limits, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(
            np.sort(stats[name].mean.ravel()), np.sort(observed.mean(axis=0)), rtol=1e-3, atol=1e-4
        )
        compared.add(name)
    assert compared >= set(graph.outputs)
    assert len(compared) > 0.5 * len(stats)


def test_ranges_do_not_depend_on_how_many_samples_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, calibration = calibrated(random_network(4), tmp_path)
    whole = observe(graph, calibration)
    monkeypatch.setattr(sys.modules[observe.__module__], "_AT_ONCE", 1)
    for name, stats in observe(graph, calibration).items():
        assert (stats.lo, stats.hi) == (whole[name].lo, whole[name].hi)
        np.testing.assert_array_equal(stats.counts, whole[name].counts)


def test_a_misread_model_is_noticed(tmp_path: Path) -> None:
    """The graph's outputs are compared with onnxruntime's before anything is calibrated."""
    graph, calibration = calibrated(random_network(1), tmp_path)
    name = next(n for n in graph.consts if graph.consts[n].ndim > 1)
    wrong = replace(graph, consts={**graph.consts, name: graph.consts[name] * np.float32(1.5)})
    with pytest.raises(TinycError, match="tinyc has misread the model"):
        quantize_model(wrong, calibration)


def test_sums_that_overflow_in_one_order_are_no_misread_model(tmp_path: Path) -> None:
    """The largest floats: whether a sum is finite is a matter of the order in which it is added."""
    w = np.full((4, 2), 3.4e38, np.float32)
    x = np.tile(np.float32([1, 1, -1, -1]), (40, 1))
    path, data = tmp_path / "m.onnx", tmp_path / "m.npz"
    path.write_bytes(build([op("MatMul", "x w", "y")], {"x": [1, 4]}, ["y"], {"w": w}).SerializeToString())
    np.savez(data, x=x + np.linspace(0, 1e-3, 160, dtype=np.float32).reshape(40, 4))
    with pytest.raises(TinycError, match="'y' overflows on the calibration inputs"):
        quantize_file(path, Options(board="host", calibration=data), None, None, Progress())


def test_a_model_that_onnxruntime_refuses_is_run_by_the_reference(tmp_path: Path) -> None:
    graph, calibration = calibrated(random_network(2), tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"damaged since")
    assert quantize_model(graph, calibration).outputs == graph.outputs


@pytest.mark.parametrize("elem_type", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BFLOAT16])
def test_other_float_widths(tmp_path: Path, elem_type: int) -> None:
    """onnxruntime runs what it can; bfloat16 it cannot, so the reference does."""
    w = rand(1, 20, 7).astype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    nodes = [op("MatMul", "x w", "m"), op("Relu", "m", "y")]
    graph, calibration = calibrated(build(nodes, {"x": [1, 20]}, ["y"], {"w": w}, elem_type=elem_type), tmp_path)
    assert sqnr_db(graph, quantize_model(graph, calibration), dict(calibration.inputs)) > 30


def test_external_weights(tmp_path: Path) -> None:
    nodes = [op("MatMul", "x w", "m"), op("Relu", "m", "y")]
    path = tmp_path / "model.onnx"
    model = build(nodes, {"x": [1, 20]}, ["y"], {"w": rand(1, 20, 7)})
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    graph = normalize(load_onnx(path))
    calibration = Calibration(samples(graph), "test", proven=True, model=path)
    assert _open(graph, ["y"], calibration) is not None
    assert sqnr_db(graph, quantize_model(graph, calibration), dict(calibration.inputs)) > 30


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("seed", SEEDS)
def test_equalization_keeps_the_float_function(tmp_path: Path, seed: int) -> None:
    graph, calibration = calibrated(random_network(seed), tmp_path)
    stats = observe(graph, calibration)
    equal, divisors = equalize(graph, stats)
    check(equal, "equalize", all_ops())
    sample = calibration.sample(0)
    before, after = run_float(graph, sample, keep="all"), run_float(equal, sample, keep="all")
    for name in before:
        restored = after[name] * divisors[name] if name in divisors else after[name]
        np.testing.assert_allclose(restored, before[name], rtol=1e-3, atol=1e-4)
    again = observe(equal, calibration)
    for name in divisors:
        restored = again[name].largest * divisors[name]
        np.testing.assert_allclose(restored, stats[name].largest, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_equalization_through_views_that_repeat_channels(tmp_path: Path, width: int, groups: int) -> None:
    """Pixels or columns become channels: of `width` channels each becomes several, and any layer may read them."""
    nodes = [
        op("MatMul", "x m", "a"),
        op("Reshape", "a shape", "r"),
        op("Transpose", "r", "t", perm=[0, 2, 1]),
        op("Conv", "t w", "y", group=groups, kernel_shape=[2]),
    ]
    constants = {
        "m": rand(1, 5, width) * np.array([10, 0.1][:width], np.float32),
        "shape": np.array([1, 3, 4]),
        "w": rand(2, 4, 4 // groups, 2),
    }
    model = build(nodes, {"x": [1, 12 // width, 5]}, ["y"], constants)
    graph, calibration = calibrated(model, tmp_path)
    assert find_links(graph)
    equal, _ = equalize(graph, observe(graph, calibration))
    sample = calibration.sample(0)
    np.testing.assert_allclose(run_float(equal, sample)["y"], run_float(graph, sample)["y"], rtol=1e-3, atol=1e-4)


def uneven_network(act: str = "Relu", head: bool = False) -> onnx.ModelProto:
    """A layer whose channels have very different ranges, then a depthwise one."""
    spread = np.array([100, 10, 1, 0.1], np.float32)
    nodes = [
        op("Conv", "x w b", "c"),
        op(act, "c", "r"),
        op("Conv", "r d", "e", group=4),
        op("Relu", "e", "s"),
        op("Conv", "s p", "y" if not head else "q"),
    ]
    if head:
        nodes += [op("GlobalAveragePool", "q", "g"), op("Flatten", "g", "f"), op("Gemm", "f k", "y")]
    constants = {
        "w": rand(1, 4, 3, 3, 3) * spread[:, None, None, None],
        "b": rand(2, 4) * spread,
        "d": rand(3, 4, 1, 2, 2) / spread[:, None, None, None],
        "p": rand(4, 5, 4, 1, 1),
        "k": rand(5, 5, 3),
    }
    return build(nodes, {"x": [1, 3, 8, 8]}, ["y"], constants)


def test_equalization_pays(tmp_path: Path) -> None:
    graph, calibration = calibrated(uneven_network(), tmp_path)
    plain = quantize_model(
        graph, calibration, Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest")
    )
    equal = quantize_model(
        graph, calibration, Recipe("minmax", equalize=True, correct_biases=False, rounding="nearest")
    )
    inputs = samples(graph, 40, seed=9)  # not those of the calibration
    assert sqnr_db(graph, equal, inputs) > sqnr_db(graph, plain, inputs) + 6


def test_links_pass_relu_and_pools_but_nothing_else(tmp_path: Path) -> None:
    graph, _ = calibrated(uneven_network(head=True), tmp_path)
    links = [(link.first.op, link.second.op, len(link.between)) for link in find_links(graph)]
    expected = [("conv2d", "depthwise_conv2d", 1), ("depthwise_conv2d", "conv2d", 1), ("conv2d", "fully_connected", 3)]
    assert links == expected
    graph, _ = calibrated(uneven_network("Sigmoid"), tmp_path)
    assert [link.first.op for link in find_links(graph)] == ["depthwise_conv2d"]


def test_clipped_and_shared_layers_are_no_links(tmp_path: Path) -> None:
    constants = {"w": rand(1, 4, 3, 3, 3), "v": rand(2, 4, 4, 1, 1), "zero": np.float32(0), "six": np.float32(6)}
    clipped = [op("Conv", "x w", "c"), op("Clip", "c zero six", "r"), op("Conv", "r v", "y")]
    shared = [op("Conv", "x w", "c"), op("Conv", "c v", "d"), op("Add", "c d", "y")]
    for nodes in (clipped, shared):
        graph, _ = calibrated(build(nodes, {"x": [1, 3, 8, 8]}, ["y"], constants), tmp_path)
        assert find_links(graph) == []


def test_shared_weights_are_not_changed_for_others(tmp_path: Path) -> None:
    """Two layers use one constant; equalization of one must leave the other alone."""
    nodes = [
        op("Conv", "x w", "c"),
        op("Relu", "c", "r"),
        op("Conv", "r w", "d"),
        op("Relu", "d", "s"),
        op("Conv", "s w", "y"),
    ]
    graph, calibration = calibrated(build(nodes, {"x": [1, 3, 9, 9]}, ["y"], {"w": rand(1, 3, 3, 3, 3)}), tmp_path)
    assert len([n for n in graph.consts if graph.consts[n].ndim == 4]) == 1
    equal, divisors = equalize(graph, observe(graph, calibration))
    assert divisors
    sample = calibration.sample(0)
    np.testing.assert_allclose(run_float(equal, sample)["y"], run_float(graph, sample)["y"], rtol=1e-3, atol=1e-3)
    assert sqnr_db(graph, quantize_model(graph, calibration), dict(calibration.inputs)) > 25


def test_bias_correction_removes_the_mean_error(tmp_path: Path) -> None:
    graph, calibration = calibrated(uneven_network(), tmp_path)
    graph = with_biases(graph)
    plain = quantize_model(
        graph, calibration, Recipe("minmax", equalize=False, correct_biases=False, rounding="nearest")
    )
    means = {name: stats.mean for name, stats in observe(graph, calibration).items()}
    corrected = correct_biases(graph, plain, means, calibration)

    def mean_error(integer: Graph) -> float:
        """Largest mean error of an output channel, in steps of the output."""
        program, quant, x_quant = (
            prepare_int(integer, Numerics.OURS),
            integer.values["y"].quant,
            integer.values["x"].quant,
        )
        assert quant is not None
        assert x_quant is not None
        total = np.zeros(graph.values["y"].shape)
        for index in range(calibration.samples):
            x = quantize_array(calibration.inputs["x"][index], *x_quant.per_tensor, -128, 127).astype(np.int8)
            total += quant.dequantize(program({"x": x})["y"]) / calibration.samples
        return float(np.abs((total - means["y"]).mean(axis=(2, 3))).max() / quant.scale[0])

    assert mean_error(corrected) < 0.2
    assert mean_error(plain) > 2 * mean_error(corrected)
    changed = [name for name in plain.consts if not np.array_equal(plain.consts[name], corrected.consts[name])]
    assert changed
    assert all(plain.values[name].dtype == "s32" for name in changed)


def test_every_layer_gets_a_bias(tmp_path: Path) -> None:
    nodes = [op("MatMul", "x w", "m"), op("MatMul", "m v", "y")]
    constants = {"w": rand(1, 3, 4), "v": rand(2, 4, 5)}
    graph, _ = calibrated(build(nodes, {"x": [1, 3]}, ["y"], constants), tmp_path)
    complete = with_biases(graph)
    check(complete, "with_biases", all_ops())
    assert [complete.values[node.inputs[2]].shape for node in complete.nodes] == [(4,), (5,)]
    sample = {"x": rand(3, 1, 3)}
    np.testing.assert_array_equal(run_float(complete, sample)["y"], run_float(graph, sample)["y"])


def test_quantization_is_deterministic(tmp_path: Path) -> None:
    graph, calibration = calibrated(random_network(3), tmp_path)
    first, second = (quantize_model(graph, calibration) for _ in range(2))
    assert first.nodes == second.nodes
    assert dict(first.values) == dict(second.values)
    for name, array in first.consts.items():
        np.testing.assert_array_equal(array, second.consts[name])


@pytest.mark.parametrize("method", METHODS)
def test_synthetic_calibration_is_marked_and_works(tmp_path: Path, method: str) -> None:
    graph = normalize(load(random_network(4), tmp_path))
    calibration = calibrate(tmp_path / "model.onnx", graph, None)
    assert (calibration.source, calibration.proven) == ("synthetic", False)
    assert (
        sqnr_db(
            graph,
            quantize_model(graph, calibration, Recipe(method, equalize=False, rounding="nearest")),
            dict(calibration.inputs),
        )
        > 15
    )
    assert quantize_model(graph, calibration).outputs == graph.outputs


def test_calibration_beside_the_model_and_given(tmp_path: Path) -> None:
    graph = normalize(load(random_network(4), tmp_path))
    shape = graph.values["x"].shape
    np.savez(tmp_path / "model.calib.npz", x=rand(1, 700, *shape[1:]))
    np.savez(tmp_path / "given.npz", x=rand(2, 5, *shape[1:]))
    beside = calibrate(tmp_path / "model.onnx", graph, None)
    assert (beside.source, beside.proven, beside.samples) == ("model.calib.npz", True, 512)
    assert beside.inputs["x"].shape == (512, *shape)
    np.testing.assert_array_equal(beside.inputs["x"][-1][0], rand(1, 700, *shape[1:])[-1])
    given = calibrate(tmp_path / "model.onnx", graph, tmp_path / "given.npz")
    assert (given.source, given.proven, given.samples) == ("given.npz", True, 5)
    assert given.few == [0, 1, 2, 3, 4]
    assert len(beside.few) == 64


def test_integers_with_a_scale_are_taken_as_reals(tmp_path: Path) -> None:
    graph = normalize(load(random_network(4), tmp_path))
    x = np.random.default_rng(1).integers(-128, 128, (5, *graph.values["x"].shape[1:])).astype(np.int8)
    np.savez(tmp_path / "q.npz", x=x, scale=np.float32(0.5), zero_point=np.int32(-3))
    calibration = calibrate(tmp_path / "model.onnx", graph, tmp_path / "q.npz")
    np.testing.assert_array_equal(calibration.inputs["x"][:, 0], (x.astype(np.float32) + 3) * 0.5)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": rand(1, 5, 3, 3)}, "expected [samples, "),
        ({"x": np.zeros((0, 1), np.float32)}, "expected [samples, "),
        ({"x": np.array(["a", "b"])}, "expected numbers"),
        ({"a": rand(1, 2), "b": rand(1, 2)}, "no array for input 'x'"),
    ],
)
def test_calibration_that_does_not_fit(tmp_path: Path, arrays: dict[str, Array], message: str) -> None:
    graph = normalize(load(random_network(4), tmp_path))
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(TinycError) as caught:
        calibrate(tmp_path / "model.onnx", graph, tmp_path / "bad.npz")
    assert message in caught.value.message


def test_calibration_that_is_not_finite_or_overflows(tmp_path: Path) -> None:
    graph, calibration = calibrated(random_network(4), tmp_path)
    x = calibration.inputs["x"].copy()
    x[0, 0, 0, 0, 0] = np.nan
    with pytest.raises(TinycError, match="NaN"):
        quantize_model(graph, replace(calibration, inputs={"x": x}))
    with pytest.raises(TinycError, match="no input 'x'"):
        quantize_model(graph, replace(calibration, inputs={"z": x}))
    with pytest.raises(TinycError, match="expected float32"):
        quantize_model(graph, replace(calibration, inputs={"x": x[0]}))
    huge = np.full_like(x, 3e38)
    for model in (None, calibration.model):
        with np.errstate(all="ignore"), pytest.raises(TinycError, match="overflows"):
            quantize_model(graph, replace(calibration, inputs={"x": huge}, model=model))


def test_a_sigmoid_near_zero_is_no_misread_model(tmp_path: Path) -> None:
    """onnxruntime's numbers there are multiples of 1e-7, beside a whole 1."""
    nodes = [op("Gemm", "x w b", "g"), op("Sigmoid", "g", "y")]
    constants = {"w": rand(1, 4, 1) / 10, "b": np.full(1, -13.5, np.float32)}
    graph, calibration = calibrated(build(nodes, {"x": [1, 4]}, ["y"], constants), tmp_path)
    check_model(graph, calibration)
    louder = {**graph.consts, **{name: array * 1.5 for name, array in graph.consts.items()}}
    with pytest.raises(TinycError, match="misread"):
        check_model(replace(graph, consts=louder), calibration)
