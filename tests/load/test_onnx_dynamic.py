# SPDX-License-Identifier: Apache-2.0
"""Dynamic quantization: scales that the model computes as it runs. In float32, exact while sums stay within 24 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.quantization import QuantType, quantize_dynamic

from tests.load.onnx_models import build, op
from tinyc import api
from tinyc.base.numerics import Numerics
from tinyc.load import load_model
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int

RNG = np.random.default_rng(4)


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.3, shape).astype(np.float32)


def quantized(name: str, kind: QuantType, folder: Path) -> Path:
    """What ONNX Runtime's quantize_dynamic makes of a small network."""
    if name == "mlp":
        nodes = [op("MatMul", "x w1", "a"), op("Add", "a b1", "b"), op("Relu", "b", "c"), op("Gemm", "c w2 b2", "y")]
        held = {"w1": weights(20, 16), "b1": weights(16), "w2": weights(16, 4), "b2": weights(4)}
        model = build(nodes, {"x": [1, 20]}, ["y"], held)
    else:
        nodes = [
            op("Conv", "x w1 b1", "a", pads=[1, 1, 1, 1]),
            op("Relu", "a", "b"),
            op("Conv", "b w2", "c", strides=[2, 2]),
            op("GlobalAveragePool", "c", "d"),
            op("Flatten", "d", "e"),
            op("MatMul", "e w3", "y"),
        ]
        held = {"w1": weights(6, 3, 3, 3), "b1": weights(6), "w2": weights(8, 6, 3, 3), "w3": weights(8, 4)}
        model = build(nodes, {"x": [1, 3, 8, 8]}, ["y"], held)
    onnx.save(model, folder / "float.onnx")
    quantize_dynamic(folder / "float.onnx", folder / "dynamic.onnx", weight_type=kind)
    return folder / "dynamic.onnx"


def session(path: Path) -> onnxruntime.InferenceSession:
    """Without the kernels of some x86 cores whose sums of int8 products saturate at 16 bits."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8], ids=["int8", "uint8"])
@pytest.mark.parametrize("name", ["mlp", "cnn"])
def test_networks_equal_onnxruntime(name: str, kind: QuantType, tmp_path: Path) -> None:
    path = quantized(name, kind, tmp_path)
    operators = {node.op_type for node in onnx.load(path).graph.node}
    assert operators >= {"DynamicQuantizeLinear", "MatMulInteger"} | ({"ConvInteger"} if name == "cnn" else set())
    graph = normalize(load_model(path), True)
    run, theirs = prepare_int(graph, Numerics.OURS), session(path)
    for _ in range(10):
        x = RNG.normal(0, 1, graph.values["x"].shape).astype(np.float32)
        shape = theirs.get_inputs()[0].shape
        (exact,) = theirs.run(None, {"x": x if x.shape == tuple(shape) else x.transpose(0, 3, 1, 2)})
        np.testing.assert_allclose(run({"x": x})[graph.outputs[0]], exact, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("x", [[-1.5, 0.25, 3.0], [1.0, 2.0, 5.0], [-7.0, -1.0, -0.5], [0.0, 0.0, 0.0]], ids=str)
def test_ranges(x: list[float], tmp_path: Path) -> None:
    """Scale, zero point and integers, with 0 in the range, and of nothing but zeros."""
    path = tmp_path / "range.onnx"
    onnx.save(build([op("DynamicQuantizeLinear", "x", "y s z")], {"x": [1, 3]}, ["y", "s", "z"]), path)
    graph = normalize(load_model(path), True)
    row = np.array([x], np.float32)
    outputs = prepare_int(graph, Numerics.OURS)({"x": row})
    for name, theirs in zip(("y", "s", "z"), session(path).run(None, {"x": row}), strict=True):
        np.testing.assert_array_equal(outputs[name], theirs)


def test_on_a_board(tmp_path: Path) -> None:
    path = quantized("mlp", QuantType.QInt8, tmp_path)
    assert api.verify(path, "cortex-m4", precision="float32", samples=2).passed
