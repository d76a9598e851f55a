# SPDX-License-Identifier: Apache-2.0
"""Integers of 4 and 2 bits: casts, and activations of 4 bits in QDQ networks, beside ONNX Runtime and NumPy's types."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.load.onnx_models import build, op, rand
from tests.load.onnx_quantized import run_unoptimized
from tinyc import build as build_library
from tinyc.base.numerics import Numerics
from tinyc.board import load_board
from tinyc.load import load_model
from tinyc.options.build import Options
from tinyc.passes import normalize
from tinyc.pipeline.integers import make_integers
from tinyc.pipeline.progress import Progress
from tinyc.reference.interpreter import run_int

TYPES = {"INT4": ml_dtypes.int4, "UINT4": ml_dtypes.uint4, "INT2": ml_dtypes.int2, "UINT2": ml_dtypes.uint2}


@pytest.mark.parametrize("source", ["FLOAT", "INT32", "UINT8"])
@pytest.mark.parametrize("name", TYPES)
def test_casts_keep_the_low_bits(name: str, source: str, tmp_path: Path) -> None:
    """To the narrow type and on to int32, whose numbers show all of it."""
    number, given = getattr(TensorProto, name), getattr(TensorProto, source)
    nodes = [op("Cast", "x", "n", to=number), op("Cast", "n", "y", to=TensorProto.INT32)]
    model = build(nodes, {"x": [40]}, ["y"], opset=25, ir_version=13, elem_type=given)
    onnx.save(model, tmp_path / "m.onnx")
    x = np.arange(-20, 20).astype(helper.tensor_dtype_to_np_dtype(given))
    precision = "float32" if source == "FLOAT" else "integer"
    integers = make_integers(
        tmp_path / "m.onnx", load_board("host"), Options("host", precision=precision), Progress()
    ).graph
    (y,) = run_int(integers, {"x": x}, Numerics.ONNX).values()
    exact = np.trunc(x).astype(np.int32).astype(TYPES[name]).astype(np.int32)
    np.testing.assert_array_equal(y, exact)
    np.savez(tmp_path / "data.npz", x=x[None])
    y = build_library(
        tmp_path / "m.onnx", "host", out=tmp_path / "out", inputs=tmp_path / "data.npz", precision=precision
    )
    assert y.report.passed


@pytest.mark.parametrize(("name", "zero"), [("INT4", 0), ("INT4", -3), ("UINT4", 0), ("UINT4", 7)])
def test_activations_of_four_bits_are_exact(name: str, zero: int, tmp_path: Path) -> None:
    """A convolution with relu and a dense layer, all activations of 4 bits."""
    kind, rng = TYPES[name], np.random.default_rng(4)
    scales = {"sx": 0.25, "sr": 0.3171, "sy": 0.9137, "s0": 0.01}
    tensors = {key: np.float32(number) for key, number in scales.items()}
    tensors["w0"] = rng.integers(-127, 128, (5, 2, 3, 3)).astype(np.int8)
    tensors["w1"] = rng.integers(-127, 128, (3, 80)).astype(np.int8)
    nodes = [
        op("QuantizeLinear", "x sx zx", "xq"), op("DequantizeLinear", "xq sx zx", "xr"),
        op("DequantizeLinear", "w0 s0", "w0r"), op("Conv", "xr w0r", "c"), op("Relu", "c", "r"),
        op("QuantizeLinear", "r sr zx", "rq"), op("DequantizeLinear", "rq sr zx", "rr"), op("Flatten", "rr", "f"),
        op("DequantizeLinear", "w1 s0", "w1r"), op("Gemm", "f w1r", "g", transB=1),
        op("QuantizeLinear", "g sy zx", "yq"), op("DequantizeLinear", "yq sy zx", "y"),
    ]  # fmt: skip
    model = build(nodes, {"x": [1, 2, 6, 6]}, ["y"], tensors, opset=21, ir_version=10)
    model.graph.initializer.append(numpy_helper.from_array(np.array(zero, kind), "zx"))
    onnx.save(model, tmp_path / "m.onnx")
    integers = make_integers(tmp_path / "m.onnx", load_board("host"), Options("host"), Progress())
    x = rand(6, 20, 1, 2, 6, 6)
    held, y = integers.graph.values["x"], integers.graph.values["y"]
    assert held.quant is not None
    assert y.quant is not None
    ends = set()
    for sample in x:
        steps = np.clip(np.rint(sample / np.float32(0.25)) + zero, *TYPE_ENDS[name]).astype(np.int64)
        ints = (steps - zero + held.quant.zero[0]).astype(np.int8).transpose(integers.perms.get("x", (0, 1, 2, 3)))
        y_steps = run_int(integers.graph, {"x": ints}, Numerics.ONNX)["y"]
        np.testing.assert_allclose(y.quant.dequantize(y_steps), run_unoptimized(model, {"x": sample}), atol=1e-5)
        ends.update(y_steps.ravel().tolist())
    span = (max(ends) - min(ends)) if ends else 0
    assert 2 <= span <= 15


TYPE_ENDS = {"INT4": (-8, 7), "UINT4": (0, 15)}


@pytest.mark.parametrize("name", TYPES)
def test_stored_tensors_are_unpacked(name: str, tmp_path: Path) -> None:
    """Seven numbers, which end within a byte, as raw data and as a list."""
    lo, hi = int(ml_dtypes.iinfo(TYPES[name]).min), int(ml_dtypes.iinfo(TYPES[name]).max)
    numbers = np.linspace(lo, hi, 7).round().astype(TYPES[name])
    tensor = numpy_helper.from_array(numbers, "w")
    model = build([op("Cast", "w", "f", to=1), op("Mul", "x f", "y")], {"x": [7]}, ["y"], opset=25, ir_version=13)
    model.graph.initializer.append(tensor)
    onnx.save(model, tmp_path / "m.onnx")
    graph = normalize(load_model(tmp_path / "m.onnx"))
    (held,) = graph.consts.values()
    np.testing.assert_array_equal(held.ravel(), numbers.astype(np.float32))
