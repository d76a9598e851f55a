# SPDX-License-Identifier: Apache-2.0
"""Small networks quantized by onnxruntime.quantization, and what ONNX Runtime computes with them, node by node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.numpy_helper
import onnxruntime
import pytest

from tests.load.onnx_models import build, op, rand
from tinyc.base.numerics import Numerics
from tinyc.ir.graph import Array, Graph
from tinyc.reference.interpreter import prepare_int

SAMPLES = 24


def convolutional(odd: bool = False) -> onnx.ModelProto:
    """Convolutions of every kind, residual add, pools, concat, gates, dense, softmax. odd: all averages are of 9 or 15
    numbers, so none is half an integer."""
    pool = [3, 3] if odd else [2, 2]
    nodes = [
        op("Conv", "x w0 b0", "c0", pads=[1, 1, 1, 1], strides=[2, 2]),
        op("Relu", "c0", "r0"),
        op("Conv", "r0 w1 b1", "c1", pads=[1, 1, 1, 1], group=8),
        op("Clip", "c1 zero six", "r1"),
        op("Conv", "r1 w2 b2", "c2"),
        op("Add", "c2 r0", "s0"),
        op("MaxPool", "s0", "m0", kernel_shape=pool, strides=[2, 2]),
        op("AveragePool", "s0", "a0", kernel_shape=pool, strides=[2, 2]),
        op("Concat", "m0 a0", "k0", axis=1),
        op("Conv", "k0 w3 b3", "c3"),
        op("Sigmoid", "c3", "g0"),
        op("Mul", "c3 g0", "h0"),
        op("LeakyRelu", "h0", "l0", alpha=0.2),
        op("GlobalAveragePool", "l0", "p0"),
        op("Flatten", "p0", "f0"),
        op("Gemm", "f0 w4 b4", "d0", transB=1),
        op("Softmax", "d0", "y", axis=-1),
    ]
    shapes = {"w0": (8, 3, 3, 3), "w1": (8, 1, 3, 3), "w2": (8, 8, 1, 1), "w3": (7, 16, 1, 1), "w4": (5, 7)}
    constants: dict[str, Any] = {"zero": np.float32(0), "six": np.float32(6)}
    for k, (name, shape) in enumerate(shapes.items()):
        constants[name] = rand(k, *shape) / np.float32(np.sqrt(np.prod(shape[1:])))
        constants[f"b{name[1:]}"] = rand(k + 50, shape[0]) * np.float32(0.2)
    return build(nodes, {"x": [1, 3, *((13, 21) if odd else (9, 11))]}, ["y"], constants, opset=17)


def dense() -> onnx.ModelProto:
    """Matrix products with the bias in an add, tanh, a product with a constant."""
    nodes = [
        op("MatMul", "x w0", "m0"),
        op("Add", "m0 b0", "a0"),
        op("Relu", "a0", "r0"),
        op("Mul", "r0 half", "h0"),
        op("MatMul", "h0 w1", "m1"),
        op("Add", "m1 b1", "y"),
    ]
    constants = {"w0": rand(1, 17, 12) / 4, "b0": rand(2, 12) / 4, "w1": rand(3, 12, 9) / 3, "b1": rand(4, 9) / 4}
    constants["half"] = np.float32(0.37)
    return build(nodes, {"x": [1, 17]}, ["y"], constants, opset=17)


def inputs(model: onnx.ModelProto, count: int = SAMPLES, seed: int = 7) -> list[dict[str, Array]]:
    shapes = {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in model.graph.input}
    return [
        {name: rand(seed + k + 1000 * n, *shape) for n, (name, shape) in enumerate(shapes.items())}
        for k in range(count)
    ]


def quantize(model: onnx.ModelProto, folder: Path, **options: Any) -> onnx.ModelProto:
    """The model quantized by onnxruntime.quantization, calibrated on `inputs`; skips the test without the package."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="needs onnxruntime.quantization")

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.samples: Iterator[dict[str, Array]] = iter(inputs(model))

        def get_next(self) -> Mapping[str, Array] | None:
            return next(self.samples, None)

    source, quantized_file = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(model, source)
    quantization.quantize_static(source, quantized_file, Reader(), **options)
    return onnx.load(quantized_file)


def run_unoptimized(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    """The first output, every node computed as it stands."""
    return next(iter(run_all_unoptimized(model, feeds).values()))


def run_all_unoptimized(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    names = [output.name for output in model.graph.output]
    return dict(zip(names, map(np.asarray, session.run(names, dict(feeds))), strict=True))


def unsigned(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same QOperator model with every byte moved by 128, zero points and weights alike.

    ONNX Runtime's sums of products of bytes are exact on every processor when both bytes are unsigned; else they
    saturate at 16 bits on x86 without VNNI.
    """
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    for tensor in moved.graph.initializer:
        if tensor.data_type == onnx.TensorProto.INT8:
            ints = onnx.numpy_helper.to_array(tensor).astype(np.int16) + 128
            tensor.CopyFrom(onnx.numpy_helper.from_array(ints.astype(np.uint8), tensor.name))
    return moved


def compared(graph: Graph, model: onnx.ModelProto) -> tuple[int, int, int]:
    """(output integers, how many differ from ONNX Runtime's, the largest step) over new random inputs."""
    program = prepare_int(graph, Numerics.ONNX)
    x, y = graph.values[graph.inputs[0]], graph.values[graph.outputs[0]]
    assert x.quant is not None
    assert y.quant is not None
    (x_scale, x_zero), (y_scale, y_zero) = x.quant.per_tensor, y.quant.per_tensor
    exact = unsigned(model) if any(node.op_type.startswith("QLinear") for node in model.graph.node) else model
    limits = np.iinfo({"s8": np.int8, "s16": np.int16, "u8": np.uint8}[x.dtype])
    steps = []
    for feed in inputs(model, seed=1000):
        (real,) = feed.values()
        q = np.clip(np.rint(real / np.float32(x_scale)) + x_zero, limits.min, limits.max).astype(limits.dtype)
        ours = program({x.name: q.reshape(x.shape)})[y.name].astype(np.int64)
        theirs = run_unoptimized(exact, feed)
        theirs_in_steps = np.rint(theirs.astype(np.float64) / y_scale).astype(np.int64) + y_zero
        steps.append(np.abs(ours.ravel() - theirs_in_steps.ravel()))
    flat = np.concatenate(steps)
    return flat.size, int(np.count_nonzero(flat)), int(flat.max())
