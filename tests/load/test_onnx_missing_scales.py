# SPDX-License-Identifier: Apache-2.0
"""Quantized files that leave layers in float, as PyTorch's quantizer for x86 leaves the last: scales from data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op, rand
from tests.load.onnx_quantized import run_unoptimized
from tinyc import build as build_library
from tinyc.base.errors import TinycError
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.ops.tables import quantize_linear
from tinyc.options.build import Options
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

SAMPLES = 40


def quantized_but(tail: Sequence[onnx.NodeProto], first: bool = True, **consts: Any) -> onnx.ModelProto:
    """A convolution and a dense layer on integers, with one scale for each output of weights; then float operators on
    `d` [1, 6]. first: whether the input is quantized."""
    start = [op("QuantizeLinear", "x sx zx", "xq"), op("DequantizeLinear", "xq sx zx", "xr")]
    nodes = [
        *(start if first else [op("Identity", "x", "xr")]),
        op("DequantizeLinear", "w0 s0 z0", "w0r", axis=0),
        op("Conv", "xr w0r b0", "c"),
        op("Relu", "c", "r"),
        op("QuantizeLinear", "r sr zr", "rq"),
        op("DequantizeLinear", "rq sr zr", "rr"),
        op("Flatten", "rr", "f"),
        op("DequantizeLinear", "w1 s1 z1", "w1r", axis=0),
        op("Gemm", "f w1r b1", "d", transB=1),
        *tail,
    ]
    rng = np.random.default_rng(5)
    held = {
        "sx": np.float32(0.03), "zx": np.uint8(120), "sr": np.float32(0.02), "zr": np.uint8(0),
        "w0": rng.integers(-127, 128, (4, 2, 3, 3)).astype(np.int8), "s0": rand(1, 4) ** 2 * np.float32(0.002) + 1e-4,
        "z0": np.zeros(4, np.int8), "b0": rand(2, 4) * np.float32(0.1),
        "w1": rng.integers(-127, 128, (6, 64)).astype(np.int8), "s1": rand(3, 6) ** 2 * np.float32(0.002) + 1e-4,
        "z1": np.zeros(6, np.int8), "b1": rand(4, 6) * np.float32(0.1),
    }  # fmt: skip
    typed = {name: np.asarray(a, np.float32) if np.asarray(a).dtype.kind == "f" else a for name, a in held.items()}
    return build(nodes, {"x": [1, 2, 6, 6]}, ["y"], {**typed, **consts}, opset=17)


TAILS = {
    "the layer": [op("Identity", "d", "y")],
    "softmax": [op("Softmax", "d", "y", axis=-1)],
    "gelu of the layer": [op("Sigmoid", "d", "g"), op("Mul", "d g", "y")],
    "two layers": [op("Relu", "d", "e"), op("Gemm", "e w2 b2", "y", transB=1)],
}
CONSTS = {"w2": rand(8, 3, 6), "b2": rand(9, 3)}


def written(folder: Path, model: onnx.ModelProto) -> tuple[Path, np.ndarray[Any, Any]]:
    """The file, and calibration data beside it."""
    onnx.save(model, folder / "model.onnx")
    x = np.stack([rand(20 + k, 1, 2, 6, 6) for k in range(SAMPLES)])
    np.savez(folder / "data.npz", x=x)
    return folder / "model.onnx", x


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("tail", TAILS)
def test_float_layers_of_a_quantized_file_get_scales_from_data(tail: str, first: bool, tmp_path: Path) -> None:
    path, x = written(tmp_path, quantized_but(TAILS[tail], first, **(CONSTS if tail == "two layers" else {})))
    options = Options("host", calibration=tmp_path / "data.npz")
    model = make_integers(path, load_board("host"), options, Progress())
    integer, held, y = model.graph, model.graph.values["x"], model.graph.values["y"]
    assert all(value.dtype != "f32" for value in integer.values.values())
    theirs = np.concatenate([run_unoptimized(onnx.load(path), {"x": sample}) for sample in x])
    integers = [quantize_linear(sample.transpose(model.perms["x"]), held) for sample in x]
    y_steps = np.concatenate([run_int(integer, {"x": sample}, Numerics.ONNX)["y"] for sample in integers])
    assert y.quant is not None
    off = np.abs(y.quant.dequantize(y_steps) - theirs)
    assert np.ptp(theirs) > 20 * y.quant.scale[0]
    assert off.max() <= (1 if first and tail == "the layer" else 6) * y.quant.scale[0]  # an end may lie half a step off
    assert np.median(off) < (0.5 if first and tail == "the layer" else 2) * y.quant.scale[0]


def test_the_library_is_proved_and_says_where_scales_come_from(tmp_path: Path) -> None:
    path, _ = written(tmp_path, quantized_but(TAILS["softmax"]))
    said: list[str] = []
    options = Options("host", calibration=tmp_path / "data.npz")
    make_integers(path, load_board("host"), options, Progress(on_warning=said.append))
    assert any("scales from the calibration data: d" in words for words in said)
    assert build_library(path, "host", out=tmp_path / "out", calibration=tmp_path / "data.npz").report.passed


def test_without_data_the_error_says_what_is_missing(tmp_path: Path) -> None:
    path, _ = written(tmp_path, quantized_but(TAILS["the layer"]))
    with pytest.raises(TinycError, match="stays in float") as caught:
        make_integers(path, load_board("host"), Options("host"), Progress())
    assert "--calibration" in caught.value.hint


def test_a_table_before_the_first_layer_does_not_change_that(tmp_path: Path) -> None:
    """Of integers a table is looked up in; made-up inputs, of which the first layer would tell the size, are no reals
    there."""
    model = quantized_but(TAILS["the layer"])
    (conv,) = [node for node in model.graph.node if node.op_type == "Conv"]
    gate = [
        op("Sigmoid", "xr", "g"),
        op("QuantizeLinear", "g sr zr", "gq"),
        op("DequantizeLinear", "gq sr zr", "gr"),
    ]
    conv.input[0] = "gr"
    for node in reversed(gate):
        model.graph.node.insert(2, node)
    path, _ = written(tmp_path, model)
    with pytest.raises(TinycError, match="stays in float") as caught:
        make_integers(path, load_board("host"), Options("host"), Progress())
    assert "--calibration" in caught.value.hint
    integer = make_integers(path, load_board("host"), Options("host", calibration=tmp_path / "data.npz"), Progress())
    assert "lookup" in {node.op for node in integer.graph.nodes}


def test_values_that_overflow_are_an_error(tmp_path: Path) -> None:
    tail = [op("Mul", "d huge", "e"), op("Mul", "e huge", "f2"), op("Gemm", "f2 w2 b2", "y", transB=1)]
    path, _ = written(tmp_path, quantized_but(tail, huge=np.float32(1e30), **CONSTS))
    with pytest.raises(TinycError, match="overflows on the calibration inputs"):
        make_integers(path, load_board("host"), Options("host", calibration=tmp_path / "data.npz"), Progress())
