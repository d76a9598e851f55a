# SPDX-License-Identifier: Apache-2.0
"""Logarithms of bands of spectra in ONNX graphs: one operator, ONNX Runtime's numbers, and integers next to them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.sounds import voice
from tinyc import build
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.frontend.mel import Mel
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_float, run_int

STORED = Path(__file__).resolve().parents[3] / "shared" / "frontend" / "onnx"
SAMPLES, LENGTH, STEP, BANDS = 2000, 256, 100, 12
WEIGHTS = Mel(BANDS, 100, 7000).matrix(LENGTH, 16000).astype(np.float32)
Nodes = list[onnx.NodeProto]


def write(path: Path, nodes: Nodes, y_shape: Sequence[int], **consts: Any) -> Path:
    """A model of `x` [1, SAMPLES] -> `y`."""
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in consts.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, SAMPLES))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, y_shape)
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), str(path))
    return path


def op(kind: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), [output], **attributes)


def frames(length: int) -> int:
    return (SAMPLES - length) // STEP + 1


def bands_of(length: int) -> Array:
    return np.asarray(Mel(BANDS, 100, 7000).matrix(length, 16000).astype(np.float32))


def exported(path: Path, length: int = LENGTH) -> Path:
    """As PyTorch's exporter writes torchaudio's, with [bands, frames]; ONNX's own window and matrix."""
    nodes = [
        op("HannWindow", "length", "window"),
        op("MelWeightMatrix", "bands length rate low high", "mel"),
        op("Unsqueeze", "x last", "line"),
        op("STFT", "line step window length", "stft", onesided=1),
        op("Transpose", "stft", "turned", perm=[0, 2, 1, 3]),
        op("ReduceL2", "turned last", "magnitude", keepdims=0),
        op("Pow", "magnitude two", "power"),
        op("Transpose", "power", "rows", perm=[0, 2, 1]),
        op("MatMul", "rows mel", "sums"),
        op("Transpose", "sums", "columns", perm=[0, 2, 1]),
        op("Add", "columns small", "more"),
        op("Log", "more", "y"),
    ]
    numbers = {"length": length, "bands": BANDS, "rate": 16000, "step": STEP}
    return write(
        path,
        nodes,
        (1, BANDS, frames(length)),
        **{name: np.int64(number) for name, number in numbers.items()},
        **{name: np.float32(number) for name, number in {"low": 100, "high": 7000, "two": 2, "small": 1e-6}.items()},
        last=np.array([-1], np.int64),
    )


def decibels(path: Path, weights: Array = WEIGHTS, length: int = LENGTH) -> Path:
    """Magnitudes, as [frames, bands], with a least value, times 20 / ln 10."""
    nodes = [
        op("Reshape", "x shape", "line"),
        op("STFT", "line step window", "stft"),
        op("ReduceL2", "stft last", "magnitude", keepdims=0),
        op("MatMul", "magnitude mel", "sums"),
        op("Clip", "sums small", "limited"),
        op("Log", "limited", "log"),
        op("Mul", "log factor", "y"),
    ]
    consts = {"shape": np.array([1, SAMPLES, 1]), "step": np.int64(STEP), "last": np.array([-1])}
    floats = {"window": np.hamming(length), "mel": weights.T, "small": 1e-5, "factor": 20 / np.log(10)}
    floats32 = {name: np.asarray(value, np.float32) for name, value in floats.items()}
    return write(path, nodes, (1, frames(length), BANDS), **consts, **floats32)


def cubes(path: Path) -> Path:
    """Bands of magnitudes to the third, which no operator of its own computes."""
    nodes = [
        op("Reshape", "x shape", "line"),
        op("STFT", "line step window", "stft"),
        op("ReduceL2", "stft last", "magnitude", keepdims=0),
        op("Pow", "magnitude three", "cube"),
        op("MatMul", "cube mel", "sums"),
        op("Add", "sums small", "more"),
        op("Log", "more", "y"),
    ]
    consts = {"shape": np.array([1, SAMPLES, 1]), "step": np.int64(STEP), "last": np.array([-1])}
    floats = {"window": np.hamming(LENGTH), "mel": WEIGHTS.T, "small": 1e-5, "three": 3}
    floats32 = {name: np.asarray(value, np.float32) for name, value in floats.items()}
    return write(path, nodes, (1, frames(LENGTH), BANDS), **consts, **floats32)


def empty_bands(path: Path) -> Path:
    """Two bands without a bin, as torchaudio has some where bands are narrower than bins."""
    return decibels(path, WEIGHTS * (np.arange(BANDS) % 5 != 2)[:, None])


def torchaudios(path: Path) -> Path:
    """400 points, its usual number."""
    return exported(path, 400)


def of_90(path: Path) -> Path:
    """An odd number of complex points."""
    return decibels(path, bands_of(90), 90)


def convolved_480(path: Path) -> Path:
    return convolved(path, length=480)


def convolved(path: Path, kind: str = "", length: int = LENGTH) -> Path:
    """Convolutions with cosines and sines. kind: what is wrong with them."""
    phases = 2 * np.pi * np.arange(length // 2 + 1)[:, None] * np.arange(length) / length
    window = np.hanning(length + 1)[:-1]
    cosines, sines = np.cos(phases) * window, -np.sin(phases) * window
    if kind == "noise":
        sines = sines + np.random.default_rng(1).normal(0, 0.01, sines.shape)
    nodes = [
        op("Unsqueeze", "x one", "line"),
        op("Conv", "line cosines", "re", strides=[STEP], kernel_shape=[length]),
        op("Conv", "line sines", "im", strides=[STEP], kernel_shape=[length]),
        op("Pow", "re two", "re2"),
        op("Mul", "im im", "im2"),
        op("Add", "im2 re2", "power"),
        op("MatMul", "mel power", "sums"),
        op("Add", "sums small", "more"),
        op("Log", "more", "y"),
    ]
    floats = {"cosines": cosines[:, None], "sines": sines[:, None], "mel": bands_of(length), "two": 2.0, "small": 1e-6}
    floats32 = {name: np.asarray(value, np.float32) for name, value in floats.items()}
    return write(path, nodes, (1, BANDS, frames(length)), one=np.array([1], np.int64), **floats32)


def inputs() -> Array:
    """Eight pieces of speech, each fainter than the one before, in steps of 16 bits."""
    pieces = voice(8 * SAMPLES / 16000, 4).reshape(8, SAMPLES)
    return (np.round(pieces * 10.0 ** (-0.2 * np.arange(8))[:, None]) / 32768).astype(np.float32)


def of_onnxruntime(path: Path, x: Array) -> Array:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": sample[None]})[0] for sample in x])


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op not in ("reshape", "transpose")]


@pytest.mark.parametrize("make", [exported, decibels, convolved, empty_bands, torchaudios, of_90, convolved_480])
def test_becomes_one_operator_with_onnxruntimes_numbers(make: Any, tmp_path: Path) -> None:
    path, x = make(tmp_path / "model.onnx"), inputs()
    theirs = of_onnxruntime(path, x)
    graph = normalize(load_model(path))
    assert operators(graph) == ["log_mel"]
    exact = np.stack([run_float(graph, {"x": sample[None]})["y"][0] for sample in x])
    if make in (torchaudios, of_90):  # its float32 transforms of these lengths are far less exact than others
        np.testing.assert_allclose(exact, theirs, atol=0.1)
        theirs = exact
    np.testing.assert_allclose(exact, theirs, atol=2e-3)
    np.savez(tmp_path / "data.npz", x=x[:, None])
    options = Options("host", calibration=tmp_path / "data.npz")
    integer = make_integers(path, load_board("host"), options, Progress()).graph
    assert integer.values["x"].dtype == "s16"
    scale, zero = integer.values["y"].quant.per_tensor
    for sample, reals in zip(x, theirs, strict=True):
        counts = np.round(sample * 32768).astype(np.int16)
        (outputs,) = run_int(integer, {"x": counts[None]}, Numerics.OURS).values()
        off = np.abs(scale * (outputs[0].astype(float).reshape(reals.shape) - zero) - reals)
        assert off.max() < 0.505 * scale


def test_faint_bands_beside_loud_ones_are_onnxruntimes(tmp_path: Path) -> None:
    path, x = cubes(tmp_path / "model.onnx"), inputs()
    graph, theirs = normalize(load_model(path)), of_onnxruntime(path, x)
    y = np.concatenate([run_float(graph, {"x": sample[None]})["y"] for sample in x])
    assert np.ptp(theirs) > 15  # nepers
    np.testing.assert_allclose(y, theirs, atol=2e-3)
    np.savez(tmp_path / "data.npz", x=x[:, None])
    assert build(path, "host", out=tmp_path / "out", calibration=tmp_path / "data.npz").report.passed


def test_what_is_no_transform_stays_a_convolution(tmp_path: Path) -> None:
    graph = normalize(load_model(convolved(tmp_path / "model.onnx", "noise")))
    assert "log_mel" not in operators(graph)
    assert operators(graph).count("conv2d") == 2


@pytest.mark.parametrize("make", [exported, decibels, convolved, torchaudios, of_90])
def test_in_floats_it_is_a_transform(make: Any, tmp_path: Path) -> None:
    """Nearer to the real numbers than ONNX Runtime's, and C gives the reference's bytes."""
    path, x = make(tmp_path / "model.onnx"), inputs()
    integer = make_integers(path, load_board("host"), Options("host", precision="float32"), Progress()).graph
    assert operators(integer).count("stft") == 1
    assert "conv2d" not in operators(integer)
    exact = np.stack([run_float(normalize(load_model(path)), {"x": sample[None]})["y"] for sample in x])
    outputs = np.stack([run_int(integer, {"x": sample[None]}, Numerics.OURS)["y"] for sample in x])
    np.testing.assert_allclose(outputs, exact, atol=1e-3)
    np.savez(tmp_path / "data.npz", x=x[:, None])
    assert build(path, "host", out=tmp_path / "out", inputs=tmp_path / "data.npz", precision="float32").report.passed


@pytest.mark.parametrize("path", sorted(STORED.glob("*.onnx")) or [None], ids=lambda p: p and p.stem)
def test_stored_exports(path: Path | None) -> None:
    """Exports of torchaudio with recorded outputs, where they are at hand."""
    if path is None:
        pytest.skip("no ../shared/frontend")
    graph, stored = normalize(load_model(path)), np.load(path.with_suffix(".npz"))
    (y,) = run_float(graph, {"x": stored["x"]}).values()
    assert ("spectrum_sizes" if path.stem.startswith("melspec") else "log_mel") in operators(graph)
    np.testing.assert_allclose(y, stored["onnxruntime"], rtol=2e-5, atol=2e-3)  # a band is up to 187


def stft_model(path: Path, window: int = LENGTH, **attributes: Any) -> Path:
    nodes = [
        op("Reshape", "x shape", "line"),
        op("STFT", "line step window", "stft", **attributes),
        op("ReduceSum", "stft", "y"),
    ]
    consts = {"shape": np.array([1, SAMPLES, 1]), "step": np.int64(STEP), "window": np.ones(window, np.float32)}
    return write(path, nodes, (1, 1, 1, 1), **consts)


@pytest.mark.parametrize(("window", "onesided"), [(LENGTH, 1), (200, 1), (60, 0)])
def test_other_uses_are_convolutions(window: int, onesided: int, tmp_path: Path) -> None:
    """Whatever the length: float32 and int8, with the bytes of the reference in C."""
    path, x = stft_model(tmp_path / "model.onnx", window, onesided=onesided), inputs()
    graph = normalize(load_model(path))
    assert operators(graph) == ["conv2d", "sum"]
    in_floats = normalize(load_model(path), in_floats=True)
    assert operators(in_floats) == ["stft" if onesided else "conv2d", "sum"]
    np.savez(tmp_path / "data.npz", x=x[:, None])
    theirs = of_onnxruntime(path, x)
    for options in ({"precision": "float32"}, {"calibration": tmp_path / "data.npz"}):
        assert build(path, "host", out=tmp_path / "out", inputs=tmp_path / "data.npz", **options).report.passed
    (outputs,) = run_float(graph, {"x": x[0][None]}).values()
    np.testing.assert_allclose(outputs.reshape(-1), theirs[0].reshape(-1), rtol=1e-4)


def test_samples_that_are_picked_before_a_transform_have_16_bits(tmp_path: Path) -> None:
    """Moving them is for any width."""
    order = np.random.default_rng(0).permutation(64)
    nodes = [
        helper.make_node("Gather", ["x", "order"], ["g"], axis=1),
        helper.make_node("Unsqueeze", ["g", "last"], ["u"]),
        helper.make_node("DFT", ["u"], ["d"], axis=1, onesided=1),
        helper.make_node("ReduceSumSquare", ["d", "last"], ["y"], keepdims=0),
    ]
    path = write(tmp_path / "m.onnx", nodes, (1, 33), order=order, last=np.array([2]))
    assert build(path, "host", out=tmp_path / "out").report.passed


def test_lengths_with_large_factors_are_errors(tmp_path: Path) -> None:
    path = decibels(tmp_path / "model.onnx", bands_of(202), 202)
    with pytest.raises(TinycError, match="no prime factor above 13") as error:
        normalize(load_model(path))
    assert "208 samples" in error.value.hint
