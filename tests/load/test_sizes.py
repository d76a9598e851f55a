# SPDX-License-Identifier: Apache-2.0
"""Sizes of the bins of spectra in ONNX graphs, as people write them: one operator with ONNX Runtime's numbers, integers
next to them, and the peaks that are taken of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.load.test_spectra import of_onnxruntime, op
from tinyc import build
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ir.graph import Array, Graph
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.options.recipe import Recipe
from tinyc.passes import normalize
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_float, run_int

AXES = 3
FLOATS = (np.float32, np.float64)


def write(path: Path, nodes: list[onnx.NodeProto], given: Sequence[int], y_shape: Sequence[int], **consts: Any) -> Path:
    """A model of `x` -> `y`, opset 20; numbers are float32, whole ones int64."""
    arrays = {name: np.asarray(value) for name, value in consts.items()}
    tensors = [
        numpy_helper.from_array(a.astype(np.float32) if a.dtype in FLOATS else a, name) for name, a in arrays.items()
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, given)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, y_shape)
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), str(path))
    return path


def norms(path: Path, n: int = 128) -> Path:
    """torch.fft.rfft(x, dim=1).abs() * (2 / n): the axis of time is not the last."""
    nodes = [
        op("Unsqueeze", "x last", "parts"),
        op("DFT", "parts none axis", "bins", onesided=1),
        op("ReduceL2", "bins last", "sizes", keepdims=0),
        op("Mul", "sizes factor", "y"),
    ]
    nodes[1].input[1] = ""
    return write(path, nodes, (1, n, AXES), (1, n // 2 + 1, AXES), last=[-1], axis=1, factor=2.0 / n)


def norms_of_100(path: Path) -> Path:
    return norms(path, 100)


def powers(path: Path) -> Path:
    """X.real ** 2 + X.imag ** 2 of torch.fft.rfft(x * window, 64), 50 samples with zeros behind them."""
    nodes = [
        op("Mul", "x window", "faded"),
        op("Unsqueeze", "faded last", "parts"),
        op("DFT", "parts length axis", "bins", onesided=1),
        op("Gather", "bins zero", "re", axis=3),
        op("Gather", "bins one", "im", axis=3),
        op("Pow", "re two", "re2"),
        op("Pow", "im two", "im2"),
        op("Add", "re2 im2", "y"),
    ]
    consts = {"last": [-1], "length": 64, "axis": 2, "zero": 0, "one": 1, "two": 2.0, "window": np.hanning(50)}
    return write(path, nodes, (1, AXES, 50), (1, AXES, 33), **consts)


def both_sides(path: Path) -> Path:
    """torch.fft.fft(x).abs() ** 2: bins of negative frequencies too."""
    nodes = [
        op("Unsqueeze", "x last", "parts"),
        op("DFT", "parts", "bins"),
        op("ReduceSumSquare", "bins last", "squares", keepdims=0),
        op("Sqrt", "squares", "sizes"),
        op("Mul", "sizes sizes", "y"),
    ]
    return write(path, nodes, (1, AXES, 40), (1, AXES, 40), last=[-1])


def scaled(path: Path) -> Path:
    """torch.fft.rfft(x, norm="forward").abs() / 3: numbers before and behind the norm."""
    nodes = [
        op("Unsqueeze", "x last", "parts"),
        op("DFT", "parts", "bins", onesided=1),
        op("Div", "bins count", "forward"),
        op("ReduceL2", "forward last", "sizes", keepdims=0),
        op("Div", "sizes three", "y"),
    ]
    nodes[1].input.extend(["", "axis"])
    return write(path, nodes, (1, AXES, 64), (1, AXES, 33), last=[-1], axis=2, count=64.0, three=3.0)


def basis(n: int) -> dict[str, Array]:
    turns = 2 * np.pi * np.outer(np.arange(n), np.arange(n // 2 - 3)) / n
    return {"cosines": np.cos(turns), "sines": -np.sin(turns)}


def products(path: Path) -> Path:
    """sqrt((x @ cosines) ** 2 + (x @ sines) ** 2 + 1e-12), of some of the bins."""
    nodes = [
        op("MatMul", "x cosines", "re"),
        op("MatMul", "x sines", "im"),
        op("Mul", "re re", "re2"),
        op("Mul", "im im", "im2"),
        op("Add", "re2 im2", "power"),
        op("Add", "power tiny", "more"),
        op("Sqrt", "more", "y"),
    ]
    return write(path, nodes, (1, AXES, 128), (1, AXES, 61), tiny=1e-12, **basis(128))


def frames(path: Path) -> Path:
    """abs(torch.stft(x[0], 64, 32, window, center=False, return_complex=True)): several lines at once."""
    nodes = [
        op("Reshape", "x shape", "line"),
        op("STFT", "line step window", "stft", onesided=1),
        op("Transpose", "stft", "turned", perm=[0, 2, 1, 3]),
        op("ReduceL2", "turned last", "y", keepdims=0),
    ]
    consts = {"shape": [AXES, 128, 1], "step": 32, "window": np.hanning(64), "last": [-1]}
    return write(path, nodes, (1, AXES, 128), (AXES, 33, 3), **consts)


def halves(path: Path, first: int = 0, axis: int = 1) -> Path:
    """One convolution with cosines and then sines, taken apart behind it, as voice detectors have it. first: of the
    rows that are squared and added to those of the sines."""
    turns = 2 * np.pi * np.outer(np.arange(33), np.arange(64)) / 64
    rows = np.concatenate([np.cos(turns), -np.sin(turns)]) * np.hanning(65)[:-1]
    nodes = [
        op("Reshape", "x shape", "line"),
        op("Conv", "line rows", "bins", strides=[64], kernel_shape=[64]),
        op("Slice", "bins first middle axis", "re"),
        op("Slice", "bins late end axis", "im"),
        op("Pow", "re two", "re2"),
        op("Pow", "im two", "im2"),
        op("Add", "re2 im2", "power"),
        op("Sqrt", "power", "y"),
    ]
    shape = (1, 33, 6) if axis == 1 else (1, 66, 3)
    size = shape[axis]
    consts = {"first": [first], "middle": [first + size], "late": [size], "end": [2 * size], "axis": [axis]}
    return write(path, nodes, (1, AXES, 128), shape, rows=rows[:, None], two=2.0, shape=[1, 1, AXES * 128], **consts)


MODELS = [norms, norms_of_100, powers, both_sides, scaled, products, frames, halves]


def shaken(path: Path, count: int = 12) -> Array:
    """Sines of several sizes and noise, of the shape that the model takes."""
    shape = load_model(path).values["x"].shape[1:]
    axis = int(np.argmax(shape))
    rng, t = np.random.default_rng(1), np.arange(shape[axis])
    x = np.stack(
        [
            rng.uniform(0.05, 2) * np.sin(t * rng.uniform(0.1, 3)) + rng.normal(0, 0.05, len(t))
            for _ in range(count * AXES)
        ]
    )
    return np.moveaxis(x.reshape(count, AXES, -1), -1, 1 + axis).astype(np.float32)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.op not in ("reshape", "transpose")]


def integers(path: Path, x: Array, tmp_path: Path, recipe: Recipe) -> Graph:
    np.savez(tmp_path / "data.npz", x=x[:, None])
    options = Options("host", calibration=tmp_path / "data.npz", recipe=recipe)
    return make_integers(path, load_board("host"), options, Progress()).graph


def grid(graph: Graph, name: str) -> tuple[float, int]:
    """Scale and zero point."""
    quant = graph.values[name].quant
    assert quant is not None
    return quant.per_tensor


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("wide", [False, True], ids=["int8", "int16"])
def test_becomes_one_operator_with_onnxruntimes_numbers(
    make: Callable[[Path], Path], wide: bool, tmp_path: Path
) -> None:
    """In int8 the nearest to the real ones; in int16 too, but for the counts that the transform is off."""
    path = make(tmp_path / "model.onnx")
    x = shaken(path)
    graph = normalize(load_model(path))
    assert operators(graph) == ["spectrum_sizes"]
    theirs = of_onnxruntime(path, x)
    exact = np.stack([run_float(graph, {"x": sample[None]})["y"] for sample in x]).reshape(theirs.shape)
    np.testing.assert_allclose(exact, theirs, atol=2e-5 * np.abs(theirs).max())
    integer = integers(path, x, tmp_path, Recipe(activations="int16") if wide else Recipe())
    assert integer.values["x"].dtype == "s16"
    (x_scale, _), (scale, zero) = grid(integer, "x"), grid(integer, "y")
    counts = np.round(x / x_scale).astype(np.int16)
    reals = of_onnxruntime(path, (counts * x_scale).astype(np.float32))
    outputs = [run_int(integer, {"x": sample[None]}, Numerics.OURS)["y"] for sample in counts]
    off = np.abs(scale * (np.stack(outputs).reshape(reals.shape).astype(float) - zero) - reals)
    assert off.max() < (0.8 if wide else 0.51) * scale


@pytest.mark.parametrize("exponent", [0.5, 1.5])
def test_other_powers_of_magnitudes_are_layers_behind_them(exponent: float, tmp_path: Path) -> None:
    nodes = [
        op("Unsqueeze", "x last", "parts"),
        op("DFT", "parts none axis", "bins", onesided=1),
        op("ReduceL2", "bins last", "sizes", keepdims=0),
        op("Pow", "sizes exponent", "y"),
    ]
    nodes[1].input[1] = ""
    path = write(tmp_path / "m.onnx", nodes, (1, 128, AXES), (1, 65, AXES), last=[-1], axis=1, exponent=float(exponent))
    graph, x = normalize(load_model(path)), shaken(path, 2)
    assert operators(graph) == ["spectrum_sizes", "power"]
    theirs = of_onnxruntime(path, x)
    y = np.stack([run_float(graph, {"x": sample[None]})["y"] for sample in x]).reshape(theirs.shape)
    np.testing.assert_allclose(y, theirs, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.parametrize(("first", "axis"), [(1, 1), (33, 1), (0, 2)], ids=["bins", "sines twice", "frames"])
def test_other_parts_of_a_convolution_stay_one(first: int, axis: int, tmp_path: Path) -> None:
    path = halves(tmp_path / "model.onnx", first, axis)
    graph, x = normalize(load_model(path)), shaken(path, 1)
    assert "conv2d" in operators(graph)
    assert "spectrum_sizes" not in operators(graph)
    theirs = of_onnxruntime(path, x)
    exact = np.stack([run_float(graph, {"x": sample[None]})["y"] for sample in x]).reshape(theirs.shape)
    np.testing.assert_allclose(exact, theirs, atol=2e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("make", [norms, norms_of_100, frames, halves])
def test_in_floats_it_is_a_transform(make: Callable[[Path], Path], tmp_path: Path) -> None:
    """Of the numbers in float64, rounded; ONNX Runtime's are further off for 100."""
    path = make(tmp_path / "model.onnx")
    x = shaken(path)
    graph = normalize(load_model(path), in_floats=True)
    assert "stft" in operators(graph)
    for sample in x:
        exact = run_float(normalize(load_model(path)), {"x": sample[None]})["y"]
        y = run_int(graph, {"x": sample[None]}, Numerics.OURS)["y"]
        np.testing.assert_allclose(y, exact, atol=2e-7 * np.abs(exact).max())


def test_other_transforms_are_products(tmp_path: Path) -> None:
    """Of a length that no transform has, and of what is no size."""
    path = norms(tmp_path / "model.onnx", 31)
    graph = normalize(load_model(path))
    assert "fully_connected" in operators(graph)
    assert "spectrum_sizes" not in operators(graph)
    x = shaken(path)
    exact = np.stack([run_float(graph, {"x": sample[None]})["y"][0] for sample in x])
    np.testing.assert_allclose(exact, of_onnxruntime(path, x).reshape(exact.shape), atol=1e-5)


def peaks(path: Path) -> Path:
    """Of each axis less its mean: the two largest bins, in Hz and by size, and how often the sign changes."""
    nodes = [
        op("ReduceMean", "x time", "mean"),
        op("Sub", "x mean", "centred"),
        op("Slice", "centred one end time", "later"),
        op("Slice", "centred zero before time", "earlier"),
        op("Mul", "later earlier", "product"),
        op("Less", "product nothing", "changes"),
        op("Cast", "changes", "ones", to=TensorProto.FLOAT),
        op("ReduceSum", "ones time", "crossings"),
        op("Unsqueeze", "centred last", "parts"),
        op("DFT", "parts none axis", "bins", onesided=1),
        op("ReduceL2", "bins last", "sizes", keepdims=0),
        op("TopK", "sizes two", "unused", axis=1),
        op("Cast", "places", "numbers", to=TensorProto.FLOAT),
        op("Mul", "numbers hertz", "hz"),
        op("Mul", "best small", "best_small"),
        op("Mul", "crossings small", "crossings_small"),
        op("Concat", "hz best_small crossings_small", "y", axis=1),
    ]
    nodes[9].input[1] = ""
    nodes[11].output[:] = ["best", "places"]
    consts = {"time": [1], "one": [1], "end": [128], "zero": [0], "before": [127], "nothing": 0.0, "last": [-1]}
    consts |= {"axis": 1, "two": [2], "hertz": 100 / 128, "small": 0.1}
    return write(path, nodes, (1, 128, AXES), (1, 5, AXES), **consts)


def test_peaks_and_crossings(tmp_path: Path) -> None:
    """Places of peaks are the real ones where no other bin is within a step of int8; C gives the reference's bytes."""
    path = peaks(tmp_path / "model.onnx")
    x = shaken(path, 24)
    assert "spectrum_sizes" in operators(normalize(load_model(path)))
    integer = integers(path, x, tmp_path, Recipe())
    assert integer.values["x"].dtype == "s16"  # what a signal is computed from has its width
    theirs = of_onnxruntime(path, x)
    quant = integer.values["y"].quant
    assert quant is not None
    scale = np.reshape(quant.scale, (-1, 1)) * np.ones((5, 1))  # of each quantity; of one scale, the same for all
    x_scale, _ = grid(integer, "x")
    outputs = [
        run_int(integer, {"x": np.round(each / x_scale).astype(np.int16)[None]}, Numerics.OURS)["y"] for each in x
    ]
    off = np.abs(np.stack([quant.reals(y)[0] for y in outputs]) - theirs)
    assert np.mean(off[:, 0] <= 0.6 * scale[0]) > 0.95
    assert np.mean(off[:, 1] <= 0.6 * scale[1]) > 0.8  # second peaks of noise are near each other
    assert (off[:, 2:4] <= scale[2:4]).all()
    assert off[:, 4].max() <= 0.5 + scale[4, 0]
    data = tmp_path / "data.npz"
    assert build(path, "host", out=tmp_path / "out", calibration=data, inputs=data).report.passed
