# SPDX-License-Identifier: Apache-2.0
"""`tinyc quantize`: what it measures, saves and advises; the saved files in their own runtimes."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.cli.test_cli import Ran, tinyc, write_model  # noqa: F401  a fixture
from tests.load.onnx_models import build, op, rand
from tests.unit.networks import random_network
from tests.unit.test_quantize_model import calibrated, samples
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.explain.diagnosis import LayerError, advice, diagnose
from tinyc.export import as_in_files, save, to_tflite
from tinyc.ir.graph import Array
from tinyc.load import load_model
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.pipeline.quantizing import compare_saved, plot_ranges
from tinyc.quantize import quantize
from tinyc.quantize.calibration import Sequences
from tinyc.quantize.metrics import auc
from tinyc.reference.interpreter import prepare_int

FIXED = Recipe("minmax", equalize=False, rounding="learned")
QUICK = ("--calibration-method", "minmax", "--equalize", "off", "--rounding", "learned")


def data(path: Path, count: int = 12, seed: int = 3, **more: Array) -> Path:
    x = np.random.default_rng(seed).standard_normal((count, 2, 6, 5)).astype(np.float32)
    np.savez(path, x=x, **more)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    data(tmp_path / "tiny.calib.npz")
    return write_model(tmp_path / "tiny.onnx")


def test_report_and_saved_models(tinyc, model: Path, tmp_path: Path) -> None:  # noqa: F811
    test = data(tmp_path / "test.npz", 20, 4, y=np.arange(20) % 3)
    ran: Ran = tinyc("quantize", model, *QUICK, "-e", test, "-o", tmp_path / "out" / "q.onnx", "--json")
    assert ran.code == 0
    report = ran.json
    assert (report["calibration"], report["samples"], report["proven"]) == ("tiny.calib.npz", 12, True)
    assert report["bits"] == {"conv": 8, "dense": 8}
    assert report["weight_bytes"] == report["int8_bytes"] == 4 * 2 * 9 + 4 * 3
    assert report["evaluated_on"] == "test.npz"
    diagnosis = report["diagnosis"]
    assert diagnosis["samples"] == 20
    assert diagnosis["sqnr_db"] > 25
    assert diagnosis["agreement"] >= 0.9
    assert [quality["name"] for quality in diagnosis["qualities"]] == ["top-1"]
    assert diagnosis["worst"] in [layer["name"] for layer in diagnosis["layers"]]
    assert report["saved"]["equal"] > 0.9
    assert report["saved"]["largest_step"] <= 2
    session = onnxruntime.InferenceSession(tmp_path / "out" / "q.onnx", providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.load(test)["x"][:1]})
    assert y.shape == (1, 3)
    assert y.dtype == np.float32


def test_what_people_read(tinyc, model: Path) -> None:  # noqa: F811
    ran: Ran = tinyc("quantize", model, *QUICK, "--weights", "int4")
    assert ran.code == 0
    for words in ("conv2d", "learned rounding", "42 bytes (50% of int8)", "output SQNR", "most is lost in: "):
        assert words in ran.out


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_recurrent_weights_have_4_bits(tinyc, cell: str, tmp_path: Path) -> None:  # noqa: F811
    """A dense layer beside a recurrent one: shares and widths are those of both."""
    gates, units, numbers = {"LSTM": 4, "GRU": 3}[cell], 6, 5
    rows = gates * units
    constants = {
        "w": rand(1, 1, rows, numbers),
        "r": rand(2, 1, rows, units) / 2,
        "d": rand(3, units, 4),
        "axes": np.array([0]),
    }
    late = {"linear_before_reset": 1} if cell == "GRU" else {}  # as PyTorch writes it: one layer
    nodes = [
        op(cell, "x w r", "- h", hidden_size=units, **late),
        op("Squeeze", "h axes", "last"),
        op("Gemm", "last d", "y"),
    ]
    onnx.save(build(nodes, {"x": [7, 1, numbers]}, ["y"], constants), tmp_path / "m.onnx")
    np.savez(tmp_path / "m.calib.npz", x=rand(4, 40, 7, 1, numbers))
    ran: Ran = tinyc("quantize", tmp_path / "m.onnx", "--weights", "int4")
    assert ran.code == 0, ran.err
    whole = (4 * units + rows * (numbers + units)) // 2
    assert f"{whole:,} bytes (50% of int8)" in ran.out
    assert "int4 weights" in ran.out


@pytest.mark.parametrize("ending", ["onnx", "tflite"])
def test_int16(tinyc, model: Path, tmp_path: Path, ending: str) -> None:  # noqa: F811
    """Of all layers in one format and of one layer in the other, saved and run in its own runtime."""
    words = ("--activations", "int16") if ending == "tflite" else ("--int16-layers", "conv")
    ran: Ran = tinyc("quantize", model, *QUICK, *words, "-o", tmp_path / f"q.{ending}", "--json")
    assert ran.code == 0
    report = ran.json
    layers = {layer["op"]: layer["value_bits"] for layer in report["diagnosis"]["layers"]}
    if ending == "tflite":
        assert report["integers"] == "int8 weights, int16 activations"
        assert set(layers.values()) == {16}
        assert report["diagnosis"]["sqnr_db"] > 35
    else:
        assert report["integers"] == "int8 weights, int8 and int16 activations"
        assert (layers["conv2d"], layers["softmax"]) == (16, 8)
        assert report["int16_layers"] == ["conv", "pool"]  # the pool reads what the convolution makes
    if report["saved"]["runtime"] is not None:
        assert report["saved"]["largest_step"] <= (4 if ending == "onnx" else 30)  # of 256, of 32768


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "q.pb"), "there are: .onnx, .tflite"),
        (("--max-loss", "2"), "--weights auto"),
        (("--min-sqnr", "30"), "--activations auto"),
        (("--int16-layers", "cnv", *QUICK), "no layer is called 'cnv'"),
        (("--activations", "auto", "--min-sqnr", "150", *QUICK), "out of reach"),
        (("--picture-std", "0"), "it is zero"),
        (("--picture-mean", "red"), "give numbers"),
        (("-e", "absent.npz"), "no such file"),
        (("--float-layers", "conv"), "has no option"),  # nor others that change only what is built of the result
        (("--precision", "float32"), "has no option"),
        (("--frontend", "micro"), "has no option"),
        (("-c", "no_such_module:f"), "calibration function failed"),
        (("--weights", "auto", "--flash", "10", *QUICK), "too few"),
    ],
)
def test_bad_words(tinyc, model: Path, words: tuple[str, ...], message: str) -> None:  # noqa: F811
    ran: Ran = tinyc("quantize", model, *words)
    assert ran.code in (1, 2)
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_a_quantized_model_is_refused(tinyc, model: Path, tmp_path: Path) -> None:  # noqa: F811
    saved = tmp_path / "q.tflite"
    assert tinyc("quantize", model, *QUICK, "-o", saved).code == 0
    ran: Ran = tinyc("quantize", saved)
    assert ran.code == 2
    assert "quantized already" in ran.err


@dataclass(frozen=True)
class Unheard:
    """Attributes of an operator that no format has."""


def test_nothing_is_written_when_the_format_lacks_an_operator(tmp_path: Path) -> None:
    graph, calibration = calibrated(random_network(0), tmp_path)
    integer = quantize(graph, calibration, FIXED).graph
    node = integer.nodes[0]
    odd_model = replace(integer, nodes=(replace(node, attrs=Unheard()), *integer.nodes[1:]))
    for ending in ("onnx", "tflite"):
        with pytest.raises(TinycError, match=f"{node.op} cannot be saved"):
            save(odd_model, tmp_path / f"q.{ending}")
        assert not (tmp_path / f"q.{ending}").exists()


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("recipe", [{}, {"weights": "int4"}, {"activations": "int16"}], ids=str)
@pytest.mark.parametrize("last", ["Relu", "Transpose", "Flatten"])
def test_onnxruntime_takes_dense_layers_of_rows(tmp_path: Path, last: str, recipe: dict[str, str]) -> None:
    """Matrices of several rows, which are reshaped around each dense layer: onnxruntime refused files of them."""
    consts = {"w": rand(1, 12, 9), "v": rand(2, 9, 4)}
    nodes = [op("MatMul", "x w", "h"), op("Relu", "h", "r"), op("MatMul", "r v", "m")]
    nodes.append(op(last, "m", "y", **({"perm": [0, 2, 1]} if last == "Transpose" else {})))
    graph, calibration = calibrated(build(nodes, {"x": [1, 5, 12]}, ["y"], consts), tmp_path)
    integer = as_in_files(quantize(graph, calibration, replace(FIXED, **recipe)).graph)
    save(integer, tmp_path / "q.onnx")
    comparison = compare_saved(integer, tmp_path / "q.onnx", samples(graph, 16))
    assert comparison.runtime is not None
    assert comparison.runtime.startswith("onnxruntime")
    assert comparison.largest_step is not None
    assert comparison.largest_step <= 1
    again = normalize(load_model(tmp_path / "q.onnx"))
    assert again.outputs == graph.outputs


@pytest.mark.parametrize("seed", range(12))
def test_onnxruntime_computes_what_we_do(tmp_path: Path, seed: int) -> None:
    graph, calibration = calibrated(random_network(seed), tmp_path)
    integer = as_in_files(quantize(graph, calibration, FIXED).graph)
    save(integer, tmp_path / "q.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "q.onnx"), full_check=True)
    comparison = compare_saved(integer, tmp_path / "q.onnx", samples(graph, 12))
    assert comparison.equal is not None
    assert comparison.equal >= 0.75
    assert comparison.largest_step is not None
    assert comparison.largest_step <= 4


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("seed", range(12))
def test_tflite_comes_back_as_the_same_integers(tmp_path: Path, seed: int) -> None:
    """Our own loader reads the file; with our rounding, every output is equal bit for bit."""
    graph, calibration = calibrated(random_network(seed), tmp_path)
    integer = as_in_files(quantize(graph, calibration, FIXED).graph)
    try:
        (tmp_path / "q.tflite").write_bytes(to_tflite(integer))
    except TinycError as error:
        assert "TFLite" in error.message  # noqa: PT017  an activation or padding that it cannot say
        return
    back = normalize(load_model(tmp_path / "q.tflite"))
    rng = np.random.default_rng(seed)
    for _ in range(4):
        sample = {n: rng.integers(-128, 128, integer.values[n].shape).astype(np.int8) for n in integer.inputs}
        reference = prepare_int(integer, Numerics.OURS)(sample)[integer.outputs[0]]
        y = prepare_int(back, Numerics.OURS)({n: sample[n] for n in back.inputs})[back.outputs[0]]
        np.testing.assert_array_equal(y, reference)


def test_tflite_micro_runs_it(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed")
    graph, calibration = calibrated(random_network(1), tmp_path)
    integer = as_in_files(quantize(graph, calibration, FIXED).graph)
    save(integer, tmp_path / "q.tflite")
    comparison = compare_saved(integer, tmp_path / "q.tflite", samples(graph, 12))
    assert comparison.runtime == "TensorFlow Lite Micro"
    assert comparison.equal is not None
    assert comparison.equal > 0.75


def test_a_format_that_lacks_an_operator_names_the_one_that_has_it(tmp_path: Path) -> None:
    nodes = [op("Clip", "x lo hi", "y")]
    model = build(nodes, {"x": [1, 8]}, ["y"], {"lo": np.float32(-0.7), "hi": np.float32(0.3)})
    graph, calibration = calibrated(model, tmp_path)
    integer = quantize(graph, calibration, FIXED).graph
    with pytest.raises(TinycError, match="clip cannot be saved as int8 TFLite") as caught:
        save(integer, tmp_path / "q.tflite")
    assert caught.value.hint.startswith("save as .onnx; --outputs NAME")
    save(integer, tmp_path / "q.onnx")
    assert (tmp_path / "q.onnx").exists()


def test_four_bit_weights_survive_both_formats(tmp_path: Path) -> None:
    graph, calibration = calibrated(random_network(1), tmp_path)
    integer = as_in_files(quantize(graph, calibration, replace(FIXED, weights="int4")).graph)
    for ending in ("onnx", "tflite"):
        save(integer, tmp_path / f"q.{ending}")
    back = normalize(load_model(tmp_path / "q.tflite"))
    expected_bytes = sorted(a.tobytes() for n, a in integer.consts.items() if integer.values[n].dtype == "s4")
    bytes_read = sorted(a.tobytes() for n, a in back.consts.items() if back.values[n].dtype == "s4")
    assert expected_bytes
    assert bytes_read == expected_bytes
    assert (compare_saved(integer, tmp_path / "q.onnx", samples(graph, 12)).equal or 0) > 0.75


def test_the_worst_layer_is_found(tmp_path: Path) -> None:
    """A layer whose weights are spoiled is named, and the advice is about weights."""
    graph, calibration = calibrated(random_network(1), tmp_path)
    quantized = quantize(graph, calibration, FIXED)
    node = next(node for node in quantized.graph.nodes if node.name in quantized.bits)
    w = quantized.graph.consts[node.inputs[1]]
    consts = {**quantized.graph.consts, node.inputs[1]: (w // 32 * 32).astype(np.int8)}
    spoiled = replace(quantized, graph=replace(quantized.graph, consts=consts))
    diagnosis = diagnose(graph, spoiled, Sequences(samples(graph, 16), (0,)), None)
    worst = next(layer for layer in diagnosis.layers if layer.name == diagnosis.worst)
    assert worst.name == (node.where.name if node.where is not None else node.name)
    assert worst.weights_db is not None
    assert worst.weights_db < worst.values_db
    assert "weights" in diagnosis.advice

    def said(layer: LayerError, tried: bool = False) -> str:
        return advice(replace(quantized, tried_learned=tried), layer, samples(graph, 4))

    assert "more varied, inputs" in said(replace(worst, clipped=0.02))
    assert "--equalize on" in said(replace(worst, weights_db=60.0, values_db=20.0, uneven=40.0))
    assert "--weights auto" in said(replace(worst, bits=4))
    assert "16 bits already" in said(replace(worst, weights_db=60.0, values_db=20.0, value_bits=16))
    in_16_bits = said(replace(worst, weights_db=60.0, values_db=20.0))
    assert "--int16-layers '" in in_16_bits
    (figures,) = re.findall(r"the output ([\d.]+) -> ([\d.]+) dB", in_16_bits)
    assert float(figures[0]) < float(figures[1])
    of_no_worth = said(replace(worst, name="none of them", weights_db=60.0, values_db=20.0))
    assert "--int16-layers" not in of_no_worth, "more bits that gain nothing are no advice"
    assert "--activations auto" in of_no_worth
    quantized = replace(quantized, plan=replace(quantized.plan, learned=False))
    assert said(worst).endswith("--rounding learned")
    assert "did no better" in said(worst, tried=True)


def test_labels_decide_what_is_measured(tmp_path: Path) -> None:
    graph, calibration = calibrated(random_network(1), tmp_path)
    quantized = quantize(graph, calibration, FIXED)
    inputs = samples(graph, 10)
    shape = graph.values[graph.outputs[0]].shape
    real = diagnose(graph, quantized, Sequences(inputs, (0,)), np.zeros((10, *shape), np.float32))
    assert [quality.name for quality in real.qualities] == ["MSE"]
    two = diagnose(graph, quantized, Sequences(inputs, (0,)), np.arange(10) % 2)
    assert [quality.name for quality in two.qualities] == ["top-1", "AUC"]
    assert diagnose(graph, quantized, Sequences(inputs, (0,)), np.zeros(10, np.int64)).qualities == ()


def test_area_under_the_curve() -> None:
    labels = np.array([0, 0, 1, 1])
    assert auc(np.array([0.1, 0.4, 0.35, 0.8]), labels) == pytest.approx(0.75)
    assert auc(np.array([1.0, 1.0, 1.0, 1.0]), labels) == pytest.approx(0.5)


def test_ranges_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, calibration = calibrated(random_network(1), tmp_path)
    diagnosis = diagnose(graph, quantize(graph, calibration, FIXED), Sequences(samples(graph, 4), (0,)), None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(TinycError, match="needs the package matplotlib"):
            plot_ranges(diagnosis, tmp_path / "ranges.svg")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    plot_ranges(diagnosis, tmp_path / "ranges.svg")
    assert "<svg" in (tmp_path / "ranges.svg").read_text()
