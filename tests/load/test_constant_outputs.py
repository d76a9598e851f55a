# SPDX-License-Identifier: Apache-2.0
"""Outputs that no input reaches: a detector's anchors, a table handed on. The library's bytes are other runtimes'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import tinyc
from tests.load.onnx_models import build, op, rand, run_onnxruntime
from tests.load.tflite_models import act, bias, weights
from tests.ops.one_node import random_s8
from tests.ops.runtimes import run_litert
from tests.ops.tflite_builder import Operator, Tensor, build_model
from tinyc.base.errors import TinycError
from tinyc.load import load_model

CONSTANTS = ("stored", "image", "sum", "total", "counts", "kept", "left", "right")


def model() -> onnx.ModelProto:
    """Initializers that are outputs, one of them read as well, and what nodes make of them: with two outputs, too."""
    nodes = [
        op("Add", "x used", "y"),
        op("Identity", "used", "kept"),
        op("Add", "stored column", "sum"),
        op("ReduceSum", "stored", "total", keepdims=0),
        op("Split", "stored halves", "left right", axis=1),
    ]
    constants = {
        "used": rand(1, 1, 4),
        "stored": rand(2, 2, 4),
        "column": rand(3, 2, 1),
        "image": rand(4, 1, 3, 4, 2),
        "counts": np.arange(6),
        "halves": np.array([2, 2]),
    }
    return build(nodes, {"x": (1, 4)}, [*CONSTANTS[:2], "y", *CONSTANTS[2:]], constants)


@pytest.mark.parametrize("precision", ["float32", "integer"])
def test_onnx(tmp_path: Path, precision: str) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(model(), path)
    x = rand(9, 1, 4)
    data = None if precision == "float32" else np.stack([x, -x])
    built = tinyc.build(path, "host", out=tmp_path / "out", precision=precision, calibration=data)
    assert built.report.passed
    library = built.load()
    got = library.run(x[0])
    reference = run_onnxruntime(model(), {"x": x})
    for port, array in zip(library.outputs, got, strict=True):
        expected = reference[port.name].reshape(array.shape)
        step = 0 if array.dtype == np.int32 or precision == "float32" else port.scale
        np.testing.assert_allclose(array, expected, rtol=0, atol=1.01 * step + 1e-6)


def test_tflite(tmp_path: Path) -> None:
    tensors = [
        act("x", 1, 8),
        weights("w", 4, 8),
        bias("b", 4),
        act("y", 1, 4, scale=0.5),
        Tensor("near", (1, 6, 4), "s8", (0.1,), (3,), data=random_s8(1, (1, 6, 4))),
        Tensor("far", (1, 2, 4), "s8", (0.1,), (3,), data=random_s8(2, (1, 2, 4))),
        Tensor("both", (1, 8, 4), "s8", (0.1,), (3,)),
        Tensor("anchors", (1, 8, 4), "f32"),
    ]
    operators = [
        Operator("FULLY_CONNECTED", ("x", "w", "b"), ("y",), "FullyConnectedOptions"),
        Operator("CONCATENATION", ("near", "far"), ("both",), "ConcatenationOptions", {"Axis": 1}),
        Operator("DEQUANTIZE", ("both",), ("anchors",)),
    ]
    content = build_model(tensors, operators, ["x"], ["anchors", "y", "near"])
    path = tmp_path / "m.tflite"
    path.write_bytes(content)
    built = tinyc.build(path, "host", out=tmp_path / "out")
    assert built.report.passed
    x = random_s8(3, (1, 8))
    for got, theirs in zip(built.load().run(x[0]), run_litert(content, x), strict=True):
        np.testing.assert_array_equal(got.ravel(), theirs.ravel())


def test_integers_of_more_than_32_bits(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(build([op("Relu", "x", "y")], {"x": (1, 4)}, ["y", "k"], {"k": np.array([2**40])}), path)
    with pytest.raises(TinycError, match="'k' holds integers of more than 32 bits"):
        load_model(path)
    assert load_model(path, ["y"]).outputs == ("y",)


def test_beside_a_quantized_network(tmp_path: Path) -> None:
    """QDQ, whose table of floats is handed out as it is."""
    nodes = [
        op("QuantizeLinear", "x s z", "xq"),
        op("DequantizeLinear", "xq s z", "xd"),
        op("DequantizeLinear", "w s z", "wd"),
        op("MatMul", "xd wd", "m"),
        op("QuantizeLinear", "m t z", "mq"),
        op("DequantizeLinear", "mq t z", "y"),
        op("Concat", "left right", "anchors", axis=0),
    ]
    constants = {"s": np.float32(0.02), "t": np.float32(0.05), "z": np.int8(0), "w": np.arange(-8, 8, dtype=np.int8)}
    constants["w"] = constants["w"].reshape(4, 4)
    constants |= {"left": rand(5, 2, 4), "right": rand(6, 1, 4)}
    mixed_model = build(nodes, {"x": (1, 4)}, ["y", "anchors"], constants)
    path = tmp_path / "m.onnx"
    onnx.save(mixed_model, path)
    built = tinyc.build(path, "host", out=tmp_path / "out")
    assert built.report.passed
    library = built.load()
    x = rand(9, 1, 4)
    reference = run_onnxruntime(mixed_model, {"x": x})
    names = [port.name for port in library.outputs]
    given = np.rint(x[0] / 0.02).clip(-128, 127).astype(np.int8)
    got = dict(zip(names, library.run(given), strict=True))
    np.testing.assert_array_equal(got["anchors"].reshape(3, 4), reference["anchors"])
    np.testing.assert_array_equal(got["y"].reshape(-1), np.rint(reference["y"].reshape(-1) / 0.05))
