# SPDX-License-Identifier: Apache-2.0
"""Weights that a file clips to 4 bits (QCDQ, as Brevitas exports them) stay in 4 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.load.onnx_models import build, op
from tinyc import api
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Graph
from tinyc.load.onnx import load_onnx
from tinyc.passes import normalize
from tinyc.reference.interpreter import prepare_int

# operator, shapes of x and w, axis of the output channels, attributes
LAYERS: dict[str, tuple[tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = {
    "Conv": ((1, 4, 8, 8), (8, 4, 3, 3), 0, {}),
    "Conv, depthwise": ((1, 8, 8, 8), (8, 1, 3, 3), 0, {"group": 8}),
    "ConvTranspose": ((1, 4, 5, 5), (4, 6, 2, 2), 1, {"strides": [2, 2]}),
    "Gemm": ((1, 12), (7, 12), 0, {"transB": 1}),
}


def model(name: str, *, clipped: bool) -> onnx.ModelProto:
    """The layer between QuantizeLinear and DequantizeLinear. clipped: weights are floats, quantized and clipped to
    [-7, 7] by the file; else the same integers as int8."""
    x_shape, w_shape, axis, attrs = LAYERS[name]
    w = np.random.default_rng(len(name)).normal(0, 0.2, w_shape).astype(np.float32)
    out = w_shape[axis]
    scale = (np.abs(np.moveaxis(w, axis, 0).reshape(out, -1)).max(axis=1) / 7).astype(np.float32)
    along = [1] * w.ndim
    along[axis] = -1
    integers = np.clip(np.rint(w / scale.reshape(along)), -7, 7).astype(np.int8)
    constants = {"ws": scale, "wz": np.zeros(out, np.int8), "b": np.zeros(out, np.float32)}
    constants |= {"s": np.float32(0.05), "z": np.int8(0)}
    nodes = [op("QuantizeLinear", "x s z", "xq"), op("DequantizeLinear", "xq s z", "xd")]
    if clipped:
        constants |= {"w": w, "low": np.array(-7, np.int8), "high": np.array(7, np.int8)}
        nodes += [op("QuantizeLinear", "w ws wz", "wq", axis=axis), op("Clip", "wq low high", "wc")]
    else:
        constants["wc"] = integers
    nodes.append(op("DequantizeLinear", "wc ws wz", "wd", axis=axis))
    nodes.append(op(name.split(",", maxsplit=1)[0], "xd wd b", "c", **attrs))
    nodes += [op("QuantizeLinear", "c s z", "cq"), op("DequantizeLinear", "cq s z", "y")]
    return build(nodes, {"x": list(x_shape)}, ["y"], constants)


def loaded(name: str, folder: Path, *, clipped: bool) -> tuple[Path, Graph]:
    path = folder / f"model_{clipped}.onnx"
    onnx.save(model(name, clipped=clipped), path)
    return path, normalize(load_onnx(path))


@pytest.mark.parametrize("name", LAYERS)
def test_clipped_weights_have_4_bits_and_the_same_outputs(tmp_path: Path, name: str) -> None:
    (path, narrow), (_, wide) = (loaded(name, tmp_path, clipped=clipped) for clipped in (True, False))
    weights = [
        graph.values[node.inputs[1]].dtype for graph in (narrow, wide) for node in graph.nodes if node.inputs[1:]
    ]
    assert weights == ["s4", "s8"]
    rng = np.random.default_rng(5)
    x = {n: rng.integers(-128, 128, narrow.values[n].shape).astype(np.int8) for n in narrow.inputs}
    ours, theirs = (prepare_int(graph, Numerics.ONNX)(x)[graph.outputs[0]] for graph in (narrow, wide))
    np.testing.assert_array_equal(ours, theirs)
    assert len(np.unique(ours)) > 5
    assert api.verify(path, "host").passed


@pytest.mark.parametrize("bits", [2, 3, 6])
def test_biases_in_float_do_not_suffer_from_few_bits_of_weights(tmp_path: Path, bits: int) -> None:
    """They are rounded to a step of the sums: weights of 2 bits are stored as four times their integers, in 4 bits."""
    rng, largest = np.random.default_rng(bits), 2 ** (bits - 1) - 1
    w = rng.integers(-largest, largest + 1, (9, 20)).astype(np.int8)
    w[:, 0] = largest
    constants = {"w": w, "ws": rng.uniform(0.2, 0.4, 9).astype(np.float32), "wz": np.zeros(9, np.int8)}
    constants |= {"s": np.float32(0.05), "z": np.int8(3), "ys": np.float32(0.1)}
    constants |= {"b": rng.normal(0, 1, 9).astype(np.float32)}
    nodes = [op("QuantizeLinear", "x s z", "xq"), op("DequantizeLinear", "xq s z", "xd")]
    nodes += [op("DequantizeLinear", "w ws wz", "wd", axis=0), op("Gemm", "xd wd b", "c", transB=1)]
    nodes += [op("QuantizeLinear", "c ys z", "cq"), op("DequantizeLinear", "cq ys z", "y")]
    path = tmp_path / "model.onnx"
    onnx.save(build(nodes, {"x": (1, 20)}, ["y"], constants), path)
    graph = normalize(load_onnx(path))
    (layer,) = graph.nodes
    stored, quant = graph.consts[layer.inputs[1]], graph.values[layer.inputs[1]].quant
    assert np.array_equal(quant.dequantize(stored), w * constants["ws"][:, None])
    assert 64 <= np.abs(stored).max() <= 127
    x = rng.integers(-128, 128, (200, 1, 20)).astype(np.int8)
    own, step = prepare_int(graph, Numerics.ONNX), np.float64(np.float32(0.05))
    reals = (x[:, 0].astype(np.float64) - 3) * step @ (w * constants["ws"][:, None].astype(np.float64)).T + constants[
        "b"
    ]
    exact = np.clip(np.rint(reals / np.float32(0.1)) + 3, -128, 127)
    apart = np.concatenate([own({"x": one})["y"] for one in x]) != exact
    assert np.count_nonzero(apart) <= 0.01 * apart.size
